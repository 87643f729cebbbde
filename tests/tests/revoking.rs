//! A stolen key is revoked in each phase of a run: before its mark all leave, after it the run ends
//! as planned, and who holds the key is turned away either way.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;
use undertone_tests::daemon::{Daemon, gauge};
use undertone_tests::openapi::Document;
use undertone_tests::ports::Ports;
use undertone_tests::{Parties, Signal, alone, read_npy, signal, start_in, write_npy};

const PARTIES: usize = 4;

/// The party whose key was stolen.
const THIEF: usize = 3;

/// From the first link on: REACH, scenario N13.
const HEARD: Duration = Duration::from_secs(5);

const RUN: &str = "version = 1\nname = \"stolen\"\n[data]\nnoise_ok = true\nshape = [8]\n\
                   [run]\njoin_ms = 60000\nround_ms = 1000\nsettle_ms = 3000\n";

/// Four parties, of which the last has a recovery key, and who sign statements about it.
struct Group {
    parties: Parties,
    id: String,
}

impl Group {
    fn new() -> Self {
        let parties = Parties::new(PARTIES);
        parties.run(["identity", "new", "--out", "recovery.key"]);
        let id = |key: &str| {
            let shown = parties.run(["identity", "show", key, "--json"]).json_of(0);
            shown["id"].as_str().expect("an id").to_owned()
        };
        let recovery = format!("recovery = {:?}\n", id("recovery.key"));
        parties.write("peers.toml", &(parties.peer_list() + &recovery));
        parties.write_inputs(&[8]);
        let id = id(&format!("{}.key", parties.names()[THIEF]));
        Group { parties, id }
    }

    fn daemon(&self, party: usize) -> Daemon {
        Daemon::start(&self.parties, party, "[policy]\nmax_epsilon = 1000.0\n")
    }

    /// The line by which a key, or the thief's own, revokes the thief's.
    fn line(&self, by: Option<&str>) -> String {
        let own = format!("{}.key", self.parties.names()[THIEF]);
        let ended = match by {
            Some(key) => self
                .parties
                .run(["identity", "revoke", "--recovery", key, "--id", &self.id]),
            None => self.parties.run(["identity", "revoke", "--identity", &own]),
        };
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        ended.stdout.trim().to_owned()
    }

    fn submit(&self, daemon: &Daemon, plan: &str) -> undertone_tests::http::Reply {
        let plan = fs::read(self.parties.path(plan)).expect("a plan");
        let vector = fs::read(self.parties.path(&format!("{}.npy", daemon.name))).expect("an input");
        daemon.submit(&plan, "", Some(("application/x-npy", &vector)))
    }
}

impl Group {
    /// Checks that a daemon has left a run that had cost nothing, and does not take it again.
    fn assert_left(&self, daemon: &Daemon, digest: &str) {
        let run = || daemon.http.get(&format!("/v1/runs/{digest}")).json_of(200);
        until("the run is left", || run()["state"] == "ended");
        let run = run();
        assert_eq!(
            (&run["exit_code"], &run["charged"]),
            (&4.into(), &Value::Null),
            "{run}"
        );
        let reason = run["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(&self.id), "{reason}");
        let refused = self.submit(daemon, "plan.json").refused(422, "plan");
        assert_eq!(refused["exit_code"], 3, "{refused}");
    }
}

/// Waits until something holds, and says how long that took.
fn until(what: &str, holds: impl Fn() -> bool) {
    within(HEARD, what, holds);
}

fn within(most: Duration, what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < most, "{what}: not within {most:?}");
    }
    println!("{what}: after {:?}", begun.elapsed());
}

fn knows(daemon: &Daemon) -> bool {
    let revoked = daemon.http.get("/v1/keys").json_of(200);
    revoked["revoked"].as_array().is_some_and(|keys| keys.len() == 1)
}

/// For how long a daemon's status shows what it found when it last looked at the others.
const SHOWN: Duration = Duration::from_secs(10);

/// Whether this daemon is turned away by all others.
fn is_turned_away(daemon: &Daemon) -> bool {
    let status = daemon.http.get("/v1/status").json_of(200);
    let peers = status["peers"].as_array().expect("peers");
    peers.iter().all(|peer| peer["private"]["reachable"] == false)
}

