use super::*;

/// δ by 80-digit arithmetic: ε, μ, δ.
fn reference() -> Vec<(f64, f64, f64)> {
    include_str!("reference.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut numbers = line.split(' ').map(|word| word.parse().expect("a number"));
            let mut next = || numbers.next().expect("three numbers");
            (next(), next(), next())
        })
        .collect()
}

#[test]
fn the_raw_trade_off_is_within_half_the_slack_of_eighty_digits() {
    let points = reference();
    assert!(points.len() > 200);
    for (epsilon, mu, expected) in points {
        // The reference's ε is a rounded f64 as ours is; ln δ of its decimal is exact to a unit in
        // the last place.
        let error = ln_delta(epsilon, mu) - libm::log(expected);
        assert!(
            error.abs() < SLACK / 2.0,
            "epsilon {epsilon} mu {mu}: relative error {error:e}"
        );
    }
}

#[test]
fn delta_never_rounds_below_the_truth() {
    for (epsilon, mu, expected) in reference() {
        let rounded = delta(epsilon, mu).expect("in range");
        assert!(
            rounded >= expected,
            "epsilon {epsilon} mu {mu}: {rounded:e} < {expected:e}"
        );
        assert!(rounded <= expected * (1.0 + 4.0 * SLACK));
    }
}

#[test]
fn inverses_return_to_where_they_came_from_on_the_safe_side() {
    for (at_epsilon, at_mu, at_delta) in reference() {
        if at_delta >= 1.0 - 1e-12 || at_epsilon == 0.0 {
            continue;
        }
        let budget = mu(at_epsilon, at_delta).expect("in range");
        assert!(
            budget <= at_mu,
            "mu({at_epsilon}, {at_delta:e}) = {budget} > {at_mu}"
        );
        let spent = epsilon(at_delta, at_mu).expect("in range");
        assert!(
            spent >= at_epsilon * (1.0 - 1e-15),
            "epsilon({at_delta:e}, {at_mu}) = {spent} < {at_epsilon}"
        );
        // What an inverse returns satisfies the forward direction exactly as it is computed.
        assert!(delta(at_epsilon, budget).expect("in range") <= at_delta * (1.0 + 1e-13));
        assert!(delta(spent, at_mu).expect("in range") <= at_delta * (1.0 + 1e-13));
        // ... and is not needlessly far: a relative change of δ by 1e-11 passes it.
        assert!(delta(at_epsilon, budget * (1.0 + 1e-10)).expect("in range") > at_delta);
    }
}

#[test]
fn edges() {
    assert_eq!(delta(1.0, f64::INFINITY), Ok(1.0));
    assert_eq!(delta(1.0, 0.0), Ok(0.0));
    assert!(
        delta(50.0, 1e-4).expect("in range") > 0.0,
        "a positive delta never rounds to zero"
    );
    assert_eq!(epsilon(1e-6, f64::INFINITY), Ok(f64::INFINITY));
    assert_eq!(epsilon(1e-6, 0.0), Ok(0.0));
    assert_eq!(epsilon(0.5, 0.1), Ok(0.0));
    assert!(epsilon(1e-300, 1.0).expect("in range") > 36.0);
    assert!(mu(0.0, 0.5).expect("in range") > 1.3);
    assert!(mu(1e6, 0.999).expect("in range") > 1400.0);
    assert!(mu(0.0, 1e-300).expect("in range") > 1e-300);
    let whole = compose(&[3.0, 4.0]).expect("in range");
    assert!((5.0..5.0 + 1e-11).contains(&whole));
    assert_eq!(compose(&[]), Ok(0.0));
    assert_eq!(compose(&[1.0, f64::INFINITY]), Ok(f64::INFINITY));
}

#[test]
fn what_is_out_of_range_is_refused() {
    for bad in [0.0, 1.0, -1e-9, 2.0, f64::NAN] {
        assert!(matches!(epsilon(bad, 1.0), Err(GaussianError::Delta { .. })));
        assert!(matches!(mu(1.0, bad), Err(GaussianError::Delta { .. })));
    }
    for bad in [-1e-300, f64::NAN, f64::INFINITY] {
        assert!(matches!(delta(bad, 1.0), Err(GaussianError::Epsilon { .. })));
        assert!(matches!(mu(bad, 1e-6), Err(GaussianError::Epsilon { .. })));
    }
    for bad in [-1.0, f64::NAN] {
        assert!(matches!(delta(1.0, bad), Err(GaussianError::Mu { .. })));
        assert!(matches!(epsilon(1e-6, bad), Err(GaussianError::Mu { .. })));
        assert!(matches!(compose(&[bad]), Err(GaussianError::Mu { .. })));
    }
}
