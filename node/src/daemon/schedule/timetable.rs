//! The occurrences of this node's schedules, as it saw them: on disk, so that a daemon that starts
//! again neither takes a second offer of an attempt nor goes back to an earlier one.
//!
//! `STATE/schedules/NAME/occasions.json` is a record of the latest ones. Whether an occurrence is
//! spent is not said here, but by its mark beside the key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use undertone_protocol::plan::scheduled::Scheduled;

use crate::daemon::damaged::Damaged;
use crate::daemon::refusal::{Kind, Refusal, unwritten};
use crate::daemon::schedule::file_stamp::FileStamp;
use crate::daemon::state::write_record;
use crate::party::spent::make_folders;
use crate::reporting::failure::Failure;

/// Occurrences of a schedule that are remembered. Our choice: a screen of them.
const MOST_OCCASIONS: usize = 16;

/// Attempts at an occurrence of which it is remembered that an offer was looked at. Our choice:
/// with clocks a minute apart three are open at once.
const MOST_LOOKED_AT: usize = 8;

/// The record's name in the folder of its schedule.
const RECORD: &str = "occasions.json";

/// One occurrence, as this node saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::daemon) struct Occasion {
    /// 64 lower-case hex digits.
    pub(in crate::daemon) occurrence: String,
    /// When it was due, in seconds since 1970.
    pub(in crate::daemon) due_s: u64,
    /// The latest attempts of which this node has looked at an offer, or made one, whatever became
    /// of it.
    #[serde(default)]
    pub(in crate::daemon) looked_at: Vec<u32>,
    /// The latest attempt whose plan this node has taken, and that plan.
    pub(in crate::daemon) attempt: Option<u32>,
    pub(in crate::daemon) digest: Option<String>,
    /// When it took that, by the clock of schedules in milliseconds since 1970.
    #[serde(default)]
    pub(in crate::daemon) taken_ms: u64,
    /// Names: who proposed it, who is in that plan, and who of the list is not.
    pub(in crate::daemon) proposer: Option<String>,
    pub(in crate::daemon) members: Vec<String>,
    pub(in crate::daemon) absent: Vec<String>,
    /// Where this node proposed: who said that it attends.
    pub(in crate::daemon) attended: Vec<String>,
    /// Names: who attended an earlier attempt, and gave no READY.
    pub(in crate::daemon) unready: Vec<String>,
    /// The file that is contributed, as it was when this node said that it attends.
    pub(in crate::daemon) file: Option<FileStamp>,
    /// "done", "degraded", …, or "missed"; none while it goes on.
    pub(in crate::daemon) outcome: Option<String>,
    /// Why there is no result, or why this node is not in it.
    pub(in crate::daemon) reason: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OccasionRecord {
    schedule: String,
    occasions: Vec<Occasion>,
}

/// The occurrences of all schedules, the latest last.
pub(in crate::daemon) struct Timetable {
    folder: PathBuf,
    known: Mutex<BTreeMap<String, OccasionRecord>>,
    /// Records that are not what was written.
    pub(in crate::daemon) damaged: Damaged,
}

