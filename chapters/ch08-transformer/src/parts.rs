//! The parts that are not attention: embedding, LayerNorm, feed-forward network, residual.

// ANCHOR: parts_imports
use crate::Mode;
use anyhow::{Result, ensure};
use ch05_multihead::{Projection, cast, check_probability};
use ch06_self_attention::sinusoidal_positions;
use ndarray::{
    Array1, Array2, Array3, ArrayRef2, ArrayRef3, ArrayView1, ArrayViewMut1,
    ArrayViewMut2, Axis, NdFloat,
};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
// ANCHOR_END: parts_imports

/// A vector for each token of a vocabulary, learned: the rows of a table, `vocabulary × d_model`.
// ANCHOR: embedding
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding<F> {
    table: Array2<F>,
}

impl<F: NdFloat> Embedding<F> {
    /// From its table.
    ///
    /// # Errors
    /// If the vectors are 0 wide.
    pub fn new(table: Array2<F>) -> Result<Self> {
        ensure!(table.ncols() > 0, "the vectors of an embedding are 0 wide");
        Ok(Self { table })
    }

    /// The vectors of some tokens, times `√d_model`: `batch × n` → `(batch, n, d_model)`.
    ///
    /// # Errors
    /// If a token is not in the vocabulary.
    ///
    /// Source: Vaswani et al., *Attention Is All You Need* (2017), section 3.4.
    pub fn apply(&self, tokens: &ArrayRef2<u32>) -> Result<Array3<F>> {
        let (batch, n) = tokens.dim();
        let mut x = Array3::zeros((batch, n, self.table.ncols()));
        for ((b, i), &token) in tokens.indexed_iter() {
            let row = self.row(token)?;
            x.index_axis_mut(Axis(0), b).row_mut(i).assign(&row);
        }
        Ok(x * self.scale())
    }

    /// The table, `vocabulary × d_model`.
    pub fn table(&self) -> &Array2<F> {
        &self.table
    }

    /// The row of a token in the table, `d_model` long.
    ///
    /// # Errors
    /// If the token is not in the vocabulary.
    pub fn row(&self, token: u32) -> Result<ArrayView1<'_, F>> {
        let vocabulary = self.table.nrows();
        let index = token as usize;
        ensure!(
            index < vocabulary,
            "token {token} is not in a vocabulary of {vocabulary}"
        );
        Ok(self.table.row(index))
    }

    /// The table, to be changed; its shape stays.
    pub fn table_mut(&mut self) -> ArrayViewMut2<'_, F> {
        self.table.view_mut()
    }

    /// `√d_model`, which the rows are multiplied by.
    pub fn scale(&self) -> F {
        cast::<F>(self.table.ncols() as f64).sqrt()
    }

    /// A table to begin training with, of mean 0 and variance `1 / d_model`.
    ///
    /// # Errors
    /// If the vectors are 0 wide.
    pub fn random(
        vocabulary: usize,
        d_model: usize,
        rng: &mut (impl Rng + ?Sized),
    ) -> Result<Self> {
        let deviation = (d_model as f64).sqrt().recip();
        Self::new(Array2::from_shape_simple_fn((vocabulary, d_model), || {
            let normal: f64 = StandardNormal.sample(rng);
            cast(normal * deviation)
        }))
    }
}
// ANCHOR_END: embedding

/// Tokens brought in: embedding, positions, dropout.
// ANCHOR: embed
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingSteps<F> {
    /// What dropout multiplies each entry by, if anything is dropped.
    pub factors: Option<Array3<F>>,
    /// What goes into the first layer, `(batch, n, d_model)`.
    pub output: Array3<F>,
}

pub(crate) fn embed<F: NdFloat>(
    embedding: &Embedding<F>,
    tokens: &ArrayRef2<u32>,
    p: f64,
    mode: &mut Mode,
) -> Result<EmbeddingSteps<F>> {
    let x = embedding.apply(tokens)?;
    let (_, n, d_model) = x.dim();
    // √d_model · row of the token + vector of the position
    let x = x + sinusoidal_positions::<F>(n, d_model);
    let factors = mode.factors(x.dim(), p)?;
    let output = match &factors {
        Some(factors) => x * factors,
        None => x,
    };
    Ok(EmbeddingSteps { factors, output })
}
// ANCHOR_END: embed

/// Layer normalization: each vector moved to mean 0 and stretched to variance 1, then each column
/// multiplied by a learned gain and moved by a learned shift.
///
/// Source: Ba, Kiros, Hinton, *Layer Normalization* (2016), equations 3 and 4.
// ANCHOR: layer_norm
#[derive(Clone, Debug, PartialEq)]
pub struct LayerNorm<F> {
    gain: Array1<F>,
    shift: Array1<F>,
    eps: F,
}

impl<F: NdFloat> LayerNorm<F> {
    /// From the gain and the shift, both `d_model` long, and the `ε` under the root.
    ///
    /// # Errors
    /// If the two are not equally long or are empty, or `ε` is not a finite number above 0.
    pub fn new(gain: Array1<F>, shift: Array1<F>, eps: F) -> Result<Self> {
        ensure!(
            gain.len() == shift.len(),
            "the gain is {} wide but the shift is {}",
            gain.len(),
            shift.len()
        );
        ensure!(!gain.is_empty(), "vectors of width 0 have no mean");
        ensure!(
            eps.is_finite() && eps > F::zero(),
            "ε must be a finite number above 0, not {eps}"
        );
        Ok(Self { gain, shift, eps })
    }

