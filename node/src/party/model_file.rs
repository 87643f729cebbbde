//! The files of a model: what a training came to, with all that it takes to apply it to a row.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::choice::Computation;
use undertone_protocol::plan::computation::model::ModelSettings;

use crate::party::input;
use crate::party::rows::Rows;
use crate::reporting::failure::Failure;
use crate::reporting::input_file;
use crate::reporting::output_file::{self, extension_of};
use crate::vector_file::expected::Expected;
use crate::vector_file::formats;
use crate::vector_file::layout::{Dtype, Format, Layout, Tensor};
use crate::vector_file::vector::VectorFile;

/// Extensions of files that a model is written to.
const EXTENSIONS: [&str; 3] = ["npy", "json", "safetensors"];

/// The longest file that is read as a model. Our choice: more than any plan's parameters take.
const MOST_BYTES: u64 = 1 << 32;

/// A model and how it was made. Public.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    version: u32,
    /// The plan's.
    digest: String,
    /// ε of the whole training as it turned out for the party that wrote this; null where it is
    /// not known.
    epsilon: Option<f64>,
    delta: f64,
    /// Iterations that are in it.
    iterations: u64,
    /// How rows are prepared, and what was fitted.
    pub model: ModelSettings,
    /// A row for each class (else one), a number for each feature in the order of the columns
    /// without the target, the intercept last.
    pub weights: Vec<Vec<f64>>,
}

/// Refuses what a training's result is not written to (exit 2).
pub fn check_output(plan: &Plan, path: &Path) -> Result<(), Failure> {
    let (known, what, hint): (&[&str], _, _) = match &plan.draft().computation {
        Computation::Mean {} | Computation::Stream(_) => return Ok(()),
        Computation::Describe(_) => (
            &["json", "csv"],
            "figures are written as .json or .csv",
            "write --output figures.json, or figures.csv",
        ),
        Computation::Regression { .. } => (
            &EXTENSIONS,
            "a model is written as .npy, .json or .safetensors",
            "write --output model.json, or another of these",
        ),
        Computation::Rounds(_) if plan.draft().data.tensors.is_some() => (
            &["npy", "safetensors"],
            "the last mean is written as .npy or .safetensors",
            "write --output mean.safetensors, or mean.npy",
        ),
        Computation::Rounds(_) => (
            &["npy"],
            "the last mean is written as .npy",
            "write --output mean.npy",
        ),
        Computation::LinearEquations(_) | Computation::Optimise(_) => (
            &["npy"],
            "this party's last iterate is written as .npy",
            "write --output iterate.npy",
        ),
    };
    if extension_of(path).is_some_and(|extension| known.contains(&extension.as_str())) {
        return Ok(());
    }
    Err(Failure::usage(format!("{}: {what}", path.display()))
        .field("--output")
        .hint(hint))
}

impl ModelFile {
    /// A training's model.
    pub fn of(plan: &Plan, values: &[f64], epsilon: Option<f64>, iterations: u64) -> Option<Self> {
        let model = plan.draft().computation.model().cloned()?;
        let weights = values.chunks(model.features()).map(<[f64]>::to_vec).collect();
        Some(ModelFile {
            version: 1,
            digest: plan.digest_hex(),
            epsilon,
            delta: plan.draft().privacy.delta,
            iterations,
            model,
            weights,
        })
    }

    /// The digest of the plan that it was trained by.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Its numbers, one after the other.
    pub fn values(&self) -> Vec<f64> {
        self.weights.concat()
    }

