//! `undertone schema`: JSON Schemas of the files that people write, from the tables of their keys.

use std::ops::Bound;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use undertone_protocol::plan::defaults::{SETTINGS, Setting, belongs, tasks};
use undertone_protocol::plan::peers::PEER_KEYS;
use undertone_protocol::plan::run_file::settings::TaskName;
use undertone_protocol::plan::values::Values;

use crate::daemon::config::layers::KEYS;
use crate::reporting::report::Report;

/// A file that people write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WrittenFile {
    /// RUN.toml: what is computed
    RunFile,
    /// NODE.toml: a daemon's configuration
    Node,
    /// PEERS.toml: who may take part
    Peers,
}

/// Flags of `schema`.
#[derive(Args, Debug)]
pub struct SchemaArgs {
    /// The file whose keys an editor is to complete and check
    #[arg(value_name = "FILE")]
    file: WrittenFile,
}

/// The dialect: the newest that common editors of TOML know.
const DIALECT: &str = "http://json-schema.org/draft-07/schema#";

/// Prints the schema.
pub fn run(arguments: &SchemaArgs) -> Report {
    let schema = of(arguments.file);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
    text.push('\n');
    Report::done(json!({ "schema": schema, "exit_code": 0 }), text)
}

/// The schema of a file.
pub(super) fn of(file: WrittenFile) -> Value {
    match file {
        WrittenFile::RunFile => run_file(),
        WrittenFile::Node => {
            let lists = [
                ("data_set", &["name", "epsilon", "delta"][..]),
                ("auto_accept", &["proposer", "data_set"]),
                ("schedule", &["name", "run", "every", "data_set"]),
            ];
            file_schema(
                "The configuration of an Undertone daemon",
                sections(KEYS),
                &lists,
                &[],
            )
        }
        WrittenFile::Peers => {
            let lists = [("peer", &["name", "id"][..]), ("relay", &["name", "id", "at"])];
            let title = "The parties that may take part in runs of Undertone";
            file_schema(title, sections(PEER_KEYS), &lists, &["version"])
        }
    }
}

/// The schemas of the keys by section, "" at the top.
fn sections(keys: &[Setting]) -> Map<String, Value> {
    let mut sections: Map<String, Value> = Map::new();
    for setting in keys {
        let of = sections.entry(setting.section).or_insert_with(|| json!({}));
        of[setting.key] = described(setting);
    }
    sections
}

