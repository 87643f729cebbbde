use std::collections::BTreeSet;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::topology::connectivity::connectivity;
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::multi_gossip::MultiGossip;
use undertone_protocol::topology::party::Party;
use undertone_protocol::topology::schedule::Schedule;

use super::*;
use crate::bounds::flows::{CoalitionSet, Flows};
use crate::bounds::uniform::{among_members, joined};
use crate::execution::adversary::Adversary;
use crate::execution::checked::Execution;
use crate::execution::share::Fate;
use crate::losses::loss::{Noise, squared_losses};
use crate::losses::view::View;
use crate::mechanism::chosen::Mechanism;
use crate::mechanism::inca::{InjectionSpec, NamedInjection};
use crate::testing::random_run;

fn incremental(_rounds: usize) -> Mechanism {
    InjectionSpec::Named(NamedInjection::Incremental).into()
}

/// The sum of the distances of all from one of them.
fn distances(graph: &Graph, from: Party) -> usize {
    let mut far = vec![usize::MAX; graph.parties()];
    far[from] = 0;
    let mut open = std::collections::VecDeque::from([from]);
    while let Some(party) = open.pop_front() {
        for &next in graph.neighbours(party) {
            if far[next] == usize::MAX {
                far[next] = far[party] + 1;
                open.push_back(next);
            }
        }
    }
    far.iter().sum()
}

#[test]
fn no_party_is_further_from_the_others_than_the_connectivity_allows() {
    let random = &mut ChaCha8Rng::seed_from_u64(3);
    let (mut seen, mut reached) = (0, 0);
    for _ in 0..600 {
        let parties = random.random_range(2..=14);
        let chance = random.random_range(0.15..0.9);
        let pairs = (0..parties).flat_map(|a| (0..a).map(move |b| (b, a)));
        let edges = pairs.filter(|_| random.random_bool(chance)).collect();
        let graph = joined(parties, edges);
        let kappa = connectivity(&graph).kappa;
        if kappa == 0 {
            continue;
        }
        for party in 0..parties {
            let depth = distances(&graph, party) as f64 / parties as f64;
            let most = mean_depth(parties, kappa);
            assert!(depth <= most + 1e-12, "{parties} {kappa}: {depth} {most}");
            reached += usize::from(depth > most - 1e-12);
            seen += 1;
        }
    }
    println!("{seen} parties, {reached} as far as can be");
    assert!(seen > 2_000 && reached > 300, "{seen} {reached}");
    assert_eq!(mean_depth(1, 1), 0.0);
    assert_eq!(mean_depth(5, 1), 2.0);
    assert_eq!(mean_depth(5, 4), 0.8);
}

/// Returns the graph of usable shares, outside of the coalition and of those taken out again.
fn usable(execution: &Execution) -> (Graph, BTreeSet<Party>) {
    let Adversary::Corrupted(corrupted) = execution.adversary() else {
        unreachable!("these runs have coalitions")
    };
    let gone = |party: &Party| corrupted.contains(party) || execution.rolled_back().contains(party);
    let left: BTreeSet<Party> = (0..execution.parties()).filter(|party| !gone(party)).collect();
    let mut edges = Vec::new();
    for round in 1..=execution.rounds() as u32 {
        for &from in &left {
            let to = execution.out(round, from).iter();
            let accepted = |to: &&Party| execution.outcome(round, from, **to).fate == Fate::Accepted;
            let to = to.filter(|to| left.contains(to)).filter(accepted);
            edges.extend(to.map(|&to| (from.min(to), from.max(to))));
        }
    }
    (joined(execution.parties(), edges), left)
}

/// The greatest ratio of exact losses to bounds in which moving a change costs a part of what it
/// is said to, of all survivors of these random executions; of how many, and of how many it is
/// above 1.
struct Compared {
    parties: usize,
    exceeded: usize,
    greatest: f64,
}

