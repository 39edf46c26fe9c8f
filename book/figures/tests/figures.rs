//! Every figure draws, says what it shows, and is fit for a page and for a file.

use figures::{Figure, Picture, all, find, heatmap};
use ndarray::{Array2, array};
use roxmltree::{Document, Node};

fn drawn() -> Vec<(String, Picture)> {
    let named = |figure: &Figure| {
        let id = figure.id();
        let picture = figure.draw().unwrap_or_else(|e| panic!("{id}: {e:#}"));
        (id, picture)
    };
    all().iter().map(named).collect()
}

#[test]
fn each_name_is_unique_and_found() {
    for figure in all() {
        let found = find(figure.chapter, figure.name).unwrap();
        assert!(std::ptr::eq(found, figure), "{figure:?}");
    }
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let error = find("ch01", "angel").unwrap_err().to_string();
    assert!(error.contains("there is no figure ch01 angel"), "{error}");
    for figure in all() {
        let known = format!("{} {}", figure.chapter, figure.name);
        assert!(error.contains(&known), "{error}");
    }
}

#[test]
fn the_same_picture_comes_out_twice() {
    assert_eq!(drawn(), drawn());
}

#[test]
fn inline_svg_is_one_line_coloured_by_the_page() {
    for (id, picture) in drawn() {
        let svg = picture.to_inline_svg(&id);
        assert!(!svg.contains('\n'), "{id}");
        let document = Document::parse(&svg).unwrap_or_else(|e| panic!("{id}: {e}"));
        let root = document.root_element();
        assert_eq!(root.attribute("role"), Some("img"), "{id}");
        let title = format!("{id}-title");
        assert_eq!(root.attribute("aria-labelledby"), Some(title.as_str()));
        for node in root.descendants() {
            for attribute in node.attributes() {
                let value = attribute.value();
                assert!(!value.contains('#'), "{id}: {value} is no variable");
                assert!(!attribute.name().ends_with("href"), "{id}: {value}");
                assert!(!value.contains("url("), "{id}: {value}");
                if attribute.name() == "id" {
                    assert!(value.starts_with(&id), "{id}: {value}");
                }
            }
        }
    }
}

#[test]
fn standalone_svg_is_complete_in_itself() {
    for (id, picture) in drawn() {
        let svg = picture.to_standalone_svg();
        assert!(!svg.contains("var("), "{id}");
        assert!(!svg.contains("#F160"), "{id}");
        let document = Document::parse(&svg).unwrap_or_else(|e| panic!("{id}: {e}"));
        let name = document.root_element().tag_name();
        assert_eq!(name.namespace(), Some("http://www.w3.org/2000/svg"), "{id}");
    }
}

#[test]
fn the_text_alternative_is_a_sentence_with_numbers() {
    for (id, picture) in drawn() {
        assert!(picture.alt.ends_with('.'), "{id}: {}", picture.alt);
        assert!(picture.alt.contains(|c: char| c.is_ascii_digit()), "{id}");
        let svg = picture.to_inline_svg(&id);
        let document = Document::parse(&svg).unwrap();
        let title = document.root_element().first_element_child().unwrap();
        assert_eq!(title.text(), Some(picture.alt.as_str()), "{id}");
    }
}

fn number(node: &Node, name: &str) -> f64 {
    node.attribute(name).unwrap().parse().unwrap()
}

fn check_texts(id: &str, picture: &Picture) {
    let svg = picture.to_inline_svg(id);
    let document = Document::parse(&svg).unwrap();
    let root = document.root_element();
    let size: Vec<f64> = root
        .attribute("viewBox")
        .unwrap()
        .split(' ')
        .map(|x| x.parse().unwrap())
        .collect();
    for text in root.descendants().filter(|n| n.has_tag_name("text")) {
        let said: String = text
            .descendants()
            .filter(Node::is_text)
            .filter_map(|n| n.text())
            .collect();
        let em = number(&text, "font-size");
        assert!(em >= 11.0, "{id}: {said} is too small");
        // Somewhat less than the widest fonts need, so that only real overflow is reported.
        let length: f64 = said
            .chars()
            .map(|c| if c > '\u{2E80}' { 1.0 } else { 0.5 })
            .sum::<f64>()
            * em;
        let (before, after) = match text.attribute("text-anchor") {
            Some("end") => (length, 0.0),
            Some("middle") => (length / 2.0, length / 2.0),
            _ => (0.0, length),
        };
        let (x, y) = (number(&text, "x"), number(&text, "y"));
        let (left, right, top, bottom) = if text.attribute("transform").is_some() {
            (x - em / 2.0, x + em / 2.0, y - after, y + before)
        } else {
            (x - before, x + after, y - em / 2.0, y + em / 2.0)
        };
        assert!(
            left >= 0.0 && right <= size[2],
            "{id}: {said} leaves the sides"
        );
        assert!(
            top >= 0.0 && bottom <= size[3],
            "{id}: {said} leaves the top or bottom"
        );
    }
}

#[test]
fn no_text_is_small_or_leaves_the_picture() {
    for (id, picture) in drawn() {
        check_texts(&id, &picture);
    }
}

#[test]
fn a_heat_map_holds_one_cell_and_a_sentence_of_chinese() {
    let one = heatmap(array![[-0.5]].view(), &["a < b & \"c\""], &["天气"]).unwrap();
    check_texts("one", &one);
    assert!(one.to_inline_svg("one").contains("−0.5"));

    let words = "[CLS] 今天 天气 很 好 [SEP] 人工智能的注意力机制很有意思 a b c d e";
    let words: Vec<_> = words.split(' ').collect();
    let weights = Array2::from_shape_fn((12, 12), |(i, j)| 1.0 / (1 + i + j) as f64);
    check_texts("many", &heatmap(weights.view(), &words, &words).unwrap());
}

