//! Colours, sizes and the spelling of numbers, the same in every figure.

use plotters::style::RGBColor;

/// The figures' colours: the CSS variable `--fig-NAME` that a page defines for each of its themes,
/// and the light theme's value, which a file of its own carries.
pub const PALETTE: [(&str, &str); 12] = [
    ("ink", "#1a1a1a"),
    ("muted", "#595959"),
    ("line", "#707070"),
    ("grid", "#dcdcdc"),
    ("paper", "#ffffff"),
    ("soft", "#f0f2f5"),
    ("a", "#0b5fa5"),
    ("b", "#b0440a"),
    ("c", "#08734f"),
    ("d", "#863a8f"),
    ("hot", "#f08432"),
    ("cold", "#4a90d9"),
];

/// How opaque the hottest and the coldest cell of a grid are.
pub const HEAT: f64 = 0.6;

/// A colour of the [`PALETTE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// Text and axes.
    Ink,
    /// Secondary text.
    Muted,
    /// Thin lines and arrows.
    Line,
    /// Grid lines.
    Grid,
    /// The page.
    Paper,
    /// The fill of a box.
    Soft,
    /// The first series.
    A,
    /// The second series.
    B,
    /// The third series.
    C,
    /// The fourth series.
    D,
    /// Cells of positive numbers.
    Hot,
    /// Cells of negative numbers.
    Cold,
}

impl Colour {
    /// What plotters draws with and writes as `#F160` and its place in the [`PALETTE`]; the picture
    /// replaces it by the variable or its value.
    pub(crate) fn sentinel(self) -> RGBColor {
        RGBColor(0xF1, 0x60, self as u8)
    }
}

/// Opens a subscript in a drawn text, [`END`] closes it. No font has a glyph for either.
pub(crate) const SUB: char = '\u{E000}';
/// Opens a superscript.
pub(crate) const SUP: char = '\u{E001}';
/// Closes a subscript or superscript.
pub(crate) const END: char = '\u{E002}';

/// `base` with a subscript, to be drawn: `sub("k", 1)` for k₁.
pub(crate) fn sub(base: &str, index: impl std::fmt::Display) -> String {
    format!("{base}{SUB}{index}{END}")
}

/// `base` with a superscript, to be drawn.
pub(crate) fn sup(base: &str, exponent: impl std::fmt::Display) -> String {
    format!("{base}{SUP}{exponent}{END}")
}

/// `k₁ … kₙ` and the like, to be drawn.
pub(crate) fn numbered(base: &str, n: usize) -> Vec<String> {
    (1..=n).map(|i| sub(base, i)).collect()
}

/// A number with that many decimals, a true minus sign, and no negative zero.
pub fn number(x: f64, decimals: usize) -> String {
    let text = format!("{x:.decimals$}").replace("inf", "∞");
    match text.strip_prefix('-') {
        Some(zero) if zero.chars().all(|c| c == '0' || c == '.') => zero.to_owned(),
        Some(digits) => format!("−{digits}"),
        None => text,
    }
}

/// A drawn label in plain words: without the marks of subscripts.
pub fn plain(label: &str) -> String {
    label.replace([SUB, SUP, END], "")
}

/// A number with at most three decimals, as few as it needs.
pub fn short(x: f64) -> String {
    let text = number(x, 3);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// About how wide a text is, in units of its size: a full em for each Chinese, Japanese or Korean
/// character, somewhat more than half of one for the rest.
pub(crate) fn ems(text: &str) -> f64 {
    let mut small = 1.0;
    text.chars()
        .map(|c| match c {
            SUB | SUP => {
                small = 0.75;
                0.0
            }
            END => {
                small = 1.0;
                0.0
            }
            '\u{2E80}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' => small,
            '\u{FF00}'..='\u{FF60}' | '\u{20000}'..='\u{3FFFF}' => small,
            '.' | ',' | ' ' | 'i' | 'l' | '|' => 0.28 * small,
            'm' | 'w' | 'M' | 'W' | '‖' => 0.9 * small,
            _ => 0.58 * small,
        })
        .sum()
}

/// The label without control characters, shortened to what there is room for at a size of 12.
pub(crate) fn fit(label: &str, room: f64) -> String {
    let mut label: String = label
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let is_wide = |label: &str, room: f64| ems(label) * 12.0 > room;
    if is_wide(&label, room) {
        // The dots are a little less wide than a wide letter.
        while is_wide(&label, room - 10.0) {
            label.pop();
        }
        label.push('…');
    }
    label
}