    /// Writes it as the extension says; beside a `.npy`, which has nothing but numbers, a `.json`.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let written = |path: &Path| output_file::written(path, |out| self.write_to(path, out));
        written(path)
            .and_then(|file| match beside(path) {
                Some(beside) => output_file::finish_all([written(&beside)?, file]),
                None => file.finish(),
            })
            .map_err(|e| output_file::unwritten(path, "--output", &e))
    }

    /// Writes what the file at `path` has, as its extension says.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_to(&self, path: &Path, out: &mut dyn Write) -> std::io::Result<()> {
        match extension_of(path).as_deref() {
            Some("npy") => formats::write_to(out, &input::layout_of_model(&self.model), &self.values()),
            Some("safetensors") => {
                let (layout, values) = self.tensors()?;
                formats::write_to(out, &layout, &values)
            }
            _ => out.write_all((serde_json::to_string_pretty(self)? + "\n").as_bytes()),
        }
    }

    /// `weight` and `bias`, as libraries of models call them; all else as text.
    fn tensors(&self) -> std::io::Result<(Layout, Vec<f64>)> {
        let tensor = |name: &str, shape: Vec<usize>| Tensor {
            name: name.into(),
            shape,
            dtype: Dtype::F64,
        };
        let (classes, columns) = (self.weights.len(), self.model.columns - 1);
        let mut tensors = vec![tensor("weight", vec![classes, columns])];
        let mut values: Vec<f64> = self
            .weights
            .iter()
            .flat_map(|row| row[..columns].to_vec())
            .collect();
        if self.model.intercept {
            // In the order of names.
            tensors.insert(0, tensor("bias", vec![classes]));
            let biases = self.weights.iter().map(|row| row[columns]);
            values = biases.chain(values).collect();
        }
        let metadata = BTreeMap::from([
            ("digest".into(), self.digest.clone()),
            (
                "epsilon".into(),
                self.epsilon
                    .map_or("unknown".into(), |epsilon| epsilon.to_string()),
            ),
            ("delta".into(), self.delta.to_string()),
            ("iterations".into(), self.iterations.to_string()),
            ("model".into(), serde_json::to_string(&self.model)?),
        ]);
        let layout = Layout {
            shape: vec![values.len()],
            format: Format::Safetensors {
                tensors,
                metadata,
                carried: vec![],
            },
        };
        Ok((layout, values))
    }

    /// Reads a model's `.json`, or the one beside its `.npy`.
    ///
    /// # Errors
    /// It is none (exit 7).
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let path = beside(path).unwrap_or_else(|| path.to_owned());
        let unusable = |what: String| {
            Failure::input(format!("{}: {what}", path.display()))
                .field("MODEL")
                .hint("give the .json that a training wrote, or the .npy that lies beside one")
        };
        let text = input_file::read(&path, MOST_BYTES).map_err(|e| unusable(e.to_string()))?;
        let model: ModelFile =
            serde_json::from_slice(&text).map_err(|e| unusable(format!("no model: {e}")))?;
        let features = model.model.features();
        let blocks = model.model.parameters().checked_div(features.max(1)).unwrap_or(0);
        let fits = blocks > 0
            && model.weights.len() == blocks
            && model.weights.iter().all(|row| row.len() == features);
        let whole = fits && model.model.target_at().is_some() && model.values().iter().all(|w| w.is_finite());
        if let Err((field, problem)) = model.model.check() {
            return Err(unusable(format!("{field}: {problem}")));
        }
        match model.version == 1 && whole {
            true => Ok(model),
            false => Err(unusable("its weights are not those of its settings".into())),
        }
    }
}

/// Rows in a file, prepared for a model.
///
/// # Errors
/// The file has other columns (exit 7), or targets that the loss does not know.
pub fn rows(model: &ModelSettings, path: &Path) -> Result<Rows, Failure> {
    let file = read_rows(model, path)?;
    let columns = file.layout.records().map(|(_, shape)| shape);
    if columns != Some(vec![model.columns]) {
        let found = file.layout.shape.last().copied().unwrap_or(1);
        return Err(Failure::input(format!(
            "{}: rows of {found} columns, the model has rows of {}",
            path.display(),
            model.columns
        ))
        .field(path.display())
        .hint("give a table with the columns that the model was fitted to, in their order"));
    }
    if let Some(names) = &model.names {
        input::check_columns((names, MODEL), &file.layout, path)?;
    }
    Rows::prepare(model, &file.values, path)
}

/// The source of the column names of a model, in messages.
const MODEL: &str = "the model";

/// Reads a table of which the model may name the columns.
fn read_rows(model: &ModelSettings, path: &Path) -> Result<VectorFile, Failure> {
    let expected = Expected {
        columns: model.names.as_deref(),
        numbers: None,
    };
    formats::read_as(path, expected)
}

/// Rows in a file, with or without the target's column, prepared for a model; whether they have
/// their targets.
///
/// # Errors
/// Those of [`rows`]. Where both the file and the model name the columns, they must be the same, in
/// one order.
pub fn rows_to_predict(model: &ModelSettings, path: &Path) -> Result<(Rows, bool), Failure> {
    let file = read_rows(model, path)?;
    let columns = file.layout.shape.last().copied().unwrap_or(1);
    if columns + 1 != model.columns || file.layout.shape.len() != 2 {
        return Ok((rows(model, path)?, true));
    }
    let at = model.target_at().unwrap_or(columns);
    if let Some(names) = model.names.as_ref().filter(|names| names.len() == model.columns) {
        let features = [&names[..at], &names[at + 1..]].concat();
        input::check_columns((&features, MODEL), &file.layout, path)?;
    }
    // Without a target any does: 0 is one of every loss.
    let with_target = |row: &[f64]| [&row[..at], &[0.0], &row[at..]].concat();
    let values: Vec<f64> = file.values.chunks_exact(columns).flat_map(with_target).collect();
    Ok((Rows::prepare(model, &values, path)?, false))
}

/// The `.json` beside a model's `.npy`, which has nothing but numbers; none of another file.
pub fn beside(path: &Path) -> Option<PathBuf> {
    let of_numbers = output_file::extension_of(path).as_deref() == Some("npy");
    of_numbers.then(|| path.with_extension("json"))
}

#[cfg(test)]
mod tests;
