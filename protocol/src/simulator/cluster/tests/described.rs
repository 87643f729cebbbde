//! Statistics of tables: frames say nothing of what cells hold.

use super::*;
use crate::clipping::contribution::Clipped;
use crate::describe::cells::RowCell;
use crate::describe::row::RowEncoder;
use crate::describe::tally::RowTally;
use crate::task::mean::Mean;

const PARTIES: usize = 5;

const TEXT: &str = "task = \"describe\"\nname = \"table\"\n[data]\nrecords = 3\n[describe]\ngroup_by = \"arm\"\n\
                    [[describe.column]]\nname = \"arm\"\ncategories = [\"old\", \"new\"]\n\
                    [[describe.column]]\nname = \"age\"\nlow = 18\nhigh = 100\nwant = [\"mean\", \"quantiles\"]\n\
                    bins = 8\n";

/// The sum of a party's three rows.
fn sum_of(plan: &Plan, rows: &[[RowCell<'_>; 2]]) -> LatticeVector {
    let settings = plan.draft().computation.described().expect("a description");
    let encoder = RowEncoder::of(&settings.describe);
    let mut tally = RowTally::new(encoder, plan.lattice().value_step());
    rows.iter().for_each(|row| tally.add(row));
    Clipped::of_table(plan, tally.finish())
        .expect("of this plan")
        .into_vector()
}

fn plan_of_kind(kind: &str) -> Arc<Plan> {
    let raw = RawRunFile::parse(&format!("{TEXT}[mechanism]\nkind = \"{kind}\"\n"));
    plan_from(
        raw.unwrap_or_else(|error| panic!("{error}")),
        PARTIES,
        None,
        if kind == "pairwise" { 2 } else { 3 },
    )
}

const OLD: [RowCell<'static>; 2] = [RowCell::Text("old"), RowCell::Number(61.0)];

/// One row of one party is another one: a missing cell, a category that nobody declared, a number
/// that is none. The frames are as many, as long, and in the same order.
#[test]
fn frames_do_not_depend_on_what_a_row_holds() {
    let rows: [[RowCell<'static>; 2]; 5] = [
        OLD,
        [RowCell::Text("old"), RowCell::Text("NA")],
        [RowCell::Text("elsewhere"), RowCell::Number(61.0)],
        [RowCell::Empty, RowCell::Number(f64::INFINITY)],
        [RowCell::Text("new"), RowCell::Text("sixty-one")],
    ];
    for kind in ["inca", "pairwise"] {
        let plan = plan_of_kind(kind);
        let frames = |row: &[RowCell<'static>; 2]| {
            let inputs = (0..PARTIES).map(|party| {
                let own = if party == 2 { *row } else { OLD };
                sum_of(&plan, &[OLD, own, OLD])
            });
            let (inputs, conditions) = (inputs.collect(), Conditions::new(9));
            let mut simulation = Simulation::new(plan.clone(), inputs, &permissive_gate, conditions);
            simulation.journals = vec![Default::default(); PARTIES];
            simulation.play();
            let journals = std::mem::take(&mut simulation.journals);
            assert_eq!(simulation.finish().violations, []);
            journals
                .iter()
                .map(|journal| journal.frames())
                .collect::<Vec<_>>()
        };
        let usual = frames(&rows[0]);
        assert!(usual.iter().all(|frames| !frames.is_empty()));
        for row in &rows[1..] {
            assert!(frames(row) == usual, "{kind}");
        }
    }
}

/// What all nodes hold is the sum of all rows, and nothing of a mean.
#[test]
fn all_nodes_hold_the_sum_of_all_rows() {
    let plan = plan_of_kind("inca");
    let inputs: Vec<LatticeVector> = (0..PARTIES).map(|_| sum_of(&plan, &[OLD, OLD, OLD])).collect();
    let simulation = Simulation::new(plan.clone(), inputs, &permissive_gate, Conditions::new(3));
    let report = simulation.run();
    assert_eq!(report.violations, []);
    let settings = plan.draft().computation.described().expect("a description");
    let exact = RowEncoder::of(&settings.describe).vector(&OLD);
    for outcome in report.outcomes.iter().flatten() {
        let sum = Mean::of_sum(&plan, outcome.sum.as_ref().expect("a sum"));
        // Five parties' noise of standard deviation 4 each: six deviations.
        let far = sum
            .iter()
            .zip(&exact)
            .map(|(sum, one)| (sum - 15.0 * one).abs())
            .fold(0.0, f64::max);
        assert!(far < 6.0 * 4.0 * 5f64.sqrt(), "{far}");
    }
}

/// A liar's coordinate that residues have room for, and that no rows with noise can come to, is
/// found out by all.
#[test]
fn a_sum_further_out_than_rows_and_noise_is_rejected() {
    let plan = plan_of_kind("inca");
    let everybody = (0..PARTIES).collect();
    let furthest = plan.furthest_steps(&everybody).expect("a description") as i128;
    let room = plan.lattice().own_reach;
    assert!(furthest + furthest / 8 < room, "{furthest} of {room}");
    for (far, is_rejected) in [(furthest + furthest / 16, true), (furthest / 2, false)] {
        let mut inputs: Vec<LatticeVector> = (0..PARTIES).map(|_| sum_of(&plan, &[OLD, OLD, OLD])).collect();
        let coordinates = plan.draft().dimension();
        let lie = (0..coordinates).map(|at| if at + 1 == coordinates { far } else { 0 });
        inputs[2] = plan.lattice().vector(lie);
        let report = Simulation::new(plan.clone(), inputs, &permissive_gate, Conditions::new(4)).run();
        assert_eq!(report.violations, []);
        for outcome in report.outcomes.iter().flatten() {
            assert_eq!(
                (outcome.out_of_range, outcome.sum.is_none()),
                (is_rejected, is_rejected)
            );
        }
    }
}
