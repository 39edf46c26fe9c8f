//! What the live figures show: at rest the pictures of the pages, else the chapters' own results, and of
//! what makes no sense a message.

use ch01_alignment::{alignment_scores, plane_example};
use ch02_softmax::{naive_softmax, softmax, softmax_with_temperature, weighted_sum, word_values};
use ch04_masks::{Mask, masked_softmax};
use ch06_self_attention::{self_attention, sentence, wants_meet_offers};
use ch09_training::translate::translate;
use ch09_training::weights::shipped;
use ch10_efficient::{Online, rising_example};
use figures::with::hand_made;
use figures::{number, short};
use ndarray::{Array1, Array2, Array4, Axis, array, s};
use std::str::FromStr;
use widgets::page::{GROUP, RECORD, UNIT, draw};
use widgets::{Kind, Live, NUMBERS, State, Use, View, all, find};

/// The values at rest, some of them changed.
fn values(live: &Live, changes: &[(&str, &str)]) -> Vec<String> {
    let controls = live.controls().unwrap();
    for (name, _) in changes {
        assert!(controls.iter().any(|c| c.name == *name), "{name}");
    }
    controls
        .iter()
        .map(|control| {
            let change = changes.iter().find(|(name, _)| *name == control.name);
            change.map_or(control.default.clone(), |(_, value)| (*value).to_owned())
        })
        .collect()
}

fn shown(chapter: &str, figure: &str, changes: &[(&str, &str)]) -> (State, View) {
    let live = find(chapter, figure).unwrap();
    live.draw(values(live, changes)).unwrap()
}

fn refused(chapter: &str, figure: &str, changes: &[(&str, &str)]) -> String {
    let live = find(chapter, figure).unwrap();
    let error = live.draw(values(live, changes)).unwrap_err();
    format!("{error:#}")
}

/// The cells of a row, without its heading.
fn row<'a>(view: &'a View, name: &str) -> &'a [String] {
    let row = view.table.iter().find(|row| row[0] == name);
    &row.unwrap_or_else(|| panic!("no row {name} in {:?}", view.table))[1..]
}

fn spelled<'a>(numbers: impl IntoIterator<Item = &'a f64>, decimals: usize) -> Vec<String> {
    let numbers = numbers.into_iter();
    numbers.map(|&x| number(x, decimals)).collect()
}

fn at<T: FromStr>(state: &State, name: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    state.values()[state.place(name).unwrap()].parse().unwrap()
}

#[test]
fn at_rest_each_is_the_picture_on_the_page() {
    for live in all() {
        let (state, view) = live.at_rest().unwrap();
        let still = figures::find(live.chapter, live.figure).unwrap();
        let still = still.draw().unwrap();
        assert_eq!(view.picture, still, "{}", live.id());
        for (control, value) in live.controls().unwrap().iter().zip(state.values()) {
            let is_seen = control.kind != Kind::Hidden;
            assert!(!is_seen || *value == control.default, "{}", live.id());
        }
    }
}

#[test]
fn each_says_and_lists_what_it_shows() {
    for live in all() {
        let (_, view) = live.at_rest().unwrap();
        let id = live.id();
        assert!(view.said.ends_with('.') && live.hint.ends_with('.'), "{id}");
        let width = view.table[0].len();
        assert!(view.table.len() > 1 && width > 1, "{id}");
        assert!(view.table.iter().all(|row| row.len() == width), "{id}");
        for (i, control) in live.controls().unwrap().iter().enumerate() {
            assert!(!control.label.is_empty(), "{id}");
            let is_slider = matches!(control.kind, Kind::Slider { .. });
            let (state, _) = live.at_rest().unwrap();
            assert_eq!(
                !state.shown()[i].is_empty(),
                is_slider,
                "{id} {}",
                control.name
            );
        }
    }
}

