//! A host that says anything, and what an honest guest makes of it.

use std::collections::BTreeMap;

use crate::lobby::check_number::{check_number, commitment};
use crate::lobby::confirmed::sign_list;
use crate::lobby::guest::{Cheat, Guest, GuestNews, MOST_CLOSES, Numbered};
use crate::lobby::tests::peer;
use crate::messages::lobby::{ToGuest, ToHost};
use crate::plan::peers::number::list_digest;
use crate::plan::peers::{Peer, Peers, simulated_keypair};

/// A host that says anything, and one honest guest.
struct Liar {
    guest: Guest,
    own: Peer,
    list: String,
    peers: Peers,
}

impl Liar {
    fn new(party: usize) -> Self {
        let own = peer(party, ["alice", "bob", "carol"][party]);
        let peers = Peers::new(vec![peer(0, "alice"), peer(1, "bob"), peer(2, "carol")]).unwrap();
        Liar {
            guest: Guest::new(simulated_keypair(party), own.clone(), peer(0, "alice").id, None),
            own,
            list: peers.to_toml(),
            peers,
        }
    }

    fn sitting(&self) -> Vec<String> {
        self.peers
            .as_slice()
            .iter()
            .map(|peer| peer.name.clone())
            .collect()
    }

    fn say(&mut self, message: ToGuest) -> Result<(Option<ToHost>, Option<GuestNews>), Cheat> {
        self.guest.hear(message, [self.own.id.to_bytes()[10]; 32])
    }

    fn say_list(&mut self, close: u32, list: &str, sitting: &[&str]) -> Result<Option<ToHost>, Cheat> {
        let message = ToGuest::List {
            close,
            list: list.to_owned(),
            sitting: sitting.iter().map(|name| (*name).to_owned()).collect(),
        };
        self.say(message).map(|(said, _)| said)
    }

