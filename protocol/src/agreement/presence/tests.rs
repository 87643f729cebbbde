use std::sync::Arc;

use libp2p_identity::Keypair;

use super::*;
use crate::messages::notice::{Notice, Recipient};
use crate::messages::signing::{Members, Signer};
use crate::messages::testing::{ready, started};
use crate::messages::wire;
use crate::topology::graph::Graph;

const PARTIES: usize = 6;

fn key(party: Party) -> Keypair {
    Keypair::ed25519_from_bytes([party as u8 + 1; 32]).expect("32 bytes")
}

/// Party 0 of six on a ring: 1 and 5 are its neighbours, of 3 it knows by 2 and 4.
struct Ring {
    flood: Flood,
    presence: Presence,
    said: u64,
}

impl Ring {
    fn new() -> Self {
        let ring = Arc::new(Graph::ring(PARTIES));
        let keys = (0..PARTIES).map(|party| key(party).public()).collect();
        let mut presence = Presence::new(Electorate {
            me: 0,
            parties: PARTIES,
            colluding: 1,
            quorum: PARTIES,
            min_parties: 0,
            private: ring.clone(),
            public: ring,
        });
        presence.connected(Network::Public, 1, Time::ZERO);
        presence.connected(Network::Public, 5, Time::ZERO);
        let mut ring = Ring {
            flood: Flood::new(0, Members::new([1; 32], keys)),
            presence,
            said: 0,
        };
        (1..PARTIES).for_each(|party| ring.say(party, ready(party as u8)));
        for near in [1, 5] {
            assert_eq!(
                ring.standing(near),
                Standing::Apart,
                "others may have passed it on"
            );
            assert!(ring.presence.heard(near, Time::ZERO, Some(started(near as u8))));
        }
        ring
    }

    fn say(&mut self, author: Party, notice: Notice) {
        self.said += 1;
        let signed = Signer::new(author, [1; 32], key(author), self.said)
            .sign(Recipient::All, notice)
            .expect("signs");
        let frame = wire::notice_frame(&signed);
        self.flood.receive(&frame, signed, false).expect("good");
    }

    fn calls(&mut self, author: Party, party: Party, start: u8) {
        self.calls_found(author, party, start, Found::Refuses);
    }

    fn calls_found(&mut self, author: Party, party: Party, start: u8, found: Found) {
        let ready = Some(started(start));
        let parties = vec![Unreached { party, ready, found }];
        self.say(author, Notice::Unreached { parties });
    }

    fn standing(&self, party: Party) -> Standing {
        self.presence.standings(&self.flood, Time::ZERO)[party]
    }
}

#[test]
fn of_a_stranger_all_its_neighbours_have_to_say_it_about_this_very_ready() {
    let mut ring = Ring::new();
    ring.calls(2, 3, 3);
    assert_eq!(ring.standing(3), Standing::Ready, "one may lie");
    ring.calls(1, 3, 3);
    assert_eq!(ring.standing(3), Standing::Ready, "1 is no neighbour of it");
    ring.calls(4, 3, 9);
    assert_eq!(ring.standing(3), Standing::Ready, "about another start");
    ring.calls(4, 3, 3);
    assert_eq!(ring.standing(3), Standing::Unreachable);
    ring.say(3, ready(9));
    assert_eq!(ring.standing(3), Standing::Ready, "it has started again");
}

#[test]
fn nobody_is_away_at_the_word_of_as_many_as_may_collude() {
    let mut ring = Ring::new();
    // 4 is away itself by what both of its neighbours say: that leaves one to speak of 3.
    ring.calls(3, 4, 4);
    ring.calls(5, 4, 4);
    ring.calls(2, 3, 3);
    assert_eq!(ring.standing(3), Standing::Ready);
    // What others say of our own neighbours is nothing to what we see.
    ring.calls(2, 1, 1);
    assert_eq!(ring.standing(1), Standing::Ready);
}

