//! Connections at once, and who gives way once all places are taken. Tower sees requests, and these
//! have none yet.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::{HeaderMap, StatusCode};
use tokio::sync::Notify;

use crate::daemon::api::problem::Problem;
use crate::daemon::refusal::{Kind, Refusal};

/// Connections on which nobody has shown the token. Each may hold a head of 64 KiB. Our choice: an
/// attacker has to open as many while a client's head is on its way.
const STRANGERS: usize = 512;
/// Connections on which somebody has; each may hold 64 KiB in each direction.
const KNOWN: usize = 384;

/// Where a connection comes from; `None` for the Unix socket.
type Origin = Option<IpAddr>;

#[derive(Debug, Default)]
struct Places {
    next: u64,
    strangers: BTreeMap<u64, Stranger>,
    known: usize,
}

#[derive(Debug)]
struct Stranger {
    origin: Origin,
    /// It has asked something that anybody may, and is being answered.
    asks: bool,
    sent_away: Arc<Notify>,
}

impl Places {
    /// The oldest stranger that is silent of the origin that has most of them: who opens many
    /// connections takes the places of its own. Who is being answered goes soon anyway.
    fn who_gives_way(&self) -> Option<u64> {
        let oldest = |asks: bool| {
            let mut origins: BTreeMap<Origin, (usize, u64)> = BTreeMap::new();
            for (number, stranger) in self
                .strangers
                .iter()
                .filter(|(_, stranger)| stranger.asks == asks)
            {
                origins.entry(stranger.origin).or_insert((0, *number)).0 += 1;
            }
            let most = origins.into_values().max_by_key(|(count, _)| *count);
            most.map(|(_, oldest)| oldest)
        };
        oldest(false).or_else(|| oldest(true))
    }
}

/// Everybody who is connected. A newcomer always gets a place: if need be that of a stranger.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionLimiter(Arc<Mutex<Places>>);

impl ConnectionLimiter {
    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stranger's place.
    pub(super) fn enter(&self, origin: Origin) -> ConnectionPermit {
        let mut places = self.places();
        if places.strangers.len() >= STRANGERS
            && let Some(oldest) = places.who_gives_way()
            && let Some(stranger) = places.strangers.remove(&oldest)
        {
            stranger.sent_away.notify_one();
        }
        let (number, sent_away) = (places.next, Arc::new(Notify::new()));
        places.next += 1;
        let stranger = Stranger {
            origin,
            asks: false,
            sent_away: sent_away.clone(),
        };
        places.strangers.insert(number, stranger);
        drop(places);
        ConnectionPermit(Arc::new(LimitedConnection {
            connection_limiter: self.clone(),
            number,
            here: is_here(origin),
            sent_away,
            known: Mutex::new(false),
        }))
    }
}

/// The headers that proxies add to the requests that they pass on (RFC 7239, RFC 9110, and older
/// customs).
const FORWARDED: [&str; 4] = ["forwarded", "via", "x-forwarded-for", "x-real-ip"];

/// Whether it is this machine.
fn is_here(origin: Origin) -> bool {
    origin.is_none_or(|address| address.to_canonical().is_loopback())
}

#[derive(Debug)]
struct LimitedConnection {
    connection_limiter: ConnectionLimiter,
    number: u64,
    here: bool,
    sent_away: Arc<Notify>,
    known: Mutex<bool>,
}

impl Drop for LimitedConnection {
    fn drop(&mut self) {
        let known = *self.known.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut places = self.connection_limiter.places();
        places.strangers.remove(&self.number);
        places.known -= usize::from(known);
    }
}

/// One connection's place, for as long as a clone of this lives.
#[derive(Clone, Debug)]
pub(super) struct ConnectionPermit(Arc<LimitedConnection>);

impl ConnectionPermit {
    /// Comes when the place is somebody else's.
    pub(super) async fn sent_away(&self) {
        self.0.sent_away.notified().await;
    }

