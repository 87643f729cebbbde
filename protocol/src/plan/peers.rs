//! `peers.toml`: who takes part, in plan order.

use std::collections::BTreeMap;

use libp2p_identity::{KeyType, Keypair, PeerId, PublicKey};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::plan::defaults::Setting;
use crate::plan::lines::{Lines, line_at};
use crate::plan::peers::contact::{Contact, Relay, RelayKeys};
use crate::plan::peers::entry::{Address, MOST_RELAYS, PeerProblem, id};
use crate::plan::run_file::limits::MOST_PARTIES;
use crate::plan::values::Values;

pub mod contact;
pub mod entry;

/// One `[[peer]]` of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The peer's name, `[a-z0-9-]{1,32}`, unique.
    pub name: String,
    /// The id of its ed25519 key, unique.
    pub id: PeerId,
    /// Where it is reached.
    pub contact: Contact,
}

/// The checked list: names, ids and addresses are unique. Its order is plan order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    peers: Vec<Peer>,
    relays: Vec<Relay>,
}

/// A reason why a peer list is refused (exit 2).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PeersError {
    /// A file that is not TOML, or has an unknown or missing key, or a value of another type.
    #[error("peer list{}: {message}", at(*.line))]
    Toml {
        /// The file's line, from 1.
        line: Option<usize>,
        /// The parser's message.
        message: String,
    },
    /// Another version of the format.
    #[error("peer list{}: version is {found}, which this program does not read; write version = 1", at(*.line))]
    Version {
        /// The file's line, from 1.
        line: Option<usize>,
        /// The version that it names.
        found: u32,
    },
    /// The peers are too few, or too many.
    #[error("peer list: {found} peers are listed; a run needs from 3 to {MOST_PARTIES}")]
    Count {
        /// The number that was found.
        found: usize,
    },
    /// One entry's value makes no sense.
    #[error("peer list{}: {field} {problem}", at(*.line))]
    Entry {
        /// Dotted key with the peer's number from 0, such as "peer.2.id".
        field: String,
        /// The file's line, from 1.
        line: Option<usize>,
        /// The problem, and how to repair it.
        problem: PeerProblem,
    },
}

fn at(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}

impl PeersError {
    /// The key that it is about.
    pub fn field(&self) -> Option<&str> {
        match self {
            PeersError::Toml { .. } => None,
            PeersError::Version { .. } => Some("version"),
            PeersError::Count { .. } => Some("peer"),
            PeersError::Entry { field, .. } => Some(field),
        }
    }
}

/// A node's id: base58 of its public key's multihash.
pub const ID: Values = Values::Text("^[1-9A-HJ-NP-Za-km-z]{46,64}$", "12D3KooW…");
const ADDRESS: Values = Values::Text(
    "^/(ip4|ip6|dns|dns4|dns6)/[^/]+/tcp/[1-9][0-9]{0,4}$",
    "/ip4/ADDR/tcp/PORT, /ip6/…, /dns/…",
);

