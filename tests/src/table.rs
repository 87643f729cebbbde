//! Machines around a table, which hear each other at once, and what a hostile one slips in. Time
//! moves only when everybody waits.

pub mod hostile;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use undertone_protocol::averaging::integers;
use undertone_protocol::lattice::payload::Payload;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::messages::log::AgreedLogs;
use undertone_protocol::messages::notice::{Network, Notice, Round};
use undertone_protocol::messages::stage::Stage;
use undertone_protocol::messages::wire::{self, Bytes, PublicFrame};
use undertone_protocol::mixing::noise::LatticeNoise;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::simulated_keypair;
use undertone_protocol::run::interface::{Input, Output};
use undertone_protocol::run::machine::Identity;
use undertone_protocol::run::outcome::{Ending, Event, GateVerdict, Outcome};
use undertone_protocol::sealing::run_key::{PairKey, RunKey};
use undertone_protocol::simulator::invariants::entered::Entered;
use undertone_protocol::simulator::invariants::mass;
use undertone_protocol::task::machine::Task;
use undertone_protocol::time::Time;
use undertone_protocol::topology::party::Party;

use crate::simulated::{contributions, others, real_gate};

/// The member whose place at the table the others should not trust.
pub const HOSTILE: Party = 3;

/// No test here takes longer by the machines' clocks.
const LONGEST_MS: u64 = 600_000;

/// A frame that reaches somebody.
#[derive(Clone)]
pub struct Slip {
    /// The graph that it travels on.
    pub network: Network,
    /// The party whose connection it comes over.
    pub from: Party,
    /// The party that it reaches.
    pub to: Party,
    /// The bytes of the frame.
    pub frame: Arc<[u8]>,
}

/// The hostile member's reaction to an output of any machine, its own included.
pub struct Turn {
    /// Whether the output is carried out.
    pub passes: bool,
    /// The frames that reach others before it.
    pub slips: Vec<Slip>,
}

impl Turn {
    /// Lets the output pass, and slips nothing in.
    pub fn none() -> Self {
        Turn {
            passes: true,
            slips: vec![],
        }
    }

    /// Lets the output pass once these frames have arrived.
    pub fn slip(slips: Vec<Slip>) -> Self {
        Turn { passes: true, slips }
    }

    /// Has these frames arrive in the stead of the output.
    pub fn instead(slips: Vec<Slip>) -> Self {
        Turn { passes: false, slips }
    }
}

/// The machines of a plan.
pub struct Table {
    tasks: Vec<Task>,
    /// Each party's x̃: its value with its own noise, on the lattice.
    pub noised: Vec<LatticeVector>,
    plan: Arc<Plan>,
    /// How it ended for each.
    pub outcomes: Vec<Option<Outcome>>,
    /// The reports of machines on others: by whom, of whom, and the text.
    pub offences: Vec<(Party, Party, String)>,
    /// The faults that machines found, each with the party that found it.
    pub faults: Vec<(Party, String)>,
    /// Frames that machines sent: from, to, network.
    pub sent: BTreeMap<(Party, Party, Network), usize>,
    /// Announcements of finals that machines flooded after a missed message.
    pub floods: usize,
    /// Each party's opening, from what its machine sent first.
    pub openings: BTreeMap<Party, Vec<i64>>,
    /// The gate in place of the real one.
    pub gate: fn(&Plan, &AgreedLogs) -> GateVerdict,
    /// The time on the machines' clocks.
    pub now: Time,
    entered: Entered,
    items: BTreeMap<Party, BTreeSet<Vec<u8>>>,
}

impl Table {
    /// Everybody has its value and its noise.
    pub fn new(plan: &Arc<Plan>) -> Self {
        let mut table = Table {
            tasks: vec![],
            noised: vec![],
            plan: plan.clone(),
            outcomes: vec![None; plan.parties()],
            offences: vec![],
            faults: vec![],
            sent: BTreeMap::new(),
            floods: 0,
            openings: BTreeMap::new(),
            gate: real_gate,
            now: Time::ZERO,
            entered: Entered::with_width(plan.terms().map_or(0, |terms| terms.opening_bytes)),
            items: BTreeMap::new(),
        };
        for (party, contribution) in contributions(plan).into_iter().enumerate() {
            let calibration = plan.calibration();
            let rng = ChaCha8Rng::seed_from_u64(party as u64);
            let mut noise = LatticeNoise::new(
                rng,
                *plan.lattice(),
                plan.draft().dimension(),
                calibration.correlated_std,
            );
            let value = noise.noisy(calibration.independent_std, contribution);
            let identity = Identity {
                party,
                key: simulated_keypair(party),
                run_key: RunKey::from_secret([party as u8; 32]),
                pair_key: PairKey::from_secret([party as u8 + 101; 32]),
                seal_seed: [1; 32],
                nonce_secret: [party as u8; 32],
                epoch: 0,
            };
            table.noised.push(value.vector().clone());
            table.tasks.push(Task::new(
                plan.clone(),
                identity,
                value,
                Box::new(noise),
                Time::ZERO,
            ));
        }
        table
    }

