//! Tests of a ledger and the marks beside the key: their contents, and the order in which they are
//! written. A state directory that came back from a backup is refused.

use super::*;
use crate::party::journal::tests::Followed;

fn charge(ledger: &mut Ledger, run: usize, mu_squared: f64) {
    ledger
        .reserve_loss(&digest(run), account(), mu_squared, None)
        .unwrap();
    ledger.charge_all(&digest(run)).unwrap();
}

fn followed(folder: &Path) -> (Ledger, Followed) {
    let followed = Followed::default();
    let marks = Marks::open(&folder.join("marks"), "12D3KooWpeer", followed.disk("mark")).unwrap();
    let ledger = Ledger::read(folder, marks, followed.disk("ledger")).unwrap();
    (ledger, followed)
}

#[test]
fn a_charge_is_on_disk_in_ledger_and_mark_once_it_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let (mut ledger, followed) = followed(folder.path());
    assert_eq!(followed.done(), [""; 0]);
    ledger.reserve_loss(&digest(1), account(), 1.0, None).unwrap();
    assert_eq!(followed.done(), [""; 0], "what is set aside is not written");
    ledger.charge_part(&digest(1), loss(0.5)).unwrap();
    let begun = |file: &str| {
        let steps = ["write", "sync", "sync folder of", "write", "sync"];
        steps.map(|step| format!("{step} {file}"))
    };
    assert_eq!(followed.done(), [begun("ledger"), begun("mark")].concat());
    let raised = ["write ledger", "sync ledger", "write mark", "sync mark"];
    ledger.charge_part(&digest(1), loss(0.75)).unwrap();
    assert_eq!(followed.done(), raised);
    ledger.raise(&digest(1), loss(2.0)).unwrap();
    assert_eq!(followed.done(), raised);
    ledger.raise(&digest(1), loss(2.0)).unwrap();
    assert_eq!(followed.done(), [""; 0], "as high as that already");
    // No mark is ever above the ledger: what lowers a charge is marked first.
    let lowered = ["write mark", "sync mark", "write ledger", "sync ledger"];
    ledger.settle(&digest(1), loss(1.0)).unwrap();
    assert_eq!(followed.done(), lowered);
    ledger.close(&digest(1)).unwrap();
    assert_eq!(followed.done(), lowered);
}

#[test]
fn a_charge_of_which_a_step_fails_is_an_error_and_is_whole_at_the_next_try() {
    for step in ["write ledger", "sync ledger", "write mark", "sync mark"] {
        let folder = tempfile::tempdir().unwrap();
        let (mut ledger, followed) = followed(folder.path());
        charge(&mut ledger, 9, 0.25);
        followed.fail(&[step]);
        ledger.reserve_loss(&digest(1), account(), 1.0, None).unwrap();
        let refusal = ledger.charge_part(&digest(1), loss(0.5)).expect_err(step);
        assert_eq!(refusal.kind, Kind::Storage, "{step}: {refusal}");
        assert_eq!(
            ledger.charged_loss(&digest(1)).is_some(),
            step.ends_with("mark"),
            "{step}"
        );
        followed.fail(&[]);
        if step.starts_with("write") {
            ledger.charge_part(&digest(1), loss(0.5)).unwrap();
            assert_eq!(ledger.charged_loss(&digest(1)), Some(0.5), "{step}");
        } else {
            // It is not known what is on the disk: nothing more is charged.
            assert!(!ledger.is_sound(), "{step}");
            ledger.charge_part(&digest(1), loss(0.5)).expect_err(step);
        }
        drop(ledger);
        let mut ledger = open(&folder);
        let charged = step != "sync ledger";
        assert_eq!(ledger.charged_loss(&digest(1)).is_some(), charged, "{step}");
        assert_eq!(ledger.check(&digest(1)).is_err(), charged, "{step}");
    }
}

#[test]
fn a_charge_that_cannot_be_lowered_stays() {
    for step in ["write mark", "write ledger"] {
        let folder = tempfile::tempdir().unwrap();
        let (mut ledger, followed) = followed(folder.path());
        charge(&mut ledger, 1, 1.0);
        followed.fail(&[step]);
        ledger.settle(&digest(1), loss(0.5)).expect_err(step);
        ledger.close(&digest(1)).expect_err(step);
        assert_eq!(ledger.charged_loss(&digest(1)), Some(1.0), "{step}");
        followed.fail(&[]);
        // Killed here, the ledger is not below its marks; and a mark that was lowered is raised.
        drop(ledger);
        let ledger = open(&folder);
        assert_eq!(ledger.charged_loss(&digest(1)), Some(1.0), "{step}");
        drop(ledger);
        std::fs::remove_file(folder.path().join("ledger")).unwrap();
        let adopted = Ledger::adopt(folder.path(), marks(folder.path()), vec![]).unwrap();
        assert_eq!(adopted[0].charge.mu_squared, 1.0, "{step}");
    }
}

