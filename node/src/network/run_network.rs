//! A hub for one run.

use std::time::Duration;

use libp2p::Multiaddr;
use tokio::sync::mpsc;

use crate::network::config::{HubConfig, NetworkError, RunConfig};
use crate::network::event::NetworkEvent;
use crate::network::handle::Handle;
use crate::network::hub::{Attachment, Hub};

/// A hub for one run. Dropping it breaks all connections at once; [`RunNetwork::shutdown`] is the
/// polite way.
pub struct RunNetwork {
    hub: Hub,
    run: Attachment,
}

impl RunNetwork {
    /// Listens on both addresses and starts to connect. Must be called inside a tokio runtime with
    /// time and I/O. The driver must not stop taking events: a full channel holds back all edges.
    /// Peers that name another run receive this one's digest.
    pub async fn start(
        hub: HubConfig,
        run: RunConfig,
    ) -> Result<(RunNetwork, mpsc::Receiver<NetworkEvent>), NetworkError> {
        let (hub, run, events) = Hub::start_with(hub, run).await?;
        Ok((RunNetwork { hub, run }, events))
    }

    /// Returns the handle that the run sends its frames with.
    pub fn handle(&self) -> Handle {
        self.run.handle()
    }

    /// Where we listen on the private graph.
    pub fn private_address(&self) -> &Multiaddr {
        self.hub.private_address()
    }

    /// Where we listen on the public graph.
    pub fn public_address(&self) -> &Multiaddr {
        self.hub.public_address()
    }

    /// Writes what is queued for connected peers, waits until they have read it, and closes
    /// everything; after `patience` whatever is left is dropped. From the call on no events come,
    /// and what peers send is dropped. Returns whether all was written and read in time.
    pub async fn shutdown(self, patience: Duration) -> bool {
        let all = self.run.shutdown(patience).await;
        self.hub.shutdown().await;
        all
    }
}
