//! The weights of the book on dates that a person wrote, not the generator, and on what is no date.

use ch08_transformer::{Settings, Transformer};
use ch09_training::dates::{Language, Split, random_date, write};
use ch09_training::reading::{as_read, is_one_date};
use ch09_training::translate::{LONGEST, Translation, translate};
use ch09_training::weights::shipped;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use std::sync::LazyLock;

fn model() -> &'static Transformer<f32> {
    static MODEL: LazyLock<Transformer<f32>> =
        LazyLock::new(|| shipped().unwrap().0);
    &MODEL
}

fn translated(text: &str) -> Translation {
    translate(model(), text).unwrap()
}

const DATES: [(&str, &[&str]); 23] = [
    (
        "2026-11-29",
        &[
            "29.11.2026",
            "2026/11/29",
            "Nov 29, 2026",
            "29 novembre 2026",
            "2026年11月29日",
            "二〇二六年十一月二十九日",
            "Sunday, November 29, 2026",
            "Sonntag, 29. November 2026",
            "dimanche 29 novembre 2026",
            "2026年11月29日星期日",
            "2026年11月29日 週日",
            "29  November  2026",
            "２０２６年１１月２９日",
            "2026-11-29",
            "20261129",
        ],
    ),
    ("1789-07-14", &["14 juillet 1789", "le 14 juillet 1789"]),
    ("1776-07-04", &["July 4, 1776", "the 4th of July 1776"]),
    ("1969-07-20", &["July 20th, 1969", "20 Jul 1969"]),
    (
        "1990-10-03",
        &["3. Oktober 1990", "03.10.1990", "3.10.1990"],
    ),
    ("1949-10-01", &["1949年10月1日", "一九四九年十月一日"]),
    ("2024-02-29", &["29. Februar 2024", "29 février 2024"]),
    ("2000-02-29", &["Feb. 29, 2000", "二零零零年二月二十九日"]),
    ("2000-01-01", &["1er janvier 2000", "1. Jänner 2000"]),
    (
        "1999-12-31",
        &["31 décembre 1999", "31 DECEMBRE 1999", "31/12/1999"],
    ),
    ("2001-09-11", &["September 11, 2001", "Sept. 11, 2001"]),
    ("1918-11-11", &["11 novembre 1918", "11/11/1918"]),
    ("1879-03-14", &["14. März 1879", "14 mars 1879"]),
    ("2012-08-05", &["5 août 2012", "5 aout 2012", "5.8.2012"]),
    ("1066-10-14", &["14 October 1066"]),
    ("2100-05-17", &["17. Mai 2100", "le lundi 17 mai 2100"]),
    ("1989-11-09", &["9. Nov. 1989", "am 9. November 1989"]),
    (
        "2019-06-22",
        &["22nd June 2019", "22 juin 2019", "JUNE 22, 2019"],
    ),
    (
        "2008-08-08",
        &["2008年8月8號", "2008年8月8号", "2008.08.08"],
    ),
    (
        "2021-04-01",
        &["Thursday, 1 April 2021", "jeudi 1er avril 2021"],
    ),
    (
        "2023-01-21",
        &["二〇二三年一月廿一日", "2023 年 1 月 21 日"],
    ),
    ("2010-10-10", &["10-10-2010", "二〇一〇年十月十日"]),
    ("1955-11-05", &["5-Nov-1955", "Saturday 5 November 1955"]),
];

#[test]
fn dates_written_by_hand_are_read() {
    let (mut wrong, mut count, mut sure) = (vec![], 0, 0);
    for (iso, texts) in DATES {
        for text in texts {
            let answer = translated(text);
            println!("{text} → {} ({:.4})", answer.written, answer.probability());
            count += 1;
            sure += usize::from(answer.is_sure());
            if answer.written != iso {
                wrong.push(format!("{text}: {}", answer.written));
            }
        }
    }
    assert!(count >= 60, "only {count} dates");
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Right and unsure is no fault, if it is rare.
    assert!(sure >= count - 6, "sure of {sure} of {count} dates");
}

