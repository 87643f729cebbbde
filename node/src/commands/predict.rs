//! `undertone predict`: what a trained model says of rows, on this machine alone.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use undertone_protocol::model::loss::Loss;

use crate::party::model_file::{self, ModelFile};
use crate::reporting::failure::Failure;
use crate::reporting::output_file::{self, OutputFile};
use crate::reporting::report::Report;
use crate::reporting::table::precise;
use crate::vector_file::formats;
use crate::vector_file::layout::{Dtype, Layout};

/// Flags of `predict`.
#[derive(Args, Debug)]
pub struct PredictArgs {
    /// The model: the .json that a training wrote, or the .npy beside it
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Rows, with or without the target's column (.csv, .npy, .json)
    #[arg(long, value_name = "X")]
    input: PathBuf,
    /// Where to write what the model says of each row (.npy)
    #[arg(long, value_name = "Y")]
    output: Option<PathBuf>,
}

/// Applies the model; where the rows have their targets, says how good it is.
pub fn run(arguments: &PredictArgs) -> Result<Report, Failure> {
    if let Some(output) = &arguments.output {
        check_output(arguments, output)?;
    }
    let model = ModelFile::read(&arguments.model)?;
    let (rows, judged) = model_file::rows_to_predict(&model.model, &arguments.input)?;
    let weights = model.values();
    let said: Vec<f64> = rows
        .iter()
        .map(|(features, _)| rows.named(&weights, features))
        .collect();
    if let Some(output) = &arguments.output {
        formats::write(output, &Layout::npy(vec![said.len()], Dtype::F64), &said)?;
    }
    let mut json = json!({ "rows": said.len(), "digest": model.digest(), "exit_code": 0 });
    if judged {
        json["test"] = rows.report(&weights);
    }
    let what = match rows.loss() {
        Loss::Squared => "numbers",
        Loss::Logistic | Loss::Softmax { .. } => "classes",
    };
    let mut text = format!("The {what} of {} rows", said.len());
    text += &match &arguments.output {
        Some(output) => format!(" are in {}.\n", output.display()),
        None => format!(": {}\n", listed(&said)),
    };
    let test = &json["test"];
    if let Some(accuracy) = test["accuracy"].as_f64() {
        text += &format!("{:.1} % of their targets are named.\n", 100.0 * accuracy);
        if let Some(auc) = test["auc"].as_f64() {
            text += &format!("Area under the curve: {auc:.3}.\n");
        }
    } else if let Some(r2) = test["r2"].as_f64() {
        text += &format!("R² = {} against their targets.\n", precise(r2));
    }
    Ok(Report { json, text, exit: 0 })
}

/// Looks at the place that is written to, before anything is computed.
fn check_output(arguments: &PredictArgs, output: &Path) -> Result<(), Failure> {
    if output_file::extension_of(output).as_deref() != Some("npy") {
        return Err(output_file::misnamed(output, "--output", ("a prediction", "npy")));
    }
    OutputFile::of_flag(output, "--output")?;
    output_file::apart(
        [(&*arguments.model, "MODEL"), (&*arguments.input, "--input")],
        [(output, "--output")],
    )
}

/// A class as the whole number that it is.
fn shown(said: &f64) -> String {
    match said.fract() == 0.0 {
        true => format!("{said:.0}"),
        false => precise(*said),
    }
}

/// The first of them, for people.
fn listed(said: &[f64]) -> String {
    const SHOWN: usize = 20;
    let mut few: Vec<String> = said.iter().take(SHOWN).map(shown).collect();
    if said.len() > SHOWN {
        few.push(format!("… and {} more (--output)", said.len() - SHOWN));
    }
    few.join(", ")
}
