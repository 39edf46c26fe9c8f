//! Masks.

use anyhow::{Result, ensure};
use ch01_alignment::{alignment_scores, first_example};
use ch02_softmax::attention_weights;
use ch04_masks::{Mask, PAD, example_tokens, masked_softmax};
use ndarray::{Array2, Axis};

use crate::canvas::{Canvas, Face, Stroke};
use crate::cells::Cells;
use crate::chart::{Bars, Scale, Series};
use crate::picture::Picture;
use crate::style::{Colour, number, numbered, short, sub};

/// What a mask allows in one sequence of a batch.
fn allowed(mask: &Mask, batch: usize, b: usize, (m, n): (usize, usize)) -> Result<Array2<bool>> {
    let all = mask.fit((batch, 1, m, n))?;
    Ok(all.index_axis(Axis(0), b).index_axis(Axis(0), 0).to_owned())
}

fn count(allowed: &Array2<bool>) -> usize {
    allowed.iter().filter(|&&allowed| allowed).count()
}

/// The two sentences of the padding example, and what may be seen of each.
pub(crate) fn padding() -> Result<Picture> {
    let tokens = example_tokens();
    let (batch, n) = tokens.dim();
    let mask = Mask::padding_of_tokens(&tokens, PAD);
    let rows: Vec<_> = (0..batch)
        .map(|b| allowed(&mask, batch, b, (1, n)))
        .collect::<Result<_>>()?;
    let said: Vec<_> = rows.iter().map(|row| count(row).to_string()).collect();
    let alt = format!(
        "{batch} sentences of {n} places, filled up with the token {PAD}, and the mask below each: of their \
         {n} keys the first {} may be seen.",
        said.join(" and ")
    );
    Picture::paint((360, 208), alt, |canvas| {
        let positions: Vec<_> = (0..n).map(|j| j.to_string()).collect();
        for (b, row) in rows.iter().enumerate() {
            let top = 36.0 + 88.0 * b as f64;
            let cells = |y| Cells {
                at: (106.0, y),
                cell: (48.0, 26.0),
                shape: (1, n),
            };
            let (above, below) = (cells(top), cells(top + 36.0));
            if b == 0 {
                canvas.text((14.0, top - 20.0), "position j", Face::TEXT.muted())?;
                for (j, name) in positions.iter().enumerate() {
                    let x = above.middle(0, j).0;
                    canvas.text((x, top - 20.0), name, Face::CENTRED.muted())?;
                }
            }
            let name = format!("sentence {}", b + 1);
            canvas.text((14.0, above.middle(0, 0).1), name, Face::TEXT.bold())?;
            canvas.text((14.0, below.middle(0, 0).1), "may be seen", Face::TEXT)?;
            for (j, &token) in tokens.row(b).iter().enumerate() {
                let face = if token == PAD {
                    Face::CENTRED.muted()
                } else {
                    canvas.fill(
                        above.corner(0, j),
                        above.corner(1, j + 1),
                        Colour::Soft,
                        1.0,
                    )?;
                    Face::CENTRED.bold()
                };
                canvas.text(above.middle(0, j), token.to_string(), face)?;
            }
            above.frames(canvas)?;
            below.mask(canvas, row.view(), Colour::A)?;
        }
        Ok(())
    })
}

/// A mask with the names of its queries and keys.
fn named(canvas: &Canvas, cells: Cells, allowed: &Array2<bool>, colour: Colour) -> Result<()> {
    let (m, n) = cells.shape;
    cells.row_names(canvas, &numbered("q", m))?;
    cells.column_names(canvas, &numbered("k", n))?;
    cells.mask(canvas, allowed.view(), colour)
}

/// The causal triangle, and the same with true and false exchanged.
pub(crate) fn causal() -> Result<Picture> {
    let n = 5;
    let causal = allowed(&Mask::causal(n, n), 1, 0, (n, n))?;
    causal_of(
        &causal,
        ["right: causal", "sees itself and the past"],
        "sees only the future",
        false,
    )
}

