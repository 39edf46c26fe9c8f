//! What chapter 8 claims about the whole Transformer, and about what it learns.

use anyhow::Result;
use ch06_self_attention::sinusoidal_positions;
use ch08_transformer::*;
use ndarray::{Array2, Array3, Axis, array, s};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use std::collections::BTreeSet;

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

const ORDERS: [NormOrder; 2] = [NormOrder::Pre, NormOrder::Post];

fn settings(order: NormOrder) -> Settings {
    Settings {
        source_vocabulary: 7,
        target_vocabulary: 6,
        d_model: 8,
        heads: 2,
        d_ff: 12,
        encoder_layers: 2,
        decoder_layers: 3,
        activation: Activation::Relu,
        order,
        dropout: 0.2,
    }
}

fn model(order: NormOrder) -> Transformer<f64> {
    Transformer::random(&settings(order), &mut rng(1)).unwrap()
}

fn scores(
    model: &Transformer<f64>,
    source: &Array2<u32>,
    target: &Array2<u32>,
) -> Array3<f64> {
    let mode = &mut Mode::Evaluation;
    let steps = model.apply_in_steps(source, target, mode);
    steps.unwrap().logits
}

#[track_caller]
fn assert_near(left: &Array3<f64>, right: &Array3<f64>) {
    assert_eq!(left.dim(), right.dim());
    assert!(
        (left - right).iter().all(|x| x.abs() < 1e-12),
        "{left} ≠ {right}"
    );
}

#[track_caller]
fn assert_refused<T>(answer: Result<T>, expected: &str) {
    let Err(error) = answer else {
        panic!("not refused: {expected}");
    };
    assert_eq!(format!("{error:#}"), expected);
}

fn source() -> Array2<u32> {
    array![[3, 6, 1, 2], [5, 4, PAD, PAD]]
}

fn target() -> Array2<u32> {
    array![[1, 3, 2], [1, 5, PAD]]
}

#[test]
fn every_place_of_the_target_gets_a_score_for_each_token() {
    for order in ORDERS {
        let model = model(order);
        let mode = &mut Mode::Evaluation;
        let steps = model.apply_in_steps(&source(), &target(), mode).unwrap();
        assert_eq!(steps.logits.dim(), (2, 3, 6));
        assert_eq!(steps.encoder.output.dim(), (2, 4, 8));
        assert_eq!(steps.encoder.layers.len(), 2);
        assert_eq!(steps.decoder.output.dim(), (2, 3, 8));
        assert_eq!(steps.decoder.layers.len(), 3);
        assert!(steps.logits.iter().all(|x| x.is_finite()));
        // √d_model · row + position
        let rows = model.source_embedding.apply(&source()).unwrap();
        let expected = rows + sinusoidal_positions::<f64>(4, 8);
        assert_eq!(steps.embedded_source.output, expected);
        let rows = model.target_embedding.apply(&target()).unwrap();
        let expected = rows + sinusoidal_positions::<f64>(3, 8);
        assert_eq!(steps.embedded_target.output, expected);
    }
}

#[test]
fn reading_then_writing_is_the_whole() {
    for order in ORDERS {
        let (model, source, target) = (model(order), source(), target());
        let memory = model.encode(&source).unwrap();
        let logits = model.decode(&target, &memory, &source).unwrap();
        assert_eq!(logits, scores(&model, &source, &target));
    }
}

#[test]
fn a_later_token_never_changes_an_earlier_score() {
    for order in ORDERS {
        let model = model(order);
        let target = array![[1, 3, 2, 4, 5], [2, 2, 3, 1, 4]];
        let logits = scores(&model, &source(), &target);
        for i in 0..5 {
            let mut changed = target.clone();
            for token in changed.column_mut(i) {
                *token = *token % 5 + 1;
            }
            let changed = scores(&model, &source(), &changed);
            let before = s![.., ..i, ..];
            assert_eq!(changed.slice(before), logits.slice(before));
            let here = s![.., i, ..];
            assert_ne!(changed.slice(here), logits.slice(here));
            // As if the target ended there.
            let shorter = target.slice(s![.., ..=i]).to_owned();
            let shorter = scores(&model, &source(), &shorter);
            assert_near(&shorter, &logits.slice(s![.., ..=i, ..]).to_owned());
        }
    }
}

