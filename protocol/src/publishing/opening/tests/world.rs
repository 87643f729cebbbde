//! Machines that hear each other over a network that loses, repeats and reorders, while some of
//! them crash and some lie.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;
use rand::RngExt;

use super::*;
use crate::agreement::flood::{FloodError, Receipt};
use crate::messages::wire::PublicFrame;

/// By when a frame has come at the latest, and a crash is found by those who find it.
const DELAY_MS: u64 = 60;

/// The faults and choices of a run.
#[derive(Clone, Debug)]
struct Fate {
    seed: u64,
    parties: usize,
    /// Who is in the set, by bits; party 0 always is.
    set: u8,
    /// Parties, and how many frames each hands to the network before it crashes.
    crashes: Vec<(Party, usize)>,
    /// Somebody who tells wrong secrets and shares before good ones, or (true) none at all.
    liar: Option<(Party, bool)>,
    /// One frame in so many is lost for good; 0: none.
    loss: u32,
    /// Somebody who tells its shares of everybody: only for trying the checker.
    traitor: Option<Party>,
}

impl Fate {
    fn members(&self) -> Vec<Party> {
        let inside = |party: &Party| *party == 0 || self.set >> party & 1 == 1;
        (0..self.parties).filter(inside).collect()
    }

    fn lies(&self, party: Party) -> bool {
        self.liar.is_some_and(|(liar, _)| liar == party)
    }

    fn is_silent(&self, party: Party) -> bool {
        self.liar == Some((party, true))
    }
}

struct Node {
    flood: Flood,
    signer: Signer,
    kept: Option<Kept>,
    opening: Option<SetOpening>,
    enters: u64,
    unreachable: BTreeMap<Party, Time>,
    /// Frames that it may still hand out; at 0 it has crashed.
    left: usize,
    end: Option<OpeningStep>,
    said: Vec<Notice>,
}

enum Happening {
    Wake(Party),
    Frame(Party, Arc<[u8]>),
    /// The first finds the second gone.
    Found(Party, Party),
}

struct World {
    fate: Fate,
    deals: Deals,
    nodes: Vec<Node>,
    /// Times, with an order that is drawn where they are equal, and places in `happenings`.
    queue: BinaryHeap<Reverse<(u64, u32, usize)>>,
    happenings: Vec<Happening>,
    rng: ChaCha8Rng,
    now: u64,
}

impl World {
    fn new(fate: Fate) -> Self {
        let deals = Deals::draw(fate.parties, 1, 1, fate.seed);
        let mut rng = ChaCha8Rng::seed_from_u64(fate.seed ^ 0xfa7e);
        let crash = |me: Party| fate.crashes.iter().find(|(party, _)| *party == me);
        let node = |me: Party| Node {
            flood: empty_flood(me, fate.parties),
            signer: Signer::new(me, DIGEST, keypair(me), 0),
            kept: Some(deals.kept(me)),
            opening: None,
            enters: rng.random_range(0..SETTLE_MS / 8),
            unreachable: BTreeMap::new(),
            left: crash(me).map_or(usize::MAX, |(_, frames)| *frames),
            end: None,
            said: vec![],
        };
        let nodes: Vec<Node> = (0..fate.parties).map(node).collect();
        let mut world = World {
            nodes,
            deals,
            fate,
            queue: BinaryHeap::new(),
            happenings: vec![],
            rng,
            now: 0,
        };
        for me in 0..world.nodes.len() {
            world.at(world.nodes[me].enters, Happening::Wake(me));
        }
        world
    }

    fn at(&mut self, ms: u64, happening: Happening) {
        self.queue
            .push(Reverse((ms, self.rng.random(), self.happenings.len())));
        self.happenings.push(happening);
    }

    fn soon(&mut self, happening: Happening) {
        let ms = self.now + self.rng.random_range(1..DELAY_MS);
        self.at(ms, happening);
    }

    fn is_crashed(&self, party: Party) -> bool {
        self.nodes[party].left == 0
    }

    /// Hands a frame to the network for everybody; a crash may come in the middle.
    fn send(&mut self, from: Party, frame: &Arc<[u8]>) {
        for to in (0..self.nodes.len()).filter(|&to| to != from) {
            if self.is_crashed(from) {
                return;
            }
            self.nodes[from].left -= 1;
            if self.is_crashed(from) {
                self.tell_of_crash(from);
            }
            let lost = self.fate.loss > 0 && self.rng.random_range(0..self.fate.loss) == 0;
            let copies = if lost { 0 } else { self.rng.random_range(1..3) };
            for _ in 0..copies {
                self.soon(Happening::Frame(to, frame.clone()));
            }
        }
    }

    fn tell_of_crash(&mut self, of: Party) {
        for by in 0..self.nodes.len() {
            // Some never find out.
            if self.rng.random_range(0..4) > 0 {
                self.soon(Happening::Found(by, of));
            }
        }
    }

