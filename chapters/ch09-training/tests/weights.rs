//! What chapter 9 claims about its weights as bytes: they come back as they were, and bytes that are
//! something else are refused.

use ch08_transformer::{Learned, Transformer};
use ch09_training::dates::Split;
use ch09_training::optimizer::Schedule;
use ch09_training::task::examples;
use ch09_training::trainer::{Plan, Progress, Trainer};
use ch09_training::weights::*;
use serde_json::{Value, json};
use std::panic::catch_unwind;
use std::sync::LazyLock;

fn plan() -> Plan {
    Plan {
        batch: 4,
        nonsense: 2,
        parts: 2,
        schedule: Schedule {
            peak: 2e-3,
            warm_up: 2,
            steps: 20,
        },
        dropout: 0.1,
        d_model: 4,
        heads: 2,
        d_ff: 6,
        encoder_layers: 1,
        decoder_layers: 1,
        ..Plan::default()
    }
}

/// A training that has looked once and gone on.
fn trainer() -> Trainer {
    let mut trainer = Trainer::new(plan()).unwrap();
    for step in 1..=5 {
        trainer.step().unwrap();
        if step == 3 {
            trainer.look(&examples(Split::Validation, 4)).unwrap();
        }
    }
    assert!(trainer.best != trainer.model && trainer.losses.len() == 2);
    trainer
}

const MADE_BY: &str = "a test";

fn saved() -> &'static [u8] {
    static SAVED: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let trainer = trainer();
        save(&trainer.model, &trainer.record(MADE_BY)).unwrap()
    });
    &SAVED
}

fn paused() -> &'static [u8] {
    static PAUSED: LazyLock<Vec<u8>> =
        LazyLock::new(|| pause(&trainer(), MADE_BY).unwrap());
    &PAUSED
}

fn header_length(bytes: &[u8]) -> usize {
    u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize
}

/// The bytes with another header before the same numbers.
fn with_header(bytes: &[u8], header: &str) -> Vec<u8> {
    let numbers = &bytes[8 + header_length(bytes)..];
    let length = (header.len() as u64).to_le_bytes();
    [&length, header.as_bytes(), numbers].concat()
}

fn header(bytes: &[u8]) -> Value {
    serde_json::from_slice(&bytes[8..8 + header_length(bytes)]).unwrap()
}

fn changed(bytes: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut header = header(bytes);
    change(&mut header);
    with_header(bytes, &header.to_string())
}

fn with_record(bytes: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    changed(bytes, |header| {
        let about = &mut header["__metadata__"]["record"];
        let mut record = serde_json::from_str(about.as_str().unwrap()).unwrap();
        change(&mut record);
        *about = record.to_string().into();
    })
}

#[track_caller]
fn assert_refused(bytes: &[u8], message: &str) {
    let error = format!("{:#}", load(bytes).unwrap_err());
    assert!(error.contains(message), "{error}: no “{message}”");
}

fn table_mut<'a>(
    model: &'a mut Transformer<f32>,
    name: &str,
) -> ndarray::ArrayViewMutD<'a, f32> {
    let mut tables = model.tables_mut().into_iter();
    tables.find(|(other, _)| other == name).unwrap().1
}

#[test]
fn what_is_saved_is_loaded() {
    let trainer = trainer();
    let record = trainer.record(MADE_BY);
    let (model, loaded) = load(saved()).unwrap();
    assert!(model == trainer.model);
    assert_eq!(loaded, record);
    assert_eq!(loaded.losses.len(), 2);
    assert_eq!(save(&model, &loaded).unwrap(), saved());
}

/// Numbers at the ends of what a float can hold come back bit for bit.
#[test]
fn every_finite_number_is_kept() {
    let mut trainer = trainer();
    let ends = [0.0, -0.0, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45, 0.1];
    let mut table = table_mut(&mut trainer.model, "source_embedding.table");
    table.iter_mut().zip(ends).for_each(|(x, end)| *x = end);
    trainer.losses = ends.to_vec();
    let bytes = save(&trainer.model, &trainer.record(MADE_BY)).unwrap();
    let (model, record) = load(&bytes).unwrap();
    let table = model.source_embedding.table();
    let bits = |x: &f32| x.to_bits();
    assert!(table.iter().zip(ends).all(|(x, end)| bits(x) == bits(&end)));
    assert!(record.losses.iter().zip(&ends).all(|(x, y)| x == y));
}

