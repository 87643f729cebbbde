//! One neighbour on one graph: who is there, and how far away.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use libp2p::PeerId;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::{ECHO_LIMIT, Question, Reply};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::entry::Address;
use undertone_protocol::topology::party::Party;

use crate::network::ask::{AskFault, Closed, Inquiry};
use crate::network::dial_fault::DialFault;
use crate::network::hub::Hub;
use crate::network::offence::Offence;
use crate::party::reaching;

/// Checks that are timed; the fastest counts.
const PROBES: usize = 5;

/// Times that a silent neighbour is asked. A connection attempt with two lost packets outlasts the
/// default patience of 3 s (TCP sends again after 1 s and 3 s): at a loss of 5 % each way that is
/// one attempt in a hundred, and three in a row are one in a million.
const ATTEMPTS: usize = 3;

/// A neighbour on one graph, and where it is listed.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) party: Party,
    pub(super) name: String,
    pub(super) peer: PeerId,
    pub(super) graph: Network,
    /// Where it is listed on this graph; nowhere, if nobody can dial it there.
    pub(super) addresses: Vec<Address>,
    /// Where it is listed on the other graph.
    pub(super) others: Vec<Address>,
}

/// A neighbour that was visited, and what was found.
pub(super) struct Visit {
    pub(super) subject: Subject,
    /// The problem with this edge, in a sentence that says what to do.
    pub(super) problem: Option<String>,
    /// Notes that are of interest although they are no problem.
    pub(super) notes: Vec<String>,
    pub(super) answers: Option<Answers>,
    /// The relay over which it answered.
    pub(super) relay: Option<PeerId>,
}

/// The answers of the peer, and how fast they came.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    pub(super) software: String,
    pub(super) plan: Option<String>,
    pub(super) seen: String,
    /// SHA-256 of its peer list, if it has one and was asked over Noise.
    pub(super) list: Option<[u8; 32]>,
    pub(super) rtt_ms: f64,
    /// The peer's clock minus ours, to within half a round trip.
    pub(super) clock_ms: f64,
    /// There and back, in bytes a second.
    pub(super) bytes_per_s: Option<f64>,
}

/// Asks who answers at a neighbour's address.
pub(super) async fn visit(hub: &Hub, plan: &Plan, subject: Subject) -> Visit {
    let mut visit = Visit {
        subject,
        problem: None,
        notes: vec![],
        answers: None,
        relay: None,
    };
    let mut found = visit.ask(hub, plan).await;
    for _ in 1..ATTEMPTS {
        if !matches!(found, Err(AskFault::Dial(DialFault::Silent) | AskFault::Silent)) {
            break;
        }
        found = visit.ask(hub, plan).await;
    }
    match found {
        Ok(answers) => {
            if answers.plan.is_none() && visit.problem.is_none() {
                visit.notes.push(format!(
                    "{} does not know this plan yet: hand it over before the run",
                    visit.subject.name
                ));
            }
            if answers.plan.as_deref() == Some("over") {
                let name = &visit.subject.name;
                visit.problem = Some(format!(
                    "{name} has had its part in this plan, or withdrew: a plan is run once; make a new one"
                ));
            }
            visit.answers = Some(answers);
            visit.look_at_the_way(hub).await;
        }
        Err(AskFault::Dial(DialFault::NoRelay)) if visit.subject.addresses.is_empty() => {
            let name = &visit.subject.name;
            visit.notes.push(format!(
                "{name} has no address: it dials this node once it runs, and nothing can be asked before"
            ));
        }
        Err(fault) => visit.problem = Some(visit.subject.problem(hub, plan, &fault).await),
    }
    visit
}

/// A relay of the plan that does not answer.
pub(super) struct SilentRelay {
    pub(super) name: String,
    pub(super) at: String,
    pub(super) fault: AskFault,
}

/// Asks all relays that are no parties whether they answer.
pub(super) async fn silent_relays(hub: &Hub, plan: &Plan) -> Vec<SilentRelay> {
    let asked = plan.draft().relays.iter().map(|relay| async {
        let question = Question::Check { digest: None };
        let answer = hub.ask(Network::Private, relay.id, &question, &[]).await;
        answer.err().map(|fault| SilentRelay {
            name: relay.name.clone(),
            at: reaching::shown(&relay.at),
            fault,
        })
    });
    futures::future::join_all(asked)
        .await
        .into_iter()
        .flatten()
        .collect()
}

