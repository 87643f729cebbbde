use proptest::prelude::*;

use super::*;

fn id(party: usize) -> String {
    simulated_keypair(party).public().to_peer_id().to_base58()
}

fn entry(name: &str, id: &str, port: u16) -> String {
    format!(
        "[[peer]]\nname = \"{name}\"\nid = \"{id}\"\nprivate = \"/ip4/192.0.2.1/tcp/{port}\"\npublic = \"/dns/example.org/tcp/{}\"\n",
        port + 1
    )
}

fn three() -> String {
    format!(
        "version = 1\n{}{}{}",
        entry("alice", &id(0), 7001),
        entry("bob", &id(1), 7003),
        entry("carol", &id(2), 7005)
    )
}

fn refusal(text: &str) -> (Option<usize>, String) {
    match Peers::parse(text).unwrap_err() {
        PeersError::Entry { field, line, problem } => (line, format!("{field} {problem}")),
        PeersError::Toml { line, message } => (line, message),
        other => (None, other.to_string()),
    }
}

#[test]
fn a_list_is_read_in_order() {
    let peers = Peers::parse(&three()).unwrap();
    let names: Vec<&str> = peers.as_slice().iter().map(|peer| peer.name.as_str()).collect();
    assert_eq!(names, ["alice", "bob", "carol"]);
    assert_eq!(peers.index_of("carol"), Some(2));
    assert_eq!(peers.index_of("dave"), None);
    let key = public_key(&peers.as_slice()[1].id).unwrap();
    assert_eq!(key, simulated_keypair(1).public());
    let reach = &peers.as_slice()[0].contact;
    assert_eq!(reach.at, ["/ip4/192.0.2.1/tcp/7001".parse().unwrap()]);
    assert_eq!(reach.public, Some("/dns/example.org/tcp/7002".parse().unwrap()));
}

/// Each (text, line, words): the list is refused with that line and these words. Entries are six
/// lines long, the first begins at line 2.
fn each_is_named<const N: usize>(cases: [(String, Option<usize>, &str); N]) {
    for (text, line, words) in cases {
        let (found_line, message) = refusal(&text);
        assert!(message.contains(words), "{message:?} should contain {words:?}");
        assert_eq!(found_line, line, "{message}");
    }
}

#[test]
fn every_slip_in_a_name_or_id_is_named_with_its_line() {
    each_is_named([
        (
            three().replace("\"bob\"", "\"Bob\""),
            Some(8),
            "peer.1.name is not a usable name",
        ),
        (
            three().replace("\"bob\"", "\"\""),
            Some(8),
            "peer.1.name is not a usable name",
        ),
        (
            three().replace("\"bob\"", &format!("\"{}\"", "b".repeat(33))),
            Some(8),
            "peer.1.name is not a usable name",
        ),
        (
            three().replace("\"bob\"", "\"alice\""),
            Some(8),
            "peer.1.name is the same as that of peer \"alice\"",
        ),
        (
            three().replace(&id(2), &id(0)),
            Some(14),
            "peer.2.id is the same as that of peer \"alice\"",
        ),
        (
            three().replace(&id(2), "12D3KooW"),
            Some(14),
            "peer.2.id is not the id of an ed25519 key",
        ),
        // The id of an RSA key: a hash, which does not contain the key.
        (
            three().replace(&id(2), "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N"),
            Some(14),
            "peer.2.id is not the id of an ed25519 key",
        ),
    ]);
}

#[test]
fn every_other_slip_is_named_with_its_line() {
    each_is_named([
        (
            three().replace("tcp/7005", "udp/7005"),
            Some(15),
            "peer.2.private \"/ip4/192.0.2.1/udp/7005\" is not an address",
        ),
        (
            three()
                .replace("tcp/7006", "tcp/7001")
                .replace("/dns/example.org", "/ip4/192.0.2.1"),
            Some(16),
            "peer.2.public is the same as that of peer \"alice\"",
        ),
        (
            three().replace("name = \"carol\"", "name = \"carol\"\nnick = 0"),
            Some(14),
            "unknown field `nick`",
        ),
        (
            three().replace("name = \"carol\"\n", ""),
            Some(12),
            "missing field `name`",
        ),
        (
            three().replace("version = 1", "version = \"1\""),
            Some(1),
            "invalid type: string",
        ),
        (
            three().replace("version = 1", "version = 2"),
            None,
            "peer list, line 1: version is 2",
        ),
        (
            format!("version = 1\n{}", entry("a", &id(0), 1)),
            None,
            "peer list: 1 peers are listed",
        ),
    ]);
}

