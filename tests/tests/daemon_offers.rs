//! A plan travels instead of being copied about: proposed with `submit --propose`, accepted by rule
//! or with `accept`; every object on the way is as the OpenAPI document says.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use undertone_tests::daemon::Daemon;
use undertone_tests::openapi::Document;
use undertone_tests::{Parties, alone, assert_mean_of, run_in};

const RUN: &str = "version = 1\ntask = \"mean\"\nname = \"offered\"\n[data]\nnoise_ok = true\nshape = [8]\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n[run]\njoin_ms = 60000\n";

const WARD: &str = "[[data_set]]\nname = \"ward\"\nfile = \"ward.npy\"\nepsilon = 3.0\ndelta = 1e-5\n";

/// Accepts what alice proposes: everybody is vouched for.
fn by_rule(parties: &Parties) -> String {
    let id = |name: &String| {
        parties
            .run(["identity", "show", &format!("{name}.key"), "--json"])
            .json_of(0)["id"]
            .to_string()
    };
    let ids: Vec<String> = parties.names().iter().map(id).collect();
    let policy = format!("[policy]\nmax_epsilon = 1.0\nvouched = [{}]\n", ids.join(", "));
    format!("{policy}{WARD}[[auto_accept]]\nproposer = \"alice\"\ndata_set = \"ward\"\n")
}

/// Bob looks at it, and accepts with a vector of his own.
fn accepts_by_hand(bob: &Daemon, document: &Document, digest: &str) {
    let get = |path: &str| {
        let reply = bob.http.get(path);
        document.check(&reply);
        assert_eq!(reply.status, 200, "{path}");
        reply
    };
    assert_eq!(get("/v1/offers").json()["offers"][0]["proposer"], "alice");
    let plan = get(&format!("/v1/offers/{digest}/plan"));
    assert_eq!(
        format!("{:x}", Sha256::digest(&plan.body)),
        digest,
        "what is offered is what was planned"
    );
    assert_eq!(bob.client(["status", &digest[..8]]).json_of(0)["state"], "open");
    bob.client(["accept", digest]).refused_at(2, "--input");
    assert_eq!(
        bob.client(["accept", &digest[..8], "--input", "bob.npy"])
            .json_of(0)["digest"],
        digest
    );
    assert_eq!(get(&format!("/v1/offers/{digest}")).json()["state"], "accepted");
    bob.client(["accept", digest, "--input", "bob.npy"])
        .refused(2, "");
}

#[test]
fn an_offer_is_accepted_by_rule_and_by_hand() {
    let _alone = alone();
    let parties = Parties::new(4);
    let rule = by_rule(&parties);
    let inputs = parties.write_inputs(&[8]);
    let start = |party: usize| {
        let name = &parties.names()[party];
        Daemon::configure(&parties, party, "");
        std::fs::copy(
            parties.path(&format!("{name}.npy")),
            parties.path(&format!("{name}.data/ward.npy")),
        )
        .expect("writable");
        Daemon::start(&parties, party, if name == "bob" { "" } else { &rule })
    };
    let daemons: Vec<Daemon> = (0..4).map(start).collect();
    let [alice, bob, ..] = &daemons[..] else {
        unreachable!("four were started")
    };
    let document = Document::new(alice.http.get("/v1/openapi.json").json_of(200));
    parties.write("run.toml", RUN);
    let proposed = alice
        .client(["submit", "--propose", "run.toml", "--data-set", "ward"])
        .json_of(0);
    is_proposal(&document, &proposed);
    let digest = proposed["digest"].as_str().expect("a digest").to_owned();
    let answers = ["bob", "carol", "dave"]
        .map(|name| proposed["members"][name].as_str().unwrap_or_default().to_owned());
    assert_eq!(answers, ["open", "accepted", "accepted"], "{proposed}");

    accepts_by_hand(bob, &document, &digest);
    for daemon in &daemons {
        let run = daemon.client(["watch", &digest]).json_of(0);
        let mean = daemon.http.ask(
            "GET",
            &format!("/v1/runs/{digest}/result"),
            &[("Accept", "application/json")],
            &[],
        );
        document.check(&mean);
        let mean: Vec<f64> = mean
            .json()
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_f64)
            .collect();
        assert_mean_of(
            &mean,
            &inputs,
            run["standard_error"].as_f64().expect("a standard error"),
        );
    }
    // Another one is declined.
    let proposed = alice.client(["submit", "--propose", "run.toml"]).json_of(0);
    let second = proposed["digest"].as_str().expect("a digest").to_owned();
    let declined = bob.http.ask("DELETE", &format!("/v1/offers/{second}"), &[], &[]);
    document.check(&declined);
    assert_eq!(declined.json_of(200)["state"], "declined");
    // By the one who proposed it, too, and by its first digits.
    let proposed = bob.client(["submit", "--propose", "run.toml"]).json_of(0);
    let third = proposed["digest"].as_str().expect("a digest").to_owned();
    let declined = bob.client(["decline", &third[..10]]).json_of(0);
    assert_eq!(
        (&declined["digest"], &declined["state"]),
        (&third.into(), &"declined".into())
    );
    alice.client(["decline", &digest]).refused(2, "");
    alice.client(["decline", &"0".repeat(64)]).refused(2, "");
    what_is_refused_leaves_no_offer(&parties, bob);
}