    /// Plays a whole close on a list of the host's choice; the others' draws are the host's.
    fn number(&mut self, close: u32, list: &Peers) -> Numbered {
        let digest = list_digest(list.to_toml().as_bytes());
        let names: Vec<&str> = list.as_slice().iter().map(|peer| &*peer.name).collect();
        let Ok(Some(ToHost::Commit { commitment: own, .. })) = self.say_list(close, &list.to_toml(), &names)
        else {
            panic!("no commitment");
        };
        let mine = |peer: &Peer| peer.id == self.own.id;
        let commitment = |peer: &Peer| match mine(peer) {
            true => own,
            false => commitment(close, &digest, &peer.id, &[0; 32]),
        };
        let all = list.as_slice().iter().map(commitment).collect();
        let Ok((Some(ToHost::Reveal { drawn, .. }), _)) = self.say(ToGuest::Commitments { close, all })
        else {
            panic!("nothing drawn");
        };
        let all = list
            .as_slice()
            .iter()
            .map(|peer| if peer.id == self.own.id { drawn } else { [0; 32] });
        match self.say(ToGuest::Drawn {
            close,
            all: all.collect(),
        }) {
            Ok((_, Some(GuestNews::Number(numbered)))) => numbered,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_list_that_is_not_as_its_guests_wrote_it_gets_no_answer() {
    let all = ["alice", "bob", "carol"];
    let changed = |change: &dyn Fn(&mut Vec<Peer>)| {
        let mut peers = Liar::new(1).peers.as_slice().to_vec();
        change(&mut peers);
        Peers::new(peers).unwrap().to_toml()
    };
    let relabelled = changed(&|peers| peers[1].contact.public = None);
    let with_recovery = changed(&|peers| peers[1].recovery = Some(peer(9, "x").id));
    let renamed = changed(&|peers| peers[1].name = "bobby".into());
    let other_key = changed(&|peers| peers[1].id = peer(9, "x").id);
    let without = changed(&|peers| peers[1] = peer(9, "dave"));
    let hostless = changed(&|peers| peers[0] = peer(9, "alice"));
    let alike = changed(&|peers| peers.push(peer(9, "b0b")));
    let plain = Liar::new(1).list;
    let comment = format!("{plain}# and one more\n");
    let names = |text: &str| -> Vec<String> {
        let list = Peers::parse(text).unwrap();
        list.as_slice().iter().map(|peer| peer.name.clone()).collect()
    };
    for (list, wanted) in [
        (&relabelled, "does not have your lines"),
        (&with_recovery, "does not have your lines"),
        (&renamed, "does not have your lines"),
        (&other_key, "does not have your lines"),
        (&without, "does not have your lines"),
        (&hostless, "the host is not in its own list"),
        (&alike, "look alike"),
        (&comment, "not written as this program"),
    ] {
        let names = names(list);
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let cheat = Liar::new(1).say_list(1, list, &names).unwrap_err();
        assert!(cheat.to_string().contains(wanted), "{wanted}: {cheat}");
    }
    for (list, sitting, wanted) in [
        (&*plain, &["alice", "carol"][..], Cheat::OwnLines),
        (&*plain, &["bob", "carol"], Cheat::Host),
        (&*plain, &["alice", "bob", "dave"], Cheat::Sitting),
        (&*plain, &["bob", "alice", "carol"], Cheat::Sitting),
        (&*plain, &["alice", "bob", "bob", "carol"], Cheat::Sitting),
    ] {
        assert_eq!(Liar::new(1).say_list(1, list, sitting), Err(wanted));
    }
    assert!(Liar::new(1).say_list(1, "version = 1", &all).is_err());
    assert!(Liar::new(1).say_list(1, &plain, &all).is_ok());
}

/// A host that adds parties of its own, or changes those of people who are away.
#[test]
fn who_does_not_sit_stands_in_the_guests_own_list_word_for_word() {
    let old = Peers::new(
        [(0, "alice"), (1, "bob"), (2, "carol"), (3, "dave")]
            .map(|(k, name)| peer(k, name))
            .to_vec(),
    )
    .unwrap();
    let mut moved = peer(3, "dave");
    moved.recovery = Some(peer(9, "x").id);
    let rekeyed = peer(5, "dave");
    for (dave, list_of_now, is_taken) in [
        (peer(3, "dave"), Some(old.clone()), true),
        (moved, Some(old.clone()), false),
        (rekeyed, Some(old.clone()), false),
        (peer(3, "dave"), None, false),
    ] {
        let peers = vec![peer(0, "alice"), peer(1, "bob"), peer(2, "carol"), dave];
        let list = Peers::new(peers).unwrap().to_toml();
        let mut liar = Liar::new(1);
        liar.guest = Guest::new(
            simulated_keypair(1),
            liar.own.clone(),
            peer(0, "alice").id,
            list_of_now,
        );
        let said = liar.say_list(1, &list, &["alice", "bob", "carol"]);
        match is_taken {
            true => assert!(matches!(said, Ok(Some(ToHost::Commit { .. })))),
            false => assert_eq!(said, Err(Cheat::Absent("dave".into()))),
        }
    }
}

/// A host that writes a number of its choice onto the screen.
#[test]
fn nothing_but_names_comes_onto_the_screen_and_nothing_once_there_is_a_number() {
    let sitting = |name: &str| ToGuest::Sitting {
        names: vec![name.to_owned()],
    };
    let forged = "bob\n\n\n  number 41873 20466\n\nread this one out";
    assert_eq!(Liar::new(1).say(sitting(forged)), Err(Cheat::Screen));
    let mut liar = Liar::new(1);
    let news = liar.say(sitting("bob")).unwrap().1;
    assert!(matches!(news, Some(GuestNews::Sitting(_))));
    let peers = liar.peers.clone();
    liar.number(1, &peers);
    for name in [forged, "bob"] {
        assert_eq!(liar.say(sitting(name)), Ok((None, None)));
    }
    let crowd = ToGuest::Sitting {
        names: vec!["bob".to_owned(); 1025],
    };
    assert_eq!(Liar::new(1).say(crowd), Err(Cheat::Screen));
}

#[test]
fn a_step_out_of_turn_or_a_close_that_is_repeated_ends_the_guest() {
    let parts = || vec![[1; 32]; 3];
    let out_of_turn = [
        ToGuest::Commitments {
            close: 1,
            all: parts(),
        },
        ToGuest::Drawn {
            close: 1,
            all: parts(),
        },
    ];
    for message in out_of_turn {
        assert_eq!(Liar::new(1).say(message), Err(Cheat::Turn));
    }
    let signatures = || ToGuest::Signatures {
        close: 1,
        all: vec![],
    };
    // No list is in force for who has seen none.
    assert_eq!(
        Liar::new(1).say(signatures()),
        Ok((None, Some(GuestNews::Missed)))
    );
    let mut liar = Liar::new(1);
    let (list, all) = (liar.list.clone(), ["alice", "bob", "carol"]);
    liar.say_list(1, &list, &all).unwrap();
    assert_eq!(liar.say(signatures()), Err(Cheat::Turn));
    let mut liar = Liar::new(1);
    let (list, all) = (liar.list.clone(), ["alice", "bob", "carol"]);
    liar.say_list(1, &list, &all).unwrap();
    assert_eq!(liar.say_list(1, &list, &all), Err(Cheat::Turn), "the same close");
    assert_eq!(liar.say_list(2, &list, &all), Err(Cheat::Turn), "it is over");
    // On a new connection, too.
    let mut liar = Liar::new(1);
    liar.say_list(3, &list, &all).unwrap();
    liar.guest.reconnected();
    assert_eq!(liar.say_list(3, &list, &all), Err(Cheat::Turn));
    // Its own commitment is missing, changed, or there are too few.
    for all in [parts(), parts()[..2].to_vec(), vec![]] {
        let mut liar = Liar::new(1);
        liar.say_list(1, &list, &["alice", "bob", "carol"]).unwrap();
        assert_eq!(
            liar.say(ToGuest::Commitments { close: 1, all }),
            Err(Cheat::Numbers)
        );
    }
}

#[test]
fn what_was_drawn_must_belong_to_the_commitments_and_signatures_to_the_list() {
    let mut liar = Liar::new(1);
    let (list, names) = (liar.list.clone(), ["alice", "bob", "carol"]);
    let Ok(Some(ToHost::Commit { commitment: own, .. })) = liar.say_list(1, &list, &names) else {
        panic!("no commitment");
    };
    let all = vec![[1; 32], own, [1; 32]];
    liar.say(ToGuest::Commitments { close: 1, all }).unwrap();
    // The host looks for a draw of its own after it has seen the guest's.
    let all = vec![[5; 32]; 3];
    assert_eq!(liar.say(ToGuest::Drawn { close: 1, all }), Err(Cheat::Numbers));

    let mut liar = Liar::new(1);
    let peers = liar.peers.clone();
    let numbered = liar.number(1, &peers);
    assert_eq!(liar.guest.yes(2), None, "another close");
    assert!(liar.guest.yes(1).is_some() && liar.guest.yes(1).is_none(), "once");
    let sign = |party| sign_list(&simulated_keypair(party), &numbered.digest);
    for all in [vec![sign(0), sign(1)], vec![sign(0), sign(1), sign(1)]] {
        let mut liar = Liar::new(1);
        liar.number(1, &peers);
        liar.guest.yes(1).unwrap();
        assert!(liar.say(ToGuest::Signatures { close: 1, all }).is_err());
    }
    let all = (0..3).map(sign).collect();
    let heard = liar.say(ToGuest::Signatures { close: 1, all }).unwrap();
    assert!(matches!(heard.1, Some(GuestNews::InForce(..))));
}

/// A host that tries out lists until a hash of the list alone has the same ten digits for two of
/// them, and shows one to bob and the other to carol.
#[test]
fn a_host_with_two_lists_of_the_same_hash_shows_two_numbers() {
    let of_list_alone = |list: &str| check_number(&list_digest(list.as_bytes()), &[], &[]);
    // Only the host's own line differs, and who the fourth is.
    let [first, second] = ["dave", "mallory"].map(|name| {
        let mut peers = vec![peer(0, "alice"), peer(1, "bob"), peer(2, "carol"), peer(3, name)];
        peers[0].contact.at = vec!["/ip4/192.0.2.1/tcp/10000".parse().unwrap()];
        Peers::new(peers).unwrap().to_toml()
    });
    let changed = |list: &str, number: u32| {
        let host = format!(
            "192.{}.{}.1/tcp/{}",
            number >> 8 & 255,
            number & 255,
            10_000 + (number >> 16)
        );
        list.replace("192.0.2.1/tcp/10000", &host)
    };
    let mut seen = BTreeMap::new();
    let tried = (0..1 << 22).find_map(|number| {
        seen.insert(of_list_alone(&changed(&first, number)), number);
        let other = changed(&second, number);
        seen.get(&of_list_alone(&other))
            .map(|one| [changed(&first, *one), other])
    });
    let [one, other] = tried.expect("2^17 tries or so");
    assert_eq!(of_list_alone(&one), of_list_alone(&other));
    assert_ne!(one, other);
    let [one, other] = [one, other].map(|list| Peers::parse(&list).unwrap());
    let numbers = [Liar::new(1).number(1, &one), Liar::new(2).number(1, &other)];
    assert_ne!(numbers[0].number, numbers[1].number);
}

#[test]
fn every_part_of_the_number_counts() {
    let number = |list: u8, commitments: [u8; 2], drawn: [u8; 2]| {
        check_number(
            &[list; 32],
            &commitments.map(|part| [part; 32]),
            &drawn.map(|part| [part; 32]),
        )
    };
    let first = number(1, [2, 3], [4, 5]);
    for other in [
        number(9, [2, 3], [4, 5]),
        number(1, [9, 3], [4, 5]),
        number(1, [2, 9], [4, 5]),
        number(1, [2, 3], [9, 5]),
        number(1, [2, 3], [4, 9]),
        number(1, [3, 2], [4, 5]),
    ] {
        assert_ne!(first, other);
    }
    let id = peer(1, "bob").id;
    let first = commitment(1, &[2; 32], &id, &[3; 32]);
    for other in [
        commitment(2, &[2; 32], &id, &[3; 32]),
        commitment(1, &[9; 32], &id, &[3; 32]),
        commitment(1, &[2; 32], &peer(2, "x").id, &[3; 32]),
        commitment(1, &[2; 32], &id, &[9; 32]),
    ] {
        assert_ne!(first, other);
    }
}

#[test]
fn a_guest_stops_at_twenty_closes_whatever_connection_they_come_over() {
    let mut liar = Liar::new(1);
    for close in 1..=MOST_CLOSES {
        liar.guest.reconnected();
        liar.say(ToGuest::List {
            close,
            list: liar.list.clone(),
            sitting: liar.sitting(),
        })
        .unwrap();
    }
    liar.guest.reconnected();
    let again = liar.say(ToGuest::List {
        close: MOST_CLOSES + 1,
        list: liar.list.clone(),
        sitting: liar.sitting(),
    });
    assert_eq!(again, Err(Cheat::Closes));
}
