//! Dates as people write them, and the same dates in ISO 8601: "le 29 novembre 2026" → "2026-11-29".
//!
//! Every form has one reading. Day and month in digits stand in the European order, the day first,
//! unless the year comes before them: 5/3/2026 is the fifth of March. Eight digits in a row are year,
//! month, day. Not written at all are the American order in digits (3/5/2026 for the fifth of
//! March), years of two digits, years of an era or of the Republic of China, and dates in words.
//!
//! Nothing that a caller can pass to this module panics.

// ANCHOR: imports
use jiff::{
    ToSpan,
    civil::{Date, date},
};
use rand::{Rng, RngExt, seq::IteratorRandom};
use std::{collections::BTreeSet, fmt, mem::replace};
// ANCHOR_END: imports

/// A date twice: as somebody wrote it, and in ISO 8601.
// ANCHOR: example_type
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The date as somebody wrote it.
    pub text: String,
    /// The same date as year-month-day, such as "2026-11-29".
    pub iso: String,
    /// For year, month and day the letters and digits that write it: indices into the `char`s of
    /// `text`, ascending. An ending counts ("29th"), a full stop or 年 does not.
    pub fields: [Vec<usize>; 3],
}

/// How a date is written: in a language, or in nothing but digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// November 29, 2026
    English,
    /// 29. November 2026
    German,
    /// 29 novembre 2026
    French,
    /// 2026年11月29號
    TraditionalChinese,
    /// 2026年11月29号
    SimplifiedChinese,
    /// 2026-11-29
    Numeric,
}
// ANCHOR_END: example_type

// ANCHOR: phrasebook
/// What it takes to write dates in a language. In a form
///
/// - `%Y`, `%m`, `%d` are year, month and day in digits, `%年`, `%月`, `%日` in Chinese numerals;
/// - `%B` is the month's name, `%b` its short name, `%h` that without a full stop;
/// - `%o` is the day as an ordinal, `%A` the weekday's name, `%a` its short name.
///
/// A frame is what may stand around a form `{}`. `|` divides what may stand for each other.
pub(crate) struct Phrasebook {
    name: &'static str,
    forms: &'static str,
    frames: &'static str,
    pub(crate) months: &'static str,
    pub(crate) short_months: &'static str,
    pub(crate) weekdays: &'static str,
    pub(crate) short_weekdays: &'static str,
    ending: fn(day: i8) -> &'static str,
    full_stop: char,
    /// Whether its keyboards also write full-width digits, as in ２０２６.
    wide: bool,
    /// The traditional characters which it simplifies, and what they become.
    pub(crate) simplified: &'static [(char, char)],
}

const ENGLISH: Phrasebook = Phrasebook {
    name: "English",
    forms: "%B %d, %Y | %B %d %Y | %B %o, %Y | %B %o %Y | %B the %o, %Y | \
        %d %B %Y | %d %B, %Y | %o %B %Y | %o %B, %Y | %d of %B %Y | %o of %B %Y | \
        %o of %B, %Y | the %o of %B %Y | the %o of %B, %Y | %b %d, %Y | %b %d %Y | \
        %b %o, %Y | %b %o %Y | %d %b %Y | %d %b, %Y | %o %b %Y | %d-%h-%Y | \
        %d/%h/%Y | %d.%h.%Y | %d%h%Y | %h-%d-%Y | %Y %B %d | %Y, %B %d | \
        %Y %b %d | %Y-%h-%d | %d-%B-%Y",
    frames: "%A, {} | %A {} | %a, {} | %a {} | on {} | on %A, {} | {} (%A) | {} (%a)",
    months: "January February March April May June \
        July August September October November December",
    short_months: "Jan. Feb. Mar. Apr. May Jun.|June \
        Jul.|July Aug. Sep.|Sept. Oct. Nov. Dec.",
    weekdays: "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    short_weekdays: "Mon. Tue.|Tues. Wed. Thu.|Thur.|Thurs. Fri. Sat. Sun.",
    ending: english_ending,
    wide: false,
    ..NUMERIC
};