#[test]
fn padding_of_the_source_never_matters() {
    for order in ORDERS {
        let mut model = model(order);
        let target = target();
        let logits = scores(&model, &source(), &target);
        // More of it, or none.
        let longer = array![[3, 6, 1, 2, PAD, PAD], [5, 4, PAD, PAD, PAD, PAD]];
        assert_near(&scores(&model, &longer, &target), &logits);
        let second = scores(&model, &array![[5, 4]], &array![[1, 5, PAD]]);
        assert_near(&second, &logits.slice(s![1..=1, .., ..]).to_owned());
        // Whatever its vector is.
        for poison in [9.0, f64::NAN, f64::INFINITY] {
            let mut table = model.source_embedding.table_mut();
            table.row_mut(PAD as usize).fill(poison);
            assert_eq!(scores(&model, &source(), &target), logits, "{poison}");
        }
    }
}

#[test]
fn padding_of_the_target_never_matters_before_it() {
    for order in ORDERS {
        let mut model = model(order);
        let logits = scores(&model, &source(), &target());
        let mut table = model.target_embedding.table_mut();
        table.row_mut(PAD as usize).fill(9.0);
        let changed = scores(&model, &source(), &target());
        let real = [s![0, .., ..], s![1, ..2, ..]];
        for place in real {
            assert_eq!(changed.slice(place), logits.slice(place));
        }
        assert_ne!(changed.slice(s![1, 2, ..]), logits.slice(s![1, 2, ..]));
    }
}

#[test]
fn sequences_of_a_batch_do_not_meet() {
    for order in ORDERS {
        let model = model(order);
        let logits = scores(&model, &source(), &target());
        for b in 0..2 {
            let source = source().slice(s![b..=b, ..]).to_owned();
            let target = target().slice(s![b..=b, ..]).to_owned();
            let alone = scores(&model, &source, &target);
            assert_near(&alone, &logits.slice(s![b..=b, .., ..]).to_owned());
        }
    }
}

#[test]
fn positions_matter() {
    let model = model(NormOrder::Pre);
    let target = array![[1, 2]];
    let logits = scores(&model, &array![[3, 6, 1]], &target);
    assert_ne!(scores(&model, &array![[6, 3, 1]], &target), logits);
}

#[test]
fn dropout_is_for_training_alone() {
    for order in ORDERS {
        let model = model(order);
        let still = Settings {
            dropout: 0.0,
            ..settings(order)
        };
        let still = Transformer::random(&still, &mut rng(1)).unwrap();
        let logits = scores(&model, &source(), &target());
        assert_eq!(logits, scores(&still, &source(), &target()));
        let train = |model: &Transformer<f64>, seed| {
            let mut rng = rng(seed);
            let mode = &mut Mode::Training(&mut rng);
            model.apply_in_steps(&source(), &target(), mode).unwrap()
        };
        assert_eq!(train(&still, 2).logits, logits);
        let steps = train(&model, 2);
        assert_ne!(steps.logits, logits);
        assert_eq!(train(&model, 2), steps);
        assert_ne!(train(&model, 3).logits, steps.logits);
        // What is dropped of the embedding is dropped with its position.
        for embedded in [&steps.embedded_source, &steps.embedded_target] {
            let factors = embedded.factors.as_ref().unwrap();
            assert!(factors.iter().all(|&f| f == 0.0 || f == 1.0 / (1.0 - 0.2)));
            assert!(factors.iter().any(|&f| f == 0.0));
            let dropped = embedded.output.iter().zip(factors);
            assert!(dropped.into_iter().all(|(&x, &f)| f != 0.0 || x == 0.0));
        }
    }
}

