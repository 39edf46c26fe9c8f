//! What chapter 9 claims about its dates.

use ch09_training::dates::*;
use jiff::civil::{Date, Weekday, date};
use rand::RngExt;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use std::collections::{BTreeMap, BTreeSet};

const SPLITS: [Split; 3] = [Split::Training, Split::Validation, Split::HeldOut];

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn every_day() -> impl Iterator<Item = Date> {
    let first = date(1900, 1, 1);
    std::iter::successors(Some(first), |day| day.tomorrow().ok())
        .take_while(|day| day.year() < 2100)
}

/// Everything that is written for this date in so many attempts.
fn written(day: Date, language: Language, attempts: usize) -> BTreeSet<String> {
    let mut rng = rng(1);
    (0..attempts)
        .map(|_| write(day, language, &mut rng).text)
        .collect()
}

fn assert_writes(day: Date, language: Language, texts: &[&str]) {
    let written = written(day, language, 40_000);
    let missing: Vec<_> = texts.iter().filter(|t| !written.contains(**t)).collect();
    assert!(missing.is_empty(), "{language} never writes {missing:?}");
}

fn assert_never_writes(day: Date, language: Language, parts: &[&str]) {
    for text in written(day, language, 10_000) {
        for part in parts {
            assert!(!text.contains(part), "{part:?} in {text:?}");
        }
    }
}

#[test]
fn splits_share_the_days_out() {
    let mut counts = BTreeMap::new();
    for day in every_day() {
        *counts.entry(format!("{:?}", split_of(day))).or_insert(0) += 1;
    }
    let days: usize = counts.values().sum();
    assert_eq!(days, 73_049);
    let share = |split: &str| 100.0 * counts[split] as f64 / days as f64;
    assert!((share("Training") - 94.0).abs() < 0.3);
    assert!((share("Validation") - 3.0).abs() < 0.3);
    assert!((share("HeldOut") - 3.0).abs() < 0.3);
}

/// Every month, day, weekday and decade has its part of the days held out, so that no regular
/// pattern of the calendar decides.
#[test]
fn splits_are_mixed() {
    let keys: [fn(Date) -> i32; 4] = [
        |day| day.month().into(),
        |day| day.day().into(),
        |day| day.weekday().to_monday_one_offset().into(),
        |day| (day.year() / 10).into(),
    ];
    for key in keys {
        let mut counts: BTreeMap<i32, (f64, f64)> = BTreeMap::new();
        for day in every_day() {
            let (held_out, all) = counts.entry(key(day)).or_default();
            *all += 1.0;
            *held_out += f64::from(split_of(day) == Split::HeldOut);
        }
        for (value, (held_out, all)) in counts {
            let share = held_out / all;
            assert!((0.015..0.045).contains(&share), "{share} at {value}");
        }
    }
}

#[test]
fn random_dates_are_of_their_split_and_reach_its_ends() {
    for split in SPLITS {
        let mut rng = rng(2);
        let all: BTreeSet<_> =
            every_day().filter(|d| split_of(*d) == split).collect();
        let mut seen = BTreeSet::new();
        for _ in 0..12 * 2_300 {
            let day = random_date(split, &mut rng);
            assert!(all.contains(&day));
            seen.insert(day);
        }
        match split {
            // Too many days to see them all.
            Split::Training => assert!(seen.len() > 20_000),
            _ => assert!(
                seen.len() > all.len() - 5,
                "{} of {}",
                seen.len(),
                all.len()
            ),
        }
    }
}

#[test]
fn english_forms() {
    assert_writes(
        date(2026, 11, 29),
        Language::English,
        &[
            "November 29, 2026",
            "November 29 2026",
            "November 29th, 2026",
            "29 November 2026",
            "29th November 2026",
            "the 29th of November 2026",
            "29th of November, 2026",
            "Nov 29, 2026",
            "Nov. 29, 2026",
            "29 Nov 2026",
            "29-Nov-2026",
            "Sunday, November 29, 2026",
            "Sun, 29 Nov 2026",
            "Sun. 29 Nov 2026",
            "Sunday 29 November 2026",
            "Sunday November 29 2026",
            "Sunday the 29th of November 2026",
            "NOVEMBER 29, 2026",
            "november 29, 2026",
            "November 29,2026",
            "Nov.29, 2026",
            "November  29, 2026",
            " November 29, 2026",
            "November 29, 2026 ",
            "November 29, 2026.",
            "29Nov2026",
            "on November 29, 2026",
            "November 29, 2026 (Sunday)",
        ],
    );
    let march = ["Mar 5, 2026", "March 05, 2026", "5th March 2026"];
    assert_writes(date(2026, 3, 5), Language::English, &march);
    let september = ["Sept. 1, 2026", "Sep 1, 2026", "September 1st, 2026"];
    assert_writes(date(2026, 9, 1), Language::English, &september);
    assert_writes(date(2026, 5, 22), Language::English, &["22nd May 2026"]);
    assert_never_writes(
        date(2026, 5, 23),
        Language::English,
        &["May. ", "May.,", "23th"],
    );
}

