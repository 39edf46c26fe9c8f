//! Multi-head attention: how to look in several ways at once?
//!
//! A head is attention with queries, keys and values of its own, made from the model's vectors by
//! learned matrices. Several heads look side by side; their answers are joined and mixed.
//!
//! Sequences are `(batch, n, width)`; split among heads they are `(batch, heads, n, width of a head)`.
//!
//! A result too large for memory panics, as every allocation does; nothing else that a caller can
//! pass to this crate panics.

// ANCHOR: imports
use anyhow::{Result, ensure};
use ch04_masks::{Mask, batched_scaled_scores, masked_softmax, masked_sum};
use ndarray::linalg::general_mat_mul;
use ndarray::{
    Array1, Array2, Array3, Array4, ArrayRef3, ArrayRef4, ArrayViewMut1,
    ArrayViewMut2, Axis, NdFloat, array,
};
use rand::{Rng, RngExt};
// ANCHOR_END: imports

/// A learned matrix, and perhaps a bias, that every vector of a sequence is multiplied by:
/// `y = x W + b`.
// ANCHOR: projection
#[derive(Clone, Debug, PartialEq)]
pub struct Projection<F> {
    weight: Array2<F>,
    bias: Option<Array1<F>>,
}

impl<F: NdFloat> Projection<F> {
    /// From a weight, `width in × width out`, and a bias as wide as what comes out.
    ///
    /// # Errors
    /// If the bias does not fit the weight.
    pub fn new(weight: Array2<F>, bias: Option<Array1<F>>) -> Result<Self> {
        if let Some(bias) = &bias {
            ensure!(
                bias.len() == weight.ncols(),
                "the bias is {} wide but the weight gives {}",
                bias.len(),
                weight.ncols()
            );
        }
        Ok(Self { weight, bias })
    }

    /// Every vector of every sequence projected: `(batch, n, in)` → `(batch, n, out)`.
    ///
    /// # Errors
    /// If the vectors are not as wide as the weight takes.
    pub fn apply(&self, x: &ArrayRef3<F>) -> Result<Array3<F>> {
        let (batch, n, width) = x.dim();
        ensure!(
            width == self.weight.nrows(),
            "vectors are {width} wide but the projection takes {}",
            self.weight.nrows()
        );
        // Every vector of every sequence is a row of x.
        let rows = x.to_shape((batch * n, width))?;
        let mut y = Array2::zeros((batch * n, self.weight.ncols()));
        // y = x W + b:  (batch · n × in) · (in × out)  →  batch · n × out
        general_mat_mul(F::one(), &rows, &self.weight, F::zero(), &mut y);
        if let Some(bias) = &self.bias {
            y += bias;
        }
        Ok(y.into_shape_with_order((batch, n, self.weight.ncols()))?)
    }

    /// The weight, `width in × width out`.
    pub fn weight(&self) -> &Array2<F> {
        &self.weight
    }

    /// The bias, if there is one.
    pub fn bias(&self) -> Option<&Array1<F>> {
        self.bias.as_ref()
    }

    /// The numbers of weight and bias, to be changed; their shapes stay.
    pub fn numbers_mut(
        &mut self,
    ) -> (ArrayViewMut2<'_, F>, Option<ArrayViewMut1<'_, F>>) {
        let bias = self.bias.as_mut().map(|bias| bias.view_mut());
        (self.weight.view_mut(), bias)
    }

    /// How many numbers are learned.
    pub fn parameters(&self) -> usize {
        self.weight.len() + self.bias.as_ref().map_or(0, Array1::len)
    }
}
// ANCHOR_END: projection

// ANCHOR: from_weight
impl<F> From<Array2<F>> for Projection<F> {
    /// A projection without a bias.
    fn from(weight: Array2<F>) -> Self {
        Self { weight, bias: None }
    }
}
// ANCHOR_END: from_weight

