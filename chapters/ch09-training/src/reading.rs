//! What is done to a text before the model reads it, and whether it can be one date at all.
//!
//! Nothing that a caller can pass to this module panics.

// ANCHOR: reading_imports
use crate::dates::{Language, NUMERALS, chinese_number, lower, unaccented, wide};
// ANCHOR_END: reading_imports

/// A text as it is read: accents stand on their letters, signs that look alike are one, and what
/// cannot be seen is gone. Two signs that turn the direction of writing stay, for they change what
/// is seen.
// ANCHOR: as_read
pub fn as_read(text: &str) -> String {
    let mut read = String::new();
    for c in text.chars() {
        match c {
            // A soft hyphen, joiners, marks of direction and of variants, a mark of byte order.
            '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}' => {}
            '\u{202a}'..='\u{202c}' | '\u{2060}'..='\u{206f}' => {}
            '\u{fe00}'..='\u{fe0f}' | '\u{feff}' => {}
            '\u{300}'..='\u{36f}' => {
                let letter = read.pop().map(|letter| (letter, accented(letter, c)));
                match letter {
                    Some((_, Some(accented))) => read.push(accented),
                    Some((letter, None)) => read.extend([letter, c]),
                    None => read.push(c),
                }
            }
            '\u{2010}'..='\u{2014}' | '\u{2212}' | '\u{fe63}' => read.push('-'),
            '\u{2044}' | '\u{2215}' => read.push('/'),
            '○' | '◯' => read.push('〇'),
            // The same characters under other numbers.
            '\u{f98e}' => read.push('年'),
            '\u{2f49}' => read.push('月'),
            '\u{2f47}' => read.push('日'),
            c if c.is_whitespace() => read.push(' '),
            c => read.push(c),
        }
    }
    read
}

/// The letter with this accent, if dates are written with it.
fn accented(letter: char, accent: char) -> Option<char> {
    match (letter, accent) {
        ('a', '\u{308}') => Some('ä'),
        ('A', '\u{308}') => Some('Ä'),
        ('e', '\u{301}') => Some('é'),
        ('E', '\u{301}') => Some('É'),
        ('u', '\u{302}') => Some('û'),
        ('U', '\u{302}') => Some('Û'),
        _ => None,
    }
}
// ANCHOR_END: as_read

// ANCHOR: one_date
/// How often a text names each part of a date.
#[derive(Default)]
struct Parts {
    years: usize,
    /// Days and months in digits or Chinese numerals.
    numbers: usize,
    /// Year, month and day in eight digits.
    wholes: usize,
    months: usize,
    weekdays: usize,
    /// The French "mar." is a Tuesday, the English one is a month.
    months_or_weekdays: usize,
    eras: usize,
}

impl Parts {
    /// Whether they are one day, with or without its weekday.
    fn are_one_day(&self) -> bool {
        let names = self.months + self.months_or_weekdays;
        let days = match (self.wholes, self.years, self.numbers) {
            (1, 0, 0) | (0, 1, 2) => self.months == 0,
            (0, 1, 1) => self.months <= 1 && names >= 1,
            _ => false,
        };
        let in_letters = usize::from(self.numbers == 1);
        let weekdays = (names + self.weekdays).saturating_sub(in_letters);
        days && weekdays <= 1 && self.weekdays <= 1 && self.eras <= 1
    }
}

/// Whether a text names one day and holds nothing else: one year, one month, one day, at most one
/// weekday, and of other words and signs only those that stand around a date.
///
/// It is not asked what day that is, nor whether there is one.
pub fn is_one_date(text: &str) -> bool {
    let text: String = as_read(text).trim().chars().map(plain).collect();
    let signs_of_a_range = |c: Option<char>| matches!(c, Some('-' | '/'));
    if signs_of_a_range(text.chars().next())
        || signs_of_a_range(text.chars().last())
    {
        return false;
    }
    let mut parts = Parts::default();
    let (mut rest, mut after_number, mut open) = (text.as_str(), false, false);
    while let Some(first) = rest.chars().next() {
        if let Some(after) = chinese_weekday(rest) {
            parts.weekdays += 1;
            (rest, after_number, open) = (after, false, false);
            continue;
        }
        let other = |c: char| kind(c) != kind(first);
        let end = match kind(first) {
            Kind::Alone => first.len_utf8(),
            _ => rest.find(other).unwrap_or(rest.len()),
        };
        let (word, after) = rest.split_at(end);
        rest = after;
        let is_number = matches!(kind(first), Kind::Digits | Kind::Numerals);
        let known = match kind(first) {
            Kind::Digits | Kind::Numerals => parts.number(word),
            Kind::Letters => parts.name(word) || after_number && is_ending(word),
            Kind::Alone => match first {
                ' ' | ',' | '.' | '。' | '-' | '/' | '(' | ')' => true,
                '年' | '月' | '日' | '号' => after_number,
                '公' if rest.starts_with('元') => {
                    parts.eras += 1;
                    rest = &rest['元'.len_utf8()..];
                    true
                }
                _ => false,
            },
        };
        let around = kind(first) == Kind::Letters && is_around(word);
        if !known && !around {
            return false;
        }
        if first != ' ' {
            after_number = is_number;
        }
        // "on" and the like are followed by something.
        if kind(first) != Kind::Alone {
            open = around;
        }
    }
    !open && parts.are_one_day()
}