    /// An input to a machine.
    pub fn feed(&mut self, party: Party, input: Input) {
        self.tasks[party]
            .handle(self.now, input)
            .expect("the table asks for nothing that it should not");
    }

    /// Runs until everybody but the hostile member has its outcome, and has nothing more to say.
    pub fn play(&mut self, mut hostile: impl FnMut(Party, &Output) -> Turn) {
        let parties = self.plan.parties();
        let draft = self.plan.draft();
        let graphs = [
            (Network::Private, draft.private_graph.clone()),
            (Network::Public, draft.public_graph.clone()),
        ];
        for party in 0..parties {
            for (network, graph) in &graphs {
                let peers = graph.neighbours(party).iter();
                peers.for_each(|&peer| {
                    self.feed(
                        party,
                        Input::Connected {
                            network: *network,
                            peer,
                        },
                    )
                });
            }
        }
        let mut wakes = vec![Time::FAR; parties];
        loop {
            let mut idle = true;
            for (party, wake) in wakes.iter_mut().enumerate() {
                let mut outputs = VecDeque::new();
                loop {
                    match self.tasks[party].poll_output() {
                        Output::Wait { until } => break *wake = until,
                        output => outputs.push_back(output),
                    }
                }
                for output in outputs {
                    idle = false;
                    if let Output::Public { frame, .. } = &output {
                        self.look_at(party, frame);
                    }
                    let Turn { passes, slips } = hostile(party, &output);
                    slips.into_iter().for_each(|slip| self.deliver(slip));
                    if passes {
                        self.carry_out(party, output);
                    } else if let Output::Private {
                        share: Some(share), ..
                    } = output
                    {
                        // Another one went in its stead, and it is not asked about again.
                        self.feed(party, Input::Left { share });
                    }
                }
            }
            let ended = (0..parties).all(|party| party == HOSTILE || self.outcomes[party].is_some());
            if idle && ended {
                return;
            }
            if idle {
                let next = wakes.iter().copied().min().expect("a few of them");
                assert!(
                    next < Time::from_millis(LONGEST_MS),
                    "somebody waits for ever: {:?}",
                    self.offences
                );
                self.now = self.now.max(next);
                (0..parties).for_each(|party| self.feed(party, Input::Tick));
            }
        }
    }

    fn deliver(&mut self, slip: Slip) {
        let Slip {
            network,
            from,
            to,
            frame,
        } = slip;
        let frame = Bytes::from_owner(frame);
        self.feed(
            to,
            match network {
                Network::Public => Input::Public { from, frame },
                Network::Private => Input::Private { from, frame },
            },
        );
    }

    fn carry_out(&mut self, party: Party, output: Output) {
        match output {
            Output::Public { to, frame } => {
                self.send(Slip {
                    network: Network::Public,
                    from: party,
                    to,
                    frame,
                });
            }
            Output::Private { to, frame, share } => {
                self.send(Slip {
                    network: Network::Private,
                    from: party,
                    to,
                    frame,
                });
                if let Some(share) = share {
                    self.feed(party, Input::Left { share });
                }
            }
            Output::Recall(_) => panic!("nothing is slow here, so nothing is recalled"),
            Output::Spend => self.feed(party, Input::Spent(Ok(()))),
            Output::Reveal => self.feed(party, Input::Revealed(Ok(()))),
            Output::Audit(logs) => {
                let verdict = (self.gate)(&self.plan, &logs);
                self.feed(party, Input::Verdict(verdict));
            }
            Output::Event(Event::Offence { peer, text }) => self.offences.push((party, peer, text)),
            Output::Event(Event::Fault(text)) => self.faults.push((party, text)),
            Output::Finished(outcome) => {
                assert!(self.outcomes[party].is_none(), "party {party} ends twice");
                self.outcomes[party] = Some(*outcome);
            }
            _ => {}
        }
    }

    fn send(&mut self, slip: Slip) {
        *self.sent.entry((slip.from, slip.to, slip.network)).or_insert(0) += 1;
        self.deliver(slip);
    }

