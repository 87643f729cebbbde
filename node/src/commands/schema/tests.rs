use std::collections::BTreeSet;

use undertone_protocol::plan::defaults::tasks_of;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::raw::RawRunFile;

use super::*;
use crate::daemon::config::layers;

/// The keys that a parser names when it refuses one that it does not know.
fn keys_of(refusal: &str) -> BTreeSet<String> {
    let (_, expected) = refusal
        .split_once("expected ")
        .unwrap_or_else(|| panic!("{refusal:?} lists no keys"));
    let quoted = expected.split('`').skip(1).step_by(2);
    quoted.map(str::to_owned).collect()
}

fn keys_in(schema: &Value) -> BTreeSet<String> {
    let properties = schema["properties"].as_object().expect("a table's schema");
    properties.keys().cloned().collect()
}

#[test]
fn schema_has_each_key_that_the_parser_of_its_file_takes_and_no_other() {
    let run = |text: &str| RawRunFile::parse(text).expect_err(text).to_string();
    let node = layers::refusal_of;
    let peers = |text: &str| Peers::parse(text).expect_err(text).to_string();
    type Refusal<'a> = &'a dyn Fn(&str) -> String;
    let parsers: [(WrittenFile, Refusal<'_>); 3] = [
        (WrittenFile::RunFile, &run),
        (WrittenFile::Node, &node),
        (WrittenFile::Peers, &peers),
    ];
    for (file, refused) in parsers {
        let schema = of(file);
        let taken = keys_of(&refused("no_such_key = 1\n"));
        assert_eq!(keys_in(&schema), taken, "{file:?}");
        // Peers have a version, which is missed first.
        let version = if file == WrittenFile::Peers {
            "version = 1\n"
        } else {
            ""
        };
        let mut tables = tables_in(&schema["properties"], "");
        while let Some((header, table)) = tables.pop() {
            let refusal = refused(&format!("{version}{header}\nno_such_key = 1\n"));
            assert_eq!(keys_in(table), keys_of(&refusal), "{file:?}: {header}");
            let name = header.trim_matches(['[', ']']);
            tables.extend(tables_in(&table["properties"], &format!("{name}.")));
        }
    }
}

/// The tables among these keys that have keys of their own, with the line that opens each.
fn tables_in<'a>(properties: &'a Value, outer: &str) -> Vec<(String, &'a Value)> {
    let table = |(name, schema): (&String, &'a Value)| {
        let is_table = |it: &Value| it["additionalProperties"] == json!(false) && it["type"] == "object";
        if is_table(schema) {
            return Some((format!("[{outer}{name}]"), schema));
        }
        let items = schema.get("items").filter(|items| is_table(items))?;
        Some((format!("[[{outer}{name}]]"), items))
    };
    let keys = properties.as_object().expect("a table's keys");
    keys.iter().filter_map(table).collect()
}

/// A run file whose one key has this value; `None` where its table is written out in one line.
fn with(setting: &Setting, value: &str) -> String {
    let task = match setting.tasks.contains(&TaskName::Mean) || setting.key == "task" {
        true => String::new(),
        false => format!("task = \"{}\"\n", setting.tasks[0].name()),
    };
    match setting.section {
        "" => format!("{task}{} = {value}\n", setting.key),
        _ => format!("{task}{}\n{} = {value}\n", setting.header(), setting.key),
    }
}

#[test]
fn defaults_and_examples_are_values_that_the_parser_takes_and_others_are_none() {
    for setting in SETTINGS {
        assert!(setting.shown().is_some(), "{} shows no value", setting.field());
        for value in [setting.default, setting.local, setting.example]
            .into_iter()
            .flatten()
        {
            let text = with(setting, value);
            assert!(
                RawRunFile::parse(&text).is_ok(),
                "{text}: {:?}",
                RawRunFile::parse(&text)
            );
            assert!(as_json(value).is_some(), "{text}");
        }
        for wrong in ["2001-01-01", "{ no_such_key = [{}] }"] {
            let text = with(setting, wrong);
            assert!(RawRunFile::parse(&text).is_err(), "{text}");
        }
        for word in words(&setting.values) {
            let text = with(setting, &format!("{word:?}"));
            assert!(RawRunFile::parse(&text).is_ok(), "{text}");
        }
    }
}

/// The words that stand alone as a value.
fn words(values: &Values) -> Vec<&'static str> {
    match values {
        Values::Words(words) => words.to_vec(),
        Values::OneOf(kinds) => kinds.iter().flat_map(words).collect(),
        _ => vec![],
    }
}

#[test]
fn keys_of_another_task_are_refused_by_condition() {
    let schema = of(WrittenFile::RunFile);
    for (&task, condition) in tasks().iter().zip(schema["allOf"].as_array().expect("a list")) {
        assert_eq!(condition["if"]["properties"]["task"]["const"], task.name());
        for setting in SETTINGS {
            let mut key = &condition["then"]["properties"];
            let outer: Vec<&str> = setting
                .section
                .split('.')
                .filter(|name| !name.is_empty())
                .collect();
            let lists = match outer[..] {
                [] => vec![],
                [table] => vec![table, "properties"],
                [table, list, ..] => vec![table, "properties", list, "items", "properties"],
            };
            for name in lists.into_iter().chain([setting.key]) {
                if *key != json!(false) {
                    key = &key[name];
                }
            }
            let foreign = !tasks_of(&setting.field()).contains(&task);
            assert_eq!(
                *key == json!(false),
                foreign,
                "{}: {}",
                task.name(),
                setting.field()
            );
        }
    }
}
