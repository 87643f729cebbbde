//! Parties that show some others another item, or reveal another nonce.

use super::sealed::SEALED;
use super::*;

/// One party shows some of the others another log, or another final. Returns in how many runs
/// somebody saw both, and in how many all others held an agreed result.
fn equivocations(
    plan: &Arc<Plan>,
    stage: Stage,
    fooled: usize,
    seeds: std::ops::Range<u64>,
) -> (usize, usize) {
    let (mut seen, mut agreed) = (0, 0);
    for seed in seeds {
        let mut rng = stream(seed, "equivocation", 0);
        let liar = rng.random_range(0..plan.parties());
        let others: Vec<Party> = others(plan, &[liar]).into_iter().collect();
        // The first of them is one to whom the liar speaks itself.
        let neighbours = plan.draft().public_graph.neighbours(liar);
        let neighbour = neighbours[rng.random_range(0..neighbours.len())];
        let first = others
            .iter()
            .position(|&party| party == neighbour)
            .expect("nobody is its own neighbour");
        let fooled: BTreeSet<Party> = (0..fooled)
            .map(|step| others[(first + step) % others.len()])
            .collect();
        let what = format!(
            "seed {seed}: {liar} shows {fooled:?} another item of {}",
            stage.phase().name()
        );
        let equivocation = Some(Equivocation {
            party: liar,
            stage,
            fooled,
            version: OtherVersion::StepOff,
        });
        let report = simulate(
            plan,
            Conditions {
                equivocation,
                ..Conditions::new(seed)
            },
        );
        // Two sets, or two nodes with different bits, would be violations.
        assert_eq!(report.violations, [], "{what}");
        // The liar itself holds one version only, perhaps not the one that the others agree on.
        let holds = |&party: &Party| {
            report.outcomes[party]
                .as_ref()
                .is_some_and(|outcome| outcome.agreed && outcome.sum.is_some())
        };
        agreed += usize::from(others.iter().all(holds));
        let reported = |event: &Event| match event {
            Event::Offence { peer, text } => *peer == liar && text.contains("more than one"),
            _ => false,
        };
        seen += usize::from(report.events.iter().any(|(_, _, event)| reported(event)));
    }
    (seen, agreed)
}

/// As long as those whom it shows the same, with itself, are a quorum: six of eight where one may
/// collude and one depart, five where nobody may depart. Else it has split the vote, and the run
/// stops for everybody.
#[test]
fn a_party_that_shows_some_another_item_costs_nobody_the_result_unless_it_splits_the_vote() {
    for (lines, quorum) in [("", 6), ("[privacy]\ndropouts = 0", 5)] {
        let complete = plan(8, lines, 5);
        assert_eq!(complete.draft().run.quorum, quorum);
        for stage in Stages::READABLE.all() {
            for fooled in 1..=3 {
                let agreed = if 8 - fooled >= quorum { 3 } else { 0 };
                let found = equivocations(&complete, stage, fooled, 0..3);
                assert_eq!(found, (3, agreed), "{quorum}, {stage:?}, {fooled} fooled");
            }
        }
    }
    let sealed = plan(8, SEALED, 3);
    for (stage, fooled) in [Stage::Settling, Stage::Sealed]
        .into_iter()
        .flat_map(|it| [(it, 1), (it, 2)])
    {
        let found = equivocations(&sealed, stage, fooled, 0..3);
        assert_eq!(found, (3, 3), "sealed, {stage:?}, {fooled} fooled");
    }
    // Long finals are pulled, not pushed.
    let long = plan_of(10_000, 8, "", 3);
    assert_eq!(equivocations(&long, Stage::Publishing, 2, 0..1), (1, 1));
}

/// On a ring it can show each half another item before the halves have met, and so split the vote:
/// the run stops, or all agree, never some on this and some on that.
#[test]
fn on_a_ring_a_party_that_shows_some_another_item_makes_no_two_results() {
    let counts = |lines: &str| -> Vec<(usize, usize)> {
        let ring = plan(8, &format!("{lines}[topology]\npublic = \"ring\""), 5);
        let stages = Stages::READABLE.all().into_iter();
        stages.map(|stage| equivocations(&ring, stage, 1, 0..6)).collect()
    };
    let of_five = counts("[privacy]\ndropouts = 0\n");
    assert!(
        of_five.iter().all(|&(seen, agreed)| seen > 0 && agreed > 0),
        "{of_five:?}"
    );
    // Halves that have five and three of eight: never six.
    let of_six = counts("");
    assert!(of_six.iter().all(|&(seen, _)| seen > 0), "{of_six:?}");
}

