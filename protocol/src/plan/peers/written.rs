//! The one way in which programs write a peer list, so that two that mean the same are the same
//! bytes.

use crate::plan::peers::contact::Relay;
use crate::plan::peers::{Peer, Peers};

/// A key with a list of texts; a name, an id and an address need no escapes beyond those of Rust.
fn texts<T: ToString>(key: &str, of: &[T]) -> String {
    let each: Vec<_> = of.iter().map(|text| format!("{:?}", text.to_string())).collect();
    format!("{key} = [{}]\n", each.join(", "))
}

impl Peer {
    /// Its `[[peer]]`.
    pub fn to_toml(&self) -> String {
        let mut lines = format!("[[peer]]\nname = {:?}\nid = \"{}\"\n", self.name, self.id);
        match self.contact.keys_at() {
            (Some(private), _) => lines += &format!("private = {private:?}\n"),
            (None, Some(several)) => lines += &texts("at", &several),
            (None, None) => {}
        }
        if let Some(public) = &self.contact.public {
            lines += &format!("public = {:?}\n", public.as_str());
        }
        if self.contact.relay {
            lines += "relay = true\n";
        }
        if let Some(recovery) = self.recovery {
            lines += &format!("recovery = \"{recovery}\"\n");
        }
        lines
    }
}

impl Relay {
    fn to_toml(&self) -> String {
        let begin = format!("[[relay]]\nname = {:?}\nid = \"{}\"\n", self.name, self.id);
        begin + &texts("at", &self.at)
    }
}

impl Peers {
    /// The list as a file, in its order. [`Peers::parse`] gives the same list again.
    pub fn to_toml(&self) -> String {
        let peers = self.as_slice().iter().map(Peer::to_toml);
        let relays = self.relays().iter().map(Relay::to_toml);
        let entries: Vec<String> = peers.chain(relays).collect();
        let follows = self.follows().map(|digest| format!("follows = \"{digest}\"\n"));
        format!(
            "version = 1\n{}\n{}",
            follows.unwrap_or_default(),
            entries.join("\n")
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::peers::contact::Contact;
    use crate::plan::peers::{Peers, simulated_keypair};

    #[test]
    fn a_written_list_is_read_as_the_same_list() {
        let mut peers = Peers::simulated(4).unwrap().as_slice().to_vec();
        peers[1].contact = Contact::default();
        peers[2]
            .contact
            .at
            .push("/ip6/2001:db8::1/tcp/7001".parse().unwrap());
        peers[2].contact.relay = true;
        peers[3].recovery = Some(simulated_keypair(9).public().to_peer_id());
        let relay = format!(
            "version = 1\n[[relay]]\nname = \"r\"\nid = \"{}\"\nat = [\"/dns/r/tcp/443\", \"/dns/s/tcp/443\"]\n",
            simulated_keypair(7).public().to_peer_id()
        );
        let relays = Peers::parse_relays(&relay).unwrap();
        let list = Peers::with_relays(peers, relays).unwrap();
        let text = list.to_toml();
        let again = Peers::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(again, list);
        assert_eq!(again.to_toml(), text);
        assert_eq!(list.follows(), None);
        let next = Peers::parse(&list.clone().following(&list).to_toml()).unwrap();
        assert_eq!(next.follows(), Some(list.digest()));
        assert_ne!(next.digest(), list.digest());
        let line = format!("follows = \"{}\"\n", list.digest());
        for bad in [
            "",
            "00",
            &"G".repeat(64),
            &list.digest().to_string().to_uppercase(),
        ] {
            let text = next.to_toml().replace(&line, &format!("follows = {bad:?}\n"));
            let refused = Peers::parse(&text).unwrap_err();
            assert_eq!(refused.field(), Some("follows"), "{refused}");
        }
        assert!(
            Peers::parse_relays(&text).is_err(),
            "a file of relays has no peers"
        );
        assert_eq!(
            Peers::parse_peer(&list.as_slice()[2].to_toml()).unwrap(),
            list.as_slice()[2]
        );
        assert!(Peers::parse_peer(&text).is_err(), "one peer is no list");
    }
}
