use undertone_accountant::losses::charge::Charge;
use undertone_protocol::plan::run_file::settings::{Adjacency, Unit};

use super::*;
use crate::daemon::ledger::account::Protected;
use crate::party::journal::tests::Followed;
use crate::party::journal::{Disk, disk};
use crate::party::marks::Marks;

fn mean_file() -> MeanFile {
    MeanFile {
        name: "mean.npy".into(),
        sha256: "0".repeat(64),
    }
}

fn status(digest: &str) -> RunStatus {
    serde_json::from_value(json!({
        "digest": digest, "name": "run", "state": "gathering", "phase": null, "round": null, "rounds": 3,
        "parties": 4, "dimension": 2, "unit": "party", "data_set": null, "proposer": null, "submitted_ms": 1,
        "started_ms": null, "ended_ms": null, "epsilon_claimed": 1.0, "delta": 1e-6, "epsilon": null,
        "unbounded": false, "charged": null, "outcome": null, "reason": null, "exit_code": null, "included": [],
        "standard_error": null, "private_bytes": 0, "public_bytes": 0,
    }))
    .expect("a run")
}

#[test]
fn unreachable_parties_are_listed_until_they_come_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = Record {
        status: status("a"),
        mean: None,
        receipt_sha256: None,
    };
    let run = Run::new("alice", folder.path().to_owned(), record);
    for (peer, state, unreachable) in [
        ("bob", "private connected", &[][..]),
        ("bob", "private disconnected", &[]),
        ("bob", "unreachable", &["bob"]),
        ("bob", "unreachable", &["bob"]),
        ("carol", "unreachable", &["bob", "carol"]),
        ("bob", "public connected", &["carol"]),
    ] {
        run.observe(&json!({ "event": "peer", "peer": peer, "state": state }));
        assert_eq!(run.status().unreachable, unreachable, "{peer} {state}");
    }
}

#[test]
fn a_record_that_does_not_say_whose_the_result_is_keeps_it_on_this_machine() {
    assert!(status("a").owners_alone);
}

fn receipts(folder: &tempfile::TempDir, disk: Disk) -> Receipts {
    Receipts::open(folder.path(), disk).expect("a file of receipts")
}

fn with_receipt(runs: &Runs, digest: &str) -> Arc<Run> {
    let run = runs.insert(status(digest), "plan").expect("taken");
    for (file, text) in [
        ("mean.npy", "mean"),
        ("receipt.json", digest),
        ("receipt.json.sig", "c2ln"),
    ] {
        std::fs::write(run.folder().join(file), text).expect("writable");
    }
    run
}

#[test]
fn runs_that_are_too_old_are_deleted_and_their_receipts_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ledger, place) = state(&folder);
    let runs = Runs::open("alice", place.clone(), &ledger).expect("none yet");
    let kept = receipts(&folder, disk());
    let [old, going, bare] = digests();
    with_receipt(&runs, &old).end(Some(mean_file()), |status| status.state = RunState::Ended);
    with_receipt(&runs, &going);
    done(&runs.insert(status(&bare), "plan").expect("taken"));
    let ended = runs.get(&old).and_then(|run| run.status().ended_ms);
    let ended = ended.expect("it ended");
    assert_eq!(runs.delete(ended, &kept).expect("readable"), 0, "not before then");
    assert!(!kept.has(&old));
    assert_eq!(runs.delete(u64::MAX, &kept).expect("readable"), 2);
    assert_eq!(runs.delete(u64::MAX, &kept).expect("readable"), 0, "once");
    let names: Vec<_> = std::fs::read_dir(&place)
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name())
        .collect();
    assert_eq!(names, [going.as_str()], "what goes on stays");
    assert!(runs.get(&old).is_none() && runs.get(&going).is_some());
    // A daemon that starts anew has it, too.
    for kept in [&kept, &receipts(&folder, disk())] {
        let receipt = kept.read(&old).expect("sound").expect("it has one");
        assert_eq!((&receipt.receipt, receipt.signature.as_str()), (&old, "c2ln"));
        assert_eq!(kept.read(&bare).expect("sound"), None);
    }
    drop(runs);
    let runs = Runs::open("alice", place, &ledger).expect("sound records");
    assert_eq!(runs.all().len(), 1);
}

