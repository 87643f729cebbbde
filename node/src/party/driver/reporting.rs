//! Reports of a node to people on its run: events, log lines, and offences of peers.

use serde_json::json;
use undertone_protocol::messages::stage::Phase;
use undertone_protocol::run::outcome::Event;
use undertone_protocol::topology::party::Party;

use crate::network::dial_fault::DialFault;
use crate::party::driver::{Driver, OFFENCES_REPORTED};
use crate::reporting::logging::EVENTS;

impl Driver {
    pub(super) fn peer_event(&self, peer: Party, state: &str) {
        self.emit("peer", json!({ "peer": self.name(peer), "state": state }));
    }

    /// Reports why a party that has not come yet is waited for: its node is not started.
    pub(super) fn tell_refused(&self, peer: Party, place: &str) {
        let name = self.name(peer);
        tracing::info!("{name}: {place} refuses connections; it is waited for until it is started");
        self.peer_event(peer, "refuses connections");
    }

    /// Reports why a party is waited for that was dialled in vain.
    pub(super) fn tell_unanswered(&self, peer: Party, place: &str, fault: &DialFault) {
        let name = self.name(peer);
        let found = match fault {
            DialFault::NotAtRelay | DialFault::NoRelay => fault.to_string(),
            DialFault::Silent => format!("nothing answers at {place}"),
            other => format!("at {place}, {other}"),
        };
        tracing::warn!("{name}: {found}; `undertone doctor` says more");
        self.peer_event(peer, "nothing answers for it");
    }

    pub(super) fn emit(&self, event: &str, fields: serde_json::Value) {
        self.events.emit(self.name(self.me), event, fields);
    }

    pub(super) fn tell(&mut self, event: Event) {
        let progress = self.task.progress();
        let counts = json!({
            "accepted": progress.tally.accepted,
            "returned": progress.tally.returned,
            "unanswered": progress.tally.unanswered,
            "private_bytes": self.network.private_bytes(),
            "public_bytes": self.network.public_bytes(),
        });
        let with = |key: &str, value: serde_json::Value| {
            let mut fields = counts.clone();
            fields[key] = value;
            fields
        };
        match event {
            Event::Phase(phase) => {
                tracing::info!(target: EVENTS, phase = phase.name(), "phase");
                let mut fields = with("phase", phase.name().into());
                if phase == Phase::Mixing {
                    // All of START said so, perhaps through others.
                    self.network.everybody_is_up();
                    fields["without"] = self.names(&self.left_out()).join(", ").into();
                }
                self.emit("phase", fields);
            }
            Event::Ready(ready) => {
                tracing::debug!(ready, of = self.plan.parties(), "parties ready");
                self.emit("ready", json!({ "ready": ready }));
            }
            Event::Awaiting(parties) => self.tell_gathering(progress.ready, &parties),
            Event::Signed => {
                self.has_signed = true;
                self.emit("signed", json!({ "ready": progress.ready }));
            }
            Event::GivenUp(parties) => {
                self.has_signed = false;
                let names = self.names(&parties).join(", ");
                tracing::warn!(not_signed_by = names, "START is given up; going on without them");
                self.emit("given_up", json!({ "not_signed_by": names }));
            }
            Event::LeftOut(parties) => {
                self.left_out = true;
                let names = self.names(&parties).join(", ");
                self.emit("left_out", json!({ "signed_by": names }));
            }
            Event::Round(round) => {
                tracing::debug!(round, of = self.plan.mixing_rounds(), "round");
                self.emit("round", with("round", round.into()));
            }
            Event::Iteration(k) => {
                self.iteration_times.opened(self.now());
                tracing::debug!(iteration = k, of = self.plan.draft().releases(), "iteration");
                self.emit("iteration", with("k", k.into()));
            }
            Event::Sealed(bytes) => self.emit("sealed", json!({ "bytes": bytes })),
            Event::Closed { round, set } => {
                tracing::debug!(round, parties = set.len(), "the round's set is agreed");
            }
            Event::Opened(parties) => {
                let names = self.names(&parties);
                tracing::debug!(opened_for = names.join(", "), "opened");
                self.emit("opened", json!({ "names": names }));
            }
            Event::Fault(text) => self.fault(&text),
            Event::Offence { peer, text } => {
                let text = format!("{}: {text}", self.name(peer));
                self.offence(Some(peer), &text);
            }
            Event::Complete => self.complete = true,
        }
    }

    /// The members that are not in START.
    fn left_out(&self) -> Vec<Party> {
        let started = self.task.started();
        let parties = 0..self.plan.parties();
        let is_out = |party: &Party| started.is_some_and(|started| !started.contains(party));
        parties.filter(is_out).collect()
    }

    /// Reports how many are ready, and whose READY or signature the start waits for.
    fn tell_gathering(&self, ready: usize, awaited: &[Party]) {
        let names = self.names(awaited).join(", ");
        tracing::info!(target: EVENTS, ready, waiting_for = names, "gathering");
        let what = if self.has_signed { "signature" } else { "ready" };
        let fields = json!({ "ready": ready, "waiting_for": names, "awaited": what });
        self.emit("ready", fields);
    }

    /// Reports the parties that the present stage waits for, and how far slices are, when they have
    /// changed since somebody looked last.
    pub(super) fn tell_awaited(&mut self) {
        let awaited = (self.task.awaited(), self.task.slices());
        if awaited != self.awaited {
            let names = self.names(&awaited.0).join(", ");
            let stage = awaited
                .1
                .map_or("waiting".to_owned(), |slices| slices.to_string());
            tracing::info!(target: EVENTS, waiting_for = names, "{stage}");
            let slices = awaited.1.map(|slices| slices.to_string());
            self.emit("waiting", json!({ "waiting_for": names, "slices": slices }));
            self.awaited = awaited;
        }
    }

    pub(super) fn fault(&self, text: &str) {
        tracing::warn!("{text}");
        self.emit("fault", json!({ "text": text }));
    }

    /// Reports an offence; of a peer that keeps offending, only the first ones.
    pub(super) fn offence(&mut self, party: Option<Party>, text: &str) {
        let reported = self.offences.entry(party.unwrap_or(usize::MAX)).or_insert(0);
        *reported += 1;
        match *reported {
            n if n < OFFENCES_REPORTED => self.fault(text),
            OFFENCES_REPORTED => self.fault(&format!("{text} (further ones are not told)")),
            _ => {}
        }
    }
}
