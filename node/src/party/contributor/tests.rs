use std::sync::Mutex;

use rand::SeedableRng;
use undertone_protocol::lattice::payload::Payload;

use super::*;
use crate::party::noise_tests::{COORDINATES, assert_planned_noise};
use crate::testing::plan_of;
use crate::vector_file::layout::{Dtype, Layout};

/// The outcome of asking a source: a shape with its values, or a reason.
type Handed = Result<(Vec<usize>, Vec<f64>), String>;

/// Hands over the same again and again, and keeps the means that it received.
struct Always(Handed, Arc<Mutex<Vec<Vec<f64>>>>);

impl PartSource for Always {
    fn ask(&mut self, _: u32, mean: &[f64], _: Instant) -> Result<VectorFile, String> {
        self.1.lock().expect("no panic").push(mean.to_vec());
        let (shape, values) = self.0.clone()?;
        Ok(VectorFile {
            layout: Layout::npy(shape, Dtype::F64),
            values,
        })
    }

    fn conclude(&mut self, _: Option<&[f64]>) {}
}

fn party(plan: &Arc<Plan>, handed: Handed) -> HandedOver<Always> {
    let source = Always(handed, Arc::default());
    HandedOver::of(plan, 1, source, ChaCha12Rng::seed_from_u64(5))
}

fn plan_with(data: &str, records: Option<u64>) -> Arc<Plan> {
    let text = format!(
        "task = \"rounds\"\nname = \"rounds\"\n[data]\nshape = [2]\nreleases = 3\n{data}\n\
         clip = {{ kind = \"l2\", radius = 1e4 }}\n"
    );
    Arc::new(plan_of(&text, 4, records))
}

/// The first contribution without its noise, less what counts for a late one: zero in a ball.
/// Parties of one seed draw the same noise.
fn contributed(plan: &Plan, handed: Handed) -> Vec<f64> {
    let plan = Arc::new(plan.clone());
    let mut value = party(&plan, handed).contribution(1, &[]).vector().clone();
    let late = party(&plan, Err("late".into())).contribution(1, &[]);
    let late = late.vector();
    assert!(late.steps().all(|step| step != 0), "noise like any other's");
    value.subtract(late);
    value.to_f64(plan.lattice().step())
}

/// As far as rounding three rows to cells takes them.
fn assert_near(plan: &Plan, found: &[f64], expected: [f64; 2]) {
    let rounded = 4.0 * plan.lattice().value_step();
    let off = found
        .iter()
        .zip(expected)
        .map(|(found, expected)| (found - expected).abs());
    assert!(off.fold(0.0, f64::max) <= rounded, "{found:?}, not {expected:?}");
}

#[test]
fn what_is_handed_over_is_clipped_and_what_cannot_be_used_is_zero() {
    let plan = plan_with("", None);
    let near = |values, expected| assert_near(&plan, &contributed(&plan, Ok((vec![2], values))), expected);
    near(vec![1e9, 0.0], [1e4, 0.0]);
    near(vec![-600.0, 800.0], [-600.0, 800.0]);
    for unusable in [
        Ok((vec![3], vec![1e9, 0.0, 0.0])),
        Ok((vec![1, 2], vec![1e9, 0.0])),
        Ok((vec![2], vec![1e9, f64::NAN])),
        Err("it ended".into()),
    ] {
        assert_eq!(contributed(&plan, unusable), [0.0; 2]);
    }
}

#[test]
fn rows_are_as_many_as_planned_and_clipped_each() {
    let records = plan_with("unit = \"record\"", Some(3));
    let rows = contributed(&records, Ok((vec![3, 2], vec![1e9, 0.0, 1e9, 0.0, -1e9, 0.0])));
    assert_near(&records, &rows, [1e4, 0.0]);
    let four = contributed(&records, Ok((vec![4, 2], vec![1e9; 8])));
    assert_eq!(four, [0.0; 2], "one row too many");
    // Where the program clips them it hands over their sum, as long as three rows at most.
    let summed = plan_with("unit = \"record\"\nclipped = \"by-program\"", Some(3));
    let sum = contributed(&summed, Ok((vec![2], vec![0.0, -1e9])));
    assert_near(&summed, &sum, [0.0, -3e4]);
    let rows = contributed(&summed, Ok((vec![3, 2], vec![1e9; 6])));
    assert_eq!(rows, [0.0; 2], "no sum");
}

/// A box without zero, in rounds and in a stream, at its first and at a later round: what is
/// missing counts as the corner nearest to zero, and moves the sum by at most Δ.
#[test]
fn a_late_contribution_stays_within_its_box() {
    let boxed = "clip = { kind = \"box\", low = 10000, high = 10001 }";
    for text in [
        format!(
            "name = \"t\"\ntask = \"stream\"\n[data]\nshape = [2]\nreleases = 5\n{boxed}\n[mechanism]\nsums = \"open\"\n"
        ),
        format!("task = \"rounds\"\nname = \"t\"\n[data]\nshape = [2]\nreleases = 5\n{boxed}\n"),
        format!(
            "task = \"rounds\"\nname = \"t\"\n[data]\nshape = [2]\nreleases = 5\nunit = \"record\"\n{boxed}\n"
        ),
    ] {
        let records = text.contains("record").then_some(3);
        let plan = Arc::new(plan_of(&text, 4, records));
        let unit = plan.lattice().step() / plan.calibration().independent_std;
        let low = 10000.0 * records.unwrap_or(1) as f64 / plan.calibration().independent_std;
        let mut late = party(&plan, Err("late".into()));
        for round in [1, 2, 5] {
            let found = late.contribution(round, &[]).vector().to_f64(unit);
            assert!(
                found.iter().all(|it| (it - low).abs() < 8.0),
                "{found:?} for {low}: {text}"
            );
        }
        let silence = late.silence().so_far();
        let spans: Vec<(u32, u32)> = silence.nothing.iter().map(|it| (it.first, it.last)).collect();
        assert_eq!(spans, [(1, 2), (5, 5)]);
        assert_eq!(silence.nothing[0].reason, "late");
    }
}

