//! What attention costs, and how to pay less.

use anyhow::{Context, Result, ensure};
use ch10_efficient::{Online, Visible, group_size, rising_example};
use ndarray::{Array1, ArrayView1, ArrayView2, Axis, s};
use std::ops::Range;

use crate::canvas::{Canvas, Face, Mark, Point, Stroke};
use crate::cells::Cells;
use crate::chart::{Plot, Scale};
use crate::picture::Picture;
use crate::style::{Colour, number, numbered, short, sub, sup};

/// What `tests/fixtures/speed/attention.py` wrote.
const MEASURED: &str = include_str!("../../../tests/fixtures/speed/attention.csv");

/// The lengths that one way was measured at, with the least seconds and the bytes beside inputs and output.
fn measured(way: &str) -> Result<Vec<(f64, f64, f64)>> {
    let kind = format!("alone {way}");
    let rows = MEASURED.lines().filter_map(|line| {
        let fields: Vec<_> = line.split(',').collect();
        (fields[0] == kind).then_some(fields)
    });
    let points = rows
        .map(|fields| Ok((fields[2].parse()?, fields[4].parse()?, fields[6].parse()?)))
        .collect::<Result<Vec<_>>>()?;
    ensure!(points.len() > 1, "{way} was measured at too few lengths");
    Ok(points)
}

/// Time and memory against the length, with all scores written down and in tiles.
pub(crate) fn cost() -> Result<Picture> {
    let ways = [
        ("chapter 4", measured("chapter4")?, Colour::B, Mark::Disc),
        ("fast_attention", measured("fast")?, Colour::A, Mark::Square),
    ];
    let ends = |points: &[(f64, f64, f64)]| (points[0], points[points.len() - 1]);
    let [(first, last), (_, longest)] = [ends(&ways[0].1), ends(&ways[1].1)];
    let same = ways[1].1.iter().find(|point| point.0 == last.0);
    let same = same.context("the two ways share no length")?;
    let mebibytes = |bytes: f64| short((bytes / 1024.0 / 1024.0 * 10.0).round() / 10.0);
    let alt = format!(
        "Seconds of one call, and memory beside inputs and output, against the length, on logarithmic axes, for \
         lengths from {} on. At length {} chapter 4 takes {} seconds and {} MiB, the tiles {} seconds and {} MiB. \
         The tiles go on to length {}, where they need {} MiB.",
        first.0,
        last.0,
        short(last.1),
        mebibytes(last.2),
        short(same.1),
        mebibytes(same.2),
        longest.0,
        mebibytes(longest.2)
    );
    Picture::paint((360, 486), alt, |canvas| {
        let x = || Scale::log((first.0, longest.0), (48.0, 342.0));
        let time = Plot {
            canvas,
            x: x(),
            y: Scale::log((1e-4, 20.0), (206.0, 30.0)),
        };
        let memory = Plot {
            canvas,
            x: x(),
            y: Scale::log((1e4, 1e10), (444.0, 278.0)),
        };
        let ticks = || {
            let lengths = ways[1].1.iter().step_by(2);
            lengths.map(|&(n, ..)| (n, short(n)))
        };
        canvas.text((6.0, 11.0), "seconds of one call", Face::TEXT)?;
        time.y_ticks((-4..=1).map(|power| (10f64.powi(power), sup("10", minus(power)))))?;
        time.x_axis(ticks(), "length n")?;
        canvas.text((6.0, 260.0), "bytes beside inputs and output", Face::TEXT)?;
        memory.y_ticks((4..=10).map(|power| (10f64.powi(power), sup("10", power))))?;
        memory.x_axis(ticks(), "length n")?;
        for (name, points, colour, mark) in &ways {
            for (plot, value) in [
                (&time, (|p| (p.0, p.1)) as fn(&(f64, f64, f64)) -> Point),
                (&memory, |p| (p.0, p.2)),
            ] {
                let points: Vec<_> = points.iter().map(value).collect();
                plot.curve(&points, Stroke::new(*colour, 1.6))?;
                plot.marks(&points, *mark, *colour)?;
                // Chapter 4 is the upper curve of both, and named above it; each name stands between two
                // lines of the grid.
                let (n, value) = points[2];
                let (side, shift, face) = if *colour == Colour::B {
                    (1.0, -6.0, Face::ENDING)
                } else {
                    (-1.0, 10.0, Face::TEXT)
                };
                let away = side * value.log10() + 0.2;
                let between = side * ((away - 0.5).ceil() + 0.5);
                let at = plot.at(n, 10f64.powf(between));
                let at = (at.0 + shift, at.1);
                canvas.text(at, *name, face.bold().colour(*colour))?;
            }
        }
        Ok(())
    })
}

