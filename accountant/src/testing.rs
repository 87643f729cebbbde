//! Drafts, plans and random runs for the tests of this crate.

use std::collections::BTreeSet;

use rand::rngs::ChaCha8Rng;
use rand::{Rng, RngExt, SeedableRng};
use undertone_protocol::messages::log::{AgreedLogs, Log, ReceivedEntry, SentEntry};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::parsed::RunFile;
use undertone_protocol::plan::run_file::records::RecordCounts;
use undertone_protocol::plan::run_file::settings::Unit;
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::multi_gossip::MultiGossip;
use undertone_protocol::topology::party::Party;

use crate::execution::checked::Execution;
use crate::execution::share::{Fate, ShareFault};
use crate::guarantee::choice::calibrate;
use crate::mechanism::chosen::Mechanism;
use crate::mechanism::inca::{CustomInjection, InjectionSpec, NamedInjection};

/// A draft of simulated parties from run-file lines; `name` and `shape` are added.
pub(crate) fn draft(parties: usize, lines: &str) -> Draft {
    draft_of(4, parties, lines)
}

/// A draft of vectors of `dimension` coordinates. Its correlated noise is Gaussian, as most of this
/// crate computes with, unless the lines name another.
pub(crate) fn draft_of(dimension: usize, parties: usize, lines: &str) -> Draft {
    let chosen = ["correlated =", "sums =", "pairwise"]
        .iter()
        .any(|key| lines.contains(key));
    let lines = match (chosen, lines.contains("[mechanism]")) {
        (true, _) => lines.to_owned(),
        (false, true) => lines.replacen("[mechanism]", "[mechanism]\ncorrelated = \"gaussian\"", 1),
        (false, false) => format!("{lines}\n[mechanism]\ncorrelated = \"gaussian\"\n"),
    };
    let task = match lines.contains("sums = ") {
        true => "stream",
        false => "mean",
    };
    let text = format!("name = \"test\"\ntask = \"{task}\"\n[data]\nshape = [{dimension}]\n{lines}");
    let mut file = RunFile::parse(&text, parties).unwrap_or_else(|error| panic!("{error}"));
    if file.data.unit == Unit::Record {
        file.data.records.get_or_insert(RecordCounts::exactly(20));
    }
    let peers = Peers::simulated(parties).unwrap_or_else(|error| panic!("{error}"));
    Draft::new(file, &peers, 7).unwrap_or_else(|error| panic!("{error}"))
}

/// A calibrated plan of simulated parties from run-file lines.
pub(crate) fn plan(parties: usize, lines: &str) -> Plan {
    plan_of(draft(parties, lines))
}

/// A calibrated plan of five simulated parties' training of three iterations.
pub(crate) fn training(lines: &str) -> Plan {
    let text = "name = \"test\"\ntask = \"regression\"\n[data]\nshape = [4]\n[model]\nloss = \"logistic\"\n\
                iterations = 3\n";
    let mut file = RunFile::parse(&format!("{text}{lines}"), 5).expect("a run file");
    file.data.records = Some(RecordCounts::exactly(20));
    let peers = Peers::simulated(5).expect("peers");
    plan_of(Draft::new(file, &peers, 7).expect("a draft"))
}

