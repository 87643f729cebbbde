//! `peers.toml`: who takes part, in plan order.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use libp2p_identity::{KeyType, Keypair, PeerId, PublicKey};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::plan::defaults::Setting;
use crate::plan::lines::{Lines, line_at};
use crate::plan::run_file::limits::MOST_PARTIES;
use crate::plan::values::Values;

/// A TCP address in multiaddr form: `/ip4/192.0.2.1/tcp/7001`, `/ip6/…`, `/dns/…` (also `/dns4`,
/// `/dns6`). Kept as written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(String);

/// Text that is no such address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{found:?} is not an address ({why}); write it like /ip4/192.0.2.1/tcp/7001, /ip6/2001:db8::1/tcp/7001 or /dns/example.org/tcp/7001"
)]
pub struct AddressError {
    found: String,
    why: &'static str,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let refuse = |why| AddressError {
            found: text.chars().take(80).collect(),
            why,
        };
        let parts: Vec<&str> = text.split('/').collect();
        let &["", family, host, "tcp", port] = parts.as_slice() else {
            return Err(refuse("it needs five parts: /FAMILY/HOST/tcp/PORT"));
        };
        let host_fine = match family {
            "ip4" => host.parse::<Ipv4Addr>().is_ok(),
            "ip6" => host.parse::<Ipv6Addr>().is_ok(),
            "dns" | "dns4" | "dns6" => is_host_name(host),
            _ => return Err(refuse("the family must be ip4, ip6 or dns")),
        };
        if !host_fine {
            return Err(refuse("the host does not belong to the family"));
        }
        // No sign, no leading zeros: one address has one spelling.
        match port.parse::<u16>() {
            Ok(number) if number > 0 && number.to_string() == port => Ok(Address(text.to_string())),
            _ => Err(refuse("the port must be from 1 to 65535")),
        }
    }
}

fn is_host_name(host: &str) -> bool {
    let label_fine = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host.len() <= 253 && host.split('.').all(label_fine)
}

impl Address {
    /// The address as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Refuses an address at which a node may listen but that nobody can dial: 0.0.0.0 and :: are
    /// every address of the machine that uses them, a multicast or broadcast address is of many.
    ///
    /// # Errors
    /// [`PeerProblem::Nowhere`].
    pub fn check_reachable(&self) -> Result<(), PeerProblem> {
        // Names are not looked up here, and one that is a number is one.
        let host = self
            .0
            .split('/')
            .nth(2)
            .and_then(|host| host.parse::<IpAddr>().ok());
        let of_nobody = match host.map(|ip| ip.to_canonical()) {
            Some(IpAddr::V4(ip)) => ip.octets()[0] == 0 || ip.is_multicast() || ip.is_broadcast(),
            Some(IpAddr::V6(ip)) => ip.is_unspecified() || ip.is_multicast(),
            None => false,
        };
        match of_nobody {
            false => Ok(()),
            true => Err(PeerProblem::Nowhere {
                address: self.0.clone(),
            }),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One `[[peer]]` of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The peer's name, `[a-z0-9-]{1,32}`, unique.
    pub name: String,
    /// The id of its ed25519 key, unique.
    pub id: PeerId,
    /// The address for connections of private neighbours.
    pub private: Address,
    /// The address for connections from public neighbours, and from everybody else.
    pub public: Address,
}

/// The checked list: names, ids and addresses are unique. Its order is plan order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers(Vec<Peer>);

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

/// The problem of one entry.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PeerProblem {
    /// A name that is not `[a-z0-9-]{1,32}`.
    #[error("is not a usable name; use 1 to 32 of the characters a-z, 0-9 and -")]
    Name,
    /// Not the id of an ed25519 key.
    #[error("is not the id of an ed25519 key; paste the lines that `undertone identity` prints")]
    Id,
    /// A text that is not an address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// An address at which a node may listen, and that leads nobody to it.
    #[error(
        "is {address}, which leads to no peer: 0.0.0.0 and :: are every address of the machine that uses them; write the one at which the others reach this peer, and let its node listen at that or say listen in its node.toml"
    )]
    Nowhere {
        /// The address in the list.
        address: String,
    },
    /// A name, an id or an address of an earlier peer.
    #[error("is the same as that of peer {earlier:?}; every peer needs its own")]
    Duplicate {
        /// Name of the earlier peer.
        earlier: String,
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
        "[[peer]]: where it listens for private neighbours").such_as(r#""/ip4/192.0.2.1/tcp/7001""#),
    Setting::of_file(("peer", "public"), None, (ADDRESS, ""),
        "[[peer]]: where it listens for everybody, on another port").such_as(r#""/ip4/192.0.2.1/tcp/7002""#),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPeers {
    version: u32,
    #[serde(default)]
    peer: Vec<RawPeer>,
}

/// A peer as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPeer {
    name: String,
    id: String,
    private: String,
    public: String,
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
        // One id has one spelling.
        let id = self
            .id
            .parse::<PeerId>()
            .ok()
            .filter(|id| id.to_base58() == self.id)
            .ok_or(("id", PeerProblem::Id))?;
        let private = self
            .private
            .parse::<Address>()
            .map_err(|e| ("private", e.into()))?;
        let public = self.public.parse::<Address>().map_err(|e| ("public", e.into()))?;
        Ok(Peer {
            name: self.name,
            id,
            private,
            public,
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
        Ok(Peers(peers))
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
        Ok(Peers(peers))
    }

    /// `parties` peers `party-0`, `party-1`, … for simulations and tests, with the keys of
    /// [`simulated_keypair`] and addresses that nobody listens on.
    pub fn simulated(parties: usize) -> Result<Self, PeersError> {
        let address = |family, party: usize| Address(format!("/{family}/party-{party}.invalid/tcp/7001"));
        let peer = |party| Peer {
            name: format!("party-{party}"),
            id: simulated_keypair(party).public().to_peer_id(),
            private: address("dns4", party),
            public: address("dns6", party),
        };
        Peers::new((0..parties.min(MOST_PARTIES + 1)).map(peer).collect())
    }

    /// The peers in plan order.
    pub fn as_slice(&self) -> &[Peer] {
        &self.0
    }

    /// The index of a name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|peer| peer.name == name)
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
        for (key, address) in [("private", &peer.private), ("public", &peer.public)] {
            address
                .check_reachable()
                .map_err(|problem| (index, key, problem))?;
        }
    }
    unique(peers)
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
        for (key, address) in [("private", &peer.private), ("public", &peer.public)] {
            if let Some(earlier) = addresses.insert(address, index) {
                return duplicate(key, earlier);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
