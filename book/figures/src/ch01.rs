//! Alignment scores.

use anyhow::{Result, ensure};
use ch01_alignment::{
    alignment_scores, cosine_scores, dot_score, first_example, plane_example, second_example,
};
use ndarray::{ArrayView1, array};
use std::f64::consts::TAU;

use crate::canvas::{Face, Point, Stroke};
use crate::cells::Cells;
use crate::chart::{Bars, Scale, Series};
use crate::heatmap::heatmap;
use crate::picture::Picture;
use crate::style::{Colour, number, numbered, short, sub, sup};

/// Arrows in the plane, and what their lengths and angles make of the score.
pub(crate) fn angle() -> Result<Picture> {
    let (queries, _) = plane_example();
    angle_of([queries[[0, 0]], queries[[0, 1]]])
}

/// Where the plane's origin lies in the picture, and how long its unit is.
pub const PLANE: ((f64, f64), f64) = ((146.0, 152.0), 62.0);

/// A query of the reader's among the four keys of the plane example.
///
/// # Errors
/// If the query is not finite.
pub fn angle_of(query: [f64; 2]) -> Result<Picture> {
    let (_, keys) = plane_example();
    let queries = array![query];
    let query = queries.row(0);
    ensure!(
        query.iter().all(|x| x.is_finite()),
        "the query ({}, {}) is not finite",
        query[0],
        query[1]
    );
    let length = |v: ArrayView1<f64>| v.dot(&v).sqrt();
    let cosines = cosine_scores(&queries, &keys)?;
    let scores: Vec<f64> = keys
        .rows()
        .into_iter()
        .map(|key| dot_score(&query, &key))
        .collect::<Result<_>>()?;
    let says: Vec<_> = scores
        .iter()
        .enumerate()
        .map(|(j, &score)| {
            let cosine = number(cosines[[0, j]], 2);
            format!("k{}, cos θ {cosine}, scores {}", j + 1, number(score, 2))
        })
        .collect();
    let alt = format!(
        "The query ({}, {}) and four keys as arrows in the plane. {}.",
        short(query[0]),
        short(query[1]),
        says.join("; ")
    );
    Picture::paint((360, 296), alt, |canvas| {
        let (origin, unit) = PLANE;
        let place = |v: ArrayView1<f64>| (origin.0 + unit * v[0], origin.1 - unit * v[1]);
        let mut labels = Labels {
            arrows: keys.rows().into_iter().chain([query]).map(place).collect(),
            set: vec![],
        };
        let key_places = [(12.5, 7.0), (13.5, -2.0), (13.5, -3.0), (-11.5, -4.0)];
        let key_places: Vec<_> = key_places
            .into_iter()
            .zip(keys.rows())
            .map(|(beside, key)| labels.place(place(key), beside))
            .collect();
        let beside = if query[1] < 0.0 { -13.0 } else { 13.0 };
        let query_place = labels.place(place(query), (1.5, beside));
        // A query of 0 has no direction to lie along.
        if length(query) > 1e-9 {
            let along = &query / length(query);
            // The line the query lies on, and the keys' shadows on it.
            let ahead = reach(origin, [along[0], -along[1]]);
            let behind = reach(origin, [-along[0], along[1]]);
            canvas.line(behind, ahead, Stroke::new(Colour::Grid, 1.0))?;
            for key in keys.rows() {
                let shadow = key.dot(&along);
                let (tip, foot) = (place(key), place((&along * shadow).view()));
                let apart = (tip.0 - foot.0).hypot(tip.1 - foot.1);
                if shadow.abs() > 1e-9 && apart > 1.0 {
                    let stroke = Stroke::new(Colour::Line, 0.9).dashed(2.5, 2.5);
                    canvas.line(tip, foot, stroke)?;
                }
            }
            // The angle θ between the query and k2, named where k1 leaves room.
            let from = query[1].atan2(query[0]);
            let to = keys[[1, 1]].atan2(keys[[1, 0]]);
            let theta = (to - from).sin().atan2((to - from).cos());
            let around = |radius: f64, t: f64| {
                let (sin, cos) = (from + t).sin_cos();
                (origin.0 + radius * cos, origin.1 - radius * sin)
            };
            let arc: Vec<Point> = (0..=12)
                .map(|i| around(36.0, theta * f64::from(i) / 12.0))
                .collect();
            canvas.path(&arc, Stroke::new(Colour::Line, 0.9))?;
            let (arc, usual) = (around(36.0, 0.5 * theta), around(46.0, 0.72 * theta));
            let beside = (usual.0 - arc.0, usual.1 - arc.1);
            canvas.text(labels.place(arc, beside), "θ", Face::CENTRED)?;
        }
        for j in 0..keys.nrows() {
            canvas.arrow(origin, place(keys.row(j)), Stroke::new(Colour::B, 2.0))?;
        }
        if length(query) > 1e-9 {
            canvas.arrow(origin, place(query), Stroke::new(Colour::A, 3.4))?;
        }
        let bold = Face::CENTRED.bold();
        canvas.text(query_place, "q", bold.colour(Colour::A))?;
        let key = |j: usize| sub("k", j + 1);
        for (j, at) in key_places.into_iter().enumerate() {
            canvas.text(at, key(j), bold.colour(Colour::B))?;
        }
        // The same as arithmetic.
        let columns = [28.0, 92.0, 158.0, 228.0, 326.0];
        let top = 192.0;
        let heads = ["", "‖q‖", "‖k‖", "cos θ", "score q · k"];
        for (x, head) in columns.into_iter().zip(heads) {
            canvas.text((x, top), head, Face::ENDING.muted())?;
        }
        for (x, sign) in [(118.0, "×"), (180.0, "×"), (250.0, "=")] {
            canvas.text((x, top), sign, Face::CENTRED.muted())?;
        }
        canvas.line(
            (14.0, top + 11.0),
            (346.0, top + 11.0),
            Stroke::new(Colour::Grid, 1.0),
        )?;
        for (j, score) in scores.iter().enumerate() {
            let y = top + 24.0 + 22.0 * j as f64;
            let cells = [
                number(length(query), 2),
                number(length(keys.row(j)), 2),
                number(cosines[[0, j]], 2),
            ];
            canvas.text(
                (columns[0], y),
                key(j),
                Face::ENDING.bold().colour(Colour::B),
            )?;
            for (x, cell) in columns[1..4].iter().zip(cells) {
                canvas.text((*x, y), cell, Face::ENDING)?;
            }
            canvas.text((columns[4], y), number(*score, 2), Face::ENDING.bold())?;
        }
        Ok(())
    })
}

