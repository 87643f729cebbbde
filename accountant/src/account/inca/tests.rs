use super::*;
use crate::account::answer::AccountError;
use crate::account::gaussian::gaussian;

const RING: &str = r#"{"parties": 3, "rounds": 2, "injection": "incremental", "out": [[[1],[2],[0]],[[2],[0],[1]]], "corrupted": [2]}"#;

fn noise(independent_std: f64, correlated_std: f64) -> Noise {
    Noise {
        independent_std,
        correlated_std,
    }
}

#[test]
fn two_of_three_and_only_two() {
    let forward = gaussian(Some(1.0), Some(1e-6), None).expect("in range");
    let back = gaussian(None, Some(1e-6), Some(forward.mu)).expect("in range");
    assert!((back.epsilon - 1.0).abs() < 1e-9);
    assert_eq!(forward.noise_multiplier, 1.0 / forward.mu);
    for (epsilon, delta, mu) in [
        (None, None, None),
        (Some(1.0), None, None),
        (Some(1.0), Some(0.1), Some(1.0)),
    ] {
        assert!(matches!(
            gaussian(epsilon, delta, mu),
            Err(AccountError::Two { .. })
        ));
    }
    assert!(gaussian(Some(0.0), Some(0.1), None).is_ok());
}

#[test]
fn an_unbounded_loss_is_an_answer() {
    let answer = inca(RING, noise(0.0, 0.0), 1.0, 1e-6).expect("an answer");
    let json = serde_json::to_value(&answer).expect("serialises");
    assert!(json["mu"].is_null() && json["epsilon"].is_null() && json["losses"]["0"].is_null());
    assert_eq!(json["unbounded"], true);
    let bounded =
        serde_json::to_value(inca(RING, noise(1.0, 1.0), 1.0, 1e-6).expect("an answer")).expect("serialises");
    assert!(bounded.get("unbounded").is_none());
    assert!(
        bounded["losses"].get("2").is_none(),
        "the corrupted party has no loss"
    );
    let gaussian = serde_json::to_value(gaussian(Some(1.0), None, Some(f64::INFINITY)).expect("an answer"))
        .expect("serialises");
    assert!(gaussian["mu"].is_null() && gaussian["delta"] == 1.0 && gaussian["unbounded"] == true);
}

#[test]
fn numbers_out_of_range_are_refused_by_flag() {
    assert!(matches!(
        inca(RING, noise(-1.0, 1.0), 1.0, 1e-6),
        Err(AccountError::Scale {
            flag: "--independent-std",
            ..
        })
    ));
    assert!(matches!(
        inca(RING, noise(1.0, f64::NAN), 1.0, 1e-6),
        Err(AccountError::Scale {
            flag: "--correlated-std",
            ..
        })
    ));
    assert!(matches!(
        inca(RING, noise(1.0, 1.0), f64::INFINITY, 1e-6),
        Err(AccountError::Scale {
            flag: "--sensitivity",
            ..
        })
    ));
    assert!(matches!(
        inca(RING, noise(1.0, 1.0), 1.0, 0.0),
        Err(AccountError::Gaussian(_))
    ));
    assert!(matches!(
        inca("{}", noise(1.0, 1.0), 1.0, 0.1),
        Err(AccountError::Execution(_))
    ));
}

#[test]
fn losses_scale_with_the_square_of_the_sensitivity() {
    let one = inca(RING, noise(1.0, 2.0), 1.0, 1e-6).expect("an answer");
    let three = inca(RING, noise(1.0, 2.0), 3.0, 1e-6).expect("an answer");
    assert!((three.mu / one.mu - 3.0).abs() < 1e-14);
    let own = RING.replace("\"corrupted\"", "\"sensitivity\": [3, 0, 1], \"corrupted\"");
    let own = inca(&own, noise(1.0, 2.0), 7.0, 1e-6).expect("an answer");
    assert!((own.losses[&0] - three.losses[&0]).abs() < 1e-14);
    assert_eq!(own.losses[&1], 0.0);
}