/// A mask under a title and what it means, and the same with its polarity flipped, framed if `is_flipped`
/// says that this is how the mask is read. The cells of the first are [pointed](Picture::cells) at.
///
/// # Errors
/// If there are no cells, or more than five queries or keys.
pub fn causal_of(
    mask: &Array2<bool>,
    [title, what]: [&str; 2],
    flipped_what: &str,
    is_flipped: bool,
) -> Result<Picture> {
    let (m, n) = mask.dim();
    ensure!(
        (1..=5).contains(&m) && (1..=5).contains(&n),
        "one to five queries and keys have room, not {m} and {n}"
    );
    let flipped = mask.mapv(|allowed| !allowed);
    let empty = |mask: &Array2<bool>| {
        let rows = mask.rows().into_iter().enumerate();
        let empty: Vec<_> = rows
            .filter(|(_, row)| !row.iter().any(|&allowed| allowed))
            .map(|(i, _)| format!("q{}", i + 1))
            .collect();
        match empty.len() {
            0 => "no query is without a key".to_owned(),
            1 => format!("{} sees nothing", empty[0]),
            _ => format!("{} see nothing", empty.join(", ")),
        }
    };
    let alt = format!(
        "A mask of {m} queries by {n} keys, and the same with its polarity flipped. {title}, {what}: {} of {} \
         cells are allowed, {}. Flipped, {flipped_what}: {} cells, {}.{}",
        count(mask),
        mask.len(),
        empty(mask),
        count(&flipped),
        empty(&flipped),
        if is_flipped {
            " The mask is read flipped."
        } else {
            ""
        }
    );
    let grid = |left: f64| Cells {
        at: (left, 74.0),
        cell: (27.0, 27.0),
        shape: (m, n),
    };
    let (left, right) = (grid(32.0), grid(212.0));
    let mut picture = Picture::paint((360, 216), alt, |canvas| {
        let panels = [
            (left, title, what, mask, Colour::A),
            (right, "wrong: flipped", flipped_what, &flipped, Colour::B),
        ];
        for (cells, title, what, allowed, colour) in panels {
            let x = cells.at.0;
            canvas.text((x, 14.0), title, Face::TEXT.bold().colour(colour))?;
            canvas.text((x, 32.0), what, Face::TEXT.muted())?;
            named(canvas, cells, allowed, colour)?;
        }
        if is_flipped {
            right.outline(canvas, (0, 0), (m, n), Colour::D)?;
        }
        Ok(())
    })?;
    picture.cells = left.pointed(0).collect();
    Ok(picture)
}

/// Causal and padding together, for the second sentence of the example.
pub(crate) fn both() -> Result<Picture> {
    let tokens = example_tokens();
    let (batch, n) = tokens.dim();
    let b = batch - 1;
    let (causal, padding) = (Mask::causal(n, n), Mask::padding_of_tokens(&tokens, PAD));
    let both = (&causal & &padding)?;
    let grids: Vec<_> = [&causal, &padding, &both]
        .into_iter()
        .map(|mask| allowed(mask, batch, b, (n, n)))
        .collect::<Result<_>>()?;
    let said: Vec<_> = tokens.row(b).iter().map(u32::to_string).collect();
    let alt = format!(
        "For the tokens {}: the causal mask allows {} of {} cells, the padding mask {}, and the two \
         together the {} that both allow.",
        said.join(" "),
        count(&grids[0]),
        grids[0].len(),
        count(&grids[1]),
        count(&grids[2])
    );
    Picture::paint((360, 148), alt, |canvas| {
        let side = 19.0;
        let titles = ["causal", "padding", "both"];
        let colours = [Colour::A, Colour::C, Colour::D];
        for (place, ((grid, title), colour)) in grids.iter().zip(titles).zip(colours).enumerate() {
            let cells = Cells {
                at: (26.0 + 116.0 * place as f64, 44.0),
                cell: (side, side),
                shape: (n, n),
            };
            let face = Face::CENTRED.bold().colour(colour);
            canvas.text((cells.centre(), 12.0), title, face)?;
            cells.column_names(canvas, &numbered("k", n))?;
            if place == 0 {
                cells.row_names(canvas, &numbered("q", n))?;
            } else {
                let at = (cells.at.0 - 10.5, cells.middle(n / 2, 0).1);
                let sign = if place == 1 { "&" } else { "=" };
                canvas.text(at, sign, Face::CENTRED.size(16.0).bold())?;
            }
            cells.mask(canvas, grid.view(), colour)?;
        }
        Ok(())
    })
}

/// Two alignments of the causal mask where there are fewer queries than keys.
pub(crate) fn alignment() -> Result<Picture> {
    let (m, n) = (2, 5);
    let ours = allowed(&Mask::causal(m, n), 1, 0, (m, n))?;
    let theirs = allowed(&Mask::causal_from(0, m, n), 1, 0, (m, n))?;
    let seen = |grid: &Array2<bool>| {
        let rows: Vec<_> = grid
            .rows()
            .into_iter()
            .map(|row| row.iter().filter(|&&allowed| allowed).count().to_string())
            .collect();
        rows.join(" and ")
    };
    let alt = format!(
        "Two ways to align a causal mask of {m} queries and {n} keys. Aligned bottom-right, the queries are the last {m} positions and see {} \
         keys; aligned top-left, they are the first {m} and see {}.",
        seen(&ours),
        seen(&theirs)
    );
    Picture::paint((360, 232), alt, |canvas| {
        let positions: Vec<_> = (0..n).map(|j| j.to_string()).collect();
        let panels = [
            (
                "bottom-right, as here: j ≤ i + n − m",
                n - m,
                &ours,
                Colour::A,
            ),
            (
                "top-left, PyTorch’s is_causal: j ≤ i",
                0,
                &theirs,
                Colour::B,
            ),
        ];
        for (panel, (title, first, grid, colour)) in panels.into_iter().enumerate() {
            let top = 120.0 * panel as f64;
            let cells = Cells {
                at: (118.0, top + 50.0),
                cell: (46.0, 26.0),
                shape: (m, n),
            };
            canvas.text((14.0, top + 12.0), title, Face::TEXT.bold().colour(colour))?;
            canvas.text((14.0, top + 40.0), "key at position j", Face::TEXT.muted())?;
            cells.column_names(canvas, &positions)?;
            let names: Vec<_> = (0..m)
                .map(|i| format!("{} at position {}", sub("q", i + 1), first + i))
                .collect();
            cells.row_names(canvas, &names)?;
            cells.mask(canvas, grid.view(), colour)?;
        }
        Ok(())
    })
}

