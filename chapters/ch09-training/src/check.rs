//! Whether a gradient is right: it is compared with what the loss really does.

// ANCHOR: check_imports
use anyhow::{Result, ensure};
use ch08_transformer::Learned;
// ANCHOR_END: check_imports

/// Which slopes are measured, and how.
// ANCHOR: sample
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// How far a number is moved to either side.
    pub step: f64,
    /// How many numbers of each table are moved at most.
    pub count: usize,
}
// ANCHOR_END: sample

/// How far a gradient is from the slopes of the loss, for each table of a model.
///
/// The slope by a number `x` is measured on both sides of it, `(L(x + h) − L(x − h)) / 2h`, where `h`
/// is the sample's step, for up to `count` numbers of each table, spread evenly. The distance is that between the two lists of slopes,
/// relative to the length of the longer one, or to a ten-thousandth if both are shorter than that: no
/// measurement tells a slope of 0 from the rounding of the loss.
///
/// # Errors
/// If the loss fails, model and gradient have different tables, the step is not a finite number
/// above 0, or the count is 0.
// ANCHOR: gradient_check
pub fn gradient_check<L: Learned<f64> + Clone>(
    model: &L,
    gradient: &L,
    sample: Sample,
    loss: impl Fn(&L) -> Result<f64>,
) -> Result<Vec<(String, f64)>> {
    let Sample { step, count } = sample;
    ensure!(
        step.is_finite() && step > 0.0 && count > 0,
        "a step of {step} and {count} numbers of each table check nothing"
    );
    let (tables, gradients) = (model.tables(), gradient.tables());
    ensure!(
        tables.len() == gradients.len(),
        "the model has {} tables but the gradient {}",
        tables.len(),
        gradients.len()
    );
    let mut moved = model.clone();
    let mut distances = vec![];
    for (t, (name, table)) in tables.iter().enumerate() {
        let by_hand: Vec<f64> = gradients[t].1.iter().copied().collect();
        crate::same_shape(name, table.shape(), "gradient", gradients[t].1.shape())?;
        let mut slopes = (vec![], vec![]);
        for i in (0..table.len()).step_by(table.len().div_ceil(count).max(1)) {
            let mut at = |sign: f64| {
                *number(&mut moved, t, i) += sign * step;
                let loss = loss(&moved);
                *number(&mut moved, t, i) =
                    table.iter().nth(i).copied().unwrap_or(0.0);
                loss
            };
            // (L(x + h) − L(x − h)) / 2h
            slopes.0.push((at(1.0)? - at(-1.0)?) / (2.0 * step));
            slopes.1.push(by_hand[i]);
        }
        distances.push((name.clone(), distance(&slopes.0, &slopes.1)));
    }
    Ok(distances)
}

/// Number `i` of table `t`.
fn number<L: Learned<f64>>(model: &mut L, t: usize, i: usize) -> &mut f64 {
    let table = model.tables_mut().swap_remove(t).1;
    table.into_iter().nth(i).expect("the place was counted")
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    let length =
        |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    let longer = length(&mut a.iter().copied()).max(length(&mut b.iter().copied()));
    length(&mut a.iter().zip(b).map(|(a, b)| a - b)) / longer.max(1e-4)
}
// ANCHOR_END: gradient_check