fn minus(power: i32) -> String {
    power.to_string().replace('-', "−")
}

/// What a rule leaves of a tile.
#[derive(Clone, Copy, PartialEq)]
enum Tile {
    Whole,
    Part,
    Skipped,
}

fn tile(visible: &Visible, (i, j): (usize, usize), side: usize, n: usize) -> Tile {
    let (rows, columns) = (i * side..(i + 1) * side, j * side..(j + 1) * side);
    let mask = visible.block((rows, n), (columns, n), (1, 1));
    let places = (0..side).flat_map(|i| (0..side).map(move |j| (i, j)));
    let seen = places.filter(|&(i, j)| mask.allows(0, 0, i, j)).count();
    match seen {
        0 => Tile::Skipped,
        all if all == side * side => Tile::Whole,
        _ => Tile::Part,
    }
}

/// The tiles of a causal mask and of a window.
pub(crate) fn tiles() -> Result<Picture> {
    let (count, side) = (8, 4);
    let n = count * side;
    let rules = [
        ("causal", Visible::causal(), Colour::A),
        ("window of 8", Visible::window(2 * side)?, Colour::C),
    ];
    let of = |visible: &Visible, kind| {
        let places = (0..count).flat_map(|i| (0..count).map(move |j| (i, j)));
        places
            .filter(|&place| tile(visible, place, side, n) == kind)
            .count()
    };
    let said: Vec<_> = rules
        .iter()
        .map(|(name, visible, _)| {
            format!(
                "Under a {name} rule {} are seen whole, {} in part, and {} are skipped.",
                of(visible, Tile::Whole),
                of(visible, Tile::Part),
                of(visible, Tile::Skipped)
            )
        })
        .collect();
    let alt = format!(
        "The scores of {n} queries and {n} keys in {count} × {count} tiles. {}",
        said.join(" ")
    );
    Picture::paint((360, 262), alt, |canvas| {
        for (panel, (name, visible, colour)) in rules.into_iter().enumerate() {
            let cells = Cells {
                at: (22.0 + 172.0 * panel as f64, 44.0),
                cell: (20.0, 20.0),
                shape: (count, count),
            };
            let face = Face::CENTRED.bold().colour(colour);
            canvas.text((cells.centre(), 12.0), name, face)?;
            canvas.text((cells.centre(), 32.0), "keys →", Face::CENTRED.muted())?;
            for i in 0..count {
                for j in 0..count {
                    let (from, to) = (cells.corner(i, j), cells.corner(i + 1, j + 1));
                    match tile(&visible, (i, j), side, n) {
                        Tile::Whole => canvas.fill(from, to, colour, 0.5)?,
                        Tile::Part => {
                            canvas.fill(from, to, colour, 0.15)?;
                            canvas.line(from, to, Stroke::new(colour, 1.2))?;
                        }
                        Tile::Skipped => {
                            canvas.text(cells.middle(i, j), "·", Face::CENTRED.muted())?;
                        }
                    }
                }
            }
            cells.frames(canvas)?;
            if panel == 0 {
                let at = (10.0, cells.middle(count / 2, 0).1);
                canvas.text(at, "← queries", Face::CENTRED.muted().turned())?;
            }
        }
        let colour = Colour::A;
        let key = |x: f64| ((x, 230.0), (x + 14.0, 244.0));
        let (from, to) = key(22.0);
        canvas.fill(from, to, colour, 0.5)?;
        canvas.text((42.0, 237.0), "seen whole", Face::TEXT)?;
        let (from, to) = key(128.0);
        canvas.fill(from, to, colour, 0.15)?;
        canvas.line(from, to, Stroke::new(colour, 1.2))?;
        canvas.text((148.0, 237.0), "seen in part", Face::TEXT)?;
        canvas.text((247.0, 237.0), "·", Face::CENTRED.muted())?;
        canvas.text((258.0, 237.0), "skipped", Face::TEXT)
    })
}