#[test]
fn before_the_mark_all_leave_and_one_that_was_away_hears_it() {
    let _alone = alone();
    let group = Group::new();
    let digest = group.parties.plan("plan", RUN);
    let daemons: Vec<Daemon> = (0..PARTIES).map(|party| group.daemon(party)).collect();
    for daemon in &daemons[..2] {
        group.submit(daemon, "plan.json").json_of(201);
    }
    let mut daemons = daemons.into_iter();
    let [first, second, away, stolen] = std::array::from_fn(|_| daemons.next().expect("four"));
    away.end();
    let line = group.line(Some("recovery.key"));
    let document = Document::new(first.http.get("/v1/openapi.json").json_of(200));
    let post = |line: &str| {
        let reply = first.http.ask("POST", "/v1/keys", &[], line.as_bytes());
        document.check(&reply);
        reply
    };
    // Forged, cut short, about a stranger.
    let member = format!("{}.key", group.parties.names()[0]);
    let stranger = group
        .parties
        .run(["identity", "revoke", "--identity", "recovery.key"])
        .stdout;
    for bad in [&group.line(Some(&member)), &line[..99], &stranger] {
        post(bad).refused(400, "statement");
    }
    let revoked = first.client(["peers", "revoke", &line]).json_of(0);
    assert_eq!(
        (&revoked["id"], &revoked["line"]),
        (&(*group.id).into(), &(*line).into())
    );
    until("the second hears", || knows(&second));
    until("the owner's daemon hears", || knows(&stolen));
    // The thief was quicker, or is later: it is revoked once.
    let again = post(&group.line(None));
    assert_eq!((again.status, &again.json()["line"]), (200, &revoked["line"]));
    for daemon in [&first, &second] {
        group.assert_left(daemon, &digest);
        assert_eq!(gauge(daemon, "undertone_revoked_keys"), 1.0);
    }
    within(SHOWN + HEARD, "the thief is turned away", || {
        is_turned_away(&stolen)
    });
    let unready = stolen.http.get("/readyz");
    assert!(unready.status == 503 && unready.text().contains("was revoked by its recovery key"));
    // One that was away hears it on its first link, and all remember it.
    let away = group.daemon(2);
    until("one that was away hears", || knows(&away));
    let printed = away.client(["peers", "revoked"]).json_of(0);
    assert_eq!(printed["revoked"][0]["line"], *line);
    let (ended, _) = first.end();
    assert!(
        ended.stderr.contains("was revoked by its recovery key"),
        "{}",
        ended.stderr
    );
    assert!(knows(&group.daemon(0)));
}

#[test]
fn a_run_that_is_spent_ends_as_planned_with_the_key_in_it() {
    let _alone = alone();
    let group = Group::new();
    let run = "version = 1\ntask = \"rounds\"\nname = \"spent\"\n[data]\nshape = [2]\nreleases = 3\n\
               clip = { kind = \"l2\", radius = 1.0 }\nnoise_ok = true\n[privacy]\nepsilon = 8.0\n\
               [run]\niteration_ms = 40000\n";
    let digest = group.parties.plan("plan", run);
    let daemons: Vec<Daemon> = (0..PARTIES).map(|party| group.daemon(party)).collect();
    write_npy(&group.parties.path("part.npy"), &[2], &[0.5, 0.25]);
    let part = fs::read(group.parties.path("part.npy")).expect("written");
    let numpy = Some(("application/x-npy", &part[..]));
    let plan = fs::read(group.parties.path("plan.json")).expect("a plan");
    for daemon in &daemons {
        daemon.submit(&plan, "", numpy).json_of(201);
    }
    let place = |round: u32| format!("/v1/runs/{digest}/rounds/{round}");
    let mean = |daemon: &Daemon, round: u32| {
        let reply = daemon.http.get(&place(round));
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.body
    };
    // The plan is spent: the first mean is there.
    daemons.iter().for_each(|daemon| drop(mean(daemon, 1)));
    daemons[0]
        .client(["peers", "revoke", &group.line(None)])
        .json_of(0);
    for daemon in &daemons {
        until("it is heard", || knows(daemon));
    }
    within(SHOWN + HEARD, "the thief's questions are turned away", || {
        is_turned_away(&daemons[THIEF])
    });
    for round in [2, 3] {
        for daemon in &daemons {
            let posted = daemon.http.bring("POST", &place(round), numpy);
            assert_eq!(posted.status, 204, "{}", posted.text());
        }
        let first = mean(&daemons[0], round);
        assert!(daemons.iter().all(|daemon| mean(daemon, round) == first));
    }
    for daemon in &daemons {
        let ended = daemon.client(["watch", &digest]).json_of(0);
        assert_eq!(
            (&ended["outcome"], &ended["iteration"]),
            (&"done".into(), &3.into()),
            "{ended}"
        );
        assert_eq!(
            ended["included"].as_array().map(Vec::len),
            Some(PARTIES),
            "{ended}"
        );
    }
    // The next run is none with that key.
    group.parties.plan("next", RUN);
    group.submit(&daemons[1], "next.json").refused(422, "plan");
}