fn english_ending(day: i8) -> &'static str {
    match day {
        1 | 21 | 31 => "st",
        2 | 22 => "nd",
        3 | 23 => "rd",
        _ => "th",
    }
}

const GERMAN: Phrasebook = Phrasebook {
    name: "German",
    forms: "%d. %B %Y | %d. %b %Y | %d.%m.%Y | %d. %m. %Y | %d %B %Y | %d %b %Y | \
        %d-%h-%Y",
    frames: "%A, {} | %A, den {} | %A, dem {} | %A, der {} | %A {} | %a, {} | \
        %a {} | den {} | der {} | am {} | vom {} | am %A, den {} | am %A, dem {} | \
        {} (%A) | {} (%a)",
    months: "Januar|Jänner Februar März April Mai Juni \
        Juli August September Oktober November Dezember",
    short_months: "Jan.|Jän. Feb. Mär.|Mrz.|März Apr. Mai Jun.|Juni \
        Jul.|Juli Aug. Sep.|Sept. Okt. Nov. Dez.",
    weekdays: "Montag Dienstag Mittwoch Donnerstag Freitag Samstag|Sonnabend Sonntag",
    short_weekdays: "Mo. Di. Mi. Do. Fr. Sa. So.",
    wide: false,
    ..NUMERIC
};

const FRENCH: Phrasebook = Phrasebook {
    name: "French",
    forms: "%o %B %Y | %d %B %Y | %o %b %Y | %d %b %Y | %d-%h-%Y | %d/%m/%Y | \
        %d.%m.%Y | %d-%m-%Y",
    frames: "le {} | %A {} | le %A {} | %A le {} | %a {} | du {} | ce {} | {} (%A)",
    months: "janvier février mars avril mai juin \
        juillet août septembre octobre novembre décembre",
    short_months: "janv.|jan. févr.|fév. mars avr. mai juin \
        juil. août sept. oct. nov. déc.",
    weekdays: "lundi mardi mercredi jeudi vendredi samedi dimanche",
    short_weekdays: "lun. mar. mer. jeu. ven. sam. dim.",
    ending: |day| if day == 1 { "er" } else { "" },
    wide: false,
    ..NUMERIC
};

const TRADITIONAL_CHINESE: Phrasebook = Phrasebook {
    name: "Traditional Chinese",
    forms: "%Y年%m月%d日 | %Y年%m月%d號 | %Y 年 %m 月 %d 日 | %Y年 %m月 %d日 | \
        %年年%月月%日日 | %年年%月月%日號 | %Y年%月月%日日 | %Y/%m/%d | %Y-%m-%d | \
        %Y.%m.%d",
    frames: "{}%A | {} %A | {}（%A） | {}(%A) | {} (%A) | {}（%a） | {}(%a) | \
        {}，%A | %A，{} | %A {} | 西元{}",
    weekdays: "星期一|週一|禮拜一 星期二|週二|禮拜二 星期三|週三|禮拜三 \
        星期四|週四|禮拜四 星期五|週五|禮拜五 星期六|週六|禮拜六 \
        星期日|星期天|週日|禮拜日|禮拜天",
    short_weekdays: "一 二 三 四 五 六 日",
    full_stop: '。',
    ..NUMERIC
};

/// The last pair are two words for the common era, 西元 and 公元.
const SIMPLIFIED_CHINESE: Phrasebook = Phrasebook {
    name: "Simplified Chinese",
    simplified: &[('號', '号'), ('週', '周'), ('禮', '礼'), ('西', '公')],
    ..TRADITIONAL_CHINESE
};

