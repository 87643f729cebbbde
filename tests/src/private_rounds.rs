//! The network rounds that PPSC's private phase takes, beside the
//! critical path of its edge sequence.
//!
//! The *critical path* is the longest chain of exchanges of the sequence in which each shares a
//! party with the one before it: no protocol whose parties act on their own edges in order and wait
//! for each exchange takes fewer rounds. *Rounds used* are counted in the simulator, which drives
//! the very machines of a node: every message is on its way for one unit of time and nothing else
//! takes any, from the moment the first share leaves to the moment the last one arrives, or until
//! its answer has arrived, too. A party that hands out twice in a row need not wait for the first
//! answer, so that fewer rounds can do than the critical path has.

use std::sync::Arc;

use undertone_accountant::calibration::claims::predicted;
use undertone_accountant::class::setting::Setting;
use undertone_accountant::losses::gaussian;
use undertone_accountant::losses::loss::Noise;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::plan::calibration::{Calibration, SeededSchedule};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Claim, Faults};
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::parsed::RunFile;
use undertone_protocol::simulator::cluster::{Simulation, permissive_gate};
use undertone_protocol::simulator::scenario::Conditions;
use undertone_protocol::time::Time;
use undertone_protocol::topology::multi_gossip::MultiGossip;
use undertone_protocol::topology::schedule::Schedule;

/// Exchanges of a sequence: so many times the number of parties, each of which takes part in twice
/// as many.
const EXCHANGES: usize = 4;

/// A message's way, in microseconds.
const UNIT_US: u64 = 1000;

const GRAPHS: [(&str, &str); 3] = [
    ("complete", "\"complete\""),
    (
        "random-regular, degree 4",
        "{ kind = \"random-regular\", degree = 4 }",
    ),
    ("ring", "{ kind = \"ring\" }"),
];

/// One edge sequence, with the rounds that it took.
#[derive(Clone, Debug)]
pub struct PrivateRounds {
    /// The private graph.
    pub graph: &'static str,
    /// Exchanges of the sequence.
    pub exchanges: usize,
    /// The longest chain of exchanges with common parties.
    pub critical_path: u32,
    /// Network rounds from the first share to the arrival of the last one.
    pub to_last_share: f64,
    /// Network rounds until its answer has arrived, too.
    pub to_last_answer: f64,
}

impl PrivateRounds {
    /// Rounds used over the critical path.
    pub fn ratio(&self) -> f64 {
        self.to_last_answer / f64::from(self.critical_path)
    }
}

/// One edge sequence over each private graph. Panics where there is no such network.
pub fn measured(parties: usize) -> Vec<PrivateRounds> {
    GRAPHS
        .map(|(graph, topology)| of_graph(parties, graph, topology))
        .into()
}

fn of_graph(parties: usize, graph: &'static str, topology: &str) -> PrivateRounds {
    let public = if parties > 5 {
        "{ kind = \"random-regular\", degree = 4 }"
    } else {
        "\"complete\""
    };
    let text = format!(
        "name = \"rounds\"\n[data]\nshape = [2]\n[privacy]\ncolluding = 1\ndropouts = 0\n\
         [mechanism]\nkind = \"ppsc\"\ncorrelated = \"gaussian\"\nlocal_noise_ok = true\n\
         [topology]\nprivate = {topology}\npublic = {public}\n"
    );
    let file = RunFile::parse(&text, parties).expect("a run file");
    let peers = Peers::simulated(parties).expect("enough parties");
    let plan = Arc::new(plan(Draft::new(file, &peers, 1).expect("a draft")));
    let zero = || plan.lattice().encode([0.0; 2].into_iter());
    let inputs: Vec<LatticeVector> = (0..parties).map(|_| zero()).collect();
    let conditions = Conditions {
        latency_us: (UNIT_US, UNIT_US),
        instant: true,
        ..Conditions::new(1)
    };
    let simulated = Simulation::new(plan.clone(), inputs, &permissive_gate, conditions).run();
    assert!(simulated.violations.is_empty(), "{:?}", simulated.violations);
    let first = simulated.private.first_left.expect("a share left");
    let rounds =
        |last: Option<Time>| last.expect("every share arrived").since(first) as f64 / (UNIT_US * 1000) as f64;
    PrivateRounds {
        graph,
        exchanges: plan.schedule().shares(),
        critical_path: longest_chain(plan.schedule(), parties),
        to_last_share: rounds(simulated.private.last_arrived),
        to_last_answer: rounds(simulated.private.last_answered),
    }
}

/// A plan with local noise, of which no more is claimed than that: no number here depends on the
/// noise.
fn plan(draft: Draft) -> Plan {
    let rounds = MultiGossip::draw(&draft.private_graph, EXCHANGES * draft.parties(), 1)
        .expect("exchanges")
        .rounds();
    let schedule = Calibration::draw_schedule(&draft, rounds, 1).expect("a schedule");
    let setting = Setting::of_draft(&draft, &schedule).expect("a setting");
    let (epsilon, delta) = (draft.privacy.epsilon, draft.privacy.delta);
    let mu = gaussian::mu(epsilon, delta).expect("a loss");
    let independent_std = draft.largest_sensitivity() / mu;
    let noise = Noise {
        independent_std,
        correlated_std: independent_std,
    };
    let anybody = draft.parties() - 1;
    let claim = Claim {
        holds_as_headline: true,
        ..Claim::theorem(anybody, Faults::Any, (mu, epsilon), delta)
    };
    let calibration = Calibration {
        rounds,
        drawn: Some(SeededSchedule { seed: 1, schedule }),
        independent_std,
        correlated_std: noise.correlated_std,
        claims: vec![claim],
        predicted: predicted(&setting, noise, mu).expect("an error"),
    };
    Plan::assemble(draft, calibration, [0; 16]).expect("a plan")
}

/// The longest chain of exchanges with common parties, in the order of the sequence.
fn longest_chain(schedule: &Schedule, parties: usize) -> u32 {
    let mut chain = vec![0u32; parties];
    for round in 1..=schedule.rounds() as u32 {
        for out in 0..parties {
            for &into in schedule.sends_to(round, out) {
                let longer = 1 + chain[out].max(chain[into]);
                (chain[out], chain[into]) = (longer, longer);
            }
        }
    }
    chain.into_iter().max().unwrap_or(0)
}