#[test]
fn german_forms() {
    assert_writes(
        date(2026, 11, 29),
        Language::German,
        &[
            "29. November 2026",
            "29. Nov. 2026",
            "29. Nov 2026",
            "29.11.2026",
            "29. 11. 2026",
            "den 29. November 2026",
            "am 29. November 2026",
            "Sonntag, 29. November 2026",
            "Sonntag, den 29. November 2026",
            "So., 29.11.2026",
            "So, 29. Nov. 2026",
            "So 29.11.2026",
            "am Sonntag, dem 29. November 2026",
            "29.November 2026",
        ],
    );
    let march = [
        "1.3.2026",
        "01.03.2026",
        "1. März 2026",
        "1. Marz 2026",
        "1. Mrz 2026",
    ];
    assert_writes(date(2026, 3, 1), Language::German, &march);
    let january = [
        "3. Januar 2026",
        "3. Jänner 2026",
        "Samstag, 3. Januar 2026",
        "Sonnabend, 3. Januar 2026",
        "3. JÄNNER 2026",
    ];
    assert_writes(date(2026, 1, 3), Language::German, &january);
    assert_never_writes(date(2026, 5, 3), Language::German, &["Mai."]);
}

#[test]
fn french_forms() {
    assert_writes(
        date(2026, 11, 29),
        Language::French,
        &[
            "29 novembre 2026",
            "le 29 novembre 2026",
            "dimanche 29 novembre 2026",
            "29 nov. 2026",
            "dim. 29 nov. 2026",
            "le dimanche 29 novembre 2026",
            "29/11/2026",
            "Dimanche 29 novembre 2026",
            "Le 29 novembre 2026",
            "29 Novembre 2026",
        ],
    );
    assert_writes(date(2026, 1, 1), Language::French, &["1er janvier 2026"]);
    let february = ["2 fevrier 2026", "2 FÉVRIER 2026", "2 FEVRIER 2026"];
    assert_writes(date(2026, 2, 2), Language::French, &february);
    assert_writes(
        date(2026, 8, 2),
        Language::French,
        &["2 aout 2026", "02 août 2026"],
    );
    assert_writes(date(2026, 12, 2), Language::French, &["2 decembre 2026"]);
    assert_never_writes(date(2026, 3, 21), Language::French, &["21er", "mars."]);
}

#[test]
fn chinese_forms() {
    let day = date(2026, 11, 29);
    let both = [
        "2026年11月29日",
        "2026 年 11 月 29 日",
        "二〇二六年十一月二十九日",
        "二零二六年十一月二十九日",
        "二〇二六年十一月廿九日",
        "2026年11月29日星期日",
        "2026年11月29日（星期日）",
        "2026年11月29日 星期日",
        "2026年11月29日星期天",
        "星期日 2026年11月29日",
        "２０２６年１１月２９日",
        "2026/11/29(日)",
        "2026年十一月二十九日",
    ];
    let traditional = [
        "2026年11月29號",
        "2026年11月29日週日",
        "2026年11月29日禮拜天",
        "西元2026年11月29日",
    ];
    let simplified = [
        "2026年11月29号",
        "2026年11月29日周日",
        "2026年11月29日礼拜天",
        "公元2026年11月29日",
    ];
    for (language, its, not) in [
        (
            Language::TraditionalChinese,
            traditional,
            ["号", "周", "礼", "公"],
        ),
        (
            Language::SimplifiedChinese,
            simplified,
            ["號", "週", "禮", "西"],
        ),
    ] {
        assert_writes(day, language, &both);
        assert_writes(day, language, &its);
        assert_never_writes(day, language, &not);
        assert_writes(
            date(2026, 1, 5),
            language,
            &["2026年01月05日", "2026年1月5日"],
        );
        let tens = ["二〇二六年十月十日", "二〇二六年十月十日星期六"];
        assert_writes(date(2026, 10, 10), language, &tens);
        let thirty = ["二〇二六年十月三十日", "二〇二六年十月卅日"];
        assert_writes(date(2026, 10, 30), language, &thirty);
    }
}