#[test]
fn a_dragged_query_scores_as_chapter_1_says() {
    // The place of (1, 1) in the picture.
    let (state, view) = shown("ch01", "angle", &[("tip", "208 90")]);
    assert_eq!((at::<f64>(&state, "x"), at::<f64>(&state, "y")), (1.0, 1.0));
    let (_, keys) = plane_example();
    let scores = alignment_scores(&array![[1.0, 1.0]], &keys).unwrap();
    for (j, score) in scores.iter().enumerate() {
        let cells = row(&view, &format!("k{}", j + 1));
        assert_eq!(cells.last().unwrap(), &number(*score, 2));
    }
    // Whoever drags it off the picture finds it at the edge.
    let (state, _) = shown("ch01", "angle", &[("tip", "-9000 9000")]);
    assert_eq!(
        (at::<f64>(&state, "x"), at::<f64>(&state, "y")),
        (-2.0, -0.4)
    );
}

#[test]
fn a_query_of_zero_has_scores_and_no_arrow() {
    let (_, view) = shown("ch01", "angle", &[("x", "0"), ("y", "0")]);
    assert_eq!(row(&view, "k1").last().unwrap(), "0.00");
    assert!(!view.picture.to_inline_svg("x").contains("NaN"));
}

#[test]
fn weights_and_answer_are_chapter_2s() {
    let scores = Array1::from(vec![1.5, -2.0, 0.25, 7.0]);
    let typed = [("e1", "1.5"), ("e2", "-2"), ("e3", "0.25"), ("e4", "7")];
    let (_, view) = shown("ch02", "weights", &[&typed[..], &[("tau", "0.3")]].concat());
    let weights = softmax_with_temperature(&scores, 10f64.powf(0.3)).unwrap();
    for (j, weight) in weights.iter().enumerate() {
        let cells = row(&view, &format!("k{}", j + 1));
        assert_eq!(cells.last().unwrap(), &number(*weight, 3));
    }
    let (_, view) = shown("ch02", "mixture", &[&typed[..], &[("tau", "0.3")]].concat());
    let answer = weighted_sum(&weights.view().insert_axis(Axis(0)), &word_values());
    assert_eq!(row(&view, "r")[1..], spelled(&answer.unwrap(), 3));
}

#[test]
fn the_naive_softmax_breaks_where_chapter_2_says() {
    let (_, view) = shown("ch02", "weights", &[("formula", "naive"), ("e2", "88")]);
    assert!(view.said.contains("still holds"), "{}", view.said);
    let (_, view) = shown("ch02", "weights", &[("formula", "naive"), ("e2", "89")]);
    assert!(view.said.contains("breaks"), "{}", view.said);
    let broken = naive_softmax(&array![0.36_f32, 89.0, -0.36, 0.36]);
    assert_eq!(
        row(&view, "k2").last().unwrap(),
        &number(broken[1].into(), 3)
    );
    assert_eq!(row(&view, "k2").last().unwrap(), "NaN");
}

#[test]
fn a_wider_example_saturates_without_the_scale() {
    let largest = |width: &str| {
        let (_, view) = shown("ch03", "scaled", &[("width", width)]);
        ["without", "with"].map(|name| {
            let weights = &row(&view, &format!("weights, {name}"))[..4];
            let weights = weights.iter().map(|a| a.parse::<f64>().unwrap());
            weights.fold(0.0, f64::max)
        })
    };
    let (narrow, wide) = (largest("2"), largest("10"));
    assert_eq!(narrow, [0.756, 0.507]);
    assert!(wide[0] > 0.999 && wide[1] < 0.9, "{wide:?}");
    let draws = |seed: &str| shown("ch03", "scaled", &[("width", "6"), ("seed", seed)]).1;
    assert_eq!(draws("1"), draws("1"));
    assert_ne!(draws("1").table, draws("2").table);
}

