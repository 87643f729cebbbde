//! Derived errors against those of many noisy trainings.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::model::descent::Descent;
use undertone_protocol::plan::defaults::Defaults;
use undertone_protocol::plan::run_file::raw::RawRunFile;

use super::*;

const LINES: &str = "[data]\nshape = [3]\ncolumns = [\"age\", \"stays\", \"back\"]\n\
                     clip = { kind = \"box\", low = [20, 0, 0], high = [100, 5, 1] }\n";

fn model(lines: &str) -> ModelSettings {
    let text = format!("task = \"regression\"\nname = \"rows\"\n{LINES}[model]\n{lines}");
    let raw = RawRunFile::parse(&text).expect("a run file");
    let run = raw.resolve(4, Defaults::File).expect("a whole one");
    run.computation.model().expect("a model").clone()
}

/// A number that is about standard normal.
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
}

type Row = ([f64; 3], f64);

/// Rows of length 1 whose targets follow from them.
fn rows(rng: &mut ChaCha8Rng) -> Vec<Row> {
    let row = |_| {
        let features = [rng.random_range(-1.0..1.0), rng.random_range(-1.0..1.0), 1.0];
        let length = features.iter().map(|x: &f64| x * x).sum::<f64>().sqrt();
        let score = 2.0 * features[0] - features[1] + 0.5;
        let chance = 1.0 / (1.0 + f64::exp(-score));
        let target = f64::from(rng.random_bool(chance));
        (features.map(|x| x / length), target)
    };
    (0..300).map(row).collect()
}

/// The result of a training with noise of this standard deviation in each mean gradient.
fn trained(model: &ModelSettings, rows: &[Row], std: f64, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let mut descent = Descent::new(model.terms().expect("terms"), vec![0.0; 3]);
    for _ in 0..model.iterations {
        let mut sum = vec![0.0; 3];
        for (features, target) in rows {
            let mut gradient = vec![0.0; 3];
            let row = (&features[..], *target);
            model
                .loss()
                .clipped_gradient(descent.model(), row, model.clip, &mut gradient);
            sum.iter_mut().zip(gradient).for_each(|(sum, g)| *sum += g);
        }
        let count = rows.len() as f64;
        sum.iter_mut().for_each(|sum| *sum += count * std * normal(rng));
        descent.step(sum, count);
    }
    descent.result()
}

/// A standard deviation over 400 trainings is known to 1/√800, 3.5 %: four times that is allowed,
/// and what linearising leaves out.
#[test]
fn derived_errors_are_those_of_many_trainings() {
    const RUNS: usize = 400;
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let rows = rows(&mut rng);
    for lines in [
        "loss = \"logistic\"\ntarget = \"back\"\n",
        "loss = \"logistic\"\ntarget = \"back\"\nmomentum = 0.0\naverage = 0.0\nridge = 0.05\nclip = 5.0\n",
        "loss = \"squared\"\ntarget = \"back\"\nclip = 0.6\niterations = 30\nmomentum = 0.5\n",
    ] {
        let (model, std) = (model(lines), 2e-3);
        let exact = trained(&model, &rows, 0.0, &mut rng);
        let prepared = rows.iter().map(|(features, target)| (&features[..], *target));
        let derived = noise_errors(&model, &exact, prepared, (std, model.iterations)).expect("it is derived");
        let results: Vec<Vec<f64>> = (0..RUNS).map(|_| trained(&model, &rows, std, &mut rng)).collect();
        for (at, derived) in derived.into_iter().enumerate() {
            let square: f64 = results
                .iter()
                .map(|result| (result[at] - exact[at]).powi(2))
                .sum();
            let found = (square / RUNS as f64).sqrt();
            assert!(
                (found / derived - 1.0).abs() < 0.2,
                "{lines}{at}: {found}, derived {derived}"
            );
        }
    }
}

#[test]
fn coefficients_are_in_their_columns_units_by_name() {
    let model = model("loss = \"logistic\"\ntarget = \"back\"\n");
    let found = coefficients(&model, &[4.0, 1.0, 0.5], Some(&[0.4, 0.1, 0.05])).expect("one score");
    let said: Vec<_> = found
        .iter()
        .map(|c| (c.name.as_str(), c.value, c.standard_error))
        .collect();
    assert_eq!(
        said,
        [
            // A range of 80 years becomes one of 2.
            ("age", 0.1, Some(0.010000000000000002)),
            ("stays", 0.4, Some(0.04000000000000001)),
            ("intercept", 0.5, Some(0.05)),
        ]
    );
}

#[test]
fn what_is_not_derived_is_none() {
    let row = [0.6, 0.0, 0.8];
    for lines in [
        "loss = \"squared\"\nmethod = \"statistics\"\nclip = 2.0\n",
        "loss = \"logistic\"\nset = { kind = \"ball\", radius = 1.0 }\n",
        "loss = \"logistic\"\nstep = { kind = \"inverse\", first = 1.0 }\n",
        "loss = \"softmax\"\nclasses = 3\n",
    ] {
        let model = model(lines);
        let weights = vec![0.1; model.parameters()];
        let rows = std::iter::once((&row[..], 1.0));
        assert_eq!(noise_errors(&model, &weights, rows, (0.1, 50)), None, "{lines}");
    }
    let sideless = model("loss = \"logistic\"\nintercept = false\n");
    assert_eq!(coefficients(&sideless, &[1.0, 2.0], None), None);
}