/// A sliding window.
pub(crate) fn window() -> Result<Picture> {
    let (n, width) = (6, 3);
    let grid = allowed(&Mask::window(n, n, width)?, 1, 0, (n, n))?;
    let alt = format!(
        "A window of {width} over {n} positions: a band of {} cells along the diagonal, in which each query \
         sees itself and the {} keys before it.",
        count(&grid),
        width - 1
    );
    Picture::paint((360, 232), alt, |canvas| {
        let cells = Cells {
            at: (84.0, 54.0),
            cell: (34.0, 28.0),
            shape: (n, n),
        };
        let title = format!("window of w = {width}: itself and the {} before", width - 1);
        canvas.text((cells.centre(), 14.0), title, Face::CENTRED.bold())?;
        named(canvas, cells, &grid, Colour::A)?;
        // The last row is full: its reach is the width.
        cells.outline(canvas, (n - 1, n - width), (1, width), Colour::A)
    })
}

/// The weights of the first example behind −∞ and behind a large negative number, when one key is
/// forbidden and when all are.
pub(crate) fn fill() -> Result<Picture> {
    let (queries, keys) = first_example();
    let scores = alignment_scores(&queries, &keys)?;
    let n = scores.ncols();
    let fill = -1e9;
    let behind = |mask: &Mask| -> Result<[Vec<f64>; 2]> {
        let allowed = allowed(mask, 1, 0, (1, n))?;
        let mut filled = scores.clone();
        filled.zip_mut_with(&allowed, |e, &allowed| {
            if !allowed {
                *e = fill;
            }
        });
        let four = scores.view().insert_axis(Axis(0)).insert_axis(Axis(0));
        Ok([
            masked_softmax(&four, mask)?.iter().copied().collect(),
            attention_weights(&filled).iter().copied().collect(),
        ])
    };
    let one = behind(&Mask::padding(&[n - 1], n)?)?;
    let all = behind(&Mask::padding(&[0], n)?)?;
    ensure!(
        one[0] == one[1],
        "a finite fill differs from −∞ though a key is allowed: {one:?}"
    );
    let exponent = fill.abs().log10();
    let alt = format!(
        "The weights of k1 to k{n} behind a fill of −∞ and behind one of −1e{exponent}. With k{n} forbidden, both give the same, {} for k{n}. With all {n} forbidden, −∞ gives {} for each, as it should, and −1e{exponent} gives {}.",
        short(one[0][n - 1]),
        short(all[0][0]),
        short(all[1][0])
    );
    Picture::paint((360, 276), alt, |canvas| {
        let (a, b) = (Colour::A, Colour::B);
        let name = format!("filled with −1e{exponent}");
        canvas.fill((15.0, 8.0), (25.0, 18.0), a, 1.0)?;
        canvas.text((31.0, 13.0), "filled with −∞", Face::TEXT.colour(a))?;
        canvas.fill((168.0, 8.0), (178.0, 18.0), b, 0.15)?;
        canvas.frame((168.0, 8.0), (178.0, 18.0), Stroke::new(b, 1.4))?;
        canvas.text((184.0, 13.0), name, Face::TEXT.colour(b))?;
        let titles = [
            format!("only {} is forbidden", sub("k", n)),
            "all keys are forbidden".to_owned(),
        ];
        // Both panels on one scale, so that their bars compare.
        let panels = [(40.0, 1.0, one), (190.0, 0.4, all)];
        for (title, (top, highest, weights)) in titles.into_iter().zip(panels) {
            let bottom = top + 20.0 + 90.0 * highest;
            canvas.text((14.0, top), title, Face::TEXT.bold())?;
            let sums: Vec<_> = weights
                .iter()
                .map(|row| number(row.iter().sum(), 3))
                .collect();
            let sums = format!("sums {}", sums.join(" and "));
            canvas.text((346.0, top), sums, Face::ENDING.muted())?;
            Bars {
                names: &numbered("k", n),
                series: &[
                    Series {
                        values: &weights[0],
                        colour: a,
                        hollow: false,
                    },
                    Series {
                        values: &weights[1],
                        colour: b,
                        hollow: true,
                    },
                ],
                decimals: 3,
                x: (10.0, 350.0),
                y: Scale::linear((0.0, highest), (bottom, top + 20.0)),
                names_at: bottom + 14.0,
            }
            .draw(canvas)?;
        }
        Ok(())
    })
}
