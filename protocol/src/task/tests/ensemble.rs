//! The tasks of all parties of a plan in one room, stepped by hand: every frame arrives at once and
//! in order, and time passes only when nothing is on its way. A test stops it where it likes,
//! decides which frames arrive and what the drivers answer, and looks at what each machine says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use crate::lattice::vector::LatticeVector;
use crate::messages::log::AgreedLogs;
use crate::messages::notice::Network;
use crate::messages::wire::Bytes;
use crate::mixing::noise::LatticeNoise;
use crate::mixing::noisy::Noisy;
use crate::mixing::ticket::Tickets;
use crate::plan::checked::Plan;
use crate::plan::peers::simulated_keypair;
use crate::plan::run_file::raw::RawRunFile;
use crate::run::interface::{Input, Output};
use crate::run::machine::{Identity, Run};
use crate::run::outcome::{Event, GateVerdict, Outcome, TrainingOutcome};
use crate::sealing::run_key::{PairKey, RunKey};
use crate::simulator::cluster::permissive_gate;
use crate::simulator::cluster::tests::plan_from;
use crate::task::machine::Task;
use crate::time::Time;
use crate::topology::party::Party;

/// No ensemble here has more to do.
const MOST_INPUTS: usize = 200_000;

/// A frame on its way.
pub(crate) struct Travelling<'f> {
    pub(crate) network: Network,
    pub(crate) from: Party,
    pub(crate) to: Party,
    pub(crate) frame: &'f Bytes,
}

/// The verdict that a party's driver gives, if it gives one.
type Judge<'a> = dyn Fn(Party, &Plan, &AgreedLogs) -> Option<GateVerdict> + 'a;
/// The contribution of a party to an iteration, if it makes one, computed from the released values.
type Source<'a> = dyn Fn(Party, u32, &[f64]) -> Option<LatticeVector> + 'a;

/// All parties of a plan.
pub(crate) struct Ensemble<'a> {
    pub(crate) tasks: Vec<Task>,
    pub(crate) now: Time,
    pub(crate) events: Vec<(Time, Party, Event)>,
    pub(crate) outcomes: BTreeMap<Party, Outcome>,
    /// Who was asked for a contribution, to which iteration, computed from what.
    pub(crate) asked: Vec<(Party, u32, Arc<[f64]>)>,
    /// They neither hear nor say anything any more.
    pub(crate) silent: BTreeSet<Party>,
    /// Their transport hands no share out.
    pub(crate) clogged: BTreeSet<Party>,
    /// Their drivers do not answer whether the plan is spent.
    pub(crate) unspent: BTreeSet<Party>,
    pub(crate) judge: Box<Judge<'a>>,
    pub(crate) source: Box<Source<'a>>,
    /// Whether a frame arrives.
    pub(crate) arrives: Box<dyn FnMut(&Travelling<'_>) -> bool + 'a>,
    /// Who can be reached on which graph, by whom.
    connected: BTreeSet<(Network, Party, Party)>,
    post: VecDeque<(Party, Input)>,
    wakes: Vec<Time>,
    tickets: Vec<Tickets>,
    fed: usize,
}

/// A plan of a whole run file, with noise of about the right size, of parties with so many rows.
pub(crate) fn plan_of_text((parties, records): (usize, Option<u64>), text: &str, rounds: u32) -> Arc<Plan> {
    let raw = RawRunFile::parse(text).unwrap_or_else(|error| panic!("{error}"));
    plan_from(raw, parties, records, rounds)
}

/// A plan of so many rounds of what programs hand over: by masks of pairs, or by noise that is
/// precomputed in `mixing` rounds.
pub(crate) fn rounds_plan(kind: &str, releases: u32, run: &str) -> Arc<Plan> {
    let text = format!(
        "task = \"rounds\"\nname = \"rounds\"\n[data]\nshape = [2]\nreleases = {releases}\n\
         [run]\niteration_ms = 8000\n{run}\n[mechanism]\nkind = \"{kind}\""
    );
    plan_of_text((6, None), &text, 3)
}

/// Returns a party's contribution to a round, without noise: coordinates of about its number. Over
/// circles no noise of the vectors for its readers, either.
pub(crate) fn contribution(plan: &Plan, party: Party, round: u32) -> LatticeVector {
    let dimension = plan.draft().dimension();
    let own = (0..dimension).map(|at| if at == 0 { 0.1 * party as f64 } else { -0.05 });
    let readers = match plan.reads_circles() {
        true => plan.active_edges(round).neighbours(party).len(),
        false => 0,
    };
    let noise = std::iter::repeat_n(0.0, readers * dimension);
    plan.lattice().encode(own.chain(noise))
}