#[test]
fn in_each_later_phase_of_a_run_the_mean_is_the_same_for_all() {
    let _alone = alone();
    for phase in ["mixing", "settling", "publishing"] {
        let group = Group::new();
        let digest = group.parties.plan("plan", RUN);
        let daemons: Vec<Daemon> = (0..PARTIES).map(|party| group.daemon(party)).collect();
        let line = group.line(Some("recovery.key"));
        for daemon in &daemons {
            group.submit(daemon, "plan.json").json_of(201);
        }
        let path = format!("/v1/runs/{digest}/events");
        daemons[0]
            .http
            .events(&path, &[], |event| event["phase"] == phase);
        let taken = daemons[0].http.ask("POST", "/v1/keys", &[], line.as_bytes());
        assert_eq!(taken.status, 201, "{}", taken.text());
        let means = daemons.iter().map(|daemon| {
            let ended = daemon.client(["watch", &digest]).json_of(0);
            assert_eq!(ended["outcome"], "done", "{phase}: {ended}");
            let output = format!("{}.mean.npy", daemon.name);
            daemon.client(["result", &digest, "--output", &output]).json_of(0);
            read_npy(&group.parties.path(&output)).2
        });
        let means: Vec<Vec<f64>> = means.collect();
        assert!(means.iter().all(|mean| *mean == means[0]), "{phase}");
        until("all hear", || daemons.iter().all(knows));
    }
}

#[test]
fn commands_without_a_daemon_take_statements_from_a_file() {
    let group = Group::new();
    let parties = &group.parties;
    parties.plan("plan", RUN);
    parties.write(
        "keys.txt",
        &format!("# by mail\n{}\n", group.line(Some("recovery.key"))),
    );
    let known = ["--keys", "keys.txt", "--peers", "peers.toml"];
    let verify = |keys: &[&str]| {
        let arguments = [&["verify", "plan.json", "--json"], keys].concat();
        undertone_tests::run_in(parties.folder(), arguments)
    };
    assert_eq!(verify(&[]).code, 0);
    let refused = verify(&known).json_of(3);
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(
        message.contains(&group.id) && message.contains("revoked by its recovery key"),
        "{message}"
    );
    let mut join = parties.join("plan", 0);
    join.extend(known.map(String::from));
    let refused = undertone_tests::run_in(parties.folder(), &join).json_of(3);
    assert_eq!(refused["error"]["message"], message);
    let number = parties.run(["peers", "number", "peers.toml", "--keys", "keys.txt", "--json"]);
    let message = number.json_of(3)["error"]["message"].to_string();
    assert!(message.contains(&group.id), "{message}");
    // By another member's key, and without the list.
    let member = format!("{}.key", parties.names()[0]);
    parties.write("keys.txt", &group.line(Some(&member)));
    let forged = verify(&known).json_of(2);
    assert!(
        forged["error"]["message"].to_string().contains("line 1"),
        "{forged}"
    );
    assert_eq!(verify(&known[..2]).code, 2);
}

/// A relay is no member: it reads what a file says, as it reads the lists.
#[test]
fn a_relay_turns_away_a_key_that_its_file_revokes_once_it_reads_it_again() {
    let _alone = alone();
    let group = Group::new();
    let parties = &group.parties;
    let port = Ports::hold(1)[0];
    let at = format!("/ip4/127.0.0.1/tcp/{port}");
    let relay = parties
        .run(["identity", "new", "--out", "relay.key", "--json"])
        .json_of(0);
    let relay = format!(
        "[[relay]]\nname = \"lighthouse\"\nid = {}\nat = [\"{at}\"]\n",
        relay["id"]
    );
    // The first has no address, so that it needs the relay.
    let list: String = fs::read_to_string(parties.path("peers.toml")).expect("a list");
    let mut shown = list.lines();
    let mut hidden: Vec<&str> = shown
        .by_ref()
        .take_while(|line| !line.starts_with("private"))
        .collect();
    hidden.extend(shown.skip_while(|line| line.starts_with("public")));
    parties.write("peers.toml", &(hidden.join("\n") + "\n" + &relay));
    parties.plan("plan", RUN);
    parties.write("revoked.txt", "");

    let words = [
        "relay",
        "--identity",
        "relay.key",
        "--listen",
        &at,
        "--for",
        "peers.toml",
        "--keys",
        "revoked.txt",
    ];
    let running = start_in(parties.folder(), words);
    let is_silent_for = |party: usize| {
        let key = format!("{}.key", parties.names()[party]);
        let words = [
            "doctor",
            "plan.json",
            "--identity",
            &key,
            "--timeout-ms",
            "2000",
            "--json",
        ];
        let found = parties.run(words).stdout;
        found.contains("relay lighthouse at")
    };
    let long = Duration::from_secs(60);
    within(long, "the relay answers the thief", || !is_silent_for(THIEF));
    parties.write("revoked.txt", &(group.line(None) + "\n"));
    assert!(!is_silent_for(THIEF), "it has not read that yet");
    signal(running.pid(), Signal::SIGHUP);
    within(long, "the relay turns the thief away", || is_silent_for(THIEF));
    assert!(!is_silent_for(1));
    signal(running.pid(), Signal::SIGTERM);
    assert_eq!(running.wait().code, 0);
}
