//! Whether this node attends an attempt of a schedule that another member proposes.

use std::path::PathBuf;
use std::sync::Arc;

use libp2p::PeerId;
use undertone_protocol::plan::run_file::limits::MOST_RECORDS;
use undertone_protocol::plan::run_file::settings::{Clip, Unit};
use undertone_protocol::plan::scheduled::{OccurrenceId, Scheduled};

use crate::daemon::config::Config;
use crate::daemon::config::schedules::{ATTEMPT_S, Schedule};
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::schedule::file_stamp::FileStamp;
use crate::daemon::service::Service;
use crate::reporting::date::utc;
use crate::reporting::failure::Failure;
use crate::table_file::reading::{self, MostlyWords};
use crate::vector_file::expected::Expected;
use crate::vector_file::formats;

/// How far the clocks of members may be apart, in seconds. Our choice: machines without time
/// synchronisation drift by as much in a month.
pub(super) const CLOCKS_S: u64 = 60;

/// For how long an attempt is not left for the next one after its plan was taken, in milliseconds:
/// its members gather for 30 s, and are asked again within 15 s. Our choice.
const GATHERED_MS: u64 = 45_000;

/// The end of that time, in milliseconds from the attempt's begin: a late offer takes nothing of
/// the next attempt. Our choice.
const LONGEST_MS: u64 = 75_000;

/// How far from now a due time is looked for, in seconds, so that the clock is named where it is
/// what is wrong.
const LOOKED_AT_S: u64 = 86_400;

/// An attempt of one of this node's schedules.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct Due {
    /// The configuration that has the schedule.
    pub(in crate::daemon) config: Arc<Config>,
    /// The schedule's place in it.
    pub(super) index: usize,
    /// When it was due, in seconds since 1970.
    pub(in crate::daemon) due_s: u64,
    /// Which attempt at it.
    pub(in crate::daemon) scheduled: Scheduled,
}

impl Due {
    pub(in crate::daemon) fn schedule(&self) -> &Schedule {
        &self.config.schedules[self.index]
    }

    /// When the attempt begins, in seconds since 1970.
    pub(super) fn begins_s(&self) -> u64 {
        self.due_s + ATTEMPT_S * u64::from(self.scheduled.attempt)
    }

    /// When it is over for every clock that is within the bound, in milliseconds since 1970.
    pub(super) fn over_ms(&self) -> u64 {
        1000 * (self.begins_s() + ATTEMPT_S + CLOCKS_S)
    }

    /// As [`super::timetable::Timetable::change`] takes it.
    pub(super) fn key(&self) -> (String, u64) {
        (self.scheduled.occurrence.to_string(), self.due_s)
    }

    /// The one member that may propose it.
    pub(super) fn proposer(&self) -> Option<PeerId> {
        let list = self.config.peers.as_slice().iter().map(|peer| peer.id);
        self.scheduled.occurrence.proposer(list, self.scheduled.attempt)
    }

    /// Checks the number of records that a member says, where the run file leaves that to each. One
    /// that no plan can have would cost everybody the attempt.
    ///
    /// # Errors
    /// Why it does not attend with that.
    pub(super) fn admit(&self, records: Option<u32>) -> Result<u32, String> {
        let bound = self.schedule().records_at_most;
        let most = bound.unwrap_or(MOST_RECORDS);
        match records {
            None => Err("it did not say how many records it brings".into()),
            Some(count) if (1..=most).contains(&count.into()) => Ok(count),
            Some(count) => {
                let of = bound.map_or("a plan has", |_| "schedule.records_at_most allows");
                Err(format!("it brings {count} records, and {of} 1 to {most}"))
            }
        }
    }

    /// The file that this node contributes.
    pub(super) fn file(&self) -> PathBuf {
        let schedule = self.schedule();
        let set = self.config.data_set(&schedule.data_set, schedule.unit);
        let file = set.and_then(|set| set.file.as_deref()).unwrap_or_default();
        self.config.data.join(file)
    }
}

