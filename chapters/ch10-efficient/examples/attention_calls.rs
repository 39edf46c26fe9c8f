//! Measures what it is asked to on its standard input, a line at a time: `fast 1024 causal` gives the
//! seconds of one call, `memory fast 1024 full` the bytes that it needed beside its inputs and output,
//! `translator all` the seconds in which chapter 9 translates a date, and `translator chapter4` or
//! `translator fast` those of the attention in it.
//!
//! `tests/fixtures/speed/attention.py` asks.

use anyhow::{Context, Result, bail};
use ch04_masks::{Mask, batched_attention};
use ch08_transformer::Transformer;
use ch09_training::{translate::translate, weights};
use ch10_efficient::{Visible, fast_attention};
use ndarray::{Array4, s};
use std::collections::BTreeMap;
use std::io::{Write, stdin, stdout};
use std::time::Instant;

/// What is translated.
const DATE: &str = "29 novembre 2026";

/// The attention of a translation and nothing else: what `translate` asks for, on other numbers.
fn attention_of_translation(model: &Transformer<f32>, way: &str) -> Result<()> {
    let n = DATE.chars().count();
    let attention = &model.encoder.layers[0].attention;
    let (heads, [query, ..]) = (attention.heads(), attention.projections());
    let x = Array4::from_shape_fn(
        (1, heads, n, query.weight().ncols() / heads),
        |(_, h, i, c)| ((h * 5 + i * 3 + c) as f32).sin(),
    );
    let (padding, first) =
        (Mask::padding(&[n], n)?, |m| x.slice(s![.., .., ..m, ..]));
    let ask = |m: usize, n: usize, is_causal: bool| -> Result<()> {
        let (q, kv) = (first(m), first(n));
        match way {
            "fast" => {
                let visible = match is_causal {
                    true => Visible::causal(),
                    false => Visible::everything().and(&padding),
                };
                fast_attention(&q, &kv, &kv, &visible)?;
            }
            _ => {
                let causal = Mask::causal(m, n);
                let mask = if is_causal { &causal } else { &padding };
                batched_attention(&q, &kv, &kv, mask)?;
            }
        }
        Ok(())
    };
    // The source is read at the beginning, and once more for what was looked at; the target
    // after each character, and once more for the same.
    for _ in 0..2 * model.encoder.layers.len() {
        ask(n, n, false)?;
    }
    for m in (1..=11).chain([11]) {
        for _ in &model.decoder.layers {
            ask(m, m, true)?;
            ask(m, n, false)?;
        }
    }
    Ok(())
}

/// Queries, keys and values: 8 heads of width 64, of numbers with mean 0 and variance about 1.
fn inputs(n: usize) -> [Array4<f32>; 3] {
    let mut state = 2017_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * 1.73
    };
    let mut row = || Array4::from_shape_simple_fn((1, 8, n, 64), &mut next);
    [row(), row(), row()]
}

/// The most memory that this process has had, in bytes, as Linux tells it.
fn peak() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(number.context("no VmHWM")?.parse::<u64>()? * 1024)
}

fn call(
    way: &str,
    what: &str,
    [q, k, v]: &[Array4<f32>; 3],
) -> Result<Array4<f32>> {
    let (q, k, v) = (q.view(), k.view(), v.view());
    let n = q.dim().2;
    Ok(match (way, what) {
        ("fast", "full") => fast_attention(&q, &k, &v, &Visible::everything())?,
        ("fast", "causal") => fast_attention(&q, &k, &v, &Visible::causal())?,
        ("chapter4", "full") => {
            batched_attention(&q, &k, &v, &Mask::everything())?.output
        }
        ("chapter4", "causal") => {
            batched_attention(&q, &k, &v, &Mask::causal(n, n))?.output
        }
        _ => bail!("no way {way} for {what}"),
    })
}

fn main() -> Result<()> {
    let mut kept = BTreeMap::new();
    let (translator, _) = weights::shipped()?;
    for line in stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["memory", way, n, what] => {
                let (inputs, output) = (
                    inputs(n.parse()?),
                    Array4::<f32>::ones((1, 8, n.parse()?, 64)),
                );
                let before = peak()?;
                drop(output);
                call(way, what, &inputs)?;
                println!("{}", peak()? - before);
            }
            ["translator", what] => {
                let start = Instant::now();
                match what {
                    "all" => drop(translate(&translator, DATE)?),
                    way => attention_of_translation(&translator, way)?,
                }
                println!("{}", start.elapsed().as_secs_f64());
            }
            [way, n, what] => {
                let n: usize = n.parse()?;
                let inputs = kept.entry(n).or_insert_with(|| inputs(n));
                let start = Instant::now();
                call(way, what, inputs)?;
                println!("{}", start.elapsed().as_secs_f64());
            }
            _ => bail!("cannot measure {line}"),
        }
        stdout().flush()?;
    }
    Ok(())
}
