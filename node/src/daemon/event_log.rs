//! The events of a run: kept for later readers, and followed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::watch;

/// Events of one run that are kept for those who look later. A run has a few dozen; one with
/// hostile peers is cut at its beginning.
const MOST_EVENTS: usize = 4096;

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEvent {
    /// From 1, in order.
    pub id: u64,
    /// As `undertone join --events` writes it. No values, ever.
    pub fields: Value,
}

/// The events of a run, kept and followed.
#[derive(Clone, Debug)]
pub struct EventLog {
    kept: Arc<Mutex<VecDeque<RunEvent>>>,
    /// The id of the newest event, and whether it is the last one.
    newest: Arc<watch::Sender<(u64, bool)>>,
}

impl Default for EventLog {
    fn default() -> Self {
        EventLog {
            kept: Arc::default(),
            newest: Arc::new(watch::channel((0, false)).0),
        }
    }
}

impl EventLog {
    /// Adds an event to the log.
    pub fn push(&self, fields: Value) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let id = self.newest.borrow().0 + 1;
        if kept.len() == MOST_EVENTS {
            kept.pop_front();
        }
        kept.push_back(RunEvent { id, fields });
        // Still under the lock: ids are given out in order.
        self.newest.send_modify(|newest| newest.0 = id);
    }

    /// No more events will come.
    pub fn close(&self) {
        self.newest.send_modify(|newest| newest.1 = true);
    }

    /// Keeps the newest event only.
    pub fn forget(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = kept.pop_back();
        *kept = newest.into_iter().collect();
    }

    /// Those with ids above `after`, then new ones.
    pub fn follow(&self, after: u64) -> EventStream {
        EventStream {
            log: self.clone(),
            newest: self.newest.subscribe(),
            after,
        }
    }

    fn next_after(&self, after: u64) -> Option<RunEvent> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let first = kept.front()?.id;
        kept.get(usize::try_from(after.saturating_add(1).saturating_sub(first)).ok()?)
            .cloned()
    }
}

/// Follows one run's events.
#[derive(Debug)]
pub struct EventStream {
    log: EventLog,
    newest: watch::Receiver<(u64, bool)>,
    after: u64,
}

impl EventStream {
    /// The next event; None once the run is over and all were given. Waits without holding anything
    /// back: who is slow misses the oldest ones.
    pub async fn next(&mut self) -> Option<RunEvent> {
        loop {
            let over = self.newest.borrow_and_update().1;
            if let Some(event) = self.log.next_after(self.after) {
                self.after = event.id;
                return Some(event);
            }
            if over || self.newest.changed().await.is_err() {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_comes_late_gets_what_is_kept_and_then_the_rest() {
        let log = EventLog::default();
        for round in 0..MOST_EVENTS + 10 {
            log.push(round.into());
        }
        let mut late = log.follow(0);
        assert_eq!(late.next().await.unwrap().id, 11, "the oldest ten are gone");
        let mut from = log.follow((MOST_EVENTS + 9) as u64);
        assert_eq!(from.next().await.unwrap().fields, Value::from(MOST_EVENTS + 9));
        let writer = log.clone();
        let waiting = tokio::spawn(async move { (from.next().await, from.next().await) });
        writer.push("new".into());
        writer.close();
        let (new, end) = waiting.await.unwrap();
        assert_eq!((new.unwrap().fields, end), ("new".into(), None));
        assert_eq!(log.follow(u64::MAX).next().await, None);
        log.forget();
        let mut last = log.follow(0);
        assert_eq!(
            (last.next().await.unwrap().fields, last.next().await),
            ("new".into(), None)
        );
    }
}
