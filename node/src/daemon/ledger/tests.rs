mod kill;
mod marks;
mod parts;

use std::path::Path;

use undertone_accountant::losses::gaussian;
use undertone_protocol::plan::run_file::settings::{Adjacency, Unit};

use super::*;
use crate::party::journal::disk;
use crate::reporting::failure::Exit;

const TOTAL: Option<Total> = Some(Total {
    epsilon: 1.0,
    delta: 1e-6,
});

fn account() -> AccountName {
    AccountName::new("ward-7", Unit::Party)
}

fn digest(run: usize) -> String {
    format!("{run:064x}")
}

/// The marks beside the key of a test, which lie in its state directory.
fn marks(folder: &Path) -> Marks {
    Marks::open(&folder.join("marks"), "12D3KooWpeer", disk()).unwrap()
}

fn try_open(folder: &Path) -> Result<Ledger, Failure> {
    Ledger::open(folder, marks(folder))
}

fn open(folder: &tempfile::TempDir) -> Ledger {
    try_open(folder.path()).unwrap()
}

/// The charge of a squared loss alone.
fn loss(mu_squared: f64) -> Charge {
    Charge {
        mu_squared,
        ..Charge::NOTHING
    }
}

/// Returns the charged data set of an account of replaced parties, or records.
fn of(account: &AccountName) -> Protected {
    Protected {
        data_set: account.data_set.clone(),
        unit: match account.unit.as_str() {
            "party" => Unit::Party,
            _ => Unit::Record,
        },
        adjacency: Adjacency::ReplaceOne,
    }
}

impl Ledger {
    /// Reserves a squared loss alone, in one account with this total.
    fn reserve_loss(
        &mut self,
        digest: &str,
        account: AccountName,
        mu_squared: f64,
        total: Option<Total>,
    ) -> Result<(), Refusal> {
        let totals = total.map(|total| (account.clone(), total)).into_iter().collect();
        self.reserve(digest, of(&account), loss(mu_squared), totals)
    }

    /// Charges all that is reserved for a run.
    fn charge_all(&mut self, digest: &str) -> Result<(), Refusal> {
        self.charge_part(digest, UNBOUNDED)
    }

    fn charged_loss(&self, digest: &str) -> Option<f64> {
        self.charged(digest).map(|charge| charge.mu_squared)
    }

    fn spent_loss(&self, account: &AccountName) -> f64 {
        self.spent(account).mu_squared
    }
}

/// More than anything that is reserved.
const UNBOUNDED: Charge = Charge {
    mu_squared: f64::INFINITY,
    draw: 1.0,
    distance: 1.0,
};

/// With a file of earlier plans that cannot be read, no plan is known to be unspent, and no sum is
/// right.
#[test]
fn a_ledger_whose_earlier_plans_cannot_be_read_takes_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    for run in 0..300 {
        ledger.reserve_loss(&digest(run), account(), 1e-6, TOTAL).unwrap();
        ledger.charge_all(&digest(run)).unwrap();
        ledger.release(&digest(run));
    }
    let sorted = |name: &str| {
        let path = folder.path().join(name);
        std::fs::OpenOptions::new().write(true).open(path).unwrap()
    };
    sorted("ledger.sorted").set_len(0).unwrap();
    assert!(ledger.is_sound(), "nobody has looked yet");
    let storage = |refused: Refusal| assert_eq!(refused.kind, Kind::Storage);
    storage(ledger.check(&digest(1)).unwrap_err());
    storage(
        ledger
            .reserve_loss(&digest(1), account(), 1e-6, TOTAL)
            .unwrap_err(),
    );
    storage(ledger.raise_charged(&digest(1), loss(1.0)).unwrap_err());
    assert!(!ledger.is_sound());
    // The marks are of their own.
    drop(ledger);
    let mut marks = marks(folder.path());
    sorted("marks.sorted").set_len(0).unwrap();
    let refused = marks.check(&digest(1)).unwrap_err();
    assert!(
        refused.message.contains("earlier plans cannot be read"),
        "{refused}"
    );
    assert!(!marks.is_sound());
    // A restart reads the journals.
    let mut ledger = open(&folder);
    assert_eq!(ledger.books.runs(&account()), 300);
    let refused = ledger.check(&digest(1)).unwrap_err();
    assert_eq!(refused.kind, Kind::Spent, "{refused:?}");
}