/// The calibrated plan of a draft.
pub(crate) fn plan_of(draft: Draft) -> Plan {
    let calibration = calibrate(&draft, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    Plan::assemble(draft, calibration, [7; 16]).unwrap_or_else(|error| panic!("{error}"))
}

/// Logs of these parties in which every share among them, and none other, arrived in its round.
pub(crate) fn logs(plan: &Plan, members: &[Party]) -> AgreedLogs {
    members
        .iter()
        .map(|&party| (party, log(plan, members, party)))
        .collect()
}

fn log(plan: &Plan, members: &[Party], party: Party) -> Log {
    let schedule = plan.exchanges();
    let rounds = 1..=plan.rounds();
    let due = rounds
        .clone()
        .flat_map(|round| schedule.sends_to(round, party).iter().map(move |&to| (round, to)));
    let sent = due
        .map(|(round, to)| SentEntry {
            round,
            to,
            left: members.contains(&to),
            answer: None,
        })
        .collect();
    let received = rounds
        .flat_map(|round| {
            schedule
                .receives_from(round, party)
                .into_iter()
                .map(move |from| (round, from))
        })
        .filter(|(_, from)| members.contains(from))
        .map(|(round, from)| ReceivedEntry {
            round,
            from,
            applied: round,
        })
        .collect();
    let gone = (0..plan.parties())
        .filter(|other| !members.contains(other))
        .collect();
    Log {
        party,
        sent,
        received,
        unreachable: gone,
        sealed: None,
    }
}

/// A power modulo a prime.
pub(crate) fn power(mut base: i128, mut exponent: i128, prime: i128) -> i128 {
    let mut product = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product = product * base % prime;
        }
        base = base * base % prime;
        exponent >>= 1;
    }
    product
}

/// Puts parties into a random order.
pub(crate) fn shuffle(list: &mut [Party], random: &mut ChaCha8Rng) {
    for last in (1..list.len()).rev() {
        list.swap(last, random.random_range(0..=last));
    }
}

/// A schedule in which everybody has `fanout(random)` random out-neighbours in each round.
pub(crate) fn random_out(
    parties: usize,
    rounds: u32,
    random: &mut ChaCha8Rng,
    fanout: impl Fn(&mut ChaCha8Rng) -> usize,
) -> Vec<Vec<Vec<Party>>> {
    let mut neighbours = |from: Party| {
        let mut others: Vec<Party> = (0..parties).filter(|&other| other != from).collect();
        shuffle(&mut others, random);
        others.truncate(fanout(random));
        others
    };
    (0..rounds)
        .map(|_| (0..parties).map(&mut neighbours).collect())
        .collect()
}

/// The paper's D_Inc or D_EI, or some other valid injection (c, Z).
pub(crate) fn random_injection(rounds: usize, random: &mut ChaCha8Rng) -> InjectionSpec {
    match random.random_range(0..3) {
        0 => InjectionSpec::Named(NamedInjection::Incremental),
        1 => InjectionSpec::Named(NamedInjection::Early),
        _ => {
            let mut c: Vec<f64> = (0..=rounds).map(|_| random.random_range(-1.0..1.0)).collect();
            c[rounds] += 1.0 - c.iter().sum::<f64>();
            // Each noise enters when its row comes, with a trace of the others: far from singular.
            let mut z: Vec<Vec<f64>> = (0..=rounds)
                .map(|t| {
                    (0..rounds)
                        .map(|k| f64::from(u8::from(t == k)) + random.random_range(-0.1..0.1))
                        .collect()
                })
                .collect();
            for k in 0..rounds {
                z[rounds][k] -= z.iter().map(|row| row[k]).sum::<f64>();
            }
            InjectionSpec::Custom(CustomInjection { c, z })
        }
    }
}

/// Random fates of shares: more and worse ones for those to and from `loose` parties; only these
/// lose any.
pub(crate) fn random_faults(
    run: &Execution,
    loose: &BTreeSet<Party>,
    random: &mut ChaCha8Rng,
) -> Vec<ShareFault> {
    let rounds = run.rounds() as u32;
    let mut faults = Vec::new();
    for round in 1..=rounds {
        for from in (0..run.parties()).filter(|&from| run.online(round, from)) {
            for &to in run.out(round, from) {
                let of_loose = loose.contains(&from) || loose.contains(&to);
                if !random.random_bool(if of_loose { 0.6 } else { 0.3 }) {
                    continue;
                }
                let fate = [Fate::Accepted, Fate::Returned, Fate::Lost]
                    [(random.next_u32() % if of_loose { 3 } else { 2 }) as usize];
                let taker = if fate == Fate::Accepted { to } else { from };
                let open: Vec<u32> = (round..=rounds)
                    .filter(|&applied| run.online(applied, taker))
                    .collect();
                if fate != Fate::Lost && open.is_empty() {
                    continue;
                }
                let applied = (fate != Fate::Lost).then(|| open[random.random_range(0..open.len())]);
                faults.push(ShareFault {
                    round,
                    from,
                    to,
                    fate,
                    applied,
                    seen: random.random_bool(0.7),
                });
            }
        }
    }
    faults
}

