//! The figures' colours are the theme's, and legible in every one of mdBook's themes.

use std::collections::BTreeMap;

use figures::{HEAT, PALETTE};

type Colours = BTreeMap<String, [f64; 3]>;

/// The `--fig-…` colours that a rule of `book.css` sets.
fn colours(css: &str, selector: &str) -> Colours {
    let (_, rule) = css
        .split_once(&format!("{selector} {{"))
        .unwrap_or_else(|| panic!("book.css has no rule for {selector}"));
    let (rule, _) = rule.split_once('}').unwrap();
    rule.lines()
        .filter_map(|line| line.trim().strip_prefix("--fig-")?.strip_suffix(';'))
        .map(|declaration| {
            let (name, hex) = declaration.split_once(": ").unwrap();
            (name.to_owned(), rgb(hex))
        })
        .collect()
}

fn rgb(hex: &str) -> [f64; 3] {
    [1, 3, 5].map(|i| f64::from(u8::from_str_radix(&hex[i..i + 2], 16).unwrap()) / 255.0)
}

fn themes() -> Vec<(&'static str, Colours)> {
    let css = include_str!("../../theme/book.css");
    [
        ":root",
        "html.rust",
        "html.coal",
        "html.navy",
        "html.ayu",
        "html:not(.js)",
    ]
    .map(|selector| (selector, colours(css, selector)))
    .into()
}

/// The contrast of two colours as WCAG 2 defines it, from 1 to 21.
fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
    let luminance = |colour: [f64; 3]| {
        let [r, g, b] = colour.map(|c| {
            if c <= 0.04045 {
                c / 12.92
            } else {
                ((c + 0.055) / 1.055).powf(2.4)
            }
        });
        0.2126 * r + 0.7152 * g + 0.0722 * b
    };
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn mixed(over: [f64; 3], under: [f64; 3], opacity: f64) -> [f64; 3] {
    [0, 1, 2].map(|i| over[i] * opacity + under[i] * (1.0 - opacity))
}

#[test]
fn every_theme_sets_every_colour() {
    for (theme, colours) in themes() {
        let mut names: Vec<_> = PALETTE.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert!(
            colours.keys().eq(names),
            "{theme} sets {:?}",
            colours.keys()
        );
    }
}

#[test]
fn the_light_theme_is_the_palette() {
    let (_, light) = &themes()[0];
    for (name, hex) in PALETTE {
        assert_eq!(light[name], rgb(hex), "{name}");
    }
}

#[test]
fn text_and_series_are_legible_on_paper() {
    for (theme, colours) in themes() {
        for name in ["ink", "muted", "a", "b", "c", "d"] {
            let found = contrast(colours[name], colours["paper"]);
            assert!(found >= 4.5, "{theme}: {name} has {found:.2}");
        }
        for name in ["ink", "muted"] {
            let found = contrast(colours[name], colours["soft"]);
            assert!(found >= 4.5, "{theme}: {name} has {found:.2} on soft");
        }
        let found = contrast(colours["line"], colours["paper"]);
        assert!(found >= 3.0, "{theme}: lines have {found:.2}");
    }
}

#[test]
fn numbers_are_legible_in_the_hottest_and_the_coldest_cell() {
    for (theme, colours) in themes() {
        for name in ["hot", "cold"] {
            let cell = mixed(colours[name], colours["paper"], HEAT);
            let found = contrast(colours["ink"], cell);
            assert!(found >= 4.5, "{theme}: ink has {found:.2} on {name}");
            let found = contrast(cell, colours["paper"]);
            assert!(found >= 1.5, "{theme}: {name} has {found:.2} on paper");
        }
    }
}