#[test]
fn the_weights_of_the_book_say_how_they_were_made() {
    let (model, record) = shipped().unwrap();
    assert_eq!(record.made_by, "cargo run --release -p ch09-training");
    assert_eq!(record.plan, Plan::default());
    assert_eq!(record.steps, record.plan.schedule.steps);
    let last = record.history.last().unwrap();
    assert_eq!(last.step, record.steps);
    let bytes = save(&model, &record).unwrap();
    assert!(bytes.len() <= 1_000_000, "{} bytes", bytes.len());
    assert_eq!(bytes, include_bytes!("../weights/dates.safetensors"));
}

#[test]
fn a_paused_training_goes_on_as_if_nothing_had_been() {
    let mut trainer = trainer();
    let mut resumed = resume(paused()).unwrap();
    assert!(resumed == trainer);
    assert_eq!(pause(&resumed, MADE_BY).unwrap(), paused());
    let dates = examples(Split::Validation, 4);
    for _ in 0..3 {
        let losses = [&mut trainer, &mut resumed].map(|t| t.step().unwrap());
        assert_eq!(losses[0].to_bits(), losses[1].to_bits());
    }
    let looks = [&mut trainer, &mut resumed].map(|t| t.look(&dates).unwrap());
    assert_eq!(looks[0], looks[1]);
    let bytes = [&trainer, &resumed].map(|t| pause(t, MADE_BY).unwrap());
    assert!(bytes[0] == bytes[1]);
}

#[test]
fn weights_and_trainings_are_not_mistaken_for_each_other() {
    assert_refused(paused(), "lack");
    let error = resume(saved()).unwrap_err().to_string();
    assert!(error.contains("lack"), "{error}");
}

/// No bytes have made this program large, where the system tells how large it ever was.
fn assert_small() {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        return;
    };
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let Some(most) = most else { return };
    let kilobytes = most.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
    assert!(kilobytes < 150_000, "{kilobytes} kB");
}

/// Neither may panic; whether the answer is an error is another matter, for a 3 may become a 4.
fn try_both(bytes: &[u8]) -> (bool, bool) {
    let tried = catch_unwind(|| (load(bytes).is_ok(), resume(bytes).is_ok()));
    tried.unwrap_or_else(|_| {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(4_000)]);
        panic!("it panics on {shown}")
    })
}

#[test]
fn a_changed_byte_anywhere_in_the_header_never_panics() {
    for bytes in [saved(), paused()] {
        let end = 8 + header_length(bytes);
        let mut changed = bytes.to_vec();
        let (mut tried, mut refused) = (0, 0);
        for place in (0..600).chain((600..end).step_by(31)) {
            let was = changed[place];
            // Another digit or letter, the end of a string, no text at all.
            for other in [was ^ 1, b'"', 0xff] {
                changed[place] = other;
                tried += 1;
                refused += usize::from(try_both(&changed) == (false, false));
            }
            changed[place] = was;
        }
        assert!(refused > tried / 2, "{refused} of {tried}");
    }
}

#[test]
fn every_length_of_the_header_but_the_right_one_is_refused() {
    let mut bytes = saved().to_vec();
    for place in 0..8 {
        let was = bytes[place];
        for other in (0..=255).filter(|&byte| byte != was) {
            bytes[place] = other;
            assert_eq!(try_both(&bytes), (false, false), "{other} at {place}");
        }
        bytes[place] = was;
    }
    assert_small();
}

#[test]
fn what_was_cut_off_is_missed() {
    for bytes in [saved(), paused()] {
        let header = 8 + header_length(bytes);
        let ends = (0..64).chain((64..header).step_by(97));
        let ends = ends.chain((header..bytes.len()).step_by(501));
        for end in ends.chain([header, bytes.len() - 4, bytes.len() - 1]) {
            assert_eq!(try_both(&bytes[..end]), (false, false), "{end} bytes");
        }
        let longer = [bytes, &[0]].concat();
        assert_eq!(try_both(&longer), (false, false));
    }
}

#[test]
fn what_is_no_safetensors_is_refused() {
    assert_refused(b"", "safetensors");
    assert_refused(b"hello, world", "safetensors");
    assert_refused(&[0; 8], "safetensors");
    assert_refused(&[0xff; 1_000], "safetensors");
    assert_refused(&with_header(saved(), "null"), "safetensors");
    assert_refused(&with_header(saved(), &"[".repeat(50_000)), "safetensors");
    assert_refused(&with_header(&[0; 8], "{}"), "how they were made");
}