#[test]
fn single_precision_stays_near_double() {
    for order in ORDERS {
        let double = model(order);
        let mut single =
            Transformer::<f32>::random(&settings(order), &mut rng(1)).unwrap();
        for ((_, mut x), (_, y)) in
            single.tables_mut().into_iter().zip(double.tables())
        {
            x.zip_mut_with(&y, |x, &y| *x = y as f32);
        }
        let mode = &mut Mode::Evaluation;
        let steps = single.apply_in_steps(&source(), &target(), mode);
        let logits = scores(&double, &source(), &target());
        let off = steps.unwrap().logits.mapv(f64::from) - logits;
        assert!(off.iter().all(|x| x.abs() < 1e-5), "{off}");
    }
}

// What is learned.

#[test]
fn parameters_are_counted_by_formula() {
    for order in ORDERS {
        let settings = settings(order);
        let model = model(order);
        let (d, f) = (settings.d_model, settings.d_ff);
        let (source, target) =
            (settings.source_vocabulary, settings.target_vocabulary);
        let attention = 4 * (d * d + d);
        let network = (d * f + f) + (f * d + d);
        let norm = 2 * d;
        let encoder_layer = attention + network + 2 * norm;
        let decoder_layer = 2 * attention + network + 3 * norm;
        let final_norm = if order == NormOrder::Pre { norm } else { 0 };
        assert_eq!(model.source_embedding.parameters(), source * d);
        assert_eq!(model.encoder.layers[0].parameters(), encoder_layer);
        assert_eq!(model.encoder.parameters(), 2 * encoder_layer + final_norm);
        assert_eq!(model.decoder.layers[0].parameters(), decoder_layer);
        assert_eq!(model.decoder.parameters(), 3 * decoder_layer + final_norm);
        assert_eq!(model.output.parameters(), d * target + target);
        let all = (source + target) * d
            + (2 * encoder_layer + final_norm)
            + (3 * decoder_layer + final_norm)
            + (d * target + target);
        assert_eq!(model.parameters(), all);
    }
}

/// The names are unique, and the tables are the same to be read and to be changed.
#[track_caller]
fn check_tables<L: Learned<f64> + Clone + PartialEq>(model: &L) {
    let read: Vec<(String, Vec<usize>)> = model
        .tables()
        .into_iter()
        .map(|(name, table)| (name, table.shape().to_owned()))
        .collect();
    let mut copy = model.clone();
    let changed: Vec<(String, Vec<usize>)> = copy
        .tables_mut()
        .into_iter()
        .map(|(name, table)| (name, table.shape().to_owned()))
        .collect();
    assert_eq!(read, changed);
    let names: BTreeSet<&String> = read.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), read.len(), "{read:?}");

    // Each table is one of its own: filled with its number, it is read with its number.
    for (number, (_, mut table)) in copy.tables_mut().into_iter().enumerate() {
        table.fill(number as f64);
    }
    for (number, (name, table)) in copy.tables().into_iter().enumerate() {
        assert!(table.iter().all(|&x| x == number as f64), "{name}");
    }
    // And together they are everything that is learned.
    let tables = model.tables();
    for ((_, mut table), (_, old)) in copy.tables_mut().into_iter().zip(&tables) {
        table.assign(old);
    }
    assert!(copy == *model);
}

#[test]
fn what_is_learned_has_names() {
    for order in ORDERS {
        let model = model(order);
        check_tables(&model);
        check_tables(&model.encoder);
        check_tables(&model.decoder);
        check_tables(&model.encoder.layers[0]);
        check_tables(&model.decoder.layers[0]);
        check_tables(&model.decoder.layers[0].cross_attention);
        check_tables(&model.decoder.layers[0].feed_forward);
        check_tables(&model.decoder.layers[0].attention_residual);
        check_tables(&model.source_embedding);
        check_tables(&model.output);
        check_tables(&classifier(order));
    }
    let layer = &model(NormOrder::Pre).encoder.layers[0];
    let names: Vec<String> =
        layer.tables().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 8 + 2 + 4 + 2);
    assert_eq!(names[0], "attention.query.weight");
}

