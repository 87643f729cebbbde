//! All that counts in δ: boundaries in each part, draws, and whose accounts a run is charged to.

use super::*;

/// At the boundary: what a total allows exactly is taken, and a millionth more is not, in each
/// part.
#[test]
fn a_total_is_used_up_to_its_last_millionth_in_every_part() {
    // Numbers from outside, for δ = 1e-6 (60 digits): μ of ε = 1, the distance and the draw that
    // leave it no room.
    let mu = OUTSIDE_MU;
    let refused = |charge: Charge, total: Total| {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = open(&folder);
        let totals = vec![(account(), total)];
        let taken = ledger.reserve(&digest(1), of(&account()), charge, totals);
        taken.err().map(|refusal| refusal.kind)
    };
    let total = TOTAL.expect("a total");
    let at = |factor: f64| Charge::of_loss(mu * factor);
    assert_eq!(refused(at(1.0 - 1e-9), total), None);
    assert_eq!(refused(at(1.0 + 1e-9), total), Some(Kind::Budget));
    // A hundredth of δ, by the draw or by sampling, is not there to take either.
    for part in [0.01e-6, 1e-6 * 1e-6] {
        for more in [
            Charge {
                draw: part,
                ..at(1.0 - 1e-9)
            },
            Charge {
                distance: part / 3.0,
                ..at(1.0 - 1e-9)
            },
        ] {
            assert_eq!(refused(more, total), Some(Kind::Budget), "{more:?}");
        }
    }
    // A smaller loss leaves room for a draw, and for (1 + e) times a distance.
    let rest = Charge::of_loss(OUTSIDE_LESS.0);
    for (draw, distance, taken) in [
        (1.0 - 1e-6, 0.0, true),
        (1.0 + 1e-6, 0.0, false),
        (0.0, 1.0 - 1e-6, true),
        (0.0, 1.0 + 1e-6, false),
        (0.5, 0.5 - 1e-6, true),
        (0.5, 0.5 + 1e-6, false),
    ] {
        let room = 1e-6 - OUTSIDE_LESS.1;
        let charge = Charge {
            draw: draw * room,
            distance: distance * room / (1.0 + std::f64::consts::E),
            ..rest
        };
        assert_eq!(
            refused(charge, total),
            (!taken).then_some(Kind::Budget),
            "{draw} {distance}"
        );
    }
}
const OUTSIDE_MU: f64 = 0.23670438066343572;
const OUTSIDE_LESS: (f64, f64) = (0.21, 6.427722460505646e-08);