#[test]
fn masks_are_chapter_4s() {
    let even = |mask: &Mask, (m, n): (usize, usize)| {
        masked_softmax(&Array4::<f64>::zeros((1, 1, m, n)), mask).unwrap()
    };
    let cases = [
        ("causal", Mask::causal(3, 5)),
        ("top-left", Mask::causal_from(0, 3, 5)),
        ("padding", Mask::padding(&[2], 5).unwrap()),
        ("window", Mask::window(3, 5, 4).unwrap()),
        ("everything", Mask::everything()),
        (
            "both",
            (&Mask::causal(3, 5) & &Mask::padding(&[2], 5).unwrap()).unwrap(),
        ),
    ];
    for (name, mask) in cases {
        let settings = [("mask", name), ("m", "3"), ("real", "2"), ("width", "4")];
        let (_, view) = shown("ch04", "causal", &settings);
        let weights = even(&mask, (3, 5));
        for i in 0..3 {
            let expected = spelled(weights.slice(s![0, 0, i, ..]), 2);
            assert_eq!(row(&view, &format!("q{}", i + 1)), expected, "{name}");
        }
        for spot in &view.spots {
            let (_, i, j) = spot.place;
            assert_eq!(spot.used, Use::Press(mask.allows(0, 0, i, j)), "{name}");
        }
    }
}

/// A control is at rest in just those states in which none of its values changes what is seen.
#[test]
fn what_changes_nothing_cannot_be_moved() {
    let live = find("ch04", "causal").unwrap();
    let masks = [
        "causal",
        "top-left",
        "padding",
        "both",
        "window",
        "everything",
        "hand",
    ];
    for mask in masks {
        let (state, view) = shown("ch04", "causal", &[("mask", mask), ("cells", "10/01")]);
        for (name, others) in [
            ("real", ["1", "4"]),
            ("width", ["1", "4"]),
            ("m", ["2", "4"]),
        ] {
            let changes = others.iter().any(|other| {
                let settings = [("mask", mask), ("cells", "10/01"), (name, other)];
                shown("ch04", "causal", &settings).1 != view
            });
            let place = state.place(name).unwrap();
            assert_eq!(state.idle()[place], !changes, "{name} with {mask}");
        }
    }
    let html = widgets::html(live).unwrap();
    let idle = |name: &str| {
        html.contains(&format!(
            "id=\"fig-ch04-causal-{name}\" data-control disabled"
        ))
    };
    assert_eq!(["real", "width", "m"].map(idle), [true, true, false]);
    let (state, _) = shown("ch06", "heatmap", &[("words", "好 好")]);
    assert!(state.idle()[state.place("shuffle").unwrap()]);
}

#[test]
fn a_pressed_cell_is_turned_round_and_nothing_else() {
    let (_, before) = shown("ch04", "causal", &[]);
    let spot = before.spots.iter().find(|spot| spot.place == (0, 1, 4));
    let spot = spot.unwrap();
    assert_eq!(spot.label, "q2 may not attend to k5");
    let sets: Vec<_> = spot.sets.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let (state, after) = shown("ch04", "causal", &sets);
    assert_eq!(at::<String>(&state, "mask"), "hand");
    for (old, new) in before.spots.iter().zip(&after.spots) {
        assert_eq!(old.used != new.used, old.place == (0, 1, 4));
    }
    assert!(after.said.contains("1 allowed cell lies"), "{}", after.said);
}

#[test]
fn an_empty_row_gets_zeros_and_says_so() {
    let (_, view) = shown("ch04", "causal", &[("mask", "padding"), ("real", "0")]);
    assert_eq!(row(&view, "q1"), ["0.00"; 5]);
    assert!(
        view.said
            .contains("Nothing is left to see for q1, q2, q3, q4, q5,"),
        "{}",
        view.said
    );
    // More queries than keys: the first see nothing.
    let (_, view) = shown("ch04", "causal", &[("n", "3")]);
    assert_eq!(row(&view, "q2"), ["0.00"; 3]);
}

