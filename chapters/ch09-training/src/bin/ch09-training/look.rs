//! A translation in the terminal: the answer, and what the model looked at.

use ch09_training::reading::is_one_date;
use ch09_training::translate::{SURE, Translation};
use unicode_width::UnicodeWidthChar;

/// From little weight to much.
const SHADES: [&str; 5] = [" ", "░", "▒", "▓", "█"];

/// Prints the answer, how sure the model is, and the weights of the last layer, averaged over its
/// heads: a row for each character written, a column for each character read.
pub(crate) fn show(translation: &Translation) {
    println!("{}", translation.written);
    let percent = 100.0 * translation.probability();
    if translation.is_sure() {
        println!("sure: {percent:.1} %");
    } else if translation.probability() >= SURE && !translation.is_day() {
        println!("unsure: {percent:.1} %, but this is no day of the calendar");
    } else if !is_one_date(&translation.read) {
        println!(
            "unsure: {percent:.1} %, but the text is not one date and nothing else"
        );
    } else {
        println!(
            "unsure: {percent:.1} %; this may not be a date that the model was taught"
        );
    }
    println!();
    for line in map(translation) {
        println!("{}", line.trim_end());
    }
}

/// The lines of the map.
pub(crate) fn map(translation: &Translation) -> Vec<String> {
    // A control character would move the columns about.
    let shown: Vec<char> = translation
        .read
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    let mut lines = vec![format!("   {}", shown.iter().collect::<String>())];
    let Some(layer) = translation.looked_at.last() else {
        return lines;
    };
    let Some(weights) = layer.mean_axis(ndarray::Axis(0)) else {
        return lines;
    };
    for (written, row) in translation.written.chars().zip(weights.rows()) {
        let mut line = format!("{written}  ");
        for (&character, &weight) in shown.iter().zip(row) {
            let shade = (weight * SHADES.len() as f32) as usize;
            let shade = SHADES[shade.min(SHADES.len() - 1)];
            line.push_str(&shade.repeat(character.width().unwrap_or(0)));
        }
        lines.push(line);
    }
    lines
}