/// A notebook that fails again and again takes no place from what comes after it.
fn what_is_refused_leaves_no_offer(parties: &Parties, bob: &Daemon) {
    let open = || {
        let status = bob.client(["status"]).json_of(0);
        let offers = status["offers"].as_array().cloned().unwrap_or_default();
        let offers = offers.into_iter();
        offers.filter(|offer| offer["state"] == "open").count()
    };
    let before = open();
    parties.write("bad.json", "[1, 2, 3, 4, 5, 6, 7, null]");
    for _ in 0..9 {
        bob.client(["submit", "--propose", "run.toml", "--input", "bad.json"])
            .refused(7, "");
    }
    assert_eq!(open(), before);
    bob.client(["submit", "--propose", "run.toml"]).json_of(0);
    assert_eq!(
        open(),
        before + 1,
        "an offer without a vector of one's own waits for one"
    );
}

/// Nobody waits for a member that has declined: the others begin without it, within `dropouts`; if
/// too few are left, the run ends at once and says who declined.
#[test]
fn a_member_that_declined_is_not_waited_for() {
    let _alone = alone();
    let parties = Parties::new(5);
    let rule = by_rule(&parties);
    parties.write_inputs(&[8]);
    let start = |party: usize| {
        let name = &parties.names()[party];
        Daemon::configure(&parties, party, "");
        std::fs::copy(
            parties.path(&format!("{name}.npy")),
            parties.path(&format!("{name}.data/ward.npy")),
        )
        .expect("writable");
        Daemon::start(&parties, party, if name == "bob" { "" } else { &rule })
    };
    let daemons: Vec<Daemon> = (0..5).map(start).collect();
    let [alice, bob, ..] = &daemons[..] else {
        unreachable!("five were started")
    };
    for (dropouts, code) in [(1, 5), (0, 4)] {
        let run = RUN.replace("delta = 1e-6", &format!("delta = 1e-6\ndropouts = {dropouts}"));
        parties.write("run.toml", &run.replace("join_ms = 60000", "join_ms = 600000"));
        let proposed = alice
            .client(["submit", "--propose", "run.toml", "--data-set", "ward"])
            .json_of(0);
        let digest = proposed["digest"].as_str().expect("a digest");
        bob.client(["decline", digest]).json_of(0);
        let begun = Instant::now();
        for daemon in daemons.iter().filter(|daemon| daemon.name != "bob") {
            let run = daemon.client(["watch", digest]).json_of(code);
            let said = run["reason"].as_str().unwrap_or_default();
            assert!(said.contains("bob"), "{run}");
            if dropouts == 1 {
                assert_eq!(run["without"], json!(["bob"]), "{run}");
            }
            let are_few = said.contains("too few are left");
            assert_eq!(are_few, dropouts == 0, "{run}");
        }
        // join_ms is ten minutes.
        println!("dropouts = {dropouts}: over after {:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}

/// One of a few: three of four suffice, and who has not accepted is waited for little.
const FEW: &str = "version = 1\ntask = \"mean\"\nname = \"days\"\n[data]\nnoise_ok = true\nshape = [8]\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\ndropouts = 1\n[run]\njoin_ms = 8000\n";

/// Four daemons whose operators accept by hand.
fn by_hand(parties: &Parties) -> Vec<Daemon> {
    parties.write_inputs(&[8]);
    let start = |party: usize| {
        let name = &parties.names()[party];
        Daemon::configure(parties, party, "");
        let data = parties.path(&format!("{name}.data/ward.npy"));
        std::fs::copy(parties.path(&format!("{name}.npy")), data).expect("writable");
        Daemon::start(parties, party, &format!("[policy]\nmax_epsilon = 1.0\n{WARD}"))
    };
    (0..4).map(start).collect()
}

/// What `submit --propose` prints: the API's answer, and the plan's quote.
fn is_proposal(document: &Document, proposed: &Value) {
    let mut answer = proposed.clone();
    let quote = answer.as_object_mut().and_then(|answer| answer.remove("quote"));
    assert!(
        quote.is_some_and(|quote| quote["claims"].is_array()),
        "{proposed}"
    );
    document.validate("/components/schemas/Proposed", &answer, "submit --propose");
}

/// Looks at a run until it is as wanted; fails after a minute.
fn until(daemon: &Daemon, digest: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let run = daemon.client(["status", digest]).json_of(0);
        if wanted(&run) {
            return run;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{}: {run}",
            daemon.name
        );
    }
}

/// Looks at an offer until it is in this state; fails after a minute.
fn until_offer(daemon: &Daemon, digest: &str, state: &str) {
    let begun = Instant::now();
    let offer = || daemon.http.get(&format!("/v1/offers/{digest}")).json_of(200);
    while offer()["state"] != state {
        let late = begun.elapsed() > Duration::from_secs(60);
        assert!(!late, "{}: {}", daemon.name, offer());
    }
}

fn set_aside(daemon: &Daemon) -> f64 {
    let status = daemon.http.get("/v1/status").json_of(200);
    status["budgets"][0]["reserved_mu_squared"]
        .as_f64()
        .expect("a number")
}

/// It takes no place, waits for days and says for whom, and sets its budget aside, which is what it
/// costs; it can be withdrawn, and accepted again.
fn waits_for_days(parties: &Parties, alice: &Daemon, document: &Document, digest: &str) -> f64 {
    let run = until(alice, digest, |run| {
        run["waiting_for"] == json!(["bob", "carol", "dave"])
    });
    document.validate("/components/schemas/Run", &run, "an accepted offer");
    assert_eq!(
        (&run["state"], &run["accepted_by"]),
        (&json!("accepted"), &json!(["alice"]))
    );
    let days =
        run["accept_until_ms"].as_u64().expect("a time") - run["submitted_ms"].as_u64().expect("a time");
    assert!(days.abs_diff(3 * 86_400_000) < 60_000, "{days} ms");
    let reserved = run["reserved"].as_f64().expect("set aside");
    assert!(reserved > 0.0 && set_aside(alice) == reserved, "{run}");
    let text = run_in(
        parties.folder(),
        ["status", digest, "--config", "alice.node.toml"],
    );
    for said in [
        "accepted by 1 of 4",
        "waits for others for 2 d 23 h more",
        "set aside",
    ] {
        assert!(text.stdout.contains(said), "{said}: {}", text.stdout);
    }
    // It can be withdrawn, and accepted again.
    assert_eq!(
        alice.client(["withdraw", digest]).json_of(0)["state"],
        "withdrawn"
    );
    assert_eq!(set_aside(alice), 0.0);
    alice.client(["accept", digest, "--data-set", "ward"]).json_of(0);
    reserved
}

#[test]
fn an_accepted_offer_waits_over_restarts_until_enough_have_accepted() {
    let _alone = alone();
    let parties = Parties::new(4);
    let mut daemons = by_hand(&parties);
    parties.write("run.toml", FEW);
    let [alice, bob, ..] = &daemons[..] else {
        unreachable!("four were started")
    };
    let document = Document::new(alice.http.get("/v1/openapi.json").json_of(200));
    let proposed = alice
        .client(["submit", "--propose", "run.toml", "--data-set", "ward"])
        .json_of(0);
    let digest = proposed["digest"].as_str().expect("a digest").to_owned();
    assert_eq!(proposed["run"]["state"], "accepted", "{proposed}");
    let reserved = waits_for_days(&parties, alice, &document, &digest);
    bob.client(["accept", &digest, "--input", "bob.npy"]).json_of(0);
    // Each knows of the other within moments, and both over a restart, with an uploaded vector.
    for party in [0, 1] {
        until(&daemons[party], &digest, |run| {
            run["accepted_by"].as_array().is_some_and(|by| by.len() == 2)
        });
    }
    let later: Vec<Daemon> = daemons.drain(..2).collect();
    for (party, daemon) in later.into_iter().enumerate() {
        match party {
            0 => drop(daemon.kill()),
            _ => drop(daemon.end()),
        }
        let again = Daemon::start(&parties, party, &format!("[policy]\nmax_epsilon = 1.0\n{WARD}"));
        until(&again, &digest, |run| run["state"] == "accepted");
        assert_eq!(set_aside(&again), reserved);
        daemons.insert(party, again);
    }
    // The third is enough; nobody waits for days for the fourth.
    daemons[2]
        .client(["accept", &digest, "--data-set", "ward"])
        .json_of(0);
    for daemon in &daemons[..3] {
        let object = daemon.client(["watch", &digest]).json_of(5);
        assert_eq!(object["included"], json!(["alice", "bob", "carol"]), "{object}");
        assert_eq!(object["reserved"], Value::Null);
        let uploads = parties.path(&format!("{}.state/offers/{digest}", daemon.name));
        let left: Vec<_> = std::fs::read_dir(uploads)
            .expect("an offer")
            .map(|e| e.expect("an entry").file_name())
            .collect();
        assert_eq!(left.len(), 2, "nothing of the party is left there: {left:?}");
    }
}

#[test]
fn an_offer_that_too_few_accept_expires_and_says_who_did_not() {
    let _alone = alone();
    let parties = Parties::new(4);
    let daemons = by_hand(&parties);
    parties.write("run.toml", &format!("{FEW}accept_by = \"4s\"\n"));
    let [alice, bob, carol, _] = &daemons[..] else {
        unreachable!("four were started")
    };
    let propose = || {
        let proposed = alice
            .client(["submit", "--propose", "run.toml", "--data-set", "ward"])
            .json_of(0);
        proposed["digest"].as_str().expect("a digest").to_owned()
    };
    let digest = propose();
    let object = alice.client(["watch", &digest]).json_of(4);
    let reason = object["reason"].as_str().expect("a reason");
    for said in [
        "1 of 4 members",
        "min_parties is 3",
        "not answered by its operator: bob, carol, dave",
        "run.accept_by",
    ] {
        assert!(reason.contains(said), "{said}: {reason}");
    }
    assert_eq!(set_aside(alice), 0.0);
    for daemon in [alice, bob] {
        // Bob's time began when the offer had come to him.
        until_offer(daemon, &digest, "expired");
    }
    let refused = bob
        .client(["accept", &digest, "--data-set", "ward"])
        .refused(2, "");
    assert!(refused.to_string().contains("run.accept_by"), "{refused}");
    // Whom too many have declined ends at once.
    parties.write("run.toml", FEW);
    let digest = propose();
    for daemon in [bob, carol] {
        daemon.client(["decline", &digest]).json_of(0);
    }
    let object = alice.client(["watch", &digest]).json_of(4);
    let reason = object["reason"].as_str().expect("a reason");
    assert!(reason.contains("declined: bob, carol"), "{reason}");
}