/// Who holds which share of the keys and values, step by step.
pub(crate) fn ring() -> Result<Picture> {
    let workers = 4;
    // A share goes to the next worker after each step.
    let held = |worker: usize, step: usize| (worker + workers - step) % workers;
    let idle = (0..workers)
        .flat_map(|worker| (0..workers).map(move |step| (worker, step)))
        .filter(|&(worker, step)| held(worker, step) > worker)
        .count();
    let alt = format!(
        "{workers} workers in a ring, each with its own share of the queries. In step 1 each holds its own share of \
         keys and values; after each step it hands that to the next worker. After {workers} steps each has \
         held all {workers}. Under a causal mask {idle} of the {} meetings have nothing to do.",
        workers * workers
    );
    Picture::paint((360, 236), alt, |canvas| {
        let cells = Cells {
            at: (96.0, 52.0),
            cell: (60.0, 38.0),
            shape: (workers, workers),
        };
        canvas.text(
            (cells.centre(), 12.0),
            "the share of keys and values at hand",
            Face::CENTRED,
        )?;
        let steps: Vec<_> = (1..=workers).map(|step| format!("step {step}")).collect();
        cells.column_names(canvas, &steps)?;
        let names: Vec<_> = (1..=workers)
            .map(|i| format!("worker {i}, {}", sub("Q", i)))
            .collect();
        cells.row_names(canvas, &names)?;
        let colours = [Colour::A, Colour::B, Colour::C, Colour::D];
        for worker in 0..workers {
            for step in 0..workers {
                let share = held(worker, step);
                let (from, to) = (
                    cells.corner(worker, step),
                    cells.corner(worker + 1, step + 1),
                );
                let name = format!("{}, {}", sub("K", share + 1), sub("V", share + 1));
                let face = if share > worker {
                    Face::CENTRED.muted()
                } else {
                    canvas.fill(from, to, colours[share], 0.2)?;
                    Face::CENTRED.bold()
                };
                canvas.text(cells.middle(worker, step), name, face)?;
            }
        }
        cells.frames(canvas)?;
        let text = "not filled: all of it comes later, and a causal mask hides it";
        canvas.text((180.0, 222.0), text, Face::CENTRED.size(11.0).muted())
    })
}