#[test]
fn a_neighbour_that_was_lost_counts_once_it_repeats_its_ready_or_starts_again() {
    let mut ring = Ring::new();
    ring.presence.disconnected(1);
    assert_eq!(ring.standing(1), Standing::Apart);
    ring.presence.refused(1, ring.flood.ready(1));
    assert_eq!(ring.standing(1), Standing::Unreachable);
    ring.presence.connected(Network::Public, 1, Time::ZERO);
    assert_eq!(
        ring.standing(1),
        Standing::Unreachable,
        "its READY is of a process that is gone"
    );
    assert!(!ring.presence.heard(1, Time::ZERO, None));
    assert_eq!(ring.standing(1), Standing::Unreachable);
    assert!(ring.presence.heard(1, Time::ZERO, Some(started(1))));
    assert_eq!(ring.standing(1), Standing::Ready, "it was the network");
    ring.presence.refused(1, ring.flood.ready(1));
    ring.presence.connected(Network::Public, 1, Time::ZERO);
    ring.say(1, ready(7));
    assert_eq!(ring.standing(1), Standing::Apart, "told by somebody else");
    assert!(ring.presence.heard(1, Time::ZERO, Some(started(7))));
    assert_eq!(ring.standing(1), Standing::Ready);
}

#[test]
fn strangers_learn_of_a_silence_until_its_party_speaks() {
    let mut ring = Ring::new();
    let late = Time::from_millis(silent_ms(2));
    assert_eq!(ring.presence.wake(Time::ZERO), late);
    assert!(
        ring.presence
            .unreached(&ring.flood, Time::from_millis(silent_ms(2) - 1), false)
            .is_empty()
    );
    let reported = ring.presence.unreached(&ring.flood, late, false);
    let silent = |party: Party| Unreached {
        party,
        ready: Some(started(party as u8)),
        found: Found::Silent,
    };
    assert_eq!(reported, [silent(1), silent(5)]);
    assert!(ring.presence.heard(1, late, None));
    assert_eq!(ring.presence.unreached(&ring.flood, late, false), [silent(5)]);
    assert_eq!(ring.presence.standings(&ring.flood, late)[5], Standing::Silent);
}

#[test]
fn a_party_that_is_silent_for_two_limits_is_unanswered_and_strangers_learn_that() {
    let mut ring = Ring::new();
    let limit = silent_ms(2);
    assert_eq!(
        ring.presence.wake(Time::from_millis(limit)),
        Time::from_millis(2 * limit)
    );
    let standing = |ring: &Ring, ms: u64| ring.presence.standings(&ring.flood, Time::from_millis(ms))[5];
    assert_eq!(standing(&ring, 2 * limit - 1), Standing::Silent);
    assert_eq!(standing(&ring, 2 * limit), Standing::Unanswered);
    let reported = ring
        .presence
        .unreached(&ring.flood, Time::from_millis(2 * limit), false);
    assert_eq!(reported[1].found, Found::Nothing);
    assert!(ring.presence.heard(5, Time::from_millis(2 * limit), None));
    assert_eq!(standing(&ring, 2 * limit), Standing::Ready, "it was suspended");
}

#[test]
fn who_never_came_who_was_lost_and_for_whom_nothing_answers_are_three_things() {
    let ring = Arc::new(Graph::ring(PARTIES));
    let keys = (0..PARTIES).map(|party| key(party).public()).collect();
    let mut presence = Presence::new(Electorate {
        me: 0,
        parties: PARTIES,
        colluding: 1,
        quorum: PARTIES,
        min_parties: 0,
        private: ring.clone(),
        public: ring,
    });
    let flood = Flood::new(0, Members::new([1; 32], keys));
    let of = |presence: &Presence, party: Party| presence.standings(&flood, Time::ZERO)[party];
    assert_eq!(of(&presence, 1), Standing::Awaited);
    presence.refused(1, None);
    assert_eq!(of(&presence, 1), Standing::Absent);
    presence.unanswered(1);
    assert_eq!(of(&presence, 1), Standing::Unanswered);
    presence.connected(Network::Private, 1, Time::ZERO);
    assert_eq!(of(&presence, 1), Standing::Awaited, "it is there");
    presence.refused(1, None);
    assert_eq!(of(&presence, 1), Standing::Unreachable, "it was there");
    for standing in [Standing::Absent, Standing::Unreachable, Standing::Unanswered] {
        assert!(standing.is_away());
    }
}

#[test]
fn strangers_tell_who_refuses_from_whom_nothing_answers_for() {
    let mut ring = Ring::new();
    for found in [Found::Nothing, Found::Silent] {
        ring.calls_found(2, 3, 3, found);
        ring.calls_found(4, 3, 3, Found::Nothing);
        let standing = match found {
            Found::Nothing => Standing::Unanswered,
            _ => Standing::Silent,
        };
        assert_eq!(ring.standing(3), standing);
    }
    ring.calls_found(2, 3, 3, Found::Refuses);
    assert_eq!(ring.standing(3), Standing::Unreachable);
}
