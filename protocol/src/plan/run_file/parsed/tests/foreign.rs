//! Keys that belong to other tasks.

use super::*;
use crate::plan::defaults::{settings_of, tasks_of};

/// Each key that a task does not have is refused with the tasks that have it, whatever its value.
#[test]
fn key_of_another_task_is_refused_with_the_tasks_that_have_it() {
    for task in TaskName::ALL {
        let own: Vec<String> = settings_of(task).map(|setting| setting.field()).collect();
        for setting in SETTINGS.iter().filter(|setting| !own.contains(&setting.field())) {
            let Some(value) = setting.default else { continue };
            let (section, key) = (setting.section, setting.key);
            let text = format!(
                "name = \"x\"\ntask = \"{}\"\n{}\n{key} = {value}\n",
                task.name(),
                setting.header()
            );
            let error = RawRunFile::parse(&text).expect_err(&text);
            let RunFileError::Foreign { field, tasks, .. } = &error else {
                panic!("{text}: {error}");
            };
            // A table that the task lacks as a whole is named itself.
            assert!(
                [setting.field().as_str(), section].contains(&field.as_str())
                    || section.starts_with(&format!("{field}.")),
                "{text}: {error}"
            );
            assert_eq!(*tasks, tasks_of(field));
        }
    }
    let releases = refusal("name = \"x\"\n[data]\nshape = [2]\nreleases = 3\n", 8);
    assert_eq!(
        releases.to_string(),
        "run file, line 4: `data.releases` belongs to task = \"rounds\" or \"stream\"; this file says task = \"mean\""
    );
}