    /// To begin training with: a gain of 1, a shift of 0, and `ε` = 10⁻⁵.
    ///
    /// # Errors
    /// If the width is 0.
    pub fn fresh(width: usize) -> Result<Self> {
        Self::new(Array1::ones(width), Array1::zeros(width), cast(1e-5))
    }

    /// Every vector normalized: `(batch, n, d_model)` → the same shape.
    ///
    /// # Errors
    /// If the vectors are not as wide as gain and shift.
    pub fn apply(&self, x: &ArrayRef3<F>) -> Result<Array3<F>> {
        let (standardized, _) = self.standardized(x)?;
        Ok(standardized * &self.gain + &self.shift)
    }

    /// The vectors before gain and shift, `x̂ = (x − μ) / σ` with `σ = √(variance + ε)`, and
    /// the `σ` of each, `batch × n`. The variance divides by the width. It may be too large
    /// for `F`; `x − μ` may not.
    ///
    /// # Errors
    /// As [`LayerNorm::apply`].
    pub fn standardized(&self, x: &ArrayRef3<F>) -> Result<(Array3<F>, Array2<F>)> {
        let (batch, n, width) = x.dim();
        ensure!(
            width == self.gain.len(),
            "vectors are {width} wide but the LayerNorm takes {}",
            self.gain.len()
        );
        let d = cast::<F>(width as f64);
        let mut standardized = Array3::zeros(x.dim());
        standardized.assign(x);
        let mut sigmas = Array2::zeros((batch, n));
        for (mut x, sigma) in standardized.rows_mut().into_iter().zip(&mut sigmas) {
            // μ = Σ x / d,  σ² = Σ (x − μ)² / d + ε,  x̂ = (x − μ) / σ
            let mut mean = x.sum() / d;
            if mean.is_infinite() {
                // A sum may leave the range though its mean does not.
                mean = x.fold(F::zero(), |mean, &x| mean + x / d);
            }
            x.mapv_inplace(|x| x - mean);
            *sigma = (x.dot(&x) / d + self.eps).sqrt();
            if sigma.is_infinite() {
                // So may squares; as shares of the largest they do not, and ε is nothing beside them.
                let largest = x.fold(F::zero(), |largest, x| x.abs().max(largest));
                let shares = x.mapv(|x| x / largest);
                *sigma = largest * (shares.dot(&shares) / d).sqrt();
            }
            x /= *sigma;
        }
        Ok((standardized, sigmas))
    }

    /// The learned gain, `d_model` long.
    pub fn gain(&self) -> &Array1<F> {
        &self.gain
    }

    /// The learned shift, `d_model` long.
    pub fn shift(&self) -> &Array1<F> {
        &self.shift
    }

    /// Gain and shift, to be changed; their length stays.
    pub fn numbers_mut(&mut self) -> [ArrayViewMut1<'_, F>; 2] {
        [self.gain.view_mut(), self.shift.view_mut()]
    }
}
// ANCHOR_END: layer_norm

/// What bends the numbers between the two projections of a [`FeedForward`].
// ANCHOR: activation
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `max(0, x)`.
    Relu,
    /// `x · Φ(x)`, where `Φ` is the share of a standard normal distribution below `x`.
    ///
    /// Source: Hendrycks, Gimpel, *Gaussian Error Linear Units* (2016), section 2.
    Gelu,
}

impl Activation {
    /// The activation of one number.
    pub fn apply<F: NdFloat>(self, x: F) -> F {
        match self {
            // A NaN stays one, which `max` would hide.
            Self::Relu if x < F::zero() => F::zero(),
            Self::Relu => x,
            // Far below 0 there is no share, and −∞ · 0 would be a NaN.
            Self::Gelu => match normal_share_below(x) {
                share if share == F::zero() => share,
                share => x * share,
            },
        }
    }
}

/// `Φ(x) = (1 + erf(x / √2)) / 2`, and as precise as an `f64` wherever it is not tiny.
pub fn normal_share_below<F: NdFloat>(x: F) -> F {
    let x = x.to_f64().expect("every float type is held by an f64");
    // erfc(−z) = 1 + erf(z), without the loss of digits below 0
    cast(libm::erfc(-x / std::f64::consts::SQRT_2) / 2.0)
}
// ANCHOR_END: activation

/// A small network that works on each position by itself: `f(x W_1 + b_1) W_2 + b_2`.
///
/// Source: Vaswani et al. (2017), section 3.3.
// ANCHOR: feed_forward
#[derive(Clone, Debug, PartialEq)]
pub struct FeedForward<F> {
    /// `W_1` and `b_1`, `d_model × d_ff`.
    pub inner: Projection<F>,
    /// What stands between the two.
    pub activation: Activation,
    /// `W_2` and `b_2`, `d_ff × d_model`.
    pub outer: Projection<F>,
}