#[test]
fn a_mask_that_is_read_flipped_lets_the_future_leak() {
    let (_, view) = shown("ch04", "causal", &[("flipped", "on")]);
    assert_eq!(
        view.said,
        "Read flipped, 10 of 25 cells are allowed. 10 allowed cells lie in their query’s future. Nothing is \
         left to see for flipped q5, which gets weights of 0."
    );
    let flipped = masked_softmax(
        &Array4::<f64>::zeros((1, 1, 5, 5)),
        &Mask::from_fn((1, 1, 5, 5), |_, _, i, j| j > i),
    );
    assert_eq!(view.table[1][0], "flipped q1");
    let expected = spelled(flipped.unwrap().slice(s![0, 0, 0, ..]), 2);
    assert_eq!(view.table[1][1..], expected);
    // What a cell says follows, and what it holds does not.
    assert_eq!(view.spots[0].label, "q1 may not attend to k1");
    assert_eq!(view.spots[0].used, Use::Press(true));
    assert_ne!(view.picture, shown("ch04", "causal", &[]).1.picture);
    // Who turns the mask round as well has what was meant.
    let turned = [
        ("flipped", "on"),
        ("mask", "hand"),
        ("cells", "01/00"),
        ("m", "2"),
        ("n", "2"),
    ];
    let (_, view) = shown("ch04", "causal", &turned);
    assert!(
        view.said
            .contains("3 of 4 cells are allowed. No query sees its future"),
        "{}",
        view.said
    );
}

#[test]
fn a_picked_weight_shows_how_it_came_about() {
    let (_, view) = shown("ch05", "heads", &[("picked", "0 1 0")]);
    // Head 1 asks for the token before: strength 8, five wide.
    assert_eq!(row(&view, "products"), ["8", "0", "0", "0", "0"]);
    assert_eq!(
        row(&view, "all scores / √d_k")[0],
        number(8.0 / 5f64.sqrt(), 2)
    );
    let weight = (8.0 / 5f64.sqrt()).exp() / ((8.0 / 5f64.sqrt()).exp() + 4.0);
    assert_eq!(row(&view, "softmax of the row")[0], number(weight, 2));
    // A weight that is gone with its word is picked no more.
    let (state, _) = shown("ch05", "heads", &[("words", "a b"), ("picked", "0 4 4")]);
    assert_eq!(at::<String>(&state, "picked"), "");
}

#[test]
fn a_picked_output_is_traced_to_weights_values_and_projection() {
    let numbers = [0, 1, 2, 0, 4];
    for (heads, count) in [("1", 1), ("2", 2), ("4", 4)] {
        let (attention, x) = hand_made(&numbers, count).unwrap();
        let x = x.insert_axis(Axis(0));
        let answer = attention.attend(&x, &x, &x, &Mask::everything()).unwrap();
        let memory = attention.remember(&x, &x).unwrap();
        let [.., output] = attention.projections();
        for (token, entry) in [(1, 0), (3, 5), (4, 8)] {
            let picked = format!("output {token} {entry}");
            let (state, view) = shown("ch05", "heads", &[("heads", heads), ("picked", &picked)]);
            assert_eq!(at::<String>(&state, "picked"), picked);
            assert_eq!(view.table.len(), 2 + 5 * count);
            let mut total = 0.0;
            for (head, c) in (0..count).flat_map(|head| (0..5).map(move |c| (head, c))) {
                let parts: Vec<f64> = (0..5)
                    .map(|j| answer.weights[[0, head, token, j]] * memory.values[[0, head, j, c]])
                    .collect();
                let sum: f64 = parts.iter().sum();
                let mixed = output.weight()[[head * 5 + c, entry]];
                total += sum * mixed;
                let cells = row(&view, &format!("head {}, entry {}", head + 1, c + 1));
                assert_eq!(cells[..5], spelled(&parts, 2));
                assert_eq!(cells[5..], spelled(&[sum, mixed, sum * mixed], 2));
            }
            let expected = answer.output[[0, token, entry]];
            assert!((total - expected).abs() < 1e-12);
            assert_eq!(row(&view, "output").last().unwrap(), &number(expected, 2));
            let expected = number(expected, 3);
            let end = format!("{expected}. The framed rows are its weights.");
            assert!(view.said.ends_with(&end), "{}", view.said);
        }
    }
    let (_, view) = shown("ch05", "heads", &[("heads", "4"), ("picked", "output 1 0")]);
    assert_eq!(view.said.matches("head").count(), 3, "{}", view.said);
    let (_, view) = shown("ch05", "heads", &[("heads", "1"), ("picked", "output 1 7")]);
    assert!(view.said.contains("no head leads there"), "{}", view.said);
}