/// The due times of a schedule around a moment, and what each is.
fn occurrences<'a>(
    config: &'a Config,
    schedule: &'a Schedule,
    now_s: u64,
) -> impl Iterator<Item = (u64, OccurrenceId)> + 'a {
    let last = schedule.every.last(now_s.saturating_add(LOOKED_AT_S));
    let back = move |due: &u64| schedule.every.last(due.checked_sub(1)?);
    std::iter::successors(last, back)
        .take_while(move |due| due + schedule.window_s + LOOKED_AT_S >= now_s)
        .map(|due| {
            (
                due,
                OccurrenceId::of(&config.list_digest, &schedule.run_digest, due),
            )
        })
}

impl Service {
    /// The attempt of a schedule of this node's own, by its occurrence.
    fn found(&self, scheduled: Scheduled) -> Option<Due> {
        let (config, now_s) = (self.config(), self.shared.clock.now_s());
        let found = config.schedules.iter().enumerate().find_map(|(index, schedule)| {
            let mut occurrences = occurrences(&config, schedule, now_s);
            let (due_s, _) = occurrences.find(|(_, occurrence)| *occurrence == scheduled.occurrence)?;
            Some((index, due_s))
        });
        let (index, due_s) = found?;
        Some(Due {
            config,
            index,
            due_s,
            scheduled,
        })
    }

    /// The attempt that this peer may propose now.
    ///
    /// # Errors
    /// No schedule here has this occurrence, it is not this attempt's time, or another's turn.
    pub(in crate::daemon) fn due(&self, from: PeerId, scheduled: Scheduled) -> Result<Due, Refusal> {
        let refuse = |message: String| Err(Refusal::new(Kind::Policy, message).field("schedule"));
        let Some(due) = self.found(scheduled) else {
            return refuse(
                "no schedule of this node is due with this peer list, run file and time: compare them, and [[schedule]]"
                    .into(),
            );
        };
        let (attempt, begins, now_ms) = (scheduled.attempt, due.begins_s(), self.shared.clock.now_ms());
        if attempt >= due.schedule().attempts() {
            return refuse(format!(
                "attempt {attempt} begins after the window of {} s",
                due.schedule().window_s
            ));
        }
        let is_now = 1000 * begins <= now_ms + 1000 * CLOCKS_S && now_ms <= due.over_ms();
        if !is_now {
            return refuse(format!(
                "attempt {attempt} of {} begins at {}; this node's clock shows {}, and clocks may be {CLOCKS_S} s apart",
                due.schedule().name,
                utc(1000 * begins),
                utc(now_ms)
            ));
        }
        if due.proposer() != Some(from) {
            return refuse(format!("attempt {attempt} has another proposer"));
        }
        Ok(due)
    }

    /// This node's clock, in milliseconds since 1970, where an attempt at one of its schedules has
    /// not begun by it, within the bound; or the attempt before may still come to a run.
    pub(in crate::daemon) fn is_early(&self, scheduled: Scheduled) -> Option<u64> {
        let due = self.found(scheduled)?;
        let now_ms = self.shared.clock.now_ms();
        let has_begun = 1000 * due.begins_s() <= now_ms + 1000 * CLOCKS_S;
        (!has_begun || self.has_had_its_time(&due).is_err()).then_some(now_ms)
    }

    /// Refuses an attempt while the run of an earlier one may still start: by a clock that is ahead
    /// its successor would end every attempt.
    pub(super) fn has_had_its_time(&self, due: &Due) -> Result<(), Refusal> {
        let (occurrence, _) = due.key();
        let known = self.shared.timetable.occasion(&due.schedule().name, &occurrence);
        let Some((digest, attempt, taken_ms)) =
            known.and_then(|known| Some((known.digest?, known.attempt?, known.taken_ms)))
        else {
            return Ok(());
        };
        let run = self.shared.runs.get(&digest);
        let goes_on = run.is_some_and(|run| !run.status().state.is_over());
        let now_ms = self.shared.clock.now_ms();
        let until_ms = (1000 * (due.due_s + ATTEMPT_S * u64::from(attempt)) + LONGEST_MS)
            .min(taken_ms.saturating_add(GATHERED_MS));
        match attempt < due.scheduled.attempt && goes_on && now_ms < until_ms {
            true => {
                let message = format!("attempt {attempt} may start until {}", utc(until_ms));
                Err(Refusal::new(Kind::Conflict, message).field("schedule"))
            }
            false => Ok(()),
        }
    }

