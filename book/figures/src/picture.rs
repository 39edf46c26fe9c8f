//! A finished picture, and its two spellings as SVG.

use std::fmt::Write as _;

use anyhow::Result;

use crate::canvas::Canvas;
use crate::style::{Colour, END, PALETTE, SUB, SUP};

/// How much larger than its own units a picture may grow on a wide page.
const ENLARGEMENT: f64 = 1.3;

/// A drawn figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// What the picture shows, in words, for those who do not see it.
    pub alt: String,
    /// The cells of its grids that a reader may point at.
    pub cells: Vec<Cell>,
    width: u32,
    height: u32,
    body: String,
}

/// A place in a picture, in the picture's own units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Which of the picture's grids it is part of.
    pub grid: usize,
    /// Its row in that grid.
    pub row: usize,
    /// Its column.
    pub column: usize,
    /// Its upper left corner.
    pub at: (f64, f64),
    /// Its width and its height.
    pub size: (f64, f64),
}

impl Picture {
    /// A picture of that size, drawn by `draw`.
    pub(crate) fn paint(
        (width, height): (u32, u32),
        alt: impl Into<String>,
        draw: impl FnOnce(&Canvas) -> Result<()>,
    ) -> Result<Self> {
        let body = tidy(&Canvas::paint((width, height), draw)?);
        Ok(Self {
            alt: alt.into(),
            cells: Vec::new(),
            width,
            height,
            body,
        })
    }

    /// The width and the height, in its own units.
    pub fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    /// The picture as one line of SVG inside a page, whose `--fig-…` variables colour it.
    ///
    /// `id` must be unique on the page; every id in the picture begins with it.
    pub fn to_inline_svg(&self, id: &str) -> String {
        let Self { width, height, .. } = self;
        let (id, alt) = (escape(id), escape(&self.alt));
        let (shown_width, shown_height) = (
            (f64::from(*width) * ENLARGEMENT).round(),
            (f64::from(*height) * ENLARGEMENT).round(),
        );
        format!(
            "<svg viewBox=\"0 0 {width} {height}\" width=\"{shown_width}\" \
             height=\"{shown_height}\" style=\"max-width:100%;height:auto\" role=\"img\" \
             aria-labelledby=\"{id}-title\"><title id=\"{id}-title\">{alt}</title>{}</svg>",
            spoken(&self.coloured(|name, _| format!("var(--fig-{name})")))
        )
    }

    /// The picture as a file of its own: white paper, the light theme's colours.
    pub fn to_standalone_svg(&self) -> String {
        let Self { width, height, .. } = self;
        let paper = PALETTE[Colour::Paper as usize].1;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" \
             font-family=\"'Source Sans 3', 'Open Sans', Helvetica, Arial, 'PingFang SC', \
             'Microsoft YaHei', 'Noto Sans CJK SC', 'Noto Sans SC', sans-serif\">\
             <title>{}</title><rect width=\"{width}\" height=\"{height}\" fill=\"{paper}\"/>{}</svg>\n",
            escape(&self.alt),
            self.coloured(|_, light| light.to_owned())
        )
    }

    /// Width and height in pixels, `scale` of them to a unit. An SVG file has one to a unit.
    pub fn pixels(&self, scale: f32) -> (u32, u32) {
        let pixels = |units: u32| (units as f32 * scale).round() as u32;
        (pixels(self.width), pixels(self.height))
    }

    fn coloured(&self, colour: impl Fn(&str, &str) -> String) -> String {
        // Only a whole attribute: a quote inside a text is an entity.
        let mut pieces = self.body.split("\"#F160");
        let mut body = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let number = piece.get(..2);
            let place = number.and_then(|number| usize::from_str_radix(number, 16).ok());
            match place.and_then(|place| PALETTE.get(place)) {
                Some((name, light)) => {
                    let _ = write!(body, "\"{}{}", colour(name, light), &piece[2..]);
                }
                None => {
                    let _ = write!(body, "\"#F160{piece}");
                }
            }
        }
        body
    }
}

/// The same with its Chinese named as such, for those who hear it and for the choice of a font.
fn spoken(body: &str) -> String {
    let mut texts = body.split("<text ");
    let mut named = texts.next().unwrap_or_default().to_owned();
    for text in texts {
        let own = text.split("</text>").next().unwrap_or_default();
        let is_chinese = own.chars().any(|c| matches!(c, '\u{3400}'..='\u{9FFF}'));
        named += if is_chinese {
            "<text lang=\"zh-Hans\" "
        } else {
            "<text "
        };
        named += text;
    }
    named
}