const NUMERIC: Phrasebook = Phrasebook {
    name: "numeric",
    forms: "%Y-%m-%d | %Y/%m/%d | %Y.%m.%d | %Y %m %d | %Y. %m. %d | \
        %Y / %m / %d | %Y - %m - %d | %Y%m%d | %d.%m.%Y | %d/%m/%Y | %d-%m-%Y | \
        %d %m %Y | %d. %m. %Y | %d / %m / %Y | %d - %m - %Y",
    frames: "{}",
    months: "",
    short_months: "",
    weekdays: "",
    short_weekdays: "",
    ending: |_| "",
    full_stop: '.',
    wide: true,
    simplified: &[],
};
// ANCHOR_END: phrasebook

// ANCHOR: language
impl Language {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::English,
        Self::German,
        Self::French,
        Self::TraditionalChinese,
        Self::SimplifiedChinese,
        Self::Numeric,
    ];

    pub(crate) fn phrasebook(self) -> &'static Phrasebook {
        match self {
            Self::English => &ENGLISH,
            Self::German => &GERMAN,
            Self::French => &FRENCH,
            Self::TraditionalChinese => &TRADITIONAL_CHINESE,
            Self::SimplifiedChinese => &SIMPLIFIED_CHINESE,
            Self::Numeric => &NUMERIC,
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.phrasebook().name)
    }
}
// ANCHOR_END: language

// ANCHOR: split
/// What a date is for. No date is for two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The model learns from these, about 94 % of all dates.
    Training,
    /// These tell how well it learns, about 3 %.
    Validation,
    /// These are kept for the finished model, about 3 %.
    HeldOut,
}

const FIRST: Date = date(1000, 1, 1);
const LAST: Date = date(2999, 12, 31);

/// Days from the first of January 1000.
fn days_to(date: Date) -> i64 {
    date.duration_since(FIRST).as_hours() / 24
}

/// What a date is for, in whatever form it is written. Two multiplications by the golden ratio, in
/// 64 bits, mix the number of the day; their upper half modulo 100 decides.
///
/// Source: Knuth, *The Art of Computer Programming*, volume 3, section 6.4, on hashing by
/// multiplication.
pub fn split_of(date: Date) -> Split {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (days_to(date) as u64).wrapping_mul(GOLDEN);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(GOLDEN);
    match (mixed >> 32) % 100 {
        0..94 => Split::Training,
        94..97 => Split::Validation,
        _ => Split::HeldOut,
    }
}

/// One of the split's days from the year 1000 to 2999, each as likely as any other.
pub fn random_date(split: Split, rng: &mut (impl Rng + ?Sized)) -> Date {
    loop {
        let days = rng.random_range(0..=days_to(LAST)).days();
        let date = FIRST.saturating_add(days);
        if split_of(date) == split {
            return date;
        }
    }
}
// ANCHOR_END: split

// ANCHOR: spellings
/// The spellings of what `%code` stands for, `|` between them, and its field: 0 for the year, 1 for
/// the month, 2 for the day, none for the weekday. Months and days have at least `width` digits.
fn spellings(
    code: char,
    date: Date,
    width: usize,
    book: &Phrasebook,
) -> (Option<usize>, String) {
    let (year, month, day) = (date.year(), date.month(), date.day());
    let weekday = date.weekday().to_monday_one_offset();
    let digits = |n| format!("{n:0width$}");
    let name = |names: &str, n: i8| {
        let name = names.split(' ').nth(n as usize - 1);
        name.unwrap_or_default().to_string()
    };
    let bare = |names: String| names.replace('.', "");
    let both = |names: String| format!("{names}|{}", bare(names.clone()));
    match code {
        'Y' => (Some(0), format!("{year:04}")),
        '年' => (Some(0), chinese_year(year)),
        'm' => (Some(1), digits(month)),
        '月' => (Some(1), chinese_number(month)),
        'B' => (Some(1), name(book.months, month)),
        'b' => (Some(1), both(name(book.short_months, month))),
        'h' => (Some(1), bare(name(book.short_months, month))),
        'd' => (Some(2), digits(day)),
        '日' => (Some(2), chinese_number(day)),
        'o' => (Some(2), format!("{day}{}", (book.ending)(day))),
        'A' => (None, name(book.weekdays, weekday)),
        'a' => (None, both(name(book.short_weekdays, weekday))),
        _ => (None, String::new()),
    }
}

