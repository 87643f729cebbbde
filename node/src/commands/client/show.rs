//! The daemon's objects as text for people.

use serde::Serialize;
use serde_json::Value;

use crate::daemon::keys::store::RevokedKey;
use crate::daemon::ledger::now_ms;
use crate::daemon::schedule::schedule_status::ScheduleStatus;
use crate::daemon::status::{OfferStatus, PeerStatus, Reachability, RunState, RunStatus, Status};
use crate::planning::deadlines;
use crate::reporting::date::utc;
use crate::reporting::table::{Table, bytes, number};

/// An object of the API as `--json` prints it.
pub(super) fn object(of: &impl Serialize) -> Value {
    serde_json::to_value(of).expect("the API's objects are plain")
}

/// Enough of a digest to name it again.
pub(super) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

fn word(state: &impl Serialize) -> String {
    object(state).as_str().unwrap_or_default().to_owned()
}

fn epsilon(value: Option<f64>, unbounded: bool) -> String {
    if unbounded {
        "unbounded".into()
    } else {
        value.map_or("–".into(), number)
    }
}

/// Where it is, in a few words.
fn progress(run: &RunStatus) -> String {
    match (&run.phase, run.round, &run.outcome) {
        (_, _, Some(outcome)) if run.state == RunState::Ended => outcome.clone(),
        (Some(phase), Some(round), _) if run.state == RunState::Running => {
            format!("{phase}, round {round} of {}", run.rounds)
        }
        (Some(phase), ..) if run.state == RunState::Running && run.waiting_for.is_empty() => phase.clone(),
        (Some(phase), ..) if run.state == RunState::Running => {
            format!("{phase}, waiting for {}", run.waiting_for.join(", "))
        }
        _ if run.state == RunState::Accepted => {
            let left_s = run.accept_until_ms.unwrap_or(0).saturating_sub(now_ms()) / 1000;
            format!(
                "accepted by {} of {}, waits for others for {} more",
                run.accepted_by.len().max(1),
                run.parties,
                deadlines::span(left_s)
            )
        }
        _ if run.state == RunState::Gathering && !run.waiting_for.is_empty() => {
            format!("gathering, waiting for {}", run.waiting_for.join(", "))
        }
        _ => word(&run.state),
    }
}

/// Adds a row for each list that names somebody.
fn list<const LISTS: usize>(table: &mut Table, lists: [(&str, &Vec<String>); LISTS]) {
    for (what, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
        table.row([what.into(), names.join(", ")]);
    }
}

/// One run as a table.
pub(super) fn run(run: &RunStatus) -> String {
    let mut table = Table::new();
    table
        .row(["run".into(), run.name.clone()])
        .row(["digest".into(), run.digest.clone()])
        .row(["state".into(), progress(run)]);
    if run.state == RunState::Accepted {
        // Just after it was accepted, nobody was asked yet.
        let parties = [
            ("accepted by", &run.accepted_by),
            ("waiting for", &run.waiting_for),
        ];
        list(&mut table, parties);
    }
    if let Some(reserved) = run.reserved {
        let of = run
            .data_set
            .as_ref()
            .map_or(String::new(), |set| format!(" of {set:?}"));
        let reserved = format!("μ² = {}{of}, until it starts or is withdrawn", number(reserved));
        table.row(["set aside".into(), reserved]);
    }
    table
        .row(["parties".into(), run.parties.to_string()])
        .row([
            "coordinates".into(),
            format!("{} (unit: {})", run.dimension, run.unit),
        ])
        .row([
            "ε claimed before the run".into(),
            format!("{} at δ = {:e}", epsilon(run.epsilon_claimed, false), run.delta),
        ])
        .row(["ε as it turned out".into(), epsilon(run.epsilon, run.unbounded)]);
    for sentence in run.silence.sentences("this party") {
        table.row(["silence".into(), sentence]);
    }
    for (name, value) in [
        ("data set", &run.data_set),
        ("proposed by", &run.proposer),
        ("reason", &run.reason),
    ] {
        if let Some(value) = value {
            table.row([name.into(), value.clone()]);
        }
    }
    let parties = [
        ("included", &run.included),
        ("started without", &run.without),
        ("unreachable", &run.unreachable),
        ("opened for", &run.opened_for),
    ];
    list(&mut table, parties);
    // Of columns of different units one number says nothing: the utility names each one's error.
    if let (Some(error), None) = (run.standard_error, &run.utility) {
        table.row(["standard error".into(), number(error)]);
    }
    if let Some(utility) = &run.utility {
        table.row(["utility".into(), utility.clone()]);
    }
    if run.private_bytes + run.public_bytes > 0 {
        let sent = format!(
            "{} on the private graph, {} on the public one",
            bytes(run.private_bytes),
            bytes(run.public_bytes)
        );
        table.row(["sent".into(), sent]);
    }
    table.render()
}

