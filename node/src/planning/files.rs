//! Reading the files that people write, and writing plans.

use std::path::Path;

use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::run_file::settings::TaskKind;

use crate::telling::failure::{Exit, Failure};

/// Refuses a training where only a mean is understood.
///
/// # Errors
/// The plan releases many sums (exit 2).
pub fn not_a_training(plan: &Plan) -> Result<(), Failure> {
    if plan.draft().task == TaskKind::Mean {
        return Ok(());
    }
    Err(
        Failure::usage("rounds are not simulated: a program hands over what they are of")
            .field("task")
            .hint("run it with real nodes: undertone local --inputs DIR --run RUN.toml"),
    )
}

/// Reads a plan file (exit 3 if it is not one).
pub fn load(path: &Path) -> Result<Plan, Failure> {
    let bytes = std::fs::read(path)
        .map_err(|e| Failure::usage(format!("{}: cannot be read: {e}", path.display())).field("PLAN.json"))?;
    parse(&bytes, &path.display().to_string())
}

/// Reads a plan from the bytes of its file (exit 3); `name` is what messages call it.
pub fn parse(bytes: &[u8], name: &str) -> Result<Plan, Failure> {
    Plan::parse(bytes).map_err(|e| {
        let failure = Failure::new(Exit::PlanRefused, format!("{name}: {e}"));
        let failure = match e.field() {
            Some(field) => failure.field(field),
            None => failure,
        };
        match instead_of_a_plan(bytes) {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })
}

/// What to do with a file that is something else than a plan.
fn instead_of_a_plan(bytes: &[u8]) -> Option<&'static str> {
    let object = serde_json::from_slice::<serde_json::Value>(bytes).unwrap_or_default();
    if object.get("outcome").is_some() {
        Some("this is a receipt: `undertone receipt FILE` reads it")
    } else if object.get("mechanism").is_none() {
        Some("this is no plan: give the PLAN.json that `undertone plan` wrote")
    } else {
        None
    }
}

/// Reads a text file that a person wrote.
pub fn read_text(path: &Path, field: &str) -> Result<String, Failure> {
    const MOST: u64 = 16 << 20;
    let refused = |what: String| Failure::usage(format!("{}: {what}", path.display())).field(field);
    let length = std::fs::metadata(path)
        .map_err(|e| refused(format!("cannot be read: {e}")))?
        .len();
    if length > MOST {
        return Err(refused(format!(
            "{length} bytes are more than such a file ever has"
        )));
    }
    std::fs::read_to_string(path).map_err(|e| refused(format!("cannot be read: {e}")))
}

/// Writes the plan's very bytes.
pub fn write_plan(path: &Path, plan: &Plan) -> Result<(), Failure> {
    std::fs::write(path, plan.to_json()).map_err(|e| {
        Failure::storage(&e, format!("{}: cannot be written: {e}", path.display()))
            .field("--out")
            .hint("choose a folder that exists and that you can write to")
    })
}
