//! Multi-head attention.

use anyhow::{Context, Result, ensure};
use ch04_masks::Mask;
use ch05_multihead::{
    MultiHeadAnswer, MultiHeadAttention, giver_and_receiver, one_head, split_heads, two_heads,
};
use ndarray::{Array1, Array2, Array3, Axis, s};

use crate::canvas::{Face, Stroke};
use crate::cells::Cells;
use crate::picture::Picture;
use crate::style::{Colour, fit, number, numbered, short};

/// The colours of the first and the second head.
const HEADS: [Colour; 2] = [Colour::A, Colour::B];

/// A row cut into heads, and what comes of reshaping alone.
pub(crate) fn split() -> Result<Picture> {
    let (n, heads, d) = (3, HEADS.len(), 2);
    let x = Array1::range(1.0, (n * heads * d + 1) as f64, 1.0)
        .into_shape_with_order((n, heads * d))?;
    let right = split_heads(&x.view().insert_axis(Axis(0)), heads)?;
    let right: Array3<f64> = right.index_axis_move(Axis(0), 0);
    let wrong = x.to_shape((heads, n, d))?.to_owned();
    // The token and the half of its row in which a number stood.
    let home = |x: f64| {
        let place = x as usize - 1;
        (place / (heads * d), place % (heads * d) / d)
    };
    let missed = (0..n)
        .find(|&token| {
            let mut last = wrong.index_axis(Axis(0), heads - 1).into_iter();
            last.all(|&x| home(x).0 != token)
        })
        .context("reshaping alone gives the last head something of each token")?;
    let row = |head: &Array3<f64>, h: usize, i: usize| {
        let row: Vec<_> = head.slice(s![h, i, ..]).iter().map(|&x| short(x)).collect();
        row.join(" ")
    };
    let alt = format!(
        "{n} tokens of width {}, numbered 1 to {}, cut into {heads} heads. Head 1 gets the left half of each \
         token, {} first, and head 2 the right half, {} first. Reshaping alone gives head 1 the rows {}, {} \
         and {}, and nothing of token {} to head {heads}.",
        heads * d,
        x.len(),
        row(&right, 0, 0),
        row(&right, 1, 0),
        row(&wrong, 0, 0),
        row(&wrong, 0, 1),
        row(&wrong, 0, 2),
        missed + 1
    );
    Picture::paint((360, 268), alt, |canvas| {
        let cell = (28.0, 25.0);
        let whole = Cells {
            at: (28.0, 44.0),
            cell,
            shape: (n, heads * d),
        };
        let part = |h: usize, top: f64| Cells {
            at: (192.0 + 96.0 * h as f64, top),
            cell,
            shape: (n, d),
        };
        let tokens = numbered("t", n);
        canvas.text(
            (whole.centre(), 12.0),
            format!("{n} tokens, {} wide", heads * d),
            Face::CENTRED.bold(),
        )?;
        whole.row_names(canvas, &tokens)?;
        whole.numbers(canvas, x.view())?;
        let title = Face::CENTRED.bold();
        for (h, colour) in HEADS.into_iter().enumerate() {
            let name = format!("head {}", h + 1);
            let x = (whole.corner(0, h * d).0 + whole.corner(0, (h + 1) * d).0) / 2.0;
            canvas.text((x, 32.0), &name, Face::CENTRED.colour(colour))?;
            whole.tint(canvas, (0, h * d), (n, d), colour)?;
            for (top, all) in [(44.0, &right), (184.0, &wrong)] {
                let cells = part(h, top);
                cells.numbers(canvas, all.index_axis(Axis(0), h))?;
                for i in 0..n {
                    let (token, half) = home(all[[h, i, 0]]);
                    cells.tint(canvas, (i, 0), (1, d), HEADS[half])?;
                    let y = cells.middle(i, 0).1;
                    canvas.text((cells.at.0 - 6.0, y), &tokens[token], Face::ENDING)?;
                }
                let face = Face::CENTRED.colour(colour);
                canvas.text((cells.centre(), top - 12.0), &name, face)?;
            }
        }
        canvas.text((268.0, 12.0), "right: split_heads", title)?;
        canvas.text((268.0, 152.0), "wrong: reshape alone", title)?;
        canvas.arrow((146.0, 81.0), (166.0, 81.0), Stroke::new(Colour::Line, 1.4))?;
        canvas.text((28.0, 205.0), "The tokens are mixed:", Face::TEXT)?;
        let last = format!("head {heads} gets nothing");
        canvas.text((28.0, 222.0), last, Face::TEXT)?;
        canvas.text((28.0, 239.0), format!("of {}.", tokens[missed]), Face::TEXT)
    })
}

