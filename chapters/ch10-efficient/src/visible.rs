//! What may be seen, said by a rule instead of a table.

// ANCHOR: imports
use anyhow::{Result, ensure};
use ch04_masks::Mask;
use ndarray::{ArrayView4, s};
use std::ops::Range;
// ANCHOR_END: imports

/// What `m` queries may see of `n` keys: a rule about positions, and perhaps masks besides. A
/// table of m × n entries is never made of the rule.
// ANCHOR: visible
#[derive(Clone, Debug, PartialEq)]
pub struct Visible<'a> {
    /// How many keys a query sees at most, up to its own position; `None` if it
    /// sees all.
    reach: Option<usize>,
    masks: Vec<&'a Mask>,
    /// Where a part begins, and the shape of the whole that it is a part of:
    /// sequence, head, query and key.
    part: Option<[[usize; 4]; 2]>,
}

impl<'a> Visible<'a> {
    fn of_rule(reach: Option<usize>) -> Self {
        Self {
            reach,
            masks: vec![],
            part: None,
        }
    }

    /// Every query sees every key.
    pub fn everything() -> Self {
        Self::of_rule(None)
    }

    /// As [`Mask::causal`]: no query sees what comes after it, and the last one
    /// sees every key.
    pub fn causal() -> Self {
        Self::of_rule(Some(usize::MAX))
    }

    /// As [`Mask::window`]: the last `width` positions, the query's own among them.
    ///
    /// # Errors
    /// If the width is 0.
    pub fn window(width: usize) -> Result<Self> {
        ensure!(
            width > 0,
            "a window of width 0 hides every query from itself"
        );
        Ok(Self::of_rule(Some(width)))
    }

    /// Of what may be seen so far, only what the mask allows, too.
    pub fn and(mut self, mask: &'a Mask) -> Self {
        self.masks.push(mask);
        self
    }

    /// The masks that stand beside the rule; all of them hold.
    pub fn masks(&self) -> &[&'a Mask] {
        &self.masks
    }
}
// ANCHOR_END: visible

// ANCHOR: span
impl Visible<'_> {
    /// The keys that the rule, without the masks, shows to query `i` of `m`, where
    /// there are `n` keys.
    pub fn span(&self, i: usize, m: usize, n: usize) -> Range<usize> {
        let Some(reach) = self.reach else {
            return 0..n;
        };
        let [[.., row, column], [.., all_rows, all_columns]] =
            self.part.unwrap_or([[0; 4], [1, 1, m, n]]);
        // Query i stands at position i + n − m, and sees up to there.
        let end = row.saturating_add(i).saturating_add(all_columns);
        let end = end.saturating_add(1).saturating_sub(all_rows);
        let place = |j: usize| j.saturating_sub(column).min(n);
        place(end.saturating_sub(reach))..place(end)
    }

    /// All keys that the rule shows to at least one of these queries.
    pub fn span_of(&self, rows: Range<usize>, m: usize, n: usize) -> Range<usize> {
        let last = rows.end.saturating_sub(1);
        self.span(rows.start, m, n).start..self.span(last, m, n).end
    }
}
// ANCHOR_END: span

// ANCHOR: part
impl<'a> Visible<'a> {
    /// The same for a part of the queries and keys: it begins at `first`, a sequence,
    /// head, query and key, in a whole of the shape `whole`, `(batch, heads, m, n)`.
    pub fn part(&self, first: [usize; 4], whole: [usize; 4]) -> Self {
        let mut part = self.clone();
        let ([outer, _], whole) = match self.part {
            Some(of) => (of, of[1]),
            None => ([[0; 4]; 2], whole),
        };
        let first = [0, 1, 2, 3].map(|a: usize| outer[a].saturating_add(first[a]));
        part.part = Some([first, whole]);
        part
    }

    /// What each of the masks allows, stretched to scores of this shape, `(batch,
    /// heads, m, n)`.
    ///
    /// # Errors
    /// If a mask does not fit the scores, or the whole of which they are a part, or if
    /// that is smaller.
    pub fn allowed(&self, shape: [usize; 4]) -> Result<Vec<ArrayView4<'a, bool>>> {
        let [first, whole] = self.part.unwrap_or([[0; 4], shape]);
        let last = [0, 1, 2, 3].map(|a: usize| first[a].saturating_add(shape[a]));
        ensure!(
            last.iter().zip(whole).all(|(&last, whole)| last <= whole),
            "scores of {shape:?} from {first:?} on are no part of {whole:?}"
        );
        let [b, h, i, j] = [0, 1, 2, 3].map(|a: usize| first[a]..last[a]);
        let fit = |mask: &&'a Mask| {
            let all = mask.fit(whole.into())?;
            Ok(all.slice_move(s![b.clone(), h.clone(), i.clone(), j.clone()]))
        };
        self.masks.iter().map(fit).collect()
    }
}
// ANCHOR_END: part

// ANCHOR: block
impl Visible<'_> {
    /// The mask of a block: of these queries, out of `m`, and these keys, out of
    /// `n`.
    pub fn block(
        &self,
        (rows, m): (Range<usize>, usize),
        (columns, n): (Range<usize>, usize),
        (batch, heads): (usize, usize),
    ) -> Mask {
        let spans: Vec<_> = rows.clone().map(|i| self.span(i, m, n)).collect();
        let (batch, heads) = match self.masks.len() {
            0 => (1, 1),
            _ => (batch, heads),
        };
        let shape = (batch, heads, rows.len(), columns.len());
        let [first, _] = self.part.unwrap_or([[0; 4]; 2]);
        Mask::from_fn(shape, |b, h, i, j| {
            let (row, column) = (rows.start + i, columns.start + j);
            let place = [b, h, row, column];
            let [b, h, row, whole_column] =
                [0, 1, 2, 3].map(|a: usize| first[a].saturating_add(place[a]));
            let allows = |mask: &&Mask| mask.allows(b, h, row, whole_column);
            spans[i].contains(&column) && self.masks.iter().all(allows)
        })
    }
}
// ANCHOR_END: block
