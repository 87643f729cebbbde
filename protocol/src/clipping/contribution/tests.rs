use proptest::prelude::*;

use super::*;
use crate::plan::run_file::raw::RawRunFile;
use crate::plan::run_file::settings::{Adjacency, Contributed};
use crate::simulator::cluster::tests::plan_with_noise;

/// A plan of four parties of two records each, if records are its unit, with this noise.
fn plan(lines: &str, independent_std: f64) -> Option<Plan> {
    let raw = RawRunFile::parse(&format!("name = \"range\"\n{lines}")).unwrap_or_else(|e| panic!("{e}"));
    let records = lines.contains("\"record\"").then_some(ROWS as u64);
    // What no lattice carries is no plan.
    plan_with_noise(raw, (4, records), 3, independent_std).ok()
}

const ROWS: usize = 2;

fn certain(lines: &str, independent_std: f64) -> Plan {
    plan(lines, independent_std).unwrap_or_else(|| panic!("no plan: {lines}"))
}

/// In the state's units.
fn coordinates(plan: &Plan, contribution: &Clipped) -> Vec<f64> {
    contribution.vector().to_f64(plan.lattice().step())
}

fn norm(values: &[f64]) -> f64 {
    let largest = values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    match largest > 0.0 {
        true => {
            largest
                * values
                    .iter()
                    .map(|value| (value / largest).powi(2))
                    .sum::<f64>()
                    .sqrt()
        }
        false => 0.0,
    }
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    norm(&a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<f64>>())
}

/// Returns the number of records that a contribution is the sum of, and the weight of each.
fn parts(plan: &Plan, party: Party) -> (f64, f64) {
    match (plan.draft().data.unit, plan.draft().data.contributed) {
        (Unit::Party, _) => (1.0, plan.draft().weight(party)),
        (Unit::Record, Contributed::AsTheyAre | Contributed::SecondMoments) => (ROWS as f64, 1.0),
        (Unit::Record, Contributed::ByProgram) => (1.0, ROWS as f64),
    }
}

/// Returns the fault in a contribution's place, found with the plan's own numbers and no code that
/// clips.
fn outside(plan: &Plan, party: Party, contribution: &Clipped) -> Option<String> {
    let (data, found) = (&plan.draft().data, coordinates(plan, contribution));
    let (rows, weight) = parts(plan, party);
    // Sums of f64 in this test; and of a sum that a program clipped, clipping's own.
    let most = |bound: f64| bound * (1.0 + 1e-12);
    match &data.clip {
        Clip::Described { .. } => panic!("rows of a table are no vectors"),
        Clip::L2 { radius } => (norm(&found) > most(radius * weight * rows)).then(|| "a ball".into()),
        Clip::Tensors { .. } => {
            let mut rest = &found[..];
            data.balls()?.into_iter().find_map(|ball| {
                let (own, others) = rest.split_at(ball.coordinates);
                rest = others;
                (norm(own) > most(ball.radius * weight * rows)).then(|| format!("a ball of {}", ball.radius))
            })
        }
        Clip::Box { low, high } => found.iter().enumerate().find_map(|(at, &value)| {
            let cell = plan.lattice().value_step();
            let bound = |bound: f64| bound * weight / plan.scales().at(at);
            let (low, high) = (bound(low.at(at)), bound(high.at(at)));
            let holds_a_cell = (high / cell).floor() >= (low / cell).ceil();
            // A box thinner than a cell has one point, less than a cell towards zero.
            let (low, high) = match holds_a_cell {
                true => (low, high),
                false if low > 0.0 => (low - cell, low),
                false => (high, high + cell),
            };
            let within = (low * rows..=high * rows).contains(&value);
            (!within).then(|| format!("coordinate {at}: {value} not in [{low}, {high}] × {rows}"))
        }),
    }
}

/// A change of the protected unit: how far it may move a contribution.
fn sensitivity(plan: &Plan, party: Party) -> f64 {
    plan.draft().sensitivity(party)
}

#[test]
fn a_box_without_zero_is_stood_in_for_by_its_nearest_corner() {
    let boxed = "clip = { kind = \"box\", low = [10, -11], high = [11, -10] }";
    for unit in ["weights = { party-1 = 2.5 }", "unit = \"record\""] {
        let plan = certain(
            &format!("task = \"rounds\"\n[data]\nshape = [2]\nreleases = 3\n{boxed}\n{unit}"),
            2.0,
        );
        let (rows, weight) = parts(&plan, 1);
        let found = coordinates(&plan, &Clipped::stand_in(&plan, 1));
        let expected = 10.0 * rows * weight;
        let cell = 2.0 * rows * plan.lattice().value_step();
        assert!(
            (expected..expected + cell).contains(&found[0])
                && (expected..expected + cell).contains(&-found[1]),
            "{unit}: {found:?}"
        );
    }
}

