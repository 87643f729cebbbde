use serde_json::Value;

use super::*;
use crate::mechanism::chosen::Mechanism;
use crate::mechanism::inca::{InjectionSpec, NamedInjection};

/// A setting of one round in which each of these pairs exchanges a share.
fn meeting(parties: usize, pairs: &[(Party, Party)], against: (usize, usize)) -> Setting {
    let mut round = vec![vec![]; parties];
    pairs.iter().for_each(|&(from, to)| round[from].push(to));
    Setting {
        mechanism: InjectionSpec::Named(NamedInjection::Late).into(),
        out: vec![round],
        sensitivity: (0..parties).map(|party| 1.0 + party as f64 / 8.0).collect(),
        weights: vec![1.0; parties],
        colluding: against.0,
        dropouts: against.1,
        rollback: true,
        uniform: true,
        drawn_share_faults: None,
    }
}

/// All pairs of these parties.
fn complete(parties: std::ops::Range<Party>) -> Vec<(Party, Party)> {
    let pairs = parties
        .clone()
        .flat_map(|a| (parties.start..a).map(move |b| (b, a)));
    pairs.collect()
}

/// Four who meet each other and eight who do: the claim is of the four, whose noise is less, and of
/// the least connected.
#[test]
fn of_pieces_the_smallest_and_the_least_connected_are_claimed() {
    for order in [[0..4, 4..12], [8..12, 0..8]] {
        let pairs: Vec<_> = order.into_iter().flat_map(complete).collect();
        let mut setting = meeting(12, &pairs, (1, 1));
        let found = withstands(&setting).expect("each takes three to separate");
        let basis = |kappa, removed, share_faults, among| ConnectivityBasis {
            kappa,
            removed,
            share_faults,
            among,
        };
        assert_eq!(found, basis(3, 2, 0, 2));
        setting.dropouts = 0;
        assert_eq!(withstands(&setting), Some(basis(3, 1, 1, 3)));
        setting.colluding = 0;
        assert_eq!(withstands(&setting), Some(basis(3, 0, 2, 4)));
        // Masks lose no share.
        setting.mechanism = Mechanism::Pairwise;
        assert_eq!(withstands(&setting), Some(basis(3, 0, 0, 4)));
        setting.colluding = 3;
        assert_eq!(withstands(&setting), None, "three cut one of the four off");
    }
    // A ring of eight is larger and takes fewer to separate than four who all meet.
    let ring = (4..12).map(|at| (at.min(4 + (at - 3) % 8), at.max(4 + (at - 3) % 8)));
    let pairs: Vec<_> = complete(0..4).into_iter().chain(ring).collect();
    let found = withstands(&meeting(12, &pairs, (1, 0))).expect("two separate a ring");
    assert_eq!((found.kappa, found.among), (2, 3));
    assert_eq!(withstands(&meeting(12, &pairs, (1, 1))), None);
}

/// κ, and all parties less those removed, of graphs that an independent program looked at.
#[test]
fn what_a_schedule_withstands_is_what_an_independent_program_found() {
    let file: Value = serde_json::from_str(include_str!("../../../tests/vectors/floor.json")).expect("JSON");
    let vectors = file["vectors"].as_array().expect("a list").iter();
    let (mut compared, mut thin) = (0, 0);
    for vector in vectors.filter(|vector| vector["kind"] == "connectivity") {
        let given = &vector["given"];
        let number = |value: &Value| value.as_u64().expect("a number") as usize;
        let edges = given["edges"].as_array().expect("a list").iter();
        let pairs: Vec<_> = edges.map(|edge| (number(&edge[0]), number(&edge[1]))).collect();
        let (parties, removed) = (number(&given["parties"]), number(&given["colluding"]));
        let kappa = number(&vector["expected"]["kappa"]);
        let found = withstands(&meeting(parties, &pairs, (removed, 0)));
        if kappa <= removed {
            assert_eq!(found, None, "{}", vector["name"]);
            thin += 1;
            continue;
        }
        let found = found.expect("it takes more to separate them");
        assert_eq!(
            (found.kappa, found.removed),
            (kappa, removed),
            "{}",
            vector["name"]
        );
        assert_eq!(found.share_faults, kappa - removed - 1);
        assert_eq!(found.among, parties - removed);
        compared += 1;
    }
    assert_eq!((compared, thin), (17, 3));
}

/// Δ of the most sensitive over the deviation of so many noises, from the same file's runs.
#[test]
fn losses_are_those_of_so_many_noises() {
    let file: Value = serde_json::from_str(include_str!("../../../tests/vectors/floor.json")).expect("JSON");
    let vectors = file["vectors"].as_array().expect("a list").iter();
    let mut compared = 0;
    for vector in vectors.filter(|vector| vector["kind"] == "uniform") {
        let given = &vector["given"];
        let number = |key: &str| given[key].as_f64().expect("a number");
        let (std, sensitivity) = (number("independent_std"), number("sensitivity"));
        for (_, square) in vector["expected"]["losses"].as_object().expect("by party") {
            let square = square.as_f64().expect("a number");
            if square == 0.0 {
                continue;
            }
            let among = (sensitivity / std).powi(2) / square;
            assert!((among - among.round()).abs() < 1e-9, "{among}");
            let setting = Setting {
                sensitivity: vec![sensitivity / 2.0, sensitivity, 0.0],
                ..meeting(3, &[], (0, 0))
            };
            let found = loss(&setting, among.round() as usize, std).powi(2);
            assert!(
                found >= square && found < square * (1.0 + 1e-11),
                "{found} {square}"
            );
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared}");
}

/// The parties that hide a value from a named coalition: those left once every choice of departures
/// and of an end of each lost share is taken away.
#[test]
fn what_hides_a_value_from_a_named_coalition_is_what_is_left_of_it() {
    let setting = meeting(7, &complete(0..7), (2, 1));
    // Of five that all meet two are taken away: one departs, and one for a share.
    assert_eq!(hidden_from(&setting, 0, &BTreeSet::from([5, 6])), 3);
    assert_eq!(hidden_from(&setting, 5, &BTreeSet::from([5, 6])), 1, "its own");
    assert_eq!(hidden_from(&setting, 0, &BTreeSet::new()), 5);
    // Of a ring two others cut anybody off.
    let ring: Vec<_> = (0..7)
        .map(|at| (at.min((at + 1) % 7), at.max((at + 1) % 7)))
        .collect();
    assert_eq!(
        hidden_from(&meeting(7, &ring, (2, 1)), 0, &BTreeSet::from([3])),
        1
    );
    assert_eq!(hidden_from(&meeting(7, &ring, (2, 0)), 0, &BTreeSet::new()), 6);
}