#[test]
fn what_is_no_date_is_unsure() {
    let longest = "a".repeat(LONGEST);
    let longest_digits = "29.11.2026 ".repeat(LONGEST)[..LONGEST].to_owned();
    let texts = [
        "hello, world",
        "a",
        " ",
        "   ",
        "\n",
        "\0",
        "\u{202e}29.11.2026\u{202c}",
        "٢٩ نوفمبر ٢٠٢٦",
        "29 בנובמבר 2026",
        "안녕하세요",
        "2026년 11월 29일",
        "🎂🎉",
        "29 ноября 2026",
        "two thousand and twenty-six",
        "novembre",
        "November",
        "2026",
        "29",
        "1234567890",
        "99999999",
        "00000000",
        "20261329",
        "12/29/2026",
        "11/29/2026",
        "11-29-2026",
        "10.31.1999",
        "30 February 2026",
        "30. Februar 2026",
        "30/02/2026",
        "31.11.2026",
        "32.12.2026",
        "2026年13月1日",
        "29.11.",
        "November 2026",
        "29 novembre",
        "The quick brown fox jumps over the lazy dog",
        "e\u{301}e\u{301}e\u{301}",
        &longest,
        &longest_digits,
    ];
    let mut sure = vec![];
    for text in texts {
        let answer = translated(text);
        println!(
            "{text:?} → {} ({:.3})",
            answer.written,
            answer.probability()
        );
        if answer.is_sure() {
            let probability = answer.probability();
            sure.push(format!("{text:?}: {} ({probability:.3})", answer.written));
        }
    }
    assert!(sure.is_empty(), "sure of what is no date: {sure:#?}");
}

#[test]
fn what_cannot_be_translated_is_refused() {
    let refused = |text: &str| translate(model(), text).unwrap_err().to_string();
    assert_eq!(refused(""), "there is nothing to translate");
    for letter in ["a", "年", "🎂"] {
        translated(&letter.repeat(LONGEST));
        let error = refused(&letter.repeat(LONGEST + 1));
        assert!(error.contains("201 characters"), "{error}");
    }
    assert!(refused(&"9".repeat(100_000)).contains("100000"));
}

/// Every kind of space is a space.
#[test]
fn spaces_are_spaces() {
    let plain = translated("29 novembre 2026");
    for space in ['\t', '\n', '\u{a0}', '\u{202f}', '\u{3000}', '\u{2009}'] {
        let text = format!("29{space}novembre{space}2026");
        assert_eq!(translated(&text), plain, "{space:?}");
    }
}

#[test]
fn what_was_looked_at_is_shared_out() {
    for text in ["29 novembre 2026", "hello", "年", "2026-11-29"] {
        let answer = translated(text);
        let m = answer.probabilities.len();
        let n = text.chars().count();
        assert!(answer.written.chars().count() <= m && m <= 11);
        assert!(answer.probabilities.iter().all(|p| (0.0..=1.0).contains(p)));
        let product: f64 = answer.probabilities.iter().product();
        assert_eq!(answer.probability(), product);
        assert_eq!(answer.looked_at.len(), model().decoder.layers.len());
        for (layer, looked_at) in answer.looked_at.iter().enumerate() {
            let heads = model().decoder.layers[layer].cross_attention.heads();
            assert_eq!(looked_at.dim(), (heads, m, n), "{text}");
            for row in looked_at.rows() {
                assert!((row.sum() - 1.0).abs() < 1e-5);
            }
        }
    }
}

#[test]
fn only_days_of_the_calendar_are_sure() {
    let of = |written: &str, probability: f64| Translation {
        read: "29.11.2026".into(),
        written: written.into(),
        probabilities: vec![probability],
        looked_at: vec![],
    };
    for sure in ["2026-11-29", "2024-02-29", "0001-01-01", "9999-12-31"] {
        assert!(of(sure, 1.0).is_sure() && of(sure, 0.9).is_sure(), "{sure}");
        assert!(!of(sure, 0.89).is_sure() && !of(sure, f64::NAN).is_sure());
    }
    for unsure in [
        "",
        "2026-02-30",
        "2023-02-29",
        "2026-13-01",
        "2026-00-10",
        "20261129",
        "2026-11-2",
        "2026-11-291",
        "----------",
        "-001-01-01",
        "2026-1129-",
        "2026-W48-7",
    ] {
        assert!(!of(unsure, 1.0).is_sure(), "{unsure}");
    }
}

/// A model that has learned nothing writes something, and one for other tokens is refused.
#[test]
fn other_models_do_not_panic() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let settings = Settings {
        source_vocabulary: 200,
        target_vocabulary: 14,
        ..Settings::small()
    };
    let of = |source_vocabulary, target_vocabulary| Settings {
        source_vocabulary,
        target_vocabulary,
        ..settings.clone()
    };
    let random = |settings: &Settings, rng: &mut ChaCha8Rng| {
        Transformer::<f32>::random(settings, rng).unwrap()
    };
    let untaught = random(&settings, &mut rng);
    for text in ["29.11.2026", "🎂"] {
        let answer = translate(&untaught, text).unwrap();
        assert!(!answer.is_sure(), "{answer:?}");
    }
    // It reads fewer tokens than there are.
    assert!(translate(&random(&of(2, 14), &mut rng), "29.11.2026").is_err());
    // It writes none, or only one that nobody may write, or more than there are.
    assert!(translate(&random(&of(200, 1), &mut rng), "29.11.2026").is_err());
    for many in [2, 3, 4, 40] {
        let answer = translate(&random(&of(200, many), &mut rng), "29.11.2026");
        assert!(answer.is_err() || !answer.unwrap().is_sure(), "{many}");
    }
    // Numbers out of range.
    let mut broken = untaught;
    broken.output.numbers_mut().0.fill(f32::NAN);
    if let Ok(answer) = translate(&broken, "29.11.2026") {
        assert!(!answer.is_sure());
    }
}