/// Sums, counts and the latest run are the same with the checkpoint and without it.
#[test]
fn a_ledger_of_years_is_opened_by_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let records = AccountName::new("ward-8", Unit::Record);
    let mut ledger = open(&folder);
    for run in 0..700 {
        let account = [account(), records.clone()][run % 2].clone();
        ledger.reserve_loss(&digest(run), account, 1e-6, TOTAL).unwrap();
        ledger.charge_all(&digest(run)).unwrap();
        ledger.release(&digest(run));
    }
    ledger.close(&digest(3)).unwrap();
    let known = |ledger: &Ledger| {
        let of = [account(), records.clone()];
        let sums = of.clone().map(|account| ledger.spent(&account));
        let runs = of.clone().map(|account| ledger.books.runs(&account));
        (sums, runs, of.map(|account| ledger.books.latest(&account)))
    };
    let before = known(&ledger);
    assert_eq!(before.1, [350, 350]);
    drop(ledger);
    let flipped = folder.path().join("ledger");
    let whole = std::fs::read(&flipped).unwrap();
    let mut bytes = whole.clone();
    bytes[1000] ^= 1;
    std::fs::write(&flipped, &bytes).unwrap();
    let mut ledger = open(&folder);
    assert_eq!(known(&ledger), before);
    assert_eq!(ledger.charged_loss(&digest(3)), Some(0.0));
    ledger
        .reserve_loss(&digest(4), account(), 1e-6, TOTAL)
        .unwrap_err();
    drop(ledger);
    std::fs::remove_file(folder.path().join("ledger.sorted")).unwrap();
    try_open(folder.path()).expect_err("all is read, and a bit is flipped");
    std::fs::write(&flipped, &whole).unwrap();
    assert_eq!(known(&open(&folder)), before);
}

#[test]
fn squares_add_up_to_the_exact_total_and_no_further() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    // A hundredth of what the total allows: 99 of them fit for sure, 101 do not.
    let each = gaussian::mu(1.0, 1e-6).unwrap().powi(2) / 100.0;
    let mut taken = 0;
    let refusal = loop {
        match ledger.reserve_loss(&digest(taken), account(), each, TOTAL) {
            Ok(()) => ledger.charge_all(&digest(taken)).unwrap(),
            Err(refusal) => break refusal,
        }
        taken += 1;
    };
    assert!((99..=100).contains(&taken), "{taken}");
    assert_eq!(
        (refusal.kind, refusal.kind.status(), refusal.kind.exit()),
        (Kind::Budget, 403, Exit::PrivacyRefused)
    );
    let spent = ledger.spent_loss(&account());
    assert!(spent >= each * taken as f64 && spent < each * 100.1, "{spent}");
    let records = AccountName::new("ward-7", Unit::Record);
    let counted = ledger.reserve_loss(&digest(500), records.clone(), each, TOTAL);
    assert_eq!(
        counted.unwrap_err().kind,
        Kind::Budget,
        "a run of parties counts for their records"
    );
    let free = AccountName::new("ward-9", Unit::Record);
    ledger.reserve_loss(&digest(502), free, each, TOTAL).unwrap();
    let runs_of_records = of(&records).accounts();
    assert_eq!(runs_of_records, [records], "and not the other way round");
    assert!(
        ledger
            .reserve_loss(&digest(501), AccountName::new("ward-8", Unit::Party), each, TOTAL)
            .is_ok(),
        "another data set"
    );
    drop(ledger);
    assert_eq!(
        open(&folder).spent_loss(&account()),
        spent,
        "the same after a restart"
    );
}

