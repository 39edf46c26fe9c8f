//! The numbers that are learned, under names.

// ANCHOR: learned_imports
use crate::{
    Classifier, Decoder, DecoderLayer, Embedding, Encoder, EncoderLayer,
    FeedForward, LayerNorm, Residual, Transformer,
};
use ch05_multihead::{MultiHeadAttention, Projection};
use ndarray::{ArrayViewD, ArrayViewMutD, NdFloat};
// ANCHOR_END: learned_imports

/// Something with numbers that are learned, each table of them under a name of its own.
// ANCHOR: learned
pub trait Learned<F> {
    /// The tables, in an order that does not change.
    fn tables(&self) -> Vec<(String, ArrayViewD<'_, F>)>;

    /// The same tables, to be changed; their shapes stay.
    fn tables_mut(&mut self) -> Vec<(String, ArrayViewMutD<'_, F>)>;

    /// How many numbers are learned.
    fn parameters(&self) -> usize {
        self.tables().iter().map(|(_, table)| table.len()).sum()
    }
}

fn within<T>(
    name: impl std::fmt::Display,
    tables: Vec<(String, T)>,
) -> impl Iterator<Item = (String, T)> {
    tables
        .into_iter()
        .map(move |(inner, table)| (format!("{name}.{inner}"), table))
}
// ANCHOR_END: learned

// ANCHOR: learned_parts
impl<F: NdFloat> Learned<F> for Projection<F> {
    fn tables(&self) -> Vec<(String, ArrayViewD<'_, F>)> {
        let mut tables = vec![("weight".into(), self.weight().view().into_dyn())];
        tables.extend(
            self.bias()
                .map(|bias| ("bias".into(), bias.view().into_dyn())),
        );
        tables
    }

    fn tables_mut(&mut self) -> Vec<(String, ArrayViewMutD<'_, F>)> {
        let (weight, bias) = self.numbers_mut();
        let mut tables = vec![("weight".into(), weight.into_dyn())];
        tables.extend(bias.map(|bias| ("bias".into(), bias.into_dyn())));
        tables
    }
}

impl<F: NdFloat> Learned<F> for MultiHeadAttention<F> {
    fn tables(&self) -> Vec<(String, ArrayViewD<'_, F>)> {
        ["query", "key", "value", "output"]
            .into_iter()
            .zip(self.projections())
            .flat_map(|(name, projection)| within(name, projection.tables()))
            .collect()
    }

    fn tables_mut(&mut self) -> Vec<(String, ArrayViewMutD<'_, F>)> {
        ["query", "key", "value", "output"]
            .into_iter()
            .zip(self.projections_mut())
            .flat_map(|(name, projection)| within(name, projection.tables_mut()))
            .collect()
    }
}

impl<F: NdFloat> Learned<F> for Embedding<F> {
    fn tables(&self) -> Vec<(String, ArrayViewD<'_, F>)> {
        vec![("table".into(), self.table().view().into_dyn())]
    }

    fn tables_mut(&mut self) -> Vec<(String, ArrayViewMutD<'_, F>)> {
        vec![("table".into(), self.table_mut().into_dyn())]
    }
}

impl<F: NdFloat> Learned<F> for LayerNorm<F> {
    fn tables(&self) -> Vec<(String, ArrayViewD<'_, F>)> {
        vec![
            ("gain".into(), self.gain().view().into_dyn()),
            ("shift".into(), self.shift().view().into_dyn()),
        ]
    }

    fn tables_mut(&mut self) -> Vec<(String, ArrayViewMutD<'_, F>)> {
        let [gain, shift] = self.numbers_mut();
        vec![
            ("gain".into(), gain.into_dyn()),
            ("shift".into(), shift.into_dyn()),
        ]
    }
}

impl<F, L: Learned<F>> Learned<F> for Vec<L> {
    fn tables(&self) -> Vec<(String, ArrayViewD<'_, F>)> {
        self.iter()
            .enumerate()
            .flat_map(|(number, part)| within(number, part.tables()))
            .collect()
    }

    fn tables_mut(&mut self) -> Vec<(String, ArrayViewMutD<'_, F>)> {
        self.iter_mut()
            .enumerate()
            .flat_map(|(number, part)| within(number, part.tables_mut()))
            .collect()
    }
}

impl<F, L: Learned<F>> Learned<F> for Option<L> {
    fn tables(&self) -> Vec<(String, ArrayViewD<'_, F>)> {
        self.as_ref().map(L::tables).unwrap_or_default()
    }

    fn tables_mut(&mut self) -> Vec<(String, ArrayViewMutD<'_, F>)> {
        self.as_mut().map(L::tables_mut).unwrap_or_default()
    }
}
// ANCHOR_END: learned_parts

// ANCHOR: learned_wholes
/// What is made of parts has the tables of its parts, in the order in which they are named.
macro_rules! learned {
    ($whole:ident: $($part:ident),+) => {
        impl<F: NdFloat> Learned<F> for $whole<F> {
            fn tables(&self) -> Vec<(String, ArrayViewD<'_, F>)> {
                let mut tables = vec![];
                $(tables.extend(within(stringify!($part), self.$part.tables()));)+
                tables
            }

            fn tables_mut(&mut self) -> Vec<(String, ArrayViewMutD<'_, F>)> {
                let mut tables = vec![];
                $(tables.extend(within(
                    stringify!($part),
                    self.$part.tables_mut(),
                ));)+
                tables
            }
        }
    };
}

learned!(FeedForward: inner, outer);
learned!(Residual: norm);
learned!(EncoderLayer: attention, attention_residual, feed_forward, feed_forward_residual);
learned!(
    DecoderLayer: attention,
    attention_residual,
    cross_attention,
    cross_attention_residual,
    feed_forward,
    feed_forward_residual
);
learned!(Encoder: layers, final_norm);
learned!(Decoder: layers, final_norm);
learned!(Transformer: source_embedding, target_embedding, encoder, decoder, output);
learned!(Classifier: embedding, encoder, classes);
// ANCHOR_END: learned_wholes
