//! Who begins, and when: READY, parties that leave or fall silent after it, liars with two STARTs.

use std::collections::VecDeque;

use super::*;
use crate::messages::notice::{Notice, Recipient, Seat, SetHash};
use crate::messages::set::Set;
use crate::messages::testing::{ready, started};
use crate::messages::wire;
use crate::mixing::noisy::Noisy;

const JOIN_MS: u64 = 120_000;

/// Real machines in one room: what one says in public the others hear at once, in order.
struct Room {
    plan: Arc<Plan>,
    runs: Vec<Option<Run>>,
    /// Stopped: its address still takes connections, and what it is told waits.
    frozen: BTreeMap<Party, Vec<Input>>,
    now: Time,
    wakes: Vec<Time>,
    /// When each asked for its plan to be marked as spent, and with whom.
    begun: BTreeMap<Party, Time>,
    ends: BTreeMap<Party, Ending>,
    offences: Vec<String>,
    /// The words of each to its owner, in order.
    faults: Vec<String>,
    starts: u8,
    /// These cannot count that their number for a draw leaves.
    uncounted: BTreeSet<Party>,
}

impl Room {
    fn new(parties: usize, lines: &str) -> Self {
        Room {
            plan: plan(parties, lines, 2),
            runs: (0..parties).map(|_| None).collect(),
            frozen: BTreeMap::new(),
            now: Time::ZERO,
            wakes: vec![Time::FAR; parties],
            begun: BTreeMap::new(),
            ends: BTreeMap::new(),
            offences: Vec::new(),
            faults: Vec::new(),
            starts: 0,
            uncounted: BTreeSet::new(),
        }
    }

    fn feed(&mut self, party: Party, input: Input) {
        if let Some(waiting) = self.frozen.get_mut(&party) {
            return waiting.push(input);
        }
        let now = self.now;
        if let Some(run) = &mut self.runs[party] {
            run.handle(now, input).expect("an input that fits");
        }
    }

    /// Everything that is said reaches everybody, until nobody says anything more.
    fn settle(&mut self) {
        let mut frames = VecDeque::new();
        loop {
            for party in 0..self.runs.len() {
                self.drain(party, &mut frames);
            }
            let Some((from, to, frame)) = frames.pop_front() else {
                return;
            };
            let frame = Bytes::from_owner::<Arc<[u8]>>(frame);
            self.feed(to, Input::Public { from, frame });
        }
    }

    fn drain(&mut self, party: Party, frames: &mut VecDeque<(Party, Party, Arc<[u8]>)>) {
        if self.frozen.contains_key(&party) {
            return;
        }
        let Some(run) = &mut self.runs[party] else { return };
        loop {
            match run.poll_output() {
                Output::Wait { until } => {
                    self.wakes[party] = until;
                    return;
                }
                Output::Public { to, frame } => frames.push_back((party, to, frame)),
                Output::Spend => drop(self.begun.insert(party, self.now)),
                Output::Reveal => {
                    let full = || Err("a full disk".to_owned());
                    let result = self.uncounted.contains(&party).then(full).unwrap_or(Ok(()));
                    run.handle(self.now, Input::Revealed(result)).expect("asked");
                }
                Output::Finished(outcome) => drop(self.ends.insert(party, outcome.ending)),
                Output::Event(Event::Fault(text)) => self.faults.push(text),
                Output::Event(Event::Offence { peer, text }) => self.offences.push(format!("{peer}: {text}")),
                _ => {}
            }
        }
    }

    /// A party's node starts, anew if it ran before, and reaches all that run.
    fn start(&mut self, party: Party) {
        self.launch(party);
        self.settle();
    }

    /// As [`start`](Self::start), and nothing that anybody says has arrived yet.
    fn launch(&mut self, party: Party) {
        self.starts += 1;
        let value = inputs(&self.plan).swap_remove(party);
        let identity = Identity {
            party,
            key: simulated_keypair(party),
            run_key: run_key(self.starts),
            pair_key: PairKey::from_secret([109; 32]),
            seal_seed: [9; 32],
            nonce_secret: [self.starts; 32],
            epoch: u64::from(self.starts) << 32,
        };
        let noise = Box::new(Quiet(*self.plan.lattice()));
        self.runs[party] = Some(Run::new(
            self.plan.clone(),
            identity,
            Noisy::with_noise_in(value),
            noise,
            self.now,
        ));
        self.connect(party);
    }