// ANCHOR: random_projection
impl<F: NdFloat> Projection<F> {
    /// A projection to begin training with: weights drawn evenly between ±√(6 / (in + out)), and
    /// a bias of zeros.
    ///
    /// Source: Glorot, Bengio, *Understanding the Difficulty of Training Deep Feedforward Neural
    /// Networks* (2010), equation 16.
    pub fn random(
        width_in: usize,
        width_out: usize,
        rng: &mut (impl Rng + ?Sized),
    ) -> Self {
        let bound = (6.0 / (width_in + width_out).max(1) as f64).sqrt();
        let weight = Array2::from_shape_simple_fn((width_in, width_out), || {
            cast(rng.random_range(-bound..=bound))
        });
        Self {
            weight,
            bias: Some(Array1::zeros(width_out)),
        }
    }
}

/// A number in the float type of the arrays, rounded to it.
pub fn cast<F: NdFloat>(x: f64) -> F {
    F::from(x).expect("every float type holds every f64, rounded")
}
// ANCHOR_END: random_projection

/// Cuts the width into heads: `(batch, n, heads · d)` → `(batch, heads, n, d)`. Head `h` gets the
/// columns from `h · d` up to `(h + 1) · d`.
///
/// # Errors
/// If there are no heads, or the width is not divisible by their number.
// ANCHOR: split_heads
pub fn split_heads<F: NdFloat>(
    x: &ArrayRef3<F>,
    heads: usize,
) -> Result<Array4<F>> {
    let (batch, n, width) = x.dim();
    ensure!(
        heads > 0,
        "a width of {width} cannot be split among 0 heads"
    );
    ensure!(
        width % heads == 0,
        "a width of {width} cannot be split into {heads} equal heads"
    );
    // (batch, n, h · d) → (batch, n, h, d) → (batch, h, n, d)
    let rows = x.to_shape((batch, n, heads, width / heads))?;
    Ok(rows
        .permuted_axes([0, 2, 1, 3])
        .as_standard_layout()
        .into_owned())
}
// ANCHOR_END: split_heads

/// Joins the heads again: `(batch, heads, n, d)` → `(batch, n, heads · d)`, the reverse of
/// [`split_heads`].
// ANCHOR: merge_heads
pub fn merge_heads<F: NdFloat>(x: &ArrayRef4<F>) -> Array3<F> {
    let (batch, heads, n, d) = x.dim();
    let mut merged = Array3::zeros((batch, n, heads * d));
    for (h, head) in x.axis_iter(Axis(1)).enumerate() {
        for c in 0..d {
            // Column c of head h is column h · d + c of the whole.
            merged
                .index_axis_mut(Axis(2), h * d + c)
                .assign(&head.index_axis(Axis(2), c));
        }
    }
    merged
}
// ANCHOR_END: merge_heads

/// Drops each weight with probability `p`, and divides the ones that stay by `1 − p`, so that the
/// mean of each stays what it was. For training only.
///
/// # Errors
/// If `p` is not at least 0 and below 1.
///
/// Source: Srivastava et al., *Dropout* (2014), section 10; on the weights of attention as in
/// the reference implementation of Vaswani et al. (2017).
// ANCHOR: dropout
pub fn dropout<F: NdFloat>(
    weights: &ArrayRef4<F>,
    p: f64,
    rng: &mut (impl Rng + ?Sized),
) -> Result<Array4<F>> {
    check_probability(p)?;
    // Copied row by row, so that a seed drops the same weights however they lie in memory.
    let mut kept = Array4::zeros(weights.dim());
    kept.assign(weights);
    if p == 0.0 {
        return Ok(kept);
    }
    let keep = cast::<F>(1.0 - p);
    kept.mapv_inplace(|a| {
        if rng.random_bool(p) {
            F::zero()
        } else {
            a / keep
        }
    });
    Ok(kept)
}