impl Parts {
    /// Counts a number, if dates have one like it.
    fn number(&mut self, word: &str) -> bool {
        let digits = word.chars().all(|c| c.is_ascii_digit());
        let by_digit = |c: char| NUMERALS.iter().any(|n| n.starts_with(c));
        let counted = || {
            let numbers = (1..=31).map(chinese_number);
            let mut all = numbers
                .flat_map(|n| n.split('|').map(str::to_owned).collect::<Vec<_>>());
            all.any(|n| n == word)
        };
        match word.chars().count() {
            1 | 2 if digits => self.numbers += 1,
            8 if digits => self.wholes += 1,
            4 if digits || word.chars().all(by_digit) => self.years += 1,
            _ if !digits && counted() => self.numbers += 1,
            _ => return false,
        }
        true
    }

    /// Counts the name of a month or a weekday, if it is one.
    fn name(&mut self, word: &str) -> bool {
        let books = Language::ALL.map(Language::phrasebook);
        let month = books
            .iter()
            .any(|book| is_in(book.months, word) || is_in(book.short_months, word));
        let weekday = books.iter().any(|book| {
            is_in(book.weekdays, word) || is_in(book.short_weekdays, word)
        });
        match (month, weekday) {
            (true, true) => self.months_or_weekdays += 1,
            (true, false) => self.months += 1,
            (false, true) => self.weekdays += 1,
            (false, false) => return false,
        }
        true
    }
}

/// Small letters without accents, narrow digits and signs, simplified characters.
fn plain(c: char) -> char {
    let narrow = (' '..='~').find(|&narrow| wide(narrow) == c).unwrap_or(c);
    let simplified = Language::SimplifiedChinese.phrasebook().simplified;
    let pair = simplified.iter().find(|pair| pair.0 == narrow);
    let c = unaccented(lower(pair.map_or(narrow, |pair| pair.1)));
    if c == '零' { '〇' } else { c }
}

#[derive(PartialEq)]
enum Kind {
    Digits,
    Numerals,
    Letters,
    Alone,
}

fn kind(c: char) -> Kind {
    match c {
        '0'..='9' => Kind::Digits,
        'a'..='z' => Kind::Letters,
        '十' | '廿' | '卅' => Kind::Numerals,
        c if NUMERALS.iter().any(|n| n.starts_with(c)) => Kind::Numerals,
        _ => Kind::Alone,
    }
}

/// Whether a list of names has the word.
fn is_in(names: &str, word: &str) -> bool {
    let mut names = names.split([' ', '|']);
    names.any(|name| {
        let name = name.trim_end_matches('.').chars().map(plain);
        name.eq(word.chars())
    })
}

fn is_ending(word: &str) -> bool {
    ["st", "nd", "rd", "th", "er"].contains(&word)
}

/// Whether it is a word that a form or a frame has around a date.
fn is_around(word: &str) -> bool {
    let words = [
        "on", "of", "the", "den", "dem", "der", "am", "vom", "le", "du", "ce",
    ];
    words.contains(&word)
}

/// What follows a Chinese weekday, if the text begins with one.
fn chinese_weekday(text: &str) -> Option<&str> {
    let named = ["星期", "周", "礼拜"];
    let named = named.iter().find_map(|name| text.strip_prefix(name));
    let day = |rest: &'_ str| {
        rest.chars()
            .next()
            .filter(|&c| "一二三四五六日天".contains(c))
    };
    if let Some(rest) = named {
        return day(rest).map(|c| &rest[c.len_utf8()..]);
    }
    let rest = text.strip_prefix('(')?;
    let rest = &rest[day(rest)?.len_utf8()..];
    rest.strip_prefix(')')
}
// ANCHOR_END: one_date
