use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::schedule::Schedule;

use super::*;
use crate::bounds::bound::Bound;
use crate::mechanism::inca::{InjectionSpec, NamedInjection};

const NOISE: Noise = Noise {
    independent_std: 1.0,
    correlated_std: 3.0,
};

fn setting() -> Setting {
    let schedule = Schedule::draw(&Graph::complete(6), 1, 4, 5).expect("enough neighbours");
    Setting {
        mechanism: InjectionSpec::Named(NamedInjection::Incremental).into(),
        out: schedule.out().to_vec(),
        sensitivity: vec![0.8, 1.0, 0.9, 1.0, 0.7, 1.0],
        weights: vec![1.0; 6],
        colluding: 1,
        dropouts: 1,
        rollback: true,
        uniform: false,
        drawn_share_faults: None,
    }
}

#[test]
fn the_same_seed_draws_the_same() {
    let setting = setting();
    let of = |seed| {
        let found = worst_drawn(&setting, NOISE, (Faults::BeforePublishing, 2), 40, seed);
        let found = found.expect("executions").expect("something is lost");
        (found.mu, found.victim, found.execution.shares().to_vec())
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn what_is_drawn_of_the_class_is_in_it() {
    let setting = setting();
    let worst = Bound::of(&setting).worst(9.0).0.sqrt();
    let drawn = worst_drawn(&setting, NOISE, (Faults::Class, 1), 300, 3)
        .expect("executions")
        .expect("something is lost");
    assert!(drawn.mu <= worst * (1.0 + 1e-9), "{} {worst}", drawn.mu);
    assert!(drawn.mu > 0.7 * worst, "{} {worst}", drawn.mu);
}