/// Checks the repair of a state folder that comes back from before the last run.
#[test]
fn a_ledger_from_a_backup_is_refused_until_what_it_lacks_is_adopted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let mut ledger = open(&folder);
    charge(&mut ledger, 1, 0.5);
    ledger.reserve_loss(&digest(2), account(), 1.0, None).unwrap();
    ledger.charge_part(&digest(2), loss(0.25)).unwrap();
    let backup = std::fs::read(&path).unwrap();
    // The rest of a training, a run that was lowered, one that cost nothing, another account's.
    ledger.charge_part(&digest(2), loss(0.75)).unwrap();
    for (run, lowered) in [(3, 0.5), (4, 0.0)] {
        charge(&mut ledger, run, 2.0);
        ledger.settle(&digest(run), loss(lowered)).unwrap();
    }
    let other = AccountName::new("ward-8", Unit::Record);
    ledger
        .reserve_loss(&digest(5), other.clone(), f64::INFINITY, None)
        .unwrap();
    ledger.charge_all(&digest(5)).unwrap();
    let (spent, latest) = (ledger.spent_loss(&account()), std::fs::read(&path).unwrap());
    drop(ledger);
    for restored in [&backup[..], b""] {
        std::fs::write(&path, restored).unwrap();
        let failure = try_open(folder.path()).expect_err("what it has spent is not known to it");
        assert_eq!(
            (failure.exit, failure.field.as_deref()),
            (Exit::Usage, Some("state"))
        );
        assert!(
            failure.message.contains("older") && failure.message.contains("more"),
            "{failure}"
        );
        let hint = failure.hint.expect("the repair");
        assert!(hint.contains("undertone ledger adopt"), "{hint}");
        assert_eq!(std::fs::read(&path).unwrap(), restored, "refused, not changed");

        let adopted = Ledger::adopt(folder.path(), marks(folder.path()), vec![]).unwrap();
        let runs: Vec<_> = adopted.iter().map(|run| run.digest.clone()).collect();
        let first = if restored.is_empty() { 1 } else { 2 };
        assert_eq!(runs, (first..=5).map(digest).collect::<Vec<_>>());
        let ledger = open(&folder);
        assert!((ledger.spent_loss(&account()) - spent).abs() < 1e-12);
        assert_eq!(ledger.charged_loss(&digest(4)), Some(0.0));
        assert_eq!(ledger.spent_loss(&other), f64::INFINITY);
        drop(ledger);
        let again = Ledger::adopt(folder.path(), marks(folder.path()), vec![]).unwrap();
        assert_eq!(again, [], "once");
    }
    std::fs::write(&path, latest).unwrap();
    drop(open(&folder));
}

/// The folder beside the key comes back from a backup, or belongs to a new key: the ledger knows.
#[test]
fn marks_that_are_missing_or_lower_than_the_ledger_are_written_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    charge(&mut ledger, 1, 0.5);
    let backup = std::fs::read(folder.path().join("marks")).unwrap();
    ledger.raise(&digest(1), loss(1.0)).unwrap();
    charge(&mut ledger, 2, 0.25);
    drop(ledger);
    let state = std::fs::read(folder.path().join("ledger")).unwrap();
    for restored in [&backup[..], b""] {
        std::fs::write(folder.path().join("marks"), restored).unwrap();
        let mut ledger = open(&folder);
        for run in [1, 2] {
            assert_eq!(ledger.check(&digest(run)).unwrap_err().kind, Kind::Spent);
        }
        drop(ledger);
        assert_eq!(std::fs::read(folder.path().join("ledger")).unwrap(), state);
        std::fs::remove_file(folder.path().join("ledger")).unwrap();
        let adopted = Ledger::adopt(folder.path(), marks(folder.path()), vec![]).unwrap();
        let costs: Vec<f64> = adopted.iter().map(|run| run.charge.mu_squared).collect();
        assert_eq!(costs, [1.0, 0.25]);
        std::fs::write(folder.path().join("ledger"), &state).unwrap();
    }
}