#[test]
fn more_heads_leave_the_first_as_they_are() {
    let (_, two) = shown("ch05", "heads", &[]);
    let (_, four) = shown("ch05", "heads", &[("heads", "4")]);
    let (_, one) = shown("ch05", "heads", &[("heads", "1")]);
    assert_eq!(row(&one, "head 1, cat"), row(&four, "head 1, cat"));
    assert_eq!(row(&two, "head 2, dog"), row(&four, "head 2, dog"));
    // Each looks where it says: after “cat” comes “saw”, and “the” is first.
    let most = |name: &str| {
        let cells = row(&four, name).iter().map(|a| a.parse::<f64>().unwrap());
        cells
            .enumerate()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap()
            .0
    };
    assert_eq!(
        [
            most("head 1, cat"),
            most("head 3, cat"),
            most("head 4, dog")
        ],
        [0, 2, 0]
    );
    // What one head does not have is picked no more.
    let (state, _) = shown("ch05", "heads", &[("heads", "1"), ("picked", "1 0 0")]);
    assert_eq!(at::<String>(&state, "picked"), "");
}

#[test]
fn a_sentence_attends_as_chapter_6_says_in_any_order() {
    let (tokens, x) = sentence();
    let x3 = x.view().insert_axis(Axis(0));
    let answer = self_attention(&wants_meet_offers(), &x3, &Mask::causal(6, 6)).unwrap();
    let (_, view) = shown("ch06", "heatmap", &[("causal", "on")]);
    let weights = answer.weights.slice(s![0, 0, 3, ..]).to_owned();
    assert_eq!(row(&view, tokens[3]), spelled(&weights, 2));

    let weight = |view: &View, from: &str, to: &str| {
        let column = view.table[0].iter().position(|name| name == to).unwrap();
        row(view, from)[column - 1].clone()
    };
    let pairs = || {
        tokens
            .iter()
            .flat_map(|a| tokens.iter().map(move |b| (a, b)))
    };
    let (_, rest) = shown("ch06", "heatmap", &[]);
    let (state, shuffled) = shown("ch06", "heatmap", &[("shuffle", "1")]);
    assert_ne!(at::<String>(&state, "words"), tokens.join(" "));
    assert!(pairs().all(|(a, b)| weight(&rest, a, b) == weight(&shuffled, a, b)));
    let order = at::<String>(&state, "words");
    let (_, with) = shown("ch06", "heatmap", &[("positions", "on")]);
    let (_, moved) = shown("ch06", "heatmap", &[("positions", "on"), ("words", &order)]);
    assert!(pairs().any(|(a, b)| weight(&with, a, b) != weight(&moved, a, b)));
}

#[test]
fn dates_are_the_trained_models() {
    let (model, _) = shipped().unwrap();
    for text in ["3. Mai 1999", "2001年2月3日", "<img onerror=alert(1)>"] {
        let translation = translate(&model, text).unwrap();
        let (_, view) = shown("ch09", "languages", &[("second", text)]);
        let cells = row(&view, text);
        assert_eq!(cells[0], translation.written);
        assert_eq!(cells[1], number(translation.probability(), 3));
    }
    // The page judges as the program does.
    for text in [
        "31/02/2020",
        "30 février 2024",
        "31 avril 2021",
        "not 3 May 2020",
    ] {
        let (_, view) = shown("ch09", "languages", &[("second", text)]);
        assert_eq!(row(&view, text)[2], "unsure", "{text}");
    }
    let (_, view) = shown("ch09", "languages", &[("second", &"1".repeat(32))]);
    assert!(view.said.contains("room for 32"), "{}", view.said);
    let (_, view) = shown("ch09", "languages", &[("written", "4")]);
    assert!(
        view.said.contains("2026年11月29日\u{2069}: 2026 ("),
        "{}",
        view.said
    );
}