    /// With all that run and answer.
    fn connect(&mut self, party: Party) {
        let answers = |other: &Party| {
            *other != party && self.runs[*other].is_some() && !self.frozen.contains_key(other)
        };
        for other in (0..self.runs.len()).filter(answers).collect::<Vec<_>>() {
            for (me, peer) in [(party, other), (other, party)] {
                for network in [Network::Private, Network::Public] {
                    self.feed(me, Input::Connected { network, peer });
                }
            }
        }
    }

    /// A party's process is gone: connections break.
    fn lost(&mut self, party: Party) {
        self.runs[party] = None;
        for other in (0..self.runs.len()).filter(|&other| other != party) {
            for network in [Network::Private, Network::Public] {
                self.feed(other, Input::Disconnected { network, peer: party });
            }
        }
        self.settle();
    }

    /// As [`lost`](Self::lost), and its address refuses new connections.
    fn unreachable(&mut self, party: Party) {
        self.lost(party);
        let others = (0..self.runs.len()).filter(|&other| other != party);
        others.for_each(|other| self.feed(other, Input::Unreachable { peer: party }));
        self.settle();
    }

    /// A stopped party goes on, with all that it was told meanwhile.
    fn thaw(&mut self, party: Party) {
        let waiting = self.frozen.remove(&party).unwrap_or_default();
        waiting.into_iter().for_each(|input| self.feed(party, input));
        self.connect(party);
        self.settle();
    }

    /// Time passes; whoever wants to be woken is.
    fn until(&mut self, ms: u64) {
        loop {
            let due = (0..self.runs.len())
                .filter(|party| self.runs[*party].is_some() && !self.frozen.contains_key(party))
                .map(|party| (self.wakes[party], party))
                .min();
            let Some((at, party)) = due.filter(|(at, _)| *at <= Time::from_millis(ms)) else {
                break;
            };
            self.now = self.now.max(at);
            self.feed(party, Input::Tick);
            self.settle();
        }
        self.now = Time::from_millis(ms);
    }

    fn begun(&self) -> Vec<Party> {
        self.begun.keys().copied().collect()
    }

    /// Returns the parties with which a party has begun.
    fn with(&self, party: Party) -> Vec<Party> {
        let run = self.runs[party].as_ref().expect("it runs");
        run.record.started.iter().copied().collect()
    }

    fn reason(&self, party: Party) -> &str {
        match &self.ends[&party] {
            Ending::Aborted { reason } => reason,
            other => panic!("party {party} ended otherwise: {other:?}"),
        }
    }

    /// A notice that a party signs beside its machine, to this one only.
    fn slip(&mut self, author: Party, to: Party, sequence: u64, notice: Notice) {
        let mut signer = Signer::new(author, *self.plan.digest(), simulated_keypair(author), sequence);
        let signed = signer.sign(Recipient::All, notice).expect("signs");
        let frame = Bytes::from_owner(wire::notice_frame(&signed));
        self.feed(to, Input::Public { from: author, frame });
    }

    /// The set of seats that a party holds another's START to be over, by hash.
    fn held(&self, holder: Party, author: Party) -> Option<SetHash> {
        let (seats, _) = self.runs[holder].as_ref()?.public_state.flood.start(0, author)?;
        Some(seats)
    }
}

/// Late in the epoch of a party's node, so that it is newer than what the node itself has said.
fn later(run: u8) -> u64 {
    (u64::from(run) << 32) + (1 << 31)
}