/// Times a few checks; returns the digest of another plan that the peer runs instead.
/// How far a clock is ahead of ours, in ms: it said `time_ms` in the middle of a round trip of
/// `rtt_ms` that began at `asked` by ours. Within half the round trip.
fn ahead(time_ms: u64, asked: f64, rtt_ms: f64) -> f64 {
    time_ms as f64 - (asked + rtt_ms / 2.0)
}

async fn check(inquiry: &mut Inquiry, plan: &Plan) -> Result<(Answers, Option<[u8; 32]>), AskFault> {
    let mut best: Option<(Answers, Option<[u8; 32]>)> = None;
    for _ in 0..PROBES {
        let (asked, asked_at) = (now_ms(), Instant::now());
        let (reply, _) = inquiry
            .ask(
                &Question::Check {
                    digest: Some(*plan.digest()),
                },
                &[],
            )
            .await?;
        let rtt_ms = asked_at.elapsed().as_secs_f64() * 1e3;
        let Reply::Checked {
            software,
            time_ms,
            plan,
            other,
            seen,
            list,
            ..
        } = reply
        else {
            return Err(Closed::OtherReply.into());
        };
        let clock_ms = ahead(time_ms, asked, rtt_ms);
        if best.as_ref().is_none_or(|(best, _)| rtt_ms < best.rtt_ms) {
            best = Some((
                Answers {
                    software,
                    plan,
                    seen,
                    list,
                    rtt_ms,
                    clock_ms,
                    bytes_per_s: None,
                },
                other,
            ));
        }
    }
    best.ok_or(AskFault::Silent)
}

fn now_ms() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
        * 1e3
}

impl Visit {
    /// Asks once; the connection of an answer is kept for [`Visit::measure`].
    async fn ask(&mut self, hub: &Hub, plan: &Plan) -> Result<Answers, AskFault> {
        let mut inquiry = hub.inquire(self.subject.graph, self.subject.peer).await?;
        let (answers, other) = check(&mut inquiry, plan).await?;
        self.problem = other.map(|digest| self.subject.another_plan(plan, &digest));
        Ok(answers)
    }

    /// One that has addresses and answers over a relay only is no problem, but could be faster.
    async fn look_at_the_way(&mut self, hub: &Hub) {
        let Subject {
            graph,
            peer,
            ref name,
            ..
        } = self.subject;
        self.relay = hub.relay_to(&peer).filter(|_| graph == Network::Private);
        if self.relay.is_some() && !self.subject.addresses.is_empty() {
            let at = reaching::shown(&self.subject.addresses);
            self.notes.push(format!(
                "{name} answers over a relay, and not at {at}: let its firewall take TCP there, or take the address out of the peer list"
            ));
        }
    }

    /// Sends a mebibyte there and back; again if that fails: where packets are lost, one of them
    /// may be lost so often that nothing moves for as long as a peer waits.
    pub(super) async fn measure(&mut self, hub: &Hub) {
        let Some(answers) = &mut self.answers else {
            return;
        };
        let mut found = self.subject.echo(hub).await;
        for _ in 1..ATTEMPTS {
            if found.is_ok() {
                break;
            }
            found = self.subject.echo(hub).await;
        }
        match found {
            Ok(Some(took)) => {
                let moving = (took.as_secs_f64() - answers.rtt_ms / 1e3).max(1e-6);
                answers.bytes_per_s = Some(2.0 * ECHO_LIMIT as f64 / moving);
            }
            Ok(None) => {
                self.problem = Some(format!(
                    "{} does not send back what it was sent: update its software",
                    self.subject.name
                ))
            }
            Err(fault) => {
                let Subject { name, graph, .. } = &self.subject;
                self.problem = Some(format!(
                    "{name} answers on the {graph} graph, but 1 MiB there and back failed ({fault}): \
                     the way to it is too slow or drops long transfers"
                ));
            }
        }
    }
}

impl Subject {
    /// How long a mebibyte takes there and back; none if something else comes back. On a stream of
    /// its own: a peer closes one on which nothing was asked while others were visited.
    async fn echo(&self, hub: &Hub) -> Result<Option<Duration>, AskFault> {
        let mut inquiry = hub.inquire(self.graph, self.peer).await?;
        let bytes = vec![0x5a; ECHO_LIMIT];
        let begun = Instant::now();
        let (reply, back) = inquiry.ask(&Question::Echo, &bytes).await?;
        let echoed = matches!(reply, Reply::Echoed) && back == bytes;
        Ok(echoed.then(|| begun.elapsed()))
    }