/// A training is charged in parts, each on disk before it leaves; all of it stays reserved, so that
/// nobody else counts on it, until it ends, and then what it did not cost is free again.
#[test]
fn a_training_is_charged_in_parts_and_gives_back_what_it_did_not_cost() {
    let folder = tempfile::tempdir().unwrap();
    let most = gaussian::mu(1.0, 1e-6).unwrap().powi(2) * 0.6;
    let reserved = |ledger: &Ledger| ledger.reserved(&account()).mu_squared;
    let mut ledger = open(&folder);
    ledger.reserve_loss(&digest(1), account(), most, TOTAL).unwrap();
    for part in [0.2, 0.4, 0.3] {
        ledger.charge_part(&digest(1), loss(part * most)).unwrap();
        let other = ledger
            .reserve_loss(&digest(2), account(), most, TOTAL)
            .unwrap_err();
        assert_eq!(other.kind, Kind::Budget, "it counts whole");
    }
    let rest = reserved(&ledger) / most;
    assert!((rest - 0.6).abs() < 1e-9, "{rest}");
    // Killed here, it has cost what is on disk.
    drop(ledger);
    let mut ledger = open(&folder);
    assert_eq!(
        (ledger.charged_loss(&digest(1)), reserved(&ledger)),
        (Some(0.4 * most), 0.0)
    );
    let other = ledger.reserve_loss(&digest(2), account(), 0.9 * most, TOTAL);
    other.expect("the rest is free");
    ledger.charge_part(&digest(2), loss(0.8 * most)).unwrap();
    // Ended by itself: never more than was charged, nor for what is no number.
    for (cost, charged) in [(0.9, 0.8), (f64::NAN, 0.8), (0.7, 0.7), (0.75, 0.7)] {
        ledger.settle(&digest(2), loss(cost * most)).unwrap();
        assert_eq!(ledger.charged_loss(&digest(2)), Some(charged * most));
    }
    ledger.release(&digest(2));
    assert_eq!(reserved(&ledger), 0.0);
    drop(ledger);
    let ledger = open(&folder);
    assert_eq!(
        ledger.charged_loss(&digest(2)),
        Some(0.7 * most),
        "after a restart"
    );
    // A torn line that would lower a charge was not synced.
    drop(ledger);
    let path = folder.path().join("ledger");
    let text = std::fs::read_to_string(&path).unwrap();
    let last = text.lines().last().unwrap();
    assert!(last.contains("settled"), "{last}");
    std::fs::write(&path, &text[..text.len() - 5]).unwrap();
    assert_eq!(open(&folder).charged_loss(&digest(2)), Some(0.8 * most));
}

#[test]
fn what_is_reserved_counts_until_it_is_released() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    let most = gaussian::mu(1.0, 1e-6).unwrap().powi(2) * 0.6;
    ledger.reserve_loss(&digest(1), account(), most, TOTAL).unwrap();
    assert_eq!(
        ledger
            .reserve_loss(&digest(2), account(), most, TOTAL)
            .unwrap_err()
            .kind,
        Kind::Budget
    );
    ledger.release(&digest(1));
    ledger.reserve_loss(&digest(2), account(), most, TOTAL).unwrap();
    ledger.charge_all(&digest(2)).unwrap();
    ledger.release(&digest(2));
    assert_eq!(
        ledger
            .reserve_loss(&digest(1), account(), most, TOTAL)
            .unwrap_err()
            .kind,
        Kind::Budget,
        "a charge is not released"
    );
    assert_eq!(
        ledger
            .reserve_loss(&digest(2), account(), 0.0, None)
            .unwrap_err()
            .kind,
        Kind::Spent,
        "nor made twice"
    );
    assert_eq!(ledger.charge_all(&digest(3)).unwrap_err().kind, Kind::Internal);
}

#[test]
fn a_charge_is_raised_and_never_lowered() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    ledger.reserve_loss(&digest(1), account(), 0.5, None).unwrap();
    ledger.charge_all(&digest(1)).unwrap();
    for (raise, then) in [
        (0.25, 0.5),
        (0.75, 0.75),
        (0.5, 0.75),
        (f64::NAN, f64::INFINITY),
        (1.0, f64::INFINITY),
    ] {
        ledger.raise(&digest(1), loss(raise)).unwrap();
        assert_eq!(ledger.charged_loss(&digest(1)), Some(then));
        drop(ledger);
        ledger = open(&folder);
        assert_eq!(
            ledger.charged_loss(&digest(1)),
            Some(then),
            "the same after a restart"
        );
    }
    assert_eq!(
        ledger
            .reserve_loss(&digest(2), account(), 1e-9, TOTAL)
            .unwrap_err()
            .kind,
        Kind::Budget,
        "nothing is left"
    );
}