    /// Refuses what is this node's owner's alone to whoever asks from another machine, through a
    /// proxy on this one, too.
    pub(super) fn is_owners(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let forwarded = FORWARDED.iter().any(|name| headers.contains_key(*name));
        if self.0.here && !forwarded {
            return Ok(());
        }
        let what = "estimates from sums over neighbourhoods are for this node's owner alone: together with \
                    those of others they tell more than the plan says";
        let refused = Problem::new(StatusCode::FORBIDDEN, "owners-alone", what).field("digest");
        Err(refused.hint(
            "ask on the daemon's own machine, at 127.0.0.1 or its socket; of a plan with \
             mechanism.sums = \"everybody\" all have the same, and anybody may read it",
        ))
    }

    /// Whether it has asked something that is being answered.
    pub(super) fn asks(&self, asks: bool) {
        if let Some(stranger) = self
            .0
            .connection_limiter
            .places()
            .strangers
            .get_mut(&self.0.number)
        {
            stranger.asks = asks;
        }
    }

    /// The token was shown: from now on no stranger takes this place. Refused if all places of
    /// those who have the token are taken.
    pub(super) fn is_known(&self) -> Result<(), Problem> {
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        if *known {
            return Ok(());
        }
        let mut places = self.0.connection_limiter.places();
        if places.known >= KNOWN {
            let what = format!("{KNOWN} connections with the token are open");
            return Err(Problem::from(Refusal::new(Kind::Unavailable, what))
                .hint("use one connection for several requests, or close those that are done"));
        }
        places.known += 1;
        places.strangers.remove(&self.0.number);
        *known = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_sent_away(visit: &ConnectionPermit) -> bool {
        futures::FutureExt::now_or_never(visit.sent_away()).is_some()
    }

    #[test]
    fn a_newcomer_takes_the_place_of_the_oldest_of_the_crowd() {
        let connection_limiter = ConnectionLimiter::default();
        let source = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
        let lonely = connection_limiter.enter(source(1));
        let crowd: Vec<ConnectionPermit> = (1..STRANGERS)
            .map(|_| connection_limiter.enter(source(2)))
            .collect();
        let newcomer = connection_limiter.enter(source(3));
        assert!(is_sent_away(&crowd[0]));
        // Who is being answered stays as long as others are silent.
        crowd[1].asks(true);
        let another = connection_limiter.enter(source(3));
        assert!(is_sent_away(&crowd[2]));
        let others = crowd[3..].iter().chain([&crowd[1], &lonely, &newcomer, &another]);
        assert!(!others.into_iter().any(is_sent_away));
        // A place that was left is free.
        drop(crowd);
        let again: Vec<ConnectionPermit> = (3..STRANGERS).map(|_| connection_limiter.enter(None)).collect();
        assert!(!again.iter().chain([&lonely]).any(is_sent_away));
    }

    #[test]
    fn owners_answers_are_given_on_this_machine_only() {
        let connection_limiter = ConnectionLimiter::default();
        let reported = |origin: &str| {
            let origin = (!origin.is_empty()).then(|| origin.parse().unwrap());
            connection_limiter
                .enter(origin)
                .is_owners(&HeaderMap::new())
                .is_ok()
        };
        for here in ["", "127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"] {
            assert!(reported(here), "{here}");
        }
        for elsewhere in ["10.0.0.1", "172.17.0.1", "::ffff:10.0.0.1", "fe80::1", "0.0.0.0"] {
            assert!(!reported(elsewhere), "{elsewhere}");
        }
        for name in FORWARDED {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), "10.0.0.1".parse().unwrap())]);
            assert!(
                connection_limiter.enter(None).is_owners(&headers).is_err(),
                "{name}"
            );
        }
    }

    #[test]
    fn who_has_the_token_keeps_its_place_and_there_are_so_many_of_these() {
        let connection_limiter = ConnectionLimiter::default();
        let known: Vec<ConnectionPermit> = (0..KNOWN).map(|_| connection_limiter.enter(None)).collect();
        assert!(known.iter().all(|visit| visit.is_known().is_ok()));
        let flood: Vec<ConnectionPermit> = (0..3 * STRANGERS)
            .map(|_| connection_limiter.enter(None))
            .collect();
        assert!(!known.iter().any(is_sent_away));
        assert!(known[0].is_known().is_ok(), "its place is its own");
        let last = flood.last().unwrap();
        assert_eq!(last.is_known().unwrap_err().status, 503);
        drop(known);
        assert!(last.is_known().is_ok());
    }
}
