use super::*;

fn run(view: GossipView, corrupted: &[Party]) -> GossipRun {
    let (parties, rounds) = (6, 4);
    GossipRun {
        parties,
        edges: std::iter::repeat_n(Arc::new(Graph::ring(parties)), rounds).collect(),
        contributions: rounds,
        std: vec![1.0; rounds],
        view,
        corrupted: corrupted.iter().copied().collect(),
        online: vec![vec![true; parties]; rounds],
        published: BTreeSet::new(),
    }
}

fn losses(run: &GossipRun) -> BTreeMap<Party, ContributionLoss> {
    run.outcome().expect("an outcome").losses
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} for {expected}");
}

#[test]
fn a_neighbours_message_has_nothing_but_its_own_noise() {
    let losses = losses(&run(GossipView::Messages, &[0]));
    assert_eq!(losses.len(), 5);
    for neighbour in [1, 5] {
        close(losses[&neighbour].one, 1.0);
        // The state in it is that of the neighbour's neighbours, whose noise comes again later.
        assert!(losses[&neighbour].upper > 3.0 && losses[&neighbour].upper <= 4.0 + 1e-9);
    }
    assert!(losses[&3].upper < 0.5 && losses[&3].lower > 0.0);
}

/// A coalition of all but one reads that one's message in any view; with nobody in it nothing is
/// seen.
#[test]
fn the_last_honest_party_is_protected_by_its_own_noise_alone() {
    for view in [GossipView::Messages, GossipView::Sum] {
        let all = losses(&run(view, &[0, 1, 2, 4, 5]));
        assert_eq!(all.keys().copied().collect::<Vec<_>>(), [3]);
        close(all[&3].upper, 4.0);
        close(all[&3].lower, 4.0);
        assert!(
            losses(&run(view, &[]))
                .values()
                .all(|loss| *loss == ContributionLoss::NONE)
        );
    }
}

#[test]
fn noise_scales_losses_and_errors() {
    let plain = run(GossipView::Sum, &[0]).outcome().expect("an outcome");
    let mut louder = run(GossipView::Sum, &[0]);
    louder.std = vec![2.0; 4];
    let louder = louder.outcome().expect("an outcome");
    for (party, loss) in &plain.losses {
        close(louder.losses[party].upper, loss.upper / 4.0);
        close(louder.losses[party].one, loss.one / 4.0);
    }
    close(
        louder.noise_error.expect("some"),
        2.0 * plain.noise_error.expect("some"),
    );
    assert_eq!(louder.weight_error, plain.weight_error);
}

/// Checks that a party that departs after a round sends nothing of the next: its later releases are
/// seen by nobody.
#[test]
fn what_was_never_sent_costs_nothing() {
    let mut early = run(GossipView::Messages, &[0]);
    early.online[2..].iter_mut().for_each(|row| row[1] = false);
    let losses = losses(&early);
    close(losses[&1].one, 1.0);
    assert!(losses[&1].upper <= 2.0 + 1e-9 && losses[&1].upper > 1.9);
    // A state that it shows then is the one after round 2.
    early.published = [1].into();
    let shown = early.outcome().expect("an outcome").losses;
    assert!(shown[&2].upper > losses[&2].upper + 0.01);
    // Nobody is there in the end: there is no estimate to speak of.
    early.online[3] = vec![false; 6];
    let outcome = early.outcome().expect("an outcome");
    assert_eq!((outcome.noise_error, outcome.weight_error), (None, None));
}

/// More members never learn less, and messages tell no less than their sums.
#[test]
fn what_more_is_seen_costs_no_less() {
    let one = losses(&run(GossipView::Sum, &[0]));
    let two = losses(&run(GossipView::Sum, &[0, 2]));
    let read = losses(&run(GossipView::Messages, &[0]));
    for party in [1, 3, 4, 5] {
        assert!(two[&party].lower >= one[&party].lower - 1e-9);
        assert!(read[&party].lower >= one[&party].lower - 1e-9);
    }
    assert!(two[&1].one > one[&1].one + 0.05);
}
