//! The worked examples of chapter 8, printed: `cargo run -p ch08-transformer`.

use anyhow::Result;
use ch04_masks::Mask;
use ch05_multihead::Projection;
use ch06_self_attention::sinusoidal_positions;
use ch08_transformer::*;
use ndarray::{Array1, Array2, Array3, ArrayView1, array, s};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

fn main() -> Result<()> {
    embedding()?;
    alike()?;
    layer_norm()?;
    activations();
    one_layer()?;
    order()?;
    decoder()?;
    whole()?;
    parameters()?;
    future()?;
    classifier()?;
    variance()?;
    unfinished()?;
    mixed_up()?;
    dropped()?;
    Ok(())
}

// ANCHOR: rng
fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}
// ANCHOR_END: rng

// ANCHOR: embedding
fn embedding() -> Result<()> {
    println!("# embedding: A row of the table, and a position");
    let length = |x: ArrayView1<f64>| x.dot(&x).sqrt();
    println!("d_model   row   √d_model · row   position");
    for d_model in [8, 64, 512] {
        let embedding = Embedding::<f64>::random(20, d_model, &mut rng(8))?;
        let scaled = embedding.apply(&array![[7]])?;
        let positions = sinusoidal_positions::<f64>(4, d_model);
        println!(
            "{d_model:>7}  {:>4.2}  {:>15.1}  {:>9.1}",
            length(embedding.row(7)?),
            length(scaled.slice(s![0, 0, ..])),
            length(positions.row(3))
        );
    }
    println!();
    Ok(())
}
// ANCHOR_END: embedding

// ANCHOR: alike
fn alike() -> Result<()> {
    println!("# alike: Eight vectors in twelve layers of attention");
    let without = collapse([8, 32, 4, 12], false, &mut rng(12))?;
    let with = collapse([8, 32, 4, 12], true, &mut rng(12))?;
    println!("layer   without shortcut   with shortcut");
    for layer in [0, 1, 2, 3, 6, 12] {
        println!(
            "{layer:>5}   {:>16.3}   {:>13.3}",
            without[layer], with[layer]
        );
    }
    println!();
    Ok(())
}
// ANCHOR_END: alike

// ANCHOR: layer_norm
fn layer_norm() -> Result<()> {
    println!("# layer-norm: Three vectors, normalized");
    let x = array![[
        [1.0, 2.0, 3.0, 4.0],
        [100.0, 200.0, 300.0, 400.0],
        [5.0, 5.0, 5.0, 5.0],
    ]];
    let y = LayerNorm::fresh(4)?.apply(&x)?;
    for (x, y) in x.rows().into_iter().zip(y.rows()) {
        println!("{x:>5} → {y:.3}");
    }
    let norm = LayerNorm::new(
        array![1.0, 1.0, 1.0, 2.0],
        array![0.0, 0.0, 0.0, 10.0],
        1e-5,
    )?;
    let y = norm.apply(&x)?;
    println!("with a gain of 2 and a shift of 10 in the last column:");
    println!(
        "{:>5} → {:.3}",
        x.slice(s![0, 0, ..]),
        y.slice(s![0, 0, ..])
    );
    println!();
    Ok(())
}
// ANCHOR_END: layer_norm

// ANCHOR: activations
fn activations() {
    println!("# activations: Two ways to bend a number");
    println!("    x     ReLU     GELU");
    for x in [-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0] {
        println!(
            "{x:>5.1} {:>8.4} {:>8.4}",
            Activation::Relu.apply(x),
            Activation::Gelu.apply(x)
        );
    }
    println!();
}
// ANCHOR_END: activations

