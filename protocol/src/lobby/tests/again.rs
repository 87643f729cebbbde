//! Guests whose connections break, and that come back.

use super::*;
use crate::lobby::host::MOST_AGAIN;

/// A guest whose connection breaks after its yes: it need not come back, and may.
#[test]
fn a_yes_stands_when_its_connection_breaks_and_a_no_after_it_does_not() {
    for (comes_back, in_force) in [(false, 2), (true, 3)] {
        let mut world = World::new(4, None);
        let _ = [(1, "bob"), (2, "carol"), (3, "dave")].map(|(party, name)| world.sit(party, name).unwrap());
        let dave = peer(3, "dave");
        let close = world.host.compared().expect("a number").close;
        let yes = world.guests.get_mut(&dave.id).expect("it sits").yes(close);
        world
            .host
            .hear(at(0, 7), dave.id, yes.expect("it has the number"));
        world.host.left(at(0, 8), dave.id);
        world.dead.insert(dave.id);
        world.run();
        assert!(!world.news.contains(&HostNews::Void), "{:?}", world.news);
        if comes_back {
            world.guests.get_mut(&dave.id).expect("it sits").reconnected();
            world.host.sit(at(0, 9), dave.id, &dave.to_toml()).unwrap();
            world.dead.clear();
            world.run();
        }
        world.all_say_yes();
        assert_eq!(world.in_force(), in_force);
        assert!(matches!(world.news.last(), Some(HostNews::InForce(..))));
    }
    // Other lines, or a no: that list is void.
    for says_no in [true, false] {
        let mut world = World::new(4, None);
        let _ = [(1, "bob"), (2, "carol"), (3, "dave")].map(|(party, name)| world.sit(party, name).unwrap());
        let dave = peer(3, "dave");
        let close = world.host.compared().expect("a number").close;
        let yes = world.guests.get_mut(&dave.id).expect("it sits").yes(close);
        world
            .host
            .hear(at(0, 7), dave.id, yes.expect("it has the number"));
        world.dead.insert(dave.id);
        match says_no {
            true => world.host.hear(at(0, 8), dave.id, ToHost::No),
            false => world
                .host
                .sit(at(0, 8), dave.id, &peer(3, "david").to_toml())
                .unwrap(),
        }
        world.run();
        assert!(world.news.contains(&HostNews::Void));
    }
}

/// One that sits down again and again while the lobby is being closed.
#[test]
fn who_sits_again_in_a_close_is_out_of_it_and_named_and_soon_sits_no_more() {
    let mut world = World::new(12, None);
    for (party, name) in [(1, "bob"), (2, "carol"), (3, "dave"), (4, "mallory")] {
        world.sit(party, name).unwrap();
    }
    let mallory = peer(4, "mallory");
    for again in 1..=MOST_AGAIN + 1 {
        world.host.close(at(0, 5));
        let sat = world.host.sit(at(0, 6), mallory.id, &mallory.to_toml());
        assert_eq!(sat.is_ok(), again <= MOST_AGAIN, "{again}");
        world.run();
        let named = |news: &&HostNews| matches!(news, HostNews::Left { name, .. } if name == "mallory");
        assert_eq!(world.news.iter().filter(named).count() as u32, again);
        assert!(world.host.compared().is_some(), "the others have their number");
    }
    let why = Some(Refusal::Barred);
    let last = world.news.iter().rev().find_map(|news| match news {
        HostNews::Left { why, .. } => Some(why.clone()),
        _ => None,
    });
    assert_eq!(last, Some(why), "the operator hears why");
    let later = world.host.sit(at(0, 7), mallory.id, &mallory.to_toml());
    assert_eq!(later, Err(Refusal::Barred), "nor once nothing is being closed");
}