#[test]
fn a_receipt_is_synced_before_its_folder_goes_and_keeps_it_where_it_cannot_be() {
    for step in ["write r", "sync r", "sync folder of r"] {
        let folder = tempfile::tempdir().expect("a folder");
        let (ledger, place) = state(&folder);
        let runs = Runs::open("alice", place.clone(), &ledger).expect("none yet");
        let followed = Followed::default();
        let kept = receipts(&folder, followed.disk("r"));
        let [old] = digests();
        done(&with_receipt(&runs, &old));
        followed.fail(&[step]);
        let failure = runs.delete(u64::MAX, &kept).expect_err(step);
        assert_eq!(failure.exit, Exit::TryAgain, "{failure}");
        assert!(place.join(&old).join("receipt.json").exists(), "{step}");
        followed.fail(&[]);
        drop(kept);
        let kept = receipts(&folder, disk());
        assert_eq!(runs.delete(u64::MAX, &kept).expect("room"), 1, "{step}");
        assert_eq!(kept.read(&old).expect("sound").expect("kept").receipt, old);
        assert!(kept.damaged().is_empty(), "{step}");
    }
}

#[test]
fn a_run_whose_receipt_or_record_is_damaged_is_not_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ledger, place) = state(&folder);
    let runs = Runs::open("alice", place.clone(), &ledger).expect("none yet");
    let (kept, [receipt, record]) = (receipts(&folder, disk()), digests());
    for digest in [&receipt, &record] {
        done(&with_receipt(&runs, digest));
    }
    drop(runs);
    std::fs::write(place.join(&receipt).join("receipt.json"), "changed").expect("writable");
    std::fs::write(place.join(&record).join("run.json"), "changed").expect("writable");
    let runs = Runs::open("alice", place.clone(), &ledger).expect("skipped");
    assert_eq!(runs.delete(u64::MAX, &kept).expect("readable"), 0);
    let named = runs.damaged.named();
    assert!(
        named.len() == 2 && named[0].contains("receipt.json") && named[1].contains("run.json"),
        "{named:?}"
    );
    assert!(!kept.has(&receipt) && place.join(&receipt).join("mean.npy").exists());
}

/// Killed after the receipt was kept, or while the folder was being deleted.
#[test]
fn what_an_earlier_daemon_did_not_finish_deleting_is_deleted_and_its_receipt_kept_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ledger, place) = state(&folder);
    let runs = Runs::open("alice", place.clone(), &ledger).expect("none yet");
    let (kept, [kept_only, renamed]) = (receipts(&folder, disk()), digests());
    for digest in [&kept_only, &renamed] {
        done(&with_receipt(&runs, digest));
        let text = [digest.clone(), "c2ln".to_owned()];
        kept.keep(digest, text).expect("room");
    }
    let half = place.join(format!("{renamed}{DELETED}"));
    std::fs::rename(place.join(&renamed), &half).expect("it is there");
    std::fs::remove_file(half.join("run.json")).expect("it is there");
    drop(runs);
    let before = std::fs::read(folder.path().join("receipts")).expect("readable");
    let runs = Runs::open("alice", place.clone(), &ledger).expect("sound");
    assert_eq!((runs.all().len(), runs.damaged.named().len()), (1, 0));
    assert_eq!(runs.delete(u64::MAX, &kept).expect("readable"), 1);
    assert_eq!(std::fs::read_dir(&place).expect("readable").count(), 0);
    let after = std::fs::read(folder.path().join("receipts")).expect("readable");
    assert!(after == before, "nothing is written twice");
}

/// A start reads what goes on and the newest others, however many there are.
#[test]
fn a_start_reads_the_records_of_the_newest_runs_and_of_those_that_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ledger, place) = state(&folder);
    let runs = Runs::open("alice", place.clone(), &ledger).expect("none yet");
    let digest = |run: usize| format!("{run:064x}");
    let going = digest(0);
    runs.insert(status(&going), "plan").expect("taken");
    for run in 1..=MOST_KNOWN + 5 {
        done(&runs.insert(status(&digest(run)), "plan").expect("taken"));
        // Older than those after it, on any file system.
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(run as u64);
        let record = std::fs::File::open(place.join(digest(run)).join(ENDED));
        record.and_then(|record| record.set_modified(at)).expect("ours");
    }
    drop(runs);
    std::fs::write(place.join(digest(3)).join(ENDED), "damaged").expect("writable");
    let record = std::fs::File::open(place.join(digest(3)).join(ENDED));
    record
        .and_then(|record| record.set_modified(std::time::UNIX_EPOCH))
        .expect("ours");
    let runs = Runs::open("alice", place.clone(), &ledger).expect("sound");
    assert_eq!(
        runs.all().len(),
        MOST_KNOWN,
        "the one that went on is one of them"
    );
    assert_eq!(
        runs.get(&going).expect("known").status().state,
        RunState::Withdrawn
    );
    assert!(!place.join(&going).join(BEGUN).exists() && place.join(&going).join(ENDED).exists());
    assert!(runs.damaged.named().is_empty(), "it was not read");
    assert_eq!(
        runs.get(&digest(1)).expect("from disk").status().state,
        RunState::Ended
    );
    runs.look_through().expect("readable");
    assert!(runs.damaged.named()[0].contains(&digest(3)), "later it is");
}

