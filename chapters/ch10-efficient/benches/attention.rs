//! How long attention takes: `cargo bench -p ch10-efficient`.
//!
//! `RAYON_NUM_THREADS` says by how many threads. `tests/fixtures/speed/attention.py` measures the same in
//! turns with PyTorch.

use ch04_masks::{Mask, batched_attention};
use ch10_efficient::{Visible, fast_attention, tiled_attention};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use ndarray::Array4;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use std::time::Duration;

/// Queries, keys and values: 8 heads of width 64.
fn inputs(n: usize) -> [Array4<f32>; 3] {
    let rng = &mut ChaCha8Rng::seed_from_u64(n as u64);
    let mut row = || {
        ch03_scaled::random_vector(8 * n * 64, rng)
            .mapv(|x| x as f32)
            .into_shape_with_order((1, 8, n, 64))
            .expect("as many numbers as places")
    };
    [row(), row(), row()]
}

fn benchmarks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("attention");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    for n in [16, 64, 128, 1024, 4096] {
        let [q, k, v] = inputs(n);
        let (q, k, v) = (q.view(), k.view(), v.view());
        for (name, visible) in [
            ("fast", Visible::everything()),
            ("fast, causal", Visible::causal()),
        ] {
            let id = BenchmarkId::new(name, n);
            group.bench_function(id, |b| {
                b.iter(|| fast_attention(&q, &k, &v, &visible));
            });
        }
        if n > 1024 {
            continue;
        }
        group.bench_function(BenchmarkId::new("chapter 4", n), |b| {
            b.iter(|| batched_attention(&q, &k, &v, &Mask::everything()));
        });
        group.bench_function(BenchmarkId::new("tiled", n), |b| {
            b.iter(|| tiled_attention(&q, &k, &v, &Visible::everything(), 128));
        });
    }
    group.finish();
}

criterion_group!(attention, benchmarks);
criterion_main!(attention);
