//! x
use ch09_training::{dates::*, trainer::*};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let mut plan = Plan::default();
    for a in &args[1..] {
        let (k, v) = a.split_once('=').unwrap();
        match k {
            "steps" => plan.schedule.steps = v.parse()?,
            "batch" => plan.batch = v.parse()?,
            "shards" => plan.shards = v.parse()?,
            "peak" => plan.schedule.peak = v.parse()?,
            "smooth" => plan.smoothing = v.parse()?,
            "drop" => plan.settings.dropout = v.parse()?,
            "enc" => plan.settings.encoder_layers = v.parse()?,
            "dec" => plan.settings.decoder_layers = v.parse()?,
            "warm" => plan.schedule.warm_up = v.parse()?,
            "d" => plan.settings.d_model = v.parse()?,
            "ff" => plan.settings.d_ff = v.parse()?,
            "heads" => plan.settings.heads = v.parse()?,
            "seed" => plan.seed = v.parse()?,
            "clip" => plan.longest_gradient = v.parse()?,
            _ => panic!(),
        }
    }
    let mut t = Trainer::new(plan)?;
    use ch08_transformer::Learned;
    println!("{} parameters", t.model.parameters());
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let val: Vec<Example> = (0..1000)
        .map(|_| example(Split::Validation, &mut rng))
        .collect();
    let start = std::time::Instant::now();
    let mut mean = 0.0;
    while t.adam.steps < t.plan.schedule.steps {
        let loss = t.step()?;
        mean += loss;
        let n = t.adam.steps;
        if n % 250 == 0 || n == 50 {
            println!(
                "{n} loss {:.4} exact {:.4} {:.1}s",
                mean / 250.0,
                exact(&t.model, &val)?,
                start.elapsed().as_secs_f64()
            );
            mean = 0.0;
        }
    }
    Ok(())
}