#[test]
fn tiles_are_read_as_chapter_10_says() {
    let none = f64::NEG_INFINITY;
    let scores = array![none, 0.5, -1.0, 3.0, none, 2.5];
    let typed = "-inf .5 -1, 3 −∞ 2.5";
    let (_, four) = rising_example();
    // Beyond the last value they start over.
    let values = Array2::from_shape_fn((6, 2), |(j, c)| four[[j % 4, c]]);
    for (name, tile) in [("1", 1), ("2", 2), ("4", 4)] {
        let settings = [
            ("scores", typed),
            ("tile", name),
            ("counted", name),
            ("read", "8"),
        ];
        let (state, view) = shown("ch10", "online", &settings);
        assert_eq!(at::<usize>(&state, "read"), 6_usize.div_ceil(tile));
        let (mut online, mut before) = (Online::new(2), none);
        for (place, start) in (0..6).step_by(tile).enumerate() {
            let end = 6.min(start + tile);
            online
                .see(
                    &scores.slice(s![start..end]),
                    &values.slice(s![start..end, ..]),
                )
                .unwrap();
            let largest = scores.slice(s![..end]).fold(none, |a, &e| a.max(e));
            let (answer, log_sum_exp) = online.answer();
            let nothing = largest == none;
            let sum = if nothing {
                0.0
            } else {
                (log_sum_exp - largest).exp()
            };
            let factor = if nothing {
                1.0
            } else {
                (before - largest).exp()
            };
            before = largest;
            let cells = &view.table[place + 1];
            assert_eq!(cells[2], short(largest), "{cells:?}");
            assert_eq!(cells[3..5], spelled(&[factor, sum], 3), "{cells:?}");
            assert_eq!(cells[5..], spelled(&answer, 3), "{cells:?}");
        }
        let answer = softmax(&scores).dot(&values);
        let last = row(&view, "all at once");
        assert_eq!(last[4..], spelled(&answer, 3));
        assert_eq!(view.table[view.table.len() - 2][5..], last[4..]);
    }
}

#[test]
fn a_tile_says_what_it_corrects() {
    let said = |changes: &[(&str, &str)]| shown("ch10", "online", changes).1.said;
    assert_eq!(
        said(&[("read", "1")]),
        "Key 1 came first: μ = 0.5, ℓ = 1.00, and there was nothing to correct. The answer so far is \
         (−2.000, 1.500)."
    );
    assert!(
        said(&[("read", "2")])
            .starts_with("Key 2 left μ at 0.5, so nothing was corrected; ℓ grew by 0.22 to 1.22.")
    );
    let third = said(&[("read", "3")]);
    let step = "Key 3 raised μ from 0.5 to 3: what was remembered shrank by the factor e^(−2.5) = 0.08, ℓ from 1.22 to \
                0.10, and with the 1.00 added ℓ = 1.10. The answer so far is (";
    assert!(third.starts_with(step), "{third}");
    assert!(said(&[]).ends_with("Softmax over all at once gives the same."));
    let hidden = said(&[("scores", "1 -inf 2"), ("read", "2")]);
    assert!(hidden.starts_with("Key 2 added nothing"), "{hidden}");
    let all = said(&[("scores", "-inf -inf"), ("tile", "2")]);
    assert!(all.starts_with("Keys 1 to 2 added nothing, and nothing was corrected: μ = −∞, ℓ = 0.00. The answer so far is (0.000, 0.000)"), "{all}");
}

#[test]
fn larger_tiles_keep_the_keys_that_were_read() {
    let read = |changes: &[(&str, &str)]| {
        let (state, _) = shown("ch10", "online", changes);
        (at::<usize>(&state, "read"), state.shown()[0].clone())
    };
    assert_eq!(read(&[("tile", "2")]), (2, "2 of 2".to_owned()));
    assert_eq!(
        read(&[("tile", "1"), ("counted", "2"), ("read", "2")]),
        (4, "4 of 4".to_owned())
    );
    assert_eq!(
        read(&[("tile", "2"), ("read", "3")]),
        (2, "2 of 2".to_owned())
    );
    assert_eq!(
        read(&[("scores", "1 2 3 4 5 6 7 8")]),
        (4, "4 of 8".to_owned())
    );
}

