//! Keeps places at relays, for a node that others cannot dial.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::select_all;
use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::debug;

use crate::network::address;
use crate::network::carrier::Carrier;
use crate::network::command::SwarmCommand;

/// Relays at which a place is kept: losing one loses no link that is to be made.
const PLACES: usize = 2;
/// Pause before a relay that did not take us is asked again, for as long as [`OFTEN`].
const PAUSE: Duration = Duration::from_secs(1);
/// For how long a lost place is asked for each second: a relay that restarts is back by then.
const OFTEN: Duration = Duration::from_secs(5);
/// Longest pause.
const PAUSE_LIMIT: Duration = Duration::from_secs(60);
/// A relay that has not taken us for this long counts for nobody: the next is asked, too.
const IN_VAIN: Duration = Duration::from_secs(2);

/// One that has an address keeps places, too, if no listed peer has come to it within this time:
/// its firewall may let nobody in.
const UNREACHED: Duration = Duration::from_secs(30);

/// One relay's place, kept by a task of its own.
struct KeptPlace {
    relay: PeerId,
    /// Whether the relay has us.
    held: watch::Receiver<bool>,
    /// Whether it had us when that was last looked at.
    had: bool,
    /// Until when it is waited for, while it does not have us.
    until: Instant,
}

impl KeptPlace {
    /// Looks whether the relay has us; one that has lost us is waited for anew.
    fn look(&mut self) {
        let had = std::mem::replace(&mut self.had, *self.held.borrow_and_update());
        if had && !self.had {
            self.until = Instant::now() + IN_VAIN;
        }
    }

    fn is_good(&self) -> bool {
        self.had || Instant::now() < self.until
    }
}

/// Keeps places at the first two relays of our order that take us, for as long as it is polled; for
/// a node that others can dial it keeps none.
pub(super) async fn keep_places(carrier: Carrier, own: PeerId) {
    if carrier.announced {
        sleep(UNREACHED).await;
        if carrier.peer_table.is_reached() {
            return;
        }
    }
    let mut tasks = JoinSet::new();
    let mut kept: Vec<KeptPlace> = Vec::new();
    let mut listed = carrier.relays.changes();
    loop {
        listed.borrow_and_update();
        let order: Vec<PeerId> = carrier.relays.of(&own).into_iter().map(|r| r.peer).collect();
        kept.iter_mut().for_each(KeptPlace::look);
        let is_good = |kept: &&KeptPlace| order.contains(&kept.relay) && kept.is_good();
        let lacking = PLACES.saturating_sub(kept.iter().filter(is_good).count());
        let asked: BTreeSet<PeerId> = kept.iter().map(|kept| kept.relay).collect();
        let new = order.iter().filter(|relay| !asked.contains(relay)).take(lacking);
        for relay in new {
            let (sender, held) = watch::channel(false);
            tasks.spawn(keep_place(carrier.clone(), *relay, sender));
            kept.push(KeptPlace {
                relay: *relay,
                held,
                had: false,
                until: Instant::now() + IN_VAIN,
            });
        }
        let waiting = kept.iter().filter(|kept| !kept.had && kept.is_good());
        let next = waiting.map(|kept| kept.until).min();
        tokio::select! {
            _ = listed.changed() => {}
            () = any_changes(&mut kept) => {}
            () = async { sleep_until(next.unwrap_or_else(Instant::now)).await }, if next.is_some() => {}
        }
    }
}

/// Comes once a relay has taken us, or has us no longer.
async fn any_changes(kept: &mut [KeptPlace]) {
    let changes = kept.iter_mut().map(|kept| {
        Box::pin(async {
            // Its task is gone: nothing of it changes any more.
            if kept.held.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    });
    match changes.len() {
        0 => std::future::pending().await,
        _ => drop(select_all(changes).await),
    }
}

/// Asks one relay for a place, and again whenever it is lost.
async fn keep_place(carrier: Carrier, relay: PeerId, held: watch::Sender<bool>) {
    let (mut pause, mut lost) = (PAUSE, Instant::now());
    loop {
        if carrier.relays.has(&relay) {
            if reserve(&carrier, relay, &held).await {
                (pause, lost) = (PAUSE, Instant::now());
            }
            held.send_replace(false);
        }
        sleep(pause).await;
        if lost.elapsed() >= OFTEN {
            pause = (2 * pause).min(PAUSE_LIMIT);
        }
    }
}

/// Asks for a place and stays until it is lost; whether there was one.
async fn reserve(carrier: &Carrier, relay: PeerId, held: &watch::Sender<bool>) -> bool {
    if let Err(fault) = carrier.connect(relay).await {
        debug!(%relay, %fault, "no relay");
        return false;
    }
    let places = carrier.peer_table.places(&relay);
    let Some(place) = places.resolve(carrier.patience.dial).await.into_iter().next() else {
        return false;
    };
    let circuit: Multiaddr = address::to_multiaddr(place)
        .with(Protocol::P2p(relay))
        .with(Protocol::P2pCircuit);
    let (sender, mut taken) = watch::channel(false);
    let command = SwarmCommand::Reserve {
        relay,
        circuit,
        held: sender,
    };
    carrier.command(command).await;
    // However long it takes: libp2p gives up by itself, and breaks if it is hurried.
    if taken.wait_for(|taken| *taken).await.is_err() {
        debug!(%relay, "the relay has no place for us");
        return false;
    }
    held.send_replace(true);
    // Until the swarm drops its end.
    while taken.changed().await.is_ok() {}
    true
}