#[test]
fn numeric_forms() {
    let november = [
        "2026-11-29",
        "2026/11/29",
        "2026.11.29",
        "29.11.2026",
        "29/11/2026",
        "29-11-2026",
        "20261129",
        "２０２６－１１－２９",
    ];
    assert_writes(date(2026, 11, 29), Language::Numeric, &november);
    let march = [
        "2026/3/5",
        "2026/03/05",
        "20260305",
        "5/3/2026",
        "05.03.2026",
    ];
    assert_writes(date(2026, 3, 5), Language::Numeric, &march);
    let american = ["3/5/2026", "03/05/2026", "3-5-2026", "202635", "2026305"];
    assert_never_writes(date(2026, 3, 5), Language::Numeric, &american);
}

/// Reads a number in digits of either width or in Chinese numerals, without the generator's tables.
fn number(text: &str) -> Option<i16> {
    let numerals = "〇一二三四五六七八九";
    let mut tens = 0;
    let mut number = 0;
    for c in text.chars() {
        let place = numerals.chars().position(|n| n == c);
        let digit = match c {
            '0'..='9' => c as i16 - '0' as i16,
            '０'..='９' => (c as u32 - '０' as u32) as i16,
            '零' => 0,
            '十' => {
                (tens, number) = (number.max(1), 0);
                continue;
            }
            '廿' => {
                tens = 2;
                continue;
            }
            '卅' => {
                tens = 3;
                continue;
            }
            _ => place? as i16,
        };
        number = 10 * number + digit;
    }
    Some(10 * tens + number)
}

/// The month by its number or the beginning of its name.
fn month(text: &str) -> Option<i16> {
    let beginnings = [
        "jan jän",
        "feb fev fév",
        "mar mär mrz",
        "apr avr",
        "may mai",
        "jun juin",
        "jul juil",
        "aug aoû aou",
        "sep",
        "oct okt",
        "nov",
        "dec déc dez",
    ];
    let text = text.to_lowercase();
    number(&text).or_else(|| {
        let mut names = beginnings.iter();
        names
            .position(|names| names.split(' ').any(|name| text.starts_with(name)))
            .map(|m| m as i16 + 1)
    })
}

fn weekday(word: &str) -> Option<Weekday> {
    let names = [
        "mo monday montag mon lundi lun 一",
        "di tuesday dienstag tue tues mardi mar 二",
        "mi wednesday mittwoch wed mercredi mer 三",
        "do thursday donnerstag thu thur thurs jeudi jeu 四",
        "fr friday freitag fri vendredi ven 五",
        "sa saturday samstag sonnabend sat samedi sam 六",
        "so sunday sonntag sun dimanche dim 日 天",
    ];
    let place = names
        .iter()
        .position(|n| n.split(' ').any(|name| name == word))?;
    Weekday::from_monday_zero_offset(place as i8).ok()
}

