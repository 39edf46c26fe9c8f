//! What a page calls: texts go in, texts come out.
//!
//! Several texts travel as one, parted by the characters that ASCII has for it: [`UNIT`] between the
//! fields of a record, [`RECORD`] between records, [`GROUP`] between groups of them.

use crate::{Live, Spot, State, Use, View};
use anyhow::{Context, Result};

/// Between the fields of a record.
pub const UNIT: char = '\u{1F}';
/// Between the records of a group.
pub const RECORD: char = '\u{1E}';
/// Between groups.
pub const GROUP: char = '\u{1D}';

/// Draws one of some live figures, `ch04-causal` say, from the values of its controls, parted by [`UNIT`].
///
/// The answer is `=` and the groups picture, sentence, values, what stands beside each control, which
/// of them change nothing now, table and spots; or `!` and what is wrong, for the reader.
pub fn draw(figures: &[Live], figure: &str, values: &str) -> String {
    match answer(figures, figure, values) {
        Ok(answer) => format!("={answer}"),
        Err(error) => format!("!{error:#}"),
    }
}

/// Keeps the trained weights, so that the figures that ask the model can be drawn. The answer is empty,
/// or says what is wrong.
pub fn keep_weights(bytes: &[u8]) -> String {
    match crate::ch09::keep(bytes) {
        Ok(()) => String::new(),
        Err(error) => format!("{error:#}"),
    }
}

fn answer(figures: &[Live], figure: &str, values: &str) -> Result<String> {
    let live = figures.iter().find(|live| live.id() == figure);
    let live = live.with_context(|| format!("there is no live figure {figure}"))?;
    let values = values.split(UNIT).map(str::to_owned).collect();
    let (state, view) = live.draw(values)?;
    live.pack(&state, &view)
}

impl Live {
    /// Chapter and name in one, as in `ch04-causal`.
    pub fn id(&self) -> String {
        format!("{}-{}", self.chapter, self.figure)
    }

    fn pack(&self, state: &State, view: &View) -> Result<String> {
        let svg = view.picture.to_inline_svg(&format!("fig-{}", self.id()));
        let table = records(&view.table);
        let spots: Vec<_> = view
            .spots
            .iter()
            .map(|spot| fields_of(spot, state))
            .collect::<Result<_>>()?;
        let idle = state.idle().iter().map(|&idle| if idle { "1" } else { "" });
        let idle: Vec<_> = idle.map(str::to_owned).collect();
        let groups = [
            svg,
            view.said.clone(),
            fields(state.values()),
            fields(state.shown()),
            fields(&idle),
            table,
            records(&spots),
        ];
        Ok(groups.join(&GROUP.to_string()))
    }
}

fn fields(fields: &[String]) -> String {
    fields.join(&UNIT.to_string())
}

fn records(records: &[Vec<String>]) -> String {
    let records: Vec<_> = records.iter().map(|record| fields(record)).collect();
    records.join(&RECORD.to_string())
}

/// Its use, its corner and size, its place, its label, and each control that it sets with the value.
fn fields_of(spot: &Spot, state: &State) -> Result<Vec<String>> {
    let used = match spot.used {
        Use::Press(true) => "on",
        Use::Press(false) => "off",
        Use::Point => "point",
        Use::Drag => "drag",
    };
    let numbers = [spot.at.0, spot.at.1, spot.size.0, spot.size.1];
    let (grid, row, column) = spot.place;
    let mut fields = vec![used.to_owned()];
    fields.extend(numbers.map(|x| x.to_string()));
    fields.extend([grid, row, column].map(|x| x.to_string()));
    fields.push(spot.label.clone());
    for (name, value) in &spot.sets {
        fields.extend([state.place(name)?.to_string(), value.clone()]);
    }
    Ok(fields)
}