    fn another_plan(&self, plan: &Plan, digest: &[u8; 32]) -> String {
        let theirs: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!(
            "{} runs another plan: its digest is {theirs}, this one's is {}: agree on one file",
            self.name,
            plan.digest_hex()
        )
    }

    /// One sentence on what is wrong and what to do.
    async fn problem(&self, hub: &Hub, plan: &Plan, fault: &AskFault) -> String {
        let Subject { name, graph, .. } = self;
        let address = reaching::shown(&self.addresses);
        match fault {
            AskFault::Dial(fault) => self.dial_problem(hub, plan, fault).await,
            AskFault::Offence(Offence::OtherVersion { theirs, ours }) => {
                let older = if theirs < ours { name.as_str() } else { "this node" };
                format!(
                    "{name} speaks version {theirs} of the protocol, this node version {ours}: update {older}"
                )
            }
            AskFault::Offence(offence) => format!(
                "who answers at {address} as {name} ({graph} graph) cannot prove it: it {offence}; \
                 somebody else may hold that address"
            ),
            AskFault::Closed(reason) => {
                format!(
                    "{name} takes no questions on the {graph} graph ({reason}): \
                     its software is older, update it"
                )
            }
            other => {
                format!("{name} at {address} ({graph} graph): {other}; its node may be overloaded, try again")
            }
        }
    }

    /// One sentence on a fault where the peer is dialled.
    async fn dial_problem(&self, hub: &Hub, plan: &Plan, fault: &DialFault) -> String {
        let Subject { name, graph, .. } = self;
        let address = reaching::shown(&self.addresses);
        match fault {
            DialFault::NotAtRelay => format!(
                "{name} has no address that answers, and no relay has it: start its node, and let it reach a relay of the peer list"
            ),
            DialFault::NoRelay => format!(
                "{name} has no address, and no relay of the peer list answers: start one, or correct its address"
            ),
            DialFault::Refused => format!(
                "{name} refuses connections at {address} ({graph} graph): \
                 start its node, or correct the port in the peer list"
            ),
            DialFault::Closed => format!(
                "{name} took the connection to {address} ({graph} graph) and closed it: its node may \
                 be overloaded or under attack, or another program listens there; look at its log"
            ),
            DialFault::Silent => format!(
                "nothing answers at {address} ({name}, {graph} graph): check that the host is up, \
                 that the address is right, and that no firewall keeps TCP out"
            ),
            DialFault::Unknown => {
                format!(
                    "the host in {address} ({name}, {graph} graph) has no address: \
                     correct its name in the peer list"
                )
            }
            DialFault::OtherPeer(found) => {
                let members = &plan.draft().members;
                let who = match members.iter().find(|member| member.id == *found) {
                    Some(member) => format!("{} ({found})", member.name),
                    None => found.to_string(),
                };
                format!(
                    "{who} answers at {address} ({graph} graph), not {name} ({}): \
                     correct the id or the address in the peer list",
                    self.peer
                )
            }
            DialFault::NotOurs(reason) if self.is_swapped(hub).await => {
                format!(
                    "the private and public addresses of {name} are swapped: \
                     exchange them in the peer list ({address} is not its {graph} one: {reason})"
                )
            }
            DialFault::NotOurs(reason) => {
                format!(
                    "what answers at {address} ({name}, {graph} graph) is no undertone node: \
                     correct the port ({reason})"
                )
            }
        }
    }

    /// Whether the peer is found for this graph at its address for the other one.
    async fn is_swapped(&self, hub: &Hub) -> bool {
        for other in reaching::parse_all(&self.others) {
            if hub.reach(self.graph, self.peer, &other).await.is_ok() {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_says_a_later_time_than_ours_is_ahead() {
        // Asked at 1,000 ms, answered at 1,040 ms: by our clock it was 1,020 ms there.
        assert_eq!(ahead(1_020, 1_000.0, 40.0), 0.0);
        assert_eq!(ahead(6_020, 1_000.0, 40.0), 5_000.0);
        assert_eq!(ahead(520, 1_000.0, 40.0), -500.0);
    }
}
