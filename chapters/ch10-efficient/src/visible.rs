//! What may be seen, said by a rule instead of a table.

// ANCHOR: imports
use anyhow::{Result, ensure};
use ch04_masks::Mask;
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
}

impl<'a> Visible<'a> {
    /// Every query sees every key.
    pub fn everything() -> Self {
        Self {
            reach: None,
            masks: vec![],
        }
    }

    /// As [`Mask::causal`]: no query sees what comes after it, and the last one
    /// sees every key.
    pub fn causal() -> Self {
        Self {
            reach: Some(usize::MAX),
            masks: vec![],
        }
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
        Ok(Self {
            reach: Some(width),
            masks: vec![],
        })
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
        // Query i stands at position i + n − m, and sees up to there.
        let end = i.saturating_add(n).saturating_add(1).saturating_sub(m);
        let start = end.saturating_sub(reach).min(n);
        start..end.min(n)
    }

    /// All keys that the rule shows to at least one of these queries.
    pub fn span_of(&self, rows: Range<usize>, m: usize, n: usize) -> Range<usize> {
        let last = rows.end.saturating_sub(1);
        self.span(rows.start, m, n).start..self.span(last, m, n).end
    }
}
// ANCHOR_END: span

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
        Mask::from_fn(shape, |b, h, i, j| {
            let (row, column) = (rows.start + i, columns.start + j);
            spans[i].contains(&column)
                && self.masks.iter().all(|mask| mask.allows(b, h, row, column))
        })
    }
}
// ANCHOR_END: block
