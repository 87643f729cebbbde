//! Peers that send as much as they can.

use std::collections::BTreeSet;

use crate::lattice::grid::{Lattice, LatticeWeight};
use crate::lattice::packed::PackedVector;
use crate::lattice::vector::LatticeVector;
use crate::messages::log::ShareId;
use crate::mixing::exchange::{Action, ArrivedShare, ExchangeStart, ShareExchange};
use crate::mixing::noisy::Noisy;
use crate::mixing::parameters::MixingParameters;
use crate::mixing::portion::NoiseSource;
use crate::mixing::ticket::Recalled;
use crate::plan::checked::Plan;
use crate::simulator::cluster::tests::plan;
use crate::time::Time;
use crate::topology::party::Party;

struct Silent(Lattice);

impl NoiseSource<LatticeVector> for Silent {
    fn draw(&mut self, _: usize, _: u32) -> PackedVector {
        self.0.zeros(2).pack()
    }
}

/// A node that has as much of its own as a party ever has, in one direction.
fn full_node(plan: &Plan, parameters: &MixingParameters) -> ShareExchange {
    let lattice = plan.lattice();
    let own = lattice.own_reach as f64 * lattice.step();
    let value = lattice.encode([own, -own].into_iter());
    let start = ExchangeStart {
        start: Time::ZERO,
        now: Time::ZERO,
        absent: BTreeSet::new(),
        connected: (1..plan.parties()).collect(),
    };
    let weight = LatticeWeight(lattice.weight(plan.draft().weight_units(parameters.me)));
    let mixing = parameters.begin(Noisy::with_noise_in(value), weight, Box::new(Silent(*lattice)));
    ShareExchange::new(parameters.clone(), mixing, start)
}

/// The largest share of a round that is accepted.
fn largest_share(lattice: &Lattice, round: u32) -> Vec<u8> {
    let grid = lattice.round_grid(round);
    let bound = lattice.share_bound(round) / grid * grid;
    let bytes = [bound, -bound]
        .map(|steps| steps.to_le_bytes()[..lattice.wire_bytes as usize].to_vec())
        .concat();
    lattice
        .share(bytes.clone().into(), 2, round)
        .expect("what is at the bound is accepted");
    bytes
}

/// The node's shares of a round leave it, if they may; nothing goes wrong.
fn let_leave(node: &mut ShareExchange, leaves: bool) {
    for action in node.take_actions() {
        match action {
            Action::Share { id, .. } if leaves => node.left(id),
            Action::Fault(_) | Action::Offence { .. } => panic!("round {}: {action:?}", node.round()),
            _ => {}
        }
    }
}

/// The round ends at its deadline; own shares that have not left come back.
fn end_round(node: &mut ShareExchange, leaves: bool) {
    let end = node.deadline(node.round());
    node.advance(end);
    if !leaves {
        let asked = node.take_actions().into_iter().find_map(|action| match action {
            Action::Recall(back) => Some(back),
            _ => None,
        });
        let back = asked.expect("its shares are given out");
        node.recalled(&Recalled { left: vec![], back });
        node.advance(end);
    }
}

/// Every peer sends the most that is accepted. `leaves`: whether this node's own shares leave in
/// their rounds, or all come back. `late`: everything arrives in the last round only.
fn flooded_by_peers(plan: &Plan, leaves: bool, late: bool) {
    let (lattice, me) = (*plan.lattice(), 0);
    let parameters = MixingParameters::of(plan, me);
    let rounds = parameters.rounds();
    let mut node = full_node(plan, &parameters);
    let due: Vec<(u32, Party)> = parameters.due().collect();
    for round in 1..=rounds {
        let_leave(&mut node, leaves);
        let now_due = due
            .iter()
            .filter(|(due, _)| if late { round == rounds } else { *due == round });
        for &(due, from) in now_due {
            let id = ShareId {
                round: due,
                from,
                to: me,
            };
            let share = ArrivedShare {
                weight: LatticeWeight(0),
                values: largest_share(&lattice, due).into(),
            };
            node.share(from, id, share);
        }
        end_round(&mut node, leaves);
        assert_eq!(node.round(), round + 1);
    }
    for action in node.take_actions() {
        assert!(
            !matches!(action, Action::Fault(_) | Action::Offence { .. }),
            "{action:?}"
        );
    }
    assert_eq!(node.tally().returned, if leaves { 0 } else { rounds as usize });
    let sums: Vec<u128> = node
        .state()
        .portion()
        .value
        .steps()
        .map(i128::unsigned_abs)
        .collect();
    assert!(
        sums.iter().all(|&sum| sum > lattice.own_reach as u128),
        "{sums:?}"
    );
    let final_state = node.mixing.finish(&BTreeSet::new());
    let mut bytes = vec![0; 2 * lattice.final_bytes as usize];
    lattice
        .write_final(&final_state.value, &mut bytes)
        .expect("the final fits as well");
}

#[test]
fn whatever_peers_send_within_the_bound_every_share_of_an_honest_node_fits() {
    for (parties, rounds) in [(4, 3), (8, 7), (5, 1), (8, 12)] {
        let plan = plan(parties, "", rounds);
        flooded_by_peers(&plan, true, false);
        flooded_by_peers(&plan, true, true);
        // The most that a node can ever hold: all that comes in, and all of its own.
        flooded_by_peers(&plan, false, false);
        flooded_by_peers(&plan, false, true);
    }
}
