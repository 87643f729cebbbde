//! A mechanism that nobody else knows of, taken through all that asks [`Rules`].

use undertone_protocol::plan::claim::{Established, Faults};

use crate::calibration::claims::claims;
use crate::calibration::utility::ErrorModel;
use crate::class::faults;
use crate::class::setting::Setting;
use crate::class::worst::Class;
use crate::execution::seen;
use crate::losses::loss::{Noise, squared_losses};
use crate::losses::view::View;
use crate::mechanism::chosen::Mechanism;

const NOISE: Noise = Noise {
    independent_std: 4.0,
    correlated_std: 2.0,
};

fn setting(sends: Vec<Vec<Vec<usize>>>) -> Setting {
    Setting {
        mechanism: Mechanism::Local,
        out: sends,
        sensitivity: vec![1.0, 2.0, 0.5, 1.0],
        weights: vec![1.0; 4],
        colluding: 1,
        dropouts: 0,
        rollback: true,
        uniform: false,
    }
}

#[test]
fn everybody_loses_sensitivity_over_local_noise() {
    let setting = setting(vec![vec![vec![]; 4]; 3]);
    let run = setting.fault_free().expect("nothing is sent");
    let alone = run.with_corrupted([3]).expect("a coalition");
    assert!(seen::seen_states(&alone).is_empty());
    let view = View::of(&alone);
    assert_eq!(view.honest, [0, 1, 2]);
    assert_eq!(view.a.ncols(), 0, "no noise cancels");
    let squares = squared_losses(&view, NOISE);
    assert!(
        squares.iter().all(|square| (square * 16.0 - 1.0).abs() < 1e-12),
        "{squares:?}"
    );

    let class = Class::of(&setting).expect("executions").expect("few coalitions");
    assert_eq!((class.cases(), faults::count(&setting)), (4, 1));
    let worst = class.worst(0.25).expect("a class");
    assert_eq!(worst.party, 1, "the most sensitive");
    assert!(
        (worst.square - 4.0).abs() < 1e-5,
        "Δ²/σ*² at σ* = 1: {}",
        worst.square
    );

    let claims = claims(&setting, NOISE, 1e-6).expect("claims");
    let of = |faults: Faults| {
        claims
            .iter()
            .find(|claim| claim.faults == faults)
            .expect("one of each")
    };
    assert!((of(Faults::Class).mu - 0.5).abs() < 1e-6);
    assert_eq!(
        of(Faults::BeforePublishing).mu,
        0.0,
        "nothing leaves before the finals"
    );
    assert_eq!(of(Faults::BeforePublishing).established, Established::Theorem);
    assert!((of(Faults::Any).mu - 0.5).abs() < 1e-6);

    let errors = ErrorModel::of(&setting).expect("a schedule");
    assert!((errors.plain(NOISE) - 2.0).abs() < 1e-12, "σ*/√n");
    let late = errors.late(NOISE).expect("a result is left");
    assert!(
        (late - 4.0 / 3f64.sqrt()).abs() < 1e-12,
        "only its own noise is missing"
    );
    let written = serde_json::to_value(alone).expect("a file");
    assert_eq!(written["edges"], serde_json::json!([[], [], []]));
}

#[test]
fn nobody_sends() {
    let refused = setting(vec![vec![vec![1], vec![], vec![], vec![]]]).fault_free();
    assert!(refused.is_err());
}
