//! Statistics of a table: roots, layouts, vectors of rows and figures.

use serde::Deserialize;
use serde_json::{Value, from_value, json};
use undertone_protocol::describe::cells::RowCell;
use undertone_protocol::describe::columns::Description;
use undertone_protocol::describe::figures::estimate::ReadingAs;
use undertone_protocol::describe::layout::RowLayout;
use undertone_protocol::describe::released::ReleasedSum;
use undertone_protocol::describe::root::Root;
use undertone_protocol::describe::row::RowEncoder;
use undertone_protocol::plan::computation::describe::RawDescription;

use crate::Answer;

/// A description with its defaults. What only other programs read in it is left out.
fn description(given: &Value) -> Result<Description, Box<dyn std::error::Error>> {
    let mut raw = given["describe"].clone();
    if let Some(described) = raw.as_object_mut() {
        described.remove("adjacency");
        let columns = described.get_mut("column").and_then(Value::as_array_mut);
        for column in columns.into_iter().flatten().filter_map(Value::as_object_mut) {
            column.remove("flag");
            column.remove("quantiles");
        }
    }
    let raw: RawDescription = from_value(raw)?;
    let described = raw
        .complete()
        .map_err(|(field, problem)| format!("{field} {problem}"))?;
    described
        .check()
        .map_err(|(field, fault)| format!("{field} {fault}"))?;
    Ok(described)
}

#[derive(Deserialize)]
struct Length {
    length: usize,
}

pub(crate) fn root(given: &Value) -> Answer {
    let Length { length } = from_value(given.clone())?;
    let root = Root::of(length);
    Ok(json!({
        "last": root.coefficients()[length - 1],
        "sum_of_squares": root.norm_squared(),
        "diameter_squared": root.diameters_squared()[length],
    }))
}

pub(crate) fn layout(given: &Value) -> Answer {
    let layout = RowLayout::of(&description(given)?);
    let blocks: Vec<Value> = layout
        .blocks
        .iter()
        .map(|block| {
            json!({
                "column": block.subject,
                "want": block.kind.name(),
                "at": block.at,
                "length": block.length,
                "grouped": block.grouped,
                "diameter_squared": block.diameter_squared,
                "norm_squared": block.norm_squared,
                "scale": block.scale,
            })
        })
        .collect();
    Ok(json!({
        "length": layout.coordinates,
        "slots": layout.slots,
        "slot_length": layout.slot_length,
        "kappa_squared": layout.kappa_squared,
        "delta_replace_one": layout.replace_one,
        "delta_zero_out": layout.zero_out,
        "blocks": blocks,
    }))
}

/// A cell of JSON.
fn cell(value: Option<&Value>) -> RowCell<'_> {
    match value {
        Some(Value::Number(number)) => number.as_f64().map_or(RowCell::Empty, RowCell::Number),
        Some(Value::String(text)) => RowCell::Text(text),
        Some(Value::Bool(truth)) => RowCell::Text(if *truth { "true" } else { "false" }),
        _ => RowCell::Empty,
    }
}

pub(crate) fn rows(given: &Value) -> Answer {
    let described = description(given)?;
    let mut encoder = RowEncoder::of(&described);
    let names = described.names();
    let rows = given["rows"].as_array().ok_or("rows")?;
    let vectors: Vec<Vec<f64>> = rows
        .iter()
        .map(|row| {
            let cells: Vec<RowCell<'_>> = names.iter().map(|name| cell(row.get(*name))).collect();
            encoder.vector(&cells)
        })
        .collect();
    Ok(json!({ "vectors": vectors }))
}

#[derive(Deserialize)]
struct Sum {
    sums: Vec<f64>,
    noise: f64,
    rows: Option<f64>,
}

pub(crate) fn figures(given: &Value) -> Answer {
    let Sum { sums, noise, rows } = from_value(given.clone())?;
    let released = ReleasedSum::of(description(given)?, sums, noise, rows);
    let released = released.map_err(|length| format!("{length} coordinates"))?;
    let mut asked = ReadingAs::default();
    let columns = given["describe"]["column"].as_array();
    if let Some(quantiles) = columns
        .into_iter()
        .flatten()
        .find_map(|column| column.get("quantiles"))
    {
        asked.quantiles = from_value(quantiles.clone())?;
    }
    Ok(serde_json::to_value(released.figures(&asked))?)
}