/// A daemon with ε = 11.3 and δ = 1e-9 took a plan of which a draw alone is bad with a chance of
/// 8.7e-8.
#[test]
fn a_draw_that_is_worse_than_delta_is_refused_whatever_epsilon_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    let charge = Charge {
        draw: 8.7e-8,
        ..Charge::of_loss(0.2)
    };
    for epsilon in [11.3, 1e6] {
        let total = Total { epsilon, delta: 1e-9 };
        let refused = ledger.reserve(&digest(1), of(&account()), charge, vec![(account(), total)]);
        let refused = refused.unwrap_err();
        assert_eq!(
            (refused.kind, refused.kind.exit()),
            (Kind::Budget, Exit::PrivacyRefused)
        );
        let text = refused.to_string();
        for words in ["8.70e-8", "1e-9", "ward-7 (party)"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}

/// Checks that a run that protects a party reveals as much of each of its records. Of a record that
/// can only vanish it reveals twice as much. The totals of both accounts hold.
#[test]
fn what_protects_a_party_is_charged_to_its_records_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    let (parties, records) = (account(), AccountName::new("ward-7", Unit::Record));
    let charge = Charge {
        mu_squared: 0.01,
        draw: 1e-10,
        distance: 1e-11,
    };
    let whole = of(&parties);
    ledger.reserve(&digest(1), whole.clone(), charge, vec![]).unwrap();
    assert_eq!(ledger.reserved(&records), charge);
    ledger.charge_all(&digest(1)).unwrap();
    assert_eq!((ledger.spent(&parties), ledger.spent(&records)), (charge, charge));
    let zeroed = Protected {
        adjacency: Adjacency::ZeroOut,
        ..whole.clone()
    };
    ledger.reserve(&digest(2), zeroed, charge, vec![]).unwrap();
    ledger.charge_all(&digest(2)).unwrap();
    let (of_parties, of_records) = (ledger.spent(&parties), ledger.spent(&records));
    assert!((of_parties.mu_squared - 0.02).abs() < 1e-12 && (of_records.mu_squared - 0.05).abs() < 1e-12);
    assert_eq!(
        (of_parties.draw, of_parties.distance),
        (of_records.draw, of_records.distance)
    );
    ledger.reserve(&digest(3), of(&records), charge, vec![]).unwrap();
    ledger.charge_all(&digest(3)).unwrap();
    assert_eq!(ledger.spent(&parties), of_parties, "one record is not its party");
    assert!((ledger.spent(&records).mu_squared - 0.06).abs() < 1e-12);
    assert_eq!(
        ledger.spent(&AccountName::new("ward-8", Unit::Record)),
        Charge::NOTHING
    );
    // The records' budget refuses what the parties' would take.
    let totals = |of_records: f64| {
        let total = |epsilon| Total { epsilon, delta: 1e-6 };
        vec![
            (parties.clone(), total(9.0)),
            (records.clone(), total(of_records)),
        ]
    };
    let refused = ledger
        .reserve(&digest(4), whole.clone(), charge, totals(0.1))
        .unwrap_err();
    assert!(refused.to_string().contains("ward-7 (record)"), "{refused}");
    ledger.reserve(&digest(4), whole, charge, totals(9.0)).unwrap();
    let set = |unit| DataSet {
        name: "ward-7".into(),
        unit,
        file: None,
        epsilon: 9.0,
        delta: 1e-6,
    };
    let (of_parties, of_records) = (
        ledger.budget(&set(Unit::Party)),
        ledger.budget(&set(Unit::Record)),
    );
    assert_eq!((of_parties.runs, of_records.runs), (2, 3));
    assert!(of_records.epsilon_spent > of_parties.epsilon_spent);
    drop(ledger);
    let mut again = open(&folder);
    assert_eq!(
        again.budget(&set(Unit::Record)).epsilon_spent,
        of_records.epsilon_spent
    );
    assert_eq!(again.budget(&set(Unit::Record)).draw, of_records.draw);
    again.close(&digest(2)).unwrap();
    assert!((again.spent(&records).mu_squared - 0.02).abs() < 1e-12);
}

/// A party that ends runs until a draw suits it has as many draws to choose from as there were
/// runs: what was drawn stays charged, also where nothing else is.
#[test]
fn what_was_drawn_stays_charged_though_the_run_never_begins() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    let charge = Charge {
        mu_squared: 0.01,
        draw: 2e-7,
        distance: 1e-11,
    };
    let draw = Charge {
        draw: 2e-7,
        ..Charge::NOTHING
    };
    let total = vec![(account(), TOTAL.expect("a total"))];
    for run in 0..4 {
        ledger
            .reserve(&digest(run), of(&account()), charge, total.clone())
            .unwrap();
        // A second try of the plan is counted already.
        for _ in 0..2 {
            ledger.reveal(&digest(run)).unwrap();
        }
        assert_eq!(ledger.reserved(&account()).draw, 0.0);
        assert_eq!(ledger.charged(&digest(run)), None, "nothing private has left");
        ledger.release(&digest(run));
        drop(ledger);
        ledger = open(&folder);
        let spent = ledger.spent(&account());
        assert!(
            (spent.draw - draw.draw * (run + 1) as f64).abs() < 1e-15,
            "{spent:?}"
        );
        assert_eq!((spent.mu_squared, spent.distance), (0.0, 0.0));
    }
    // The plan may be taken up again, which counts its draw once; another plan's is one too many.
    ledger
        .reserve(&digest(3), of(&account()), charge, total.clone())
        .unwrap();
    let other = ledger
        .reserve(&digest(4), of(&account()), charge, total)
        .unwrap_err();
    assert_eq!(other.kind, Kind::Budget);
    ledger.charge_all(&digest(3)).unwrap();
    ledger.release(&digest(3));
    assert_eq!(ledger.charged(&digest(3)), Some(charge));
    assert!((ledger.spent(&account()).draw - 8e-7).abs() < 1e-15, "once");
    // Nobody opened it: its loss comes back, its draw does not.
    ledger.close(&digest(3)).unwrap();
    assert_eq!(ledger.charged(&digest(3)), Some(draw));
    ledger.reveal(&digest(9)).expect_err("it was not reserved");
}