/// Killed between the record of an end and the removal of that of its begin.
#[test]
fn the_end_of_a_run_counts_once_it_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ledger, place) = state(&folder);
    let runs = Runs::open("alice", place.clone(), &ledger).expect("none yet");
    let [digest] = digests();
    let run = runs.insert(status(&digest), "plan").expect("taken");
    let begun = std::fs::read(run.folder().join(BEGUN)).expect("it is begun");
    run.end(Some(mean_file()), |status| status.state = RunState::Ended);
    std::fs::write(run.folder().join(BEGUN), &begun).expect("writable");
    let state = |runs: &Runs| runs.get(&digest).expect("known").status().state;
    let again = Runs::open("alice", place.clone(), &ledger).expect("sound");
    assert_eq!(state(&again), RunState::Ended);
    assert!(!run.folder().join(BEGUN).exists());
    // The end of an earlier try is not that of this one.
    let mut later = status(&digest);
    later.submitted_ms += 1;
    let earlier = std::fs::read(run.folder().join(ENDED)).expect("it ended");
    again.insert(later, "plan").expect("taken anew");
    assert!(!run.folder().join(ENDED).exists());
    std::fs::write(run.folder().join(ENDED), earlier).expect("writable");
    let again = Runs::open("alice", place, &ledger).expect("sound");
    assert_eq!(state(&again), RunState::Withdrawn);
}

fn digests<const N: usize>() -> [String; N] {
    std::array::from_fn(|run| format!("{run:064x}"))
}

/// An empty state directory: its ledger, and the folder of its runs.
fn state(folder: &tempfile::TempDir) -> (Ledger, PathBuf) {
    let place = folder.path().join("runs");
    std::fs::create_dir_all(&place).expect("writable");
    let marks = Marks::open(&folder.path().join("marks"), "12D3KooWpeer", disk()).expect("marks");
    (Ledger::open(folder.path(), marks).expect("a ledger"), place)
}

fn done(run: &Run) {
    run.end(None, |status| status.state = RunState::Ended);
}

#[test]
fn a_flipped_byte_in_one_run_keeps_no_other_from_being_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ledger, place) = state(&folder);
    let [old, new] = digests();
    let runs = Runs::open("alice", place.clone(), &ledger).expect("none yet");
    for digest in [&old, &new] {
        done(&runs.insert(status(digest), "plan").expect("taken"));
    }
    drop(runs);
    let path = place.join(&old).join("run.json");
    let mut bytes = std::fs::read(&path).expect("a record");
    bytes[20] ^= 1;
    std::fs::write(&path, bytes).expect("writable");
    let runs = Runs::open("alice", place, &ledger).expect("the other is sound");
    assert!(runs.get(&old).is_none() && runs.get(&new).is_some());
    assert_eq!(runs.all().len(), 1);
    let named = runs.damaged.named();
    assert!(
        named.len() == 1 && named[0].contains(&format!("{old}/run.json")),
        "{named:?}"
    );
}

#[test]
fn a_receipt_is_served_as_it_was_written_or_not_at_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ledger, place) = state(&folder);
    let runs = Runs::open("alice", place, &ledger).expect("none yet");
    let [with, without] = digests();
    let run = runs.insert(status(&with), "plan").expect("taken");
    let write = |name: &str, text: &str| std::fs::write(run.folder().join(name), text).expect("writable");
    assert!(run.receipt().expect("none yet").is_none());
    write("receipt.json", "{}");
    write("receipt.json.sig", "c2ln");
    done(&run);
    for run in [run.clone(), runs.get(&with).expect("it is known")] {
        let both = run.receipt().expect("as it was written").expect("it has one");
        assert_eq!(both, [b"{}".to_vec(), b"c2ln".to_vec()]);
    }
    for (name, sound, changed) in [("receipt.json", "{}", "{1"), ("receipt.json.sig", "c2ln", "c2lo")] {
        write(name, changed);
        run.receipt().expect_err("a changed file");
        std::fs::remove_file(run.folder().join(name)).expect("it was there");
        run.receipt().expect_err("a file that is gone");
        write(name, sound);
    }
    assert!(run.receipt().expect("restored").is_some());
    let run = runs.insert(status(&without), "plan").expect("taken");
    done(&run);
    assert!(run.receipt().expect("it left none").is_none());
}

