//! A party's contribution, checked against the plan.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use undertone_protocol::describe::columns::RowCount;
use undertone_protocol::plan::checked::{Plan, RecordsAtStart};
use undertone_protocol::plan::computation::model::ModelSettings;
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::records::Records;
use undertone_protocol::plan::run_file::settings::{Contributed, TaskName, Unit};
use undertone_protocol::topology::party::Party;

use crate::planning::template::is_model;
use crate::reporting::failure::Failure;
use crate::vector_file::expected::Expected;
use crate::vector_file::formats;
use crate::vector_file::layout::{Dtype, Format, Layout, Tensor};
use crate::vector_file::vector::VectorFile;

/// Refuses another shape than the plan's, and another number of records (exit 7).
pub fn check(plan: &Plan, me: Party, layout: &Layout, path: &Path) -> Result<(), Failure> {
    match has_rows(plan) {
        false if streams(plan) => check_stream(plan, layout, path)?,
        false => check_vector(plan, layout, path)?,
        true => check_records(plan, me, layout, path)?,
    }
    if let Some(odd) = odd_tensor(plan, None, layout) {
        let hint = "bring a model whose tensors are the plan's (data.tensors), in name and extents";
        return Err(unusable(path, &odd, hint));
    }
    let draft = plan.draft();
    match names(draft) {
        Some(columns) => check_columns((columns, PLAN), layout, path),
        None => Ok(()),
    }
}

/// The names of a row's columns, where the plan has them.
fn names(draft: &Draft) -> Option<&[String]> {
    match draft.computation.columns() {
        Some(columns) => columns.names,
        None => draft.data.columns.as_deref(),
    }
}

/// Returns the plan's expectations of a party's file before it is read.
pub fn expected(plan: &Plan, me: Party) -> Expected<'_> {
    let draft = plan.draft();
    let rows = match has_rows(plan) {
        // A bound is no number that a table must have.
        true => match draft.members[me].records {
            Some(Records::Exactly(count)) => Some(count),
            Some(Records::AtMost(_)) | None => None,
        },
        false if streams(plan) => Some(draft.releases()),
        false => Some(1),
    };
    let columns = draft.computation.columns();
    let row = columns.map_or(draft.dimension(), |columns| columns.count);
    let rows = rows.and_then(|rows| usize::try_from(rows).ok());
    Expected {
        columns: names(draft),
        numbers: rows.and_then(|rows| rows.checked_mul(row)),
    }
}

/// Refuses what a program hands over in another shape than the plan's, with another number of rows,
/// or not finite where it is not rows: a row that is not finite is one row, and clipping takes it
/// for the point of its range nearest to zero.
///
/// # Errors
/// What is different, for the program's owner.
pub fn check_handed_over(plan: &Plan, me: Party, handed: &VectorFile) -> Result<(), String> {
    check_shape(plan, me, &handed.layout)?;
    match judges_rows(plan) {
        true => Ok(()),
        false => formats::finite(handed),
    }
}

/// Whether a party hands over rows that are clipped here, each by itself, in every round.
pub fn judges_rows(plan: &Plan) -> bool {
    plan.draft().computation.task() == TaskName::Rounds && contributes_rows(plan)
}

fn check_shape(plan: &Plan, me: Party, layout: &Layout) -> Result<(), String> {
    if let Format::Safetensors { .. } = &layout.format {
        if plan.draft().data.tensors.is_none() {
            return Err(
                "a .safetensors was handed over, and the plan names no tensors (data.tensors)".into(),
            );
        }
        let odd = odd_tensor(plan, rows_handed_over(plan, me), layout);
        return odd.map_or(Ok(()), |odd| Err(format!("what was handed over has {odd}")));
    }
    let expected = shape_handed_over(plan, me);
    if layout.shape == expected {
        return Ok(());
    }
    Err(format!(
        "what was handed over has shape {:?}, the plan wants {expected:?}",
        layout.shape
    ))
}

/// Returns the values handed over, row by row.
///
/// # Errors
/// Those of [`check_handed_over`].
pub fn values_handed_over(plan: &Plan, me: Party, handed: VectorFile) -> Result<Vec<f64>, String> {
    check_handed_over(plan, me, &handed)?;
    let is_model = matches!(handed.layout.format, Format::Safetensors { .. });
    match (
        rows_handed_over(plan, me).filter(|_| is_model),
        &plan.draft().data.tensors,
    ) {
        (Some(_), Some(tensors)) => Ok(row_by_row(plan, tensors, &handed.values)),
        _ => Ok(handed.values),
    }
}

