//! Hosts and guests together, honest ones and others.

use std::collections::{BTreeMap, BTreeSet};

use libp2p_identity::PeerId;
use proptest::prelude::*;

use super::guest::{Guest, GuestNews, MOST_CLOSES, Numbered};
use super::host::news::{HostNews, HostOutput};
use super::host::{Host, LobbyPurpose, Moment};
use crate::messages::lobby::{Refusal, ToGuest, ToHost};
use crate::messages::signature::Signature;
use crate::plan::peers::{Peer, Peers, simulated_keypair};
use crate::time::Time;

mod again;
mod barred;
mod changes;
mod liars;

fn peer(party: usize, name: &str) -> Peer {
    let mut peer = Peers::simulated(12).unwrap().as_slice()[party].clone();
    peer.name = name.to_owned();
    peer
}

fn at(seconds: u64, drawn: u8) -> Moment {
    Moment {
        now: Time::from_millis(seconds * 1000),
        drawn: [drawn; 32],
    }
}

fn purpose(seats: usize, old: Option<Peers>) -> LobbyPurpose {
    LobbyPurpose {
        old,
        relays: vec![],
        seats,
        barred: BTreeSet::new(),
    }
}

/// A host and honest guests, whose messages arrive at once.
struct World {
    host: Host,
    /// The list of now, which all have.
    old: Option<Peers>,
    guests: BTreeMap<PeerId, Guest>,
    heard: BTreeMap<PeerId, Vec<GuestNews>>,
    news: Vec<HostNews>,
    draws: u8,
    seconds: u64,
    /// These are not reached any more, and say nothing.
    dead: BTreeSet<PeerId>,
}

impl World {
    /// Party 0 is the host, alice.
    fn new(seats: usize, old: Option<Peers>) -> Self {
        World {
            host: Host::new(
                simulated_keypair(0),
                peer(0, "alice"),
                purpose(seats, old.clone()),
            )
            .unwrap(),
            old,
            guests: BTreeMap::new(),
            heard: BTreeMap::new(),
            news: vec![],
            draws: 0,
            seconds: 0,
            dead: BTreeSet::new(),
        }
    }

    fn moment(&mut self) -> Moment {
        self.draws = self.draws.wrapping_add(1);
        at(self.seconds, self.draws)
    }

    fn sit(&mut self, party: usize, name: &str) -> Result<(), Refusal> {
        self.sit_as(party, peer(party, name))
    }

    fn sit_as(&mut self, party: usize, peer: Peer) -> Result<(), Refusal> {
        let moment = self.moment();
        let (id, key) = (peer.id, simulated_keypair(party));
        self.host.sit(moment, id, &peer.to_toml())?;
        let host = simulated_keypair(0).public().to_peer_id();
        let guest = Guest::new(key, peer, host, self.old.clone());
        self.guests.insert(id, guest);
        self.run();
        Ok(())
    }

    fn run(&mut self) {
        loop {
            let outputs = self.host.drain();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                match output {
                    HostOutput::News(news) => self.news.push(news),
                    HostOutput::Say(ids, message) => {
                        ids.into_iter().for_each(|id| self.deliver(id, message.clone()));
                    }
                    HostOutput::Dismiss(id, message) => self.deliver(id, message),
                }
            }
        }
    }

    fn deliver(&mut self, id: PeerId, message: ToGuest) {
        if self.dead.contains(&id) {
            return;
        }
        self.draws = self.draws.wrapping_add(1);
        let guest = self.guests.get_mut(&id).expect("it sat down");
        let (said, news) = guest.hear(message, [self.draws; 32]).expect("the host is honest");
        self.heard.entry(id).or_default().extend(news);
        if let Some(said) = said {
            let moment = self.moment();
            self.host.hear(moment, id, said);
        }
    }

    fn close(&mut self) {
        let moment = self.moment();
        self.host.close(moment);
        self.run();
    }

    fn tick(&mut self, seconds: u64) {
        self.seconds += seconds;
        let moment = self.moment();
        self.host.tick(moment);
        self.run();
    }

    /// Everybody with a number, the host first, and those numbers.
    fn numbers(&self) -> Vec<Numbered> {
        let guests = self.heard.values().filter_map(|news| match news.last() {
            Some(GuestNews::Number(numbered)) => Some(numbered.clone()),
            _ => None,
        });
        self.host.compared().cloned().into_iter().chain(guests).collect()
    }

    fn all_say_yes(&mut self) {
        let close = self.host.compared().expect("a number").close;
        for (id, guest) in &mut self.guests {
            if let (false, Some(yes)) = (self.dead.contains(id), guest.yes(close)) {
                self.host.hear(at(self.seconds, 0), *id, yes);
            }
        }
        assert!(self.host.yes(close));
        self.run();
    }

    fn in_force(&self) -> usize {
        let guests = self.heard.values().flatten();
        guests
            .filter(|news| matches!(news, GuestNews::InForce(..)))
            .count()
    }
}

