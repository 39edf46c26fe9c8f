//! Alignment scores.

use anyhow::{Context, Result};
use ch01_alignment::{alignment_scores, cosine_scores, plane_example};
use figures::number;
use figures::with::{PLANE, angle_of};
use ndarray::array;

use crate::{Control, Kind, Live, Spot, State, Use, View, heads, list, row};

pub(crate) const ANGLE: Live = Live {
    chapter: "ch01",
    figure: "angle",
    hint: "Drag the tip of q, or move the sliders: turn it away from a key and the score falls below 0; \
           make it longer and every score grows.",
    part: "numbers",
    controls,
    draw,
};

/// How far the query may reach to the right and up.
const ACROSS: (f64, f64) = (-2.0, 3.0);
const UP: (f64, f64) = (-0.4, 2.2);

fn controls() -> Result<Vec<Control>> {
    let (queries, _) = plane_example();
    let slider = |name, label: &str, (min, max), place| {
        let kind = Kind::Slider {
            min,
            max,
            step: 0.05,
            runs: false,
        };
        Control::new(name, label, kind, queries[[0, place]])
    };
    Ok(vec![
        slider("x", "q, to the right", ACROSS, 0),
        slider("y", "q, up", UP, 1),
        Control::new("tip", "the tip of q", Kind::Hidden, ""),
    ])
}

fn draw(state: &mut State) -> Result<View> {
    let ((left, top), unit) = PLANE;
    let tip = state.text("tip")?.to_owned();
    if !tip.is_empty() {
        let parts = tip.split_once(' ');
        let (x, y) = parts.context("the tip of q has two numbers")?;
        let (x, y): (f64, f64) = (x.parse()?, y.parse()?);
        // As fine as the sliders are.
        let place = |x: f64, (min, max): (f64, f64)| number_of(x.clamp(min, max));
        state.set("x", place((x - left) / unit, ACROSS))?;
        state.set("y", place((top - y) / unit, UP))?;
        state.set("tip", "")?;
    }
    let query = [state.number("x")?, state.number("y")?];
    for (name, x) in ["x", "y"].into_iter().zip(query) {
        state.show(name, number(x, 2))?;
    }
    let (_, keys) = plane_example();
    let queries = array![query];
    let scores = alignment_scores(&queries, &keys)?;
    let cosines = cosine_scores(&queries, &keys)?;
    let length = query[0].hypot(query[1]);
    let mut table = vec![heads(["key", "‖q‖", "‖k‖", "cos θ", "score q · k"])];
    for (j, key) in keys.rows().into_iter().enumerate() {
        let numbers = [
            length,
            key.dot(&key).sqrt(),
            cosines[[0, j]],
            scores[[0, j]],
        ];
        table.push(row(format!("k{}", j + 1), numbers, 2));
    }
    let said = format!(
        "q = ({}), length {}. Scores of k1 to k{}: {}.",
        list(query, 2),
        number(length, 2),
        keys.nrows(),
        list(scores.row(0).to_vec(), 2)
    );
    let side = 30.0;
    let at = (
        left + unit * query[0] - side / 2.0,
        top - unit * query[1] - side / 2.0,
    );
    let handle = Spot {
        used: Use::Drag,
        at,
        size: (side, side),
        place: (0, 0, 0),
        label: "The tip of q: drag it, or use the sliders".to_owned(),
        sets: vec![("tip", String::new())],
    };
    Ok(View {
        picture: angle_of(query)?,
        said,
        table,
        spots: vec![handle],
    })
}

/// To the nearest twentieth, in the shortest spelling.
fn number_of(x: f64) -> f64 {
    (x * 20.0).round() / 20.0
}
