//! The findings of all visits together: whether the run could work, and how long its rounds should
//! be.

use std::collections::{BTreeMap, BTreeSet};

use libp2p::PeerId;
use serde_json::{Value, json};
use undertone_protocol::messages::notice::Network;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::entry::Address;
use undertone_protocol::run::machine::Run;
use undertone_protocol::topology::party::Party;

use crate::commands::doctor::examine::{Answers, SilentRelay, Visit};
use crate::party::reaching;
use crate::reporting::failure::Exit;
use crate::reporting::report::Report;
use crate::reporting::table::{Table, number};

/// Clocks that differ by more are worth a word; no deadline of a run depends on them, only the
/// order of two starts of one node.
const CLOCK_MS: f64 = 5_000.0;
/// A proposed round is this many times as long as the slowest neighbour needs, …
const ROOM: f64 = 4.0;
/// … and this much longer: a lost packet costs at least 200 ms (RFC 6298, as Linux has it).
const RETRY_MS: f64 = 250.0;
/// It is a multiple of this.
const STEP_MS: f64 = 50.0;

pub(super) struct Findings<'a> {
    plan: &'a Plan,
    visits: Vec<Visit>,
    problems: Vec<String>,
    notes: Vec<String>,
    /// The time that a round takes.
    needed_ms: Option<f64>,
    /// The time that an agreement takes.
    needed_to_settle_ms: Option<f64>,
    exit: Exit,
}

impl<'a> Findings<'a> {
    pub(super) fn of(plan: &'a Plan, me: Party, visits: Vec<Visit>, silent: &[SilentRelay]) -> Self {
        let mut findings = Findings {
            plan,
            visits,
            problems: vec![],
            notes: vec![],
            needed_ms: None,
            needed_to_settle_ms: None,
            exit: Exit::Done,
        };
        let once = |texts: &mut Vec<String>, text: &String| {
            if !texts.contains(text) {
                texts.push(text.clone());
            }
        };
        for visit in &findings.visits {
            visit
                .problem
                .iter()
                .for_each(|problem| once(&mut findings.problems, problem));
            visit
                .notes
                .iter()
                .for_each(|note| once(&mut findings.notes, note));
        }
        findings.look_at_relays(silent);
        findings.look_at_clocks();
        findings.look_at_ourselves(me);
        findings.look_at_rounds();
        findings.look_at_settling(me);
        findings.exit = findings.verdict();
        findings
    }

    /// A relay that does not answer is a problem where there are parties that need one.
    fn look_at_relays(&mut self, silent: &[SilentRelay]) {
        let mut members = self.plan.draft().members.iter();
        let needed = members.any(|member| member.contact.at.is_empty());
        let texts = silent.iter().map(|SilentRelay { name, at, fault }| {
            format!(
                "relay {name} at {at}: {fault}; start it with this peer list or plan, or let the firewalls pass its port"
            )
        });
        match needed {
            true => self.problems.extend(texts),
            false => self.notes.extend(texts),
        }
    }

    /// Members with different peer lists cannot meet by a schedule, and may know another key by the
    /// same name.
    pub(super) fn look_at_lists(&mut self, ours: &[u8; 32]) {
        let differs = |visit: &&Visit| {
            let theirs = visit.answers.as_ref().and_then(|answers| answers.list);
            theirs.is_some_and(|theirs| theirs != *ours)
        };
        let others: BTreeSet<&str> = self
            .visits
            .iter()
            .filter(differs)
            .map(|visit| &*visit.subject.name)
            .collect();
        let text = |name: &str| {
            format!("{name} has another peer list: compare both files, or `undertone peers number` of them")
        };
        self.notes.extend(others.into_iter().map(text));
    }

    fn look_at_clocks(&mut self) {
        let mut apart: BTreeMap<&str, f64> = BTreeMap::new();
        for visit in &self.visits {
            if let Some(answers) = visit
                .answers
                .as_ref()
                .filter(|answers| answers.clock_ms.abs() > CLOCK_MS)
            {
                apart.insert(&visit.subject.name, answers.clock_ms);
            }
        }
        self.notes
            .extend(apart.into_iter().map(|(name, ms)| off(name, ms)));
    }

