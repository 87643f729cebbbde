//! `[[schedule]]`: runs that this node's group makes by itself, at times that its members agree on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use undertone_protocol::plan::peers::{Peers, is_party_name};
use undertone_protocol::plan::run_file::accept_by::AcceptBy;
use undertone_protocol::plan::run_file::limits::MOST_RECORDS;
use undertone_protocol::plan::run_file::settings::Unit;

use crate::daemon::config::data_sets::DataSet;
use crate::daemon::config::layers::{Layers, RawSchedule};
use crate::daemon::ledger::account::unit_name;
use crate::daemon::schedule::every::Every;
use crate::planning::files::read_text;
use crate::planning::scheduled::Terms;
use crate::reporting::failure::Failure;

/// From the begin of an attempt to that of the next one. Our choice: 30 s to ask, to calibrate and
/// to offer, 30 s for START, and 30 s for clocks.
pub const ATTEMPT_S: u64 = 90;

/// The time during which an occurrence is tried, unless the configuration says otherwise, in
/// seconds: twenty proposers.
const WINDOW_S: u64 = 30 * 60;

/// The longest such time, in seconds: occurrences of a day do not overlap.
const LONGEST_WINDOW_S: u64 = 12 * 3600;

/// Schedules of a node. Our choice: `undertone schedule` fits on a page.
const MOST_SCHEDULES: usize = 32;

/// A run that comes again and again.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The name that this node has for it.
    pub name: String,
    /// Where its run file is, for messages.
    pub run: PathBuf,
    /// The run file's text, as it was when the configuration was read.
    pub text: Arc<str>,
    /// SHA-256 of that.
    pub run_digest: [u8; 32],
    /// When it is due.
    pub every: Every,
    /// How long an occurrence is tried, in seconds.
    pub window_s: u64,
    /// The data set that pays, and whose file is contributed.
    pub data_set: String,
    /// Whose change the runs hide.
    pub unit: Unit,
    /// How old that file may be, in seconds.
    pub fresh_s: Option<u64>,
    /// The largest number of records of a member where each says its own; `None`: the largest that
    /// a plan can have.
    pub records_at_most: Option<u64>,
}

impl Schedule {
    /// Returns the run file and list that its plans are made of.
    pub fn terms<'a>(&'a self, list: &'a Peers) -> Terms<'a> {
        Terms {
            text: &self.text,
            path: &self.run,
            list,
        }
    }

    /// The number of attempts that begin within its window.
    pub fn attempts(&self) -> u32 {
        // At most 12 hours.
        self.window_s.div_ceil(ATTEMPT_S) as u32
    }
}

/// The schedules of the configuration, each with a run file for this list.
pub(super) fn schedules(layers: &Layers, list: &Peers, sets: &[DataSet]) -> Result<Vec<Schedule>, Failure> {
    let mut schedules: Vec<Schedule> = vec![];
    for (index, raw) in layers.raw.schedule.iter().flatten().enumerate() {
        let field = |key: &str| format!("schedule.{index}.{key}");
        let refuse = |key: &str, problem: String| layers.refuse(&field(key), problem);
        if index >= MOST_SCHEDULES {
            return Err(refuse(
                "name",
                format!("is one more than the {MOST_SCHEDULES} that a node may have"),
            ));
        }
        if !is_party_name(&raw.name) {
            let problem = format!("is {:?}; use 1 to 32 of the characters a-z, 0-9 and -", raw.name);
            return Err(refuse("name", problem));
        }
        if schedules.iter().any(|schedule| schedule.name == raw.name) {
            let problem = format!("is {:?}, as of an earlier schedule; give each its own", raw.name);
            return Err(refuse("name", problem));
        }
        let schedule =
            schedule(raw, list, (sets, &refuse)).map_err(|failure| match failure.field.as_deref() {
                Some(at) if at.starts_with("schedule.") => failure,
                _ => failure.field(field("run")),
            })?;
        if let Some(twin) = schedules
            .iter()
            .find(|other| other.run_digest == schedule.run_digest && other.every == schedule.every)
        {
            let problem = format!(
                "has the run file and the time of {:?}: they would be one",
                twin.name
            );
            return Err(refuse("run", problem));
        }
        schedules.push(schedule);
    }
    Ok(schedules)
}

type Refuse<'a> = &'a dyn Fn(&str, String) -> Failure;

fn schedule(
    raw: &RawSchedule,
    list: &Peers,
    (sets, refuse): (&[DataSet], Refuse<'_>),
) -> Result<Schedule, Failure> {
    let every = raw
        .every
        .parse::<Every>()
        .map_err(|e| refuse("every", format!("is no time: {e}")))?;
    let seconds = |key: &str, text: &Option<String>| {
        let text = text.as_ref().map(|text| text.parse::<AcceptBy>());
        let time = text
            .transpose()
            .map_err(|e| refuse(key, format!("is no duration: {e}")))?;
        Ok::<_, Failure>(time.map(|time| time.as_millis() / 1000))
    };
    let window_s = seconds("window", &raw.window)?.unwrap_or(WINDOW_S);
    if !(ATTEMPT_S..=LONGEST_WINDOW_S).contains(&window_s) {
        let problem = format!("is {window_s} s; choose 90s, which is one attempt, to 12h");
        return Err(refuse("window", problem));
    }
    let text = read_text(&raw.run, "run")?;
    let terms = Terms {
        text: &text,
        path: Path::new(&raw.run),
        list,
    };
    let run = terms.check()?;
    let unit = run.data.unit;
    if let Some(most) = raw.records_at_most {
        if !terms.asks_for_records()? {
            let problem = "has no use: members say their numbers of rows only if unit = \"record\" and records is \
                           left out in the run file; remove one of the two";
            return Err(refuse("records_at_most", problem.to_owned()));
        }
        if !(1..=MOST_RECORDS).contains(&most) {
            let problem = format!("is {most}; choose 1 to {MOST_RECORDS}");
            return Err(refuse("records_at_most", problem));
        }
    }
    let pays = |set: &DataSet| set.name == raw.data_set && set.unit == unit;
    match sets.iter().find(|set| pays(set)) {
        Some(set) if set.file.is_some() => {}
        _ => {
            let unit = unit_name(unit);
            let problem = format!(
                "is {:?}; it must be the name of a [[data_set]] of unit {unit:?}, as the run file has it, with a file",
                raw.data_set
            );
            return Err(refuse("data_set", problem));
        }
    }
    Ok(Schedule {
        name: raw.name.clone(),
        run: raw.run.clone(),
        run_digest: Sha256::digest(text.as_bytes()).into(),
        text: text.into(),
        every,
        window_s,
        data_set: raw.data_set.clone(),
        unit,
        fresh_s: seconds("fresh", &raw.fresh)?,
        records_at_most: raw.records_at_most,
    })
}
