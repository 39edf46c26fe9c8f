//! Judges the exercises of chapter 10: `cargo test -p exercises --test ch10`.

use ch04_masks::Mask;
use ch10_efficient::{Model, Partial, grouped_attention, partial_attention};
use exercises::ch10::*;
use ndarray::{Array4, s};

fn wavy(shape: (usize, usize, usize, usize), by: f64) -> Array4<f64> {
    Array4::from_shape_fn(shape, |(b, h, i, c)| {
        (by * (1 + 3 * b + 5 * h + 7 * i + 11 * c) as f64).sin()
    })
}

fn near(a: &Array4<f64>, b: &Array4<f64>) -> bool {
    a.dim() == b.dim() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9)
}

#[test]
fn exercise_1_cache_by_hand() {
    let model = Model {
        layers: 24,
        heads: 16,
        kv_heads: 16,
        d_k: 64,
        bytes: 2,
    };
    let yours = cache_by_hand();
    assert_ne!(2 * yours, model.cache_bytes(1000), "keys and values");
    assert_eq!(yours, model.cache_bytes(1000));
}

#[test]
fn exercise_2_merge_all() {
    let (q, k, v) = (
        wavy((1, 2, 3, 4), 0.7),
        wavy((1, 2, 6, 4), 1.3),
        wavy((1, 2, 6, 3), 2.1),
    );
    let everything = Mask::everything();
    let part = |from: usize, to: usize| {
        let places = s![.., .., from..to, ..];
        partial_attention(q.view(), k.slice(places), v.slice(places), &everything)
            .unwrap()
    };
    let parts = [part(0, 1), part(1, 4), part(4, 4), part(4, 6)];
    let yours = merge_all(&parts).expect("the parts fit");
    assert!(near(&yours.output, &part(0, 6).output), "all parts count");
    let one = merge_all(&parts[..1]).expect("one part is fine");
    assert!(near(&one.output, &parts[0].output), "one part is itself");
    assert!(merge_all(&[]).is_err(), "nothing to merge is an error");
    let other = Partial::empty((1, 2, 9, 3));
    assert!(
        merge_all(&[parts[0].clone(), other]).is_err(),
        "parts for other queries do not fit"
    );
}

#[test]
fn exercise_3_tiles_of_window() {
    let count = |n: usize, tile: usize, width: usize| {
        let mask = Mask::window(n, n, width).unwrap();
        let blocks = n.div_ceil(tile);
        let places = (0..blocks).flat_map(|i| (0..blocks).map(move |j| (i, j)));
        places
            .filter(|&(i, j)| {
                (i * tile..(i + 1) * tile).any(|i| {
                    (j * tile..(j + 1) * tile)
                        .any(|j| mask.allows(0, 0, i.min(n - 1), j))
                })
            })
            .count()
    };
    for (n, tile, width) in
        [(16, 4, 1), (16, 4, 5), (16, 4, 16), (16, 4, 99), (4, 4, 2)]
    {
        let yours = tiles_of_window(n, tile, width).expect("a window has a width");
        assert_eq!(
            yours,
            count(n, tile, width),
            "n {n}, tile {tile}, width {width}"
        );
    }
    assert!(tiles_of_window(4, 2, 0).is_err(), "a window has a width");
}

#[test]
fn exercise_4_rolling_cache() {
    let (q, k, v) = (
        wavy((2, 4, 7, 4), 0.7),
        wavy((2, 2, 7, 4), 1.3),
        wavy((2, 2, 7, 3), 2.1),
    );
    for width in [1, 3, 7, 20] {
        let yours = rolling_cache(q.view(), k.view(), v.view(), width)
            .expect("the shapes fit");
        let mask = Mask::window(7, 7, width).unwrap();
        let right = grouped_attention(q.view(), k.view(), v.view(), &mask).unwrap();
        assert!(near(&yours, &right.output), "width {width}");
    }
    // What has left the window does not matter any more.
    let mut k = k.clone();
    k.slice_mut(s![.., .., 0, ..]).fill(f64::NAN);
    let yours =
        rolling_cache(q.view(), k.view(), v.view(), 3).expect("the shapes fit");
    let later = yours.slice(s![.., .., 3.., ..]);
    assert!(later.iter().all(|x| x.is_finite()), "nothing old is read");
}

#[test]
fn exercise_5_longest() {
    let model = Model {
        layers: 32,
        heads: 32,
        kv_heads: 8,
        d_k: 128,
        bytes: 2,
    };
    let room = 16 << 30;
    assert_eq!(longest(&model, 1, room), 131_072);
    assert_eq!(
        longest(&model, 10, room),
        13_107,
        "ten texts share the room"
    );
    let all = model.with_kv_heads(32);
    assert_eq!(
        longest(&all, 1, room),
        32_768,
        "four times the heads to keep"
    );
    assert_eq!(longest(&model, 1, 0), 0);
}
