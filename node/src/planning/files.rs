//! Reading the files that people write, and writing plans.

use std::path::Path;

use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::choice::Computation;

use crate::reporting::failure::{Exit, Failure};
use crate::reporting::{input_file, output_file};
use crate::vector_file::formats;

/// Refuses a training where only a mean is understood.
///
/// # Errors
/// The plan releases many sums (exit 2).
pub fn not_a_training(plan: &Plan) -> Result<(), Failure> {
    if let Computation::Mean {} | Computation::Stream(_) = plan.draft().computation {
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
    let bytes = input_file::read(path, u64::MAX)
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
    if bytes.starts_with(MARK) {
        return Some(
            "it begins with a byte order mark, so that an editor has changed it: take the very file that \
                     was sent",
        );
    }
    if let Some(hint) = formats::hint_of_text(bytes) {
        return Some(hint);
    }
    let object = serde_json::from_slice::<serde_json::Value>(bytes).unwrap_or_default();
    if object.get("outcome").is_some() {
        Some("this is a receipt: `undertone receipt FILE` reads it")
    } else if object.get("mechanism").is_none() {
        Some("this is no plan: give the PLAN.json that `undertone plan` wrote")
    } else {
        None
    }
}

/// Bytes of a text that a person wrote: far more than any has. Our choice.
const MOST_TEXT: u64 = 16 << 20;

/// Reads a text file that a person wrote.
pub fn read_text(path: &Path, field: &str) -> Result<String, Failure> {
    let refused = |what: String| Failure::usage(format!("{}: {what}", path.display())).field(field);
    let bytes = input_file::read(path, MOST_TEXT).map_err(|e| refused(format!("cannot be read: {e}")))?;
    let hint = formats::hint_of_text(&bytes);
    let text = bytes.strip_prefix(MARK).map_or(bytes.clone(), <[u8]>::to_vec);
    match (String::from_utf8(text), hint) {
        (_, Some(hint)) => Err(refused("is no text that can be read".into()).hint(hint)),
        (Err(_), None) => Err(refused("is not UTF-8 text".into()).hint("save it as UTF-8")),
        (Ok(text), None) => Ok(text),
    }
}

/// What some editors put before text in UTF-8: it says nothing.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Writes the plan's very bytes.
pub fn write_plan(path: &Path, plan: &Plan) -> Result<(), Failure> {
    output_file::write_bytes(path, "--out", plan.to_json().as_bytes())
}
