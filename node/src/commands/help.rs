//! `undertone help`: a command's page, or a page of the keys that a task's run file has, or of one
//! key.

use clap::{Args, Command};
use serde_json::json;
use undertone_protocol::plan::defaults::{Defaults, SETTINGS, Setting, settings_of};
use undertone_protocol::plan::peers::PEER_KEYS;
use undertone_protocol::plan::run_file::settings::TaskName;
use undertone_protocol::plan::values::Values;

use crate::daemon::config::layers::{self, KEYS};
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;
use crate::reporting::screen::{hanging, page_width};

/// The task, key or command whose page is printed.
#[derive(Args, Debug)]
pub struct HelpArgs {
    /// A task (mean, describe, regression, rounds, stream, linear-equations, optimise), a key
    /// (data.clip), or a command
    #[arg(value_name = "TASK, KEY or COMMAND")]
    about: Vec<String>,
}

/// Prints the page.
///
/// # Errors
/// No such task, key or command (exit 2).
pub fn run(arguments: &HelpArgs, command: Command) -> Result<Report, Failure> {
    let about = arguments.about.join(" ");
    let task = TaskName::ALL.into_iter().find(|task| task.name() == about);
    let text = match task {
        Some(task) => of_task(task),
        None => match of_file(&about).or_else(|| of_key(&about)) {
            Some(page) => page,
            None => of_command(&arguments.about, command)?,
        },
    };
    Ok(Report::done(
        json!({ "about": about, "page": text, "exit_code": 0 }),
        text,
    ))
}

fn of_command(names: &[String], mut command: Command) -> Result<String, Failure> {
    command.build();
    let mut found = &mut command;
    for name in names {
        found = found.find_subcommand_mut(name).ok_or_else(|| {
            let tasks: Vec<&str> = TaskName::ALL.iter().map(|task| task.name()).collect();
            Failure::usage(format!("there is no task, no key and no command {name:?}"))
                .field("TASK, KEY or COMMAND")
                .hint(format!(
                    "tasks are {}, whose pages have the keys; files are run-file, node.toml, peers.toml; \
                     `undertone --help` lists the commands",
                    tasks.join(", ")
                ))
        })?;
    }
    Ok(found.render_long_help().to_string())
}

/// A task in a sentence.
fn summary(task: TaskName) -> &'static str {
    match task {
        TaskName::Mean => "the weighted mean of the parties' vectors, in one release",
        TaskName::Describe => "statistics of a table's columns, all from one release",
        TaskName::Regression => "a model that the parties fit together, from the rows of each",
        TaskName::Rounds => "means in sequence of what programs hand over (training, say)",
        TaskName::Stream => "a mean a round of the rows of a stream, or gossip with open messages",
        TaskName::LinearEquations => {
            "everybody's linear equations, as PPSC's Algorithm 3: reveals exact sums"
        }
        TaskName::Optimise => {
            "the least sum of everybody's losses, as PPSC's Algorithm 4: reveals exact sums"
        }
    }
}

/// The least run file of a task.
fn example(task: TaskName) -> &'static str {
    match task {
        TaskName::Mean => "name = \"study\"\n[data]\nshape = [1000]\n",
        TaskName::Describe => {
            "task = \"describe\"\nname = \"study\"\n[[describe.column]]\nname = \"age\"\nlow = 18\nhigh = 100\n"
        }
        TaskName::Regression => {
            "task = \"regression\"\nname = \"study\"\n[data]\nshape = [31]\n[model]\nloss = \"logistic\"\n"
        }
        TaskName::Rounds => "task = \"rounds\"\nname = \"study\"\n[data]\nshape = [1000]\nreleases = 20\n",
        TaskName::Stream => "task = \"stream\"\nname = \"study\"\n[data]\nshape = [10]\nreleases = 100\n",
        TaskName::LinearEquations => {
            "task = \"linear-equations\"\nname = \"study\"\n[data]\nshape = [4]\n[recursion]\niterations = 300\n\
             [mechanism]\naccept_exact_sum = true\n"
        }
        TaskName::Optimise => {
            "task = \"optimise\"\nname = \"study\"\n[data]\nshape = [4]\n[recursion]\niterations = 300\n\
             loss = \"logistic\"\n[mechanism]\naccept_exact_sum = true\n"
        }
    }
}