/// One bad row is one row, across all its tensors; the party contributes.
#[test]
fn a_row_that_is_not_finite_is_one_row() {
    let records = plan_with("unit = \"record\"", Some(3));
    for odd in [f64::NAN, f64::INFINITY] {
        let handed = || Ok((vec![3, 2], vec![1e9, 0.0, odd, 1e9, 1e9, 0.0]));
        assert_near(&records, &contributed(&records, handed()), [2e4, 0.0]);
        let mut party = party(&records, handed());
        party.contribution(1, &[]);
        let silence = party.silence().so_far();
        assert!(silence.nothing.is_empty() && silence.rows.len() == 1);
    }
    // A sum that the program clipped is the party's: nobody knows which row it was.
    let summed = plan_with("unit = \"record\"\nclipped = \"by-program\"", Some(3));
    let handed = || Ok((vec![2], vec![f64::NAN, 1e9]));
    assert_eq!(contributed(&summed, handed()), [0.0; 2]);
    let mut party = party(&summed, handed());
    party.contribution(1, &[]);
    assert_eq!(party.silence().so_far().nothing.len(), 1);
}

/// Keeps how long it is waited for.
struct Patience(Vec<Duration>);

impl PartSource for Patience {
    fn ask(&mut self, _: u32, _: &[f64], until: Instant) -> Result<VectorFile, String> {
        self.0.push(until.saturating_duration_since(Instant::now()));
        Err("late".into())
    }

    fn conclude(&mut self, _: Option<&[f64]>) {}
}

/// In the first round a program loads its libraries, and nobody waits for its part yet.
#[test]
fn the_first_round_waits_longer() {
    let waits = |run: &str| {
        let plan = Arc::new(plan_of(
            &format!("task = \"rounds\"\nname = \"t\"\n[data]\nshape = [2]\nreleases = 3\n[run]\n{run}\n"),
            4,
            None,
        ));
        let rng = ChaCha12Rng::seed_from_u64(5);
        let mut party = HandedOver::of(&plan, 1, Patience(vec![]), rng);
        for round in [1, 2] {
            party.contribution(round, &[]);
        }
        [0, 1].map(|at| party.source.0[at].as_secs_f64().ceil())
    };
    assert_eq!(
        waits("iteration_ms = 5000\njoin_ms = 300000"),
        [60.0, 2.0],
        "0.4 of 5 s"
    );
    assert_eq!(waits("iteration_ms = 5000\njoin_ms = 30000"), [15.0, 2.0]);
    assert_eq!(waits("iteration_ms = 50000\njoin_ms = 30000"), [20.0, 20.0]);
}

/// Checks that no source receives an estimate where the plan claims what strangers learn of rows
/// that follow from none.
#[test]
fn an_estimate_goes_only_to_a_source_whose_plan_says_so() {
    let gossip = |lines: &str, more: &str| {
        let text = format!(
            "name = \"t\"\ntask = \"stream\"\n[data]\nshape = [2]\nreleases = 3\n{lines}\n[mechanism]\n{more}\n"
        );
        Arc::new(plan_of(&text, 6, None))
    };
    let cases = [
        (gossip("", "sums = \"open\""), false),
        (gossip("adaptive = true", "sums = \"open\""), true),
        (gossip("", "sums = \"everybody\""), true),
        (plan_with("", None), true),
    ];
    for (plan, is_reported) in cases {
        let mut party = party(&plan, Ok((vec![2], vec![0.0; 2])));
        party.contribution(1, &[]);
        party.contribution(2, &[0.5, 0.25]);
        let reported = party.source.1.lock().expect("no panic").clone();
        let expected = if is_reported { vec![0.5, 0.25] } else { vec![] };
        assert_eq!(reported, [vec![], expected], "{}", plan.to_json());
    }
}

/// The second contribution and the fifth have noise of their own, as the first has.
#[test]
fn whatever_is_handed_over_leaves_with_the_planned_noise_in_every_round() {
    let rounds = |lines: &str| {
        format!(
            "task = \"rounds\"\nname = \"t\"\n[data]\nshape = [{COORDINATES}]\nreleases = 5\nnoise_ok = true\n{lines}\n"
        )
    };
    let stream = |more: &str| {
        format!(
            "name = \"t\"\ntask = \"stream\"\n[data]\nshape = [{COORDINATES}]\nreleases = 5\nnoise_ok = true\n[mechanism]\n\
             {more}\n"
        )
    };
    let cases = [
        rounds(""),
        rounds("unit = \"record\"\nclip = { kind = \"l2\", radius = 1.0 }"),
        rounds("unit = \"record\"\nclipped = \"by-program\"\nclip = { kind = \"l2\", radius = 1.0 }"),
        rounds("[mechanism]\nkind = \"pairwise\""),
        stream("sums = \"open\""),
        stream("sums = \"everybody\""),
        stream("sums = \"neighbours\"\n[privacy]\ncolluding = 1\ndropouts = 1"),
    ];
    for text in cases {
        let plan = Arc::new(plan_of(&text, 8, text.contains("record").then_some(2)));
        let shape = input::shape_handed_over(&plan, 1);
        let zeros = vec![0.0; shape.iter().product()];
        for handed in [Ok((shape, zeros)), Err("late".to_owned())] {
            let mut party = party(&plan, handed);
            assert_planned_noise(&plan, &mut party, &vec![0.0; COORDINATES], &text);
        }
    }
}