pub(crate) const NUMERALS: [&str; 10] =
    ["〇", "一", "二", "三", "四", "五", "六", "七", "八", "九"];

/// Digit by digit: 2026 is 二〇二六 or 二零二六.
fn chinese_year(year: i16) -> String {
    let digits = format!("{year:04}");
    let digits = digits.chars().filter_map(|c| c.to_digit(10));
    let year: String = digits.map(|digit| NUMERALS[digit as usize]).collect();
    format!("{year}|{}", year.replace('〇', "零"))
}

/// Counted, up to 31: 29 is 二十九, two tens and nine, or in brief 廿九.
pub(crate) fn chinese_number(n: i8) -> String {
    let n = n as usize;
    let tens = ["", "十", "二十|廿", "三十|卅"][n / 10 % 4].split('|');
    let ones = NUMERALS[n % 10].replace('〇', "");
    tens.map(|tens| format!("{tens}{ones}"))
        .collect::<Vec<_>>()
        .join("|")
}
// ANCHOR_END: spellings

// ANCHOR: expand
/// A character of a text, and the field that it helps to write.
type Marked = (char, Option<usize>);

/// A form with each `%code` replaced by what `pick` makes of its spellings, whose letters and digits
/// are marked with its field.
fn expand(
    form: &str,
    date: Date,
    width: usize,
    book: &Phrasebook,
    mut pick: impl FnMut(&str) -> String,
) -> Vec<Marked> {
    let mut text = Vec::new();
    let mut form = form.chars();
    while let Some(c) = form.next() {
        if c != '%' {
            text.push((c, None));
        } else if let Some(code) = form.next() {
            let (field, all) = spellings(code, date, width, book);
            let mark = |c: char| (c, field.filter(|_| c.is_alphanumeric()));
            text.extend(pick(&all).chars().map(mark));
        }
    }
    for (c, _) in &mut text {
        let pair = book.simplified.iter().find(|pair| pair.0 == *c);
        *c = pair.map_or(*c, |pair| pair.1);
    }
    text
}
// ANCHOR_END: expand

// ANCHOR: careless
/// The text as somebody types it who does not look twice. Each fault is made once in 20 texts, each
/// unusual use of capitals once in 10.
fn careless(
    text: &mut Vec<Marked>,
    book: &Phrasebook,
    rng: &mut (impl Rng + ?Sized),
) {
    let mut fault = || rng.random_bool(0.05);
    if fault() {
        text.retain(|&(c, _)| c != ',');
    }
    // No space after this sign.
    for sign in [',', '.'].into_iter().filter(|_| fault()) {
        let mut last = ' ';
        text.retain(|&(c, _)| replace(&mut last, c) != sign || c != ' ');
    }
    if fault() {
        text.push((book.full_stop, None));
    }
    let (no_accents, full_width) = (fault(), fault() && book.wide);
    let (one_space_less, one_space_more) = (fault(), fault());
    let capitals = rng.random_range(0..10);
    let mut last = ' ';
    for (i, (c, _)) in text.iter_mut().enumerate() {
        let begins = !replace(&mut last, *c).is_alphanumeric();
        *c = if no_accents { unaccented(*c) } else { *c };
        *c = if full_width { wide(*c) } else { *c };
        *c = match capitals {
            0 => upper(*c),
            1 => lower(*c),
            2 if begins => upper(*c),
            3 if i == 0 => upper(*c),
            _ => *c,
        };
    }
    if one_space_less {
        // Between two numbers, or two words, it has to stay.
        let digit = |i: usize| text.get(i).is_some_and(|(c, _)| c.is_numeric());
        let divides = |i: usize| i > 0 && digit(i - 1) == digit(i + 1);
        let place = spaces(text).filter(|&i| !divides(i)).choose(rng);
        place.map(|place| text.remove(place));
    }
    if one_space_more {
        let ends = [0, text.len()];
        let place = ends.into_iter().chain(spaces(text)).choose(rng);
        text.insert(place.unwrap_or(0), (' ', None));
    }
}

