//! A party's rows as a training sees them: features prepared by public numbers, and targets.

use std::path::Path;

use serde_json::{Value, json};
use undertone_protocol::model::auc::area_under_curve;
use undertone_protocol::model::loss::Loss;
use undertone_protocol::plan::computation::model::{ModelSettings, RowLength};

use crate::reporting::failure::Failure;

/// Rows ready for gradients. They are private: there is no `Debug` that prints them.
pub struct Rows {
    loss: Loss,
    /// Features of a row, the intercept's 1 included.
    width: usize,
    features: Vec<f64>,
    targets: Vec<f64>,
}

impl Rows {
    /// Prepares rows of a model's columns: features clipped to their bounds and brought to
    /// [−1, 1], 1 appended, the whole scaled as the plan says; targets clipped to theirs.
    ///
    /// # Errors
    /// A target that the loss does not know (exit 7); no value is reported.
    pub fn prepare(model: &ModelSettings, values: &[f64], path: &Path) -> Result<Self, Failure> {
        let target_at = model.target_at().unwrap_or(model.columns.saturating_sub(1));
        let width = model.features();
        let mut rows = Rows {
            loss: model.loss(),
            width,
            features: Vec::with_capacity(values.len() / model.columns * width),
            targets: Vec::with_capacity(values.len() / model.columns),
        };
        for (at, row) in values.chunks_exact(model.columns).enumerate() {
            let target = match model.target_box {
                Some([low, high]) => row[target_at].clamp(low, high),
                None => row[target_at],
            };
            if !rows.loss.knows(target) {
                return Err(foreign_target(model, at, path));
            }
            rows.targets.push(target);
            let columns = row.iter().enumerate().filter(|(column, _)| *column != target_at);
            let features = columns.map(|(column, &value)| match model.bounds_of(column) {
                Some((low, high)) => (value.clamp(low, high) - low) / (high - low) * 2.0 - 1.0,
                None => value,
            });
            rows.features.extend(features);
            if model.intercept {
                rows.features.push(1.0);
            }
        }
        if model.rows != RowLength::AsIs {
            rows.features
                .chunks_exact_mut(width.max(1))
                .for_each(|row| scale(model.rows, row));
        }
        Ok(rows)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Features and target of each.
    pub fn iter(&self) -> impl Iterator<Item = (&[f64], f64)> {
        self.features
            .chunks_exact(self.width.max(1))
            .zip(self.targets.iter().copied())
    }

    /// The mean loss of a model over them, and the share of targets that it names: of squared loss
    /// R², one less the squared error over the targets' variance.
    pub fn judge(&self, model: &[f64]) -> (f64, f64) {
        let count = self.len().max(1) as f64;
        let loss = self
            .iter()
            .map(|(features, target)| self.loss.value(model, features, target))
            .sum::<f64>()
            / count;
        let right = self
            .iter()
            .filter(|(features, target)| self.named(model, features) == *target);
        let quality = match self.loss {
            Loss::Squared => 1.0 - 2.0 * loss / self.variance(),
            _ => right.count() as f64 / count,
        };
        (loss, quality)
    }

    /// [`Rows::judge`] as final objects say it.
    pub fn report(&self, model: &[f64]) -> Value {
        let (loss, quality) = self.judge(model);
        let key = if self.loss == Loss::Squared {
            "r2"
        } else {
            "accuracy"
        };
        let mut report = json!({ "rows": self.len(), "loss": loss, key: quality });
        if self.loss == Loss::Logistic {
            let scored = self
                .iter()
                .map(|(features, target)| (self.loss.scores(model, features)[0], target == 1.0));
            report["auc"] = json!(area_under_curve(scored));
        }
        report
    }

    /// The target that a model gives a row.
    pub fn named(&self, model: &[f64], features: &[f64]) -> f64 {
        self.loss.named(&self.loss.scores(model, features))
    }

    fn variance(&self) -> f64 {
        let count = self.len().max(1) as f64;
        let mean = self.targets.iter().sum::<f64>() / count;
        self.targets
            .iter()
            .map(|target| (target - mean).powi(2))
            .sum::<f64>()
            / count
    }

    /// The loss that they are held against a model by.
    pub fn loss(&self) -> Loss {
        self.loss
    }
}

fn scale(length: RowLength, row: &mut [f64]) {
    let largest = row.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    if largest == 0.0 {
        return;
    }
    let norm = largest
        * row
            .iter()
            .map(|value| (value / largest).powi(2))
            .sum::<f64>()
            .sqrt();
    if length == RowLength::Unit || norm > 1.0 {
        row.iter_mut().for_each(|value| *value /= norm);
    }
}

fn foreign_target(model: &ModelSettings, at: usize, path: &Path) -> Failure {
    let known = match model.loss() {
        Loss::Squared => "a finite number".to_owned(),
        Loss::Logistic => "0 or 1".to_owned(),
        Loss::Softmax { classes } => format!("a class from 0 to {}", classes - 1),
    };
    Failure::input(format!(
        "{}: the target of row {} is not {known}",
        path.display(),
        at + 1
    ))
    .field("--input")
    .hint("check model.target, and what the column holds")
}

#[cfg(test)]
mod tests {
    use undertone_protocol::plan::defaults::Defaults;
    use undertone_protocol::plan::run_file::raw::RawRunFile;