#[test]
fn a_heat_map_of_zeros_has_no_colour() {
    let picture = heatmap(Array2::zeros((2, 2)).view(), &["a", "b"], &["c", "d"]).unwrap();
    let svg = picture.to_inline_svg("zeros");
    assert!(!svg.contains("hot") && !svg.contains("cold") && !svg.contains("NaN"));
}

#[test]
fn a_heat_map_that_cannot_be_drawn_says_why() {
    let values = array![[1.0, 2.0], [3.0, f64::NAN]];
    let finite = array![[1.0, 2.0]];
    let cases = [
        (
            heatmap(Array2::zeros((0, 2)).view(), &[], &["a", "b"]),
            "no cells",
        ),
        (
            heatmap(finite.view(), &["a", "b"], &["c", "d"]),
            "1 rows but 2 row labels",
        ),
        (
            heatmap(finite.view(), &["a"], &["c"]),
            "2 columns but 1 column labels",
        ),
        (
            heatmap(values.view(), &["a", "b"], &["c", "d"]),
            "row 2, column 2 is NaN",
        ),
    ];
    for (result, reason) in cases {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_changed_number_changes_the_picture() {
    let draw = |x| heatmap(array![[x, 1.0]].view(), &["q"], &["a", "b"]).unwrap();
    assert_ne!(draw(0.25), draw(-0.25));
    assert_ne!(draw(0.25), draw(0.26));
}

/// What is written in a picture, text by text.
fn texts(chapter: &str, name: &str) -> Vec<String> {
    let picture = find(chapter, name).unwrap().draw().unwrap();
    let svg = picture.to_inline_svg("texts");
    let document = Document::parse(&svg).unwrap();
    let texts = document.descendants().filter(|n| n.has_tag_name("text"));
    texts
        .map(|text| {
            let parts = text.descendants().filter(Node::is_text);
            parts.filter_map(|part| part.text()).collect()
        })
        .collect()
}

#[test]
fn masks_hold_a_one_for_each_allowed_cell_and_a_point_for_each_other() {
    let count = |name, said| {
        let texts = texts("ch04", name);
        texts.iter().filter(|text| text.as_str() == said).count()
    };
    // (1 2 3 0 0) and (1 2 0 0 0), whose tokens 1 are written as well.
    assert_eq!((count("padding", "1"), count("padding", "·")), (5 + 3, 5));
    // The triangle with its diagonal, and the one without.
    let triangles = (15 + 10, 10 + 15);
    assert_eq!((count("causal", "1"), count("causal", "·")), triangles);
    let three = (15 + 10 + 9, 10 + 15 + 16);
    assert_eq!((count("both", "1"), count("both", "·")), three);
    // The queries see 4 and 5 keys, or 1 and 2; the position 1 is written above each.
    let two = (9 + 3 + 2, 1 + 7);
    assert_eq!((count("alignment", "1"), count("alignment", "·")), two);
    assert_eq!((count("window", "1"), count("window", "·")), (15, 21));
}

#[test]
fn a_finite_fill_averages_where_nothing_is_allowed() {
    let texts = texts("ch04", "fill");
    let count = |said| texts.iter().filter(|text| *text == said).count();
    // The forbidden key twice, and the empty row.
    assert_eq!(count("0.000"), 2 + 4);
    assert_eq!(count("0.250"), 4);
    assert_eq!(count("sums 0.000 and 1.000"), 1);
}

#[test]
fn heads_differ_where_one_head_does_not() {
    let roles = texts("ch05", "roles");
    assert!(roles.contains(&"the same".to_owned()), "{roles:?}");
    assert!(roles.contains(&"told apart".to_owned()), "{roles:?}");
    let split = find("ch05", "split").unwrap().draw().unwrap().alt;
    assert!(split.contains("the rows 1 2, 3 4 and 5 6"), "{split}");
    assert!(split.contains("nothing of token 1 to head 2"), "{split}");
    let heads = find("ch05", "heads").unwrap().draw().unwrap().alt;
    assert!(heads.contains("cat gives the 0.90"), "{heads}");
}

#[test]
fn the_causal_heat_map_has_no_number_above_its_diagonal() {
    let texts = texts("ch06", "causal");
    assert_eq!(texts.iter().filter(|text| *text == "·").count(), 15);
    assert!(!texts.contains(&"0".to_owned()));
}

#[test]
fn the_alignment_is_framed_and_padding_is_never_in_it() {
    let picture = find("ch07", "alignment").unwrap().draw().unwrap();
    let frames = picture
        .to_standalone_svg()
        .matches("stroke-width=\"2\"")
        .count();
    assert_eq!(frames, 6);
    for said in [
        "weather at 天气",
        "very at 很",
        "nice at 好",
        "today at 今天",
    ] {
        assert!(picture.alt.contains(said), "{}", picture.alt);
    }
    assert!(!picture.alt.contains("at [PAD]"), "{}", picture.alt);
    let texts = texts("ch07", "alignment");
    assert_eq!(texts.iter().filter(|text| *text == "·").count(), 6);
}

#[test]
fn attention_costs_what_recurrence_does_where_the_length_is_the_width() {
    assert!(texts("ch06", "cost").contains(&"n = d = 512".to_owned()));
}