#[test]
fn a_second_start_of_one_incarnation_neither_replaces_nor_delays() {
    let mut room = Room::new(4, "");
    (0..3).for_each(|party| room.start(party));
    // Party 3 is played here. It signs START as all others do, then another one for party 0 only.
    let seat = |party: Party, start: u8| Seat {
        party,
        incarnation: started(start),
    };
    let all: Vec<Seat> = (0..4).map(|party| seat(party, party as u8 + 1)).collect();
    let three: Vec<Seat> = vec![seat(1, 2), seat(2, 3), seat(3, 4)];
    let over = |seats: &[Seat]| wire::set_hash(&Set::Seats(seats.to_vec()));
    let start = |seats: &[Seat]| Notice::Start {
        number: 0,
        incarnation: started(4),
        seats: over(seats),
    };
    let links = |room: &mut Room| {
        for party in 0..3 {
            for network in [Network::Private, Network::Public] {
                room.feed(party, Input::Connected { network, peer: 3 });
            }
        }
    };
    links(&mut room);
    room.slip(3, 0, 1, start(&three));
    for party in 0..3 {
        room.slip(3, party, 2, ready(4));
    }
    // Each of the others has signed START by now; party 0 holds another one of the liar's.
    room.slip(3, 1, 3, start(&all));
    room.slip(3, 1, later(9), start(&three));
    room.settle();
    room.until(JOIN_MS / 2);
    assert_eq!(room.begun(), [0, 1, 2], "{:?}", room.ends);
    assert_eq!(
        room.held(0, 3),
        Some(over(&all)),
        "the one that equals its own stays"
    );
    assert!(
        room.offences
            .iter()
            .any(|text| text.starts_with("3: ") && text.contains("two different")),
        "{:?}",
        room.offences
    );
}

#[test]
fn nobody_starts_over_a_party_that_was_ready_and_is_gone() {
    let mut room = Room::new(5, "");
    (0..3).for_each(|party| room.start(party));
    room.start(3);
    room.until(1000);
    room.unreachable(3);
    assert!(room.begun.is_empty());
    room.start(4);
    assert!(room.begun.is_empty(), "a START over a dead process's READY");
    room.until(JOIN_MS);
    assert_eq!(room.begun(), [0, 1, 2, 4], "{:?}", room.ends);
    assert_eq!(room.with(0), [0, 1, 2, 4]);
}

#[test]
fn a_restart_before_start_joins_again() {
    let mut room = Room::new(5, "");
    (0..4).for_each(|party| room.start(party));
    room.until(1000);
    room.unreachable(3);
    room.until(1500);
    room.start(3);
    room.until(1700);
    room.start(4);
    assert_eq!(room.begun(), [0, 1, 2, 3, 4], "{:?}", room.ends);
}

#[test]
fn nobody_starts_over_the_ready_of_a_process_whose_successor_is_connected() {
    let mut room = Room::new(5, "");
    (0..4).for_each(|party| room.start(party));
    // Too fast for its address to refuse anybody. What the others tell the last party of the old
    // process arrives before the new one has said a word.
    room.lost(3);
    room.launch(3);
    room.launch(4);
    room.settle();
    assert_eq!(room.begun(), [0, 1, 2, 3, 4], "{:?}", room.ends);
}

#[test]
fn a_party_that_leaves_withdraws_its_ready() {
    let mut room = Room::new(5, "");
    (0..4).for_each(|party| room.start(party));
    room.feed(3, Input::Leave);
    room.settle();
    // Its word alone has to do: its connections stay.
    room.start(4);
    room.until(JOIN_MS);
    assert_eq!(room.begun(), [0, 1, 2, 4], "{:?}", room.ends);
    assert!(room.reason(3).contains("told to leave"));
}

#[test]
fn nobody_starts_over_a_party_that_has_fallen_silent() {
    let mut room = Room::new(5, "[run]\ngrace_ms = 2000");
    (0..4).for_each(|party| room.start(party));
    room.until(10_000);
    room.frozen.insert(3, vec![]);
    room.until(15_000);
    room.start(4);
    assert!(
        room.begun.is_empty(),
        "a START over somebody who may not be there"
    );
    room.until(17_000);
    assert!(room.begun.is_empty(), "it may be suspended: it is waited for");
    // Two silence limits and the grace.
    room.until(20_000);
    assert_eq!(room.begun(), [0, 1, 2, 4], "{:?}", room.ends);
}

