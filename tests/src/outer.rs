//! PPSC's outer recursions with all parties in one thread: the very machines of a node, their steps
//! included, over a network that delivers everything in order; and every frame of it.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use undertone_protocol::clipping::contribution::Clipped;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::wire::{self, Bytes, PublicFrame};
use undertone_protocol::mixing::noise::LatticeNoise;
use undertone_protocol::mixing::noisy::Noisy;
use undertone_protocol::model::local_step::{LocalStep, PrivateRows};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::simulated_keypair;
use undertone_protocol::run::interface::{Input, Output};
use undertone_protocol::run::machine::Identity;
use undertone_protocol::run::outcome::{Event, Outcome};
use undertone_protocol::sealing::run_key::{PairKey, RunKey};
use undertone_protocol::task::machine::Task;
use undertone_protocol::time::Time;
use undertone_protocol::topology::party::Party;

use crate::plans::calibrated;

/// The lines with which a run file accepts such a task.
pub const ASKED: &str = "[mechanism]\naccept_exact_sum = true\n";

/// The paper's Figure 4: paths of four, three and three parties, and a cycle.
pub const FIGURE_4: &str = "[topology]\nprivate = { kind = \"edges\", edges = [\
    [\"party-0\", \"party-1\"], [\"party-1\", \"party-2\"], [\"party-2\", \"party-3\"], \
    [\"party-4\", \"party-5\"], [\"party-5\", \"party-6\"], \
    [\"party-7\", \"party-8\"], [\"party-8\", \"party-9\"]] }\npublic = { kind = \"ring\" }\n";

/// The pieces of the private graph there.
pub const PIECES: [std::ops::Range<Party>; 3] = [0..4, 4..7, 7..10];

/// The paper's Table 4: each party's h and z.
pub const TABLE_4: [[f64; 7]; 10] = [
    [1.0, 2.0, 0.0, 0.0, 0.0, 0.0, -15.0],
    [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 5.0],
    [0.0, 1.0, 1.0, 0.0, 0.0, 3.0, 15.0],
    [0.0, -1.0, 1.0, 2.0, 5.0, -2.0, 5.0],
    [5.0, -2.0, 0.0, 2.0, 0.0, 1.0, 40.0],
    [2.0, 0.0, 1.0, 0.0, 2.0, 1.0, 27.0],
    [1.0, 1.0, 1.0, 2.0, 0.0, 1.0, 0.0],
    [3.0, 1.0, 5.0, 6.0, 8.0, -2.0, 23.0],
    [0.0, -2.0, 0.0, 1.0, 5.0, 0.0, 20.0],
    [0.0, 0.0, 0.0, 0.0, 2.0, -1.0, -3.0],
];

/// Its solution.
pub const SOLUTION: [f64; 6] = [5.0, -10.0, 10.0, -5.0, 1.0, 5.0];

/// The run file of Table 4 on Figure 4's graphs, with these lines under `[recursion]`.
pub fn table_4(outer: &str) -> String {
    format!(
        "task = \"linear-equations\"\nname = \"table-4\"\n[data]\nshape = [7]\n[recursion]\n{outer}\n{ASKED}{FIGURE_4}"
    )
}

/// Each party's row of Table 4.
pub fn data_of_table_4() -> Vec<Vec<Vec<f64>>> {
    TABLE_4.iter().map(|row| vec![row.to_vec()]).collect()
}

/// A party's entry of Σ hhᵀ/|h|², and in the last column of Σ zh/|h|².
pub fn of_equation(party: usize, i: usize, j: usize) -> f64 {
    let row = &TABLE_4[party];
    let square: f64 = row[..6].iter().map(|h| h * h).sum();
    row[i] * row[j] / square
}

/// Rows of features, the target last.
pub fn rows(rows: &[Vec<f64>]) -> PrivateRows {
    let split = rows.iter().map(|row| row.split_last().expect("a target"));
    PrivateRows {
        features: split.clone().map(|(_, features)| features.to_vec()).collect(),
        targets: split.map(|(target, _)| *target).collect(),
    }
}

/// A plan of so many simulated parties with so many rows each, of these run file's lines.
#[track_caller]
pub fn plan(text: &str, parties: usize, records: u64) -> Arc<Plan> {
    calibrated(text, parties, Some(records))
}

/// A state that was published: party, number of the round, state.
pub type Said = (Party, u32, Vec<f64>);

/// A run of all parties.
pub struct OuterRun {
    plan: Arc<Plan>,
    steps: Vec<LocalStep>,
    tasks: Vec<Task>,
    wakes: Vec<Time>,
    now: Time,
    post: VecDeque<(Party, Input)>,
    /// The frames that hostile peers send party 0 when it first averages: on which graph, from
    /// whom, and the bytes.
    pub hostile: Vec<(Network, Party, Vec<u8>)>,
    /// This party falls silent once it has said so many states.
    pub silent: Option<(Party, usize)>,
    /// States that were said in public, each once.
    pub said: Vec<Said>,
    /// The number of reports on peers that sent what they may not.
    pub offences: usize,
    /// How each party ended.
    pub outcomes: Vec<Option<Outcome>>,
}

