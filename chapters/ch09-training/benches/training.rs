//! How long a training step takes, its parts, and a translation: `cargo bench -p ch09-training`.
//!
//! `RAYON_NUM_THREADS` says by how many threads. `tests/fixtures/speed/training.py` measures a step in
//! turns with PyTorch's.

use ch09_training::dates::Split;
use ch09_training::optimizer;
use ch09_training::task::examples;
use ch09_training::trainer::{Plan, Trainer};
use ch09_training::translate::translate;
use ch09_training::weights;
use criterion::{Criterion, criterion_group, criterion_main};

fn benchmarks(criterion: &mut Criterion) {
    let mut trainer = Trainer::new(Plan::default()).expect("the usual plan");
    let batches = trainer.batches(examples(Split::Training, trainer.plan.batch));
    let (model, _) = weights::shipped().expect("the shipped weights");

    let mut group = criterion.benchmark_group("training");
    group.bench_function("step", |b| b.iter(|| trainer.step()));
    group.bench_function("gradient of the dates", |b| {
        b.iter(|| trainer.gradient(&batches));
    });
    let (_, gradient) = trainer.gradient(&batches).expect("the batches fit");
    group.bench_function("clipping and Adam", |b| {
        b.iter(|| {
            let mut gradient = gradient.clone();
            optimizer::clip(&mut gradient, 1.0)?;
            trainer.adam.step(&mut trainer.model, &gradient, 1e-4)
        });
    });
    group.bench_function("translation", |b| {
        b.iter(|| translate(&model, "29 novembre 2026"));
    });
    group.finish();
}

criterion_group!(training, benchmarks);
criterion_main!(training);