/// The page of a task: its least run file, and each of its keys with its default.
fn of_task(task: TaskName) -> String {
    let mut text = format!(
        "task = \"{}\": {}\n\nThe least RUN.toml:\n",
        task.name(),
        summary(task)
    );
    for line in example(task).lines() {
        text += &format!("  {line}\n");
    }
    text += "\nIts keys (default; `local`'s where it differs); undertone help data.clip says more of one\n";
    let mut section = "";
    for setting in settings_of(task) {
        if setting.section != section {
            section = setting.section;
            text += &format!("{}\n", setting.header());
        }
        text += &hanging(&format!("  {:<17} ", setting.key), &said(setting), page_width());
    }
    text + "Clipping bounds are public: take them from what you know of the quantity, never from the data.\n"
}

/// The most columns that a key's values take on a task's page. Our choice: more make a page of two
/// screens, and the key's own page has them.
const SHORT: usize = 20;

/// The explanation of a key, and its values with its default, or else an example. What explains
/// itself is left to the key's own page.
fn said(setting: &Setting) -> String {
    let named = |words: &[&str]| words.iter().all(|word| setting.explanation.contains(word));
    let has_unit = setting.key.ends_with(setting.unit) || setting.explanation.contains(setting.unit);
    let values = match setting.values {
        Values::Flag => String::new(),
        Values::Words(words) if named(words) || setting.key == "task" => String::new(),
        Values::Whole(..=8, 1024..) if has_unit => String::new(),
        Values::Whole(..=8, 1024..) => setting.unit.to_owned(),
        Values::Words(_) => setting.values.to_string(),
        _ => Some(measured(setting))
            .filter(|values| values.len() <= SHORT)
            .unwrap_or_default(),
    };
    let [values, default] = match [setting.value(Defaults::File), setting.local] {
        [Some(default), Some(local)] => [values, format!(" ({default}; local: {local})")],
        [Some(default), None] => [values, format!(" ({default})")],
        [None, Some(local)] => [String::new(), format!(" (local: {local})")],
        [None, None] => match (setting.values, setting.example) {
            (Values::Flag | Values::Words(_) | Values::Whole(..), _) | (_, None) => [values, String::new()],
            (_, Some(example)) if example.len() > SHORT => [String::new(), String::new()],
            (_, Some(example)) => [String::new(), format!(" (e.g. {example})")],
        },
    };
    let gap = if values.is_empty() { "" } else { "; " };
    format!("{}{gap}{values}{default}", setting.explanation)
}

/// A key's values with their unit.
fn measured(setting: &Setting) -> String {
    format!("{} {}", setting.values, setting.unit)
        .trim_end()
        .to_owned()
}

/// The page of a file, by the names that `undertone schema` has.
fn of_file(name: &str) -> Option<String> {
    match name {
        "run-file" => Some(keys_by_task()),
        "node.toml" => Some(layers::help()),
        _ => None,
    }
}