/// Checks that a probability of dropout is at least 0 and below 1.
///
/// # Errors
/// If it is not.
pub fn check_probability(p: f64) -> Result<()> {
    ensure!(
        (0.0..1.0).contains(&p),
        "the probability of dropout must be at least 0 and below 1, not {p}"
    );
    Ok(())
}
// ANCHOR_END: dropout

/// What multi-head attention returns.
// ANCHOR: answer
#[derive(Clone, Debug, PartialEq)]
pub struct MultiHeadAnswer<F> {
    /// The answers, `(batch, m, d_model)`.
    pub output: Array3<F>,
    /// The weights of each head, `(batch, heads, m, n)`, before dropout.
    pub weights: Array4<F>,
}

impl<F: NdFloat> MultiHeadAnswer<F> {
    /// The weights averaged over the heads, `(batch, m, n)`: a summary that no head ever used.
    pub fn average_weights(&self) -> Array3<F> {
        let heads = self.weights.len_of(Axis(1)).max(1);
        self.weights.sum_axis(Axis(1)) / cast::<F>(heads as f64)
    }
}
// ANCHOR_END: answer

/// Multi-head attention: `concat(head_1, …, head_h) W^O` with
/// `head_i = attention(Q W_i^Q, K W_i^K, V W_i^V)`.
///
/// The matrices of all heads stand side by side in one projection: `W^Q` is
/// `d_model × (heads · d_k)`, `W^K` is `width of the keys × (heads · d_k)`, `W^V` is
/// `width of the values × (heads · d_v)`, `W^O` is `(heads · d_v) × d_model`.
///
/// Source: Vaswani et al., *Attention Is All You Need* (2017), section 3.2.2.
// ANCHOR: multi_head
#[derive(Clone, Debug, PartialEq)]
pub struct MultiHeadAttention<F> {
    heads: usize,
    query: Projection<F>,
    key: Projection<F>,
    value: Projection<F>,
    output: Projection<F>,
    dropout: f64,
}

impl<F: NdFloat> MultiHeadAttention<F> {
    /// From the projections of queries, keys, values and output, without dropout.
    ///
    /// # Errors
    /// If the projected queries and keys differ in width or are 0 wide, the output does not take
    /// what the values give, or a width is not divisible by the number of heads.
    pub fn new(
        heads: usize,
        query: Projection<F>,
        key: Projection<F>,
        value: Projection<F>,
        output: Projection<F>,
    ) -> Result<Self> {
        let (q, k) = (query.weight.ncols(), key.weight.ncols());
        let (v, o) = (value.weight.ncols(), output.weight.nrows());
        ensure!(heads > 0, "attention needs at least one head, not 0");
        ensure!(q == k, "queries are projected to {q} but keys to {k}");
        ensure!(
            k > 0,
            "queries and keys are projected to 0, so 1/√d_k has no value"
        );
        ensure!(
            v == o,
            "values are projected to {v} but the output takes {o}"
        );
        for (name, width) in [("keys", k), ("values", v)] {
            ensure!(
                width % heads == 0,
                "{name} are projected to {width}, which {heads} heads do not divide"
            );
        }
        Ok(Self {
            heads,
            query,
            key,
            value,
            output,
            dropout: 0.0,
        })
    }

    /// With dropout of probability `p` on the weights, in training.
    ///
    /// # Errors
    /// If `p` is not at least 0 and below 1.
    pub fn with_dropout(mut self, p: f64) -> Result<Self> {
        check_probability(p)?;
        self.dropout = p;
        Ok(self)
    }
}
// ANCHOR_END: multi_head

/// Keys and values that have been projected and cut into heads, ready to be asked.
// ANCHOR: memory
#[derive(Clone, Debug, PartialEq)]
pub struct Memory<F> {
    /// The keys of each head, `(batch, heads, n, d_k)`.
    pub keys: Array4<F>,
    /// The values of each head, `(batch, heads, n, d_v)`.
    pub values: Array4<F>,
}

