//! News of links: which listed peers have a connection now and had none before, for any number of
//! tasks that wait for it.

use std::collections::{BTreeMap, BTreeSet};

use libp2p::PeerId;
use tokio::sync::watch;

/// The last link of each peer, by its number among all links. Bounded by the list.
#[derive(Debug, Default)]
struct LastLinks {
    count: u64,
    of: BTreeMap<PeerId, u64>,
}

/// Where links are noted.
#[derive(Debug, Default)]
pub(crate) struct LinkLog(watch::Sender<LastLinks>);

impl LinkLog {
    /// Notes that a listed peer has a connection, and had none before.
    pub(crate) fn note(&self, peer: PeerId) {
        self.0.send_modify(|links| {
            links.count += 1;
            links.of.insert(peer, links.count);
        });
    }

    /// Forgets peers that are not listed any more.
    pub(super) fn retain(&self, is_listed: impl Fn(&PeerId) -> bool) {
        self.0.send_if_modified(|links| {
            links.of.retain(|peer, _| is_listed(peer));
            false
        });
    }

    /// News for one more who waits, beginning with the links that there were.
    pub(crate) fn news(&self) -> LinkNews {
        LinkNews {
            links: self.0.subscribe(),
            seen: 0,
        }
    }
}

/// News of links, for one who waits for them.
#[derive(Debug)]
pub struct LinkNews {
    links: watch::Receiver<LastLinks>,
    /// The number of the last link that was given out.
    seen: u64,
}

impl LinkNews {
    /// Waits for peers that have had a connection since the last call, and had none before; at the
    /// first call, since the hub began. For ever, once the hub is gone.
    pub async fn next(&mut self) -> BTreeSet<PeerId> {
        let seen = self.seen;
        let Ok(links) = self.links.wait_for(|links| links.count > seen).await else {
            return std::future::pending().await;
        };
        self.seen = links.count;
        let new = links.of.iter().filter(|(_, number)| **number > seen);
        new.map(|(peer, _)| *peer).collect()
    }

    /// Takes the links up to now for known.
    pub fn skip(&mut self) {
        self.seen = self.links.borrow_and_update().count;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn each_who_waits_hears_of_each_link_once_and_a_list_that_changes_loses_none() {
        let [one, two] = [PeerId::random(), PeerId::random()];
        let links = LinkLog::default();
        let (mut first, mut second) = (links.news(), links.news());
        assert!(first.next().now_or_never().is_none());
        links.note(one);
        links.note(two);
        links.note(one);
        for news in [&mut first, &mut second] {
            assert_eq!(news.next().await, [one, two].into());
            assert!(news.next().now_or_never().is_none());
        }
        // Who comes later hears of those who are still listed.
        links.retain(|peer| *peer == two);
        assert_eq!(links.news().next().await, [two].into());
        // One that is listed anew is news, although it was before.
        links.note(one);
        assert_eq!(first.next().await, [one].into());
        second.skip();
        assert!(second.next().now_or_never().is_none());
        links.note(two);
        assert_eq!(second.next().await, [two].into());
        drop(links);
        assert!(second.next().now_or_never().is_none());
    }
}