pub(crate) fn identity(party: Party) -> Identity {
    let seed = [party as u8 + 1; 32];
    Identity {
        party,
        key: simulated_keypair(party),
        run_key: RunKey::from_secret(seed),
        pair_key: PairKey::from_secret([party as u8 + 101; 32]),
        seal_seed: seed,
        nonce_secret: seed,
        epoch: 0,
    }
}

/// One party's task, fed with nothing yet.
pub(crate) fn task_of(plan: &Arc<Plan>, party: Party) -> Task {
    task_with(plan, party, contribution(plan, party, 1))
}

/// One party's task, with this as its first contribution.
pub(crate) fn task_with(plan: &Arc<Plan>, party: Party, value: LatticeVector) -> Task {
    let rng = ChaCha8Rng::seed_from_u64(party as u64);
    let std = plan.calibration().correlated_std;
    let noise = LatticeNoise::new(rng, *plan.lattice(), plan.mixed_coordinates(), std);
    Task::new(
        plan.clone(),
        identity(party),
        Noisy::with_noise_in(value),
        Box::new(noise),
        Time::ZERO,
    )
}

impl<'a> Ensemble<'a> {
    /// All are up and connected; nobody has heard anything.
    pub(crate) fn new(plan: &Arc<Plan>) -> Self {
        Self::without(plan, &[])
    }

    /// These never come, and their addresses refuse connections.
    pub(crate) fn without(plan: &Arc<Plan>, absent: &[Party]) -> Self {
        let parties = plan.parties();
        let of_plan = plan.clone();
        let mut ensemble = Ensemble {
            tasks: (0..parties).map(|party| task_of(plan, party)).collect(),
            now: Time::ZERO,
            events: vec![],
            outcomes: BTreeMap::new(),
            asked: vec![],
            silent: absent.iter().copied().collect(),
            clogged: BTreeSet::new(),
            unspent: BTreeSet::new(),
            judge: Box::new(|_, plan, logs| Some(permissive_gate(plan, logs))),
            source: Box::new(move |party, iteration, _| Some(contribution(&of_plan, party, iteration))),
            arrives: Box::new(|_| true),
            connected: BTreeSet::new(),
            post: VecDeque::new(),
            wakes: vec![Time::ZERO; parties],
            tickets: (0..parties).map(|_| Tickets::default()).collect(),
            fed: 0,
        };
        for (network, graph) in [
            (Network::Private, plan.private_links()),
            (Network::Public, plan.public_links()),
        ] {
            for (one, other) in graph.edges().iter().copied() {
                let (to_one, to_other) = match absent.contains(&one) || absent.contains(&other) {
                    true => (Input::Refused { peer: other }, Input::Refused { peer: one }),
                    false => (
                        Input::Connected { network, peer: other },
                        Input::Connected { network, peer: one },
                    ),
                };
                ensemble.post.extend([(one, to_one), (other, to_other)]);
            }
        }
        ensemble
    }

    /// Feeds a party at once; what it says goes on its way.
    pub(crate) fn feed(&mut self, party: Party, input: Input) {
        if self.silent.contains(&party) {
            return;
        }
        self.fed += 1;
        assert!(self.fed < MOST_INPUTS, "it does not come to an end");
        match input {
            Input::Connected { network, peer } => drop(self.connected.replace((network, party, peer))),
            Input::Disconnected { network, peer } => drop(self.connected.take(&(network, party, peer))),
            _ => {}
        }
        self.tasks[party]
            .handle(self.now, input)
            .expect("an input that fits");
        self.carry_out(party);
    }

    /// One input of one party: the next that is on its way, or of the first that wants to be woken.
    pub(crate) fn step(&mut self) {
        let (party, input) = self.post.pop_front().unwrap_or_else(|| {
            let awake = (0..self.tasks.len()).filter(|party| !self.silent.contains(party));
            let party = awake.min_by_key(|&party| self.wakes[party]);
            let party = party.expect("somebody is up");
            assert!(self.wakes[party] < Time::FAR, "nobody waits for anything");
            self.now = self.now.max(self.wakes[party]);
            (party, Input::Tick)
        });
        self.feed(party, input);
    }

    /// Steps until all that is due by then has happened, and then it is that time.
    pub(crate) fn until_time(&mut self, at: Time) {
        loop {
            let awake = (0..self.tasks.len()).filter(|party| !self.silent.contains(party));
            let next = awake.map(|party| self.wakes[party]).min();
            if self.post.is_empty() && next.is_none_or(|next| next > at) {
                break;
            }
            self.step();
        }
        self.now = self.now.max(at);
    }