impl<F: NdFloat> MultiHeadAttention<F> {
    /// Projects keys and values, `(batch, n, their widths)`, and cuts them into heads.
    ///
    /// # Errors
    /// If the widths do not fit the projections, or keys and values differ in number.
    pub fn remember(
        &self,
        keys: &ArrayRef3<F>,
        values: &ArrayRef3<F>,
    ) -> Result<Memory<F>> {
        let ((batch, n, _), (value_batch, value_n, _)) = (keys.dim(), values.dim());
        ensure!(
            (batch, n) == (value_batch, value_n),
            "there are {batch} × {n} keys but {value_batch} × {value_n} values"
        );
        // K W^K and V W^V
        Ok(Memory {
            keys: split_heads(&self.key.apply(keys)?, self.heads)?,
            values: split_heads(&self.value.apply(values)?, self.heads)?,
        })
    }
}
// ANCHOR_END: memory

// ANCHOR: ask
impl<F: NdFloat> MultiHeadAttention<F> {
    /// Answers the queries from a memory. Dropout has no effect.
    ///
    /// `queries` are `(batch, m, d_model)`, and the mask stretches to `(batch, heads, m, n)`.
    ///
    /// # Errors
    /// If the queries do not fit the projection or the memory, or the mask does not fit.
    pub fn ask(
        &self,
        queries: &ArrayRef3<F>,
        memory: &Memory<F>,
        mask: &Mask,
    ) -> Result<MultiHeadAnswer<F>> {
        let steps = self.ask_in_steps(queries, memory, mask)?;
        Ok(MultiHeadAnswer {
            output: steps.output,
            weights: steps.weights,
        })
    }
}
// ANCHOR_END: ask

/// Every step of multi-head attention, in the order in which they are taken.
// ANCHOR: steps
#[derive(Clone, Debug, PartialEq)]
pub struct MultiHeadSteps<F> {
    /// `Q W^Q`, cut into heads: `(batch, heads, m, d_k)`.
    pub queries: Array4<F>,
    /// `softmax(Q Kᵀ / √d_k)` in each head, behind the mask: `(batch, heads, m, n)`.
    pub weights: Array4<F>,
    /// The weights that dropout left, or all of them: `(batch, heads, m, n)`.
    pub kept: Array4<F>,
    /// `concat(head_1, …, head_h)`: `(batch, m, heads · d_v)`.
    pub merged: Array3<F>,
    /// The heads mixed by `W^O`: `(batch, m, d_model)`.
    pub output: Array3<F>,
}

impl<F: NdFloat> MultiHeadAttention<F> {
    /// [`ask`](Self::ask), with every step kept.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn ask_in_steps(
        &self,
        queries: &ArrayRef3<F>,
        memory: &Memory<F>,
        mask: &Mask,
    ) -> Result<MultiHeadSteps<F>> {
        self.steps(queries, memory, mask, |weights| Ok(weights.clone()))
    }

    /// Answers the queries from a memory, with dropout on the weights and every step kept.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn ask_in_training(
        &self,
        queries: &ArrayRef3<F>,
        memory: &Memory<F>,
        mask: &Mask,
        rng: &mut (impl Rng + ?Sized),
    ) -> Result<MultiHeadSteps<F>> {
        self.steps(queries, memory, mask, |weights| {
            dropout(weights, self.dropout, rng)
        })
    }

    fn steps(
        &self,
        queries: &ArrayRef3<F>,
        memory: &Memory<F>,
        mask: &Mask,
        drop: impl FnOnce(&Array4<F>) -> Result<Array4<F>>,
    ) -> Result<MultiHeadSteps<F>> {
        let queries = split_heads(&self.query.apply(queries)?, self.heads)?;
        // softmax(Q Kᵀ / √d_k) in each head, behind the mask
        let scores = batched_scaled_scores(&queries, &memory.keys)?;
        let weights = masked_softmax(&scores, mask)?;
        let kept = drop(&weights)?;
        // concat(head_1, …, head_h) W^O
        let seen = mask.seen_in(&scores)?;
        let answers = masked_sum(&kept, &memory.values, &seen)?;
        let merged = merge_heads(&answers);
        let output = self.output.apply(&merged)?;
        Ok(MultiHeadSteps {
            queries,
            weights,
            kept,
            merged,
            output,
        })
    }
}
// ANCHOR_END: steps

