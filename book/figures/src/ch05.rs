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
    let right = split_heads(x.view().insert_axis(Axis(0)), heads)?;
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

/// Two heads over one sentence, made by hand: the first asks for the token before, the second for
/// the same word, wherever it stands.
///
/// A vector is a word, one of `n` entries, followed by a position, one of `n` as well.
///
/// # Errors
/// If there are no words, or one is numbered beyond them.
pub fn hand_made(words: &[usize]) -> Result<(MultiHeadAttention<f64>, Array2<f64>)> {
    let n = words.len();
    ensure!(
        words.iter().all(|&word| word < n),
        "{n} words are numbered {words:?}"
    );
    let one = |on: bool| f64::from(u8::from(on));
    let x = Array2::from_shape_fn((n, 2 * n), |(i, j)| one(j == words[i] || j == n + i));
    let strength = 8.0;
    // Columns before n belong to the first head, the others to the second.
    let query = Array2::from_shape_fn((2 * n, 2 * n), |(i, j)| {
        let before = j < n && i == n + j + 1;
        let same = j >= n && i == j - n;
        strength * one(before || same)
    });
    let key = Array2::from_shape_fn((2 * n, 2 * n), |(i, j)| one(i == (j + n) % (2 * n)));
    let same = Array2::eye(2 * n);
    let attention = MultiHeadAttention::new(
        2,
        query.into(),
        key.into(),
        same.clone().into(),
        same.into(),
    )?;
    Ok((attention, x))
}

/// What each of two heads sees, and their average.
pub(crate) fn heads() -> Result<Picture> {
    let words = ["the", "cat", "saw", "the", "dog"];
    let first = |word: &str| words.iter().position(|w| *w == word).unwrap_or_default();
    let (attention, x) = hand_made(&words.map(first))?;
    let x = x.insert_axis(Axis(0));
    let answer = attention.attend(x.view(), x.view(), x.view(), &Mask::everything())?;
    heads_of(&words, &answer, None)
}

/// A weight that a reader points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked {
    /// Its head.
    pub head: usize,
    /// Its query.
    pub query: usize,
    /// Its key.
    pub key: usize,
}

/// The weights of two heads over up to five words, and their average. The cells of the heads are
/// [pointed](Picture::cells) at.
///
/// # Errors
/// If there are not two heads, not one to five words, or something is picked that is not there.
pub fn heads_of(
    words: &[&str],
    answer: &MultiHeadAnswer<f64>,
    picked: Option<Picked>,
) -> Result<Picture> {
    let n = words.len();
    ensure!(
        (1..=5).contains(&n) && answer.weights.dim() == (1, 2, n, n),
        "weights of {:?} are not those of two heads over one to five words, here {n}",
        answer.weights.dim()
    );
    if let Some(Picked { head, query, key }) = picked {
        ensure!(
            head < 2 && query < n && key < n,
            "there is no weight of query {query} for key {key} in head {head}"
        );
    }
    let weights = answer.weights.index_axis(Axis(0), 0);
    let average = answer.average_weights().index_axis_move(Axis(0), 0);
    let strongest: Vec<_> = [0, 1]
        .into_iter()
        .map(|head| {
            let weights = weights.index_axis(Axis(0), head);
            let most = weights.rows().into_iter().enumerate().map(|(i, row)| {
                let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
                let (j, weight) = best.unwrap_or((0, &0.0));
                format!("{} gives {} {}", words[i], words[j], number(*weight, 2))
            });
            format!("Head {}: {}", head + 1, most.collect::<Vec<_>>().join(", "))
        })
        .collect();
    let alt = format!(
        "The weights of two heads over “{}”, and their average, a pattern that no head has. The largest weight of each row. {}.",
        words.join(" "),
        strongest.join(". ")
    );
    let grid = |at| Cells {
        at,
        cell: (28.0, 26.0),
        shape: (n, n),
    };
    let heads = [grid((34.0, 48.0)), grid((214.0, 48.0))];
    let mut picture = Picture::paint((360, 378), alt, |canvas| {
        let panels = [
            (
                heads[0],
                "head 1: the token before",
                weights.index_axis(Axis(0), 0),
            ),
            (
                heads[1],
                "head 2: the same word",
                weights.index_axis(Axis(0), 1),
            ),
            (grid((124.0, 242.0)), "average of the heads", average.view()),
        ];
        let words: Vec<_> = words.iter().map(|word| fit(word, 28.0)).collect();
        for (cells, title, weights) in panels {
            let at = (cells.centre(), cells.at.1 - 34.0);
            canvas.text(at, title, Face::CENTRED.bold())?;
            cells.row_names(canvas, &words)?;
            cells.column_names(canvas, &words)?;
            cells.weights(canvas, weights)?;
        }
        if let Some(Picked { head, query, key }) = picked {
            heads[head].outline(canvas, (query, key), (1, 1), Colour::D)?;
        }
        Ok(())
    })?;
    let pointed = heads.iter().enumerate();
    picture.cells = pointed.flat_map(|(h, head)| head.pointed(h)).collect();
    Ok(picture)
}

/// What the asker of the chapter's example hears of a giver's and a receiver's amount.
fn ask_roles(attention: &MultiHeadAttention<f64>, [giver, receiver]: [f64; 2]) -> Result<Vec<f64>> {
    let x = giver_and_receiver(giver, receiver);
    let answer = attention.attend(x.view(), x.view(), x.view(), &Mask::everything())?;
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