/// What plotters wrote, on one line and without its frame: tenths become units, texts take the
/// font of their surroundings and stand on the line they are meant for.
fn tidy(svg: &str) -> String {
    let body = svg
        .split_once('>')
        .and_then(|(_, rest)| rest.rsplit_once("</svg>"))
        .map_or("", |(body, _)| body);
    let mut tidied = String::with_capacity(body.len());
    let mut name = "";
    // Quotes only ever delimit attributes, so names and values take turns.
    for (i, piece) in body.split('"').enumerate() {
        if i % 2 == 0 {
            name = piece.rsplit(' ').next().unwrap_or("");
            // Breaks and scripts are rare, and most pieces go as they are.
            if piece.bytes().any(|b| b == b'\n' || b == 0xEE) {
                tidied.push_str(&scripts(&piece.replace('\n', "")));
            } else {
                tidied.push_str(piece);
            }
        } else {
            let value = match name {
                "opacity=" => piece.to_owned(),
                "transform=" => {
                    let (turn, point) = piece.split_once(", ").unwrap_or((piece, ""));
                    format!("{turn}, {})", tenths(point.trim_end_matches(')')))
                }
                "dy=" => match piece {
                    "0.5ex" => "0.35em".to_owned(),
                    "-0.5ex" => "0".to_owned(),
                    other => other.to_owned(),
                },
                _ => tenths(piece),
            };
            let is_noise = matches!(
                (name, value.as_str()),
                ("opacity=", "1") | ("font-family=", "sans-serif") | ("dy=", "0")
            );
            if is_noise {
                // With the space before it.
                tidied.truncate(tidied.len() - name.len() - 1);
            } else {
                let _ = write!(tidied, "\"{value}\"");
            }
        }
    }
    tidied
}

/// Every number among these, separated by spaces and commas, divided by ten.
fn tenths(numbers: &str) -> String {
    let mut out = String::with_capacity(numbers.len() + 8);
    for token in numbers.trim_end().split_inclusive([' ', ',']) {
        let number = token.trim_end_matches([' ', ',']);
        match tenth(number) {
            Some(tenth) => out.push_str(&tenth),
            None => out.push_str(number),
        }
        out.push_str(&token[number.len()..]);
    }
    out
}

/// A number, rounded and divided by ten. Done with its digits: a page that draws would have to load
/// the reading of floats first, which is as large as the rest of this file.
fn tenth(number: &str) -> Option<String> {
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", number),
    };
    let (whole, rest) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(rest) {
        return None;
    }
    let up = rest.bytes().next().is_some_and(|first| first >= b'5');
    let whole = whole.parse::<u32>().ok()? + u32::from(up);
    Some(match (whole / 10, whole % 10) {
        (0, 0) => "0".to_owned(),
        (tens, 0) => format!("{sign}{tens}"),
        (tens, ones) => format!("{sign}{tens}.{ones}"),
    })
}

/// Subscripts and superscripts as shifted, smaller spans; what follows one is shifted back.
fn scripts(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut span, mut back) = (false, 0);
    for c in text.chars() {
        if span && matches!(c, SUB | SUP | END | '<') {
            out.push_str("</tspan>");
            span = false;
        }
        match c {
            SUB | SUP => {
                let shift = if c == SUB { 3 } else { -4 };
                let _ = write!(out, "<tspan dy=\"{}\" font-size=\"9\">", shift + back);
                (span, back) = (true, -shift);
            }
            END => {}
            '<' => {
                back = 0;
                out.push(c);
            }
            c => {
                if back != 0 && !span {
                    let _ = write!(out, "<tspan dy=\"{back}\">");
                    (span, back) = (true, 0);
                }
                out.push(c);
            }
        }
    }
    out
}

/// A text as it is written in HTML and SVG, between tags and in an attribute.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_divided_by_ten() {
        let cases = [
            ("120", "12"),
            ("125", "12.5"),
            ("-3", "-0.3"),
            ("0", "0"),
            ("96.77419354838710", "9.7"),
            ("120.00000000000001", "12"),
            ("10,20 -35,4", "1,2 -3.5,0.4"),
            ("middle", "middle"),
            ("", ""),
        ];
        for (before, after) in cases {
            assert_eq!(tenths(before), after, "{before}");
        }
    }
}