/// The places of labels among arrows that all begin at the plane's origin.
struct Labels {
    arrows: Vec<Point>,
    set: Vec<Point>,
}

impl Labels {
    /// The middle of a label that belongs to a point: usually this far beside it, and somewhere else
    /// around it if an arrow or a label lies there.
    fn place(&mut self, point: Point, beside: Point) -> Point {
        let around = (1..12).map(|i| {
            let turned = beside.1.atan2(beside.0) + f64::from(i) * TAU / 12.0;
            (15.0 * turned.cos(), 15.0 * turned.sin())
        });
        let mut best = (f64::NEG_INFINITY, point);
        for (dx, dy) in [beside].into_iter().chain(around) {
            let at = (point.0 + dx, point.1 + dy);
            let room = self.room(at);
            // The usual place is good enough; of the others the one with the most room is taken.
            if room > best.0 {
                best = (room, at);
            }
            if (dx, dy) == beside && room >= ROOM {
                break;
            }
        }
        self.set.push(best.1);
        best.1
    }

    /// How far it is from there to the nearest arrow, or label, or edge of the field.
    fn room(&self, (x, y): Point) -> f64 {
        let (origin, _) = PLANE;
        let arrows = self.arrows.iter().map(|tip| {
            let (dx, dy) = (tip.0 - origin.0, tip.1 - origin.1);
            let along = (x - origin.0) * dx + (y - origin.1) * dy;
            let share = (along / (dx * dx + dy * dy).max(1e-9)).clamp(0.0, 1.0);
            (x - origin.0 - share * dx).hypot(y - origin.1 - share * dy)
        });
        let labels = self.set.iter().map(|at| (x - at.0).hypot(y - at.1) - 6.0);
        let edges = [x - 2.0, 358.0 - x, y, 184.0 - y];
        arrows.chain(labels).chain(edges).fold(f64::MAX, f64::min)
    }
}