/// The issue's own case: a row of the box [10, 11]² is missing, and the sum moves by at most Δ.
#[test]
fn a_missing_row_of_a_stream_moves_the_sum_by_at_most_its_sensitivity() {
    let text = "task = \"stream\"\n[data]\nshape = [2]\nreleases = 3\nclip = { kind = \"box\", low = 10, high = 11 }\n\
                [mechanism]\nsums = \"open\"";
    let plan = certain(text, 0.5);
    let planned = sensitivity(&plan, 0);
    assert!((planned - 2f64.sqrt()).abs() < 1e-12);
    let stand_in = coordinates(&plan, &Clipped::stand_in(&plan, 0));
    let mut furthest = 0.0f64;
    for row in [[10.0, 10.0], [11.0, 11.0], [10.5, 10.2], [-9.0, 1e9]] {
        let (there, _) = Clipped::of(&plan, 0, row.to_vec());
        furthest = furthest.max(distance(&coordinates(&plan, &there), &stand_in));
    }
    println!("moved by {furthest} of {planned}");
    assert!(furthest <= planned && furthest > 0.999 * planned);
}

#[test]
fn a_record_that_is_not_finite_is_one_record() {
    let records = "task = \"rounds\"\n[data]\nreleases = 3\nunit = \"record\"";
    for clip in [
        "tensors = { a = [1], b = [2] }\nclip = { kind = \"tensors\", radius = { a = 1.0, b = 2.0 } }",
        "shape = [3]\nclip = { kind = \"l2\", radius = 2.0 }",
        "shape = [3]\nclip = { kind = \"box\", low = [4, -1, -9], high = [5, 1, -6] }",
    ] {
        let plan = certain(&format!("{records}\n{clip}"), 2.0);
        let good = [4.5, 0.5, -7.0];
        let (as_zero, _) = Clipped::of(&plan, 0, [good, [0.0; 3]].concat());
        for odd in [f64::NAN, f64::INFINITY] {
            let (found, report) = Clipped::of(&plan, 0, [good, [4.5, odd, -7.0]].concat());
            assert!(found == as_zero, "{clip}");
            assert_eq!((report.replaced, report.of), (1, 2));
        }
    }
}

#[test]
fn no_value_is_printed() {
    let plan = certain("[data]\nshape = [2]", 2.0);
    let (contribution, _) = Clipped::of(&plan, 0, vec![0.123_456, 0.3]);
    let steps = contribution.vector().steps().next().expect("two");
    assert!(!format!("{contribution:?}").contains(&steps.to_string()));
}

/// Values that people hand over, and others.
fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => -20.0f64..20.0,
        1 => any::<f64>(),
        1 => prop_oneof![
            Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(f64::MAX), Just(-0.0),
            Just(5e-324)
        ],
    ]
}

/// The lines of a range over three coordinates: a ball, two tensors, one box for all, or one a
/// coordinate, with zero inside, at its border or far away, wide or thin.
fn any_range() -> impl Strategy<Value = String> {
    let magnitude = || prop_oneof![Just(0.0), -30.0f64..30.0, -1e5f64..1e5];
    let width = || (-20i32..10, 1.0f64..10.0).prop_map(|(power, times)| times * libm::exp2(f64::from(power)));
    let radius = || (-6i32..10, 1.0f64..2.0).prop_map(|(power, times)| times * libm::exp2(f64::from(power)));
    prop_oneof![
        radius().prop_map(|radius| format!("shape = [3]\nclip = {{ kind = \"l2\", radius = {radius} }}")),
        (radius(), radius()).prop_map(|(a, b)| format!(
            "tensors = {{ a = [1], b = [2] }}\n\
             clip = {{ kind = \"tensors\", radius = {{ a = {a}, b = {b} }} }}"
        )),
        (magnitude(), width()).prop_map(|(low, width)| format!(
            "shape = [3]\nclip = {{ kind = \"box\", low = {low:?}, high = {:?} }}",
            low + width
        )),
        proptest::collection::vec((magnitude(), width()), 3).prop_map(|bounds| {
            let low: Vec<f64> = bounds.iter().map(|(low, _)| *low).collect();
            let high: Vec<f64> = bounds.iter().map(|(low, width)| low + width).collect();
            format!("shape = [3]\nclip = {{ kind = \"box\", low = {low:?}, high = {high:?} }}")
        }),
    ]
}