/// The page of a key, of each file that has it: values, unit, default and an example.
fn of_key(field: &str) -> Option<String> {
    let files = [
        ("RUN.toml", SETTINGS),
        ("NODE.toml", KEYS),
        ("PEERS.toml", PEER_KEYS),
    ];
    let mut text = String::new();
    for (file, keys) in files {
        // By its whole name, without its table, or all keys of a table or of the file.
        let is_meant = |setting: &&Setting| {
            setting.field() == field
                || [setting.key, setting.section].contains(&field)
                || (file == "PEERS.toml" && field == "peers.toml")
        };
        for setting in keys.iter().filter(is_meant) {
            let (name, tasks) = (setting.field(), setting.task_names());
            let tasks = tasks.map_or(String::new(), |tasks| format!(" ({})", tasks.join(", ")));
            let gap = if text.is_empty() { "" } else { "\n" };
            text += &format!("{gap}{name} in {file}{tasks}\n");
            text += &hanging("  ", setting.explanation, page_width());
            text += &hanging("  values   ", &setting.values.to_string(), page_width());
            for (key, values) in parts(&setting.values) {
                text += &hanging(
                    &format!("             {key:<8} "),
                    &values.to_string(),
                    page_width(),
                );
            }
            let local = setting
                .local
                .map(|local| format!("{local} (with undertone local)"));
            let rows = [
                (
                    "unit",
                    (!setting.unit.is_empty()).then(|| setting.unit.to_owned()),
                ),
                ("default", setting.default.map(str::to_owned)),
                ("", local),
                (
                    "example",
                    setting.shown().map(|value| format!("{} = {value}", setting.key)),
                ),
            ];
            for (name, row) in rows {
                if let Some(row) = row {
                    text += &hanging(&format!("  {name:<8} "), &row, page_width());
                }
            }
        }
    }
    (!text.is_empty()).then_some(text)
}

/// The keys of the tables among these values, with the values of each.
fn parts(values: &Values) -> Vec<(&'static str, Values)> {
    match values {
        Values::Table(entries) => {
            let told_apart = |(_, of): &&(&str, Values)| !matches!(of, Values::Words([_]));
            let part = |&(key, of): &(&'static str, Values)| (Values::entry(key).0, of);
            entries.iter().filter(told_apart).map(part).collect()
        }
        Values::OneOf(kinds) => {
            let mut found: Vec<(&str, Values)> = vec![];
            for part in kinds.iter().flat_map(parts) {
                if !found.contains(&part) {
                    found.push(part);
                }
            }
            found
        }
        _ => vec![],
    }
}

/// The keys of all tasks by name, for the pages of commands that read a run file.
pub fn keys_by_task() -> String {
    let mut text = String::from(
        "Keys of RUN.toml by task; `undertone help TASK` explains them, `undertone help data.clip` one:\n",
    );
    for task in TaskName::ALL {
        text += &hanging(&format!("  {:<17} ", task.name()), summary(task), page_width());
        let mut sections: Vec<(&str, Vec<&str>)> = vec![];
        for setting in settings_of(task) {
            match sections.last_mut() {
                Some((section, keys)) if *section == setting.section => keys.push(setting.key),
                _ => sections.push((setting.section, vec![setting.key])),
            }
        }
        for (section, keys) in sections {
            let table = if section.is_empty() { "(top)" } else { section };
            text += &hanging(&format!("      {table:<11} "), &keys.join(" "), page_width());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use undertone_protocol::plan::run_file::parsed::RunFile;

    use super::*;

    #[test]
    fn page_of_a_task_is_short_and_its_least_run_file_parses() {
        for task in TaskName::ALL {
            let page = of_task(task);
            assert!(
                page.lines().count() <= 80,
                "{} lines\n{page}",
                page.lines().count()
            );
            assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
            assert!(page.is_ascii() || page.contains('ε'), "{page}");
            let parsed = RunFile::parse(example(task), 8);
            assert_eq!(parsed.map(|run| run.computation.task()), Ok(task));
        }
    }

    #[test]
    fn page_of_a_task_has_each_of_its_keys_with_its_default() {
        for task in TaskName::ALL {
            let page = of_task(task).replace('\n', " ");
            let page: Vec<&str> = page.split_whitespace().collect();
            let page = page.join(" ");
            for setting in settings_of(task) {
                assert!(page.contains(setting.key), "{}: {}", task.name(), setting.key);
                for default in [setting.default, setting.local].into_iter().flatten() {
                    assert!(
                        page.contains(default),
                        "{}: {} = {default}",
                        task.name(),
                        setting.key
                    );
                }
            }
        }
    }
}