/// How far the middle of a label lies from an arrow that does not touch it.
const ROOM: f64 = 9.0;

/// Where a line from `from` in that direction leaves the field of the arrows.
fn reach(from: Point, direction: [f64; 2]) -> Point {
    let steps = |at: f64, step: f64, (low, high): (f64, f64)| {
        if step > 0.0 {
            (high - at) / step
        } else if step < 0.0 {
            (low - at) / step
        } else {
            f64::INFINITY
        }
    };
    let across = steps(from.0, direction[0], (16.0, 344.0));
    let steps = across.min(steps(from.1, direction[1], (8.0, 182.0)));
    (from.0 + steps * direction[0], from.1 + steps * direction[1])
}

/// How E = QKᵀ is laid out: a row of Q and a column of Kᵀ meet in a cell of E.
pub(crate) fn product() -> Result<Picture> {
    let (queries, keys) = second_example();
    let scores = alignment_scores(&queries, &keys)?;
    let ((m, d_k), n) = (queries.dim(), keys.nrows());
    let (i, j) = (0, 2);
    let terms: Vec<_> = queries
        .row(i)
        .iter()
        .zip(keys.row(j))
        .map(|(&q, &k)| {
            let signed = |x| {
                if x < 0.0 {
                    format!("({})", short(x))
                } else {
                    short(x)
                }
            };
            format!("{} · {}", signed(q), signed(k))
        })
        .collect();
    let sum = terms.join(" + ");
    let alt = format!(
        "Q ({m} × {d_k}) stands at the left, Kᵀ ({d_k} × {n}) above, and E = QKᵀ ({m} × {n}) where they \
         cross: row {} of Q and column {} of Kᵀ make the score {sum} = {}.",
        i + 1,
        j + 1,
        short(scores[[i, j]])
    );
    Picture::paint((360, 256), alt, |canvas| {
        let q = Cells {
            at: (28.0, 142.0),
            cell: (38.0, 26.0),
            shape: (m, d_k),
        };
        let right = 28.0 + 38.0 * d_k as f64 + 18.0;
        let kt = Cells {
            at: (right, 46.0),
            cell: (49.0, 26.0),
            shape: (d_k, n),
        };
        let e = Cells {
            at: (right, 142.0),
            cell: (49.0, 26.0),
            shape: (m, n),
        };
        q.tint(canvas, (i, 0), (1, d_k), Colour::A)?;
        kt.tint(canvas, (0, j), (d_k, 1), Colour::B)?;
        e.tint(canvas, (i, j), (1, 1), Colour::D)?;
        q.numbers(canvas, queries.view())?;
        kt.numbers(canvas, keys.t())?;
        e.numbers(canvas, scores.view())?;
        q.outline(canvas, (i, 0), (1, d_k), Colour::A)?;
        kt.outline(canvas, (0, j), (d_k, 1), Colour::B)?;
        e.outline(canvas, (i, j), (1, 1), Colour::D)?;

        let transposed = sup("K", "T");
        let d = sub("d", "k");
        canvas.text((28.0, 112.0), "Q", Face::TEXT.size(14.0).bold())?;
        canvas.text(
            (28.0, 129.0),
            format!("m × {d} = {m} × {d_k}"),
            Face::TEXT.muted(),
        )?;
        canvas.text((right, 14.0), &transposed, Face::TEXT.size(14.0).bold())?;
        canvas.text(
            (right + 24.0, 14.5),
            format!("{d} × n = {d_k} × {n}"),
            Face::TEXT.muted(),
        )?;
        let below = 142.0 + 26.0 * m as f64 + 16.0;
        canvas.text(
            (right, below),
            format!("E = Q{transposed}"),
            Face::TEXT.size(14.0).bold(),
        )?;
        canvas.text(
            (right + 64.0, below + 0.5),
            format!("m × n = {m} × {n}"),
            Face::TEXT.muted(),
        )?;
        for (row, name) in numbered("q", m).into_iter().enumerate() {
            let y = q.corner(row, 0).1 + 13.0;
            canvas.text((21.0, y), name, Face::ENDING)?;
        }
        for (column, name) in numbered("k", n).into_iter().enumerate() {
            let x = kt.corner(0, column).0 + 24.5;
            canvas.text((x, 34.0), name, Face::CENTRED)?;
        }
        let cell = format!("{} = {sum} = ", sub("E", format!("{}{}", i + 1, j + 1)));
        canvas.text((180.0, 241.0), cell + &short(scores[[i, j]]), Face::CENTRED)
    })
}