/// Whether somebody lost its seat for a message that no honest guest sends.
fn is_for_a_fault(news: &HostNews) -> bool {
    matches!(
        news,
        HostNews::Left {
            why: Some(Refusal::Fault),
            ..
        }
    )
}

#[test]
fn a_full_lobby_closes_by_itself_and_its_list_is_in_force_once_all_have_said_yes() {
    let mut world = World::new(4, None);
    for (party, name) in [(1, "bob"), (2, "carol"), (3, "dave")] {
        assert_eq!(world.numbers(), [], "not all sit");
        world.sit(party, name).unwrap();
    }
    let numbers = world.numbers();
    assert_eq!(numbers.len(), 4);
    assert!(numbers.iter().all(|numbered| *numbered == numbers[0]));
    let names: Vec<_> = numbers[0]
        .list
        .as_slice()
        .iter()
        .map(|peer| &*peer.name)
        .collect();
    assert_eq!(names, ["alice", "bob", "carol", "dave"]);
    assert!(numbers[0].number.len() == 10 && numbers[0].number.bytes().all(|digit| digit.is_ascii_digit()));
    world.all_say_yes();
    assert_eq!(world.in_force(), 3);
    let Some(HostNews::InForce(numbered, confirmed)) = world.news.last() else {
        panic!("{:?}", world.news.last());
    };
    let missing = confirmed.missing(&numbered.list, None, &numbered.list.as_slice()[0].id);
    assert_eq!(missing.len(), 0);
}

#[test]
fn without_one_yes_nothing_is_in_force() {
    let mut world = World::new(4, None);
    let _ = [(1, "bob"), (2, "carol"), (3, "dave")].map(|(party, name)| world.sit(party, name).unwrap());
    let dave = peer(3, "dave").id;
    world.dead.insert(dave);
    world.all_say_yes();
    assert_eq!(world.in_force(), 0);
    // It left: that list can come into force no more, and a new close makes one without it.
    world.host.left(at(0, 77), dave);
    world.run();
    assert_eq!(world.news.last(), Some(&HostNews::Void));
    world.close();
    world.all_say_yes();
    assert_eq!(world.in_force(), 2);
}

#[test]
fn a_guest_that_never_answers_a_step_is_left_out_by_a_new_close() {
    for answers in [0, 1] {
        let mut world = World::new(20, None);
        let _ = [(1, "bob"), (2, "carol"), (3, "dave")].map(|(party, name)| world.sit(party, name).unwrap());
        let dave = peer(3, "dave");
        let mut silent = world.guests.remove(&dave.id).unwrap();
        world.dead.insert(dave.id);
        let moment = world.moment();
        world.host.close(moment);
        let said = world.host.drain().into_iter().filter_map(|output| match output {
            HostOutput::Say(ids, message) => Some(ids.into_iter().map(move |id| (id, message.clone()))),
            _ => None,
        });
        for (id, message) in said.flatten().collect::<Vec<_>>() {
            let guest = if id == dave.id {
                &mut silent
            } else {
                world.guests.get_mut(&id).unwrap()
            };
            if id != dave.id || answers > 0 {
                let said = guest.hear(message, [7; 32]).unwrap().0.unwrap();
                world.host.hear(moment, id, said);
            }
        }
        world.run();
        world.tick(29);
        assert_eq!(world.numbers().len(), 0);
        world.tick(1);
        assert_eq!(world.numbers().len(), 3, "{:?}", world.news);
        let left = HostNews::Left {
            name: "dave".into(),
            why: Some(Refusal::Silent),
        };
        assert!(world.news.contains(&left), "{:?}", world.news);
        world.all_say_yes();
        assert_eq!(world.in_force(), 2);
    }
}