/// Which head of keys and values each head of queries uses.
pub(crate) fn groups() -> Result<Picture> {
    let heads = 4;
    let kinds = [
        ("MHA", 4, Colour::A),
        ("GQA", 2, Colour::B),
        ("MQA", 1, Colour::C),
    ];
    let said: Vec<_> = kinds
        .iter()
        .map(|&(name, kv_heads, _)| {
            let group = group_size(heads, kv_heads)?;
            let used: Vec<_> = (0..heads).map(|i| (i / group).to_string()).collect();
            Ok(format!("{name}: {}", used.join(", ")))
        })
        .collect::<Result<_>>()?;
    let alt = format!(
        "Which head of keys and values the query heads 0 to {} use. {}.",
        heads - 1,
        said.join(". ")
    );
    let square = |canvas: &Canvas, at: Point, name: &str, colour: Option<Colour>| -> Result<()> {
        let (from, to) = ((at.0 - 11.0, at.1 - 11.0), (at.0 + 11.0, at.1 + 11.0));
        if let Some(colour) = colour {
            canvas.fill(from, to, colour, 0.25)?;
        }
        canvas.frame(from, to, Stroke::new(Colour::Line, 1.0))?;
        canvas.text(at, name, Face::CENTRED)
    };
    Picture::paint((360, 172), alt, |canvas| {
        // Heads are counted from 0, as in the rule on the page.
        let names = |base| (0..heads).map(|i| sub(base, i)).collect::<Vec<_>>();
        let [queries, keys, values] = ["Q", "K", "V"].map(names);
        for (panel, (name, kv_heads, colour)) in kinds.into_iter().enumerate() {
            let left = 20.0 + 118.0 * panel as f64;
            let at = |i: f64, y: f64| (left + 28.0 * i + 2.0, y);
            let group = group_size(heads, kv_heads)?;
            let middle = at((heads - 1) as f64 / 2.0, 12.0);
            canvas.text(middle, name, Face::CENTRED.bold().colour(colour))?;
            let below = |kv: usize| {
                let first = (kv * group) as f64;
                at(first + (group - 1) as f64 / 2.0, 126.0)
            };
            for (i, query) in queries.iter().enumerate() {
                let (from, to) = (at(i as f64, 44.0), below(i / group));
                canvas.arrow(
                    (to.0, to.1 - 12.0),
                    (from.0, from.1 + 13.0),
                    Stroke::new(colour, 1.2),
                )?;
                square(canvas, from, query, None)?;
            }
            for (kv, (key, value)) in keys.iter().zip(&values).enumerate().take(kv_heads) {
                let (x, y) = below(kv);
                square(canvas, (x, y), key, Some(colour))?;
                square(canvas, (x, y + 22.0), value, Some(colour))?;
            }
        }
        Ok(())
    })
}

/// What the online softmax remembers once a tile of keys has been read.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The tile's keys, counted from 0.
    pub keys: Range<usize>,
    /// μ, the largest score so far.
    pub largest: f64,
    /// What everything before was multiplied by, `exp(μ − μ′)`; 0 where there was nothing before.
    pub factor: f64,
    /// ℓ, the sum of the exponentials relative to the largest score.
    pub sum: f64,
    /// The exponentials of all keys so far, relative to the largest score.
    pub exponentials: Vec<f64>,
    /// o/ℓ, the answer over the keys so far.
    pub answer: Array1<f64>,
}

impl Seen {
    /// Its keys in words, counted from 1.
    pub fn name(&self) -> String {
        match self.keys.len() {
            1 => format!("key {}", self.keys.end),
            _ => format!("keys {} to {}", self.keys.start + 1, self.keys.end),
        }
    }
}

/// Reads keys with the online softmax, `tile` of them at a time: `n` scores and values of `n × d_v`. What
/// comes back is what is remembered after each tile.
///
/// # Errors
/// If a tile has no keys, or there is not one value for each score.
pub fn read_in_tiles(
    scores: ArrayView1<f64>,
    values: ArrayView2<f64>,
    tile: usize,
) -> Result<Vec<Seen>> {
    ensure!(tile > 0, "a tile needs at least one key");
    let mut online = Online::new(values.ncols());
    let (mut reads, mut before) = (Vec::new(), f64::NEG_INFINITY);
    for start in (0..scores.len()).step_by(tile) {
        let keys = start..scores.len().min(start + tile);
        let tile = values.slice_axis(Axis(0), keys.clone().into());
        online.see(&scores.slice(s![keys.clone()]), &tile)?;
        let seen = scores.slice(s![..keys.end]);
        let largest = seen.fold(f64::NEG_INFINITY, |a, &b| a.max(b));
        let (answer, log_sum_exp) = online.answer();
        let (exponentials, factor, sum) = if largest == f64::NEG_INFINITY {
            (vec![0.0; keys.end], 1.0, 0.0)
        } else {
            let exponentials = seen.iter().map(|e| (e - largest).exp()).collect();
            // log-sum-exp = max + log Σ exp(e − max)
            let sum = (log_sum_exp - largest).exp();
            (exponentials, (before - largest).exp(), sum)
        };
        ensure!(
            (sum - exponentials.iter().sum::<f64>()).abs() < 1e-9,
            "the online softmax sums to {sum}, not to what is drawn"
        );
        before = largest;
        reads.push(Seen {
            keys,
            largest,
            factor,
            sum,
            exponentials,
            answer,
        });
    }
    Ok(reads)
}

