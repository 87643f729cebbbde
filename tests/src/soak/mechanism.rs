//! The runs: a small plan of each mechanism, and what its parties contribute.

use std::sync::Arc;

use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::messages::log::AgreedLogs;
use undertone_protocol::model::local_step::{LocalStep, PrivateRows};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::{Ending, GateVerdict, Outcome};
use undertone_protocol::simulator::cluster::Simulation;
use undertone_protocol::simulator::scenario::{Conditions, Report};
use undertone_protocol::topology::party::Party;

use crate::plans::calibrated;

use crate::simulated::real_gate;

/// Parties of each plan.
pub const PARTIES: usize = 6;

/// How many of them agree on a set, with one colluder and one dropout.
pub const QUORUM: usize = 5;

/// Rows of a party where records are protected.
const ROWS: u64 = 4;

/// A mechanism with a run file.
#[derive(Debug)]
pub struct Mechanism {
    /// Its name in tables.
    pub name: &'static str,
    /// The run file after its name.
    pub lines: &'static str,
    /// Whether parties contribute rows.
    pub records: bool,
    /// Whether finals leave sealed.
    pub sealed: bool,
    /// Whether it can do without a party.
    pub spares_a_party: bool,
}

/// A mechanism whose finals leave sealed, of vectors, that can do without a party.
pub const fn mechanism(name: &'static str, lines: &'static str) -> Mechanism {
    Mechanism {
        name,
        lines,
        records: false,
        sealed: true,
        spares_a_party: true,
    }
}

impl Mechanism {
    /// Whether what is sealed goes from neighbour to neighbour alone.
    pub fn reads_circles(&self) -> bool {
        self.lines.contains("sums = \"neighbours\"")
    }
}

/// All of them.
pub const MECHANISMS: [Mechanism; 14] = [
    mechanism("sealed", "[data]\nshape = [2]\n"),
    Mechanism {
        sealed: false,
        ..mechanism("readable", "[data]\nshape = [2]\n[run]\nsealed = false\n")
    },
    mechanism("ppsc", "[data]\nshape = [2]\n[mechanism]\nkind = \"ppsc\"\n"),
    mechanism("pairs", "[data]\nshape = [2]\n[mechanism]\nkind = \"pairwise\"\n"),
    mechanism(
        "static",
        "[data]\nshape = [2]\n[privacy]\ncoalitions = \"static\"\n",
    ),
    Mechanism {
        sealed: false,
        ..mechanism(
            "consensus",
            "[data]\nshape = [2]\n[run]\nsealed = false\ndissemination = \"consensus\"\n",
        )
    },
    Mechanism {
        sealed: false,
        ..mechanism(
            "open",
            "task = \"stream\"\n[data]\nshape = [2]\n[mechanism]\nsums = \"open\"\n",
        )
    },
    Mechanism {
        sealed: false,
        ..mechanism(
            "open-stream",
            "task = \"stream\"\n[data]\nshape = [2]\nreleases = 5\n[mechanism]\nsums = \"open\"\n",
        )
    },
    mechanism(
        "stream",
        "task = \"stream\"\n[data]\nshape = [2]\nreleases = 5\n[mechanism]\nsums = \"everybody\"\n[run]\nround_ms = 16000\n",
    ),
    mechanism(
        "circles",
        "task = \"stream\"\n[data]\nshape = [2]\nreleases = 5\n[mechanism]\nsums = \"neighbours\"\n[run]\nround_ms = 16000\n",
    ),
    mechanism("rounds", "task = \"rounds\"\n[data]\nshape = [3]\nreleases = 4\n"),
    mechanism(
        "rounds-pairs",
        "task = \"rounds\"\n[data]\nshape = [3]\nreleases = 4\n[mechanism]\nkind = \"pairwise\"\n",
    ),
    Mechanism {
        records: true,
        ..mechanism(
            "training",
            "task = \"regression\"\n[data]\nshape = [3]\nunit = \"record\"\n[model]\n\
             loss = \"logistic\"\niterations = 4\n",
        )
    },
    Mechanism {
        records: true,
        sealed: false,
        spares_a_party: false,
        ..mechanism(
            "outer",
            "task = \"linear-equations\"\n[data]\nshape = [4]\n[recursion]\niterations = 6\n\
             gossip_iterations = 8\n[mechanism]\naccept_exact_sum = true\n",
        )
    },
];

/// A mechanism with its calibrated plan.
pub struct Trial {
    /// The mechanism.
    pub mechanism: &'static Mechanism,
    /// Its plan.
    pub plan: Arc<Plan>,
    steps: Vec<LocalStep>,
}

