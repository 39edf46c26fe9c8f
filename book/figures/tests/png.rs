//! Pictures as PNG: right on a machine without a single font.
#![cfg(feature = "png")]

use figures::{all, heatmap};
use ndarray::array;
use resvg::tiny_skia::Pixmap;

fn pixels(png: &[u8]) -> Pixmap {
    Pixmap::decode_png(png).unwrap()
}

/// A picture of one cell whose row has that label.
fn labelled(label: &str) -> figures::Picture {
    heatmap(array![[1.0]].view(), &[label], &["k"]).unwrap()
}

#[test]
fn every_figure_has_a_glyph_for_each_of_its_characters() {
    for figure in all() {
        let picture = figure.draw().unwrap();
        let png = picture
            .to_png(1.0)
            .unwrap_or_else(|e| panic!("{}: {e:#}", figure.id()));
        let pixels = pixels(&png);
        assert_eq!((pixels.width(), pixels.height()), picture.pixels(1.0));
    }
}

#[test]
fn paper_is_white_up_to_the_corners_at_any_scale() {
    let picture = labelled("q");
    for scale in [0.25, 1.0, 1.37, 3.0] {
        let pixels = pixels(&picture.to_png(scale).unwrap());
        let (width, height) = picture.pixels(scale);
        assert_eq!((pixels.width(), pixels.height()), (width, height));
        for at in [
            (0, 0),
            (width - 1, 0),
            (0, height - 1),
            (width - 1, height - 1),
        ] {
            let colour = pixels.pixel(at.0, at.1).unwrap().demultiply();
            let colour = (colour.red(), colour.green(), colour.blue(), colour.alpha());
            assert_eq!(colour, (255, 255, 255, 255), "{at:?} at scale {scale}");
        }
    }
}

/// All characters that no face has look alike; these do not.
#[test]
fn chinese_labels_have_glyphs_of_their_own() {
    let labels = ["今", "天", "气", "很", "好"];
    let drawn: Vec<_> = labels
        .iter()
        .map(|label| pixels(&labelled(label).to_png(2.0).unwrap()))
        .collect();
    for (i, one) in drawn.iter().enumerate() {
        let ink = one
            .pixels()
            .iter()
            .zip(pixels(&labelled("\u{3000}").to_png(2.0).unwrap()).pixels())
            .filter(|(a, b)| a != b)
            .count();
        assert!(ink > 50, "{} is {ink} pixels of ink", labels[i]);
        for (j, other) in drawn.iter().enumerate().skip(i + 1) {
            assert_ne!(one.data(), other.data(), "{}, {}", labels[i], labels[j]);
        }
    }
}

#[test]
fn a_character_without_a_glyph_is_an_error_that_names_it() {
    let error = labelled("天龘").to_png(1.0).unwrap_err().to_string();
    assert!(error.contains("no glyph for 龘;"), "{error}");
}

#[test]
fn the_same_file_comes_out_twice() {
    let draw = || labelled("天气").to_png(2.0).unwrap();
    assert_eq!(draw(), draw());
}

#[test]
fn a_scale_out_of_range_is_an_error() {
    for scale in [0.0, -1.0, 0.2, 16.5, f32::NAN, f32::INFINITY] {
        let error = labelled("q").to_png(scale).unwrap_err().to_string();
        assert!(error.contains(&format!("not {scale}")), "{error}");
    }
}
