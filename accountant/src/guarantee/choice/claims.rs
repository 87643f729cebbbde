use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::multi_gossip::MultiGossip;
use undertone_protocol::topology::schedule::Schedule;

use undertone_protocol::plan::claim::Faults;

use super::*;
use crate::class::random::worst_drawn;
use crate::mechanism::chosen::Mechanism;
use crate::mechanism::inca::{CustomInjection, InjectionSpec, NamedInjection};

/// A setting of `parties` on a complete graph with one colluder.
fn setting(mechanism: Mechanism, parties: usize, rounds: u32, seed: u64) -> Setting {
    let graph = Graph::complete(parties);
    let schedule = if mechanism == Mechanism::Ppsc {
        MultiGossip::fitting(&graph, rounds, seed)
            .expect("neighbours")
            .schedule()
            .clone()
    } else {
        Schedule::draw(&graph, 1, rounds as usize, seed).expect("neighbours")
    };
    Setting {
        mechanism,
        out: schedule.out().to_vec(),
        sensitivity: vec![1.0; parties],
        weights: vec![1.0; parties],
        colluding: 1,
        dropouts: 1,
        rollback: true,
        uniform: false,
        drawn_share_faults: None,
    }
}

/// c = (3, −3, 1, 0): what comes in before round 1 goes out again in it. Where half of it was
/// handed over the noise is gone, and not the value; a party that is cut off has all of it back.
fn there_and_back() -> InjectionSpec {
    InjectionSpec::Custom(CustomInjection {
        c: vec![3.0, -3.0, 1.0, 0.0],
        z: vec![
            vec![2.0, 0.0, 0.0],
            vec![-1.0, 0.125, 0.0],
            vec![0.0, 0.0, 1.0],
            vec![-1.0, -0.125, -1.0],
        ],
    })
}

/// The loss that a plan claims of what leaves before publishing, for sure.
fn headline(claims: &[Claim]) -> f64 {
    let headline = claims.iter().filter(|claim| claim.holds_as_headline);
    headline
        .filter(|claim| claim.faults != Faults::Class)
        .map(|claim| claim.mu)
        .fold(f64::INFINITY, f64::min)
}

#[test]
fn no_random_execution_before_publishing_loses_more_than_is_claimed() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    for (mechanism, rounds) in [
        (
            Mechanism::from(InjectionSpec::Named(NamedInjection::Incremental)),
            4..9,
        ),
        (Mechanism::from(InjectionSpec::Named(NamedInjection::Early)), 3..7),
        // A custom (c, Z) has its own number of rounds.
        (Mechanism::from(there_and_back()), 3..4),
        (Mechanism::Ppsc, 3..9),
    ] {
        for seed in 0..5 {
            let parties = random.random_range(4..8);
            let setting = setting(
                mechanism.clone(),
                parties,
                random.random_range(rounds.clone()),
                seed,
            );
            let noise = Noise {
                independent_std: 1.0,
                correlated_std: random.random_range(0.5..4.0),
            };
            let claims = Guarantee::Gaussian.claims(&setting, noise, 1e-6).expect("noise");
            let claimed = headline(&claims);
            // 100 executions each, half of them at random and half around the worst of these.
            let worst = worst_drawn(
                &setting,
                noise,
                (Faults::BeforePublishing, setting.colluding),
                50,
                seed,
            );
            let worst = worst.expect("executions").expect("something is lost").mu;
            assert!(
                worst <= claimed * (1.0 + 1e-9),
                "{mechanism:?}, {parties} parties: {worst} lost, {claimed} claimed"
            );
        }
    }
}