/// What each of up to four heads made by hand looks for. All but the second tell which word stands there;
/// the second tells where.
pub const LOOKS: [&str; 4] = [
    "the token before",
    "the same word",
    "the token after",
    "the first token",
];

/// Up to four heads over one sentence, made by hand: the first asks for the token before, the second
/// for the same word, wherever it stands, the third for the token after, the fourth for the first token.
///
/// A vector is a word, one of `n` entries, followed by a position, one of `n` as well, and so is an answer:
/// the words that the heads found, added up, and the positions that the second found.
///
/// # Errors
/// If there are no words, or one is numbered beyond them, or there are not one to four heads.
pub fn hand_made(words: &[usize], heads: usize) -> Result<(MultiHeadAttention<f64>, Array2<f64>)> {
    let n = words.len();
    ensure!(
        words.iter().all(|&word| word < n),
        "{n} words are numbered {words:?}"
    );
    ensure!(
        (1..=LOOKS.len()).contains(&heads),
        "one to {} heads are made by hand, not {heads}",
        LOOKS.len()
    );
    let one = |on: bool| f64::from(u8::from(on));
    let x = Array2::from_shape_fn((n, 2 * n), |(i, j)| one(j == words[i] || j == n + i));
    let strength = 8.0;
    // Of each head n columns: its word or its position.
    let columns = |entry: fn(usize, usize, (usize, usize)) -> bool| {
        Array2::from_shape_fn((2 * n, heads * n), |(i, j)| {
            one(entry(n, j / n, (i, j % n)))
        })
    };
    let query = columns(|n, head, (i, c)| match head {
        0 => i == n + c + 1,
        1 => i == c,
        2 => i + 1 == n + c && i >= n,
        _ => i >= n && c == 0,
    });
    let key = columns(|n, head, (i, c)| i == if head == 1 { c } else { n + c });
    let value = columns(|n, head, (i, c)| i == if head == 1 { n + c } else { c });
    // What a head took from an entry goes back to that entry.
    let output = value.t().to_owned();
    let attention = MultiHeadAttention::new(
        heads,
        (strength * query).into(),
        key.into(),
        value.into(),
        output.into(),
    )?;
    Ok((attention, x))
}

/// What each of two heads sees, their average, and what comes of both.
pub(crate) fn heads() -> Result<Picture> {
    let words = ["the", "cat", "saw", "the", "dog"];
    let first = |word: &str| words.iter().position(|w| *w == word).unwrap_or_default();
    let (attention, x) = hand_made(&words.map(first), 2)?;
    let x = x.insert_axis(Axis(0));
    let answer = attention.attend(&x, &x, &x, &Mask::everything())?;
    heads_of(&words, &answer, None)
}

/// What a reader points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picked {
    /// A weight.
    Weight {
        /// Its head.
        head: usize,
        /// Its query.
        query: usize,
        /// Its key.
        key: usize,
    },
    /// An entry of the output.
    Output {
        /// The token that it answers.
        token: usize,
        /// Its column.
        entry: usize,
    },
}