#[test]
fn addresses() {
    for good in [
        "/ip4/0.0.0.0/tcp/1",
        "/ip6/::1/tcp/65535",
        "/dns/a-b.c_d/tcp/80",
        "/dns4/localhost/tcp/80",
        "/dns6/h/tcp/80",
    ] {
        assert_eq!(good.parse::<Address>().unwrap().as_str(), good);
    }
    let bad = [
        "",
        "/",
        "ip4/1.2.3.4/tcp/1",
        "/ip4/1.2.3.4",
        "/ip4/1.2.3.4/tcp",
        "/ip4/1.2.3.4/tcp/",
        "/ip4/1.2.3.4/tcp/0",
        "/ip4/1.2.3.4/tcp/65536",
        "/ip4/1.2.3.4/tcp/+1",
        "/ip4/1.2.3.4/tcp/01",
        "/ip4/1.2.3/tcp/1",
        "/ip4/::1/tcp/1",
        "/ip6/1.2.3.4/tcp/1",
        "/dns//tcp/1",
        "/dns/a..b/tcp/1",
        "/dns/-a/tcp/1",
        "/dns/a b/tcp/1",
        "/ip4/1.2.3.4/tcp/1/",
        "/ip4/1.2.3.4/tcp/1/p2p/x",
        "/ip4/1.2.3.4/udp/1",
        "1.2.3.4:7001",
        "/unix/x/tcp/1",
    ];
    for bad in bad {
        assert!(bad.parse::<Address>().is_err(), "{bad}");
    }
}

#[test]
fn an_address_that_leads_to_no_peer_is_refused_in_a_list_and_can_be_listened_at() {
    for (text, fine) in [
        ("/ip4/0.0.0.0/tcp/7001", false),
        ("/ip4/0.1.2.3/tcp/7001", false),
        ("/ip6/::/tcp/7001", false),
        ("/ip6/0:0:0:0:0:0:0:0/tcp/7001", false),
        ("/ip6/::ffff:0.0.0.0/tcp/7001", false),
        ("/dns/0.0.0.0/tcp/7001", false),
        ("/ip4/224.0.0.1/tcp/7001", false),
        ("/ip4/255.255.255.255/tcp/7001", false),
        ("/ip6/ff02::1/tcp/7001", false),
        ("/ip4/127.0.0.1/tcp/7001", true),
        ("/ip4/10.0.0.0/tcp/7001", true),
        ("/ip6/::1/tcp/7001", true),
        ("/dns/example.org/tcp/7001", true),
    ] {
        assert_eq!(
            text.parse::<Address>().unwrap().check_reachable().is_ok(),
            fine,
            "{text}"
        );
        for key in ["private", "public"] {
            let mut peers = Peers::simulated(3).unwrap().peers;
            match key {
                "private" => peers[1].contact.at = vec![text.parse().unwrap()],
                _ => peers[1].contact.public = Some(text.parse().unwrap()),
            }
            let field = Peers::new(peers).err().and_then(|e| e.field().map(str::to_owned));
            assert_eq!(field, (!fine).then(|| format!("peer.1.{key}")), "{text}");
        }
    }
}

