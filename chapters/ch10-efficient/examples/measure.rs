//! Measures what it is asked to on its standard input, a line at a time: `fast 1024 causal` gives the
//! seconds of one call, `memory fast 1024 full` the bytes that it needed beside its inputs and output.
//!
//! `tests/fixtures/speed/measure.py` asks.

use anyhow::{Context, Result, bail};
use ch04_masks::{Mask, batched_attention};
use ch10_efficient::{Visible, fast_attention};
use ndarray::Array4;
use std::collections::BTreeMap;
use std::io::{Write, stdin, stdout};
use std::time::Instant;

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
        ("fast", "full") => fast_attention(q, k, v, &Visible::everything())?,
        ("fast", "causal") => fast_attention(q, k, v, &Visible::causal())?,
        ("chapter4", "full") => {
            batched_attention(q, k, v, &Mask::everything())?.output
        }
        ("chapter4", "causal") => {
            batched_attention(q, k, v, &Mask::causal(n, n))?.output
        }
        _ => bail!("no way {way} for {what}"),
    })
}

fn main() -> Result<()> {
    let mut kept = BTreeMap::new();
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