/// By default whoever cannot be reached is waited for to the end.
#[test]
fn without_a_grace_of_its_own_a_silent_party_costs_join_ms() {
    let mut room = Room::new(5, "");
    (0..4).for_each(|party| room.start(party));
    room.frozen.insert(3, vec![]);
    room.until(20_000);
    room.start(4);
    room.until(JOIN_MS - 1);
    assert!(room.begun.is_empty());
    room.until(JOIN_MS);
    assert_eq!(room.begun(), [0, 1, 2, 4], "{:?}", room.ends);
}

#[test]
fn parties_that_are_left_out_are_named_with_the_key_that_helps() {
    let mut room = Room::new(5, "[run]\ngrace_ms = 2000");
    (0..4).for_each(|party| room.launch(party));
    (0..4).for_each(|party| room.feed(party, Input::Unanswered { peer: 4 }));
    room.settle();
    room.until(2000);
    assert_eq!(room.begun(), [0, 1, 2, 3], "{:?}", room.ends);
    let reported = "the run begins without some parties: nothing answers at its address: party-4; `undertone doctor` says \
                more of addresses at which nothing answers";
    assert_eq!(room.faults[..], [reported; 4]);
    let mut room = Room::new(5, "[run]\ngrace_ms = 2000");
    (0..4).for_each(|party| room.launch(party));
    (0..4).for_each(|party| room.feed(party, Input::Refused { peer: 4 }));
    room.settle();
    room.until(2000);
    assert!(room.faults[0].contains("never connected"), "{:?}", room.faults);
    assert!(room.faults[0].contains("raise run.grace_ms"), "{:?}", room.faults);
}

#[test]
fn who_was_silent_and_speaks_again_is_started_with() {
    let mut room = Room::new(5, "");
    (0..4).for_each(|party| room.start(party));
    room.frozen.insert(3, vec![]);
    room.until(20_000);
    room.start(4);
    room.thaw(3);
    room.until(25_000);
    assert_eq!(room.begun(), [0, 1, 2, 3, 4], "{:?}", room.ends);
}

#[test]
fn an_abort_names_who_is_missing_and_what_to_raise() {
    let mut room = Room::new(5, "");
    (0..3).for_each(|party| room.start(party));
    room.until(JOIN_MS);
    let reason = room.reason(0);
    assert!(
        reason.contains("party-3") && reason.contains("party-4"),
        "{reason}"
    );
    assert!(!reason.contains("party-2"), "{reason}");
    assert!(reason.contains("raise run.join_ms"), "{reason}");
}

const STATIC: &str = "[run]\nsealed = true\n[privacy]\ncoalitions = \"static\"";

/// A number whose leaving could not be counted does not leave: nobody hears that party's START,
/// whoever has not signed hears that it is not there, and it says why it ended.
#[test]
fn a_number_that_is_not_counted_does_not_leave() {
    let mut room = Room::new(4, STATIC);
    room.uncounted.insert(2);
    (0..4).for_each(|party| room.start(party));
    assert_eq!(room.reason(2), "a full disk");
    assert_eq!(room.begun(), [] as [Party; 0]);
    for other in [0, 1, 3] {
        assert_eq!(room.held(other, 2), None, "{other}");
        let flood = &room.runs[other].as_ref().expect("it runs").public_state.flood;
        assert!(flood.reveal(0, 2).is_none(), "{other}");
        // Who has signed START keeps the READY that it names.
        assert!(
            flood.has_withdrawn(2) || flood.start(0, other).is_some(),
            "{other}"
        );
    }
    // The same with a disk that has room.
    let mut room = Room::new(4, STATIC);
    (0..4).for_each(|party| room.start(party));
    assert_eq!(room.begun(), [0, 1, 2, 3]);
    let run = room.runs[0].as_mut().expect("it runs");
    assert_eq!(
        run.handle(room.now, Input::Revealed(Ok(()))),
        Err(InputError::NotAsked("Revealed"))
    );
}
