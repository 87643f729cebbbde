//! Connections of a lobby whose other ends have not shown a token yet. Anybody can open one.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use libp2p::PeerId;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use undertone_protocol::messages::lobby::{TO_HOST_LIMIT, ToHost};
use undertone_protocol::messages::wire::lobbies::read_to_host;

use crate::network::group::{IncomingConnection, Secured, read_frame};

/// Connections without a token at once.
const PLACES: usize = 16;
/// How long one may take for its handshake and its token.
const PATIENCE: Duration = Duration::from_secs(10);

/// Somebody that asks for a seat; nothing of it was looked at.
pub(super) struct Asking {
    /// The key that it proved to hold.
    pub(super) id: PeerId,
    pub(super) token: [u8; 16],
    pub(super) lines: String,
    pub(super) secured: Secured,
}

/// All connections without a token. A newcomer finds a place, if need be that of the oldest of the
/// host that has most.
pub(super) struct Strangers {
    next: u64,
    places: BTreeMap<u64, (Option<IpAddr>, AbortHandle)>,
    to: mpsc::Sender<(u64, Option<Asking>)>,
}

impl Strangers {
    /// No connections yet. Each sends its result to `to` once: its number, and the request for a
    /// seat if there was one.
    pub(super) fn new(to: mpsc::Sender<(u64, Option<Asking>)>) -> Self {
        Strangers {
            next: 0,
            places: BTreeMap::new(),
            to,
        }
    }

    /// Gives a newcomer its place.
    pub(super) fn enter(&mut self, newcomer: IncomingConnection) {
        if self.places.len() >= PLACES
            && let Some(oldest) = self.gives_way()
        {
            self.leave(oldest);
        }
        let (number, to) = (self.next, self.to.clone());
        self.next += 1;
        let task = tokio::spawn(async move {
            let asking = timeout(PATIENCE, asking(newcomer.handshake)).await.ok().flatten();
            let _ = to.send((number, asking)).await;
        });
        self.places.insert(number, (newcomer.from, task.abort_handle()));
    }

    /// The oldest of the host that has most.
    fn gives_way(&self) -> Option<u64> {
        let mut hosts: BTreeMap<Option<IpAddr>, (usize, u64)> = BTreeMap::new();
        for (number, (host, _)) in &self.places {
            hosts.entry(*host).or_insert((0, *number)).0 += 1;
        }
        // Of several such hosts that of the oldest: an address is no reason.
        let most = hosts
            .into_values()
            .max_by_key(|(count, oldest)| (*count, Reverse(*oldest)));
        most.map(|(_, oldest)| oldest)
    }

    /// Ends its place, if it still has it.
    pub(super) fn leave(&mut self, number: u64) -> bool {
        let place = self.places.remove(&number);
        if let Some((_, task)) = &place {
            task.abort();
        }
        place.is_some()
    }
}

async fn asking(handshake: impl Future<Output = std::io::Result<(PeerId, Secured)>>) -> Option<Asking> {
    let (id, mut secured) = handshake.await.ok()?;
    let frame = read_frame(&mut secured, TO_HOST_LIMIT).await.ok()?;
    match read_to_host(&frame).ok()? {
        ToHost::Sit { token, lines } => Some(Asking {
            id,
            token,
            lines,
            secured,
        }),
        _ => None,
    }
}