/// One offer as a table.
pub(super) fn offer(offer: &OfferStatus) -> String {
    let mut table = Table::new();
    table
        .row(["offer".into(), offer.name.clone()])
        .row(["digest".into(), offer.digest.clone()])
        .row(["proposed by".into(), offer.proposer.clone()])
        .row(["state".into(), word(&offer.state)])
        .row(["parties".into(), offer.parties.to_string()])
        .row([
            "coordinates".into(),
            format!("{} (unit: {})", offer.dimension, offer.unit),
        ])
        .row([
            "ε claimed".into(),
            format!(
                "{} at δ = {:e}",
                epsilon(offer.epsilon_claimed, false),
                offer.delta
            ),
        ]);
    if let Some(reason) = &offer.reason {
        table.row(["reason".into(), reason.clone()]);
    }
    table.render()
}

/// The whole daemon: peers, runs, offers and data sets.
pub(super) fn status(status: &Status) -> String {
    // Who and where it is.
    let hours = status.uptime_s / 3600.0;
    let mut text = format!(
        "{} ({}), undertone {}, up {hours:.1} h\n",
        status.party, status.id, status.version
    );
    text += &format!(
        "listens on {} (private), {} (public)\n",
        status.private, status.public
    );
    // Tables, of which empty ones are left out.
    section(
        &mut text,
        "Peers",
        ["peer", "private", "public"],
        status.peers.iter().map(peer),
    );
    let runs = status.runs.iter().map(|run| {
        let realised = epsilon(run.epsilon.or(run.epsilon_claimed), run.unbounded);
        [
            short(&run.digest).into(),
            run.name.clone(),
            progress(run),
            realised,
        ]
    });
    section(&mut text, "Runs", ["digest", "name", "state", "ε"], runs);
    let offers = status.offers.iter().map(|offer| {
        [
            short(&offer.digest).into(),
            offer.name.clone(),
            offer.proposer.clone(),
            word(&offer.state),
            epsilon(offer.epsilon_claimed, false),
        ]
    });
    section(
        &mut text,
        "Offers",
        ["digest", "name", "proposed by", "state", "ε"],
        offers,
    );
    let budgets = status.budgets.iter().map(|budget| {
        let spent = epsilon(budget.epsilon_spent, budget.epsilon_spent.is_none());
        [
            format!("{} ({})", budget.data_set, budget.unit),
            spent,
            number(budget.epsilon),
            format!("{:e}", budget.delta),
            budget.runs.to_string(),
            budget.runs_left.map_or("–".into(), |left| left.to_string()),
        ]
    });
    section(
        &mut text,
        "Data sets",
        ["data set", "ε spent", "of", "δ", "runs", "left like the latest"],
        budgets,
    );
    schedules(&mut text, &status.schedules);
    revoked(&mut text, &status.revoked);
    for budget in &status.budgets {
        if let Some(since) = &budget.closed_since {
            text += &format!(
                "\nClosed: {:?} takes no run. This ledger was restored from a backup of {since}.\n  \
                 Open it: undertone ledger adopt --help\n",
                budget.data_set
            );
        }
    }
    text
}

/// Keys that are not to be trusted any more.
fn revoked(text: &mut String, keys: &[RevokedKey]) {
    let rows = keys.iter().map(|key| {
        let name = key.name.clone().unwrap_or_default();
        [name, key.id.clone(), key.signer().into(), utc(key.at_ms)]
    });
    section(text, "Revoked keys", ["peer", "id", "by", "at"], rows);
}

/// The schedules: when each is due next, and what became of its latest time.
fn schedules(text: &mut String, schedules: &[ScheduleStatus]) {
    let rows = schedules.iter().map(|schedule| {
        let met = schedule.occasions.first();
        let latest = met.map(|met| {
            format!(
                "{}: {}",
                utc(met.due_ms),
                met.outcome.as_deref().unwrap_or("open")
            )
        });
        [
            schedule.name.clone(),
            schedule.next_ms.first().map_or("–".into(), |ms| utc(*ms)),
            schedule.runs_left.map_or("–".into(), |left| left.to_string()),
            latest.unwrap_or_else(|| "–".into()),
        ]
    });
    section(
        text,
        "Schedules",
        ["schedule", "due next", "runs paid for", "latest"],
        rows,
    );
}

