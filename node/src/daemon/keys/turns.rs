//! Whom to ask next for the statements that it holds. Time is an argument: nothing here waits.

use std::collections::BTreeMap;
use std::time::Duration;

use libp2p::PeerId;
use tokio::time::Instant;

/// Between the first two times that one is asked who does not answer.
const SOON: Duration = Duration::from_secs(1);

/// Between two such times at the latest. Our choice: who comes back asks by itself.
const SELDOM: Duration = Duration::from_secs(600);

/// Peers that are asked at the same time. Our choice: a list of hundreds is gone through in seconds
/// and holds no more connections than that.
const AT_ONCE: usize = 16;

/// The peers that are to be asked, and those that are being asked. Bounded by the list.
#[derive(Debug, Default)]
pub(super) struct Turns {
    due: BTreeMap<PeerId, (Instant, Duration)>,
    /// With the pause after a failure.
    asked: BTreeMap<PeerId, Duration>,
}

impl Turns {
    /// Asks these peers as soon as there is room, also those that are being asked: there is news.
    pub(super) fn all(&mut self, now: Instant, peers: impl IntoIterator<Item = PeerId>) {
        for peer in peers {
            self.due.insert(peer, (now, SOON));
        }
    }

    /// Asks one whose link has come up, unless that was the asking itself.
    pub(super) fn linked(&mut self, now: Instant, peer: PeerId) {
        if !self.asked.contains_key(&peer) {
            self.due.insert(peer, (now, SOON));
        }
    }

    /// Drops whoever is not listed any more.
    pub(super) fn retain(&mut self, listed: impl Fn(&PeerId) -> bool) {
        self.due.retain(|peer, _| listed(peer));
    }

    /// The next peer to ask now; whoever calls asks it, and says how that ended.
    pub(super) fn next(&mut self, now: Instant) -> Option<PeerId> {
        let free = self.asked.len() < AT_ONCE;
        let mut due = self.due.iter().filter(|_| free);
        let (&peer, &(_, pause)) =
            due.find(|(peer, (at, _))| *at <= now && !self.asked.contains_key(peer))?;
        self.due.remove(&peer);
        self.asked.insert(peer, pause);
        Some(peer)
    }

    /// A peer has answered, or has not.
    pub(super) fn done(&mut self, now: Instant, peer: PeerId, answered: bool) {
        let pause = self.asked.remove(&peer).unwrap_or(SOON);
        if !answered {
            let again = (now + pause, (2 * pause).min(SELDOM));
            self.due.entry(peer).or_insert(again);
        }
    }

    /// When [`Turns::next`] has somebody, if nobody who is being asked has answered until then.
    pub(super) fn wakes(&self) -> Option<Instant> {
        let waits = self.due.iter().filter(|(peer, _)| !self.asked.contains_key(peer));
        waits
            .map(|(_, (at, _))| *at)
            .min()
            .filter(|_| self.asked.len() < AT_ONCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_does_not_answer_is_asked_ever_more_seldom_and_who_answers_no_more() {
        let (mut turns, begun) = (Turns::default(), Instant::now());
        let [one, two] = [PeerId::random(), PeerId::random()];
        turns.all(begun, [one, two]);
        let mut asked = [turns.next(begun), turns.next(begun)];
        asked.sort();
        let mut both = [Some(one), Some(two)];
        both.sort();
        assert_eq!((asked, turns.next(begun)), (both, None));
        turns.done(begun, one, true);
        let (mut now, mut pauses) = (begun, vec![]);
        for _ in 0..12 {
            turns.done(now, two, false);
            let wakes = turns.wakes().unwrap();
            assert_eq!(turns.next(wakes - Duration::from_millis(1)), None);
            assert_eq!(turns.next(wakes), Some(two));
            pauses.push((wakes - now).as_secs());
            now = wakes;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
        turns.done(now, two, true);
        assert_eq!(turns.wakes(), None);
    }

    #[test]
    fn news_that_comes_meanwhile_is_asked_about_again_and_a_link_of_the_asking_is_not() {
        let (mut turns, now, peer) = (Turns::default(), Instant::now(), PeerId::random());
        turns.linked(now, peer);
        assert_eq!(turns.next(now), Some(peer));
        turns.linked(now, peer);
        turns.done(now, peer, true);
        assert_eq!(turns.next(now), None, "the link was that of the asking");
        turns.linked(now, peer);
        assert_eq!(turns.next(now), Some(peer));
        turns.all(now, [peer]);
        assert_eq!((turns.next(now), turns.wakes()), (None, None), "one at a time");
        turns.done(now, peer, true);
        assert_eq!(turns.next(now), Some(peer), "there was news");
    }

    #[test]
    fn few_are_asked_at_once_and_whoever_is_not_listed_is_forgotten() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        let peers: Vec<PeerId> = (0..40).map(|_| PeerId::random()).collect();
        turns.all(now, peers.clone());
        let asked: Vec<PeerId> = std::iter::from_fn(|| turns.next(now)).collect();
        assert_eq!((asked.len(), turns.wakes()), (AT_ONCE, None));
        turns.retain(|_| false);
        turns.done(now, asked[0], true);
        assert_eq!((turns.next(now), turns.wakes()), (None, None));
    }
}
