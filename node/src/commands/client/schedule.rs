//! `undertone schedule`.

use clap::Args;
use serde::Deserialize;
use serde_json::json;

use crate::commands::client::daemon::{ApiArgs, Daemon, run};
use crate::commands::client::show;
use crate::daemon::schedule::schedule_status::{OccasionStatus, ScheduleStatus};
use crate::reporting::date::utc;
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;
use crate::reporting::screen;
use crate::reporting::table::{Table, number};

/// Flags of `schedule`.
#[derive(Args, Debug)]
pub struct ScheduleArgs {
    /// One schedule, by its name
    ///
    /// Default: all of them.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    api: ApiArgs,
}

#[derive(Deserialize)]
struct ListedSchedules {
    schedules: Vec<ScheduleStatus>,
}

/// Shows when the group meets next, who met at the last times, and how long the budget lasts.
pub fn schedule(arguments: ScheduleArgs) -> Result<Report, Failure> {
    let daemon = arguments.api.daemon()?;
    let ListedSchedules { mut schedules } = run(daemon.get("/v1/schedules"))?;
    if let Some(name) = &arguments.name {
        let known: Vec<String> = schedules.iter().map(|schedule| schedule.name.clone()).collect();
        schedules.retain(|schedule| schedule.name == *name);
        if schedules.is_empty() {
            let known = if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            };
            return Err(Failure::usage(format!(
                "there is no schedule {name:?}; in the configuration there are: {known}"
            ))
            .field("NAME")
            .hint(
                "add a [[schedule]] to the daemon's configuration: `undertone node --help` lists its keys",
            ));
        }
    }
    let json = json!({ "schedules": show::object(&schedules) });
    let text = match &*schedules {
        [] => "This daemon has no schedule; `undertone node --help` lists the keys of [[schedule]].\n"
            .to_owned(),
        schedules => schedules
            .iter()
            .map(|schedule| shown(schedule, screen::width()))
            .collect::<Vec<_>>()
            .join("\n"),
    };
    Ok(Report::done(json, text))
}

/// The digest of the latest run of a schedule that has a result; `None`: no schedule has this name.
///
/// # Errors
/// The schedule has no result yet (exit 2).
pub(super) async fn latest_result(daemon: &Daemon, name: &str) -> Result<Option<String>, Failure> {
    let ListedSchedules { schedules } = daemon.get("/v1/schedules").await?;
    let Some(schedule) = schedules.into_iter().find(|schedule| schedule.name == name) else {
        return Ok(None);
    };
    let has_result = |occasion: &OccasionStatus| {
        let outcome = occasion.outcome.as_deref();
        matches!(outcome, Some("done" | "degraded")) && occasion.digest.is_some()
    };
    match schedule.occasions.into_iter().find(has_result) {
        Some(occasion) => Ok(occasion.digest),
        None => Err(Failure::usage(format!("no run of {name:?} has a result yet"))
            .field("DIGEST")
            .hint(format!(
                "`undertone schedule {name}` says when it is due, and what came of it"
            ))),
    }
}

/// One schedule as text, in lines of at most `width` columns.
fn shown(schedule: &ScheduleStatus, width: usize) -> String {
    let next: Vec<String> = schedule.next_ms.iter().map(|ms| utc(*ms)).collect();
    let mut table = Table::new();
    table
        .row(["schedule".into(), schedule.name.clone()])
        .row([
            "every".into(),
            format!("{} UTC, tried for {} min", schedule.every, schedule.window_s / 60),
        ])
        .row(["next".into(), next.join(", ")])
        .row(["data set".into(), schedule.data_set.clone()]);
    if let Some(fresh_s) = schedule.fresh_s {
        table.row([
            "fresh".into(),
            format!("its file may be {} h old", number(fresh_s as f64 / 3600.0)),
        ]);
    }
    if schedule.shows_rows {
        let known = "each run shows all its members how many rows every file has";
        table.row(["rows".into(), known.into()]);
    }
    if let Some(epsilon) = schedule.epsilon {
        table.row([
            "costs".into(),
            format!("ε = {} a run, if all take part", number(epsilon)),
        ]);
    }
    table.row(["budget".into(), budget(schedule)]);
    // Members whose lists or run files differ do not meet: they compare these.
    for (name, sum) in [
        ("run file", &schedule.run_sha256),
        ("peer list", &schedule.list_sha256),
    ] {
        table.row([name.into(), format!("sha256 {}", show::short(sum))]);
    }
    let mut text = table.render_within(width);
    if !schedule.occasions.is_empty() {
        let mut met = Table::with_headings(["was due", "outcome", "proposed by", "took part", "why"]);
        for occasion in &schedule.occasions {
            met.row(row(occasion));
        }
        text += &format!("\n{}", met.render_within(width));
    }
    text
}

