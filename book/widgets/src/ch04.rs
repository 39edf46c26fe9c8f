//! Masks.

use anyhow::Result;
use ch04_masks::{Mask, masked_softmax};
use figures::with::causal_of;
use ndarray::{Array2, Array4, s};

use crate::{Control, Kind, Live, Spot, State, Use, View, heads, row};

pub(crate) const CAUSAL: Live = Live {
    chapter: "ch04",
    figure: "causal",
    hint: "Press a cell of the left mask to allow or forbid it, or choose another mask; make m and n differ, and \
           empty a row. Then let it be read flipped and watch the future leak.",
    part: "numbers",
    controls,
    draw,
};

const MASKS: &[(&str, &str)] = &[
    ("causal", "causal, bottom-right"),
    ("top-left", "causal, top-left"),
    ("padding", "padding"),
    ("both", "causal and padding"),
    ("window", "window"),
    ("everything", "everything"),
    ("hand", "set by hand"),
];

fn controls() -> Result<Vec<Control>> {
    let slider = |name, label: &str, min: f64, default: usize| {
        let kind = Kind::Slider {
            min,
            max: 5.0,
            step: 1.0,
            runs: false,
        };
        Control::new(name, label, kind, default)
    };
    Ok(vec![
        Control::new("mask", "mask", Kind::Choice(MASKS), "causal"),
        slider("m", "queries m", 1.0, 5),
        slider("n", "keys n", 1.0, 5),
        slider("real", "real keys", 0.0, 3),
        slider("width", "window w", 1.0, 2),
        Control::new("flipped", "flipped: true means forbidden", Kind::Check, ""),
        Control::new("cells", "cells", Kind::Hidden, ""),
    ])
}