    /// Whether this node attends, asked by a peer; the number of records that it brings, where the
    /// run file leaves that to each.
    pub(in crate::daemon) async fn attend(
        &self,
        from: PeerId,
        scheduled: Scheduled,
    ) -> Result<Option<u32>, Refusal> {
        self.not_stopping()?;
        self.proposer(from)?;
        let due = self.due(from, scheduled)?;
        let attends = self.would_attend(&due).await;
        if let Err(refusal) = &attends {
            self.note_reason(&due, format!("this node sits it out: {}", refusal.message));
            tracing::warn!(
                schedule = due.schedule().name,
                "an occurrence is sat out: {refusal}"
            );
        }
        attends
    }

    /// Whether this node takes part in an attempt, whoever proposes it.
    pub(super) async fn would_attend(&self, due: &Due) -> Result<Option<u32>, Refusal> {
        self.is_free_for(due)?;
        let me = &due.config.identity;
        if let Some(sentence) = self.shared.keys.sentence(&me.name, &me.peer_id()) {
            return Err(Refusal::new(Kind::Policy, sentence).field("identity"));
        }
        let path = due.file();
        let stamp = self.young_enough(due)?;
        let records = match due.schedule().terms(&due.config.peers).asks_for_records()? {
            true => Some(self.count_records(due, (path, stamp)).await?),
            false => None,
        };
        let (occurrence, due_s) = due.key();
        let known = self.shared.timetable.occasion(&due.schedule().name, &occurrence);
        let earlier = known.and_then(|known| known.digest);
        self.can_pay(due.schedule(), earlier.as_deref())?;
        let schedule = &due.schedule().name;
        self.shared
            .timetable
            .change(schedule, (&occurrence, due_s), |occasion| {
                (occasion.file, occasion.reason) = (Some(stamp), None);
                Ok(())
            })?;
        Ok(records)
    }

    /// Refuses an attempt of an occurrence that is spent, or of which this node is in a later
    /// attempt or stays in an earlier one.
    pub(super) fn is_free_for(&self, due: &Due) -> Result<(), Refusal> {
        let conflict = |message: String| Err(Refusal::new(Kind::Conflict, message).field("schedule"));
        let (occurrence, _) = due.key();
        let known = self.shared.timetable.occasion(&due.schedule().name, &occurrence);
        self.shared.ledger().check_occurrence(&occurrence)?;
        self.is_not_spent_otherwise(due)?;
        let Some((known, attempt)) = known.and_then(|known| Some((known.digest?, known.attempt?))) else {
            return Ok(());
        };
        if attempt > due.scheduled.attempt {
            return conflict(format!("this node is in attempt {attempt} of this occurrence"));
        }
        match attempt < due.scheduled.attempt {
            true => self.may_leave(attempt, &known),
            false => Ok(()),
        }
    }

    /// Refuses a due time of which this node has spent a plan by an earlier peer list or run file.
    fn is_not_spent_otherwise(&self, due: &Due) -> Result<(), Refusal> {
        for occurrence in self.others_then(due) {
            let unspent = self.shared.ledger().check_occurrence(&occurrence);
            unspent.map_err(|refusal| {
                let name = &due.schedule().name;
                let message = format!(
                    "{name} was due at {}, and this node has taken part in it by another peer list or run file",
                    utc(1000 * due.due_s)
                );
                Refusal { message, ..refusal }
            })?;
        }
        Ok(())
    }

    /// The occurrences of this due time that another peer list or run file gave: each has one
    /// charge, and the time may have one, too.
    pub(super) fn others_then(&self, due: &Due) -> Vec<String> {
        let (occurrence, due_s) = due.key();
        let occasions = self.shared.timetable.occasions(&due.schedule().name);
        let then = occasions.into_iter().filter(|occasion| occasion.due_s == due_s);
        let then = then.map(|occasion| occasion.occurrence);
        then.filter(|other| *other != occurrence).collect()
    }