/// The loss of a run turned out larger than its data set may spend: it is counted all the same, and
/// nothing more is taken, neither another run nor the rest of one that goes on.
#[test]
fn a_raise_above_the_budget_is_counted_and_ends_all_spending() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    let all = gaussian::mu(1.0, 1e-6).unwrap().powi(2);
    for run in [1, 2] {
        ledger
            .reserve_loss(&digest(run), account(), all * 0.3, TOTAL)
            .unwrap();
        ledger.charge_part(&digest(run), loss(all * 0.1)).unwrap();
    }
    ledger.raise(&digest(1), loss(all * 1.5)).unwrap();
    assert_eq!(ledger.charged_loss(&digest(1)), Some(all * 1.5));
    let set = DataSet {
        name: "ward-7".into(),
        unit: Unit::Party,
        file: None,
        epsilon: 1.0,
        delta: 1e-6,
    };
    let budget = ledger.budget(&set);
    assert!(budget.epsilon_spent > Some(1.0) && budget.runs_left == Some(0));
    for run in [1, 2] {
        let refused = ledger.charge_part(&digest(run), loss(all * 2.0)).unwrap_err();
        assert_eq!(refused.kind, Kind::Budget, "run {run}: {refused}");
    }
    assert_eq!(ledger.charged_loss(&digest(2)), Some(all * 0.1), "as before");
    let refused = ledger.reserve_loss(&digest(3), account(), 1e-9, TOTAL);
    assert_eq!(refused.unwrap_err().kind, Kind::Budget);
    drop(ledger);
    let spent = open(&folder).spent_loss(&account());
    assert!(spent >= all * 1.6, "{spent}");
}

/// The room for a scheduled run is gone when it begins: its occurrence has other attempts.
#[test]
fn an_attempt_that_the_budget_refuses_does_not_spend_its_occurrence() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    let all = gaussian::mu(1.0, 1e-6).unwrap().powi(2);
    for run in [1, 2] {
        ledger
            .reserve_loss(&digest(run), account(), all * 0.3, TOTAL)
            .unwrap();
    }
    ledger.charge_part(&digest(1), loss(all * 0.3)).unwrap();
    ledger.raise(&digest(1), loss(all * 0.9)).unwrap();
    let occurrence = digest(9);
    let part = loss(all * 0.1);
    let refused = ledger.charge_attempt(&occurrence, &digest(2), part).unwrap_err();
    assert_eq!(refused.kind, Kind::Budget, "{refused}");
    ledger.check_occurrence(&occurrence).expect("it is open");
    let unknown = ledger.charge_attempt(&occurrence, &digest(3), part).unwrap_err();
    assert_eq!(unknown.message, not_reserved().message);
    ledger.check_occurrence(&occurrence).expect("it is open");
    ledger.release(&digest(2));
    ledger
        .reserve_loss(&digest(4), account(), all * 0.05, TOTAL)
        .unwrap();
    ledger
        .charge_attempt(&occurrence, &digest(4), loss(all * 0.05))
        .unwrap();
    assert_eq!(
        ledger.check_occurrence(&occurrence).unwrap_err().kind,
        Kind::Spent
    );
}

/// A plan's budget is set aside once: a second run of it would count on nothing.
#[test]
fn a_plan_that_is_set_aside_is_not_set_aside_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    ledger.reserve_loss(&digest(1), account(), 0.01, TOTAL).unwrap();
    let again = ledger.reserve_loss(&digest(1), account(), 0.001, TOTAL);
    assert_eq!(again.unwrap_err().kind, Kind::Spent);
    assert_eq!(ledger.set_aside(&digest(1)), Some(0.01));
    ledger.release(&digest(1));
    ledger.reserve_loss(&digest(1), account(), 0.001, TOTAL).unwrap();
}