/// What a reader without the generator's tables makes of a text: its fields are read as what they
/// should be, and around them is nothing but signs, little words and the right weekday.
#[test]
fn a_reader_agrees() {
    let mut rng = rng(3);
    for i in 0..6_000 {
        let split = SPLITS[i % 3];
        let language = Language::ALL[rng.random_range(0..6)];
        let day = random_date(split, &mut rng);
        let example = write(day, language, &mut rng);
        assert_eq!(example.iso, day.strftime("%Y-%m-%d").to_string());

        let text: Vec<char> = example.text.chars().collect();
        let part =
            |places: &[usize]| places.iter().map(|&i| text[i]).collect::<String>();
        for places in &example.fields {
            assert!(!places.is_empty(), "{example:?}");
            assert!(places.windows(2).all(|w| w[0] + 1 == w[1]), "{example:?}");
        }
        let [y, m, d] = example.fields.each_ref().map(|places| part(places));
        assert_eq!(number(&y), Some(day.year()), "{example:?}");
        assert_eq!(month(&m), Some(day.month().into()), "{example:?}");
        let d = d.to_lowercase();
        let digits = d.trim_end_matches(|c: char| "stndrdther".contains(c));
        assert_eq!(number(digits), Some(day.day().into()), "{example:?}");
        let ending = match (day.day(), language) {
            (1, Language::French) => "er",
            (_, Language::French) => "",
            (1 | 21 | 31, _) => "st",
            (2 | 22, _) => "nd",
            (3 | 23, _) => "rd",
            _ => "th",
        };
        assert!(["", ending].contains(&&d[digits.len()..]), "{example:?}");

        // 年, 月 and 日 stand behind their fields, perhaps after a space.
        let mut known = example.fields.concat();
        for (places, signs) in example.fields.iter().zip(["年", "月", "日號号"])
        {
            let next = (places[places.len() - 1] + 1..text.len())
                .find(|&i| text[i] != ' ')
                .filter(|&i| signs.contains(text[i]));
            known.extend(next);
        }
        let around: String = (0..text.len())
            .filter(|i| !known.contains(i))
            .map(|i| text[i].to_lowercase().next().unwrap())
            .collect();
        for word in around.split(|c: char| !c.is_alphanumeric()) {
            let mut word =
                word.trim_start_matches("西元").trim_start_matches("公元");
            for sign in ["星期", "週", "周", "禮拜", "礼拜"] {
                word = word.strip_prefix(sign).unwrap_or(word);
            }
            let little = [
                "", "the", "of", "on", "den", "dem", "der", "am", "vom", "le",
                "du", "ce",
            ];
            if !little.contains(&word) {
                assert_eq!(weekday(word), Some(day.weekday()), "{example:?}");
            }
        }
    }
}

#[test]
fn fields_of_one_text() {
    let mut rng = rng(4);
    let example = std::iter::repeat_with(|| {
        write(date(2026, 11, 1), Language::English, &mut rng)
    })
    .take(40_000)
    .find(|example| example.text == "Sun. Nov. 1st, 2026")
    .unwrap();
    assert_eq!(example.iso, "2026-11-01");
    let [year, month, day] = example.fields;
    assert_eq!(year, [15, 16, 17, 18]);
    assert_eq!(month, [5, 6, 7]);
    assert_eq!(day, [10, 11, 12]);
}

#[test]
fn the_alphabet_is_what_is_written() {
    let mut rng = rng(5);
    let mut seen = BTreeSet::new();
    let mut longest = String::new();
    for i in 0..40_000 {
        let text = example(SPLITS[i % 3], &mut rng).text;
        seen.extend(text.chars());
        if text.chars().count() > longest.chars().count() {
            longest = text;
        }
    }
    let alphabet = alphabet();
    assert_eq!(alphabet, seen.into_iter().collect::<Vec<_>>());
    for c in &alphabet {
        assert_eq!((c.to_uppercase().len(), c.to_lowercase().len()), (1, 1));
    }
    let no_longer = " on Wednesday, the 30th of September, 2099.";
    assert!(longest.chars().count() <= no_longer.chars().count());
    assert!(longest.chars().count() >= 36, "{longest:?}");
}

#[test]
fn strange_years_do_not_panic() {
    let mut rng = rng(6);
    for day in [
        Date::MIN,
        date(-1, 1, 1),
        date(0, 2, 29),
        date(33, 4, 3),
        Date::MAX,
    ] {
        split_of(day);
        for language in Language::ALL {
            let example = write(day, language, &mut rng);
            assert_eq!(example.iso, day.to_string());
        }
    }
}

#[test]
fn languages_have_names() {
    let names: BTreeSet<_> = Language::ALL.map(|l| l.to_string()).into();
    assert_eq!(names.len(), Language::ALL.len());
    assert_eq!(format!("{:>8}", Language::French), "  French");
}

#[test]
fn the_same_seed_writes_the_same() {
    let mut rng = rng(9);
    let texts: Vec<_> = (0..8)
        .map(|_| {
            let Example { text, iso, .. } = example(Split::Training, &mut rng);
            format!("{text} = {iso}")
        })
        .collect();
    assert_eq!(
        texts,
        [
            "2090/05/26 = 2090-05-26",
            "March 2nd, 2031 = 2031-03-02",
            "1996年04月30日，星期二 = 1996-04-30",
            "19890808 = 1989-08-08",
            "22.6.2035 = 2035-06-22",
            "Tue Jul 12 1938 = 1938-07-12",
            "Am Donnerstag, dem 7. Mai 1953 = 1953-05-07",
            "1935年二月二十一日 星期四 = 1935-02-21",
        ]
    );
}