/// A file of rows as the matrix that they make: tensors with an axis of rows in front become one
/// row each; other files stay as they are.
///
/// # Errors
/// Tensors that are not the plan's, or have not as many rows as each other.
pub fn matrix_of(plan: &Plan, file: VectorFile) -> Result<VectorFile, String> {
    let Format::Safetensors { tensors, .. } = &file.layout.format else {
        return Ok(file);
    };
    let Some(planned) = &plan.draft().data.tensors else {
        return Err("it has tensors, and the plan names none (data.tensors)".into());
    };
    let rows = tensors
        .first()
        .and_then(|tensor| tensor.shape.first())
        .copied()
        .unwrap_or(0);
    if let Some(odd) = odd_tensor(plan, Some(rows), &file.layout) {
        return Err(format!("it has {odd}"));
    }
    let shape = [&[rows], &plan.draft().data.shape[..]].concat();
    Ok(VectorFile {
        values: row_by_row(plan, planned, &file.values),
        layout: Layout::npy(shape, Dtype::F64),
    })
}

/// Values of tensors, each of which has its rows one after the other, as whole rows.
fn row_by_row(plan: &Plan, tensors: &BTreeMap<String, Vec<usize>>, given: &[f64]) -> Vec<f64> {
    let dimension = plan.draft().dimension();
    let rows = given.len() / dimension;
    let mut values = vec![0.0; given.len()];
    let (mut rest, mut at) = (given, 0);
    for shape in tensors.values() {
        let length: usize = shape.iter().product();
        let (own, others) = rest.split_at(rows * length);
        for (row, cells) in own.chunks(length).enumerate() {
            values[row * dimension + at..][..length].copy_from_slice(cells);
        }
        (rest, at) = (others, at + length);
    }
    values
}

/// How many rows a party hands over in a round, where it hands over rows.
fn rows_handed_over(plan: &Plan, me: Party) -> Option<usize> {
    let rows = plan.records(me).unwrap_or(0);
    contributes_rows(plan).then(|| usize::try_from(rows).unwrap_or(usize::MAX))
}

/// Where a model's tensors are not the plan's, which may have an axis of rows before their own: the
/// first that differs. Other files, and plans without tensors, say nothing.
fn odd_tensor(plan: &Plan, rows: Option<usize>, layout: &Layout) -> Option<String> {
    let planned = plan.draft().data.tensors.as_ref()?;
    let of_plan = |(name, shape): (&String, &Vec<usize>)| {
        (
            name.clone(),
            rows.into_iter()
                .chain(shape.iter().copied())
                .collect::<Vec<usize>>(),
        )
    };
    layout.odd_tensor(&planned.iter().map(of_plan).collect::<Vec<_>>())
}

/// Whether a party's file has a row for each record: a model's does, whatever is protected.
fn has_rows(plan: &Plan) -> bool {
    plan.draft().computation.model().is_some() || contributes_rows(plan)
}

/// Whether everybody knows how many rows a party contributes.
fn counts_rows(plan: &Plan) -> bool {
    let described = plan.draft().computation.described();
    described.is_none_or(|settings| settings.describe.count == RowCount::Public)
}

/// Whether each row of what a party contributes is clipped here: not where a program clips them.
fn contributes_rows(plan: &Plan) -> bool {
    let data = &plan.draft().data;
    data.unit == Unit::Record && data.contributed != Contributed::ByProgram
}

/// The shape of what a party hands over in a round: a vector, as many rows as planned, or the sum
/// of these.
pub fn shape_handed_over(plan: &Plan, me: Party) -> Vec<usize> {
    let draft = plan.draft();
    let mut shape = draft.data.shape.clone();
    if let Some(rows) = rows_handed_over(plan, me) {
        shape.insert(0, rows);
    }
    shape
}

/// The source of the column names of a plan, in messages.
pub const PLAN: &str = "the plan (data.columns)";