    use super::*;

    fn model(lines: &str) -> ModelSettings {
        let text = format!("task = \"regression\"\nname = \"rows\"\n{lines}");
        let raw = RawRunFile::parse(&text).unwrap();
        raw.resolve(4, Defaults::File)
            .unwrap()
            .computation
            .model()
            .unwrap()
            .clone()
    }

    fn prepared(lines: &str, values: &[f64]) -> Vec<(Vec<f64>, f64)> {
        let rows = Rows::prepare(&model(lines), values, Path::new("rows.csv")).unwrap();
        assert!(!rows.is_empty());
        rows.iter()
            .map(|(features, target)| (features.to_vec(), target))
            .collect()
    }

    #[test]
    fn features_are_clipped_brought_to_one_scale_and_scaled() {
        let lines = "[data]\nshape = [3]\nclip = { kind = \"box\", low = 0.0, high = 10.0 }\n[model]\nloss = \"logistic\"\n";
        let as_is = format!("{lines}rows = \"as-is\"\nstep = 1.0\n");
        // 20 is clipped to 10; the middle is 0.
        let rows = prepared(&as_is, &[20.0, 5.0, 1.0, 0.0, 2.5, 0.0]);
        assert_eq!(rows, [(vec![1.0, 0.0, 1.0], 1.0), (vec![-1.0, -0.5, 1.0], 0.0)]);
        let unit = prepared(lines, &[20.0, 5.0, 1.0]);
        let root = 0.5f64.sqrt();
        assert!((unit[0].0[0] - root).abs() < 1e-15 && (unit[0].0[2] - root).abs() < 1e-15);
        let clipped = format!("{lines}rows = \"clip\"\nintercept = false\n");
        assert_eq!(
            prepared(&clipped, &[7.5, 5.0, 1.0])[0].0,
            [0.5, 0.0],
            "short ones stay"
        );
    }

    #[test]
    fn the_target_is_a_column_by_place_or_name_and_is_clipped() {
        let lines = "[data]\nshape = [2]\ncolumns = [\"y\", \"x\"]\n[model]\nloss = \"squared\"\nclip = 1.0\nintercept = false\nrows = \"as-is\"\nstep = 1.0\n";
        let named = format!("{lines}target = \"y\"\ntarget_box = [-1.0, 1.0]\n");
        assert_eq!(prepared(&named, &[5.0, 2.0]), [(vec![2.0], 1.0)]);
        let placed = format!("{lines}target = 1\n");
        assert_eq!(prepared(&placed, &[5.0, 2.0]), [(vec![5.0], 2.0)]);
    }

    #[test]
    fn an_invalid_target_is_reported_without_its_value() {
        let model = model("[data]\nshape = [2]\n[model]\nloss = \"softmax\"\nclasses = 3\n");
        let failure = Rows::prepare(&model, &[1.0, 2.0, 1.0, 7.25], Path::new("rows.csv"))
            .err()
            .unwrap();
        assert!(
            failure.message.contains("row 2") && !failure.message.contains("7.25"),
            "{failure}"
        );
    }

    #[test]
    fn a_model_is_judged_by_what_it_names() {
        let model = model(
            "[data]\nshape = [2]\n[model]\nloss = \"logistic\"\nintercept = false\nrows = \"as-is\"\nstep = 1.0\n",
        );
        let rows = Rows::prepare(&model, &[1.0, 1.0, -1.0, 0.0, 2.0, 0.0], Path::new("t")).unwrap();
        let (loss, accuracy) = rows.judge(&[3.0]);
        assert!((accuracy - 2.0 / 3.0).abs() < 1e-15 && loss > 0.0);
    }
}
