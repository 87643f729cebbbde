use super::*;
use crate::losses::loss::squared_losses;

fn few(departed: usize) -> WithoutRollBack {
    let among = Departing {
        parties: 12,
        colluding: 2,
        ..IN_PAPER
    };
    WithoutRollBack {
        among,
        fanout: 2,
        rounds: 5,
        departed,
    }
}

fn execution(setting: &WithoutRollBack, draw: u64, seed: u64) -> Execution {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(draw);
    setting.execution(&mut random).expect("an execution")
}

/// A number of variance 1, near enough to a normal one for variances.
fn noise(random: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
}

/// Algorithm 2 on numbers: who stays hands out equal parts of its state, keeps those of absent
/// receivers, and puts in (x + η*)/(T + 1) and the next noise as it takes out the last. Returns the
/// sum of the finals.
fn direct(execution: &Execution, values: &[f64], noises: &[Vec<f64>]) -> f64 {
    let (parties, last) = (execution.parties(), execution.rounds());
    let part = |party: usize| values[party] / (last + 1) as f64;
    let mut states: Vec<f64> = (0..parties).map(|party| part(party) + noises[party][0]).collect();
    for round in 1..=last {
        let there = |party: usize| execution.online(round as u32, party);
        let mut next = states.clone();
        for from in (0..parties).filter(|&from| there(from)) {
            let out = execution.out(round as u32, from);
            let share = states[from] / (out.len() + 1) as f64;
            for &to in out.iter().filter(|&&to| there(to)) {
                next[from] -= share;
                next[to] += share;
            }
            next[from] += part(from) - noises[from][round - 1];
            next[from] += noises[from].get(round).copied().unwrap_or(0.0);
        }
        states = next;
    }
    let stay = (0..parties).filter(|&party| execution.online(last as u32, party));
    stay.map(|party| states[party]).sum()
}

/// The variances of a few draws, against 10,000 runs of the protocol on numbers each: within 3 %,
/// five standard deviations of a mean of squares of 30,000.
#[test]
fn the_error_is_that_of_the_protocol_on_numbers() {
    const RUNS: usize = 10_000;
    let setting = few(3);
    let found = setting.measure(3, 4).expect("a draw").expect("enough noise");
    let [own_std, correlated_std] = [found.independent_variance, found.correlated_variance].map(f64::sqrt);
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let mut squares = 0.0;
    for draw in 0..3 {
        let execution = execution(&setting, draw, 4);
        let nothing = vec![vec![0.0; 5]; 12];
        let weight = direct(&execution, &[1.0; 12], &nothing);
        assert!(weight < 12.0, "somebody takes something along");
        for _ in 0..RUNS {
            let values: Vec<f64> = (0..12).map(|_| random.random::<f64>()).collect();
            let noisy: Vec<f64> = values.iter().map(|x| x + own_std * noise(&mut random)).collect();
            let mut party = || (0..5).map(|_| correlated_std * noise(&mut random)).collect();
            let noises: Vec<Vec<f64>> = (0..12).map(|_| party()).collect();
            let mean = values.iter().sum::<f64>() / 12.0;
            squares += (direct(&execution, &noisy, &noises) / weight - mean).powi(2);
        }
    }
    let simulated = squares / (3 * RUNS) as f64;
    assert!(
        (found.error / simulated - 1.0).abs() < 0.03,
        "{found:?} {simulated}"
    );
}

/// Checks that an error that no noise hides is there without noise, too: values that went astray.
#[test]
fn values_that_went_astray_are_in_the_error() {
    let setting = few(3);
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let execution = execution(&setting, 0, 4);
    let remainder = Remainder::of(&execution, &Trace::of(&execution, &[1.0; 12]));
    let nothing = vec![vec![0.0; 5]; 12];
    let weight = direct(&execution, &[1.0; 12], &nothing);
    let mut squares = 0.0;
    for _ in 0..20_000 {
        let values: Vec<f64> = (0..12).map(|_| random.random::<f64>()).collect();
        let mean = values.iter().sum::<f64>() / 12.0;
        squares += (direct(&execution, &values, &nothing) / weight - mean).powi(2);
    }
    let simulated = squares / 20_000.0;
    assert!(
        (remainder.values / simulated - 1.0).abs() < 0.05,
        "{remainder:?} {simulated}"
    );
}

/// Every draw meets (ε, δ) by the careful loss, and one just so.
#[test]
fn the_largest_variance_is_enough_for_every_draw_and_least_for_one() {
    for (setting, runs) in [(few(3), 11), (few(0), 5)] {
        let found = setting.measure(runs, 6).expect("a draw").expect("enough noise");
        let noise = Noise {
            independent_std: found.independent_variance.sqrt(),
            correlated_std: found.correlated_variance.sqrt(),
        };
        let most = |draw: u64| {
            let losses = squared_losses(&View::of(&execution(&setting, draw, 6)), noise);
            losses.into_iter().fold(0.0, f64::max)
        };
        let worst = (0..runs).map(most).fold(0.0, f64::max);
        // 1/μ², the variance that one number needs by itself.
        let alone = setting.among.central().expect("in range") * 144.0;
        let used = worst * alone;
        assert!((1.0 - 2.0 * TOLERANCE..=1.0 + 1e-6).contains(&used), "{used}");
    }
}

#[test]
fn nothing_is_left_where_nobody_departs() {
    let found = few(0).measure(4, 1).expect("a draw").expect("enough noise");
    let expected = found.independent_variance / 12.0;
    assert!((found.error / expected - 1.0).abs() < 1e-9, "{found:?}");
    let departed = few(3).measure(4, 1).expect("a draw").expect("enough noise");
    assert!(departed.error > found.error && departed.uncancelled > 0.0);
}

/// One that sends to nobody but the colluding has no noise but its own.
#[test]
fn noise_that_is_never_enough_is_said() {
    let among = Departing {
        parties: 5,
        colluding: 3,
        ..IN_PAPER
    };
    let alone = WithoutRollBack {
        among,
        fanout: 4,
        rounds: 2,
        departed: 0,
    };
    assert_eq!(alone.measure(2, 1), Ok(None));
}

#[test]
fn the_least_ratio_is_found_from_below_and_above() {
    let excess = |least: f64| move |ratio: f64| -> f64 { libm::log((least + 1e-4) / (ratio + 1e-4)) };
    for least in [1e-5, 0.05, 0.3, 77.0] {
        for known in [None, Some(1e-6)] {
            let found = least_ratio(excess(least), known);
            assert!(
                (1.0..1.0 + 1.1 * TOLERANCE).contains(&(found / least)),
                "{found} {least}"
            );
        }
        assert_eq!(least_ratio(excess(least), Some(100.0)), 100.0);
    }
    assert_eq!(least_ratio(|_| 0.1, None), f64::INFINITY);
    assert!(least_ratio(|_| -0.1, None) < LEAST_RATIO);
}