#[test]
fn twenty_closes_end_the_lobby() {
    let mut world = World::new(20, None);
    let _ = [(1, "bob"), (2, "carol")].map(|(party, name)| world.sit(party, name).unwrap());
    for _ in 0..MOST_CLOSES {
        world.close();
    }
    assert_eq!(world.numbers().len(), 3);
    world.close();
    assert_eq!(world.news.last(), Some(&HostNews::Ended));
    assert!(world.host.is_over());
    let bob = &world.heard[&peer(1, "bob").id];
    assert_eq!(bob.last(), Some(&GuestNews::Ended));
}

#[test]
fn names_that_look_alike_and_other_bad_lines_get_no_seat() {
    let mut world = World::new(4, None);
    world.sit(1, "lab-10").unwrap();
    for name in ["lab-10", "labl0", "lab-1-o", "iab10", "a1ice", "alice"] {
        let refusal = world.sit(2, name).unwrap_err();
        assert!(matches!(refusal, Refusal::Name(_)), "{name}: {refusal}");
    }
    let lines = |peer: &Peer| peer.to_toml();
    let bob = peer(2, "bob");
    let mut same_address = bob.clone();
    same_address.contact = peer(1, "lab-10").contact;
    let mut same_recovery = bob.clone();
    same_recovery.recovery = Some(peer(0, "alice").id);
    for (id, lines, words) in [
        (bob.id, lines(&peer(3, "bob")), "another key"),
        (bob.id, lines(&same_address), "lab-10"),
        (bob.id, lines(&same_recovery), "alice"),
        (bob.id, "[[peer]]\nname = \"bob\"".to_owned(), "missing field"),
        (bob.id, lines(&bob) + &lines(&peer(3, "dave")), "not one [[peer]]"),
        (bob.id, String::new(), "not one [[peer]]"),
    ] {
        let refusal = world.host.sit(at(0, 1), id, &lines).unwrap_err();
        assert!(refusal.to_string().contains(words), "{words}: {refusal}");
    }
    // Its own later lines take the place of earlier ones; a seat is one for a key.
    world.sit(1, "lab-11").unwrap();
    world.sit(2, "bob").unwrap();
    world.sit(3, "dave").unwrap();
    assert_eq!(world.sit(4, "erin"), Err(Refusal::Full));
    assert_eq!(world.numbers().len(), 4);
}

#[test]
fn who_is_taken_out_does_not_come_back() {
    let mut world = World::new(20, None);
    let _ = [(1, "bob"), (2, "carol"), (3, "dave")].map(|(party, name)| world.sit(party, name).unwrap());
    world.close();
    assert_eq!(world.numbers().len(), 4);
    let moment = world.moment();
    assert!(world.host.remove(moment, "dave") && !world.host.remove(moment, "nobody"));
    assert!(!world.host.remove(moment, "alice"), "the host itself");
    world.run();
    assert_eq!(world.sit(3, "other"), Err(Refusal::Barred));
    world.close();
    assert_eq!(world.host.compared().unwrap().list.as_slice().len(), 3);
}