impl Trial {
    /// Plans a mechanism.
    ///
    /// # Panics
    /// If the run file is refused.
    pub fn new(mechanism: &'static Mechanism) -> Self {
        let text = format!("name = \"{}\"\n{}", mechanism.name, mechanism.lines);
        let plan = calibrated(&text, PARTIES, mechanism.records.then_some(ROWS));
        let quorum = plan.draft().run.quorum;
        assert!(
            quorum == QUORUM || !mechanism.spares_a_party,
            "{}",
            mechanism.name
        );
        let outer = plan.draft().computation.recursion();
        let steps = outer.map_or(vec![], |outer| {
            (0..PARTIES)
                .map(|party| outer.local_step(equation(party)))
                .collect()
        });
        Trial {
            mechanism,
            plan,
            steps,
        }
    }

    /// One run.
    pub fn run(&self, conditions: Conditions) -> Report {
        let first = (0..PARTIES)
            .map(|party| self.contribution(party, 1, &[]))
            .collect();
        let gate = |plan: &Plan, logs: &AgreedLogs| -> GateVerdict { real_gate(plan, logs) };
        Simulation::new(self.plan.clone(), first, &gate, conditions)
            .contributing(|party, iteration, released| self.contribution(party, iteration, released))
            .run()
    }

    /// A party's contribution to an iteration or release, from 1.
    fn contribution(&self, party: Party, iteration: u32, released: &[f64]) -> LatticeVector {
        if let Some(step) = self.steps.get(party) {
            return self.step(step, iteration, released);
        }
        let dimension = self.plan.draft().dimension();
        let scale = 0.2 / (dimension as f64).sqrt();
        let angle = |i: usize| (7 * i + 3 * party + 5 * iteration as usize) as f64;
        let readers = match self.plan.reads_circles() {
            true => self.plan.active_edges(iteration).neighbours(party).len(),
            false => 0,
        };
        // Beside a message stands what is added for each reader: the simulation's own noise.
        let noise = std::iter::repeat_n(0.0, readers * dimension);
        let values = (0..dimension).map(|i| scale * angle(i).sin());
        self.plan.lattice().encode(values.chain(noise))
    }

    /// The result of an outer iteration, from the state before it; the first begins anew.
    fn step(&self, step: &LocalStep, iteration: u32, released: &[f64]) -> LatticeVector {
        let mut state = released.to_vec();
        if iteration == 1 {
            let outer = self.plan.draft().computation.recursion();
            state = outer.expect("who has local steps").start();
            step.begin(&mut state);
        } else {
            step.apply(u64::from(iteration), &mut state);
        }
        self.plan.lattice().encode(state.into_iter())
    }

    /// Returns the reason why an outcome is without the result of its run, as a final object would
    /// say. It is `None` if the result is there.
    pub fn lacks(&self, outcome: &Outcome) -> Option<String> {
        let expected = match (
            &self.plan.draft().computation.recursion(),
            &self.plan.draft().computation.model(),
        ) {
            (Some(outer), _) => outer.iterations,
            (_, Some(model)) => model.iterations,
            _ => self.plan.draft().releases(),
        };
        let (has, stopped) = match (&outcome.gossip, &outcome.training) {
            (Some(gossip), _) => (gossip.rounds >= self.plan.rounds(), gossip.stopped.clone()),
            (_, Some(training)) => (training.iterations >= expected, training.stopped.clone()),
            _ => (outcome.sum.is_some(), None),
        };
        (!has).then(|| stopped.or_else(|| said(outcome)).unwrap_or_default())
    }
}

/// An equation with a common solution of all.
fn equation(party: Party) -> PrivateRows {
    let row: Vec<f64> = (0..3).map(|i| ((3 * i + 2 * party + 1) as f64).sin()).collect();
    let target = row.iter().zip([1.0, -2.0, 0.5]).map(|(a, b)| a * b).sum();
    PrivateRows {
        features: vec![row; ROWS as usize],
        targets: vec![target; ROWS as usize],
    }
}

/// Returns the reason why an outcome of a mean has no sum; `None` if it does not say.
fn said(outcome: &Outcome) -> Option<String> {
    match &outcome.ending {
        Ending::Aborted { reason } | Ending::Spent { reason } | Ending::Withheld { reason } => {
            Some(reason.clone()).filter(|reason| !reason.is_empty())
        }
        Ending::Done | Ending::Degraded if outcome.out_of_range => Some("out of range".to_owned()),
        Ending::Done | Ending::Degraded => {
            let unopened = outcome.unopened.first();
            unopened.map(|it| it.sentence(&format!("party-{}", it.party)))
        }
    }
}