    /// Where others see us, if that is not where we are listed.
    fn look_at_ourselves(&mut self, me: Party) {
        let member = &self.plan.draft().members[me];
        let mut seen: BTreeMap<(String, &str), BTreeSet<&str>> = BTreeMap::new();
        for visit in &self.visits {
            let listed = match visit.subject.graph {
                Network::Private => &member.contact.at[..],
                Network::Public => member.contact.public.as_slice(),
            };
            // Of several addresses others may see any.
            let ([listed], Some(answers)) = (listed, &visit.answers) else {
                continue;
            };
            let host = listed
                .as_str()
                .rsplit_once("/tcp/")
                .map_or(listed.as_str(), |(host, _)| host);
            // A name may stand for many addresses, and this machine sees itself at its loopback.
            let comparable = host.starts_with("/ip")
                && !answers.seen.starts_with("/ip4/127.")
                && answers.seen != "/ip6/::1";
            if comparable && answers.seen != host && !answers.seen.is_empty() {
                seen.entry((answers.seen.clone(), host))
                    .or_default()
                    .insert(&visit.subject.name);
            }
        }
        let text = |((seen, host), by): ((String, &str), BTreeSet<&str>)| {
            let by: Vec<&str> = by.into_iter().collect();
            format!(
                "this node is listed at {host} but {} sees it at {seen}: \
                 if it is behind address translation, let the listed ports be forwarded to it, \
                 or list it without addresses; else correct the list",
                by.join(", ")
            )
        };
        self.notes.extend(seen.into_iter().map(text));
    }

    /// A round must fit a share there and its answer back.
    fn look_at_rounds(&mut self) {
        let share = share_bytes(self.plan) as f64;
        let private = self
            .visits
            .iter()
            .filter(|visit| visit.subject.graph == Network::Private);
        let needs = private.filter_map(|visit| {
            let answers = visit.answers.as_ref()?;
            Some(2.0 * answers.rtt_ms + share / answers.bytes_per_s? * 1e3)
        });
        self.needed_ms = needs.reduce(f64::max);
        let round_ms = self.plan.draft().run.round_ms as f64;
        if let Some(needed) = self.needed_ms.filter(|&needed| needed > round_ms) {
            self.problems.push(format!(
                "a round of {round_ms} ms is too short: the slowest neighbour needs {needed:.0} ms for a \
                 share and its answer; plan with run.round_ms = {}",
                proposed(needed)
            ));
        }
    }

    /// An agreement must fit everybody's items from the slowest neighbour, and words there and back
    /// across the public graph.
    fn look_at_settling(&mut self, me: Party) {
        let items = self.items_bytes();
        let far = self.plan.draft().public_graph.distances(me);
        let hops = far.into_iter().flatten().max().unwrap_or(1) as f64;
        let public = self
            .visits
            .iter()
            .filter(|visit| visit.subject.graph == Network::Public);
        let needs = public.filter_map(|visit| {
            let answers = visit.answers.as_ref()?;
            Some(2.0 * hops * answers.rtt_ms + items / answers.bytes_per_s? * 1e3)
        });
        self.needed_to_settle_ms = needs.reduce(f64::max);
        let settle_ms = self.plan.draft().run.settle_ms as f64;
        if let Some(needed) = self.needed_to_settle_ms.filter(|&needed| needed > settle_ms) {
            self.problems.push(format!(
                "an agreement of {settle_ms} ms is too short: everybody's items take {needed:.0} ms through \
                 the slowest neighbour; plan with run.settle_ms = {}",
                proposed(needed)
            ));
        }
    }

    /// Bytes of everybody's finals, or of what each enters into averaging and says of it.
    fn items_bytes(&self) -> f64 {
        let dimension = self.plan.draft().dimension() as f64;
        let bytes = match self.plan.terms() {
            None => f64::from(self.plan.lattice().final_bytes),
            Some(terms) => terms.expected_bytes as f64,
        };
        self.plan.parties() as f64 * dimension * bytes
    }

    fn settling(&self) -> Value {
        let how = format!(
            "{ROOM} x (2 round trips across the public graph + {:.0} bytes of everybody's items) with the \
             slowest public neighbour, + {RETRY_MS} ms for a lost packet",
            self.items_bytes()
        );
        json!({
            "planned": self.plan.draft().run.settle_ms,
            "needed": self.needed_to_settle_ms,
            "proposed": self.needed_to_settle_ms.map(proposed),
            "how": how,
        })
    }

    /// Returns the exit code, which depends on the parties that the run would have to do without.
    fn verdict(&self) -> Exit {
        let lost: BTreeSet<Party> = self
            .visits
            .iter()
            .filter(|visit| visit.problem.is_some())
            .map(|visit| visit.subject.party)
            .collect();
        let left = self.plan.parties() - lost.len();
        match () {
            () if left < self.plan.draft().run.min_parties => Exit::Aborted,
            () if !self.problems.is_empty() => Exit::Degraded,
            () => Exit::Done,
        }
    }

    fn rounds(&self) -> Value {
        let planned = self.plan.draft().run.round_ms;
        let how = format!(
            "{ROOM} x (2 round trips + a share of {} bytes) with the slowest private neighbour, \
             + {RETRY_MS} ms for a lost packet",
            share_bytes(self.plan)
        );
        json!({
            "planned": planned,
            "needed": self.needed_ms,
            "proposed": self.needed_ms.map(proposed),
            "how": how,
        })
    }

