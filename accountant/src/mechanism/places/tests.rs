use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::multi_gossip::MultiGossip;

use super::*;
use crate::execution::checked::Execution;
use crate::execution::trace::Trace;
use crate::mechanism::chosen::Mechanism;

#[test]
fn finals_hold_what_the_machine_says() {
    for seed in 0..40 {
        let parties = 3 + seed as usize % 6;
        let gossip =
            MultiGossip::fitting(&Graph::complete(parties), 3 + seed as u32 % 11, seed).expect("neighbours");
        let out = gossip.schedule().out().to_vec();
        let execution = Execution::fault_free(Mechanism::Ppsc, out.clone()).expect("a schedule");
        let trace = Trace::keeping(&execution, &vec![1.0; parties], |_, _| false);
        for (party, mut held) in finals(&out).into_iter().enumerate() {
            let row = trace.final_state(party);
            held.values.sort_unstable();
            assert_eq!(
                held.values,
                (0..parties)
                    .filter(|&other| row[other] == 1.0)
                    .collect::<Vec<_>>(),
                "seed {seed}"
            );
            assert!(row.iter().all(|factor| [-1.0, 0.0, 1.0].contains(factor)));
            assert_eq!(
                held.noises,
                row[parties..].iter().filter(|factor| **factor != 0.0).count(),
                "seed {seed}"
            );
        }
    }
}