#[test]
fn a_seed_gives_a_model() {
    for order in ORDERS {
        assert_eq!(model(order), model(order));
        let other = Transformer::random(&settings(order), &mut rng(2)).unwrap();
        assert_ne!(model(order), other);
        let model = model(order);
        let pre = order == NormOrder::Pre;
        assert_eq!(model.encoder.final_norm.is_some(), pre);
        assert_eq!(model.decoder.final_norm.is_some(), pre);
        // No two tables of weights begin alike.
        let tables = model.tables();
        let weights: Vec<_> = tables
            .iter()
            .filter(|(name, _)| name.ends_with("weight") || name.ends_with("table"))
            .collect();
        for (i, (name, table)) in weights.iter().enumerate() {
            for (other, same) in &weights[..i] {
                assert!(table != same, "{name} is {other}");
            }
        }
    }
}

#[test]
fn settings_that_make_no_model_are_refused() {
    let make = |change: fn(&mut Settings)| {
        let mut settings = settings(NormOrder::Pre);
        change(&mut settings);
        Transformer::<f64>::random(&settings, &mut rng(3))
    };
    assert_refused(
        make(|settings| settings.source_vocabulary = 0),
        "vocabularies of 0 and 6 must both be above 0",
    );
    assert_refused(
        make(|settings| settings.target_vocabulary = 0),
        "vocabularies of 7 and 0 must both be above 0",
    );
    assert_refused(
        make(|settings| settings.d_model = 0),
        "the vectors of an embedding are 0 wide",
    );
    let bare = make(|settings| {
        (settings.encoder_layers, settings.decoder_layers) = (0, 0);
    });
    let logits = scores(&bare.unwrap(), &source(), &target());
    assert_eq!(logits.dim(), (2, 3, 6));
}

/// The settings are checked even where there is no layer that would use them.
#[test]
fn settings_are_checked_without_layers() {
    let refuse = |change: fn(&mut Settings), expected: &str| {
        for layers in [0, 1] {
            let mut settings = settings(NormOrder::Post);
            (settings.encoder_layers, settings.decoder_layers) = (layers, layers);
            change(&mut settings);
            let rng = &mut rng(3);
            assert_refused(Transformer::<f64>::random(&settings, rng), expected);
            assert_refused(settings.encoder::<f64>(rng), expected);
            assert_refused(settings.decoder::<f64>(rng), expected);
        }
    };
    refuse(
        |settings| settings.d_ff = 0,
        "a width of 8, and of 0 inside the feed-forward networks, must both be above 0",
    );
    refuse(
        |settings| settings.heads = 0,
        "a width of 8 cannot be split into 0 equal heads",
    );
    refuse(
        |settings| settings.heads = 3,
        "a width of 8 cannot be split into 3 equal heads",
    );
    refuse(
        |settings| settings.dropout = 1.0,
        "the probability of dropout must be at least 0 and below 1, not 1",
    );
    refuse(
        |settings| settings.dropout = f64::NAN,
        "the probability of dropout must be at least 0 and below 1, not NaN",
    );
    let mut settings = settings(NormOrder::Pre);
    settings.d_model = 0;
    assert_refused(
        settings.encoder::<f64>(&mut rng(3)),
        "a width of 0, and of 12 inside the feed-forward networks, must both be above 0",
    );
}

