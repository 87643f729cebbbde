//! The channel from tasks to the driver.

use tokio::sync::{mpsc, watch};

use crate::network::event::NetworkEvent;

/// The channel from tasks to the driver. Once the network shuts down nothing is reported any more.
#[derive(Clone)]
pub(super) struct Reports {
    pub(super) events: mpsc::Sender<NetworkEvent>,
    pub(super) stop: watch::Receiver<bool>,
}

impl Reports {
    /// Waits while the driver is behind.
    pub(super) async fn tell(&self, event: NetworkEvent) {
        tokio::select! {
            biased;
            () = self.shutdown() => {}
            _ = self.events.send(event) => {}
        }
    }

    /// Drops the event if the driver is behind.
    pub(super) fn try_tell(&self, event: NetworkEvent) {
        let _ = self.events.try_send(event);
    }

    pub(super) fn shutting_down(&self) -> bool {
        *self.stop.borrow() || self.stop.has_changed().is_err()
    }

    pub(super) async fn shutdown(&self) {
        let _ = self.stop.clone().wait_for(|stop| *stop).await;
    }
}