/// Refuses a table whose names are not these, in this order; `whose` is what messages call them.
/// Files without a name for each column say nothing.
pub fn check_columns(
    (columns, whose): (&[String], &str),
    layout: &Layout,
    path: &Path,
) -> Result<(), Failure> {
    let Some(found) = layout.columns().filter(|found| found.len() == columns.len()) else {
        return Ok(());
    };
    let differs = |(found, planned): (&String, &String)| found != planned;
    let Some(at) = found.iter().zip(columns).position(differs) else {
        return Ok(());
    };
    Err(unusable(
        path,
        &format!("column {} is not called {:?}, as in {whose}", at + 1, columns[at]),
        "put the columns into that order and call them so",
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

/// Whether a party contributes a row for each of many releases.
fn streams(plan: &Plan) -> bool {
    let draft = plan.draft();
    draft.computation.stream().is_some() && draft.releases() > 1
}

/// A row for each release, in order.
fn check_stream(plan: &Plan, layout: &Layout, path: &Path) -> Result<(), Failure> {
    let Some((count, shape)) = layout.records() else {
        let hint = "bring a matrix with one release a row, as .npy, .csv or .json";
        return Err(unusable(path, no_records(layout), hint));
    };
    let (expected, releases) = (&plan.draft().data.shape, plan.draft().releases());
    if &shape != expected {
        return Err(unusable(
            path,
            &format!("rows of shape {shape:?}, the plan has releases of shape {expected:?}"),
            "every row of the file is one release of the plan's shape",
        ));
    }
    if count != releases {
        return Err(unusable(
            path,
            &format!("{count} rows, the plan has {releases} releases (data.releases)"),
            "bring a row for each release, in order, or ask for a plan with as many",
        ));
    }
    Ok(())
}

fn check_records(plan: &Plan, me: Party, layout: &Layout, path: &Path) -> Result<(), Failure> {
    let draft = plan.draft();
    let columns = draft.computation.columns();
    let expected = &columns.map_or(draft.data.shape.clone(), |columns| vec![columns.count]);
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
    check_rows(plan, me, count, path)
}

/// Refuses another number of rows than the plan has of this party (exit 7).
pub fn check_rows(plan: &Plan, me: Party, count: u64, path: &Path) -> Result<(), Failure> {
    let (member, counts) = (&plan.draft().members[me], counts_rows(plan));
    // Where a party is protected nobody else knows how many rows it has.
    match member.records {
        Some(Records::Exactly(capacity)) if !counts && count <= capacity => Ok(()),
        Some(Records::Exactly(capacity)) if !counts => Err(unusable(
            path,
            &format!("more rows than the {capacity} that the plan has room for"),
            "ask for a plan with a larger data.records",
        )),
        Some(Records::Exactly(planned)) if count != planned => Err(unusable(
            path,
            &format!("{count} records, the plan has {planned} of {}", member.name),
            "bring as many rows as data.records says, or ask for a plan with another number, or with \
             records = { at_most = … }",
        )),
        Some(bound @ Records::AtMost(most)) if !bound.admits(count) => Err(unusable(
            path,
            &format!("{count} records, the plan has at most {most} of {}", member.name),
            "bring at least one row, and no more than data.records.at_most says",
        )),
        _ => Ok(()),
    }
}

/// The plan with the number of records that this party brings, where it only bounds that: as many
/// as its file has rows, or `stated`, where a program hands over their sum.
///
/// # Errors
/// No number, or one that the plan does not allow (exit 2).
pub fn counted(
    plan: Arc<Plan>,
    me: Party,
    layout: Option<&Layout>,
    stated: Option<u32>,
) -> Result<Arc<Plan>, Failure> {
    let rows = layout.filter(|_| has_rows(&plan));
    let found = rows
        .and_then(Layout::records)
        .and_then(|(count, _)| u32::try_from(count).ok());
    let usage = |what: String, hint| Err(Failure::usage(what).field("--records").hint(hint));
    let Some(bound @ Records::AtMost(most)) = plan.draft().members[me].records else {
        return match stated {
            None => Ok(plan),
            Some(_) => usage(
                "this plan does not ask its parties for their numbers of records".into(),
                "leave the number out",
            ),
        };
    };
    match (found, stated) {
        (Some(found), Some(stated)) if found != stated => usage(
            format!("{stated} records are stated, and the table has {found}"),
            "leave the number out: it is that of the table's rows",
        ),
        (None, None) => usage(
            format!("the plan has at most {most} records of this party, and nothing says how many it brings"),
            "say it: --records N, or records=N in a request",
        ),
        (Some(count), _) | (None, Some(count)) if bound.admits(count.into()) => {
            Ok(Arc::new(plan.with_records(&RecordsAtStart::from([(me, count)]))))
        }
        _ => usage(
            format!("the plan has from 1 to {most} records of this party"),
            "bring no more, or ask for a plan with a larger data.records.at_most",
        ),
    }
}

/// Says why a file has no records.
pub fn no_records(layout: &Layout) -> &'static str {
    match layout.format {
        Format::Safetensors { .. } => "a model is one vector; it has no rows that could be records",
        _ => "a single number has no rows that could be records",
    }
}

pub(super) fn unusable(path: &Path, what: &str, hint: &str) -> Failure {
    Failure::input(format!("{}: {what}", path.display()))
        .field("--input")
        .hint(hint)
}

/// Returns the layout of the mean in a party's own format.
pub fn layout_of_mean(plan: &Plan, input: &Layout) -> Layout {
    if let Some(model) = plan.draft().computation.model() {
        return layout_of_model(model);
    }
    if plan.draft().computation.recursion().is_some() {
        return Layout::npy(plan.draft().data.shape.clone(), Dtype::F64);
    }
    match contributes_rows(plan) {
        false => input.clone(),
        true => input.of_one_record(&plan.draft().data.shape),
    }
}

/// Returns the layout of the last mean of many, in a file of this name: numbers, or a model of the
/// plan's tensors. Where the plan names a template the layout is that of `template`. Otherwise,
/// where a program reads such a model, the layout is that of `own`, with its tensors of whole
/// numbers.
///
/// # Errors
/// The program's own model is none of the plan's (exit 7).
pub fn layout_of_rounds(
    plan: &Plan,
    output: &Path,
    (template, own): (Option<Layout>, Option<&Path>),
) -> Result<Layout, Failure> {
    if streams(plan) {
        let mut shape = plan.draft().data.shape.clone();
        shape.insert(0, plan.draft().releases() as usize);
        return Ok(Layout::npy(shape, Dtype::F64));
    }
    let Some(model) = layout_of_tensors(plan, Dtype::F32).filter(|_| is_model(output)) else {
        return Ok(Layout::npy(plan.draft().data.shape.clone(), Dtype::F64));
    };
    if let Some(template) = template {
        return Ok(template);
    }
    let Some(own) = own.filter(|own| is_model(own)) else {
        return Ok(model);
    };
    let layout = formats::read(own)?.layout;
    match odd_tensor(plan, None, &layout) {
        None => Ok(layout),
        Some(odd) => Err(unusable(
            own,
            &odd,
            "write the last mean as .npy: --output mean.npy",
        )),
    }
}

/// A model of the plan's tensors, all of this type; none where it names none.
pub fn layout_of_tensors(plan: &Plan, dtype: Dtype) -> Option<Layout> {
    let draft = plan.draft();
    let tensor = |(name, shape): (&String, &Vec<usize>)| Tensor {
        name: name.clone(),
        shape: shape.clone(),
        dtype,
    };
    let tensors = draft.data.tensors.as_ref()?.iter().map(tensor).collect();
    Some(Layout {
        shape: draft.data.shape.clone(),
        format: Format::Safetensors {
            tensors,
            metadata: BTreeMap::new(),
            carried: vec![],
        },
    })
}

/// Returns the layout of a model in a file of numbers alone.
pub fn layout_of_model(model: &ModelSettings) -> Layout {
    let shape = match model.classes {
        Some(classes) => vec![classes, model.features()],
        None => vec![model.parameters()],
    };
    Layout::npy(shape, Dtype::F64)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::testing::plan_of;

    fn handed(tensors: &[(&str, &[usize])]) -> VectorFile {
        let tensor = |&(name, shape): &(&str, &[usize])| Tensor {
            name: name.into(),
            shape: shape.to_vec(),
            dtype: Dtype::F32,
        };
        let count: usize = tensors
            .iter()
            .map(|(_, shape)| shape.iter().product::<usize>())
            .sum();
        VectorFile {
            layout: Layout {
                shape: vec![count],
                format: Format::Safetensors {
                    tensors: tensors.iter().map(tensor).collect(),
                    metadata: BTreeMap::new(),
                    carried: vec![],
                },
            },
            values: (0..count).map(|at| at as f64).collect(),
        }
    }

    #[test]
    fn rows_of_tensors_become_rows() {
        let plan = |data: &str| {
            let text = format!(
                "task = \"rounds\"\nname = \"rows\"\n[data]\nreleases = 2\nunit = \"record\"\n\
                 clip = {{ kind = \"l2\", radius = 1.0 }}\n{data}\n"
            );
            plan_of(&text, 4, Some(3))
        };
        let named = plan("tensors = { a = [], b = [2] }");
        let rows = values_handed_over(&named, 0, handed(&[("a", &[3]), ("b", &[3, 2])]));
        assert_eq!(rows, Ok(vec![0.0, 3.0, 4.0, 1.0, 5.0, 6.0, 2.0, 7.0, 8.0]));
        let odd = |tensors: &[(&str, &[usize])], words: &str| {
            let refused = values_handed_over(&named, 0, handed(tensors)).expect_err("odd");
            assert!(refused.contains(words), "{refused}");
        };
        odd(&[("a", &[2]), ("b", &[2, 2])], "tensor \"a\" of shape [2], where");
        odd(
            &[("a", &[3]), ("c", &[3, 2])],
            "\"c\" of shape [3, 2], where the plan has tensor \"b\"",
        );
        odd(&[("a", &[3])], "1 tensors, the plan has 2");
        let unnamed = values_handed_over(&plan("shape = [3]"), 0, handed(&[("a", &[3, 3])]));
        assert!(unnamed.is_err_and(|refused| refused.contains("names no tensors")));
    }
}