/// The four scores of the first query as bars.
pub(crate) fn scores() -> Result<Picture> {
    let (queries, keys) = first_example();
    let scores = alignment_scores(&queries, &keys)?;
    let scores = scores.row(0).to_vec();
    let said: Vec<_> = scores.iter().map(|&e| number(e, 2)).collect();
    let alt = format!(
        "Four bars, the scores of q1 and k1 to k4: {}.",
        said.join(", ")
    );
    Picture::paint((360, 214), alt, |canvas| {
        canvas.text(
            (14.0, 13.0),
            format!("score {} · {}", sub("q", 1), sub("k", "j")),
            Face::TEXT,
        )?;
        Bars {
            names: &numbered("k", scores.len()),
            series: &[Series {
                values: &scores,
                colour: Colour::A,
                hollow: false,
            }],
            decimals: 2,
            x: (14.0, 346.0),
            y: Scale::linear((-0.5, 2.5), (178.0, 34.0)),
            names_at: 203.0,
        }
        .draw(canvas)
    })
}

/// All scores of the second example as a grid.
pub(crate) fn grid() -> Result<Picture> {
    let (queries, keys) = second_example();
    let scores = alignment_scores(&queries, &keys)?;
    let (rows, columns) = (numbered("q", queries.nrows()), numbered("k", keys.nrows()));
    let rows: Vec<_> = rows.iter().map(String::as_str).collect();
    let columns: Vec<_> = columns.iter().map(String::as_str).collect();
    let mut picture = heatmap(scores.view(), &rows, &columns)?;
    picture.alt = format!(
        "The scores of {} queries, in rows, and {} keys, in columns. {}",
        rows.len(),
        columns.len(),
        picture.alt
    );
    Ok(picture)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_makes_way_for_an_arrow() {
        let (origin, unit) = PLANE;
        let tips = |query: Point| [(origin.0 + unit, origin.1 - unit), query];
        for turn in 0..60 {
            let (sin, cos) = (f64::from(turn) * TAU / 60.0).sin_cos();
            let query = (
                origin.0 + 1.5 * unit * cos,
                origin.1 - 0.4 * unit * (1.0 + sin),
            );
            let mut labels = Labels {
                arrows: tips(query).into(),
                set: vec![],
            };
            for tip in tips(query) {
                let at = labels.place(tip, (12.5, 7.0));
                labels.set.pop();
                assert!(labels.room(at) >= ROOM, "{at:?} with {query:?}");
                labels.set.push(at);
            }
        }
    }
}