/// A table under its title; nothing if it would be empty.
fn section<const N: usize>(
    text: &mut String,
    title: &str,
    headings: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    let mut table = Table::with_headings(headings);
    rows.for_each(|row| {
        table.row(row);
    });
    *text += &format!("\n{title}\n{}", table.render());
}

fn peer(peer: &PeerStatus) -> [String; 3] {
    let answers = |reachability: &Reachability| {
        let Reachability {
            address,
            reachable,
            problem,
            relay,
        } = reachability;
        match (reachable, relay) {
            (Some(true), Some(relay)) => format!("answers over {relay}"),
            (Some(true), None) if address.is_empty() => "answers".into(),
            (Some(true), None) => format!("{address} answers"),
            (Some(false), _) => {
                let problem = problem.as_deref().unwrap_or("it does not answer");
                match address.is_empty() {
                    true => problem.into(),
                    false => format!("{address}: {problem}"),
                }
            }
            (None, _) => address.clone(),
        }
    };
    let name = match peer.same_list {
        Some(false) => format!("{} (has another peer list)", peer.name),
        _ => peer.name.clone(),
    };
    [name, answers(&peer.private), answers(&peer.public)]
}

/// Shows a daemon's answer to a proposed run file, but not what to do next.
pub(super) fn proposed(proposed: &Value) -> String {
    let digest = proposed["digest"].as_str().unwrap_or_default();
    let text = format!("Proposed: {digest}\n\n");
    let mut table = Table::with_headings(["member", "answer"]);
    for (name, answer) in proposed["members"].as_object().into_iter().flatten() {
        table.row([name.clone(), answer.as_str().unwrap_or_default().to_owned()]);
    }
    text + &table.render()
}

/// How to follow a run, and where its mean and receipt lie once it has ended.
pub(super) fn next_commands(digest: &str, output: Option<&str>) -> String {
    let follow = format!("\nFollow it:  undertone watch {}\n", short(digest));
    follow + &place_of_result(digest, output, "Once it has ended")
}

/// Where a run's mean and receipt lie: in the folder to which the daemon copies them, or with it.
pub(super) fn place_of_result(digest: &str, output: Option<&str>, when: &str) -> String {
    match output {
        Some(folder) => format!(
            "{when}, mean and receipt are on the daemon's machine in\n  {}/{digest}/\n",
            folder.trim_end_matches('/')
        ),
        None => format!(
            "{when}, the daemon has its mean and receipt:\n  undertone result {} --output mean.npy \
             --receipt receipt.json\n",
            short(digest)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::status::BudgetStatus;

    fn empty() -> Status {
        Status {
            version: "0".into(),
            party: "alice".into(),
            id: "12D3".into(),
            uptime_s: 1.0,
            private: "/ip4/127.0.0.1/tcp/1".into(),
            public: "/ip4/127.0.0.1/tcp/2".into(),
            output: None,
            peers: vec![],
            runs: vec![],
            offers: vec![],
            budgets: vec![],
            schedules: vec![],
            revoked: vec![],
        }
    }

    #[test]
    fn proposal_ends_with_where_the_mean_and_the_receipt_lie() {
        let digest = "0123456789abcdef".repeat(4);
        let text = proposed(&serde_json::json!({ "digest": digest, "members": { "bob": "open" } }));
        for (output, place) in [
            (None, "undertone result 0123456789ab --output".to_owned()),
            (Some("/results"), format!("  /results/{digest}/")),
        ] {
            let text = text.clone() + &next_commands(&digest, output);
            let last = text.lines().last().expect("a line");
            assert!(last.contains(&place), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
    }

    #[test]
    fn a_data_set_that_a_restore_has_closed_is_named_below_the_budgets() {
        let budget = |name: &str, closed_since: Option<&str>| BudgetStatus {
            data_set: name.into(),
            closed_since: closed_since.map(str::to_owned),
            ..BudgetStatus::default()
        };
        let status = Status {
            budgets: vec![budget("ward", Some("2026-01-02 03:04")), budget("other", None)],
            ..empty()
        };
        let text = super::status(&status);
        assert_eq!(text.matches("Closed: ").count(), 1, "{text}");
        assert!(
            text.contains("\"ward\" takes no run") && text.contains("2026-01-02 03:04"),
            "{text}"
        );
    }

    #[test]
    fn an_empty_daemon_has_no_empty_tables() {
        let text = status(&empty());
        assert!(
            text.starts_with("alice (12D3)") && !text.contains("Runs") && !text.contains("Data sets"),
            "{text}"
        );
    }
}