fn compared(inca: bool, part: f64, by_tree: bool) -> Compared {
    let mut found = Compared {
        parties: 0,
        exceeded: 0,
        greatest: 0.0,
    };
    for case in 0..400 {
        let execution = random_run(case, false, inca.then_some(&incremental));
        let ratio = [1.0, 10.0, 1e3, 1e5][case as usize % 4];
        let noise = Noise {
            independent_std: 1.0,
            correlated_std: f64::sqrt(ratio),
        };
        let view = View::of(&execution);
        let losses = squared_losses(&view, noise);
        let (graph, left) = usable(&execution);
        let sends: Vec<Vec<Vec<Party>>> = (1..=execution.rounds() as u32)
            .map(|round| {
                (0..execution.parties())
                    .map(|it| execution.out(round, it).to_vec())
                    .collect()
            })
            .collect();
        for piece in graph.components() {
            let inside = among_members(&graph, &piece);
            for (place, party) in piece.iter().enumerate().filter(|(_, it)| left.contains(it)) {
                let depth = if by_tree {
                    distances(&inside, place) as f64 / piece.len() as f64
                } else {
                    mean_depth(piece.len(), connectivity(&inside).kappa.max(1))
                };
                let rules = execution.mechanism().rules();
                let cost = rules.cost_of_moving(&sends, depth).expect("a theorem") * part;
                let bound = square(piece.len(), cost, ratio);
                let at = view.honest.iter().position(|it| it == party).expect("honest");
                found.parties += 1;
                found.exceeded += usize::from(losses[at] > bound * (1.0 + 1e-9));
                found.greatest = found.greatest.max(losses[at] / bound);
            }
        }
    }
    found
}

#[test]
fn no_random_execution_loses_more_than_the_closed_form_says() {
    for inca in [true, false] {
        for by_tree in [true, false] {
            let whole = compared(inca, 1.0, by_tree);
            println!(
                "INCA {inca}, by tree {by_tree}: {} survivors of 400 executions, {} above, greatest {:.4}",
                whole.parties, whole.exceeded, whole.greatest
            );
            assert!(whole.parties > 1_500, "{}", whole.parties);
            assert_eq!(
                whole.exceeded, 0,
                "INCA {inca}, by tree {by_tree}: {}",
                whole.greatest
            );
        }
        // The comparison would tell: with a part of the costs there are executions above.
        let part = if inca { 0.1 } else { 0.25 };
        let less = compared(inca, part, true);
        println!(
            "INCA {inca}, {part} of the cost: {} above, greatest {:.4}",
            less.exceeded, less.greatest
        );
        assert!(less.exceeded > 0, "INCA {inca}");
    }
}

/// The setting of a schedule in which everybody may share with everybody.
fn setting(ppsc: bool, parties: usize, rounds: usize, seed: u64) -> Setting {
    let graph = Graph::complete(parties);
    let schedule = if ppsc {
        let gossip = MultiGossip::fitting(&graph, rounds as u32, seed).expect("neighbours");
        gossip.schedule().clone()
    } else {
        Schedule::draw(&graph, 1, rounds, seed).expect("neighbours")
    };
    Setting {
        mechanism: if ppsc {
            Mechanism::Ppsc
        } else {
            incremental(rounds)
        },
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

/// Where every coalition and every fault is computed the closed form says no less, and comes to the
/// same with much noise.
#[test]
fn the_closed_form_of_a_class_is_above_its_worst() {
    let (mut compared, mut settings) = (0, 0);
    for ppsc in [false, true] {
        for seed in 0..12 {
            let parties = 6 + seed as usize % 4;
            let rounds = if ppsc { 14 } else { 3 } + seed as usize % 3;
            let setting = setting(ppsc, parties, rounds, seed);
            let Some(connected) = ConnectedClass::of(&setting).filter(|it| it.basis().share_faults == 1)
            else {
                continue;
            };
            settings += 1;
            let flows = Flows::of(&setting).expect("few parties");
            for ratio in [1.0, 30.0, 1e3, 1e6] {
                let (bound, exact) = (
                    connected.square(&setting, ratio),
                    flows.worst(ratio, &CoalitionSet::of_class(&setting)).square,
                );
                assert!(
                    exact <= bound * (1.0 + 1e-9),
                    "{ppsc} {seed} {ratio}: {exact} {bound}"
                );
                compared += 1;
            }
            assert!(connected.square(&setting, 1e6) < 1.01 * connected.floor());
        }
    }
    println!("{settings} settings, {compared} comparisons");
    assert!(settings >= 8, "{settings}");
}

#[test]
fn settings_that_no_theorem_speaks_of_have_none() {
    let fine = setting(false, 8, 4, 1);
    assert!(ConnectedClass::of(&fine).is_some());
    let of = |change: &dyn Fn(&mut Setting)| {
        let mut other = fine.clone();
        change(&mut other);
        ConnectedClass::of(&other).is_none()
    };
    assert!(of(&|it| it.uniform = true));
    assert!(of(&|it| it.out[0][0] = vec![1, 2]), "fan-out 2");
    assert!(of(
        &|it| it.mechanism = InjectionSpec::Named(NamedInjection::Early).into()
    ));
    assert!(of(&|it| it.colluding = 7), "more than are connected");
}