fn spaces(text: &[Marked]) -> impl Iterator<Item = usize> {
    let places = text.iter().enumerate();
    places.filter(|(_, (c, _))| *c == ' ').map(|(i, _)| i)
}

fn upper(c: char) -> char {
    c.to_uppercase().next().unwrap_or(c)
}

pub(crate) fn lower(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

pub(crate) fn unaccented(c: char) -> char {
    match c {
        'ä' => 'a',
        'é' => 'e',
        'û' => 'u',
        _ => c,
    }
}

/// The full-width form of a digit or a sign of ASCII.
pub(crate) fn wide(c: char) -> char {
    let wide = char::from_u32(u32::from(c) + 0xfee0);
    wide.filter(|_| c.is_ascii_graphic()).unwrap_or(c)
}
// ANCHOR_END: careless

// ANCHOR: write
/// What `|` divides.
fn each(all: &str) -> impl Iterator<Item = &str> {
    all.split('|').map(str::trim)
}

fn one_of(all: &str, rng: &mut (impl Rng + ?Sized)) -> String {
    each(all).choose(rng).unwrap_or_default().to_string()
}

/// The date in one of the language's forms, half of the time in a frame, and now and then careless.
pub fn write(
    date: Date,
    language: Language,
    rng: &mut (impl Rng + ?Sized),
) -> Example {
    let book = language.phrasebook();
    let mut form = one_of(book.forms, rng);
    // Where nothing divides the numbers the zeros must not be missing.
    let width = match form.contains("%m%d") {
        true => 2,
        false => rng.random_range(1..=2),
    };
    if rng.random_bool(0.5) {
        form = one_of(book.frames, rng).replace("{}", &form);
    }
    let mut text = expand(&form, date, width, book, |all| one_of(all, rng));
    careless(&mut text, book, rng);
    let places = 0..text.len();
    let of = |f| places.clone().filter(|&i| text[i].1 == Some(f)).collect();
    Example {
        fields: [of(0), of(1), of(2)],
        text: text.iter().map(|&(c, _)| c).collect(),
        iso: date.to_string(),
    }
}

/// A random date of the split in a random language.
pub fn example(split: Split, rng: &mut (impl Rng + ?Sized)) -> Example {
    let language = Language::ALL[rng.random_range(0..Language::ALL.len())];
    write(random_date(split, rng), language, rng)
}
// ANCHOR_END: write

// ANCHOR: alphabet
/// Every character that [`write()`] can write, in the order of Unicode.
pub fn alphabet() -> Vec<char> {
    let mut alphabet = BTreeSet::new();
    for book in Language::ALL.map(Language::phrasebook) {
        let mut careful = BTreeSet::from([book.full_stop]);
        // A leap year has every month, day and weekday, and in their numbers every digit.
        for day in date(2000, 1, 1).series(1.day()).take(366) {
            for form in each(book.forms).chain(each(book.frames)) {
                let form = form.replace("{}", "");
                let all = |all: &str| all.replace('|', "");
                let text = expand(&form, day, 2, book, all);
                careful.extend(text.iter().map(|&(c, _)| c));
            }
        }
        for c in careful {
            for c in [c, unaccented(c)] {
                alphabet.extend([c, upper(c), lower(c)]);
            }
            alphabet.extend(book.wide.then(|| wide(c)));
        }
    }
    alphabet.into_iter().collect()
}
// ANCHOR_END: alphabet