// ANCHOR: one_layer
fn one_layer() -> Result<()> {
    println!("# one-layer: A sentence on its way through an encoder layer");
    let layer = Settings::small()
        .encoder::<f64>(&mut rng(1))?
        .layers
        .remove(0);
    let x = random_vectors(3, 8, &mut rng(2));
    let mask = Mask::padding(&[3], 3)?;
    let steps = layer.apply_in_steps(&x, &mask, &mut Mode::Evaluation)?;
    let (attention, network) = (&steps.attention, &steps.feed_forward);
    let none = 0;
    println!("step               shape             learned   first four numbers");
    show("x", &x, none);
    show(
        "LayerNorm",
        &attention.inside,
        layer.attention_residual.parameters(),
    );
    let asked = &attention.part.asked;
    println!(
        "{:<18} {:<14} {:>10}",
        "weights",
        format!("{:?}", asked.weights.dim()),
        none
    );
    show("attention", &asked.output, layer.attention.parameters());
    show("+ x", &attention.output, none);
    let norm = layer.feed_forward_residual.parameters();
    show("LayerNorm", &network.inside, norm);
    let inner = layer.feed_forward.inner.parameters();
    show("inner projection", &network.part.inner, inner);
    show("ReLU", &network.part.active, none);
    let outer = layer.feed_forward.outer.parameters();
    show("outer projection", &network.part.output, outer);
    show("+ what came in", &network.output, none);
    println!("{:<33} {:>10}", "together", layer.parameters());
    println!();
    Ok(())
}

/// A step's name and shape, the parameters that it took, and where the first token stands.
fn show(name: &str, x: &Array3<f64>, parameters: usize) {
    let shape = format!("{:?}", x.dim());
    let first = x.slice(s![0, 0, ..4]);
    println!("{name:<18} {shape:<14} {parameters:>10}   {first:>5.2}");
}
// ANCHOR_END: one_layer

// ANCHOR: order
fn order() -> Result<()> {
    println!("# order: How large the numbers become in 24 layers");
    let encoder = |order| {
        let settings = Settings {
            d_model: 32,
            heads: 4,
            d_ff: 128,
            encoder_layers: 24,
            order,
            ..Settings::small()
        };
        growth(&settings, 8, &mut rng(24))
    };
    let (pre, post) = (encoder(NormOrder::Pre)?, encoder(NormOrder::Post)?);
    println!("layer    pre-norm   post-norm");
    for layer in [0, 1, 6, 12, 18, 24] {
        println!("{layer:>5} {:>11.2} {:>11.2}", pre[layer], post[layer]);
    }
    println!();
    Ok(())
}
// ANCHOR_END: order

// ANCHOR: decoder
fn decoder() -> Result<()> {
    println!("# decoder: One layer of a decoder, reading a memory");
    let layer = Settings::small()
        .decoder::<f64>(&mut rng(3))?
        .layers
        .remove(0);
    let (x, memory) = (
        random_vectors(4, 8, &mut rng(4)),
        random_vectors(3, 8, &mut rng(5)),
    );
    let steps = layer.apply_in_steps(
        &x,
        &memory,
        &Mask::causal(4, 4),
        &Mask::padding(&[2], 3)?,
        &mut Mode::Evaluation,
    )?;
    let first_head = |steps: &AttentionSteps<f64>| {
        steps.asked.weights.slice(s![0, 0, .., ..]).to_owned()
    };
    println!("self-attention, head 0:");
    print_rows(&first_head(&steps.attention.part));
    println!("cross-attention, head 0:");
    print_rows(&first_head(&steps.cross_attention.part));
    println!("out: {:?}", steps.feed_forward.output.dim());
    println!();
    Ok(())
}

fn print_rows(table: &Array2<f64>) {
    for row in table.rows() {
        println!("{row:.2}");
    }
}
// ANCHOR_END: decoder

// ANCHOR: whole
/// Two sentences and their translations, as tokens.
fn sentences() -> (Array2<u32>, Array2<u32>) {
    let source = array![[5, 9, 3, 7, 4], [8, 3, 6, PAD, PAD]];
    let target = array![[1, 6, 11, 9], [1, 7, 3, PAD]];
    (source, target)
}