impl OuterRun {
    /// Ready to run; `data` are each party's rows.
    pub fn new(plan: &Arc<Plan>, data: &[Vec<Vec<f64>>]) -> Self {
        let outer = plan.draft().computation.recursion().expect("outer iterations");
        let steps: Vec<LocalStep> = data.iter().map(|data| outer.local_step(rows(data))).collect();
        let task = |(party, step): (Party, &LocalStep)| {
            let rng = ChaCha8Rng::seed_from_u64(party as u64);
            let dimension = plan.draft().dimension();
            let std = plan.calibration().correlated_std;
            let noise = LatticeNoise::new(rng, *plan.lattice(), dimension, std);
            let mut first = outer.start();
            step.begin(&mut first);
            let value = Noisy::exposed_without_noise(Clipped::of(plan, party, first).0);
            Task::new(plan.clone(), identity(party), value, Box::new(noise), Time::ZERO)
        };
        let tasks: Vec<Task> = steps.iter().enumerate().map(task).collect();
        let parties = tasks.len();
        OuterRun {
            plan: plan.clone(),
            steps,
            tasks,
            wakes: vec![Time::ZERO; parties],
            now: Time::ZERO,
            post: VecDeque::new(),
            hostile: vec![],
            silent: None,
            said: vec![],
            offences: 0,
            outcomes: vec![None; parties],
        }
    }

    /// Runs to the end of all that are not silent.
    pub fn run(&mut self) {
        let draft = self.plan.draft();
        for (network, graph) in [
            (Network::Private, &draft.private_graph),
            (Network::Public, &draft.public_graph),
        ] {
            for me in 0..self.tasks.len() {
                let peers = graph.neighbours(me).iter();
                self.post
                    .extend(peers.map(|&peer| (me, Input::Connected { network, peer })));
            }
        }
        while (0..self.tasks.len()).any(|me| self.outcomes[me].is_none() && !self.is_silent(me)) {
            let (me, input) = self.post.pop_front().unwrap_or_else(|| {
                let awake = (0..self.tasks.len()).filter(|&me| !self.is_silent(me));
                let me = awake.min_by_key(|&me| self.wakes[me]).expect("there are parties");
                assert!(self.wakes[me] < Time::FAR, "nobody waits for anything");
                self.now = self.now.max(self.wakes[me]);
                (me, Input::Tick)
            });
            if !self.is_silent(me) {
                self.tasks[me].handle(self.now, input).expect("it was asked for");
                self.wakes[me] = self.carry_out(me);
            }
        }
    }

    fn is_silent(&self, party: Party) -> bool {
        let said = |party| self.said.iter().filter(|(who, ..)| *who == party).count();
        self.silent
            .is_some_and(|(silent, after)| silent == party && said(party) >= after)
    }

    fn carry_out(&mut self, me: Party) -> Time {
        loop {
            match self.tasks[me].poll_output() {
                Output::Wait { until } => return until,
                Output::Public { to, frame } => {
                    let frame = Bytes::from_owner(frame);
                    self.note(me, &frame);
                    self.post.push_back((to, Input::Public { from: me, frame }));
                }
                Output::Private { to, frame, .. } => {
                    let frame = Bytes::from_owner(frame);
                    self.post.push_back((to, Input::Private { from: me, frame }));
                }
                Output::Spend => self.post.push_back((me, Input::Spent(Ok(())))),
                Output::Reveal => self.post.push_back((me, Input::Revealed(Ok(())))),
                Output::Contribute { iteration, released } => {
                    let value = self.stepped(me, iteration, &released);
                    self.post
                        .push_back((me, Input::Contribution { iteration, value }));
                }
                Output::Finished(outcome) => self.outcomes[me] = Some(*outcome),
                Output::Event(Event::Offence { .. }) => self.offences += 1,
                Output::Event(_) => {}
                Output::Recall(_) | Output::Audit(_) => panic!("nothing is settled or gated"),
            }
        }
    }

    fn stepped(&self, me: Party, iteration: u32, released: &[f64]) -> Noisy {
        let mut state = released.to_vec();
        self.steps[me].apply(u64::from(iteration), &mut state);
        Noisy::exposed_without_noise(Clipped::of(&self.plan, me, state).0)
    }

    /// Reads along what everybody can read.
    fn note(&mut self, from: Party, frame: &Bytes) {
        let Ok((number, inner)) = wire::of_iteration(frame) else {
            return;
        };
        let Ok(PublicFrame::Round { round, values }) = wire::read_public(&inner) else {
            return;
        };
        assert_eq!(number, round.round + 2);
        let known = self
            .said
            .iter()
            .rev()
            .take(400)
            .any(|(who, at, _)| (*who, *at) == (from, round.round));
        if known {
            return;
        }
        let state = inner[values].chunks_exact(8);
        let state = state.map(|x| f64::from_le_bytes(x.try_into().expect("eight bytes")));
        self.said.push((from, round.round, state.collect()));
        if from == 0 {
            for (network, from, frame) in std::mem::take(&mut self.hostile) {
                let frame = Bytes::from(frame);
                let input = match network {
                    Network::Private => Input::Private { from, frame },
                    Network::Public => Input::Public { from, frame },
                };
                self.post.push_back((0, input));
            }
        }
    }

    /// Returns each party's last iterate.
    pub fn iterates(&self) -> Vec<Vec<f64>> {
        let ended = self.outcomes.iter().flatten();
        ended
            .map(|outcome| {
                let training = outcome.training.as_ref().expect("iterations");
                training.result.clone().expect("an iterate")
            })
            .collect()
    }
}

fn identity(party: Party) -> Identity {
    let seed = [party as u8; 32];
    Identity {
        party,
        key: simulated_keypair(party),
        run_key: RunKey::from_secret(seed),
        pair_key: PairKey::from_secret([party as u8 + 100; 32]),
        seal_seed: seed,
        nonce_secret: seed,
        epoch: 0,
    }
}
