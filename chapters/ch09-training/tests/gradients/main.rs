//! Every gradient against central differences: one number moves a little up and a little down, and the
//! loss must change as the gradient says.
//!
//! `cargo test -p ch09-training --test gradients -- --nocapture` prints how far each one is off.

mod attention;
mod parts;
mod whole;

use ch08_transformer::{Learned, Mode};
use ndarray::{Array, Dimension, IntoDimension};
use rand::RngExt;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

/// How far a number is moved.
const STEP: f64 = 1e-5;

/// The largest difference allowed, relative to the length of the gradient.
const TOLERANCE: f64 = 1e-6;

/// Where a gradient by learned numbers begins, because it must be added to what is there.
const BEGIN: f64 = 0.5;

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Numbers between −1 and 1.
fn random<S: IntoDimension>(shape: S, seed: u64) -> Array<f64, S::Dim> {
    let mut rng = rng(seed);
    Array::from_shape_simple_fn(shape.into_dimension(), || {
        rng.random_range(-1.0..1.0)
    })
}

/// Every learned number moved at random, so that no bias is 0 and no gain is 1.
fn stirred<L: Learned<f64>>(mut model: L, seed: u64) -> L {
    let mut rng = rng(seed);
    for (_, mut table) in model.tables_mut() {
        table.mapv_inplace(|x| x + rng.random_range(-0.5..0.5));
    }
    model
}

/// What the gradients by everything learned are added to.
fn beginning<L: Learned<f64> + Clone>(model: &L) -> L {
    let mut gradient = model.clone();
    for (_, mut table) in gradient.tables_mut() {
        table.fill(BEGIN);
    }
    gradient
}

/// In evaluation, or in training with this seed: the same numbers are dropped every time.
fn in_mode<T>(seed: Option<u64>, run: impl FnOnce(&mut Mode) -> T) -> T {
    match seed {
        None => run(&mut Mode::Evaluation),
        Some(seed) => run(&mut Mode::Training(&mut rng(seed))),
    }
}

/// A loss whose gradient by the output is the weighting: `Σ weighting ⊙ output`.
fn weighed<D: Dimension>(output: &Array<f64, D>, weighting: &Array<f64, D>) -> f64 {
    assert_eq!(output.shape(), weighting.shape());
    output.iter().zip(weighting).map(|(y, w)| y * w).sum()
}

fn length<'a>(numbers: impl IntoIterator<Item = &'a f64>) -> f64 {
    numbers.into_iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The slope of the loss, moved by ±`STEP`.
fn slope(loss: impl Fn(f64) -> f64) -> f64 {
    (loss(STEP) - loss(-STEP)) / (2.0 * STEP)
}

#[track_caller]
fn assert_near(what: &str, gradient: &[f64], slopes: &[f64]) {
    assert_eq!(gradient.len(), slopes.len(), "{what}");
    let differences: Vec<f64> =
        gradient.iter().zip(slopes).map(|(g, s)| g - s).collect();
    let (size, off) = (length(slopes), length(&differences));
    if size < 1e-8 {
        // What does not move the loss has no length to be compared with: a bias of the keys adds the
        // same to all scores of a query.
        println!("{what}: {off:.1e}, of nothing");
        assert!(off < 1e-8, "{what} is off by {off:.1e}, of nothing");
        return;
    }
    let off = off / size;
    println!("{what}: {off:.1e}");
    assert!(
        off <= TOLERANCE,
        "{what} is off by {off:.1e}: {gradient:.6?}, not {slopes:.6?}"
    );
}

/// The gradient by an array is what central differences say.
#[track_caller]
fn assert_slopes<D: Dimension>(
    what: &str,
    gradient: &Array<f64, D>,
    x: &Array<f64, D>,
    loss: impl Fn(&Array<f64, D>) -> f64,
) {
    assert_eq!(gradient.shape(), x.shape(), "{what}");
    let slopes: Vec<f64> = (0..x.len())
        .map(|entry| {
            slope(|step| {
                let mut moved = x.clone();
                *moved.iter_mut().nth(entry).unwrap() += step;
                loss(&moved)
            })
        })
        .collect();
    let gradient: Vec<f64> = gradient.iter().copied().collect();
    assert_near(what, &gradient, &slopes);
}

/// The gradient by each learned table is what central differences say. It began at [`beginning`].
#[track_caller]
fn assert_learned<L: Learned<f64> + Clone>(
    what: &str,
    gradient: &L,
    model: &L,
    loss: impl Fn(&L) -> f64,
) {
    let (tables, gradients) = (model.tables(), gradient.tables());
    assert_eq!(tables.len(), gradients.len(), "{what}");
    assert!(!tables.is_empty(), "{what} learns nothing");
    for (i, ((name, table), (_, gradient))) in
        tables.iter().zip(&gradients).enumerate()
    {
        let slopes: Vec<f64> = (0..table.len())
            .map(|entry| {
                slope(|step| {
                    let mut moved = model.clone();
                    *moved.tables_mut()[i].1.iter_mut().nth(entry).unwrap() += step;
                    loss(&moved)
                })
            })
            .collect();
        let gradient: Vec<f64> = gradient.iter().map(|g| g - BEGIN).collect();
        assert_near(&format!("{what}, {name}"), &gradient, &slopes);
    }
}

/// The helpers themselves: the gradient of a sum of squares is twice the numbers, and nothing else is.
#[test]
fn a_wrong_gradient_is_noticed() {
    let x = random((2, 3), 1);
    let squares = |x: &ndarray::Array2<f64>| x.mapv(|x| x * x).sum();
    assert_slopes("a sum of squares", &(&x * 2.0), &x, squares);
    for (what, wrong) in [
        ("a little too long", &x * 2.00001),
        ("turned", &x * -2.0),
        ("nothing", &x * 0.0),
        ("NaN", &x * f64::NAN),
    ] {
        let noticed =
            std::panic::catch_unwind(|| assert_slopes(what, &wrong, &x, squares));
        assert!(noticed.is_err(), "{what} is not noticed");
    }
    // What does not move the loss.
    assert_slopes("a constant", &(&x * 0.0), &x, |_| 1.0);
    let noticed =
        std::panic::catch_unwind(|| assert_slopes("too much", &x, &x, |_| 1.0));
    assert!(noticed.is_err());
}
