//! Connections that come and go, and what goes wrong with nodes.

use super::*;

impl Simulation<'_> {
    pub(super) fn connect(&mut self, network: Network, ends: (Party, Party)) {
        let down = |party: Party| matches!(self.nodes[party].status, Status::Down);
        if down(ends.0) || down(ends.1) {
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
                        input: Input::Gone { peer },
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
                    let at = self.after_latency();
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