// ANCHOR: attend
impl<F: NdFloat> MultiHeadAttention<F> {
    /// Multi-head attention in one call: [`remember`](Self::remember), then
    /// [`ask`](Self::ask).
    ///
    /// # Errors
    /// As those two.
    pub fn attend(
        &self,
        queries: &ArrayRef3<F>,
        keys: &ArrayRef3<F>,
        values: &ArrayRef3<F>,
        mask: &Mask,
    ) -> Result<MultiHeadAnswer<F>> {
        self.ask(queries, &self.remember(keys, values)?, mask)
    }
}
// ANCHOR_END: attend

// ANCHOR: parts
impl<F: NdFloat> MultiHeadAttention<F> {
    /// With all four projections random, `d_model` wide, and biases of zeros.
    ///
    /// # Errors
    /// If `d_model` or `heads` is 0, or `heads` does not divide `d_model`.
    pub fn random(
        d_model: usize,
        heads: usize,
        rng: &mut (impl Rng + ?Sized),
    ) -> Result<Self> {
        let mut projection = || Projection::random(d_model, d_model, rng);
        Self::new(
            heads,
            projection(),
            projection(),
            projection(),
            projection(),
        )
    }

    /// The number of heads.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// The projections of queries, keys, values and output.
    pub fn projections(&self) -> [&Projection<F>; 4] {
        [&self.query, &self.key, &self.value, &self.output]
    }

    /// The projections of queries, keys, values and output, to be changed.
    pub fn projections_mut(&mut self) -> [&mut Projection<F>; 4] {
        let Self {
            query,
            key,
            value,
            output,
            ..
        } = self;
        [query, key, value, output]
    }

    /// How many numbers are learned.
    pub fn parameters(&self) -> usize {
        self.projections().iter().map(|p| p.parameters()).sum()
    }
}
// ANCHOR_END: parts

/// Three tokens, `1 × 3 × 4`: one that asks, a giver and a receiver. The columns say: is the asker,
/// is a giver, is a receiver, holds how much.
// ANCHOR: roles
pub fn giver_and_receiver(giver: f64, receiver: f64) -> Array3<f64> {
    array![[
        [1.0, 0.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, giver],
        [0.0, 0.0, 1.0, receiver],
    ]]
}

/// Two heads, each 1 wide: the asker looks for the giver in one, for the receiver in the other.
pub fn two_heads() -> MultiHeadAttention<f64> {
    let query = array![[50.0, 50.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]];
    let key = array![[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]];
    let value = array![[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]];
    roles_attention(2, query, key, value)
}

/// One head, 2 wide, whose keys read the roles and whose values read the amounts, as those of the two
/// heads do. It has as many numbers, but a single row of weights.
pub fn one_head() -> MultiHeadAttention<f64> {
    let query = array![[50.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]];
    let key = array![[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]];
    let value = array![[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]];
    roles_attention(1, query, key, value)
}

/// The output projection leaves the two columns as they are.
fn roles_attention(
    heads: usize,
    query: Array2<f64>,
    key: Array2<f64>,
    value: Array2<f64>,
) -> MultiHeadAttention<f64> {
    let output = Array2::eye(2);
    MultiHeadAttention::new(
        heads,
        query.into(),
        key.into(),
        value.into(),
        output.into(),
    )
    .expect("the shapes fit each other")
}
// ANCHOR_END: roles