/// A random run with every fate, against a random coalition, some others taken out again: of INCA
/// with that mechanism for its rounds, or of PPSC if there is none. `absences`: some are away for a
/// while.
pub(crate) fn random_run(case: u64, absences: bool, inca: Option<&dyn Fn(usize) -> Mechanism>) -> Execution {
    let random = &mut ChaCha8Rng::seed_from_u64(case);
    let parties = random.random_range(4..=9);
    let run = match inca {
        None => {
            let rounds = random.random_range(3..=12);
            let gossip = MultiGossip::fitting(&Graph::complete(parties), rounds, case).expect("neighbours");
            Execution::fault_free(Mechanism::Ppsc, gossip.schedule().out().to_vec())
        }
        Some(mechanism) => {
            let rounds = random.random_range(1..=4);
            let out = random_out(parties, rounds, random, |_| 1);
            Execution::fault_free(mechanism(rounds as usize), out)
        }
    };
    let run = run.expect("a run");
    let mut online = vec![vec![true; parties]; run.rounds() + 1];
    if random.random_range(0..=2) == 0 && absences {
        let away = random.random_range(0..parties);
        (1..=run.rounds()).for_each(|round| online[round][away] = random.random_bool(0.5));
    }
    let here = online.last().cloned().unwrap_or_default();
    let run = run.with_online(online).expect("a run");
    let mut others: Vec<Party> = (0..parties).collect();
    shuffle(&mut others, random);
    let colluding = random.random_range(0..=2);
    let corrupted: BTreeSet<Party> = others.drain(..colluding).collect();
    let departed: Vec<Party> = others.drain(..random.random_range(0..=1)).collect();
    // Those who collude or depart lose shares, and at times somebody else.
    let mut loose: BTreeSet<Party> = corrupted.iter().chain(&departed).copied().collect();
    loose.extend(others.last().filter(|_| random.random_range(0..=3) == 0));
    let faults = random_faults(&run, &loose, random);
    let kept = faults.into_iter().filter(|_| random.random_bool(0.5)).collect();
    let unseen = random.random_range(0..=3) == 0;
    let published: Vec<Party> = (0..parties)
        .filter(|it| here[*it] && !departed.contains(it) && !(unseen && *it == others[0]))
        .collect();
    run.with_shares(kept)
        .and_then(|run| run.with_corrupted(corrupted))
        .and_then(|run| run.with_rolled_back(departed))
        .and_then(|run| run.with_published(published))
        .expect("an execution")
}

/// Returns the logs as they are if one share fares so.
pub(crate) fn with_fault(logs: &AgreedLogs, fault: &ShareFault) -> AgreedLogs {
    let mut logs = logs.clone();
    let applied = fault.applied.expect("given");
    let received = &mut logs.get_mut(&fault.to).expect("a member").received;
    let place = received
        .iter()
        .position(|entry| (entry.round, entry.from) == (fault.round, fault.from))
        .expect("due");
    match fault.fate {
        Fate::Accepted => {
            received[place] = ReceivedEntry {
                applied,
                ..received[place]
            }
        }
        _ => drop(received.remove(place)),
    }
    if fault.fate == Fate::Returned && applied == fault.round {
        let sent = &mut logs.get_mut(&fault.from).expect("a member").sent;
        sent.iter_mut()
            .find(|entry| entry.round == fault.round)
            .expect("sent")
            .left = false;
    }
    logs
}