#[test]
fn a_plan_that_join_spent_with_the_key_is_spent_for_the_daemon_and_costs_its_budgets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    marks(folder.path()).spend(&digest(1), None).unwrap();
    let mut ledger = open(&folder);
    assert_eq!(ledger.check(&digest(1)).unwrap_err().kind, Kind::Spent);
    ledger.check(&digest(2)).unwrap();
    assert_eq!(ledger.charged_loss(&digest(1)), None);
    ledger.reserve_loss(&digest(2), account(), 1.0, None).unwrap();
    assert_eq!(ledger.reveal(&digest(2)).unwrap(), 1);
    assert_eq!(ledger.reveal(&digest(2)).unwrap(), 2);
    ledger.check(&digest(2)).expect("a draw spends nothing");
    assert_eq!(ledger.reveal(&digest(2)).unwrap(), 3);
    for refused in [
        ledger.check(&digest(2)).unwrap_err(),
        Refusal::from(ledger.reveal(&digest(2)).unwrap_err()),
    ] {
        assert_eq!(refused.kind, Kind::Spent, "{refused}");
    }
}

/// Checks that the chance of a bad draw is on disk in ledger and mark before a number leaves. A
/// state folder that comes back without it is refused, with the reason.
#[test]
fn what_was_drawn_is_in_the_ledger_before_it_is_marked() {
    let folder = tempfile::tempdir().unwrap();
    let (mut ledger, followed) = followed(folder.path());
    let drawn = Charge {
        draw: 1e-9,
        ..loss(0.5)
    };
    ledger.reserve(&digest(1), of(&account()), drawn, vec![]).unwrap();
    assert_eq!(ledger.reveal(&digest(1)).unwrap(), 1);
    let begun = |file: &str| {
        let steps = ["write", "sync", "sync folder of", "write", "sync"];
        steps.map(|step| format!("{step} {file}"))
    };
    assert_eq!(followed.done(), [begun("ledger"), begun("mark")].concat());
    assert_eq!(ledger.reveal(&digest(1)).unwrap(), 2);
    let again = ["write ledger", "sync ledger", "write mark", "sync mark"];
    assert_eq!(followed.done(), again);
    for step in ["write ledger", "sync ledger", "write mark", "sync mark"] {
        let folder = tempfile::tempdir().unwrap();
        let (mut ledger, followed) = self::followed(folder.path());
        ledger.reserve(&digest(1), of(&account()), drawn, vec![]).unwrap();
        followed.fail(&[step]);
        ledger.reveal(&digest(1)).expect_err(step);
    }
    drop(ledger);
    std::fs::remove_file(folder.path().join("ledger")).unwrap();
    let older = try_open(folder.path()).expect_err("the marks know a draw");
    assert!(older.message.contains("older"), "{older}");
    let adopted = Ledger::adopt(folder.path(), marks(folder.path()), vec![]).unwrap();
    assert_eq!(
        (adopted.len(), adopted[0].spent, adopted[0].charge.draw),
        (1, false, 1e-9)
    );
    let mut ledger = open(&folder);
    assert_eq!(
        (ledger.spent(&account()).draw, ledger.spent_loss(&account())),
        (1e-9, 0.0)
    );
    assert_eq!(ledger.charged_loss(&digest(1)), None, "its plan is not spent");
    ledger.reserve(&digest(1), of(&account()), drawn, vec![]).unwrap();
    ledger.charge_all(&digest(1)).unwrap();
    drop(ledger);
    assert_eq!(open(&folder).spent(&account()), drawn);
}

/// Marks that came back from an old copy know fewer draws than the ledger: it counts them itself.
#[test]
fn restored_marks_allow_no_more_draws() {
    let folder = tempfile::tempdir().unwrap();
    let reserve = |ledger: &mut Ledger| {
        ledger.reserve_loss(&digest(1), account(), 1.0, None).unwrap();
    };
    let mut ledger = open(&folder);
    reserve(&mut ledger);
    assert_eq!(ledger.reveal(&digest(1)).unwrap(), 1);
    drop(ledger);
    let marks = folder.path().join("marks");
    let old = std::fs::read(&marks).unwrap();
    for count in 2..=3 {
        let mut ledger = open(&folder);
        reserve(&mut ledger);
        assert_eq!(ledger.reveal(&digest(1)).unwrap(), count);
        drop(ledger);
        std::fs::write(&marks, &old).unwrap();
    }
    let mut ledger = open(&folder);
    assert_eq!(ledger.check(&digest(1)).unwrap_err().kind, Kind::Spent);
    reserve(&mut ledger);
    assert_eq!(
        Refusal::from(ledger.reveal(&digest(1)).unwrap_err()).kind,
        Kind::Spent
    );
}
