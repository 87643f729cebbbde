//! Connections that come and go, and what goes wrong with nodes.

use super::*;
use crate::simulator::network::{SEGMENT_BYTES, leaves};

const BOTH: [Network; 2] = [Network::Private, Network::Public];

impl Simulation<'_> {
    pub(super) fn connect(&mut self, network: Network, ends: (Party, Party)) {
        let down = |party: Party| matches!(self.nodes[party].status, Status::Down);
        if down(ends.0) || down(ends.1) {
            return;
        }
        let dark_until = self.dark_until(network, ends);
        if dark_until > self.now {
            // Nobody's handshake comes through.
            if dark_until < Time::FAR {
                self.schedule(dark_until, Occurrence::Connect { network, ends });
            }
            return;
        }
        if self.links.connect(network, ends) {
            for (party, peer) in [ends, (ends.1, ends.0)] {
                self.happen(Occurrence::Input {
                    party,
                    input: Input::Connected { network, peer },
                });
            }
        }
    }

    pub(super) fn break_link(&mut self, network: Network, ends: (Party, Party), refuses: Option<Party>) {
        let broken = self.links.disconnect(network, ends);
        for (party, peer) in [ends, (ends.1, ends.0)] {
            if broken {
                self.happen(Occurrence::Input {
                    party,
                    input: Input::Disconnected { network, peer },
                });
            }
            if refuses == Some(peer) {
                let at = self.after_latency();
                self.schedule(
                    at,
                    Occurrence::Input {
                        party,
                        input: Input::Unreachable { peer },
                    },
                );
            }
        }
    }

    pub(super) fn go_wrong(&mut self, fault: Fault) {
        match fault {
            Fault::Crash { party, .. } => {
                self.nodes[party].status = Status::Down;
                for (network, ends) in self.links.edges_of(party) {
                    // That it closes is not heard through a black hole.
                    let at = self.after_latency().max(self.dark_until(network, ends));
                    self.schedule(
                        at,
                        Occurrence::Break {
                            network,
                            ends,
                            refuses: Some(party),
                        },
                    );
                }
            }
            Fault::Silence { party, .. } => self.nodes[party].status = Status::Down,
            Fault::Suspend { party, for_ms, .. } => {
                if matches!(self.nodes[party].status, Status::Up) {
                    self.nodes[party].status = Status::Suspended(VecDeque::new());
                    self.schedule(self.now.plus_millis(for_ms), Occurrence::Resume(party));
                }
            }
            Fault::Cut {
                network,
                ends,
                for_ms,
                ..
            } => self.cut(network, ends, for_ms),
            Fault::Partition { group, for_ms, .. } => {
                for (network, ends) in self.links.edges() {
                    if group.contains(&ends.0) != group.contains(&ends.1) {
                        self.cut(network, ends, for_ms);
                    }
                }
            }
            Fault::BlackHole {
                network,
                from,
                to,
                for_ms,
                ..
            } => {
                let until = self.now.plus_millis(for_ms);
                let dark = BOTH
                    .into_iter()
                    .filter(|it| network.is_none_or(|only| only == *it));
                dark.for_each(|network| self.links.darken(network, from, to, until));
            }
            Fault::ClockJump { party, by_ms, .. } => self.jump(party, by_ms),
            Fault::Loss {
                from,
                to,
                share,
                for_ms,
                ..
            } => {
                let until = self.now.plus_millis(for_ms);
                let senders = (0..self.nodes.len()).filter(|party| from.is_none_or(|only| only == *party));
                for (sender, network) in senders.flat_map(|sender| BOTH.map(|network| (sender, network))) {
                    self.links.lose(network, (sender, to), share, until);
                }
            }
        }
    }

    /// Returns the moment until which something is lost in one of an edge's directions at least.
    pub(super) fn dark_until(&self, network: Network, (a, b): (Party, Party)) -> Time {
        let there = self.links.dark_until(network, a, b);
        there.max(self.links.dark_until(network, b, a))
    }

    /// Returns the additional delay of a frame by losses, in nanoseconds; `u64::MAX`: it never
    /// leaves.
    pub(super) fn delay(&mut self, network: Network, (from, to): (Party, Party), bytes: usize) -> u64 {
        let dark_until = self.links.dark_until(network, from, to);
        let loss = self.links.loss(network, from, to, self.now);
        let (now, rng) = (self.now, &mut self.rng);
        // Nothing is drawn where nothing is lost.
        let mut is_lost = || loss > 0.0 && rng.random_bool(loss);
        let segments = 0..bytes.div_ceil(SEGMENT_BYTES).max(1);
        let last = segments.map(|_| leaves(now, dark_until, &mut is_lost)).max();
        last.map_or(0, |last| match last {
            Time::FAR => u64::MAX,
            last => last.since(now),
        })
    }

    /// A node has its outcome; it stays for the others' sake, as a driver does.
    pub(super) fn ended(&mut self, party: Party, outcome: Outcome) {
        let until = self.nodes[party].task.others_end(&outcome, self.clock(party));
        self.nodes[party].outcome = Some((self.now, outcome));
        let until = self.when(party, until);
        self.schedule(until, Occurrence::Depart(party));
    }

    /// A node leaves: what it has sent arrives, then its connections close.
    pub(super) fn depart(&mut self, party: Party) {
        self.nodes[party].status = Status::Down;
        for (network, ends) in self.links.edges_of(party) {
            let peer = if ends.0 == party { ends.1 } else { ends.0 };
            let sent = self.links.last_arrival(network, party, peer);
            let at = self.after_latency().max(sent);
            let at = at.max(self.links.dark_until(network, party, peer));
            self.schedule(
                at,
                Occurrence::Break {
                    network,
                    ends,
                    refuses: Some(party),
                },
            );
        }
    }

    pub(super) fn cut(&mut self, network: Network, ends: (Party, Party), for_ms: u64) {
        self.break_link(network, ends, None);
        self.schedule(
            self.now.plus_millis(for_ms),
            Occurrence::Connect { network, ends },
        );
    }
}