/// The exponentials of the example's scores as its keys are read, relative to the largest so far.
pub(crate) fn online() -> Result<Picture> {
    let (scores, values) = rising_example();
    let reads = read_in_tiles(scores.view(), values.view(), 1)?;
    online_of(scores.view(), &reads, reads.len())
}

/// The exponentials of up to eight scores as their keys are read, relative to the largest so far, with what
/// is remembered after each of the first `read` tiles.
///
/// # Errors
/// If there are no keys or more than eight, or not so many tiles.
pub fn online_of(scores: ArrayView1<f64>, tiles: &[Seen], read: usize) -> Result<Picture> {
    let n = scores.len();
    ensure!(
        (1..=8).contains(&n) && tiles.last().is_some_and(|last| last.keys.end == n),
        "tiles of one to eight keys have room, not {n} keys in {} tiles",
        tiles.len()
    );
    ensure!(
        read <= tiles.len(),
        "there are {} tiles, so {read} cannot be read",
        tiles.len()
    );
    let pair = |answer: &Array1<f64>| {
        let entries: Vec<_> = answer.iter().map(|&x| number(x, 2)).collect();
        format!("({})", entries.join(", "))
    };
    let said: Vec<_> = tiles[..read]
        .iter()
        .map(|tile| {
            let bars: Vec<_> = tile.exponentials.iter().map(|x| number(*x, 2)).collect();
            format!(
                "{}: largest {}, what was before times {}, sum {}, bars {}, answer {}",
                tile.name(),
                short(tile.largest),
                number(tile.factor, 2),
                number(tile.sum, 2),
                bars.join(", "),
                pair(&tile.answer)
            )
        })
        .collect();
    let way = match tiles[0].keys.len() {
        1 => "one after the other".to_owned(),
        tile => format!("{tile} at a time"),
    };
    let alt = format!(
        "{n} keys with the scores {}, read {way}, and the exponentials of those seen so far, relative to the \
         largest. {}.",
        scores
            .iter()
            .map(|&e| short(e))
            .collect::<Vec<_>>()
            .join(", "),
        said.join("; ")
    );
    Picture::paint((360, 264), alt, |canvas| {
        // Up to four tiles side by side, more in two rows of half the height.
        let (rows, top, high, line) = match tiles.len() {
            ..=4 => (1, 36.0, 116.0, 16.0),
            _ => (2, 21.0, 32.0, 13.0),
        };
        let slot = 76.0 / n.max(4) as f64;
        for (place, tile) in tiles.iter().enumerate() {
            let left = 8.0 + 88.0 * (place % 4) as f64;
            let above = 116.0 * (place / 4) as f64;
            let bottom = above + top + high;
            let middle = left + 39.0;
            let title = match tile.keys.len() {
                1 => format!(
                    "{} = {}",
                    sub("e", tile.keys.end),
                    short(scores[tile.keys.start])
                ),
                _ => tile.name(),
            };
            let is_read = place < read;
            let (face, axis) = if is_read {
                (Face::CENTRED.bold(), Colour::Line)
            } else {
                (Face::CENTRED.muted(), Colour::Grid)
            };
            let title_at = above + if rows == 1 { 12.0 } else { 9.0 };
            canvas.text((middle, title_at), title, face)?;
            let y = Scale::linear((0.0, 1.0), (bottom, above + top));
            if is_read {
                for (j, &x) in tile.exponentials.iter().enumerate() {
                    let from = left + 2.0 + slot * j as f64;
                    let colour = if tile.keys.contains(&j) {
                        Colour::B
                    } else {
                        Colour::A
                    };
                    let to = (from + slot * 15.0 / 19.0, y.at(x));
                    canvas.fill((from, bottom), to, colour, 0.8)?;
                }
            }
            canvas.line(
                (left, bottom),
                (left + 78.0, bottom),
                Stroke::new(axis, 1.0),
            )?;
            if !is_read {
                continue;
            }
            // Before the first key that may be seen there was nothing to correct.
            let before = place.checked_sub(1).map(|before| tiles[before].largest);
            let old = match before {
                None | Some(f64::NEG_INFINITY) => String::new(),
                Some(_) => format!("old × {}", number(tile.factor, 2)),
            };
            let lines = [
                format!("μ = {}", short(tile.largest)),
                old,
                format!("ℓ = {}", number(tile.sum, 2)),
                pair(&tile.answer),
            ];
            for (i, text) in lines.into_iter().enumerate() {
                let at = (middle, bottom + line * (i as f64 + 1.0));
                canvas.text(at, text, Face::CENTRED)?;
            }
        }
        let face = Face::CENTRED.size(11.0).muted();
        let text = "orange: the new keys; blue: those before them";
        canvas.text((180.0, 240.0), text, face)?;
        let text = "in brackets: the answer over the keys so far";
        canvas.text((180.0, 255.0), text, face)
    })
}