/// The weights of one, two or four [heads made by hand](hand_made) over up to five words, their average if
/// there is room, and the output. The cells of the heads are [pointed](Picture::cells) at, and those of
/// the output as one more grid.
///
/// # Errors
/// If there are not so many heads, not one to five words, an output of another shape, or something is picked
/// that is not there.
pub fn heads_of(
    words: &[&str],
    answer: &MultiHeadAnswer<f64>,
    picked: Option<Picked>,
) -> Result<Picture> {
    let n = words.len();
    let count = answer.weights.len_of(Axis(1));
    ensure!(
        (1..=5).contains(&n) && matches!(count, 1 | 2 | 4),
        "one, two or four heads over one to five words have room, not {count} over {n}"
    );
    ensure!(
        answer.weights.dim() == (1, count, n, n) && answer.output.dim() == (1, n, 2 * n),
        "weights of {:?} and an output of {:?} are not those of {n} words",
        answer.weights.dim(),
        answer.output.dim()
    );
    match picked {
        Some(Picked::Weight { head, query, key }) => ensure!(
            head < count && query < n && key < n,
            "there is no weight of query {query} for key {key} in head {head}"
        ),
        Some(Picked::Output { token, entry }) => ensure!(
            token < n && entry < 2 * n,
            "there is no entry {entry} in the output of token {token}"
        ),
        None => {}
    }
    let weights = answer.weights.index_axis(Axis(0), 0);
    let output = answer.output.index_axis(Axis(0), 0);
    let average = answer.average_weights().index_axis_move(Axis(0), 0);
    let strongest: Vec<_> = weights
        .outer_iter()
        .enumerate()
        .map(|(head, weights)| {
            let most = weights.rows().into_iter().enumerate().map(|(i, row)| {
                let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
                let (j, weight) = best.unwrap_or((0, &0.0));
                format!("{} gives {} {}", words[i], words[j], number(*weight, 2))
            });
            format!("Head {}: {}", head + 1, most.collect::<Vec<_>>().join(", "))
        })
        .collect();
    let what = match count {
        1 => "The weights of one head over",
        2 => {
            "The weights of two heads, their average, a pattern that no head has, and the output, over"
        }
        _ => "The weights of four heads and the output over",
    };
    let alt = format!(
        "{what} “{}”. The largest weight of each row. {}. The output has an entry for each of {n} words and {n} \
         positions that the heads may find.",
        words.join(" "),
        strongest.join(". ")
    );
    let grid = |at| Cells {
        at,
        cell: (28.0, 26.0),
        shape: (n, n),
    };
    let mut places = vec![(34.0, 48.0), (214.0, 48.0), (34.0, 238.0), (214.0, 238.0)];
    places.truncate(count);
    let places: Vec<_> = places.into_iter().map(grid).collect();
    let joined = Cells {
        shape: (n, 2 * n),
        ..grid((54.0, 446.0))
    };
    let mut picture = Picture::paint((360, 580), alt, |canvas| {
        let names: Vec<_> = words.iter().map(|word| fit(word, 28.0)).collect();
        let panel = |cells: Cells, title: String, weights| -> Result<()> {
            let at = (cells.centre(), cells.at.1 - 34.0);
            canvas.text(at, title, Face::CENTRED.bold())?;
            cells.row_names(canvas, &names)?;
            cells.column_names(canvas, &names)?;
            cells.weights(canvas, weights)
        };
        for (head, (cells, weights)) in places.iter().zip(weights.outer_iter()).enumerate() {
            panel(
                *cells,
                format!("head {}: {}", head + 1, LOOKS[head]),
                weights,
            )?;
        }
        if count < 4 {
            let title = "average of the heads".to_owned();
            panel(grid((124.0, 238.0)), title, average.view())?;
        }
        let at = (joined.centre(), joined.at.1 - 48.0);
        canvas.text(at, "output: what the heads found", Face::CENTRED.bold())?;
        let half = n as f64 * joined.cell.0;
        for (place, what) in ["words", "positions"].into_iter().enumerate() {
            let x = joined.at.0 + half * (place as f64 + 0.5);
            canvas.text((x, joined.at.1 - 29.0), what, Face::CENTRED.muted())?;
        }
        // A word that stands twice has the entry of its first place.
        let stood = |j: usize| words[..j].contains(&words[j]);
        let entries = names.iter().enumerate().map(|(j, name)| match stood(j) {
            true => "–".to_owned(),
            false => name.clone(),
        });
        let positions = (1..=n).map(|position| position.to_string());
        let columns: Vec<_> = entries.chain(positions).collect();
        joined.row_names(canvas, &names)?;
        joined.column_names(canvas, &columns)?;
        joined.weights(canvas, output)?;
        match picked {
            Some(Picked::Weight { head, query, key }) => {
                places[head].outline(canvas, (query, key), (1, 1), Colour::D)?;
            }
            Some(Picked::Output { token, entry }) => {
                joined.outline(canvas, (token, entry), (1, 1), Colour::D)?;
                for head in &places {
                    head.outline(canvas, (token, 0), (1, n), Colour::D)?;
                }
            }
            None => {}
        }
        Ok(())
    })?;
    let pointed = places.iter().chain([&joined]).enumerate();
    picture.cells = pointed.flat_map(|(h, head)| head.pointed(h)).collect();
    Ok(picture)
}