/// A training whose later iterations were set aside does not get what another run has taken since.
#[test]
fn a_later_part_is_held_against_what_others_have_cost_since() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    let all = gaussian::mu(1.0, 1e-6).unwrap().powi(2);
    for (run, aside) in [(1, 0.5), (2, 0.4)] {
        ledger
            .reserve_loss(&digest(run), account(), all * aside, TOTAL)
            .unwrap();
        ledger.charge_part(&digest(run), loss(all * 0.1)).unwrap();
    }
    ledger.raise(&digest(2), loss(all * 0.8)).unwrap();
    let refused = ledger.charge_part(&digest(1), loss(all * 0.3)).unwrap_err();
    assert_eq!(refused.kind, Kind::Budget, "{refused}");
    assert_eq!(ledger.charged_loss(&digest(1)), Some(all * 0.1), "as before");
    ledger.charge_part(&digest(1), loss(all * 0.15)).unwrap();
    assert_eq!(ledger.charged_loss(&digest(1)), Some(all * 0.15));
}

/// After a restore nobody knows what a data set has cost: it takes nothing before somebody says so.
#[test]
fn a_data_set_that_a_restore_has_closed_takes_no_run() {
    let folder = tempfile::tempdir().unwrap();
    Restored::close(folder.path(), 1, 2).unwrap();
    let totals = [(account(), TOTAL.expect("a total"))];
    let pays = |ledger: &Ledger| ledger.pays_for(&of(&account()), loss(1e-4), &totals, None);
    let mut ledger = open(&folder);
    let refused = ledger
        .reserve_loss(&digest(1), account(), 1e-4, TOTAL)
        .unwrap_err();
    assert_eq!(
        (refused.kind, refused.field.as_deref()),
        (Kind::Budget, Some("data_set"))
    );
    assert_eq!(pays(&ledger), Some(0));
    drop(ledger);
    assert!(Restored::open(folder.path(), "ward-7").unwrap());
    let mut ledger = open(&folder);
    assert!(pays(&ledger) > Some(1));
    ledger.reserve_loss(&digest(1), account(), 1e-4, TOTAL).unwrap();
    let other = AccountName::new("ward-8", Unit::Party);
    let refused = ledger.reserve_loss(&digest(2), other, 1e-4, TOTAL).unwrap_err();
    assert_eq!(refused.kind, Kind::Budget, "another one stays closed");
}

/// An attempt takes the place of the one before it, and pays with what was set aside for that.
#[test]
fn what_is_set_aside_for_the_attempt_before_pays_for_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    let each = loss(gaussian::mu(1.0, 1e-6).unwrap().powi(2) * 0.6);
    let totals = [(account(), TOTAL.expect("a total"))];
    ledger
        .reserve_loss(&digest(1), account(), each.mu_squared, TOTAL)
        .unwrap();
    let besides = |run: Option<usize>| {
        let run = run.map(digest);
        ledger.pays_for(&of(&account()), each, &totals, run.as_deref())
    };
    assert_eq!([None, Some(2), Some(1)].map(besides), [Some(0), Some(0), Some(1)]);
}

/// A receipt of another member tells of a run that the ledger has: only what it lacks is charged.
#[test]
fn what_the_ledger_covers_already_is_adopted_from_nobody() {
    use crate::daemon::ledger::opening::Adopted;
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder);
    ledger.reserve_loss(&digest(1), account(), 0.01, TOTAL).unwrap();
    ledger.charge_all(&digest(1)).unwrap();
    drop(ledger);
    for (mu_squared, new) in [(0.005, 0), (0.01, 0), (0.02, 1), (0.02, 0)] {
        let run = Adopted {
            digest: digest(1),
            of: of(&account()),
            charge: loss(mu_squared),
            spent: true,
        };
        let adopted = Ledger::adopt(folder.path(), marks(folder.path()), vec![run]).unwrap();
        assert_eq!(adopted.len(), new, "{mu_squared}");
    }
    assert_eq!(open(&folder).charged_loss(&digest(1)), Some(0.02));
}
