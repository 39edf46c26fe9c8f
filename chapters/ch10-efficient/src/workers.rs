//! Attention by several workers, each of which holds a part of the keys and values.

// ANCHOR: imports
use crate::{Partial, Sizes, Visible, merge, partial_attention, repeat_heads};
use anyhow::{Result, anyhow, ensure};
use ndarray::{Array4, ArrayRef4, Axis, NdFloat, concatenate, s};
use std::ops::Range;
use std::sync::mpsc::channel;
use std::thread;
// ANCHOR_END: imports

/// Keys and values of neighbouring positions, as they travel from worker to worker.
// ANCHOR: shard
struct Shard<F> {
    places: Range<usize>,
    keys: Array4<F>,
    values: Array4<F>,
}

/// `n` positions cut into one run for each worker, none longer than another by more
/// than 1.
fn cut(n: usize, workers: usize) -> impl Fn(usize) -> Range<usize> {
    let (each, more) = (n / workers, n % workers);
    let start = move |worker: usize| worker * each + worker.min(more);
    move |worker| start(worker)..start(worker + 1)
}

/// The answers of some of `m` queries from a shard of `n` keys.
fn from_shard<F: NdFloat>(
    (queries, rows, m): (&ArrayRef4<F>, Range<usize>, usize),
    (shard, n): (&Shard<F>, usize),
    visible: &Visible,
) -> Result<Partial<F>> {
    let (batch, heads, ..) = queries.dim();
    let keys = repeat_heads(&shard.keys, heads)?;
    let values = repeat_heads(&shard.values, heads)?;
    let columns = shard.places.clone();
    let mask = visible.block((rows, m), (columns, n), (batch, heads));
    partial_attention(queries, &keys, &values, &mask)
}
// ANCHOR_END: shard

/// Attention with keys and values spread over workers: each answers all queries from what it holds,
/// and sends home its outputs and log-sum-exps, which are merged.
///
/// The shapes are those of [`tiled_attention`](crate::tiled_attention), and so is the result, in
/// whatever order the partial results arrive, up to rounding.
///
/// # Errors
/// If there are no workers or more than the system has threads, or as [`Sizes::new`].
// ANCHOR: spread_attention
pub fn spread_attention<F: NdFloat>(
    queries: &ArrayRef4<F>,
    keys: &ArrayRef4<F>,
    values: &ArrayRef4<F>,
    visible: &Visible,
    workers: usize,
) -> Result<Array4<F>> {
    ensure!(workers > 0, "0 workers answer nothing");
    let Sizes {
        batch,
        heads,
        m,
        n,
        d_v,
        ..
    } = Sizes::new(queries, keys, values, visible)?;
    let shards = cut(n, workers.min(n.max(1)));
    let merged = thread::scope(|scope| {
        let (home, results) = channel();
        for worker in 0..workers.min(n.max(1)) {
            let (home, places) = (home.clone(), shards(worker));
            let shard = Shard {
                keys: keys.slice(s![.., .., places.clone(), ..]).to_owned(),
                values: values.slice(s![.., .., places.clone(), ..]).to_owned(),
                places,
            };
            // Each worker: partial answers to all queries, from its own keys and values.
            thread::Builder::new().spawn_scoped(scope, move || {
                let part = from_shard((queries, 0..m, m), (&shard, n), visible);
                // After the first error nobody waits for the others.
                home.send(part).ok()
            })?;
        }
        drop(home);
        let nothing = Partial::empty((batch, heads, m, d_v));
        results
            .into_iter()
            .try_fold(nothing, |merged, part| merge(&merged, &part?))
    });
    Ok(merged?.output)
}
// ANCHOR_END: spread_attention

/// Attention in a ring: each worker keeps its share of the queries, and the shares of keys and
/// values go round. After as many steps as there are workers every query has met every key, and
/// nobody ever held more than one share.
///
/// The shapes are those of [`tiled_attention`](crate::tiled_attention), and so is the result, up to
/// rounding.
///
/// # Errors
/// If there are no workers or more than the system has threads, or as [`Sizes::new`].
///
/// Source: Liu, Zaharia, Abbeel, *Ring Attention with Blockwise Transformers* (2023), section 3.
// ANCHOR: ring_attention
pub fn ring_attention<F: NdFloat>(
    queries: &ArrayRef4<F>,
    keys: &ArrayRef4<F>,
    values: &ArrayRef4<F>,
    visible: &Visible,
    workers: usize,
) -> Result<Array4<F>> {
    ensure!(workers > 0, "0 workers answer nothing");
    let Sizes {
        batch,
        heads,
        m,
        n,
        d_v,
        ..
    } = Sizes::new(queries, keys, values, visible)?;
    // A worker without a single query would only pass on what it gets.
    let workers = workers.min(m.max(1));
    let (share_of_queries, share_of_keys) = (cut(m, workers), cut(n, workers));
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..workers).map(|_| channel::<Shard<F>>()).unzip();
    let answers = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (worker, inbox) in receivers.into_iter().enumerate() {
            let next = senders[(worker + 1) % workers].clone();
            let (rows, places) = (share_of_queries(worker), share_of_keys(worker));
            let mine = queries.slice(s![.., .., rows.clone(), ..]);
            let mut shard = Shard {
                keys: keys.slice(s![.., .., places.clone(), ..]).to_owned(),
                values: values.slice(s![.., .., places.clone(), ..]).to_owned(),
                places,
            };
            let work = move || -> Result<Array4<F>> {
                let mut seen = Partial::empty((batch, heads, rows.len(), d_v));
                for step in 1..=workers {
                    let queries = (&*mine, rows.clone(), m);
                    let part = from_shard(queries, (&shard, n), visible)?;
                    seen = merge(&seen, &part)?;
                    // The shard goes to the next worker, another comes from the one before.
                    if step < workers {
                        let gone = |_| anyhow!("a neighbour in the ring has gone");
                        next.send(shard).map_err(gone)?;
                        shard = inbox.recv()?;
                    }
                }
                Ok(seen.output)
            };
            threads.push(thread::Builder::new().spawn_scoped(scope, work)?);
        }
        // Whoever waits for a neighbour that has gone is told so.
        drop(senders);
        let joined = threads.into_iter().map(|thread| {
            let answer = thread.join();
            answer.unwrap_or_else(|_| Err(anyhow!("a worker has panicked")))
        });
        joined.collect::<Result<Vec<_>>>()
    })?;
    let answers: Vec<_> = answers.iter().map(|answer| answer.view()).collect();
    Ok(concatenate(Axis(2), &answers)?)
}
// ANCHOR_END: ring_attention