#[test]
fn simulated_peers_are_checked_peers() {
    let peers = Peers::simulated(5).unwrap();
    assert_eq!(peers.as_slice()[4].name, "party-4");
    assert!(matches!(Peers::simulated(2), Err(PeersError::Count { found: 2 })));
    assert!(matches!(
        Peers::simulated(usize::MAX),
        Err(PeersError::Count { .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn no_text_panics(text in ".{0,200}", at in 0usize..400, byte: u8) {
        let _ = Peers::parse(&text);
        let _ = text.parse::<Address>();
        let mut bytes = three().into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = Peers::parse(&String::from_utf8_lossy(&bytes));
    }
}

/// Three peers of which carol has these lines in place of her addresses.
fn carol_with(lines: &str) -> String {
    let [private, public] = ["ip4/192.0.2.1/tcp/7005", "dns/example.org/tcp/7006"];
    three()
        .replace(&format!("private = \"/{private}\"\n"), "")
        .replace(&format!("public = \"/{public}\"\n"), lines)
}

#[test]
fn a_peer_has_several_addresses_or_none_and_may_be_a_relay() {
    let reach = |lines: &str| {
        let peers = Peers::parse(&carol_with(lines)).unwrap_or_else(|e| panic!("{e}: {lines}"));
        peers.as_slice()[2].contact.clone()
    };
    assert_eq!(reach(""), Contact::default());
    assert_eq!(reach("at = []\n"), Contact::default());
    let two = reach("at = [\"/ip4/192.0.2.9/tcp/1\", \"/ip6/2001:db8::9/tcp/1\"]\nrelay = true\n");
    assert_eq!((two.at.len(), &two.public, two.relay), (2, &None, true));
    let one = reach("private = \"/ip4/192.0.2.9/tcp/1\"\n");
    assert_eq!(one, reach("at = [\"/ip4/192.0.2.9/tcp/1\"]\n"));
}

#[test]
fn every_slip_in_where_a_peer_or_relay_is_reached_is_named() {
    let at = |count: usize| {
        let addresses: Vec<_> = (0..count)
            .map(|host| format!("\"/ip4/192.0.2.9/tcp/{}\"", 1 + host))
            .collect();
        format!("at = [{}]\n", addresses.join(", "))
    };
    for (lines, words) in [
        (at(5), "peer.2.at has 5 addresses, and at most 4"),
        (
            format!("{}private = \"/ip4/192.0.2.9/tcp/9\"\n", at(1)),
            "peer.2.at stands beside private",
        ),
        ("at = [\"/ip4/0.0.0.0/tcp/1\"]\n".into(), "leads to no peer"),
        ("relay = true\n".into(), "peer.2.relay needs an address"),
        (
            "at = [\"/ip4/192.0.2.1/tcp/7001\"]\n".into(),
            "the same as that of peer \"alice\"",
        ),
    ] {
        let (_, message) = refusal(&carol_with(&lines));
        assert!(message.contains(words), "{message}");
    }
    let relay = |name: &str, id: &str, at: &str| {
        format!(
            "{}[[relay]]\nname = \"{name}\"\nid = \"{id}\"\nat = [{at}]\n",
            three()
        )
    };
    let good = "\"/dns/relay.example/tcp/443\"";
    let listed = Peers::parse(&relay("r", &id(7), good)).unwrap();
    assert_eq!((&*listed.relays()[0].name, listed.relays()[0].at.len()), ("r", 1));
    for (text, words) in [
        (relay("R", &id(7), good), "relay.0.name is not a usable name"),
        (relay("r", "12D3KooW", good), "relay.0.id is not the id"),
        (
            relay("r", &id(1), good),
            "relay.0.id is the same as that of peer \"bob\"",
        ),
        (relay("r", &id(7), ""), "relay.0.at needs an address"),
        (relay("r", &id(7), "\"/ip6/::/tcp/1\""), "leads to no peer"),
    ] {
        let (_, message) = refusal(&text);
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn a_recovery_key_is_listed_and_is_nobody_elses() {
    let recovery = |id: &str| format!("recovery = \"{id}\"\n");
    let listed = Peers::parse(&carol_with(&recovery(&id(7)))).unwrap();
    let expected = simulated_keypair(7).public().to_peer_id();
    let found: Vec<_> = listed.as_slice().iter().map(|peer| peer.recovery).collect();
    assert_eq!(found, [None, None, Some(expected)]);
    for (id, words) in [
        ("12D3KooW", "peer.2.recovery is not the id of an ed25519 key"),
        (&*id(0), "peer.2.recovery is the same as that of peer \"alice\""),
        (&*id(2), "peer.2.recovery is the same as that of peer \"carol\""),
    ] {
        let (_, message) = refusal(&carol_with(&recovery(id)));
        assert!(message.contains(words), "{message}");
    }
    let relay = format!(
        "[[relay]]\nname = \"r\"\nid = \"{}\"\nat = [\"/dns/r/tcp/1\"]\n",
        id(7)
    );
    let (_, message) = refusal(&format!("{}{relay}", carol_with(&recovery(&id(7)))));
    assert!(message.contains("relay.0.id is the same"), "{message}");
}