fn whole() -> Result<()> {
    println!("# whole: From tokens to scores of tokens");
    let model = Transformer::<f64>::random(&Settings::small(), &mut rng(6))?;
    let (source, target) = sentences();
    let steps = model.apply_in_steps(&source, &target, &mut Mode::Evaluation)?;
    let encoder = &steps.encoder.layers[1].attention.part.asked.weights;
    let decoder = &steps.decoder.layers[1];
    for (name, shape) in [
        ("source tokens", source.shape()),
        ("source vectors", steps.embedded_source.output.shape()),
        ("encoder, weights", encoder.shape()),
        ("memory", steps.encoder.output.shape()),
        ("target tokens", target.shape()),
        ("target vectors", steps.embedded_target.output.shape()),
        (
            "self-attention",
            decoder.attention.part.asked.weights.shape(),
        ),
        (
            "cross-attention",
            decoder.cross_attention.part.asked.weights.shape(),
        ),
        ("decoder's output", steps.decoder.output.shape()),
        ("scores", steps.logits.shape()),
    ] {
        println!("{name:<18} {shape:?}");
    }
    println!();
    Ok(())
}
// ANCHOR_END: whole

// ANCHOR: parameters
fn parameters() -> Result<()> {
    println!("# parameters: Where the learned numbers are");
    let model = Transformer::<f64>::random(&Settings::small(), &mut rng(6))?;
    let layer = &model.decoder.layers[0];
    for (name, count) in [
        ("source embedding", model.source_embedding.parameters()),
        ("target embedding", model.target_embedding.parameters()),
        ("an encoder layer", model.encoder.layers[0].parameters()),
        ("a decoder layer", layer.parameters()),
        ("  self-attention", layer.attention.parameters()),
        ("  cross-attention", layer.cross_attention.parameters()),
        ("  feed-forward", layer.feed_forward.parameters()),
        (
            "  its LayerNorms",
            3 * layer.attention_residual.parameters(),
        ),
        ("the final norms", 2 * model.encoder.final_norm.parameters()),
        ("the output", Learned::<f64>::parameters(&model.output)),
        ("the whole model", model.parameters()),
    ] {
        println!("{name:<17} = {count:>4}");
    }
    let tables = model.tables();
    println!(
        "{} tables, the last encoder layer's norm among them:",
        tables.len()
    );
    for (name, table) in tables {
        if name.starts_with("encoder.layers.1.feed_forward_residual") {
            println!("  {name} {:?}", table.shape());
        }
    }
    println!();
    Ok(())
}
// ANCHOR_END: parameters

// ANCHOR: future
fn future() -> Result<()> {
    println!("# future: A later token does not change an earlier score");
    let model = Transformer::<f64>::random(&Settings::small(), &mut rng(6))?;
    let (source, target) = sentences();
    let mut other = target.clone();
    other[[0, 2]] = 4;
    let memory = model.encode(&source)?;
    let scores = |target: &Array2<u32>| model.decode(target, &memory, &source);
    let (before, after) = (scores(&target)?, scores(&other)?);
    for i in 0..4 {
        let same = before.slice(s![0, i, ..]) == after.slice(s![0, i, ..]);
        println!(
            "token 2 changed; the scores after token {i} are the same: {same}"
        );
    }
    println!();
    Ok(())
}
// ANCHOR_END: future

// ANCHOR: classifier
fn classifier() -> Result<()> {
    println!("# classifier: An encoder that names the class of a text");
    let rng = &mut rng(9);
    let classifier = Classifier::<f64> {
        embedding: Embedding::random(20, 8, rng)?,
        encoder: Settings::small().encoder(rng)?,
        classes: Projection::random(8, 3, rng),
    };
    // Token 1 stands for [CLS].
    let texts = array![[1, 5, 9, 3, 7], [1, 8, 3, PAD, PAD]];
    let scores = classifier.apply(&texts)?;
    println!(
        "texts {:?} → scores of classes {:?}",
        texts.dim(),
        scores.dim()
    );
    println!("{} parameters", classifier.parameters());
    println!();
    Ok(())
}
// ANCHOR_END: classifier