/// Every key of `peers.toml`, in the order of the file.
#[rustfmt::skip] // a table: one line a row
pub const PEER_KEYS: &[Setting] = &[
    Setting::of_file(("", "version"), None, (Values::Whole(1, 1), ""), "version of this format").such_as("1"),
    Setting::of_file(("peer", "name"), None, (Values::Text("^[a-z0-9-]{1,32}$", "[a-z0-9-], 1 to 32"), ""),
        "[[peer]]: the party's name, unlike all others").such_as(r#""aarhus""#),
    Setting::of_file(("peer", "id"), None, (ID, ""),
        "[[peer]]: its node's id, as `undertone identity show` prints it").such_as(r#""12D3KooWQYhTNQdmr3ArTeUHRYzFg94BKyTkoWBDWez9kSCVe2Xo""#),
    Setting::of_file(("peer", "private"), None, (ADDRESS, ""),
        "[[peer]]: where it listens for encrypted connections; without it the peer dials the others").such_as(r#""/ip4/192.0.2.1/tcp/7001""#),
    Setting::of_file(("peer", "at"), None, (Values::List(&ADDRESS, 0), ""),
        "[[peer]]: in place of private, where it has several addresses").such_as(r#"["/dns/a.example/tcp/443", "/ip6/2001:db8::1/tcp/443"]"#),
    Setting::of_file(("peer", "public"), None, (ADDRESS, ""),
        "[[peer]]: where it listens for plain ones, on another port; without it all is encrypted").such_as(r#""/ip4/192.0.2.1/tcp/7002""#),
    Setting::of_file(("peer", "relay"), Some("false"), (Values::Flag, ""),
        "[[peer]]: whether it passes on connections of peers that nobody can dial"),
    Setting::of_file(("relay", "name"), None, (Values::Text("^[a-z0-9-]{1,32}$", "[a-z0-9-], 1 to 32"), ""),
        "[[relay]]: a relay that is no peer; its name").such_as(r#""port-443""#),
    Setting::of_file(("relay", "id"), None, (ID, ""),
        "[[relay]]: its id, as `undertone identity show` prints it").such_as(r#""12D3KooWQYhTNQdmr3ArTeUHRYzFg94BKyTkoWBDWez9kSCVe2Xo""#),
    Setting::of_file(("relay", "at"), None, (Values::List(&ADDRESS, 1), ""),
        "[[relay]]: where it is reached").such_as(r#"["/dns/relay.example/tcp/443"]"#),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPeers {
    version: u32,
    #[serde(default)]
    peer: Vec<RawPeer>,
    #[serde(default)]
    relay: Vec<RelayKeys>,
}

/// A peer as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPeer {
    name: String,
    id: String,
    private: Option<String>,
    at: Option<Vec<String>>,
    public: Option<String>,
    #[serde(default)]
    relay: bool,
}

/// Whether this is a party's name: `[a-z0-9-]{1,32}`.
pub fn is_party_name(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// The key inside an ed25519 peer id (the id is the key, under an identity multihash). None for ids
/// of other kinds.
pub fn public_key(id: &PeerId) -> Option<PublicKey> {
    // An identity multihash: code 0, length, then the key's protobuf.
    let bytes = id.to_bytes();
    let (&code, rest) = bytes.split_first()?;
    let (&length, encoded) = rest.split_first()?;
    if code != 0 || usize::from(length) != encoded.len() {
        return None;
    }
    let key = PublicKey::try_decode_protobuf(encoded).ok()?;
    (key.key_type() == KeyType::Ed25519 && key.to_peer_id() == *id).then_some(key)
}

impl RawPeer {
    fn peer(self) -> Result<Peer, (&'static str, PeerProblem)> {
        let (private, public) = (self.private.as_deref(), self.public.as_deref());
        Ok(Peer {
            id: id(&self.id)?,
            contact: Contact::of_keys(private, self.at.as_deref(), public, self.relay)?,
            name: self.name,
        })
    }
}

impl Peers {
    /// Reads a peer list.
    pub fn parse(text: &str) -> Result<Self, PeersError> {
        let lines = Lines::of(text);
        let raw: RawPeers = toml::from_str(text).map_err(|error| PeersError::Toml {
            line: error.span().map(|span| line_at(text, span.start)),
            message: error.message().trim_end().to_string(),
        })?;
        if raw.version != 1 {
            return Err(PeersError::Version {
                line: lines.line("version"),
                found: raw.version,
            });
        }
        let entry = |index: usize, (key, problem): (&str, PeerProblem)| {
            let field = format!("peer.{index}.{key}");
            PeersError::Entry {
                line: lines.line(&field),
                field,
                problem,
            }
        };
        let checked = raw
            .peer
            .into_iter()
            .enumerate()
            .map(|(index, peer)| peer.peer().map_err(|e| entry(index, e)));
        let peers: Vec<Peer> = checked.collect::<Result<_, _>>()?;
        if !(3..=MOST_PARTIES).contains(&peers.len()) {
            return Err(PeersError::Count { found: peers.len() });
        }
        check_entries(&peers).map_err(|(index, key, problem)| entry(index, (key, problem)))?;
        let relay = |index: usize, (key, problem): (&str, PeerProblem)| {
            let field = format!("relay.{index}.{key}");
            PeersError::Entry {
                line: lines.line(&field),
                field,
                problem,
            }
        };
        let relays = raw.relay.iter().enumerate();
        let relays = relays.map(|(index, keys)| keys.relay().map_err(|e| relay(index, e)));
        let relays: Vec<Relay> = relays.collect::<Result<_, _>>()?;
        check_relays(&peers, &relays).map_err(|(index, key, problem)| relay(index, (key, problem)))?;
        Ok(Peers { peers, relays })
    }

    /// A list that a program made (`local`, `simulate`, tests), under the same rules.
    pub fn new(peers: Vec<Peer>) -> Result<Self, PeersError> {
        if !(3..=MOST_PARTIES).contains(&peers.len()) {
            return Err(PeersError::Count { found: peers.len() });
        }
        check_entries(&peers).map_err(|(index, key, problem)| PeersError::Entry {
            field: format!("peer.{index}.{key}"),
            line: None,
            problem,
        })?;
        let relays = vec![];
        Ok(Peers { peers, relays })
    }

    /// `parties` peers `party-0`, `party-1`, … for simulations and tests, with the keys of
    /// [`simulated_keypair`] and addresses that nobody listens on.
    pub fn simulated(parties: usize) -> Result<Self, PeersError> {
        let address = |family, party: usize| {
            let text = format!("/{family}/party-{party}.invalid/tcp/7001");
            text.parse::<Address>().expect("an address")
        };
        let peer = |party| Peer {
            name: format!("party-{party}"),
            id: simulated_keypair(party).public().to_peer_id(),
            contact: Contact {
                at: vec![address("dns4", party)],
                public: Some(address("dns6", party)),
                relay: false,
            },
        };
        Peers::new((0..parties.min(MOST_PARTIES + 1)).map(peer).collect())
    }

    /// The peers in plan order.
    pub fn as_slice(&self) -> &[Peer] {
        &self.peers
    }

    /// The relays that are no peers.
    pub fn relays(&self) -> &[Relay] {
        &self.relays
    }

    /// The index of a name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.peers.iter().position(|peer| peer.name == name)
    }
}

/// The key of a simulated party. Everybody can compute it: for simulations and tests only.
pub fn simulated_keypair(party: usize) -> Keypair {
    let seed: [u8; 32] = Sha256::digest(format!("undertone/simulated-key/{party}")).into();
    Keypair::ed25519_from_bytes(seed).expect("any 32 bytes are an ed25519 seed")
}

/// Checks each entry, and all together, as [`Peers::parse`] does.
pub(crate) fn check_entries(peers: &[Peer]) -> Result<(), (usize, &'static str, PeerProblem)> {
    for (index, peer) in peers.iter().enumerate() {
        if !is_party_name(&peer.name) {
            return Err((index, "name", PeerProblem::Name));
        }
        if public_key(&peer.id).is_none() {
            return Err((index, "id", PeerProblem::Id));
        }
        for (key, address) in peer.contact.keyed() {
            address
                .check_reachable()
                .map_err(|problem| (index, key, problem))?;
        }
    }
    unique(peers)
}

/// Checks relays beside the peers: each is reached, and is nobody else.
pub(crate) fn check_relays(
    peers: &[Peer],
    relays: &[Relay],
) -> Result<(), (usize, &'static str, PeerProblem)> {
    if relays.len() > MOST_RELAYS {
        let found = relays.len();
        return Err((MOST_RELAYS, "name", PeerProblem::TooManyRelays { found }));
    }
    let mut ids: BTreeMap<_, _> = peers
        .iter()
        .map(|peer| (peer.id.to_bytes(), peer.name.clone()))
        .collect();
    for (index, relay) in relays.iter().enumerate() {
        if !is_party_name(&relay.name) {
            return Err((index, "name", PeerProblem::Name));
        }
        if public_key(&relay.id).is_none() {
            return Err((index, "id", PeerProblem::Id));
        }
        for address in &relay.at {
            address
                .check_reachable()
                .map_err(|problem| (index, "at", problem))?;
        }
        if let Some(earlier) = ids.insert(relay.id.to_bytes(), relay.name.clone()) {
            return Err((index, "id", PeerProblem::Duplicate { earlier }));
        }
    }
    Ok(())
}

/// Names, ids and addresses of all listeners must differ; a doubled one is a slip of copying.
fn unique(peers: &[Peer]) -> Result<(), (usize, &'static str, PeerProblem)> {
    let mut names = BTreeMap::new();
    let mut ids = BTreeMap::new();
    let mut addresses = BTreeMap::new();
    for (index, peer) in peers.iter().enumerate() {
        let duplicate = |key, earlier: usize| {
            let earlier = peers[earlier].name.clone();
            Err((index, key, PeerProblem::Duplicate { earlier }))
        };
        if let Some(earlier) = names.insert(&peer.name, index) {
            return duplicate("name", earlier);
        }
        if let Some(earlier) = ids.insert(peer.id.to_bytes(), index) {
            return duplicate("id", earlier);
        }
        for (key, address) in peer.contact.keyed() {
            if let Some(earlier) = addresses.insert(address, index) {
                return duplicate(key, earlier);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
