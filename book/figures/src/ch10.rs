//! What attention costs, and how to pay less.

use anyhow::{Context, Result, ensure};
use ch10_efficient::{Visible, group_size};

use crate::canvas::{Canvas, Face, Mark, Point, Stroke};
use crate::cells::Cells;
use crate::chart::{Plot, Scale};
use crate::picture::Picture;
use crate::style::{Colour, numbered, short, sub, sup};

/// What `tests/fixtures/speed/measure.py` wrote.
const MEASURED: &str = include_str!("../../../tests/fixtures/speed/measured.csv");

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
        ("tiles", measured("fast")?, Colour::A, Mark::Square),
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
            y: Scale::log((1e5, 1e10), (444.0, 278.0)),
        };
        let ticks = || {
            let lengths = ways[1].1.iter().step_by(2);
            lengths.map(|&(n, ..)| (n, short(n)))
        };
        canvas.text((6.0, 11.0), "seconds of one call", Face::TEXT)?;
        time.y_ticks((-4..=1).map(|power| (10f64.powi(power), sup("10", minus(power)))))?;
        time.x_axis(ticks(), "length n")?;
        canvas.text((6.0, 260.0), "bytes beside inputs and output", Face::TEXT)?;
        memory.y_ticks((5..=10).map(|power| (10f64.powi(power), sup("10", power))))?;
        memory.x_axis(ticks(), "length n")?;
        for (name, points, colour, mark) in &ways {
            for (plot, value) in [
                (&time, (|p| (p.0, p.1)) as fn(&(f64, f64, f64)) -> Point),
                (&memory, |p| (p.0, p.2)),
            ] {
                let points: Vec<_> = points.iter().map(value).collect();
                plot.curve(&points, Stroke::new(*colour, 1.6))?;
                plot.marks(&points, *mark, *colour)?;
                // Chapter 4 is the upper curve of both, and named above it.
                let named = points[2];
                let at = plot.at(named.0, named.1);
                let (at, face) = if *colour == Colour::B {
                    ((at.0 - 6.0, at.1 - 12.0), Face::ENDING)
                } else {
                    ((at.0 + 10.0, at.1 + 12.0), Face::TEXT)
                };
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

fn tile(visible: Visible, (i, j): (usize, usize), side: usize, n: usize) -> Tile {
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
    let of = |visible, kind| {
        let places = (0..count).flat_map(|i| (0..count).map(move |j| (i, j)));
        places
            .filter(|&place| tile(visible, place, side, n) == kind)
            .count()
    };
    let said: Vec<_> = rules
        .iter()
        .map(|&(name, visible, _)| {
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
                    match tile(visible, (i, j), side, n) {
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
            let used: Vec<_> = (0..heads).map(|i| (i / group + 1).to_string()).collect();
            Ok(format!("{name}: {}", used.join(", ")))
        })
        .collect::<Result<_>>()?;
    let alt = format!(
        "Which head of keys and values the query heads 1 to {heads} use. {}.",
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
    Picture::paint((360, 150), alt, |canvas| {
        let (queries, keys) = (numbered("Q", heads), numbered("K", heads));
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
            for (kv, key) in keys.iter().enumerate().take(kv_heads) {
                square(canvas, below(kv), key, Some(colour))?;
            }
        }
        Ok(())
    })
}
