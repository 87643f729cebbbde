//! The parts of one entry of a peer list: addresses and ids, and what is wrong with them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use libp2p_identity::PeerId;
use thiserror::Error;

/// The most relays of a list beside its peers. Our choice: a party keeps places at two of them.
pub(crate) const MOST_RELAYS: usize = 16;

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

/// The problem of one entry.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PeerProblem {
    /// A name that is not `[a-z0-9-]{1,32}`.
    #[error("is not a usable name; use 1 to 32 of the characters a-z, 0-9 and -")]
    Name,
    /// Not the digest of a list.
    #[error("is not 64 of the signs 0-9 and a-f; take the line out of a list that is written by hand")]
    Digest,
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
    /// Two keys for one thing.
    #[error("stands beside private, which is at with one address; write one of them")]
    Twice,
    /// More addresses than are dialled at once.
    #[error("has {found} addresses, and at most {most} are dialled; keep those at which the others reach it")]
    TooManyAddresses {
        /// The number that was found.
        found: usize,
        /// The most there may be.
        most: usize,
    },
    /// A relay that nobody reaches.
    #[error("needs an address: the others reach each other through it; write at = [\"/dns/…/tcp/443\"]")]
    RelayNowhere,
    /// More relays than are tried.
    #[error("has {found} entries, and at most {MOST_RELAYS} are listed; each party uses two of them")]
    TooManyRelays {
        /// The number that was found.
        found: usize,
    },
    /// A name, an id or an address of an earlier peer.
    #[error("is the same as that of peer {earlier:?}; every peer needs its own")]
    Duplicate {
        /// Name of the earlier peer.
        earlier: String,
    },
}

/// A peer id, of which there is one spelling.
pub(crate) fn id(text: &str) -> Result<PeerId, (&'static str, PeerProblem)> {
    let id = text.parse::<PeerId>().ok();
    id.filter(|id| id.to_base58() == text)
        .ok_or(("id", PeerProblem::Id))
}
