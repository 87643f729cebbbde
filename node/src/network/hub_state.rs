//! The state that all clones of a hub share, and all that is attached to it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use libp2p::Multiaddr;
use libp2p::identity::Keypair;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use undertone_protocol::messages::notice::Network;

use crate::network::ask::Asked;
use crate::network::carrier::Carrier;
use crate::network::config::Patience;
use crate::network::metered::Meters;

/// The state that all clones of a hub share.
pub(super) struct HubState {
    pub(super) key: Keypair,
    pub(super) version: u32,
    pub(super) patience: Patience,
    pub(super) private: Side,
    pub(super) public: Side,
    /// The bytes that a relay passes on.
    pub(super) meters: Option<Meters>,
    pub(super) runs: Mutex<BTreeSet<[u8; 32]>>,
    pub(super) swarms: Mutex<JoinSet<()>>,
    /// The channel to the code that answers what the hub cannot.
    pub(super) asked: Arc<Mutex<Option<mpsc::Sender<Asked>>>>,
    /// SHA-256 of this node's peer list, if it has one.
    pub(super) list: watch::Sender<Option<[u8; 32]>>,
}

/// One graph's swarm, from outside of its task.
pub(super) struct Side {
    pub(super) graph: Network,
    pub(super) carrier: Carrier,
    /// The first address at which it listens, or an empty one.
    pub(super) address: Multiaddr,
}