#[test]
fn reveal_that_does_not_fit_ends_a_run_without_room_for_a_departure_and_names_its_party() {
    let plan = plan(8, &format!("{STATIC}\ndropouts = 0"), 5);
    let report = simulate(
        &plan,
        Conditions {
            false_reveal: Some(2),
            ..Conditions::new(1)
        },
    );
    assert_eq!(report.violations, []);
    for party in others(&plan, &[2]) {
        assert!(!report.shares_left[party], "nothing private has left {party}");
        match &report.outcomes[party].as_ref().expect("finished").ending {
            Ending::Aborted { reason } => {
                assert!(reason.starts_with("party-2 revealed another nonce"), "{reason}")
            }
            other => panic!("{other:?}"),
        }
    }
    // The seed is nobody's choice only if all of the plan's kind is said: the plain kind is not
    // taken.
    let honest = simulate(&plan, Conditions::new(1));
    assert!(
        honest
            .outcomes
            .iter()
            .flatten()
            .all(|outcome| outcome.ending == Ending::Done)
    );
}

/// Returns the outcomes of others if the last party tells them all that its final has this weight.
fn with_a_weight(plan: &Arc<Plan>, weight: i128) -> Vec<Outcome> {
    let liar = plan.parties() - 1;
    let equivocation = Some(Equivocation {
        party: liar,
        stage: Stage::Publishing,
        fooled: (0..liar).collect(),
        version: OtherVersion::Weight(weight),
    });
    let conditions = Conditions {
        equivocation,
        ..Conditions::new(5)
    };
    let report = simulate(plan, conditions);
    assert_eq!(report.violations, []);
    let outcomes: Vec<Outcome> = report.outcomes.into_iter().take(liar).flatten().collect();
    assert_eq!(outcomes.len(), liar);
    outcomes
}

/// With Σ w = 0 the mean would be infinite, with Σ w = 1 step anything.
#[test]
fn a_weight_that_is_a_lie_makes_no_mean() {
    for lines in ["", "[run]\ndissemination = \"consensus\""] {
        let plan = plan(4, lines, 4);
        let (draft, lattice) = (plan.draft(), plan.lattice());
        let own: Vec<i128> = (0..4).map(|it| lattice.weight(draft.weight_units(it))).collect();
        let of_others: i128 = own[..3].iter().sum();
        // The final's own weight, which roll-back leaves as it is, or not: nobody departed.
        let honest = simulate(&plan, Conditions::new(5));
        let sums = honest.outcomes.iter().flatten().filter_map(|it| it.sum.as_ref());
        assert_eq!(sums.filter(|sum| sum.weight.0 == of_others + own[3]).count(), 4);
        for weight in [
            -of_others,
            1 - of_others,
            0,
            -own[3],
            3 * own[3],
            i128::from(i64::MAX),
        ] {
            for outcome in with_a_weight(&plan, weight) {
                // Where its entry leaves nothing to average finals are flooded, and its own is not
                // the one that it announced.
                let without_it = outcome.agreed && outcome.included == others(&plan, &[3]);
                assert!(
                    (outcome.sum.is_none() || without_it) && outcome.ending == Ending::Degraded,
                    "{weight}: {outcome:?}"
                );
            }
        }
    }
}

/// Among residues no weight travels: a final that says one is none, and of the others' sum nothing
/// can be read.
#[test]
fn a_weight_among_residues_is_no_final() {
    let plan = plan(4, UNIFORM, 3);
    for outcome in with_a_weight(&plan, 1) {
        assert_eq!(outcome.included, others(&plan, &[3]), "{outcome:?}");
        assert_eq!(outcome.ending, Ending::Degraded);
    }
}

/// A party whose residues are no value plus noise corrupts the sum, and that shows at
/// everybody.
#[test]
fn a_sum_of_residues_that_is_out_of_range_makes_no_mean() {
    for lines in [UNIFORM, UNIFORM_PPSC] {
        let plan = plan(4, lines, 6);
        let mut inputs = inputs(&plan);
        let far = plan.lattice().own_reach + plan.lattice().own_reach / 2;
        inputs[2] = plan.lattice().vector([0, far].into_iter());
        let report = Simulation::new(plan.clone(), inputs, &permissive_gate, Conditions::new(3)).run();
        assert_eq!(report.violations, []);
        for outcome in report.outcomes.iter().flatten() {
            assert!(
                outcome.sum.is_none() && outcome.ending == Ending::Degraded,
                "{outcome:?}"
            );
        }
        let reported = report
            .events
            .iter()
            .filter(|(_, _, event)| matches!(event, Event::Fault(text) if text.contains("further out")));
        assert_eq!(reported.count(), 4);
    }
}
