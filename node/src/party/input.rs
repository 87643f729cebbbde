//! What a party brings, held against the plan.

use std::path::Path;

use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::run_file::handed_over::ClippedBy;
use undertone_protocol::plan::run_file::settings::Unit;
use undertone_protocol::plan::run_file::training::ModelSettings;
use undertone_protocol::topology::party::Party;

use crate::telling::failure::Failure;
use crate::vector_file::layout::{Dtype, Format, Layout};

/// Refuses another shape than the plan's, and another number of records (exit 7).
pub fn check(plan: &Plan, me: Party, layout: &Layout, path: &Path) -> Result<(), Failure> {
    match brings_rows(plan) {
        false => check_vector(plan, layout, path)?,
        true => check_records(plan, me, layout, path)?,
    }
    let draft = plan.draft();
    let named = match (&draft.model, &draft.outer) {
        (Some(model), _) => &model.names,
        (None, Some(outer)) => &outer.names,
        (None, None) => &draft.data.columns,
    };
    match named {
        Some(columns) => check_columns(columns, layout, path),
        None => Ok(()),
    }
}

/// Refuses what a program hands over in another shape than the plan's, or with another number of
/// rows.
///
/// # Errors
/// What is different, for the program's owner.
pub fn check_handed_over(plan: &Plan, me: Party, layout: &Layout) -> Result<(), String> {
    let expected = shape_handed_over(plan, me);
    if layout.shape == expected {
        return Ok(());
    }
    Err(format!(
        "what was handed over has shape {:?}, the plan wants {expected:?}",
        layout.shape
    ))
}

/// Whether each row of what a party brings is clipped here: not where a program clips them.
fn brings_rows(plan: &Plan) -> bool {
    let data = &plan.draft().data;
    data.unit == Unit::Record && data.clipped == ClippedBy::ByNode
}

/// The shape of what a party hands over in a round: a vector, as many rows as planned, or the sum
/// of these.
pub fn shape_handed_over(plan: &Plan, me: Party) -> Vec<usize> {
    let draft = plan.draft();
    let mut shape = draft.data.shape.clone();
    if brings_rows(plan) {
        let rows = draft.members[me].records.unwrap_or(0);
        shape.insert(0, usize::try_from(rows).unwrap_or(usize::MAX));
    }
    shape
}

/// Refuses a table whose names are not these, in this order. Files without a name for each column
/// say nothing.
pub fn check_columns(columns: &[String], layout: &Layout, path: &Path) -> Result<(), Failure> {
    let Some(found) = layout.columns().filter(|found| found.len() == columns.len()) else {
        return Ok(());
    };
    let differs = |(found, planned): (&String, &String)| found != planned;
    let Some(at) = found.iter().zip(columns).position(differs) else {
        return Ok(());
    };
    Err(unusable(
        path,
        &format!(
            "column {} is not called {:?}, as in the plan (data.columns)",
            at + 1,
            columns[at]
        ),
        "put the columns into the plan's order and call them as it does",
    ))
}

fn check_vector(plan: &Plan, layout: &Layout, path: &Path) -> Result<(), Failure> {
    let expected = &plan.draft().data.shape;
    if &layout.shape == expected || &layout.vector_shape() == expected {
        return Ok(());
    }
    let (found, dimension) = (layout.dimension(), plan.draft().dimension());
    Err(unusable(
        path,
        &format!(
            "shape {:?} ({found} coordinates), the plan has {expected:?} ({dimension} coordinates)",
            layout.shape
        ),
        "every member brings a vector of the plan's shape",
    ))
}

fn check_records(plan: &Plan, me: Party, layout: &Layout, path: &Path) -> Result<(), Failure> {
    let (draft, member) = (plan.draft(), &plan.draft().members[me]);
    let expected = match (&draft.model, &draft.outer) {
        (Some(model), _) => &vec![model.columns],
        (None, Some(outer)) => &vec![outer.columns],
        (None, None) => &draft.data.shape,
    };
    let Some((count, shape)) = layout.records() else {
        return Err(unusable(
            path,
            no_records(layout),
            "bring a matrix with one record a row, as .npy, .csv or .json",
        ));
    };
    if &shape != expected {
        return Err(unusable(
            path,
            &format!("records of shape {shape:?}, the plan has records of shape {expected:?}"),
            "every row of the file is one record of the plan's shape",
        ));
    }
    let planned = member.records.unwrap_or(0);
    if count != planned {
        return Err(unusable(
            path,
            &format!("{count} records, the plan has {planned} of {}", member.name),
            "bring as many rows as the peer list says, or ask for a plan with another count",
        ));
    }
    Ok(())
}

/// Why a file has no records.
pub fn no_records(layout: &Layout) -> &'static str {
    match layout.format {
        Format::Safetensors { .. } => {
            "a model is one vector; it has no rows that could be records (data.unit is \"record\")"
        }
        _ => "a single number has no rows that could be records (data.unit is \"record\")",
    }
}

fn unusable(path: &Path, what: &str, hint: &str) -> Failure {
    Failure::input(format!("{}: {what}", path.display()))
        .field("--input")
        .hint(hint)
}

/// What the mean looks like in a party's own format.
pub fn layout_of_mean(plan: &Plan, input: &Layout) -> Layout {
    if let Some(model) = &plan.draft().model {
        return layout_of_model(model);
    }
    if plan.draft().outer.is_some() {
        return layout_of_rounds(plan);
    }
    match brings_rows(plan) {
        false => input.clone(),
        true => input.of_one_record(&plan.draft().data.shape),
    }
}

/// What the last mean of many looks like, whatever a program read.
pub fn layout_of_rounds(plan: &Plan) -> Layout {
    Layout::npy(plan.draft().data.shape.clone(), Dtype::F64)
}

/// What a model's numbers look like in a file of numbers alone.
pub fn layout_of_model(model: &ModelSettings) -> Layout {
    let shape = match model.classes {
        Some(classes) => vec![classes, model.features()],
        None => vec![model.parameters()],
    };
    Layout::npy(shape, Dtype::F64)
}
