use ndarray::array;

use super::*;

fn view(b: Array2<f64>, a: Array2<f64>) -> View {
    View {
        honest: (0..b.ncols()).collect(),
        b,
        a,
    }
}

fn noise(independent_std: f64, correlated_std: f64) -> Noise {
    Noise {
        independent_std,
        correlated_std,
    }
}

#[test]
fn one_noisy_value_loses_one_over_its_variance() {
    let view = view(array![[1.0]], array![[3.0]]);
    let loss = squared_losses(&view, noise(2.0, 1.0))[0];
    assert!((loss - 1.0 / 13.0).abs() < 1e-15);
}

#[test]
fn dependent_rows_do_not_count_twice() {
    let once = squared_losses(&view(array![[1.0, 0.5]], array![[1.0, 0.0]]), noise(1.0, 2.0));
    let twice = squared_losses(
        &view(array![[1.0, 0.5], [-3.0, -1.5]], array![[1.0, 0.0], [-3.0, 0.0]]),
        noise(1.0, 2.0),
    );
    for (a, b) in once.iter().zip(&twice) {
        assert!((a - b).abs() < 1e-14);
    }
}

#[test]
fn a_value_without_noise_is_unbounded_however_it_is_hidden() {
    // Two rows with the same noise: their difference shows party 0's value.
    let rows = view(array![[1.0, 1.0], [0.5, 1.0]], array![[1.0], [1.0]]);
    assert_eq!(squared_losses(&rows, noise(0.0, 1.0))[0], f64::INFINITY);
    assert!(squared_losses(&rows, noise(1e-3, 1.0))[0].is_finite());
    // Party 1 is as exposed: its value is the first row's minus the noise, and the noise is not
    // known.
    assert!(squared_losses(&rows, noise(0.0, 1.0))[1].is_finite());
    // No noise in the row at all.
    assert_eq!(
        squared_losses(&view(array![[1.0, 0.0]], array![[0.0]]), noise(0.0, 1.0)),
        [f64::INFINITY, 0.0]
    );
    assert_eq!(
        squared_losses(&view(array![[1.0, 0.0]], array![[1.0]]), noise(0.0, 0.0)),
        [f64::INFINITY, 0.0]
    );
}

#[test]
fn seeing_nothing_loses_nothing() {
    assert_eq!(
        squared_losses(
            &view(Array2::zeros((0, 2)), Array2::zeros((0, 4))),
            noise(1.0, 1.0)
        ),
        [0.0, 0.0]
    );
    assert_eq!(
        squared_losses(
            &view(Array2::zeros((1, 2)), Array2::zeros((1, 4))),
            noise(1.0, 1.0)
        ),
        [0.0, 0.0]
    );
}

#[test]
fn a_large_ratio_of_noises_stays_exact() {
    // x + s·η and η seen: the loss is 1/σ*² whatever σ_Δ is.
    for ratio in [1.0, 1e3, 1e6] {
        let loss = squared_losses(
            &view(array![[1.0], [0.0]], array![[1.0], [1.0]]),
            noise(1.0, ratio),
        )[0];
        assert!(
            (loss - 1.0).abs() < 1e-9 * ratio.max(1.0) / 1e3 + 1e-9,
            "{ratio}: {loss}"
        );
    }
}

#[test]
fn rank_of_few_vectors() {
    assert_eq!(rank(&[]), 0);
    assert_eq!(rank(&[vec![0.0, 0.0]]), 0);
    assert_eq!(
        rank(&[vec![1.0, -1.0, 0.0], vec![0.0, 1.0, -1.0], vec![1.0, 0.0, -1.0]]),
        2
    );
}