// ANCHOR: variance
fn variance() -> Result<()> {
    println!("# variance: Divided by n, or by n − 1");
    let x = array![[[1.0, 2.0, 3.0, 4.0]]];
    let right = LayerNorm::fresh(4)?.apply(&x)?;
    let x: Array1<f64> = x.slice(s![0, 0, ..]).to_owned();
    let mean = x.sum() / 4.0;
    let moved = x.mapv(|x| x - mean);
    let wrong = &moved / (moved.dot(&moved) / 3.0 + 1e-5).sqrt();
    println!("by n      {:.3}", right.slice(s![0, 0, ..]));
    println!("by n − 1  {wrong:.3}");

    let small = moved.mapv(|x| x * 1e-3);
    let variance = small.dot(&small) / 4.0;
    println!(
        "a small vector, ε inside the root   {:.3}",
        &small / (variance + 1e-5).sqrt()
    );
    println!(
        "a small vector, ε outside the root  {:.3}",
        &small / (variance.sqrt() + 1e-5)
    );
    println!();
    Ok(())
}
// ANCHOR_END: variance

// ANCHOR: unfinished
fn unfinished() -> Result<()> {
    println!("# unfinished: Pre-norm without the last LayerNorm");
    let settings = Settings {
        encoder_layers: 24,
        ..Settings::small()
    };
    let mut encoder = settings.encoder::<f64>(&mut rng(7))?;
    let x = random_vectors(6, 8, &mut rng(8));
    let (mask, mode) = (Mask::everything(), &mut Mode::Evaluation);
    let with = encoder.apply_in_steps(&x, &mask, mode)?.output;
    encoder.final_norm = None;
    let without = encoder.apply_in_steps(&x, &mask, mode)?.output;
    let largest = |x: &Array3<f64>| x.fold(0.0, |most: f64, x| most.max(x.abs()));
    println!("largest number with it    {:>6.2}", largest(&with));
    println!("largest number without it {:>6.2}", largest(&without));
    println!();
    Ok(())
}
// ANCHOR_END: unfinished

// ANCHOR: mixed_up
fn mixed_up() -> Result<()> {
    println!("# mixed-up: The same numbers in the other order");
    let mut layer = Settings::small()
        .encoder::<f64>(&mut rng(1))?
        .layers
        .remove(0);
    let x = random_vectors(3, 8, &mut rng(2));
    let (mask, tables) = (Mask::everything(), layer.tables().len());
    let pre = layer.apply(&x, &mask)?;
    layer.attention_residual.order = NormOrder::Post;
    layer.feed_forward_residual.order = NormOrder::Post;
    let post = layer.apply(&x, &mask)?;
    println!(
        "tables before and after: {tables} and {}",
        layer.tables().len()
    );
    println!("pre-norm   {:>5.2}", pre.slice(s![0, 0, ..4]));
    println!("post-norm  {:>5.2}", post.slice(s![0, 0, ..4]));
    println!();
    Ok(())
}
// ANCHOR_END: mixed_up

// ANCHOR: dropped
fn dropped() -> Result<()> {
    println!("# dropped: The same sentence twice");
    let model = Transformer::<f64>::random(&Settings::small(), &mut rng(6))?;
    let (source, target) = sentences();
    let mut rng = rng(10);
    let mut first_score = |training: bool| {
        let mut mode = if training {
            Mode::Training(&mut rng)
        } else {
            Mode::Evaluation
        };
        let steps = model.apply_in_steps(&source, &target, &mut mode)?;
        anyhow::Ok(steps.logits[[0, 0, 0]])
    };
    for (name, training) in [("training", true), ("evaluation", false)] {
        let (once, again) = (first_score(training)?, first_score(training)?);
        println!("{name:<11} {once:.3} {again:.3}");
    }
    Ok(())
}
// ANCHOR_END: dropped