impl Timetable {
    /// Reads what an earlier daemon has seen; damaged records are skipped. Refused (exit 2) if the
    /// folder cannot be read.
    pub(in crate::daemon) fn open(folder: PathBuf) -> Result<Self, Failure> {
        let refused = |e: std::io::Error| {
            Failure::usage(format!("{}: cannot be read: {e}", folder.display())).field("state")
        };
        let (mut known, damaged) = (BTreeMap::new(), Damaged::default());
        for entry in std::fs::read_dir(&folder).map_err(refused)? {
            let record = entry.map_err(refused)?.path().join(RECORD);
            if record.exists()
                && let Some(record) = damaged.record(&record, |record: &OccasionRecord| &record.schedule)
            {
                known.insert(record.schedule.clone(), record);
            }
        }
        Ok(Timetable {
            folder,
            known: Mutex::new(known),
            damaged,
        })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, OccasionRecord>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The occurrences of a schedule, the latest first.
    pub(in crate::daemon) fn occasions(&self, schedule: &str) -> Vec<Occasion> {
        let known = self.known();
        let occasions = known.get(schedule).map(|record| record.occasions.iter().rev());
        occasions.into_iter().flatten().cloned().collect()
    }

    /// Returns what is known of an occurrence.
    pub(in crate::daemon) fn occasion(&self, schedule: &str, occurrence: &str) -> Option<Occasion> {
        let known = self.known();
        let mut occasions = known.get(schedule)?.occasions.iter();
        occasions
            .find(|occasion| occasion.occurrence == occurrence)
            .cloned()
    }

    /// The latest attempt at an occurrence, of whichever schedule, that this node has taken.
    pub(in crate::daemon) fn latest_attempt(&self, occurrence: &str) -> Option<u32> {
        let known = self.known();
        let mut occasions = known.values().flat_map(|record| &record.occasions);
        occasions
            .find(|occasion| occasion.occurrence == occurrence)?
            .attempt
    }

    /// Changes what is known of an occurrence, and writes it before this returns. Nothing is kept
    /// of a change that is refused, or that cannot be written.
    pub(in crate::daemon) fn change<T>(
        &self,
        schedule: &str,
        (occurrence, due_s): (&str, u64),
        change: impl FnOnce(&mut Occasion) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut known = self.known();
        let mut record = known.get(schedule).cloned().unwrap_or_else(|| OccasionRecord {
            schedule: schedule.to_owned(),
            occasions: vec![],
        });
        let place = record
            .occasions
            .iter()
            .position(|occasion| occasion.occurrence == occurrence);
        let before = place.map(|place| record.occasions[place].clone());
        let mut occasion = before.clone().unwrap_or_else(|| Occasion {
            occurrence: occurrence.to_owned(),
            due_s,
            ..Occasion::default()
        });
        let changed = change(&mut occasion)?;
        if before.as_ref() == Some(&occasion) {
            return Ok(changed);
        }
        match place {
            Some(place) => record.occasions[place] = occasion,
            None => record.occasions.push(occasion),
        }
        record.occasions.sort_by_key(|occasion| occasion.due_s);
        let many = record.occasions.len().saturating_sub(MOST_OCCASIONS);
        record.occasions.drain(..many);
        self.write(&record)?;
        known.insert(schedule.to_owned(), record);
        Ok(changed)
    }

    fn write(&self, record: &OccasionRecord) -> Result<(), Refusal> {
        let folder = self.folder.join(&record.schedule);
        let place = folder.join(RECORD);
        make_folders(&folder)
            .and_then(|()| write_record(&place, record))
            .map_err(|e| unwritten(&folder, &e))?;
        self.damaged.forget(&place);
        Ok(())
    }

    /// Claims the one offer of an attempt that this node looks at: a proposer that sends two plans
    /// gets both nowhere. The attempt that this node is in stays what it was: the offer may be
    /// worthless.
    pub(in crate::daemon) fn claim(
        &self,
        schedule: &str,
        (scheduled, due_s): (Scheduled, u64),
    ) -> Result<(), Refusal> {
        let (occurrence, attempt) = (scheduled.occurrence.to_string(), scheduled.attempt);
        self.change(schedule, (&occurrence, due_s), |occasion| {
            forward(occasion, attempt)?;
            if occasion.looked_at.contains(&attempt) {
                let what = format!("this is a second offer of attempt {attempt}, and each has one");
                return Err(Refusal::new(Kind::Conflict, what));
            }
            occasion.looked_at.push(attempt);
            let many = occasion.looked_at.len().saturating_sub(MOST_LOOKED_AT);
            occasion.looked_at.drain(..many);
            Ok(())
        })
    }

    /// Takes an attempt's plan, at this moment in milliseconds since 1970: nobody goes back to an
    /// earlier one.
    pub(in crate::daemon) fn enter(
        &self,
        schedule: &str,
        (scheduled, due_s): (Scheduled, u64),
        (digest, now_ms): (&str, u64),
    ) -> Result<(), Refusal> {
        let occurrence = scheduled.occurrence.to_string();
        self.change(schedule, (&occurrence, due_s), |occasion| {
            forward(occasion, scheduled.attempt)?;
            (occasion.attempt, occasion.digest) = (Some(scheduled.attempt), Some(digest.to_owned()));
            occasion.taken_ms = now_ms;
            Ok(())
        })
    }

    /// Refuses a file that is another than when this node said that it attends with it.
    pub(in crate::daemon) fn check_file(
        &self,
        scheduled: Option<Scheduled>,
        path: &Path,
    ) -> Result<(), Failure> {
        let Some(scheduled) = scheduled else {
            return Ok(());
        };
        let occurrence = scheduled.occurrence.to_string();
        let known = self.known();
        let mut occasions = known.values().flat_map(|record| &record.occasions);
        let said = occasions.find(|occasion| occasion.occurrence == occurrence);
        match said.and_then(|occasion| occasion.file) {
            Some(file) if FileStamp::of(path).ok() != Some(file) => Err(Failure::input(
                "the file is another than when this node said that it attends: it was written meanwhile",
            )
            .field("data_set")
            .hint("write it well before the schedule is due, under another name, and move it into place")),
            _ => Ok(()),
        }
    }
}

/// Refuses an attempt that is before the one that this node is in, or is that one.
fn forward(occasion: &Occasion, attempt: u32) -> Result<(), Refusal> {
    let conflict = |what: String| Err(Refusal::new(Kind::Conflict, what));
    match occasion.attempt {
        Some(taken) if taken > attempt => conflict(format!(
            "this node is in attempt {taken} of this occurrence, and does not go back to attempt {attempt}"
        )),
        Some(taken) if taken == attempt => conflict(format!(
            "this is a second offer of attempt {attempt}, and each has one"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use undertone_protocol::plan::scheduled::OccurrenceId;

    use super::*;

    fn scheduled(occurrence: u8, attempt: u32) -> Scheduled {
        Scheduled {
            occurrence: OccurrenceId([occurrence; 32]),
            attempt,
        }
    }

    #[test]
    fn an_attempt_has_one_offer_and_no_node_goes_back_to_one_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Timetable::open(folder.path().to_owned()).unwrap();
        let table = open();
        table.claim("weekly", (scheduled(1, 1), 100)).unwrap();
        table.enter("weekly", (scheduled(1, 1), 100), ("d1", 7)).unwrap();
        for table in [table, open()] {
            for (attempt, said) in [
                (1, "second offer of attempt 1"),
                (0, "does not go back to attempt 0"),
            ] {
                let key = (scheduled(1, attempt), 100);
                for refused in [table.claim("weekly", key), table.enter("weekly", key, ("d2", 8))] {
                    let refused = refused.unwrap_err();
                    assert!(refused.message.contains(said), "{refused}");
                }
            }
            assert_eq!(table.occasions("weekly")[0].digest.as_deref(), Some("d1"));
            let of = |occurrence| table.latest_attempt(&scheduled(occurrence, 0).occurrence.to_string());
            assert_eq!((of(1), of(2)), (Some(1), None));
        }
        open().enter("weekly", (scheduled(1, 2), 100), ("d3", 9)).unwrap();
        open().enter("weekly", (scheduled(2, 0), 200), ("d4", 9)).unwrap();
        let digests: Vec<_> = open()
            .occasions("weekly")
            .into_iter()
            .map(|it| it.digest)
            .collect();
        assert_eq!(digests, [Some("d4".to_owned()), Some("d3".to_owned())]);
    }

    #[test]
    fn an_offer_that_comes_to_nothing_leaves_the_attempt_that_was_taken() {
        let folder = tempfile::tempdir().unwrap();
        let table = Timetable::open(folder.path().to_owned()).unwrap();
        let key = |attempt| (scheduled(1, attempt), 100);
        table.claim("weekly", key(0)).unwrap();
        table.enter("weekly", key(0), ("d0", 7)).unwrap();
        for attempt in 1..=20 {
            table.claim("weekly", key(attempt)).unwrap();
            let twice = table.claim("weekly", key(attempt)).unwrap_err();
            assert!(twice.message.contains("second offer"), "{twice}");
        }
        let occasion = table.occasions("weekly").remove(0);
        assert_eq!(
            (occasion.attempt, occasion.digest.as_deref(), occasion.taken_ms),
            (Some(0), Some("d0"), 7)
        );
        assert_eq!(occasion.looked_at.len(), MOST_LOOKED_AT);
        let occurrence = scheduled(1, 0).occurrence.to_string();
        assert_eq!(table.latest_attempt(&occurrence), Some(0));
        // Nor does a worthless offer of a later attempt keep out an earlier one's.
        table.claim("other", key(2)).unwrap();
        table.claim("other", key(1)).unwrap();
        table.enter("other", key(1), ("d1", 8)).unwrap();
    }

    #[test]
    fn so_many_occasions_are_kept_and_a_damaged_record_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Timetable::open(folder.path().to_owned()).unwrap();
        let table = open();
        for due in 0..200 {
            table
                .claim("weekly", (scheduled(due, 0), u64::from(due)))
                .unwrap();
        }
        assert_eq!(table.occasions("weekly").len(), MOST_OCCASIONS);
        assert_eq!(open().occasions("weekly")[0].due_s, 199);
        let place = folder.path().join("weekly").join(RECORD);
        let text = std::fs::read_to_string(&place).unwrap();
        assert!(text.len() < 16_000);
        std::fs::write(&place, text.replace("199", "198")).unwrap();
        let table = open();
        assert!(table.occasions("weekly").is_empty() && table.damaged.named().len() == 1);
        table.claim("weekly", (scheduled(9, 0), 900)).unwrap();
        assert!(table.damaged.named().is_empty());
    }
}
