//! Where the files of a local cluster lie.

use std::path::{Path, PathBuf};

use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::choice::Computation;

use crate::reporting::failure::Failure;
use crate::reporting::output_file::{OutputFile, extension_of};

/// Where a cluster's files lie while it runs.
pub(super) struct Folders {
    /// Keys, synthetic inputs, states: gone afterwards.
    pub(super) scratch: tempfile::TempDir,
    /// Plan, means, receipts, logs: `--output`, or inside of `scratch`.
    pub(super) output: PathBuf,
}

impl Folders {
    pub(super) fn new(output: Option<&Path>) -> Result<Self, Failure> {
        let scratch = tempfile::tempdir().map_err(|e| {
            Failure::storage(&e, format!("no temporary folder can be made: {e}"))
                .hint("set TMPDIR to a folder with room")
        })?;
        let output = output.map_or_else(|| scratch.path().join("output"), Path::to_path_buf);
        let unwritable = |e: std::io::Error| {
            Failure::storage(&e, format!("{}: cannot be written: {e}", output.display()))
                .field("--output")
                .hint("choose a folder that you can write to")
        };
        std::fs::create_dir_all(&output).map_err(unwritable)?;
        tempfile::tempfile_in(&output).map_err(unwritable)?;
        for name in ["plan.json", "summary.json"] {
            OutputFile::of_flag(&output.join(name), "--output")?;
        }
        Ok(Folders { scratch, output })
    }
}

/// The files that `local --output` keeps of one party.
pub(super) fn party_folder(output: &Path, name: &str) -> PathBuf {
    output.join(name)
}

/// The file of a party's result in its folder: the mean in the format of its input, or the model;
/// `by_program`: its input is for a program, which hands over rows.
pub(super) fn result_name(plan: &Plan, input: &Path, by_program: bool) -> String {
    let extension = extension_of(input);
    let extension = extension.as_deref();
    let of_tensors = extension == Some("safetensors") && plan.draft().data.tensors.is_some();
    match &plan.draft().computation {
        Computation::Rounds(rounds) if rounds.template.is_some() || of_tensors => "mean.safetensors".into(),
        Computation::Rounds(_) => "mean.npy".into(),
        Computation::Stream(_) if by_program => "mean.npy".into(),
        Computation::Describe(_) => "figures.json".into(),
        Computation::Regression { .. } => "model.npy".into(),
        Computation::LinearEquations(_) | Computation::Optimise(_) => "iterate.npy".into(),
        Computation::Mean {} | Computation::Stream(_) => format!("mean.{}", extension.unwrap_or("npy")),
    }
}