#[test]
fn a_run_that_an_earlier_daemon_did_not_end_is_ended_by_what_it_was_charged() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut ledger, place) = state(&folder);
    let [charged, free] = digests();
    let runs = Runs::open("alice", place.clone(), &ledger).expect("none yet");
    for digest in [&charged, &free] {
        runs.insert(status(digest), "plan").expect("taken");
    }
    drop(runs);
    let of = Protected {
        data_set: "ward".into(),
        unit: Unit::Party,
        adjacency: Adjacency::ReplaceOne,
    };
    let cost = Charge {
        mu_squared: 0.25,
        ..Charge::NOTHING
    };
    ledger.reserve(&charged, of, cost, vec![]).expect("no limit");
    ledger.charge_part(&charged, cost).expect("room");
    let runs = Runs::open("alice", place, &ledger).expect("sound");
    let of = |digest: &str| {
        let status = runs.get(digest).expect("known").status();
        (status.state, status.exit_code, status.charged)
    };
    assert_eq!(of(&charged), (RunState::Interrupted, Some(6), Some(0.25)));
    assert_eq!(of(&free), (RunState::Withdrawn, Some(4), None));
}

#[test]
fn a_run_is_taken_back_before_it_is_spent_and_not_after() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = || Record {
        status: status("a"),
        mean: None,
        receipt_sha256: None,
    };
    let run = || Run::new("alice", folder.path().to_owned(), record());
    let open = run();
    assert_eq!(open.taken_back(), None);
    open.cancel(Stop::Withdrawn).expect("nothing has left");
    assert_eq!(*open.stage(), Stage::Cancelled);
    assert_eq!(open.taken_back(), Some(Stop::Withdrawn));
    assert_eq!(
        open.cancel(Stop::DaemonEnds).unwrap_err().kind,
        Kind::Conflict,
        "once"
    );
    // Why it was stopped first stays.
    open.stop(Stop::DaemonEnds);
    assert_eq!(open.taken_back(), Some(Stop::Withdrawn));

    let spent = run();
    *spent.stage() = Stage::Spent;
    assert_eq!(spent.cancel(Stop::Withdrawn).unwrap_err().kind, Kind::Conflict);
    spent.stop(Stop::DaemonEnds);
    assert_eq!(spent.taken_back(), None, "what has left is not taken back");
    assert_eq!(
        *spent.stop.borrow(),
        Some(Stop::DaemonEnds),
        "it is stopped all the same"
    );
}

#[test]
fn only_the_first_end_of_a_run_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ledger, place) = state(&folder);
    let runs = Runs::open("alice", place, &ledger).expect("none yet");
    let [digest] = digests();
    let run = runs.insert(status(&digest), "plan").expect("taken");
    assert_eq!(run.over().unwrap_err().kind, Kind::Conflict);
    assert_eq!(
        runs.insert(status(&digest), "plan")
            .err()
            .map(|refusal| refusal.kind),
        Some(Kind::Conflict),
        "while it goes on"
    );
    run.update(|status| status.waiting_for = vec!["bob".into()]);
    run.end(Some(mean_file()), |status| status.state = RunState::Ended);
    run.end(None, |status| status.state = RunState::Interrupted);
    run.over().expect("it has ended");
    let ended = run.status();
    assert_eq!((ended.state, ended.waiting_for.len()), (RunState::Ended, 0));
    assert_eq!(run.mean(), Some(mean_file()));
    assert_eq!(*run.stage(), Stage::Spent);
    // What is over may be submitted again, if it was not spent.
    runs.insert(status(&digest), "plan").expect("taken anew");
}

#[test]
fn the_oldest_runs_that_are_over_leave_memory_and_are_read_from_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ledger, place) = state(&folder);
    let runs = Runs::open("alice", place, &ledger).expect("none yet");
    let submit = |run: usize| {
        let mut status = status(&format!("{run:064x}"));
        status.submitted_ms = run as u64;
        runs.insert(status, "plan").expect("taken")
    };
    // The very oldest goes on.
    submit(0);
    for run in 1..=MOST_KNOWN + 2 {
        done(&submit(run));
    }
    submit(MOST_KNOWN + 3);
    let known: Vec<u64> = runs.all().iter().map(|run| run.status().submitted_ms).collect();
    let newest_first: Vec<u64> = (3..=MOST_KNOWN as u64 + 3).rev().chain([0]).collect();
    assert_eq!(known, newest_first);
    assert_eq!(runs.count(|state| !state.is_over()), 2);
    let oldest = runs.get(&format!("{:064x}", 1)).expect("from disk").status();
    assert_eq!((oldest.submitted_ms, oldest.state), (1, RunState::Ended));
    assert!(runs.get("../runs").is_none() && runs.get(&"f".repeat(64)).is_none());
}
