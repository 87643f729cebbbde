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
use crate::plan::peers::number::{ListDigest, list_digest};
use crate::plan::run_file::limits::MOST_PARTIES;
use crate::plan::values::Values;

pub mod contact;
pub mod difference;
pub mod entry;
pub mod number;
mod written;

/// One `[[peer]]` of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The peer's name, `[a-z0-9-]{1,32}`, unique.
    pub name: String,
    /// The id of its ed25519 key, unique.
    pub id: PeerId,
    /// Where it is reached.
    pub contact: Contact,
    /// The id of a second key, kept off the machine, that can revoke the first; nobody else's.
    pub recovery: Option<PeerId>,
}

/// The checked list: names, ids and addresses are unique. Its order is plan order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    follows: Option<ListDigest>,
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
    Setting::of_file(("", "follows"), None, (Values::Text("^[0-9a-f]{64}$", "64 of 0-9 and a-f"), ""),
        "the SHA-256 of the list that it takes the place of; lobbies write it"),
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
    Setting::of_file(("peer", "recovery"), None, (ID, ""),
        "[[peer]]: the id of its recovery key, which `undertone identity new --recovery FILE` makes").such_as(r#""12D3KooWQYhTNQdmr3ArTeUHRYzFg94BKyTkoWBDWez9kSCVe2Xo""#),
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
    follows: Option<String>,
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
    recovery: Option<String>,
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
        let recovery = self.recovery.as_deref().map(id).transpose();
        Ok(Peer {
            id: id(&self.id)?,
            contact: Contact::of_keys(private, self.at.as_deref(), public, self.relay)?,
            recovery: recovery.map_err(|(_, problem)| ("recovery", problem))?,
            name: self.name,
        })
    }
}

/// The entries of a file, checked but for their number.
struct Listed {
    follows: Option<ListDigest>,
    peers: Vec<Peer>,
    relays: Vec<Relay>,
}

impl Listed {
    fn parse(text: &str) -> Result<Self, PeersError> {
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
        let follows = raw.follows.as_deref().map(ListDigest::parse).transpose();
        let follows = follows.map_err(|problem| PeersError::Entry {
            line: lines.line("follows"),
            field: "follows".into(),
            problem,
        })?;
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
        Ok(Listed {
            follows,
            peers,
            relays,
        })
    }
}

impl Peers {
    /// Reads a peer list.
    pub fn parse(text: &str) -> Result<Self, PeersError> {
        let listed = Listed::parse(text)?;
        if !(3..=MOST_PARTIES).contains(&listed.peers.len()) {
            let found = listed.peers.len();
            return Err(PeersError::Count { found });
        }
        let Listed {
            follows,
            peers,
            relays,
        } = listed;
        Ok(Peers {
            follows,
            peers,
            relays,
        })
    }

    /// Reads a file that has relays only.
    ///
    /// # Errors
    /// As [`Peers::parse`], and [`PeersError::Count`] if there are peers.
    pub fn parse_relays(text: &str) -> Result<Vec<Relay>, PeersError> {
        let listed = Listed::parse(text)?;
        match listed.peers.len() {
            0 => Ok(listed.relays),
            found => Err(PeersError::Count { found }),
        }
    }

    /// Reads one `[[peer]]`, as [`Peer::to_toml`] writes it.
    ///
    /// # Errors
    /// As [`Peers::parse`], and [`PeersError::Count`] if it is not one.
    pub fn parse_peer(lines: &str) -> Result<Peer, PeersError> {
        let mut listed = Listed::parse(&format!("version = 1\n{lines}"))?;
        match (listed.peers.pop(), listed.peers.len()) {
            (Some(peer), 0) => Ok(peer),
            (_, found) => Err(PeersError::Count { found }),
        }
    }

    /// A list that a program made (`local`, `simulate`, tests), under the same rules.
    pub fn new(peers: Vec<Peer>) -> Result<Self, PeersError> {
        Peers::with_relays(peers, vec![])
    }

    /// A list that a program made, with relays, under the same rules.
    pub fn with_relays(peers: Vec<Peer>, relays: Vec<Relay>) -> Result<Self, PeersError> {
        if !(3..=MOST_PARTIES).contains(&peers.len()) {
            return Err(PeersError::Count { found: peers.len() });
        }
        let entry = |(field, problem): (String, PeerProblem)| PeersError::Entry {
            field,
            line: None,
            problem,
        };
        check_entries(&peers)
            .map_err(|(index, key, problem)| entry((format!("peer.{index}.{key}"), problem)))?;
        check_relays(&peers, &relays)
            .map_err(|(index, key, problem)| entry((format!("relay.{index}.{key}"), problem)))?;
        Ok(Peers {
            follows: None,
            peers,
            relays,
        })
    }

    /// This list as the one that takes the place of `old`.
    pub fn following(mut self, old: &Peers) -> Self {
        self.follows = Some(old.digest());
        self
    }

    /// The list that this one says it takes the place of.
    pub fn follows(&self) -> Option<ListDigest> {
        self.follows
    }

    /// Its own digest: that of the file as programs write it.
    pub fn digest(&self) -> ListDigest {
        ListDigest(list_digest(self.to_toml().as_bytes()))
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
            recovery: None,
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

    /// The recovery key of a listed peer or relay, if it has one; `None` of an id that is not
    /// listed.
    pub fn recovery_of(&self, id: &PeerId) -> Option<Option<PeerId>> {
        let peer = self.peers.iter().find(|peer| peer.id == *id);
        let relay = || self.relays.iter().any(|relay| relay.id == *id).then_some(None);
        peer.map(|peer| peer.recovery).or_else(relay)
    }

    /// The name of a listed peer or relay.
    pub fn name_of(&self, id: &PeerId) -> Option<&str> {
        let peers = self.peers.iter().map(|peer| (&peer.id, &*peer.name));
        let relays = self.relays.iter().map(|relay| (&relay.id, &*relay.name));
        let mut all = peers.chain(relays);
        all.find(|(listed, _)| *listed == id).map(|(_, name)| name)
    }

    /// Returns these parties without where they are reached.
    pub fn without_contacts(&self) -> Self {
        let peer = |peer: &Peer| Peer {
            contact: Contact::default(),
            ..peer.clone()
        };
        Peers {
            follows: None,
            peers: self.peers.iter().map(peer).collect(),
            relays: vec![],
        }
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
        if peer.recovery.is_some_and(|id| public_key(&id).is_none()) {
            return Err((index, "recovery", PeerProblem::Id));
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
        .flat_map(|peer| [Some(peer.id), peer.recovery].map(|id| (id, &peer.name)))
        .filter_map(|(id, name)| Some((id?.to_bytes(), name.clone())))
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
        // A key that anybody speaks with is nobody's recovery key.
        for (key, id) in [("id", Some(peer.id)), ("recovery", peer.recovery)] {
            if let Some(earlier) = id.and_then(|id| ids.insert(id.to_bytes(), index)) {
                return duplicate(key, earlier);
            }
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