#[test]
fn a_raise_counts_against_what_was_reserved_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    let all = gaussian::mu(1.0, 1e-6).unwrap().powi(2);
    ledger
        .reserve_loss(&digest(1), account(), all * 0.4, TOTAL)
        .unwrap();
    ledger
        .reserve_loss(&digest(2), account(), all * 0.4, TOTAL)
        .unwrap();
    ledger.charge_all(&digest(1)).unwrap();
    ledger.raise(&digest(1), loss(all * 0.7)).unwrap();
    assert_eq!(ledger.charge_all(&digest(2)).unwrap_err().kind, Kind::Budget);
}

/// The bytes of a ledger with two charges and a raise, and where its lines end.
fn sample() -> (Vec<u8>, Vec<usize>) {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    for run in [1, 2] {
        ledger.reserve_loss(&digest(run), account(), 0.5, None).unwrap();
        ledger.charge_all(&digest(run)).unwrap();
    }
    ledger.raise(&digest(2), loss(2.0)).unwrap();
    let bytes = std::fs::read(folder.path().join("ledger")).unwrap();
    let ends = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(index, _)| index + 1)
        .collect();
    (bytes, ends)
}

#[test]
fn a_ledger_that_was_torn_anywhere_has_all_that_was_synced() {
    let (bytes, ends) = sample();
    // Every cut near the end of a line, and some within.
    let near = |cut: &usize| {
        cut.is_multiple_of(16) || ends.iter().any(|end| cut.abs_diff(*end) < 3 || cut + 65 == *end)
    };
    for cut in (0..=bytes.len()).filter(near) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ledger"), &bytes[..cut]).unwrap();
        let mut ledger = open(&folder);
        let whole = ends.iter().filter(|&&end| end <= cut).count();
        let least = [0.0, 0.0, 0.5, 1.0, 2.5][whole];
        let most = [0.0, 0.5, 1.0, 2.5, 2.5][whole];
        let spent = ledger.spent_loss(&account());
        assert!((least..most + 1e-9).contains(&spent), "cut at {cut}: {spent}");
        // A whole object that lacks only its checksum is counted.
        if let Some(end) = ends
            .iter()
            .position(|&end| cut < end && cut + 60 >= end)
            .filter(|&end| end > 0)
        {
            assert!(spent >= [0.0, 0.5, 1.0, 2.5][end], "cut at {cut}: {spent}");
        }
        // What follows the torn line is a ledger again.
        ledger.reserve_loss(&digest(9), account(), 8.0, None).unwrap();
        ledger.charge_all(&digest(9)).unwrap();
        drop(ledger);
        assert!(
            open(&folder).spent_loss(&account()) >= spent + 8.0,
            "cut at {cut}"
        );
    }
}

#[test]
fn a_ledger_that_was_changed_is_refused() {
    let (bytes, ends) = sample();
    let refused = |bytes: &[u8]| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ledger"), bytes).unwrap();
        let failure = try_open(folder.path()).expect_err("a changed ledger");
        assert_eq!(failure.exit, Exit::Usage);
        assert!(
            failure.hint.as_ref().is_some_and(|hint| hint.contains("backup")),
            "{failure}"
        );
    };
    // The newline at the very end apart: without it the line is torn, and still counted.
    for index in 0..bytes.len() - 1 {
        let mut changed = bytes.clone();
        changed[index] ^= 4;
        refused(&changed);
    }
    let without_second_line = [&bytes[..ends[0]], &bytes[ends[1]..]].concat();
    refused(&without_second_line);
    refused(&[&bytes[..], &bytes[ends[0]..ends[1]]].concat());
}