/// However often the model learned to see one date, a text with more than that is not one.
#[test]
fn one_date_and_something_else_is_unsure() {
    let texts = [
        "from 1 May 2020 to 3 May 2020",
        "not 3 May 2020",
        "3 May 2020 not",
        "3-5 May 2020",
        "3–5 May 2020",
        "May 3/4 2020",
        "3 or 4 May 2020",
        "3 May 2020/2021",
        "3 May 2020 and 4 May 2020",
        "before 3 May 2020",
        "after 3 May 2020",
        "since 3 May 2020",
        "3 May 2020 on",
        "3 May 2020 at 12:30",
        "3 May 2020 BC",
        "3 May, June 2020",
        "Monday, Tuesday 3 May 2020",
        "3 May 2020?",
        "~3 May 2020",
        "-3 May 2020",
        "3 May 2020 -",
        "3 May 2020 5",
        "2020-05-03 2020-05-04",
        "2020-05-03/04",
        "2020-05-03T12:00",
        "20200503 20200504",
        "20200503/4",
        "03.05.2020-05.05.2020",
        "3.5.2020, 4.5.2020",
        "nicht am 3. Mai 2020",
        "vor dem 3. Mai 2020",
        "vom 1. bis 3. Mai 2020",
        "3. und 4. Mai 2020",
        "kein 3. Mai 2020",
        "seit 3. Mai 2020",
        "du 1er au 3 mai 2020",
        "pas le 3 mai 2020",
        "avant le 3 mai 2020",
        "les 3 et 4 mai 2020",
        "3 mai 2020 av. J.-C.",
        "不是2020年5月3日",
        "2020年5月3日前",
        "2020年5月3日至5日",
        "2020年5月3、4日",
        "2020年5月3日或4日",
        "公元前2020年5月3日",
        "民國109年5月3日",
        "二〇二〇年五月三日到五日",
        "2020年5月3日星期一星期二",
        "not 3\u{ad} May 2020",
    ];
    let wrong: Vec<_> = texts.iter().filter(|text| is_one_date(text)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for text in ["from 1 May 2020 to 3 May 2020", "not 3 May 2020"] {
        assert!(!translated(text).is_sure(), "{text}");
    }
}

#[test]
fn whatever_the_model_is_taught_is_one_date() {
    let mut rng = ChaCha8Rng::seed_from_u64(84);
    for language in Language::ALL {
        for _ in 0..4_000 {
            let day = random_date(Split::Training, &mut rng);
            let text = write(day, language, &mut rng).text;
            assert!(is_one_date(&text), "{text:?}");
        }
    }
    for text in DATES.iter().flat_map(|(_, texts)| *texts) {
        assert!(is_one_date(text), "{text:?}");
    }
}

#[test]
fn one_text_in_several_spellings_is_read_alike() {
    for (plain, spellings) in [
        (
            "14 février 2019",
            &[
                "14 fe\u{301}vrier 2019",
                "\u{feff}14 février 2019",
                "14 fév\u{ad}rier 2019",
                "\u{200e}14 février 2019\u{200f}",
                "14\u{202f}février\u{a0}2019",
                "14 fe\u{200d}\u{301}vrier\u{2060} 2019",
            ][..],
        ),
        ("14. März 1879", &["14. Ma\u{308}rz 1879"]),
        ("14 FÉVRIER 2019", &["14 FE\u{301}VRIER 2019"]),
        ("5 août 2012", &["5 aou\u{302}t 2012"]),
        (
            "2019-02-14",
            &[
                "2019\u{2011}02\u{2011}14",
                "2019\u{2010}02\u{2013}14",
                "2019\u{2212}02\u{2212}14",
            ],
        ),
        (
            "2008年8月8日",
            &["2008\u{f98e}8\u{2f49}8\u{2f47}", "2008年8月8日\u{fe0f}"],
        ),
    ] {
        let answer = translated(plain);
        assert!(answer.is_sure(), "{plain}: {answer:?}");
        for spelling in spellings {
            assert_eq!(translated(spelling), answer, "{spelling:?}");
        }
    }
    // What turns the direction of writing changes what is seen.
    assert!(!translated("\u{202e}29.11.2026\u{202c}").is_sure());
    assert_eq!(as_read("e\u{300}"), "e\u{300}");
}