/// The mask of that name, what it is called and means, and what its opposite means.
fn mask(state: &State, name: &str, (m, n): (usize, usize)) -> Result<(Mask, [&'static str; 3])> {
    let padding = || Mask::padding(&[state.whole("real")?.min(n)], n);
    Ok(match name {
        "causal" => (
            Mask::causal(m, n),
            [
                "right: causal",
                "sees itself and the past",
                "sees only the future",
            ],
        ),
        "top-left" => (
            Mask::causal_from(0, m, n),
            [
                "causal, top-left",
                "query 1 stands at key 1",
                "sees only the future",
            ],
        ),
        "padding" => (
            padding()?,
            [
                "right: padding",
                "sees the real keys",
                "sees only the padding",
            ],
        ),
        "both" => (
            (&Mask::causal(m, n) & &padding()?)?,
            [
                "causal & padding",
                "sees the real past",
                "future and padding",
            ],
        ),
        "window" => (
            Mask::window(m, n, state.whole("width")?)?,
            ["right: window", "sees the last few", "sees all but those"],
        ),
        "everything" => (
            Mask::everything(),
            ["everything", "sees all keys", "sees nothing"],
        ),
        // Each cell as it was, and forbidden if there was none.
        _ => {
            let rows: Vec<&str> = state.text("cells")?.split('/').collect();
            let allowed = |i: usize, j: usize| {
                let row = rows.get(i).map(|row| row.as_bytes());
                row.and_then(|row| row.get(j)) == Some(&b'1')
            };
            let mask = Mask::from_fn((1, 1, m, n), |_, _, i, j| allowed(i, j));
            (
                mask,
                ["set by hand", "sees what you allow", "sees the rest"],
            )
        }
    })
}

fn draw(state: &mut State) -> Result<View> {
    let (m, n) = (state.whole("m")?, state.whole("n")?);
    for name in ["m", "n", "real", "width"] {
        let shown = state.whole(name)?.to_string();
        state.show(name, shown)?;
    }
    let name = state.choice("mask")?;
    state.rest("real", !matches!(name, "padding" | "both"))?;
    state.rest("width", name != "window")?;
    let (mask, [title, what, opposite]) = mask(state, name, (m, n))?;
    let allowed = mask.fit((1, 1, m, n))?.slice(s![0, 0, .., ..]).to_owned();
    let flipped = allowed.mapv(|allowed| !allowed);
    let is_flipped = state.is_on("flipped")?;
    let picture = causal_of(&allowed, [title, what], opposite, is_flipped)?;

    let mut table = vec![heads(
        std::iter::once("weights".to_owned()).chain((1..=n).map(|j| format!("k{j}"))),
    )];
    let mut nothing = vec![];
    let mut sides = [("", &allowed), ("flipped ", &flipped)];
    if is_flipped {
        sides.reverse();
    }
    for (side, allowed) in sides {
        let weights = even_weights(allowed)?;
        for (i, weights) in weights.rows().into_iter().enumerate() {
            if weights.sum() == 0.0 {
                nothing.push(format!("{side}q{}", i + 1));
            }
            table.push(row(format!("{side}q{}", i + 1), weights.to_vec(), 2));
        }
    }
    let count = |allowed: &Array2<bool>| allowed.iter().filter(|&&allowed| allowed).count();
    let empty = match &nothing[..] {
        [] => "Every query sees something".to_owned(),
        [one] => format!("Nothing is left to see for {one}, which gets weights of 0"),
        more => format!(
            "Nothing is left to see for {}, which get weights of 0",
            more.join(", ")
        ),
    };
    let [(_, seen), _] = sides;
    let leak = count(&future(seen));
    let leak = match leak {
        0 => "No query sees its future".to_owned(),
        1 => "1 allowed cell lies in its query’s future".to_owned(),
        _ => format!("{leak} allowed cells lie in their query’s future"),
    };
    let said = format!(
        "{}{} of {} cells are allowed. {leak}. {empty}.",
        if is_flipped { "Read flipped, " } else { "" },
        count(seen),
        m * n
    );
    let spots = picture.cells.iter().map(|cell| {
        let (i, j) = (cell.row, cell.column);
        let on = allowed[[i, j]];
        let pressed = Array2::from_shape_fn((m, n), |place| allowed[place] != (place == (i, j)));
        let can = if on != is_flipped { "may" } else { "may not" };
        Spot {
            used: Use::Press(on),
            at: cell.at,
            size: cell.size,
            place: (cell.grid, i, j),
            label: format!("q{} {can} attend to k{}", i + 1, j + 1),
            sets: vec![("cells", spell(&pressed)), ("mask", "hand".to_owned())],
        }
    });
    let spots = spots.collect();
    // What is on the page is what the next press changes, whichever mask it began as.
    state.set("cells", spell(&allowed))?;
    Ok(View {
        picture,
        said,
        table,
        spots,
    })
}

/// Rows of 1 and 0, parted by strokes.
fn spell(allowed: &Array2<bool>) -> String {
    let rows = allowed.rows().into_iter().map(|row| {
        let digits = row.iter().map(|&allowed| if allowed { '1' } else { '0' });
        digits.collect::<String>()
    });
    rows.collect::<Vec<_>>().join("/")
}

/// The weights behind a mask where all scores are alike: each allowed key gets the same share.
fn even_weights(allowed: &Array2<bool>) -> Result<Array2<f64>> {
    let (m, n) = allowed.dim();
    let mask = Mask::from_fn((1, 1, m, n), |_, _, i, j| allowed[[i, j]]);
    let weights = masked_softmax(&Array4::<f64>::zeros((1, 1, m, n)), &mask)?;
    Ok(weights.slice(s![0, 0, .., ..]).to_owned())
}

/// What is allowed though a causal mask forbids it.
fn future(allowed: &Array2<bool>) -> Array2<bool> {
    let (m, n) = allowed.dim();
    let causal = Mask::causal(m, n);
    Array2::from_shape_fn((m, n), |(i, j)| {
        allowed[[i, j]] && !causal.allows(0, 0, i, j)
    })
}