/// What the asker of the chapter's example hears of a giver's and a receiver's amount.
fn ask_roles(attention: &MultiHeadAttention<f64>, [giver, receiver]: [f64; 2]) -> Result<Vec<f64>> {
    let x = giver_and_receiver(giver, receiver);
    let answer = attention.attend(&x, &x, &x, &Mask::everything())?;
    let asker = answer.output.index_axis(Axis(0), 0).row(0).to_owned();
    // Beyond nine digits stands what a softmax leaves for the other keys.
    Ok(asker.mapv(|x| (x * 1e9).round() / 1e9 + 0.0).to_vec())
}

/// One head answers two different pairs alike, two heads keep them apart.
pub(crate) fn roles() -> Result<Picture> {
    let pairs = [[1.0, 0.0], [0.0, 1.0]];
    let say = |answer: &[f64]| {
        let answer: Vec<_> = answer.iter().map(|&x| short(x)).collect();
        match &answer[..] {
            [only] => only.clone(),
            several => format!("({})", several.join(", ")),
        }
    };
    let one: Vec<_> = pairs
        .iter()
        .map(|&p| ask_roles(&one_head(), p))
        .collect::<Result<_>>()?;
    let two: Vec<_> = pairs
        .iter()
        .map(|&p| ask_roles(&two_heads(), p))
        .collect::<Result<_>>()?;
    let alt = format!(
        "A giver and a receiver hold the values {} or {}. One head that looks at both answers {} and {}, \
         the same; two heads, one for each role, answer {} and {}.",
        say(&pairs[0]),
        say(&pairs[1]),
        say(&one[0]),
        say(&one[1]),
        say(&two[0]),
        say(&two[1])
    );
    Picture::paint((360, 176), alt, |canvas| {
        let columns = [86.0, 202.0, 302.0];
        let heads = [
            ("the two values", Colour::Ink),
            ("one head", Colour::B),
            ("two heads", Colour::A),
        ];
        for (x, (head, colour)) in columns.into_iter().zip(heads) {
            canvas.text((x, 14.0), head, Face::CENTRED.bold().colour(colour))?;
        }
        canvas.text(
            (columns[0], 32.0),
            "(giver, receiver)",
            Face::CENTRED.muted(),
        )?;
        canvas.text((columns[1], 32.0), "looks at both", Face::CENTRED.muted())?;
        canvas.text(
            (columns[2], 32.0),
            "one for each role",
            Face::CENTRED.muted(),
        )?;
        canvas.line((14.0, 46.0), (346.0, 46.0), Stroke::new(Colour::Grid, 1.0))?;
        for (i, pair) in pairs.iter().enumerate() {
            let y = 68.0 + 34.0 * i as f64;
            canvas.text((columns[0], y), say(pair), Face::CENTRED.size(14.0))?;
            canvas.arrow((130.0, y), (164.0, y), Stroke::new(Colour::Line, 1.2))?;
            let face = Face::CENTRED.size(14.0).bold();
            canvas.text((columns[1], y), say(&one[i]), face.colour(Colour::B))?;
            canvas.text((columns[2], y), say(&two[i]), face.colour(Colour::A))?;
        }
        canvas.line(
            (14.0, 122.0),
            (346.0, 122.0),
            Stroke::new(Colour::Grid, 1.0),
        )?;
        let verdict = |answers: &[Vec<f64>]| {
            if answers[0] == answers[1] {
                "the same"
            } else {
                "told apart"
            }
        };
        canvas.text(
            (columns[0], 142.0),
            "the answers are",
            Face::CENTRED.muted(),
        )?;
        canvas.text((columns[1], 142.0), verdict(&one), Face::CENTRED)?;
        canvas.text((columns[2], 142.0), verdict(&two), Face::CENTRED)
    })
}