/// A file's schema. `lists` are the tables that may stand several times, with the keys that each
/// needs.
fn file_schema(
    title: &str,
    mut sections: Map<String, Value>,
    lists: &[(&str, &[&str])],
    required: &[&str],
) -> Value {
    let mut properties = sections.remove("").unwrap_or_else(|| json!({}));
    // In the order of names: a table comes before the lists in it.
    for (section, keys) in sections {
        let mut table = json!({ "type": "object", "properties": keys, "additionalProperties": false });
        if let Some((_, needed)) = lists.iter().find(|(list, _)| *list == section) {
            table["required"] = json!(needed);
            table = json!({ "type": "array", "items": table });
        }
        match section.split_once('.') {
            None => properties[section] = table,
            Some((outer, list)) => {
                let list_of = json!({ "type": "array", "items": table });
                properties[outer]["properties"][list] = list_of;
            }
        }
    }
    let mut schema = json!({
        "$schema": DIALECT, "title": title, "type": "object",
        "properties": properties, "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// The run file's schema: every key, and for each task a condition that refuses those of others.
fn run_file() -> Value {
    let mut all: Map<String, Value> = Map::new();
    for setting in SETTINGS {
        let section = all.entry(setting.section).or_insert_with(|| json!({}));
        let schema = described(setting);
        let known = section.get(setting.key).cloned();
        section[setting.key] = match known {
            None => schema,
            Some(Value::Object(known)) if known.contains_key("anyOf") && known.len() == 1 => {
                let mut kinds = known["anyOf"].as_array().cloned().unwrap_or_default();
                kinds.push(schema);
                json!({ "anyOf": kinds })
            }
            Some(known) => json!({ "anyOf": [known, schema] }),
        };
    }
    let mut schema = file_schema("A run of Undertone", all, &[], &[]);
    schema["allOf"] = tasks().iter().copied().map(of_task).collect();
    schema
}

/// "If the task is this one, its keys have these values, and those of other tasks are refused."
fn of_task(task: TaskName) -> Value {
    let mut sections: Map<String, Value> = Map::new();
    for setting in SETTINGS {
        let section = sections.entry(setting.section).or_insert_with(|| json!({}));
        if setting.tasks.contains(&task) {
            section[setting.key] = values(&setting.values);
        } else if belongs(&setting.field(), task) == Some(false) {
            section[setting.key] = json!(false);
        }
    }
    let mut properties = sections.remove("").unwrap_or_else(|| json!({}));
    for (section, keys) in sections {
        let table = match belongs(&section, task) {
            Some(true) => json!({ "properties": keys }),
            _ => json!(false),
        };
        match section.split_once('.') {
            None => properties[&section] = table,
            // What belongs to another task is refused with the table that it is in.
            Some((outer, _)) if properties[outer] == json!(false) => {}
            Some((outer, list)) => properties[outer]["properties"][list] = json!({ "items": table }),
        }
    }
    let mut asked = json!({ "properties": { "task": { "const": task.name() } } });
    if task != tasks()[0] {
        asked["required"] = json!(["task"]);
    }
    json!({ "if": asked, "then": { "properties": properties } })
}

/// A key's schema with what an editor shows.
fn described(setting: &Setting) -> Value {
    let mut text = setting.explanation.to_owned();
    if !setting.unit.is_empty() {
        text += &format!("; unit: {}", setting.unit);
    }
    if let Some(tasks) = setting.task_names() {
        text += &format!("; tasks: {}", tasks.join(", "));
    }
    let mut schema = values(&setting.values);
    schema["description"] = json!(text);
    if let Some(default) = setting.default.and_then(as_json) {
        schema["default"] = default;
    }
    if let Some(example) = setting.example.and_then(as_json) {
        schema["examples"] = json!([example]);
    }
    schema
}

/// A value as TOML text; `None` if it is none, which a test rules out.
fn as_json(text: &str) -> Option<Value> {
    let document: toml::Table = toml::from_str(&format!("value = {text}")).ok()?;
    serde_json::to_value(document.get("value")?).ok()
}

fn values(of: &Values) -> Value {
    match of {
        Values::Flag => json!({ "type": "boolean" }),
        Values::Words(words) => json!({ "enum": words }),
        Values::Whole(least, most) => {
            let mut schema = json!({ "type": "integer", "minimum": least });
            if *most < u64::MAX {
                schema["maximum"] = json!(most);
            }
            schema
        }
        Values::Number(low, high) => {
            let mut schema = json!({ "type": "number" });
            for (bound, included, excluded) in [
                (low, "minimum", "exclusiveMinimum"),
                (high, "maximum", "exclusiveMaximum"),
            ] {
                match bound {
                    Bound::Included(bound) => schema[included] = json!(bound),
                    Bound::Excluded(bound) => schema[excluded] = json!(bound),
                    Bound::Unbounded => {}
                }
            }
            schema
        }
        Values::Text(pattern, _) => json!({ "type": "string", "pattern": pattern }),
        Values::List(of, least) => json!({ "type": "array", "items": values(of), "minItems": least }),
        Values::Named(of) => json!({ "type": "object", "additionalProperties": values(of) }),
        Values::Table(entries) => {
            let mut properties = json!({});
            let mut required = vec![];
            for (key, of) in *entries {
                let (key, optional) = Values::entry(key);
                properties[key] = values(of);
                if !optional {
                    required.push(key);
                }
            }
            json!({
                "type": "object", "properties": properties, "required": required,
                "additionalProperties": false,
            })
        }
        Values::OneOf(kinds) => json!({ "anyOf": kinds.iter().map(values).collect::<Vec<_>>() }),
    }
}

#[cfg(test)]
mod tests;
