//! Anti-entropy: when a node that waits compares what it holds with a neighbour, and with which
//! one.
//!
//! What travels along the [`trees`](crate::agreement::trees) may be lost: somebody on the way is
//! gone, or a liar. So a node that waits for something in public, and has heard no news for a
//! while, sends one neighbour a summary of what it holds; that one sends what is missing. The
//! neighbours take turns, more and more slowly while none has any news. A liar that keeps something
//! to itself so costs a turn, and nothing is lost that an honest neighbour has.

use std::collections::{BTreeMap, BTreeSet};

use crate::time::Time;
use crate::topology::party::Party;

/// The longest wait between two turns, in shares of the shortest. Our guess: what nobody has now
/// will hardly be lost on its way later.
const LONGEST: u64 = 16;

/// So long an answer is waited for, in shares of the shortest wait, before the next one is asked.
/// Our guess.
const ANSWER: u64 = 4;

/// Number of neighbours asked at once where something is known to be missing. Our guess: of a
/// party that died while it spoke, most have heard what it said.
const AT_ONCE: u32 = 3;

/// The turns of neighbours in anti-entropy, and when the next one is due.
pub struct AntiEntropy {
    /// The neighbour that was asked last and has not answered.
    asked: Option<Party>,
    /// The number of neighbours still to be asked without a wait.
    at_once: u32,
    patience_ms: u64,
    wait_ms: u64,
    next: Time,
    /// The neighbour that was asked last, or this node.
    last: Party,
    /// The number of unanswered questions to each neighbour over its present connection.
    unanswered: BTreeMap<Party, u32>,
    /// Neighbours that have answered all questions, where this node waits for that.
    informed_by: Option<BTreeSet<Party>>,
}

impl AntiEntropy {
    /// Has asked nobody yet; neighbours after `me` are asked first. Patience is a share of
    /// `settle_ms` (our guess: 1/32, several times a message's way through a wide-area network).
    pub fn new(me: Party, settle_ms: u64, now: Time) -> Self {
        let patience_ms = (settle_ms / 32).max(1);
        AntiEntropy {
            asked: None,
            at_once: 0,
            patience_ms,
            wait_ms: patience_ms,
            next: now.plus_millis(patience_ms),
            last: me,
            unanswered: BTreeMap::new(),
            informed_by: None,
        }
    }

    /// All neighbours are about to be asked: who has not answered until now counts only with the
    /// answer to that.
    pub fn begin_round(&mut self) {
        self.informed_by = Some(BTreeSet::new());
    }

    /// Whether a question to all is under way.
    pub fn asks_everybody(&self) -> bool {
        self.informed_by.is_some()
    }

    /// This neighbour is asked.
    pub fn asked(&mut self, peer: Party) {
        *self.unanswered.entry(peer).or_insert(0) += 1;
    }

    /// A connection is new, or lost: nothing that was asked over the one before is answered.
    pub fn reconnected(&mut self, peer: Party) {
        self.unanswered.remove(&peer);
    }

    /// Whether more neighbours than may lie, or all that are connected, have sent what was missing
    /// since all were asked. Then that is over.
    pub fn is_informed(&mut self, connected: &BTreeSet<Party>, colluding: usize) -> bool {
        let Some(by) = &self.informed_by else {
            return true;
        };
        let all = !connected.is_empty() && connected.is_subset(by);
        let informed = all || by.len() > colluding;
        if informed {
            self.informed_by = None;
        }
        informed
    }

    /// There is news.
    pub fn news(&mut self, now: Time) {
        self.wait_ms = self.patience_ms;
        // While an answer is on its way nobody else is asked.
        if self.asked.is_none() {
            self.next = now.plus_millis(self.wait_ms);
        }
    }

    /// A neighbour has sent all that was missing.
    pub fn answered(&mut self, now: Time, peer: Party) {
        let unanswered = self.unanswered.get(&peer).copied().unwrap_or(0).saturating_sub(1);
        self.unanswered.insert(peer, unanswered);
        // An answer to an earlier question says nothing of what came after it.
        if unanswered == 0
            && let Some(by) = &mut self.informed_by
        {
            by.insert(peer);
        }
        if self.asked == Some(peer) {
            self.asked = None;
            self.next = now.plus_millis(self.wait_ms);
        }
    }

    /// Begins anew: nobody is asked before a wait, and patience is a share of this `settle_ms` from
    /// now on.
    pub fn restart(&mut self, now: Time, settle_ms: u64) {
        self.patience_ms = (settle_ms / 32).max(1);
        self.asked = None;
        self.news(now);
    }