    /// Steps until something holds.
    #[track_caller]
    pub(crate) fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            self.step();
        }
    }

    /// Steps until all who are up have ended.
    #[track_caller]
    pub(crate) fn play(&mut self) {
        self.until(|ensemble| {
            let mut up = (0..ensemble.tasks.len()).filter(|party| !ensemble.silent.contains(party));
            up.all(|party| ensemble.outcomes.contains_key(&party))
        });
    }

    /// Delivers all that is on its way, without time passing.
    pub(crate) fn deliver(&mut self) {
        while let Some((party, input)) = self.post.pop_front() {
            self.feed(party, input);
        }
    }

    /// A party's process dies: its connections break, and its address refuses new ones.
    pub(crate) fn kill(&mut self, party: Party) {
        self.silent.insert(party);
        // What is on its way from it is lost with the connections.
        self.post.retain(|(_, input)| match input {
            Input::Public { from, .. } | Input::Private { from, .. } => *from != party,
            _ => true,
        });
        for other in (0..self.tasks.len()).filter(|&other| other != party) {
            for network in [Network::Private, Network::Public] {
                self.feed(other, Input::Disconnected { network, peer: party });
            }
            self.feed(other, Input::Unreachable { peer: party });
        }
    }

    pub(crate) fn has_said(&self, party: Party, event: &Event) -> bool {
        self.events
            .iter()
            .any(|(_, who, said)| *who == party && said == event)
    }

    /// When a party said something first.
    #[track_caller]
    pub(crate) fn said_at(&self, party: Party, event: &Event) -> Time {
        let mut said = self.events.iter();
        let said = said.find(|(_, who, said)| *who == party && said == event);
        said.unwrap_or_else(|| panic!("{party} never said {event:?}")).0
    }

    /// Returns a party's reports of its peers' offences and of its own faults.
    pub(crate) fn complaints(&self, party: Party) -> Vec<String> {
        let texts = self.events.iter().filter_map(|(_, who, event)| match event {
            Event::Offence { peer, text } if *who == party => Some(format!("{peer}: {text}")),
            Event::Fault(text) if *who == party => Some(text.clone()),
            _ => None,
        });
        texts.collect()
    }

    pub(crate) fn run(&self, party: Party) -> &Run {
        self.tasks[party].release()
    }

    #[track_caller]
    pub(crate) fn outcome(&self, party: Party) -> &Outcome {
        let outcome = self.outcomes.get(&party);
        outcome.unwrap_or_else(|| panic!("party {party} has not ended"))
    }

    #[track_caller]
    pub(crate) fn training(&self, party: Party) -> &TrainingOutcome {
        self.outcome(party).training.as_ref().expect("a training")
    }

    fn carry_out(&mut self, me: Party) {
        loop {
            match self.tasks[me].poll_output() {
                Output::Wait { until } => {
                    self.wakes[me] = until;
                    return;
                }
                Output::Public { to, frame } => self.send(Network::Public, me, to, frame),
                Output::Private { to, frame, share } => {
                    let leaves = share
                        .is_none_or(|share| !self.clogged.contains(&me) && self.tickets[me].of(share).take());
                    if leaves {
                        let left = share.map(|share| (me, Input::Left { share }));
                        self.post.extend(left);
                        self.send(Network::Private, me, to, frame);
                    }
                }
                Output::Recall(shares) => {
                    let recalled = self.tickets[me].recall(&shares);
                    let reported = self.tasks[me].handle(self.now, Input::Recalled(recalled));
                    reported.expect("it was asked for");
                }
                Output::Spend if self.unspent.contains(&me) => {}
                Output::Spend => self.post.push_back((me, Input::Spent(Ok(())))),
                Output::Reveal => self.post.push_back((me, Input::Revealed(Ok(())))),
                Output::Audit(logs) => {
                    let verdict = (self.judge)(me, self.tasks[me].plan(), &logs);
                    let verdict = verdict.map(|verdict| (me, Input::Verdict(verdict)));
                    self.post.extend(verdict);
                }
                Output::Contribute { iteration, released } => {
                    let value = (self.source)(me, iteration, &released);
                    self.asked.push((me, iteration, released));
                    let value = value.map(Noisy::with_noise_in);
                    let value = value.map(|value| (me, Input::Contribution { iteration, value }));
                    self.post.extend(value);
                }
                Output::Event(event) => self.events.push((self.now, me, event)),
                Output::Finished(outcome) => {
                    let before = self.outcomes.insert(me, *outcome);
                    assert!(before.is_none(), "party {me} ended twice");
                }
            }
        }
    }

    fn send(&mut self, network: Network, from: Party, to: Party, frame: Arc<[u8]>) {
        let reached = self.connected.contains(&(network, from, to));
        assert!(reached, "{from} sends to {to}, whom it does not reach");
        let frame = Bytes::from_owner(frame);
        let travelling = Travelling {
            network,
            from,
            to,
            frame: &frame,
        };
        if !(self.arrives)(&travelling) {
            return;
        }
        let input = match network {
            Network::Public => Input::Public { from, frame },
            Network::Private => Input::Private { from, frame },
        };
        self.post.push_back((to, input));
    }
}
