//! Keeps places at relays, for a node that others cannot dial.

use std::collections::BTreeSet;
use std::time::Duration;

use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
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
/// How often the list of relays is looked at, which the operator may change.
const LOOK: Duration = Duration::from_secs(1);

/// One that has an address keeps places, too, if no listed peer has come to it within this time:
/// its firewall may let nobody in.
const UNREACHED: Duration = Duration::from_secs(30);

/// One relay's place, kept by a task of its own.
struct KeptPlace {
    relay: PeerId,
    /// Whether the relay has us.
    held: watch::Receiver<bool>,
    /// Since when it has been asked in vain.
    since: Instant,
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
    loop {
        let order: Vec<PeerId> = carrier.relays.of(&own).into_iter().map(|r| r.peer).collect();
        let asked: BTreeSet<PeerId> = kept.iter().map(|kept| kept.relay).collect();
        for kept in &mut kept {
            if *kept.held.borrow() {
                kept.since = Instant::now();
            }
        }
        // One that has not taken us twice in a row counts for nobody: the next is asked, too.
        let good = kept
            .iter()
            .filter(|kept| order.contains(&kept.relay) && kept.since.elapsed() < 2 * PAUSE)
            .count();
        if good < PLACES
            && let Some(relay) = order.iter().find(|relay| !asked.contains(relay))
        {
            let (sender, held) = watch::channel(false);
            tasks.spawn(keep_place(carrier.clone(), *relay, sender));
            kept.push(KeptPlace {
                relay: *relay,
                held,
                since: Instant::now(),
            });
        }
        sleep(if good < PLACES && kept.len() < order.len() {
            PAUSE / 10
        } else {
            LOOK
        })
        .await;
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