#[test]
fn a_row_that_is_written_anew_is_read_as_far_as_before() {
    let live = find("ch10", "online").unwrap();
    let place = |name| live.at_rest().unwrap().0.place(name).unwrap();
    let mut values = values(live, &[("read", "3")]);
    for (scores, read) in [
        ("0.5 -1 3 2", "3"),
        ("2", "1"),
        ("2 1", "2"),
        ("2 1 0 4 5", "3"),
    ] {
        values[place("scores")] = scores.to_owned();
        values = live.draw(values).unwrap().0.values().to_vec();
        assert_eq!(values[place("read")], read, "{scores}");
    }
    // Whoever moves the slider meanwhile is followed.
    for (scores, moved, read) in [
        ("2 1", "1", "1"),
        ("2 1 0 4", "1", "1"),
        ("2 1 0 4", "4", "4"),
    ] {
        values[place("scores")] = scores.to_owned();
        values[place("read")] = moved.to_owned();
        values = live.draw(values).unwrap().0.values().to_vec();
        assert_eq!(values[place("read")], read, "{scores}");
    }
}

#[test]
fn no_tiles_panic() {
    let tiles = ["1", "2", "4"];
    for scores in [
        "1",
        "-inf",
        "1000 -1000 1000",
        "-inf 1 2 3 4 5 6 7",
        "-1000 -inf 1000 0 0",
    ] {
        for (tile, counted) in tiles.iter().flat_map(|t| tiles.map(|c| (*t, c))) {
            for read in 1..=8 {
                let read = read.to_string();
                let settings = [
                    ("scores", scores),
                    ("tile", tile),
                    ("counted", counted),
                    ("read", &read),
                ];
                let (_, view) = shown("ch10", "online", &settings);
                let texts = format!("{:?} {}", view.table, view.picture.to_inline_svg("x"));
                assert!(!texts.contains("NaN") && !texts.contains("inf"), "{texts}");
            }
        }
    }
}

#[test]
fn what_makes_no_sense_is_told() {
    let long = "x".repeat(1000);
    let cases = [
        (refused("ch01", "angle", &[("x", "NaN")]), "from -2 to 3"),
        (refused("ch01", "angle", &[("tip", "here")]), "two numbers"),
        (refused("ch02", "weights", &[("e2", "NaN")]), "score of k2"),
        (refused("ch02", "weights", &[("e2", "inf")]), "score of k2"),
        (refused("ch02", "weights", &[("e1", "")]), "not “”"),
        (refused("ch02", "weights", &[("tau", "-40")]), "temperature"),
        (refused("ch02", "weights", &[("formula", "x")]), "know “x”"),
        (refused("ch03", "scaled", &[("width", "2.5")]), "width"),
        (
            refused("ch03", "scaled", &[("width", "60")]),
            "from 2 to 10",
        ),
        (refused("ch04", "causal", &[("m", "0")]), "queries m"),
        (refused("ch04", "causal", &[("n", "99")]), "keys n"),
        (refused("ch04", "causal", &[("width", "0")]), "window"),
        (refused("ch05", "heads", &[("words", "")]), "not 0"),
        (
            refused("ch05", "heads", &[("words", "a b c d e f")]),
            "not 6",
        ),
        (
            refused("ch05", "heads", &[("picked", "9 0 0")]),
            "neither a weight",
        ),
        (
            refused("ch05", "heads", &[("picked", "output 1")]),
            "neither a weight",
        ),
        (refused("ch05", "heads", &[("heads", "3")]), "know “3”"),
        (
            refused("ch10", "online", &[("scores", "1 inf")]),
            "scores: “inf” is no number",
        ),
        (
            refused("ch10", "online", &[("scores", "NaN")]),
            "“NaN” is no number",
        ),
        (refused("ch10", "online", &[("scores", "1 1e9")]), "to 1000"),
        (refused("ch10", "online", &[("scores", " , ")]), "not 0"),
        (
            refused("ch10", "online", &[("scores", "1 2 3 4 5 6 7 8 9")]),
            "not 9",
        ),
        (
            refused("ch10", "online", &[("values", "1 2, 3")]),
            "not “3”",
        ),
        (
            refused("ch10", "online", &[("values", "1 -inf")]),
            "two numbers",
        ),
        (
            refused("ch10", "online", &[("values", "1 12")]),
            "values: “12” is no number from -9 to 9",
        ),
        (refused("ch10", "online", &[("read", "9")]), "blocks read"),
        (refused("ch06", "heatmap", &[("words", "  ")]), "not 0"),
        (
            refused("ch06", "heatmap", &[("words", &long)]),
            "1000 characters",
        ),
        (
            refused("ch06", "heatmap", &[("words", "a\u{1f}b")]),
            "cannot be shown",
        ),
        (
            refused("ch09", "languages", &[("first", "")]),
            "nothing to translate",
        ),
        (
            refused("ch09", "languages", &[("third", &long)]),
            "1000 characters",
        ),
    ];
    for (message, part) in cases {
        assert!(message.contains(part), "{message} should say {part}");
    }
}