#[test]
fn old_members_need_not_come_and_all_that_is_new_is_told() {
    let names = ["alice", "bob", "carol", "dave", "erin"];
    let old: Vec<Peer> = names
        .iter()
        .enumerate()
        .map(|(party, name)| peer(party, name))
        .collect();
    let old = Peers::new(old).unwrap();
    let mut world = World::new(20, Some(old.clone()));
    // Its owner has lost the key; and a new one.
    world.sit(7, "bob").unwrap();
    world.sit(8, "frank").unwrap();
    assert_eq!(world.sit(9, "da-ve"), Err(Refusal::Name("dave".into())));
    let moment = world.moment();
    assert!(world.host.remove(moment, "erin"));
    world.close();
    let numbers = world.numbers();
    assert!(numbers.len() == 3 && numbers.iter().all(|numbered| *numbered == numbers[0]));
    let list = &numbers[0].list;
    let changes: Vec<String> = list.changes_since(&old).iter().map(ToString::to_string).collect();
    assert_eq!(changes.len(), 3, "{changes:?}");
    assert!(changes[0].contains("another key: bob") && changes[1].contains("added: frank"));
    assert_eq!(changes[2], "removed: erin");
    assert_eq!(list.follows(), Some(old.digest()));
    world.all_say_yes();
    assert_eq!(world.in_force(), 2);
    let Some(HostNews::InForce(_, confirmed)) = world.news.last() else {
        panic!("{:?}", world.news.last());
    };
    // Dave has not come: only its own yes is missing for it.
    let dave = peer(3, "dave").id;
    let missing = confirmed.missing(list, Some(&old), &dave);
    assert!(missing.len() == 1 && missing[0].id == dave);
}

#[test]
fn a_host_can_change_its_group_alone() {
    let names = ["alice", "bob", "carol", "dave"];
    let old: Vec<Peer> = names
        .iter()
        .enumerate()
        .map(|(party, name)| peer(party, name))
        .collect();
    let mut world = World::new(20, Some(Peers::new(old).unwrap()));
    let moment = world.moment();
    world.host.remove(moment, "bob");
    world.close();
    world.all_say_yes();
    assert!(
        matches!(world.news.last(), Some(HostNews::InForce(..))),
        "{:?}",
        world.news
    );
    // Two are too few.
    let mut world = World::new(20, None);
    world.sit(1, "bob").unwrap();
    world.close();
    assert_eq!(world.news.last(), Some(&HostNews::TooFew { found: 2 }));
}

#[test]
fn a_guest_that_says_what_does_not_belong_there_loses_its_seat() {
    let bad: [fn(&Numbered, u32) -> ToHost; 6] = [
        |_, _| ToHost::Sit {
            token: [0; 16],
            lines: String::new(),
        },
        |_, close| ToHost::Commit {
            close: close + 1,
            commitment: [0; 32],
        },
        |_, close| ToHost::Reveal {
            close: close + 1,
            drawn: [0; 32],
        },
        |_, close| ToHost::Yes {
            close,
            signature: Signature([0; 64]),
        },
        // Another guest's yes.
        |numbered, close| ToHost::Yes {
            close,
            signature: super::confirmed::sign_list(&simulated_keypair(1), &numbered.digest),
        },
        // Its own yes to another list.
        |_, close| ToHost::Yes {
            close,
            signature: super::confirmed::sign_list(&simulated_keypair(3), &[0; 32]),
        },
    ];
    for (case, message) in bad.into_iter().enumerate() {
        let mut world = World::new(4, None);
        let _ = [(1, "bob"), (2, "carol"), (3, "dave")].map(|(party, name)| world.sit(party, name).unwrap());
        let numbered = world.host.compared().unwrap().clone();
        let moment = world.moment();
        world
            .host
            .hear(moment, peer(3, "dave").id, message(&numbered, numbered.close));
        world.run();
        assert!(
            world.news.iter().any(is_for_a_fault),
            "case {case}: {:?}",
            world.news
        );
        assert_eq!(world.in_force(), 0);
    }
}

