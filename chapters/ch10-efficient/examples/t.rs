use ch10_efficient::*; use ndarray::*; use std::time::Instant; use ch04_masks::*;
fn main() {
    let a: Vec<usize> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    let (n, reps, kind) = (a[0], a[1], a[2]);
    let mut x = 12345u32;
    let mut r = || { x = x.wrapping_mul(1664525).wrapping_add(1013904223); 1.7*((x >> 8) as f32 / (1 << 23) as f32 - 1.0) };
    let mut g = || Array4::from_shape_simple_fn((1, 8, n, 64), &mut r);
    let (q, k, v) = (g(), g(), g());
    let pad = Mask::padding(&[n - n / 8], n).unwrap();
    let vis = match kind { 0 => Visible::everything(), 1 => Visible::causal(), 2 => Visible::everything().and(&pad), _ => Visible::window(256).unwrap() };
    let mut ts = vec![]; let mut us = vec![];
    for _ in 0..reps {
        let t = Instant::now(); std::hint::black_box(fast_attention(q.view(), k.view(), v.view(), &vis).unwrap()); ts.push(t.elapsed().as_secs_f64());
        if n <= 256 { let t = Instant::now(); std::hint::black_box(batched_attention(q.view(), k.view(), v.view(), &Mask::everything()).unwrap()); us.push(t.elapsed().as_secs_f64()); }
    }
    ts.sort_by(f64::total_cmp); us.sort_by(f64::total_cmp);
    println!("n {n} kind {kind}: min {:.3} med {:.3} ms {:.1} GF/s; ch04 {:.3?} {:.3?}", ts[0]*1e3, ts[reps/2]*1e3, (4*8*64*n*n) as f64/ts[0]/1e9, us.first().map(|x|x*1e3), us.get(reps/2).map(|x|x*1e3));
    if n <= 1024 {
        let m = vis.block((0..n, n), (0..n, n), (1, 8));
        let e = batched_attention(q.view(), k.view(), v.view(), &m).unwrap();
        let f = fast_attention(q.view(), k.view(), v.view(), &vis).unwrap();
        println!("  err {:e}", (&e.output - &f).fold(0f32, |a, &b| a.max(b.abs())));
    }
}
