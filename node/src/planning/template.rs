//! The file of a model that a result of rounds is written as, with its tensors of whole numbers:
//! the plan has its SHA-256, so that the result is the same bytes at all nodes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::template::TemplateChoice;
use undertone_protocol::plan::run_file::raw::RawRunFile;

use crate::reporting::failure::{Exit, Failure};
use crate::reporting::input_file;
use crate::reporting::output_file::extension_of;
use crate::vector_file::formats;
use crate::vector_file::layout::Layout;

/// Whether a file of this name is a model.
pub(crate) fn is_model(path: &Path) -> bool {
    extension_of(path).as_deref() == Some("safetensors")
}

/// Reads the file that a run file names as its template, from the run file's folder on, and puts
/// its SHA-256 in its place; returns where it is, if there is one.
///
/// # Errors
/// A file that cannot be read or is no model of `data.tensors` (exit 2).
pub fn settle(raw: &mut RawRunFile, run_file: &Path) -> Result<Option<PathBuf>, Failure> {
    let Some(TemplateChoice::File(name)) = &raw.data.template else {
        return Ok(None);
    };
    let path = run_file.parent().unwrap_or(Path::new("")).join(name);
    let refused = |what: String, hint: &str| {
        Failure::usage(format!("{}: {what}", path.display()))
            .field("data.template")
            .hint(hint)
            .in_file(run_file)
    };
    let (sha256, layout) = read(&path).map_err(|what| refused(what, NAME_A_MODEL))?;
    if let Some(odd) = raw
        .data
        .tensors
        .as_ref()
        .and_then(|tensors| odd(tensors, &layout))
    {
        return Err(refused(odd.replace("the plan has", "data.tensors has"), OF_PLAN));
    }
    raw.data.template = Some(TemplateChoice::Read { sha256 });
    Ok(Some(path))
}

const NAME_A_MODEL: &str = "name a .safetensors that has the tensors of data.tensors, and those of whole \
                            numbers that the result is to have";
const OF_PLAN: &str = "take a model whose tensors are those of data.tensors, in name and extents, but for \
                       tensors of whole numbers";

/// The template of a plan from the file that somebody names, `field` being what names it; none
/// where the plan names none, or where the result is no model and no file is named.
///
/// # Errors
/// A file where the plan names none, or none where the result has to be written as one (exit 2);
/// another file than the plan's (exit 7).
pub fn of_plan(
    plan: &Plan,
    (path, field): (Option<&Path>, &str),
    output: &Path,
) -> Result<Option<Layout>, Failure> {
    match (plan.draft().template(), path) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(Failure::usage("this plan names no template")
            .field(field)
            .hint("leave it out, or ask for a plan with data.template = \"FILE\"")),
        (Some(sha256), None) if is_model(output) => Err(Failure::usage(format!(
            "the result is written as the plan's template, the file whose SHA-256 is {sha256}"
        ))
        .field(field)
        .hint(format!(
            "name it: {field} FILE; or write numbers alone: --output mean.npy"
        ))),
        (Some(_), None) => Ok(None),
        (Some(sha256), Some(path)) => load(plan, sha256, path)
            .map(Some)
            .map_err(|failure| failure.field(field)),
    }
}

/// The template of a plan in a daemon's data folder, called by its SHA-256; none where the plan
/// names none.
///
/// # Errors
/// No such file (exit 2), or another one than the plan's (exit 7).
pub fn in_folder(plan: &Plan, folder: &Path) -> Result<Option<Layout>, Failure> {
    let Some(sha256) = plan.draft().template() else {
        return Ok(None);
    };
    let path = folder.join(format!("{sha256}.safetensors"));
    if !path.is_file() {
        return Err(
            Failure::usage("the plan names a template, which is not in the daemon's data folder")
                .field("template")
                .hint(format!("copy it there, as {sha256}.safetensors")),
        );
    }
    load(plan, sha256, &path)
        .map(Some)
        .map_err(|failure| failure.field("template"))
}

fn load(plan: &Plan, sha256: &str, path: &Path) -> Result<Layout, Failure> {
    let refused = |what: String, hint: String| {
        Failure::new(Exit::InputUnusable, format!("{}: {what}", path.display())).hint(hint)
    };
    let wanted = || format!("take the file that the plan was made with: its SHA-256 is {sha256}");
    let (found, layout) = read(path).map_err(|what| refused(what, wanted()))?;
    if found != *sha256 {
        return Err(refused(
            format!("is not the plan's template: its SHA-256 is {found}"),
            wanted(),
        ));
    }
    match plan
        .draft()
        .data
        .tensors
        .as_ref()
        .and_then(|tensors| odd(tensors, &layout))
    {
        Some(odd) => Err(refused(odd, OF_PLAN.into())),
        None => Ok(layout),
    }
}

/// SHA-256 of a model's file, and what it looks like.
fn read(path: &Path) -> Result<(String, Layout), String> {
    if !is_model(path) {
        return Err("a template is a .safetensors".into());
    }
    let bytes = input_file::read(path, u64::MAX).map_err(|e| format!("cannot be read: {e}"))?;
    let sha256: String = Sha256::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    if bytes.starts_with(b"\x93NUMPY") {
        return Err("is a .npy".into());
    }
    let layout = formats::of_bytes(bytes)?.layout;
    Ok((sha256, layout))
}

/// Where a model's tensors are not these.
fn odd(tensors: &BTreeMap<String, Vec<usize>>, layout: &Layout) -> Option<String> {
    let planned = tensors.iter().map(|(name, shape)| (name.clone(), shape.clone()));
    let odd = layout.odd_tensor(&planned.collect::<Vec<_>>())?;
    Some(format!("has {odd}"))
}