#[test]
fn answers_twice_out_of_turn_or_not_to_the_commitment_cost_the_seat_and_replays_of_an_old_close_nothing() {
    let dave = peer(3, "dave").id;
    for case in 0..4 {
        let mut world = World::new(20, None);
        let _ = [(1, "bob"), (2, "carol"), (3, "dave")].map(|(party, name)| world.sit(party, name).unwrap());
        world.dead.insert(dave);
        world.close();
        let host = &mut world.host;
        let say = |host: &mut Host, message| host.hear(at(0, 99), dave, message);
        let commit = |commitment| ToHost::Commit { close: 1, commitment };
        match case {
            // It commits twice.
            0 => [1, 2].into_iter().for_each(|part| say(host, commit([part; 32]))),
            // It reveals before all have committed.
            1 => say(
                host,
                ToHost::Reveal {
                    close: 1,
                    drawn: [1; 32],
                },
            ),
            // It reveals what it has not committed to.
            2 => {
                say(host, commit([1; 32]));
                say(
                    host,
                    ToHost::Reveal {
                        close: 1,
                        drawn: [1; 32],
                    },
                );
            }
            _ => {}
        }
        world.run();
        assert_eq!(
            world.news.iter().any(is_for_a_fault),
            case < 3,
            "case {case}: {:?}",
            world.news
        );
        if case == 3 {
            world.close();
            say(&mut world.host, commit([1; 32]));
            world.run();
            assert!(
                !world.news.iter().any(is_for_a_fault),
                "a commitment of the close before was on its way"
            );
            assert_eq!(world.numbers().len(), 0, "and is none of this one");
        }
    }
}

/// Something that anybody might do.
#[derive(Clone, Debug)]
enum Deed {
    Sit(usize, usize),
    Leave(usize),
    Say(usize, ToHost),
    Close,
    Remove(usize),
    Yes,
    Wait(u64),
}

fn deed() -> impl Strategy<Value = Deed> {
    let close = || 0u32..4;
    let said = prop_oneof![
        (close(), any::<[u8; 32]>()).prop_map(|(close, commitment)| ToHost::Commit { close, commitment }),
        (close(), any::<[u8; 32]>()).prop_map(|(close, drawn)| ToHost::Reveal { close, drawn }),
        close().prop_map(|close| ToHost::Yes {
            close,
            signature: Signature([1; 64])
        }),
        Just(ToHost::No),
        Just(ToHost::Here),
    ];
    prop_oneof![
        4 => (0usize..6, 0usize..6).prop_map(|(party, name)| Deed::Sit(party, name)),
        1 => (1usize..6).prop_map(Deed::Leave),
        1 => (1usize..6, said).prop_map(|(party, said)| Deed::Say(party, said)),
        2 => Just(Deed::Close),
        1 => (0usize..6).prop_map(Deed::Remove),
        1 => Just(Deed::Yes),
        1 => (1u64..40).prop_map(Deed::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// No step panics, honest guests never take the host for a cheat, and whoever has a list in
    /// force has the same one.
    #[test]
    fn whatever_guests_do_the_lists_in_force_are_one(deeds in prop::collection::vec(deed(), 0..40)) {
        const NAMES: [&str; 6] = ["alice", "bob", "carol", "dave", "erin", "frank"];
        let mut world = World::new(5, None);
        for deed in deeds {
            let moment = world.moment();
            match deed {
                Deed::Sit(party, name) => drop(world.sit(party.max(1), NAMES[name])),
                Deed::Leave(party) => world.host.left(moment, peer(party, "x").id),
                Deed::Say(party, said) => world.host.hear(moment, peer(party, "x").id, said),
                Deed::Close => world.host.close(moment),
                Deed::Remove(name) => drop(world.host.remove(moment, NAMES[name])),
                Deed::Yes if world.host.compared().is_some() => world.all_say_yes(),
                Deed::Yes => {}
                Deed::Wait(seconds) => world.tick(seconds),
            }
            world.run();
        }
        let guests = world.heard.values().flatten().filter_map(|news| match news {
            GuestNews::InForce(numbered, _) => Some(&numbered.text),
            _ => None,
        });
        let lists: BTreeSet<&String> = guests.collect();
        prop_assert!(lists.len() <= 1);
        let host = world.news.iter().any(|news| matches!(news, HostNews::InForce(..)));
        prop_assert_eq!(host, lists.len() == 1 || host && world.heard.is_empty());
    }
}
