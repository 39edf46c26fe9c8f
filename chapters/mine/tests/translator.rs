//! The translator on the solutions writes what the book's writes, however much of it is the reader's.

use mine::translator::{Mine, translate, translate_with_cache};

#[test]
fn the_translator_writes_as_the_book_does() {
    let (model, _) = ch09_training::weights::shipped().unwrap();
    for text in [
        "29 novembre 2026",
        "2026年11月29日",
        "May 3rd, 1999",
        "x",
        "(:",
    ] {
        let book = ch09_training::translate::translate(&model, text).unwrap();
        for [cross, layers, greedy] in [
            [false, false, false],
            [true, false, false],
            [false, false, true],
            [true, true, false],
            [true, true, true],
        ] {
            let mine = Mine {
                cross,
                layers,
                greedy,
            };
            let yours = translate(&model, text, mine).unwrap();
            assert_eq!(yours, book.written, "{text}, {mine:?}");
            let cached = translate_with_cache(&model, text, mine).unwrap();
            assert_eq!(cached, book.written, "{text}, {mine:?}, with a cache");
        }
    }
    for text in ["", &"1".repeat(201)] {
        assert!(translate(&model, text, Mine::default()).is_err());
    }
}