#[test]
fn weights_without_their_record_are_refused() {
    for about in [json!(null), json!({}), json!({"format": "pt"})] {
        let bytes = changed(saved(), |header| header["__metadata__"] = about);
        assert_refused(&bytes, "do not say how they were made");
    }
    for record in ["", "null", "[]", "{}", "\u{0}", &"[".repeat(50_000)] {
        let bytes = changed(saved(), |header| {
            header["__metadata__"]["record"] = record.into();
        });
        assert_refused(&bytes, "the record of the weights cannot be read");
    }
    for key in ["characters", "plan", "steps", "history", "losses"] {
        let bytes = with_record(saved(), |record| {
            record.as_object_mut().unwrap().remove(key);
        });
        assert_refused(&bytes, key);
    }
}

#[test]
fn weights_of_other_characters_are_refused() {
    for characters in ["", "0123456789", "\u{1f382}"] {
        let bytes = with_record(saved(), |record| {
            record["characters"] = characters.into();
        });
        assert_refused(&bytes, "other characters");
    }
    // The same ones in another order are other tokens.
    let bytes = with_record(saved(), |record| {
        let characters = record["characters"].as_str().unwrap();
        record["characters"] = characters.chars().rev().collect::<String>().into();
    });
    assert_refused(&bytes, "other characters");
}

/// What a record asks for is looked at before there is room for it.
#[test]
fn a_record_that_asks_for_too_much_is_refused_at_once() {
    let numbers = [0, 5, 64, 65, 4_096, 16_384, u32::MAX.into(), u64::MAX];
    for key in [
        "d_model",
        "d_ff",
        "encoder_layers",
        "decoder_layers",
        "heads",
    ] {
        for number in numbers {
            let bytes = with_record(saved(), |record| {
                record["plan"][key] = number.into();
            });
            assert!(load(&bytes).is_err(), "{key} of {number}");
            assert!(resume(&bytes).is_err(), "{key} of {number}");
        }
    }
    let largest = |record: &mut Value| {
        record["plan"]["d_model"] = 4_096.into();
        record["plan"]["encoder_layers"] = 1.into();
        record["plan"]["decoder_layers"] = 1.into();
        record["plan"]["d_ff"] = 1.into();
        record["plan"]["heads"] = 1.into();
    };
    assert_refused(&with_record(saved(), largest), "numbers");
    for (key, number) in [("batch", 0), ("parts", 0), ("nonsense", u64::MAX)] {
        let bytes =
            with_record(saved(), |record| record["plan"][key] = number.into());
        assert_refused(&bytes, &number.to_string());
    }
    assert_small();
}

/// JSON can write numbers that a float cannot hold.
#[test]
fn numbers_out_of_range_in_a_record_are_refused() {
    let text = |change: &dyn Fn(&mut Value)| {
        changed(saved(), |header| {
            let about = &mut header["__metadata__"]["record"];
            let mut record = serde_json::from_str(about.as_str().unwrap()).unwrap();
            change(&mut record);
            let text = record.to_string().replace("\"HUGE\"", "1e300");
            *about = text.into();
        })
    };
    let loss = text(&|record| record["losses"][0] = "HUGE".into());
    assert_refused(&loss, "out of range");
    let look = text(&|record| record["history"][0]["loss"] = "HUGE".into());
    assert_refused(&look, "out of range");
    let nothing = with_record(saved(), |record| record["losses"][0] = json!(null));
    assert_refused(&nothing, "cannot be read");
    let rate = text(&|record| record["plan"]["longest_gradient"] = (-1.0).into());
    assert_refused(&rate, "-1");
}

#[test]
fn tables_under_other_names_are_refused() {
    let tables = |header: &Value| -> Vec<String> {
        let names = header.as_object().unwrap().keys();
        names
            .filter(|name| *name != "__metadata__")
            .cloned()
            .collect()
    };
    for name in tables(&header(saved())) {
        let renamed = changed(saved(), |header| {
            let table = header.as_object_mut().unwrap().remove(&name).unwrap();
            header[format!("{name}s")] = table;
        });
        assert_refused(&renamed, &format!("the weights lack {name}"));
        let doubled = changed(saved(), |header| {
            let table = header[name.as_str()].clone();
            header["another"] = table;
        });
        assert!(load(&doubled).is_err(), "two names for {name}");
    }
    let swapped = changed(saved(), |header| {
        let embedding = header["source_embedding.table"].take();
        header["source_embedding.table"] = header["target_embedding.table"].take();
        header["target_embedding.table"] = embedding;
    });
    assert_refused(&swapped, "but the model takes");
}