    /// Refuses to leave an attempt whose START this node has signed, until its run is over; and for
    /// good one for whose draw it has revealed a number.
    pub(super) fn may_leave(&self, attempt: u32, digest: &str) -> Result<(), Refusal> {
        let run = self.shared.runs.get(digest);
        let why = if self.shared.ledger().has_revealed(digest) {
            // Whoever ends STARTs has as many draws to choose from as a plan lets be tried. With
            // another attempt there would be as many again.
            format!("this node has revealed a number for the draw of attempt {attempt}, and is in no other")
        } else if run.is_some_and(|run| run.has_signed() && !run.status().state.is_over()) {
            format!("this node has signed START of attempt {attempt}, and stays in it")
        } else {
            return Ok(());
        };
        Err(Refusal::new(Kind::Conflict, why).field("schedule"))
    }

    /// The file of the schedule's data set, if it is young enough.
    pub(super) fn young_enough(&self, due: &Due) -> Result<FileStamp, Refusal> {
        let schedule = due.schedule();
        let refuse = |kind, message: String| {
            let refusal = Refusal::new(kind, message).field("data_set");
            Err(refusal.hint("write the file before the schedule is due, or raise schedule.fresh"))
        };
        let Ok(stamp) = FileStamp::of(&due.file()) else {
            let what = format!("data set {:?} has no file that can be read", schedule.data_set);
            return refuse(Kind::Input, what);
        };
        let age_s = stamp.age_s(self.shared.clock.now_ms());
        match schedule.fresh_s {
            // No clock of a machine that writes it is that far ahead: its age is not known.
            Some(_) if age_s < -i128::from(CLOCKS_S) => {
                let what = format!(
                    "the file of data set {:?} is from {} s ahead of this node's clock, and its age not known",
                    schedule.data_set, -age_s
                );
                refuse(Kind::Conflict, what)
            }
            Some(most) if age_s > i128::from(most) => {
                let what = format!(
                    "the file of data set {:?} is {age_s} s old, fresh is {most} s",
                    schedule.data_set
                );
                refuse(Kind::Conflict, what)
            }
            _ => Ok(stamp),
        }
    }

    /// The rows of a file, which are counted once.
    async fn count_records(&self, due: &Due, (path, stamp): (PathBuf, FileStamp)) -> Result<u32, Refusal> {
        let name = due.schedule().name.clone();
        if let Some(count) = self.shared.schedules.counted(&name, stamp) {
            return Ok(count);
        }
        let counting = due.clone();
        let count = self.check(move || Ok(rows(&counting, &path)?)).await?;
        due.admit(Some(count)).map_err(|why| {
            let message = format!("this node's own file: {why}");
            Refusal::new(Kind::Input, message).field("data_set")
        })?;
        self.shared.schedules.count(&name, (stamp, count));
        Ok(count)
    }

    /// Writes down why there is no result of an occurrence, or why this node is not in it.
    pub(super) fn note_reason(&self, due: &Due, reason: String) {
        let (occurrence, due_s) = due.key();
        let noted = self
            .shared
            .timetable
            .change(&due.schedule().name, (&occurrence, due_s), |occasion| {
                occasion.reason = Some(reason);
                Ok(())
            });
        if let Err(refusal) = noted {
            tracing::error!("what becomes of a schedule cannot be written: {refusal}");
        }
    }
}

/// Counts the rows of a file, as a plan of this schedule reads it.
fn rows(due: &Due, path: &std::path::Path) -> Result<u32, Failure> {
    let run = due.schedule().terms(&due.config.peers).check()?;
    debug_assert_eq!(run.data.unit, Unit::Record);
    let rows = match (run.computation.described(), &run.data.clip) {
        (Some(settings), Clip::Described { cell, .. }) => {
            reading::read(path, &settings.describe, (*cell, MostlyWords::Refused))?.rows
        }
        _ => {
            let read = formats::read_rows(path, Expected::default())?;
            read.layout.shape.first().copied().unwrap_or(0) as u64
        }
    };
    u32::try_from(rows)
        .map_err(|_| Failure::input("the file has more rows than a plan can have").field("data_set"))
}