#[test]
fn a_run_of_which_nothing_is_opened_gives_its_charge_back_and_its_plan_stays_spent() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    let each = gaussian::mu(1.0, 1e-6).unwrap().powi(2) * 0.9;
    let run = digest(1);
    ledger.reserve_loss(&run, account(), each, TOTAL).unwrap();
    ledger.charge_all(&run).unwrap();
    ledger.close(&digest(2)).unwrap();
    assert!(
        ledger.spent_loss(&account()) >= each,
        "another run's end takes nothing back"
    );
    ledger.close(&run).unwrap();
    assert_eq!(
        (ledger.charged_loss(&run), ledger.spent_loss(&account())),
        (Some(0.0), 0.0)
    );
    let before = std::fs::read(folder.path().join("ledger")).unwrap();
    ledger.close(&run).unwrap();
    assert_eq!(
        std::fs::read(folder.path().join("ledger")).unwrap(),
        before,
        "said once"
    );
    drop(ledger);
    let mut ledger = open(&folder);
    assert_eq!(
        (ledger.charged_loss(&run), ledger.spent_loss(&account())),
        (Some(0.0), 0.0)
    );
    let refusal = ledger.reserve_loss(&run, account(), each, TOTAL).unwrap_err();
    assert_eq!(refusal.kind, Kind::Spent);
    ledger.reserve_loss(&digest(3), account(), each, TOTAL).unwrap();
    ledger.charge_all(&digest(3)).unwrap();
    // What was torn while it was written was not said: the charge stays.
    ledger.close(&digest(3)).unwrap();
    drop(ledger);
    let path = folder.path().join("ledger");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 3]).unwrap();
    assert!(open(&folder).spent_loss(&account()) >= each);
}

/// As many more runs are taken as were said to be left, and no other.
#[test]
fn as_many_runs_are_left_as_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    let set = |epsilon: f64| DataSet {
        name: "ward-7".into(),
        unit: Unit::Party,
        file: None,
        epsilon,
        delta: 1e-6,
    };
    assert_eq!(ledger.budget(&set(1.0)).runs_left, None, "none has cost anything");
    let each = gaussian::mu(1.0, 1e-6).unwrap().powi(2) / 7.5;
    ledger.reserve_loss(&digest(0), account(), each, TOTAL).unwrap();
    ledger.charge_all(&digest(0)).unwrap();
    ledger.release(&digest(0));
    // One is set aside and not charged.
    ledger.reserve_loss(&digest(1), account(), each, TOTAL).unwrap();
    assert_eq!(ledger.budget(&set(1.0)).runs_left, Some(5));
    for run in 2..7 {
        ledger.reserve_loss(&digest(run), account(), each, TOTAL).unwrap();
        assert_eq!(ledger.budget(&set(1.0)).runs_left, Some(6 - run as u64));
    }
    assert!(ledger.reserve_loss(&digest(7), account(), each, TOTAL).is_err());
    // A larger budget leaves more, a small one none; and a ledger that is read again says the same.
    assert_eq!(ledger.budget(&set(1e6)).runs_left, Some(MOST_LEFT as u64));
    assert_eq!(ledger.budget(&set(0.1)).runs_left, Some(0));
    drop(ledger);
    assert_eq!(open(&folder).budget(&set(1.0)).runs_left, Some(6));
}

/// A training is charged little by little: what is left like it is the same all the while.
#[test]
fn as_many_runs_are_left_during_a_training_as_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    let set = DataSet {
        name: "ward-7".into(),
        unit: Unit::Party,
        file: None,
        epsilon: 1.0,
        delta: 1e-6,
    };
    let each = gaussian::mu(1.0, 1e-6).unwrap().powi(2) / 7.5;
    ledger.reserve_loss(&digest(0), account(), each, TOTAL).unwrap();
    for part in 1..=10 {
        let part_of_it = loss(each * f64::from(part) / 10.0);
        ledger.charge_part(&digest(0), part_of_it).unwrap();
        assert_eq!(ledger.budget(&set).runs_left, Some(6), "{part} of 10");
    }
    ledger.release(&digest(0));
    assert_eq!(ledger.budget(&set).runs_left, Some(6), "after it");
}
