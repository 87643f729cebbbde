//! Lists that follow another: what the operator hears of each difference, and of a list that comes
//! to nothing.

use super::*;
use crate::plan::peers::difference::ListChange;

/// Alice, the host, and three more.
fn old() -> Peers {
    let names = ["alice", "bob", "carol", "dave"];
    Peers::new((0..4).map(|party| peer(party, names[party])).collect()).unwrap()
}

/// A host of eight seats whose list follows that one, and three of whom sit and compare a number.
fn compares() -> World {
    let mut world = World::new(8, Some(old()));
    let _ = [(1, "bob"), (2, "carol")].map(|(party, name)| world.sit(party, name).unwrap());
    world.close();
    assert_eq!(world.numbers().len(), 3);
    world
}

/// A thief of a name, or of a seat, has a line that differs: the operator hears how.
#[test]
fn each_line_is_told_with_how_it_differs_from_the_old_list() {
    let moved = Peer {
        contact: peer(9, "x").contact,
        ..peer(3, "dave")
    };
    let named = |name: &str| name.to_owned();
    for (party, line, expected) in [
        (1, peer(1, "bob"), None),
        (
            2,
            peer(2, "cora"),
            Some(ListChange::Renamed {
                from: named("carol"),
                name: named("cora"),
            }),
        ),
        (3, moved, Some(ListChange::Moved { name: named("dave") })),
        (
            5,
            peer(5, "dave"),
            Some(ListChange::Rekeyed { name: named("dave") }),
        ),
        (
            6,
            peer(6, "nina"),
            Some(ListChange::Added {
                name: named("nina"),
                id: peer(6, "nina").id,
            }),
        ),
    ] {
        let mut world = World::new(8, Some(old()));
        world.sit_as(party, line.clone()).unwrap();
        let sat = HostNews::Sat {
            name: line.name.clone(),
            id: line.id,
            change: expected,
        };
        assert_eq!(world.news, [sat], "{}", line.name);
        // Who sits down again with that line is no news; without an old list nothing differs.
        world.sit_as(party, line.clone()).unwrap();
        assert_eq!(world.news.len(), 1, "{}", line.name);
        let mut first = World::new(8, None);
        first.sit_as(party, line.clone()).unwrap();
        assert!(matches!(&first.news[..], [HostNews::Sat { change: None, .. }]));
    }
}

/// Nobody compares a list any more from which the operator has taken somebody, seated or not.
#[test]
fn a_list_from_which_somebody_is_taken_is_void() {
    for name in ["dave", "bob"] {
        let mut world = compares();
        let moment = world.moment();
        assert!(!world.host.remove(moment, "erin"), "nobody has this name");
        assert!(!world.host.remove(moment, "alice"), "the host itself");
        assert!(world.host.compared().is_some());
        assert!(world.host.remove(moment, name));
        world.run();
        let left = HostNews::Left {
            name: name.to_owned(),
            why: Some(Refusal::Barred),
        };
        assert!(world.news.ends_with(&[left, HostNews::Void]), "{:?}", world.news);
        assert_eq!(world.host.compared(), None);
        assert!(!world.host.remove(moment, name), "it is gone already");
        world.close();
        let list = world.host.compared().expect("a number").list.clone();
        assert_eq!(list.index_of(name), None);
        assert_eq!(list.as_slice().len(), 3);
    }
    // While the lobby is being closed it is closed anew, without that name.
    let mut world = World::new(8, Some(old()));
    let _ = [(1, "bob"), (2, "carol")].map(|(party, name)| world.sit(party, name).unwrap());
    let moment = world.moment();
    world.host.close(moment);
    assert!(world.host.remove(moment, "dave"));
    world.run();
    let list = world.host.compared().expect("a number").list.clone();
    assert_eq!((list.index_of("dave"), list.as_slice().len()), (None, 3));
}

/// A member of the old list that sits under another name is out with both.
#[test]
fn who_is_taken_out_under_a_new_name_is_not_kept_under_its_old_one() {
    let mut world = World::new(8, Some(old()));
    world.sit(1, "bert").unwrap();
    let moment = world.moment();
    assert!(world.host.remove(moment, "bert"));
    world.run();
    world.close();
    let list = world.host.compared().expect("a number").list.clone();
    let names: Vec<&str> = list.as_slice().iter().map(|peer| &*peer.name).collect();
    assert_eq!(names, ["alice", "carol", "dave"]);
}

/// A word that was on its way when the list changed costs nobody its seat; one that cannot have
/// been does.
#[test]
fn a_yes_to_an_earlier_list_is_late_and_one_to_a_later_list_is_a_fault() {
    let mut world = compares();
    let bob = peer(1, "bob").id;
    let first = world.host.compared().expect("a number").close;
    let late = world.guests.get_mut(&bob).expect("it sits").yes(first);
    let Some(ToHost::Yes { signature, .. }) = late.clone() else {
        panic!("{late:?}")
    };
    world.close();
    let second = world.host.compared().expect("a number").close;
    assert_eq!(second, first + 1);
    let before = world.news.len();
    world.host.hear(at(0, 7), bob, late.expect("a yes"));
    world.run();
    assert_eq!((world.news.len(), world.numbers().len()), (before, 3));
    let close = second + 1;
    world.host.hear(at(0, 8), bob, ToHost::Yes { close, signature });
    world.run();
    assert!(
        world.news[before..].iter().any(is_for_a_fault),
        "{:?}",
        world.news
    );
}

/// A yes is to one list: of an earlier close, or a later one, it is none, and it is said once.
#[test]
fn a_yes_is_to_the_list_that_is_compared_and_to_no_other() {
    let mut world = compares();
    let close = world.host.compared().expect("a number").close;
    for wrong in [close - 1, close + 1] {
        assert!(!world.host.yes(wrong));
    }
    for guest in world.guests.values_mut() {
        assert!(guest.yes(close - 1).is_none() && guest.yes(close + 1).is_none());
        assert!(!guest.has_said_yes());
        assert!(guest.yes(close).is_some() && guest.has_said_yes());
        assert!(guest.yes(close).is_none() && guest.has_said_yes());
    }
    assert!(world.host.drain().is_empty(), "nothing of it is known here");
    assert!(
        world.host.yes(close) && !world.host.is_over(),
        "the guests' are lacking"
    );
}

/// The host says a moment later who sits, unless the list is in force by then.
#[test]
fn nothing_is_said_once_it_is_over() {
    let mut world = World::new(3, None);
    let _ = [(1, "bob"), (2, "carol")].map(|(party, name)| world.sit(party, name).unwrap());
    world.all_say_yes();
    assert!(world.host.is_over());
    let moment = world.moment();
    world.host.tick(moment);
    assert!(world.host.drain().is_empty());
}
