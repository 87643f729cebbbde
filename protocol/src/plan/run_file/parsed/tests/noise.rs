//! The choice of the noise that cancels, where a run file leaves it open.

use super::*;

/// Noise is uniform and finals are sealed, unless something is asked for that only Gaussian noise
/// goes with.
#[test]
fn what_only_gaussian_noise_goes_with_means_it() {
    use CorrelatedNoise::{Gaussian, Uniform};
    let chosen = |lines: &[(&str, &str)]| {
        let file = parse(&with(lines), 8);
        (file.exchange.correlated(), file.run.sealed)
    };
    assert_eq!(chosen(&[("run", "sealed = true")]), (Uniform, true));
    assert_eq!(chosen(&[("mechanism", "kind = \"ppsc\"")]), (Uniform, true));
    assert_eq!(chosen(&[("mechanism", "injection = \"late\"")]), (Uniform, true));
    assert_eq!(chosen(&[("run", "dissemination = \"auto\"")]), (Uniform, true));
    assert_eq!(chosen(&[("privacy", "coalitions = \"static\"")]), (Uniform, true));
    assert_eq!(chosen(&[("mechanism", "kind = \"pairwise\"")]), (Uniform, true));
    for (section, line) in [
        ("run", "sealed = false"),
        ("run", "dissemination = \"consensus\""),
        ("mechanism", "correlated = \"gaussian\""),
        ("mechanism", "fanout = 2"),
        ("mechanism", "injection = \"early\""),
        ("mechanism", "injection = \"incremental\""),
        ("mechanism", "rollback = false"),
    ] {
        assert_eq!(chosen(&[(section, line)]), (Gaussian, false), "{line}");
    }
    let uniform = ("mechanism", "correlated = \"uniform\"");
    assert_eq!(chosen(&[uniform, ("run", "sealed = false")]), (Uniform, false));
    for other in ["dissemination = \"consensus\"", "sealed = true"] {
        let lines = with(&[("mechanism", "correlated = \"gaussian\""), ("run", other)]);
        let refused = RunFile::parse(&lines, 8).map(|file| file.run.sealed);
        assert_eq!(refused.is_err(), other.starts_with("sealed"), "{other}");
    }
    let both = with(&[("run", "dissemination = \"consensus\"\nsealed = true")]);
    let refused = RunFile::parse(&both, 8).expect_err("consensus reads finals");
    assert!(refused.to_string().contains("run.sealed"), "{refused}");
}

#[test]
fn sums_of_everybody_and_of_neighbours_are_carried_and_their_rounds_are_long_enough() {
    for (sums, uniform) in [("everybody", true), ("neighbours", false)] {
        let file = parse(
            &format!(
                "name = \"study\"\ntask = \"stream\"\n[data]\nshape = [10]\nreleases = 3\n[mechanism]\n\
                 sums = \"{sums}\"\n"
            ),
            8,
        );
        assert_eq!(file.supported(), Ok(()));
        assert_eq!(file.run.round_ms, 4 * file.run.settle_ms);
        assert_eq!(file.exchange.correlated() == CorrelatedNoise::Uniform, uniform);
        assert!(file.run.sealed && file.exchange.gossip().is_some() != uniform);
    }
}