#[test]
fn no_value_of_any_control_panics() {
    let odd = [
        "",
        " ",
        "0",
        "-0",
        "1",
        "1e308",
        "-1e308",
        "NaN",
        "inf",
        "on",
        "on on",
        "0 0 0",
        "1 1",
        "a/b",
        "11111/1",
        "output 1 1",
        "output 9 9",
        "-inf",
        "1 2, 3",
        "<img onerror=x>",
        "\u{202e}x",
        "\u{0}",
        "🙂🙂 🙂",
        "99999999999999999999",
    ];
    for live in all() {
        for control in live.controls().unwrap() {
            for value in odd {
                if let Ok((_, view)) = live.draw(values(live, &[(control.name, value)])) {
                    let svg = view.picture.to_inline_svg("x");
                    assert!(!svg.contains("<img"), "{} {value}", live.id());
                }
            }
        }
    }
}

#[test]
fn a_page_gets_texts_and_gives_texts() {
    let live = find("ch04", "causal").unwrap();
    let joined = |values: Vec<String>| values.join(&UNIT.to_string());
    let answer = draw(&NUMBERS, "ch04-causal", &joined(values(live, &[])));
    let groups: Vec<&str> = answer.split(GROUP).collect();
    assert_eq!(groups.len(), 7);
    assert!(groups[0].starts_with("=<svg "), "{}", groups[0]);
    let (state, view) = live.at_rest().unwrap();
    assert_eq!(groups[1], view.said);
    assert_eq!(groups[2].split(UNIT).count(), state.values().len());
    assert_eq!(
        groups[4],
        ["", "", "", "1", "1", "", ""].join(&UNIT.to_string())
    );
    assert_eq!(groups[5].split(RECORD).count(), view.table.len());
    let spot: Vec<_> = groups[6]
        .split(RECORD)
        .next()
        .unwrap()
        .split(UNIT)
        .collect();
    assert_eq!(spot[..1], ["on"]);
    assert_eq!(spot[5..9], ["0", "0", "0", "q1 may attend to k1"]);
    assert_eq!(spot[9], state.place("cells").unwrap().to_string());

    let wrong = draw(
        &NUMBERS,
        "ch04-causal",
        &joined(values(live, &[("m", "x")])),
    );
    assert_eq!(wrong, "!queries m takes a number from 1 to 5, not “x”");
    assert!(draw(&NUMBERS, "ch04-casual", "").starts_with("!there is no live figure"));
    assert!(draw(&NUMBERS, "ch04-causal", "").starts_with("!there are 7 controls"));
}
