//! Keys that were revoked.

use super::*;

#[test]
fn a_revoked_key_gets_no_seat_and_leaves_the_old_list() {
    let mut old = Peers::simulated(5).unwrap().as_slice().to_vec();
    old[0].name = "alice".into();
    let old = Peers::new(old).unwrap();
    let mut world = World::new(5, Some(old.clone()));
    let barred = BTreeSet::from([peer(4, "x").id]);
    let purpose = LobbyPurpose {
        barred,
        ..purpose(5, Some(old))
    };
    world.host = Host::new(simulated_keypair(0), peer(0, "alice"), purpose).unwrap();
    assert_eq!(world.sit(4, "party-4"), Err(Refusal::Barred));
    world.sit(9, "nina").unwrap();
    world.close();
    let list = world.host.compared().expect("a number").list.clone();
    let listed: Vec<PeerId> = list.as_slice().iter().map(|peer| peer.id).collect();
    assert!(listed.contains(&peer(9, "x").id) && !listed.contains(&peer(4, "x").id));
    assert_eq!(listed.len(), 5);
}