    /// Checks that an honest machine publishes one entry of its own, one opening that matches the
    /// entry, and running sums that begin from it.
    fn look_at(&mut self, party: Party, frame: &[u8]) {
        if let Err(violation) = self.entered.public(frame)
            && party != HOSTILE
        {
            panic!("party {party}: {violation:?}");
        }
        match wire::read_public(frame) {
            Ok(PublicFrame::Notice(signed) | PublicFrame::Item { signed, .. }) if signed.author == party => {
                if let Notice::Item {
                    stage: Stage::Publishing,
                    ..
                } = signed.notice
                {
                    let items = self.items.entry(party).or_default();
                    items.insert(frame.to_vec());
                    assert!(
                        items.len() == 1 || party == HOSTILE,
                        "party {party} publishes twice"
                    );
                }
                self.floods += usize::from(signed.notice.is_item_of(Stage::Finals));
            }
            Ok(PublicFrame::Round {
                round: Round { author, round: 0, .. },
                values,
            }) => {
                let width = self.plan.terms().expect("it averages").opening_bytes;
                let opening: Vec<i64> = integers::read_narrow(&frame[values], width).collect();
                let first = self.openings.entry(author).or_insert_with(|| opening.clone());
                assert!(
                    *first == opening || party == HOSTILE,
                    "party {party} opens another final than before"
                );
            }
            _ => {}
        }
    }

    /// The outcomes of all but the hostile member.
    pub fn honest(&self) -> impl Iterator<Item = (Party, &Outcome)> {
        let outcomes = self
            .outcomes
            .iter()
            .enumerate()
            .filter(|(party, _)| *party != HOSTILE);
        outcomes.map(|(party, outcome)| (party, outcome.as_ref().expect("it ended")))
    }

    /// Returns the reports of one machine on others.
    pub fn offences_reported_by(&self, party: Party) -> Vec<(Party, &str)> {
        self.offences
            .iter()
            .filter(|(by, ..)| *by == party)
            .map(|(_, of, text)| (*of, text.as_str()))
            .collect()
    }

    /// The sum of everybody's x̃ (value with own noise), to the bit.
    pub fn exact(&self) -> LatticeVector {
        let sum = self.noised.iter().cloned().reduce(|mut sum, value| {
            sum.add(&value);
            sum
        });
        sum.expect("somebody")
    }

    /// All that ended hold the exact sum over everybody.
    #[track_caller]
    pub fn assert_undisturbed(&self) {
        let everybody: BTreeSet<Party> = others(&self.plan, &[]);
        let exact = self.exact();
        for outcome in self.outcomes.iter().flatten() {
            assert_eq!(
                (&outcome.ending, outcome.agreed, &outcome.included),
                (&Ending::Done, true, &everybody)
            );
            assert!(
                outcome.sum.as_ref().map(|sum| &sum.value) == Some(&exact),
                "another sum"
            );
        }
    }

    /// Each honest node's mean is as near to the exact one of whom it includes as it says: exact
    /// where finals were flooded, else within ν/2. Returns who is in these means, and how many
    /// honest nodes hold an average, or a sum that is agreed on.
    #[track_caller]
    pub fn assert_averaged(&self) -> (BTreeSet<Party>, usize) {
        let terms = self.plan.terms().expect("it averages");
        let unit = f64::from(terms.grain_log2).exp2();
        let (mut sets, mut stand) = (BTreeSet::new(), 0);
        for (party, outcome) in self.honest() {
            let sum = outcome
                .sum
                .as_ref()
                .unwrap_or_else(|| panic!("party {party} has no mean: {outcome:?}"));
            let steps = outcome.accuracy.map_or(0.0, |accuracy| accuracy.steps);
            let openings: Vec<&Vec<i64>> = outcome
                .included
                .iter()
                .map(|party| &self.openings[party])
                .collect();
            for (i, found) in sum.value.steps().enumerate() {
                let exact = openings.iter().map(|opening| opening[i] as f64).sum::<f64>() * unit;
                // Openings are rounded; the bound has that in it, too.
                let rounded = 0.5 * openings.len() as f64 * unit.max(1.0);
                let off = (found as f64 - exact).abs();
                assert!(
                    off <= steps + rounded,
                    "party {party} is {off} steps off, and says {steps}"
                );
            }
            if outcome.included.len() == self.plan.parties() {
                let off = mass::largest_difference(&sum.value, &self.exact());
                assert!(off <= steps, "party {party} is {off} steps off, and says {steps}");
            }
            if let Some(accuracy) = outcome.accuracy {
                assert!(accuracy.apart <= terms.accuracy() * (1.0 + 1e-9), "{accuracy:?}");
            }
            stand += usize::from(outcome.agreed != outcome.accuracy.is_some());
            sets.insert(outcome.included.clone());
        }
        assert_eq!(
            sets.len(),
            1,
            "all average the same finals: {sets:?}\n{:?}\n{:?}",
            self.offences,
            self.faults
        );
        (sets.pop_first().expect("one"), stand)
    }
}