    pub(super) fn report(&self) -> Report {
        let peers: Vec<Value> = self.visits.iter().map(Visit::to_json).collect();
        let object = json!({
            "digest": self.plan.digest_hex(),
            "peers": peers,
            "problems": self.problems,
            "notes": self.notes,
            "round_ms": self.rounds(),
            "settle_ms": self.settling(),
            "exit_code": self.exit.code(),
        });
        Report {
            json: object,
            text: self.text(),
            exit: self.exit.code(),
        }
    }

    /// A relay's name in the plan.
    fn name_of(&self, relay: &PeerId) -> String {
        let draft = self.plan.draft();
        let members = draft.members.iter().map(|member| (&member.id, &member.name));
        let relays = draft.relays.iter().map(|relay| (&relay.id, &relay.name));
        let mut named = members.chain(relays).filter(|(id, _)| *id == relay);
        named
            .next()
            .map_or_else(|| relay.to_string(), |(_, name)| name.clone())
    }

    fn text(&self) -> String {
        let mut table = Table::with_headings([
            "peer",
            "graph",
            "at",
            "answers",
            "round trip",
            "MB/s",
            "clock",
            "plan",
        ]);
        for Visit {
            subject,
            problem,
            answers,
            relay,
            ..
        } in &self.visits
        {
            let of = |text: &dyn Fn(&Answers) -> String| answers.as_ref().map_or("-".into(), text);
            table.row([
                subject.name.clone(),
                subject.graph.to_string(),
                match relay {
                    Some(relay) => format!("relay {}", self.name_of(relay)),
                    None => reaching::shown(&subject.addresses),
                },
                match (problem, answers) {
                    (Some(_), _) => "no",
                    (None, Some(_)) => "yes",
                    (None, None) => "later",
                }
                .into(),
                of(&|answers| format!("{} ms", number(answers.rtt_ms))),
                of(&|answers| answers.bytes_per_s.map_or("-".into(), |rate| number(rate / 1e6))),
                of(&|answers| format!("{:+.0} ms", answers.clock_ms)),
                of(&|answers| answers.plan.clone().unwrap_or("not known".into())),
            ]);
        }
        // What a person should do something about, and what is only worth knowing.
        let mut text = format!("Plan {}\n\n{}", self.plan.digest_hex(), table.render());
        for (title, texts) in [("Problems", &self.problems), ("Notes", &self.notes)] {
            if !texts.is_empty() {
                text += &format!("\n{title}:\n");
                texts.iter().for_each(|one| text += &format!("  - {one}\n"));
            }
        }
        for (key, found) in [("round_ms", self.rounds()), ("settle_ms", self.settling())] {
            if let Some(proposed) = found["proposed"].as_f64() {
                let how = found["how"].as_str().unwrap_or_default();
                let planned = &found["planned"];
                text += &format!("\n{key}: {planned} planned, {proposed} proposed = {how}\n");
            }
        }
        text + match self.exit {
            Exit::Done => "\nThe run can work.\n",
            Exit::Degraded => "\nThe run could only end without somebody, or too slowly: see the problems.\n",
            _ => "\nThe run could not work: too few members can be reached.\n",
        }
    }
}

/// Bytes of one share on the wire, at most.
fn share_bytes(plan: &Plan) -> usize {
    let (_, private) = Run::frame_limits(plan);
    private
}

/// With room, and rounded up.
fn proposed(needed_ms: f64) -> f64 {
    ((ROOM * needed_ms + RETRY_MS) / STEP_MS).ceil() * STEP_MS
}

impl Visit {
    fn to_json(&self) -> Value {
        let answers = self.answers.as_ref();
        json!({
            "name": self.subject.name,
            "graph": self.subject.graph.to_string(),
            "addresses": self.subject.addresses.iter().map(Address::as_str).collect::<Vec<_>>(),
            "relay": self.relay.map(|relay| relay.to_string()),
            "problem": self.problem,
            "software": answers.map(|answers| &answers.software),
            "plan": answers.and_then(|answers| answers.plan.as_ref()),
            "seen": answers.map(|answers| &answers.seen),
            "rtt_ms": answers.map(|answers| answers.rtt_ms),
            "clock_ms": answers.map(|answers| answers.clock_ms),
            "bytes_per_s": answers.and_then(|answers| answers.bytes_per_s),
        })
    }
}

/// Whose clock is off, by how much and which way: `ms` is that clock minus ours.
fn off(name: &str, ms: f64) -> String {
    let way = if ms > 0.0 { "ahead of" } else { "behind" };
    format!(
        "the clock of {name} is {:.0} s {way} this one: let both be set by NTP",
        ms.abs() / 1e3
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_off_is_named_with_how_much_and_which_way() {
        assert!(off("bob", 65_400.0).starts_with("the clock of bob is 65 s ahead of this one"));
        assert!(off("bob", -3_000.0).starts_with("the clock of bob is 3 s behind this one"));
    }

    #[test]
    fn a_proposed_round_has_room_and_is_round() {
        assert_eq!(proposed(0.0), 250.0);
        assert_eq!(proposed(1.0), 300.0);
        assert_eq!(proposed(200.0), 1050.0);
    }
}