fn budget(schedule: &ScheduleStatus) -> String {
    match (schedule.runs_left, schedule.paid_until_ms) {
        (None, _) => "not known yet, or without a limit".into(),
        (Some(0), _) => "pays for none: this node sits them out".into(),
        (Some(left), Some(until)) => format!("pays for {left} more, until {}", utc(until)),
        (Some(left), None) => format!("pays for {left} more at least"),
    }
}

fn row(occasion: &OccasionStatus) -> [String; 5] {
    let outcome = occasion.outcome.clone().unwrap_or_else(|| "open".into());
    let attempt = match occasion.attempt {
        None | Some(0) => String::new(),
        Some(attempt) => format!(" (attempt {attempt})"),
    };
    let proposer = occasion.proposer.as_ref().map(|name| format!("{name}{attempt}"));
    let took_part = match (occasion.members.len(), &*occasion.absent) {
        (0, _) => "–".into(),
        (all, []) => format!("all {all}"),
        (some, absent) => format!("{some}, without {}", absent.join(", ")),
    };
    [
        utc(occasion.due_ms),
        outcome,
        proposer.unwrap_or_else(|| "–".into()),
        took_part,
        occasion.reason.clone().unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weekly() -> ScheduleStatus {
        let occasion = |due_ms, outcome: &str, absent: &[&str], reason: Option<&str>| OccasionStatus {
            due_ms,
            attempt: Some(1),
            digest: Some("0123456789abcdef".repeat(4)),
            proposer: Some("aarhus".into()),
            members: vec!["aarhus".into(), "bergen".into(), "cork".into(), "delft".into()],
            absent: absent.iter().map(|name| (*name).to_owned()).collect(),
            attended: vec![],
            outcome: Some(outcome.into()),
            reason: reason.map(str::to_owned),
        };
        ScheduleStatus {
            name: "weekly".into(),
            every: "Mon 03:00".into(),
            window_s: 1800,
            data_set: "ward-7".into(),
            fresh_s: Some(72_000),
            shows_rows: true,
            run_sha256: "ab".repeat(32),
            list_sha256: "cd".repeat(32),
            next_ms: vec![1_796_007_600_000, 1_796_612_400_000, 1_797_217_200_000],
            epsilon: Some(0.1),
            runs_left: Some(14),
            paid_until_ms: Some(1_803_869_000_000),
            occasions: vec![
                occasion(1_795_402_800_000, "done", &[], None),
                occasion(1_794_798_000_000, "degraded", &["essen"], None),
                occasion(
                    1_794_193_200_000,
                    "missed",
                    &[],
                    Some(
                        "3 of 5 members take part, and 4 are needed; cork: no answer; essen: its clock is off",
                    ),
                ),
            ],
        }
    }

    #[test]
    fn a_schedule_fits_80_columns_and_says_who_met_and_how_long_the_budget_lasts() {
        let text = shown(&weekly(), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for said in [
            "2026-11-30 03:00 UTC",
            "pays for 14 more, until 2027-",
            "missed",
            "essen",
            "attempt 1",
            "how many rows every file has",
        ] {
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(said), "{said}: {text}");
        }
        let none = ScheduleStatus {
            runs_left: Some(0),
            paid_until_ms: None,
            ..weekly()
        };
        assert!(shown(&none, 80).contains("sits them out"));
    }
}