impl<F: NdFloat> FeedForward<F> {
    /// Each vector by itself: `(batch, n, d_model)` → the same shape.
    ///
    /// # Errors
    /// If the vectors are not as wide as the inner projection takes, or what it gives is not as
    /// wide as the outer one takes.
    pub fn apply(&self, x: &ArrayRef3<F>) -> Result<Array3<F>> {
        Ok(self.apply_in_steps(x)?.output)
    }

    /// [`apply`](Self::apply), with every step kept.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn apply_in_steps(&self, x: &ArrayRef3<F>) -> Result<FeedForwardSteps<F>> {
        let inner = self.inner.apply(x)?;
        let active = inner.mapv(|x| self.activation.apply(x));
        let output = self.outer.apply(&active)?;
        Ok(FeedForwardSteps {
            inner,
            active,
            output,
        })
    }
}

/// Every step of a [`FeedForward`].
#[derive(Clone, Debug, PartialEq)]
pub struct FeedForwardSteps<F> {
    /// `x W_1 + b_1`: `(batch, n, d_ff)`.
    pub inner: Array3<F>,
    /// After the activation: `(batch, n, d_ff)`.
    pub active: Array3<F>,
    /// `f(x W_1 + b_1) W_2 + b_2`: `(batch, n, d_model)`.
    pub output: Array3<F>,
}
// ANCHOR_END: feed_forward

/// Where the LayerNorm stands: inside the residual connection, or behind it.
// ANCHOR: norm_order
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormOrder {
    /// `x + f(LayerNorm(x))`.
    ///
    /// Source: Xiong et al., *On Layer Normalization in the Transformer Architecture* (2020).
    Pre,
    /// `LayerNorm(x + f(x))`.
    ///
    /// Source: Vaswani et al. (2017), section 3.1.
    Post,
}
// ANCHOR_END: norm_order

/// What goes around a part `f` that keeps the shape: the shortcut past it, LayerNorm, and dropout on
/// what it adds.
// ANCHOR: residual
#[derive(Clone, Debug, PartialEq)]
pub struct Residual<F> {
    /// The LayerNorm.
    pub norm: LayerNorm<F>,
    /// Where the LayerNorm stands.
    pub order: NormOrder,
    dropout: f64,
}

impl<F: NdFloat> Residual<F> {
    /// From the LayerNorm and its place, without dropout.
    pub fn new(norm: LayerNorm<F>, order: NormOrder) -> Self {
        let dropout = 0.0;
        Self {
            norm,
            order,
            dropout,
        }
    }

    /// With dropout of probability `p` on what the part adds, in training.
    ///
    /// # Errors
    /// If `p` is not at least 0 and below 1.
    pub fn with_dropout(mut self, p: f64) -> Result<Self> {
        check_probability(p)?;
        self.dropout = p;
        Ok(self)
    }

    /// Around a part that is given vectors, `(batch, n, d_model)`, and returns as many.
    ///
    /// # Errors
    /// If the part fails or returns another shape, or the vectors do not fit the LayerNorm.
    pub fn around<S: Steps<F>>(
        &self,
        x: &ArrayRef3<F>,
        mode: &mut Mode,
        part: impl FnOnce(&ArrayRef3<F>, &mut Mode) -> Result<S>,
    ) -> Result<ResidualSteps<F, S>> {
        let inside = match self.order {
            NormOrder::Pre => self.norm.apply(x)?,
            NormOrder::Post => x.to_owned(),
        };
        let part = part(&inside, mode)?;
        ensure!(
            part.output().dim() == x.dim(),
            "vectors of {:?} cannot be added to what became of them, {:?}",
            x.dim(),
            part.output().dim()
        );
        let factors = mode.factors(x.dim(), self.dropout)?;
        // x + Dropout(f(…))
        let sum = match &factors {
            Some(factors) => part.output() * factors + x,
            None => part.output().clone() + x,
        };
        let (before_norm, output) = match self.order {
            NormOrder::Pre => (x.to_owned(), sum),
            NormOrder::Post => {
                let output = self.norm.apply(&sum)?;
                (sum, output)
            }
        };
        Ok(ResidualSteps {
            inside,
            part,
            factors,
            before_norm,
            output,
        })
    }
}

/// Every step around a part. All shapes are `(batch, n, d_model)`.
#[derive(Clone, Debug, PartialEq)]
pub struct ResidualSteps<F, S> {
    /// What the part is given.
    pub inside: Array3<F>,
    /// The part's own steps.
    pub part: S,
    /// What dropout multiplies the part's answer by, if anything is dropped.
    pub factors: Option<Array3<F>>,
    /// What the LayerNorm is given.
    pub before_norm: Array3<F>,
    /// What comes out.
    pub output: Array3<F>,
}

/// Steps that end in vectors.
pub trait Steps<F> {
    /// The last step, `(batch, n, d_model)`.
    fn output(&self) -> &Array3<F>;
}

impl<F> Steps<F> for FeedForwardSteps<F> {
    fn output(&self) -> &Array3<F> {
        &self.output
    }
}

// ANCHOR_END: residual