#[test]
fn tables_of_another_shape_or_type_are_refused() {
    let name = "encoder.layers.0.feed_forward.inner.weight";
    let shape =
        |shape: Value| changed(saved(), |header| header[name]["shape"] = shape);
    assert_refused(&shape(json!([6, 4])), "[6, 4] but the model takes [4, 6]");
    assert_refused(&shape(json!([24])), "[24] but the model takes [4, 6]");
    assert_refused(&shape(json!([1, 4, 6])), "[1, 4, 6]");
    for other in [
        json!([]),
        json!([4, 7]),
        json!([0, 0]),
        json!([u64::MAX, 2]),
        json!([1u64 << 32, 1u64 << 32, 1u64 << 32]),
        json!([-4, -6]),
        json!(null),
    ] {
        assert!(load(&shape(other.clone())).is_err(), "{other}");
    }
    let of_type = |dtype: &str| {
        changed(saved(), |header| header[name]["dtype"] = dtype.into())
    };
    assert_refused(&of_type("I32"), "not made of 32-bit floats");
    assert!(load(&of_type("F64")).is_err());
    assert!(load(&of_type("no type")).is_err());
    for offsets in [json!([0, 0]), json!([96, 0]), json!([0, u64::MAX])] {
        let bytes =
            changed(saved(), |header| header[name]["data_offsets"] = offsets);
        assert!(load(&bytes).is_err());
    }
}

#[test]
fn numbers_that_are_not_finite_are_refused() {
    for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let name = "decoder.final_norm.gain";
        let mut trainer = trainer();
        table_mut(&mut trainer.model, name)[2] = x;
        let bytes = save(&trainer.model, &trainer.record(MADE_BY)).unwrap();
        assert_refused(&bytes, &format!("a number in {name} is not finite"));
        let bytes = pause(&trainer, MADE_BY).unwrap();
        let error = resume(&bytes).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
        let mut trainer = self::trainer();
        trainer.adam.squares[0][[0, 0]] = x;
        assert!(resume(&pause(&trainer, MADE_BY).unwrap()).is_err());
        // And a record that nobody could read is not written.
        let mut trainer = self::trainer();
        trainer.losses[0] = x;
        let error = pause(&trainer, MADE_BY).unwrap_err();
        assert!(format!("{error:#}").contains("not finite"), "{error:#}");
        let mut trainer = self::trainer();
        let (step, loss, exact) = (9, 1.0, f64::from(x));
        trainer.history.push(Progress { step, loss, exact });
        assert!(save(&trainer.model, &trainer.record(MADE_BY)).is_err());
    }
    let mut trainer = trainer();
    trainer.adam.squares[3].fill(-1e-9);
    let error = resume(&pause(&trainer, MADE_BY).unwrap()).unwrap_err();
    assert!(error.to_string().contains("below 0"), "{error}");
}

#[test]
fn a_training_that_does_not_fit_itself_is_not_resumed() {
    let mut trainer = trainer();
    trainer.adam.means.pop();
    if let Ok(bytes) = pause(&trainer, MADE_BY) {
        assert!(resume(&bytes).is_err());
    }
    let mut trainer = self::trainer();
    trainer.adam.means[0] = trainer.adam.means[0].clone().reversed_axes();
    let error = resume(&pause(&trainer, MADE_BY).unwrap()).unwrap_err();
    assert!(error.to_string().contains("mean."), "{error}");
}

/// However many steps a record speaks of.
#[test]
fn a_record_of_endless_steps_does_no_harm() {
    let bytes = with_record(paused(), |record| record["steps"] = u64::MAX.into());
    let mut trainer = resume(&bytes).unwrap();
    trainer.step().unwrap();
}

/// Two readers could take different ones of the two.
#[test]
fn a_name_that_stands_twice_in_the_header_is_refused() {
    for bytes in [saved(), paused()] {
        let text = header(bytes).to_string();
        let (name, about) = header(bytes)
            .as_object()
            .and_then(|all| all.iter().find(|(name, _)| *name != "__metadata__"))
            .map(|(name, about)| (name.clone(), about.to_string()))
            .unwrap();
        let escaped =
            name.replacen(&name[..1], &format!("\\u{:04x}", name.as_bytes()[0]), 1);
        for name in [&name, &escaped] {
            let twice = text.replacen('{', &format!("{{\"{name}\":{about},"), 1);
            assert_refused(&with_header(bytes, &twice), "twice");
        }
        let twice = text.replacen("\"dtype\":", "\"dtype\":\"F32\",\"dtype\":", 1);
        assert_ne!(twice, text);
        assert!(load(&with_header(bytes, &twice)).is_err());
        let twice = text.replacen("\"record\":", "\"record\":\"\",\"record\":", 1);
        assert_ne!(twice, text);
        assert_refused(&with_header(bytes, &twice), "twice");
    }
}