    /// Something is known to be missing: some are asked at once.
    pub fn hurry(&mut self, now: Time) {
        self.news(now);
        self.at_once = AT_ONCE;
    }

    /// Returns the neighbour to ask now, if it is time and anybody is connected.
    pub fn turn(&mut self, now: Time, connected: &BTreeSet<Party>) -> Option<Party> {
        if self.at_once > 0 {
            self.at_once -= 1;
        } else if now < self.next {
            return None;
        } else {
            self.wait_ms = (2 * self.wait_ms).min(LONGEST * self.patience_ms);
        }
        // Whoever is slow is not helped by others that send the same; whoever is silent is not
        // waited for without end.
        self.next = now.plus_millis(self.wait_ms.max(ANSWER * self.patience_ms));
        let after = connected.range(self.last + 1..).next();
        let peer = *after.or_else(|| connected.first())?;
        self.last = peer;
        self.asked = Some(peer);
        self.asked(peer);
        Some(peer)
    }

    /// Whether several were asked one after another, and none had any news.
    pub fn has_asked_around(&self) -> bool {
        self.wait_ms >= LONGEST * self.patience_ms
    }

    /// Returns the moment of the next turn.
    pub fn wake(&self) -> Time {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn neighbours_take_turns_more_slowly_while_there_is_no_news() {
        let near = BTreeSet::from([0, 2, 5]);
        let mut anti_entropy = AntiEntropy::new(2, 320, Time::ZERO);
        let mut turns = Vec::new();
        for ms in 0..800 {
            if let Some(peer) = anti_entropy.turn(at(ms), &near) {
                turns.push((ms, peer));
                anti_entropy.answered(at(ms), peer);
            }
        }
        let expected = [
            (10, 5),
            (30, 0),
            (70, 2),
            (150, 5),
            (310, 0),
            (470, 2),
            (630, 5),
            (790, 0),
        ];
        assert_eq!(turns, expected);
        anti_entropy.news(at(1000));
        assert_eq!(anti_entropy.wake(), at(1010));
        assert_eq!(anti_entropy.turn(at(1010), &BTreeSet::new()), None);
    }

    #[test]
    fn who_is_slow_is_waited_for_and_who_is_silent_not_for_ever() {
        let near = BTreeSet::from([1, 2]);
        let mut anti_entropy = AntiEntropy::new(0, 320, Time::ZERO);
        assert_eq!(anti_entropy.turn(at(10), &near), Some(1));
        anti_entropy.news(at(12));
        anti_entropy.answered(at(13), 2);
        assert_eq!(anti_entropy.turn(at(49), &near), None);
        assert_eq!(anti_entropy.turn(at(50), &near), Some(2));
        anti_entropy.answered(at(51), 2);
        assert_eq!(anti_entropy.wake(), at(71), "without news since");
    }

    #[test]
    fn some_are_asked_at_once_where_something_is_missing() {
        let near = BTreeSet::from([0, 2, 5]);
        let mut anti_entropy = AntiEntropy::new(2, 320, Time::ZERO);
        anti_entropy.hurry(at(1));
        let asked: Vec<_> = (0..5).map(|_| anti_entropy.turn(at(1), &near)).collect();
        assert_eq!(asked, [Some(5), Some(0), Some(2), None, None]);
    }

    /// An answer to an earlier question says nothing of what came after it.
    #[test]
    fn who_asks_everybody_is_informed_by_answers_to_all_that_it_asked() {
        let near = BTreeSet::from([0, 1, 3]);
        let mut anti_entropy = AntiEntropy::new(2, 320, Time::ZERO);
        assert!(anti_entropy.is_informed(&near, 1), "nothing was asked");
        assert_eq!(anti_entropy.turn(at(10), &near), Some(3));
        anti_entropy.begin_round();
        near.iter().for_each(|&peer| anti_entropy.asked(peer));
        anti_entropy.answered(at(11), 3);
        anti_entropy.answered(at(12), 0);
        assert!(
            !anti_entropy.is_informed(&near, 1),
            "the first answer of 3 is to an older question"
        );
        anti_entropy.reconnected(1);
        anti_entropy.asked(1);
        assert!(!anti_entropy.is_informed(&near, 1));
        anti_entropy.answered(at(13), 3);
        assert!(anti_entropy.is_informed(&near, 1), "two, of whom one may lie");
        anti_entropy.begin_round();
        assert!(
            !anti_entropy.is_informed(&BTreeSet::new(), 1),
            "nobody is connected"
        );
        anti_entropy.asked(0);
        anti_entropy.answered(at(14), 0);
        assert!(
            anti_entropy.is_informed(&BTreeSet::from([0]), 1),
            "all that are connected"
        );
    }
}
