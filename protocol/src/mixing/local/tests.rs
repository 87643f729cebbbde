use std::collections::BTreeSet;

use crate::run::outcome::Ending;
use crate::simulator::cluster::tests::{inputs, plan};
use crate::simulator::cluster::{Simulation, permissive_gate};
use crate::simulator::direct::direct;
use crate::simulator::scenario::Conditions;
use crate::topology::party::Party;

/// A plan of the third mechanism runs through every phase, in the simulator and without the talk
/// around it: everybody holds the sum of all noisy values, and so their mean.
#[test]
fn a_run_without_shares_gives_the_exact_mean() {
    let plan = plan(5, "[mechanism]\nkind = \"local\"", 1);
    let everybody: BTreeSet<Party> = (0..5).collect();
    for report in [
        Simulation::new(plan.clone(), inputs(&plan), &permissive_gate, Conditions::new(1)).run(),
        direct(&plan, inputs(&plan), &permissive_gate, 1, &[]),
    ] {
        assert_eq!(report.violations, []);
        for outcome in report.outcomes.iter() {
            let outcome = outcome.as_ref().expect("finished");
            assert_eq!((&outcome.ending, &outcome.included), (&Ending::Done, &everybody));
            let sum = outcome.sum.as_ref().expect("published");
            assert_eq!(Some(&sum.value), report.sum_over(&everybody).as_ref());
            assert_eq!(plan.lattice().weight_to_f64(sum.weight.0), 5.0);
        }
    }
}