/// Which scores share a vector: those of neighbouring keys, or those of neighbouring queries.
pub(crate) fn lanes() -> Result<Picture> {
    let lanes = 4;
    let alt = format!(
        "Two ways to lay scores into vectors of {lanes} lanes. With {lanes} keys of a query in a vector, the \
         largest score is spread over its lanes. With {lanes} queries in a vector, one for each key, the largest of \
         each query stays in its own lane."
    );
    Picture::paint((360, 238), alt, |canvas| {
        let grid = |left: f64| Cells {
            at: (left, 62.0),
            cell: (27.0, 24.0),
            shape: (lanes, lanes),
        };
        let (keys, queries) = (numbered("k", lanes), numbered("q", lanes));
        let left = grid(40.0);
        let right = grid(228.0);
        for (cells, title, rows, columns, colour) in [
            (left, "keys side by side", &queries, &keys, Colour::B),
            (right, "queries side by side", &keys, &queries, Colour::A),
        ] {
            let face = Face::CENTRED.bold().colour(colour);
            canvas.text((cells.centre(), 14.0), title, face)?;
            cells.row_names(canvas, rows)?;
            cells.column_names(canvas, columns)?;
            let to = cells.corner(1, lanes);
            canvas.fill(cells.at, to, colour, 0.3)?;
            cells.frames(canvas)?;
        }
        // On the left along the row, on the right down the columns.
        let stroke = Stroke::new(Colour::B, 1.4);
        let y = left.middle(0, 0).1;
        let end = left.corner(0, lanes).0;
        canvas.arrow((left.at.0 + 8.0, y), (end + 14.0, y), stroke)?;
        let face = Face::TEXT.colour(Colour::B);
        canvas.text((end + 18.0, y), "μ", face.bold())?;
        let below = right.corner(lanes, 0).1;
        let sums = Cells {
            at: (right.at.0, below + 22.0),
            cell: right.cell,
            shape: (1, lanes),
        };
        for j in 0..lanes {
            let x = right.middle(0, j).0;
            let stroke = Stroke::new(Colour::A, 1.4);
            canvas.arrow((x, right.middle(0, j).1), (x, below + 20.0), stroke)?;
            let to = sums.corner(1, j + 1);
            canvas.fill(sums.corner(0, j), to, Colour::A, 0.3)?;
        }
        sums.frames(canvas)?;
        sums.row_names(canvas, &["μ"])?;
        let face = Face::CENTRED.size(11.0).muted();
        canvas.text((left.centre(), 226.0), "gathered from the lanes", face)?;
        canvas.text((right.centre(), 226.0), "lane by lane, all at once", face)
    })
}