    fn say(&mut self, me: Party, notice: Notice) {
        let node = &mut self.nodes[me];
        node.said.push(notice.clone());
        let signed = node.signer.sign(Recipient::All, notice).expect("signs");
        let frame = node.flood.publish(signed);
        self.send(me, &frame);
    }

    fn hear(&mut self, me: Party, frame: &Arc<[u8]>) {
        let Ok(PublicFrame::Notice(signed)) = wire::read_public(frame) else {
            panic!("only notices are sent")
        };
        match self.nodes[me].flood.receive(frame, signed, true) {
            Ok(Receipt::New(_)) => self.send(me, frame),
            Ok(_) | Err(FloodError::Two { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn enter(&mut self, me: Party) {
        if self.now < self.nodes[me].enters {
            return;
        }
        let Some(kept) = self.nodes[me].kept.take() else {
            return;
        };
        let (set, clock) = (
            self.deals.set(&self.fate.members()),
            Clock::new(Time::ZERO, SETTLE_MS),
        );
        self.nodes[me].opening = Some(kept.open(set, clock));
        if self.fate.traitor == Some(me) {
            for of in 0..self.nodes.len() {
                if self.deals.holders(of).contains(&me) {
                    self.say(me, self.deals.revealed_share(of, me));
                }
            }
        }
    }

    /// Hands over a notice of `me`; a liar says a wrong one before it, or nothing.
    fn say_as(&mut self, me: Party, notice: Notice) {
        if self.fate.is_silent(me) {
            return;
        }
        if self.fate.lies(me) && notice.disclosed().is_some() {
            let (round, byte) = (0, wrong(self.rng.random_range(1..200)));
            let lie = match notice {
                Notice::Share { of, .. } => Notice::Share {
                    round,
                    of,
                    share: byte,
                },
                _ => Notice::Key { round, secret: byte },
            };
            self.say(me, lie);
        }
        self.say(me, notice);
    }

    fn step(&mut self, me: Party) {
        self.enter(me);
        while !self.is_crashed(me) {
            let node = &mut self.nodes[me];
            let Some(opening) = &mut node.opening else { return };
            let called = node.flood.calls(Stage::Sealed);
            let called: BTreeSet<Party> = called.into_values().flatten().collect();
            let mut sights = OpeningSights {
                flood: &mut node.flood,
                unreachable: &node.unreachable,
                called: &called,
            };
            match opening.step(at(self.now), &mut sights) {
                None => break,
                Some(OpeningStep::Say(notice)) => self.say_as(me, notice),
                Some(OpeningStep::Wrong { author, .. }) => {
                    assert!(self.fate.lies(author), "party {author} did not lie");
                }
                Some(end) => assert!(node.end.replace(end).is_none(), "it ends once"),
            }
        }
        let node = &self.nodes[me];
        let opening = node.opening.as_ref();
        let wake = opening.map_or(Time::FAR, |opening| opening.wake(at(self.now), &node.unreachable));
        if wake != Time::FAR {
            self.at(wake.as_millis(), Happening::Wake(me));
        }
    }

    fn play(mut self) -> Self {
        while let Some(Reverse((ms, _, index))) = self.queue.pop() {
            assert!(index < 100_000, "it does not end");
            self.now = ms;
            let happening = std::mem::replace(&mut self.happenings[index], Happening::Wake(0));
            let (Happening::Wake(me) | Happening::Frame(me, _) | Happening::Found(me, _)) = happening;
            if self.is_crashed(me) {
                continue;
            }
            match happening {
                Happening::Wake(_) => {}
                Happening::Found(_, of) => drop(self.nodes[me].unreachable.insert(of, at(ms))),
                Happening::Frame(_, frame) => self.hear(me, &frame),
            }
            self.step(me);
        }
        self
    }

    /// Whether a party's secret follows from what was said, with what a coalition of as many as may
    /// collude or depart holds.
    fn is_derivable(&self, of: Party) -> bool {
        let said = &self.nodes[of].said;
        if said.iter().any(|notice| matches!(notice, Notice::Key { .. })) {
            return true;
        }
        let revealed = |(author, node): (Party, &Node)| {
            let is_of =
                |notice: &&Notice| matches!(notice, Notice::Share { of: whose, .. } if *whose as Party == of);
            let share = node.said.iter().rfind(is_of)?.disclosed()?;
            Some((author, share.0))
        };
        let mut shares: BTreeMap<Party, [u8; 32]> =
            self.nodes.iter().enumerate().filter_map(revealed).collect();
        let silent = self
            .deals
            .holders(of)
            .into_iter()
            .filter(|holder| !shares.contains_key(holder));
        let coalition: Vec<Party> = silent.take(self.deals.threshold.needed() - 1).collect();
        shares.extend(
            coalition
                .into_iter()
                .map(|holder| (holder, self.deals.share(of, holder))),
        );
        self.deals.checked(of).recover(&shares).is_ok()
    }

    /// Parties outside of the set whose secret is derivable.
    fn derivable(&self) -> Vec<Party> {
        let members = self.fate.members();
        let outside = |party: &Party| !members.contains(party);
        (0..self.nodes.len())
            .filter(outside)
            .filter(|&of| self.is_derivable(of))
            .collect()
    }

    /// Whether of each member somebody who lives says the secret, or enough who live hold shares.
    fn can_open(&self) -> bool {
        let speaks = |party: &Party| !self.is_crashed(*party) && !self.fate.is_silent(*party);
        let known = |of: &Party| {
            let holders = self.deals.holders(*of).into_iter().filter(speaks).count();
            speaks(of) || holders >= self.deals.threshold.needed()
        };
        self.fate.members().iter().all(known)
    }

    fn is_open(&self, party: Party) -> bool {
        matches!(self.nodes[party].end, Some(OpeningStep::Open))
    }

    fn check(&self) {
        assert_eq!(self.derivable(), [0; 0], "outside of the set");
        let members = self.fate.members();
        let dealt: Vec<_> = members
            .iter()
            .map(|&party| (party, self.deals.secret(party)))
            .collect();
        for (me, node) in self.nodes.iter().enumerate() {
            let slots: BTreeSet<_> = node.said.iter().map(|notice| Slot::of(me, notice)).collect();
            assert!(
                self.fate.lies(me) || slots.len() == node.said.len(),
                "party {me} repeats itself"
            );
            if self.is_open(me) {
                let opening = node.opening.as_ref().expect("it entered");
                let secrets = opening.secrets().expect("it is open");
                let opened: Vec<_> = secrets
                    .iter()
                    .map(|(&party, it)| (party, *it.to_bytes()))
                    .collect();
                assert_eq!(opened, dealt);
            }
        }
        // One that keeps its secret to itself can open what nobody else can, as it always could.
        let survives = |party: &Party| !self.is_crashed(*party) && !self.fate.is_silent(*party);
        let survivors: Vec<Party> = (0..self.nodes.len()).filter(survives).collect();
        let opened = survivors.iter().filter(|&&party| self.is_open(party)).count();
        for &party in &survivors {
            assert!(self.nodes[party].end.is_some(), "party {party} does not end");
        }
        if self.fate.loss == 0 {
            assert!(
                opened == 0 || opened == survivors.len(),
                "some open what others do not"
            );
            assert!(
                !self.can_open() || opened == survivors.len(),
                "enough live, and nothing is open"
            );
        }
    }
}

prop_compose! {
    fn fates()(parties in 5usize..=7)(
        parties in Just(parties),
        seed in any::<u64>(),
        set in prop_oneof![Just(u8::MAX), any::<u8>()],
        crashes in prop::collection::vec((0..parties, 1usize..40), 0..=3),
        liar in prop::option::of((0..parties, any::<bool>())),
        loss in prop_oneof![3 => Just(0u32), 1 => 2u32..8],
    ) -> Fate {
        Fate { seed, parties, set, crashes, liar, loss, traitor: None }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn survivors_open_the_same_and_nobody_outside_is_opened(fate in fates()) {
        World::new(fate).play().check();
    }
}

fn calm(set: u8) -> Fate {
    Fate {
        seed: 3,
        parties: 7,
        set,
        crashes: vec![],
        liar: None,
        loss: 0,
        traitor: None,
    }
}

#[test]
fn without_faults_everybody_opens_by_keys_alone() {
    let world = World::new(calm(0b111_1111)).play();
    world.check();
    assert!(world.can_open());
    let said: Vec<usize> = world.nodes.iter().map(|node| node.said.len()).collect();
    assert_eq!(said, [1; 7]);
}

#[test]
fn a_silent_member_is_opened_for_by_all_alike() {
    let liar = Some((2, true));
    let world = World::new(Fate {
        liar,
        ..calm(0b111_1111)
    })
    .play();
    world.check();
    for (me, node) in world.nodes.iter().enumerate() {
        let opened_for = node.opening.as_ref().expect("it entered").opened_for();
        assert_eq!(opened_for, if me == 2 { vec![] } else { vec![2] });
    }
}

/// A liar crashes once its wrong secret is with everybody and its good one with few: the wrong one,
/// which all pass on, keeps nobody from taking the good one.
#[test]
fn a_wrong_secret_that_is_passed_round_keeps_nobody_from_the_good_one() {
    let fate = Fate {
        seed: 6_754_688_076_241_502_922,
        crashes: vec![(3, 37)],
        liar: Some((3, false)),
        ..calm(u8::MAX)
    };
    World::new(fate).play().check();
}

#[test]
fn the_checker_finds_one_who_tells_shares_of_everybody() {
    let fate = calm(0b000_1111);
    let traitor = Some(Deals::draw(7, 1, 1, fate.seed).holders(5)[0]);
    assert!(
        World::new(Fate { traitor, ..fate })
            .play()
            .derivable()
            .contains(&5)
    );
}