#[test]
fn errors_name_what_does_not_fit() {
    let model = model(NormOrder::Pre);
    let mode = &mut Mode::Evaluation;
    let (source, target) = (source(), target());
    assert_refused(
        model.apply_in_steps(&array![[7]], &array![[1]], mode),
        "token 7 is not in a vocabulary of 7",
    );
    assert_refused(
        model.apply_in_steps(&array![[6]], &array![[6]], mode),
        "token 6 is not in a vocabulary of 6",
    );
    assert_refused(
        model.encode(&array![[9]]),
        "token 9 is not in a vocabulary of 7",
    );
    // Two sources, one target.
    let one = target.slice(s![..1, ..]);
    let answer = model.apply_in_steps(&source, &one, mode);
    assert_refused(
        answer,
        "decoder layer 0: queries are 1 × 2 (batch × heads) but keys are 2 × 2",
    );
    let memory = model.encode(&source).unwrap();
    let shorter = source.slice(s![.., ..3]);
    assert_refused(
        model.decode(&target, &memory, &shorter),
        "the source is 2 × 3 but the memory 2 × 4",
    );
    // A mask of one sequence, or of one token, would stretch to any memory.
    let single = source.slice(s![..1, ..]);
    assert_refused(
        model.decode(&target, &memory, &single),
        "the source is 1 × 4 but the memory 2 × 4",
    );
    let first = source.slice(s![.., ..1]);
    assert_refused(
        model.decode(&target, &memory, &first),
        "the source is 2 × 1 but the memory 2 × 4",
    );
    let narrow = memory.slice(s![.., .., ..7]);
    assert_refused(
        model.decode(&target, &narrow, &source),
        "decoder layer 0: vectors are 7 wide but the projection takes 8",
    );
}

#[test]
fn nothing_to_read_or_write_is_no_error() {
    let model = model(NormOrder::Pre);
    let empty = |batch, n| Array2::<u32>::zeros((batch, n));
    assert_eq!(scores(&model, &empty(0, 3), &empty(0, 2)).dim(), (0, 2, 6));
    assert_eq!(scores(&model, &source(), &empty(2, 0)).dim(), (2, 0, 6));
    // A source of padding is as none.
    let target = array![[1, 2]];
    let nothing = scores(&model, &empty(1, 0), &target);
    assert!(nothing.iter().all(|x| x.is_finite()));
    assert_near(&scores(&model, &array![[PAD, PAD]], &target), &nothing);
}

// The classifier.

fn classifier(order: NormOrder) -> Classifier<f64> {
    let settings = settings(order);
    let rng = &mut rng(4);
    Classifier {
        embedding: Embedding::random(7, 8, rng).unwrap(),
        encoder: settings.encoder(rng).unwrap(),
        classes: ch05_multihead::Projection::random(8, 3, rng),
    }
}

#[test]
fn a_classifier_reads_the_first_vector() {
    for order in ORDERS {
        let classifier = classifier(order);
        let scores = classifier.apply(&source()).unwrap();
        assert_eq!(scores.dim(), (2, 3));
        // The first vector has seen all the others, in their order.
        let other = classifier.apply(&array![[3, 6, 1, 4]]).unwrap();
        assert_ne!(other.row(0), scores.row(0));
        let other = classifier.apply(&array![[3, 1, 6, 2]]).unwrap();
        assert_ne!(other.row(0), scores.row(0));
        // Padding is not seen.
        let shorter = classifier.apply(&array![[5, 4]]).unwrap();
        let off = &shorter.row(0) - &scores.row(1);
        assert!(off.iter().all(|x| x.abs() < 1e-12));
        // Nothing but the vector of the first token is projected.
        let mode = &mut Mode::Evaluation;
        let x = classifier.embedding.apply(&source()).unwrap()
            + sinusoidal_positions::<f64>(4, 8);
        let mask = ch06_self_attention::bidirectional_mask(&source(), PAD);
        let read = classifier
            .encoder
            .apply_in_steps(&x, &mask, mode)
            .unwrap()
            .output;
        let first = read.index_axis(Axis(1), 0);
        let expected = first.dot(classifier.classes.weight())
            + classifier.classes.bias().unwrap();
        assert!((expected - scores).iter().all(|x| x.abs() < 1e-12));
    }
}

#[test]
fn a_classifier_needs_a_first_token() {
    let classifier = classifier(NormOrder::Pre);
    assert_refused(
        classifier.apply(&Array2::zeros((2, 0))),
        "a text without tokens has no first vector",
    );
    assert_refused(
        classifier.apply(&array![[7]]),
        "token 7 is not in a vocabulary of 7",
    );
    let none = classifier.apply(&Array2::zeros((0, 2))).unwrap();
    assert_eq!(none.dim(), (0, 3));
}