/// Task, unit and the rest of a plan around a range.
fn any_plan() -> impl Strategy<Value = (String, f64)> {
    let kind = prop_oneof![
        Just(("", "")),
        Just(("", "[run]\nsealed = false")),
        Just(("task = \"rounds\"\n", "")),
        Just(("task = \"stream\"\n", "[mechanism]\nsums = \"open\"")),
        Just(("", "[mechanism]\nkind = \"ppsc\"")),
        Just(("", "[mechanism]\nkind = \"pairwise\"")),
    ];
    let unit = prop_oneof![
        Just("unit = \"party\""),
        Just("weights = { party-0 = 0.375 }"),
        Just("weights = { party-0 = 1000.0 }"),
        Just("unit = \"record\""),
        Just("unit = \"record\"\nclipped = \"by-program\""),
    ];
    let adjacency = prop_oneof![Just("replace-one"), Just("zero-out")];
    let noise = (-12i32..20).prop_map(|power| libm::exp2(f64::from(power)));
    (kind, unit, adjacency, any_range(), noise).prop_map(|((task, more), unit, adjacency, range, noise)| {
        let streams = task.contains("rounds") || more.contains("sums");
        let unit = match (unit.contains("by-program"), more.contains("sums")) {
            (true, _) if !task.contains("rounds") || range.contains("box") => "unit = \"record\"",
            _ => unit,
        };
        let unit = if more.contains("sums") { "" } else { unit };
        let releases = if streams { "releases = 3\n" } else { "" };
        (
            format!("{task}[data]\n{releases}{range}\n{unit}\nadjacency = \"{adjacency}\"\n{more}\n"),
            noise,
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// Nothing that is contributed lies outside of its range, for any plan that parses and whatever
    /// is handed over, or not; and it moves by at most Δ.
    #[test]
    fn a_contribution_lies_within_its_range_and_moves_by_at_most_the_sensitivity(
        (lines, noise) in any_plan(),
        one in proptest::collection::vec(any_value(), 3),
        other in proptest::collection::vec(any_value(), 3),
        stays in proptest::collection::vec(any_value(), 3),
    ) {
        let plan = plan(&lines, noise);
        prop_assume!(plan.is_some());
        let plan = plan.expect("just seen");
        let data = &plan.draft().data;
        let of = |changed: &[f64]| match (data.unit, data.contributed) {
            (Unit::Record, Contributed::AsTheyAre) => Clipped::of(&plan, 0, [&stays[..], changed].concat()).0,
            _ => Clipped::of(&plan, 0, changed.to_vec()).0,
        };
        let (here, there, stand_in) = (of(&one), of(&other), Clipped::stand_in(&plan, 0));
        for (what, contribution) in [("one", &here), ("other", &there), ("stand-in", &stand_in)] {
            let odd = outside(&plan, 0, contribution);
            prop_assert!(odd.is_none(), "{what}: {odd:?}");
        }
        // Nothing in the range is nearer to zero.
        let places = [&here, &stand_in].map(|it| coordinates(&plan, it));
        for (within, nearest) in places[0].iter().zip(&places[1]) {
            prop_assert!(nearest.abs() <= within.abs(), "{places:?}");
        }
        // What a program clips it must not change by more than a row itself.
        if data.contributed == Contributed::ByProgram {
            return Ok(());
        }
        let moved = match (data.adjacency, data.unit) {
            (Adjacency::ReplaceOne, _) => distance(&coordinates(&plan, &here), &coordinates(&plan, &there)),
            (Adjacency::ZeroOut, Unit::Party) => norm(&places[0]),
            (Adjacency::ZeroOut, Unit::Record) => return Ok(()),
        };
        let planned = sensitivity(&plan, 0) * (1.0 + 1e-12);
        prop_assert!(moved <= planned, "{moved} of {planned}");
        if data.unit == Unit::Party && data.adjacency == Adjacency::ReplaceOne {
            let missing = distance(&places[0], &places[1]);
            prop_assert!(missing <= planned, "missing: {missing} of {planned}");
        }
    }
}
