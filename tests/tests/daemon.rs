//! `undertone node` as its operator sees it: runs one after another and at once, a budget that
//! holds, an end that neighbours are told of, and what it refuses.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use undertone_tests::daemon::{Daemon, gauge, log_tells_of_a_run};
use undertone_tests::{Parties, Running, alone, read_npy};

const RUN: &str =
    "version = 1\nname = \"daemon\"\n[data]\nnoise_ok = true\nshape = [8]\n[run]\njoin_ms = 60000\n";

/// One data set that two runs of ε = 1 at δ = 1e-6 fit into, and no third.
const WARD: &str = "output = \"NAME.out\"\n[[data_set]]\nname = \"ward\"\nfile = \"ward.npy\"\nepsilon = 1.5\ndelta = 1e-5\n";

/// Daemons of all parties, each with its vector as ward.npy in its data folder.
fn daemons(parties: &Parties, configuration: &str) -> Vec<Daemon> {
    parties.write_inputs(&[8]);
    let start = |(party, name): (usize, &String)| {
        let data = parties.path(&format!("{name}.data"));
        std::fs::create_dir_all(&data).expect("the test's folder is writable");
        std::fs::copy(parties.path(&format!("{name}.npy")), data.join("ward.npy")).expect("writable");
        Daemon::start(parties, party, &configuration.replace("NAME", name))
    };
    parties.names().iter().enumerate().map(start).collect()
}

fn submit(daemon: &Daemon, plan: &Path, file: &str) -> undertone_tests::http::Reply {
    let plan = std::fs::read(plan).expect("a plan");
    daemon.submit(&plan, &format!("data_file={file}"), None)
}

/// The run, once it is over.
fn ended(daemon: &Daemon, digest: &str) -> Value {
    daemon
        .http
        .events(&format!("/v1/runs/{digest}/events"), &[], |_| false);
    daemon.http.get(&format!("/v1/runs/{digest}")).json_of(200)
}

fn until_phase(daemon: &Daemon, digest: &str, phase: &str) {
    let seen = daemon
        .http
        .events(&format!("/v1/runs/{digest}/events"), &[], |event| {
            event["phase"] == phase
        });
    assert!(
        seen.iter().any(|(.., event)| event["phase"] == phase),
        "{phase} never began: {seen:?}"
    );
}

/// PPSC in daemons: done, charged to the data set; and a plan that reveals exact sums, which no
/// budget of the ordinary adjacency can pay.
#[test]
fn a_run_of_ppsc_is_charged_and_one_that_reveals_sums_is_refused() {
    let _alone = alone();
    let parties = Parties::new(4);
    let daemons = daemons(&parties, WARD);
    let ppsc = format!("{RUN}[mechanism]\nkind = \"ppsc\"\n");
    let digest = parties.plan("gossip", &ppsc);
    for daemon in &daemons {
        submit(daemon, &parties.path("gossip.json"), "ward.npy").json_of(201);
    }
    let means: Vec<Vec<f64>> = daemons
        .iter()
        .map(|daemon| {
            let run = ended(daemon, &digest);
            assert_eq!(
                (&run["state"], &run["outcome"]),
                (&"ended".into(), &"done".into()),
                "{run}"
            );
            assert!(
                run["epsilon"].as_f64() <= run["epsilon_claimed"].as_f64()
                    && run["charged"].as_f64() > Some(0.0),
                "{run}"
            );
            read_npy(&parties.path(&format!("{}.out/{digest}/mean.npy", daemon.name))).2
        })
        .collect();
    assert!(
        means.iter().all(|mean| *mean == means[0]),
        "all hold the same bits"
    );
    parties.plan(
        "exact",
        &format!("{ppsc}independent_noise = \"none\"\naccept_exact_sum = true\n"),
    );
    let problem = submit(&daemons[0], &parties.path("exact.json"), "ward.npy").refused(403, "ward");
    assert!(problem.to_string().contains("unbounded"), "{problem}");
    drop(daemons.into_iter().map(Daemon::end).collect::<Vec<_>>());
}

#[test]
fn runs_follow_each_other_until_the_budget_is_spent_and_a_restart_forgets_nothing() {
    let _alone = alone();
    let parties = Parties::new(4);
    let mut daemons = daemons(&parties, WARD);
    let digests: Vec<String> = ["first", "second", "third"]
        .map(|name| parties.plan(name, RUN))
        .into();
    for (name, digest) in ["first", "second"].iter().zip(&digests) {
        let plan = parties.path(&format!("{name}.json"));
        for daemon in &daemons {
            assert_eq!(submit(daemon, &plan, "ward.npy").json_of(201)["data_set"], "ward");
        }
        let mut means = vec![];
        for daemon in &daemons {
            let run = ended(daemon, digest);
            assert_eq!(
                (&run["state"], &run["outcome"], &run["exit_code"]),
                (&"ended".into(), &"done".into(), &0.into()),
                "{run}"
            );
            assert!(
                run["epsilon"].as_f64() <= run["epsilon_claimed"].as_f64()
                    && run["charged"].as_f64() > Some(0.0),
                "{run}"
            );
            let place = parties.path(&format!("{}.out/{digest}", daemon.name));
            assert!(place.join("receipt.json.sig").exists() && place.join("receipt.json").exists());
            means.push(read_npy(&place.join("mean.npy")).2);
        }
        assert!(
            means.iter().all(|mean| *mean == means[0]),
            "all hold the same bits"
        );
    }
    let third = parties.path("third.json");
    let spent = |daemon: &Daemon| daemon.http.get("/v1/status").json_of(200)["budgets"][0].clone();
    let before: Vec<Value> = daemons.iter().map(spent).collect();
    for (daemon, budget) in daemons.iter().zip(&before) {
        let problem = submit(daemon, &third, "ward.npy").refused(403, "ward");
        assert_eq!(
            (&problem["type"], &problem["exit_code"]),
            (&"urn:undertone:problem:budget".into(), &6.into())
        );
        assert_eq!(budget["runs"], 2, "{budget}");
        assert!(
            budget["epsilon_spent"].as_f64() > Some(1.2) && budget["epsilon_spent"].as_f64() <= Some(1.5),
            "{budget}"
        );
    }
    submit(&daemons[0], &parties.path("first.json"), "ward.npy").refused(409, "already taken part");

    let first = daemons.remove(0);
    assert_eq!(first.end().0.code, 0);
    let again = Daemon::start(&parties, 0, &WARD.replace("NAME", "alice"));
    assert_eq!(spent(&again), before[0], "the same after a restart");
    submit(&again, &third, "ward.npy").refused(403, "ward");
    submit(&again, &parties.path("first.json"), "ward.npy").refused(409, "already taken part");
    let run = again.http.get(&format!("/v1/runs/{}", digests[0])).json_of(200);
    assert_eq!(run["outcome"], "done", "{run}");
}

#[test]
fn several_runs_at_once_share_two_listeners() {
    let _alone = alone();
    let parties = Parties::new(4);
    let daemons = daemons(&parties, "[policy]\nmax_runs = 3\n");
    let names = ["a", "b", "c", "d", "e"];
    let digests: Vec<String> = names.iter().map(|name| parties.plan(name, RUN)).collect();
    for daemon in &daemons {
        for name in names {
            submit(daemon, &parties.path(&format!("{name}.json")), "ward.npy").json_of(201);
        }
    }
    for daemon in &daemons {
        for digest in &digests {
            let run = ended(daemon, digest);
            assert_eq!(
                (&run["outcome"], &run["charged"].is_number()),
                (&"done".into(), &true),
                "{run}"
            );
        }
        let metrics = daemon.http.get("/metrics").text();
        assert!(
            metrics.contains("undertone_runs_ended_total{outcome=\"done\"}"),
            "{metrics}"
        );
        let timed = "undertone_run_duration_seconds_count{outcome=\"done\"} ";
        let count = metrics.lines().find_map(|line| line.strip_prefix(timed));
        assert!(count.is_some_and(|count| count != "0"), "{metrics}");
    }
}

#[test]
fn a_daemon_that_is_stopped_leaves_at_once_and_the_others_finish() {
    let _alone = alone();
    let parties = Parties::new(4);
    let mut daemons = daemons(&parties, WARD);
    let digest = parties.plan("slow", &format!("{RUN}round_ms = 3000\npace_ms = 400\n"));
    let waiting = parties.plan("waiting", RUN);
    for daemon in &daemons {
        submit(daemon, &parties.path("slow.json"), "ward.npy").json_of(201);
    }
    submit(&daemons[0], &parties.path("waiting.json"), "ward.npy").json_of(201);
    until_phase(&daemons[0], &digest, "mixing");
    let leaver = daemons.remove(0);
    let (end, took) = leaver.end();
    assert_eq!(end.code, 0, "{}", end.stderr);
    assert!(took < Duration::from_secs(30), "it took {took:?}");
    for daemon in &daemons {
        let run = ended(daemon, &digest);
        assert_eq!(run["outcome"], "degraded", "{run}");
        assert_eq!(
            run["included"],
            serde_json::json!(["bob", "carol", "dave"]),
            "{run}"
        );
    }
    let again = Daemon::start(&parties, 0, &WARD.replace("NAME", "alice"));
    let run = again.http.get(&format!("/v1/runs/{digest}")).json_of(200);
    // It was cut off and stays charged, or had time to withhold what is sealed: that costs nothing.
    let charged = run["charged"].is_f64() && (run["exit_code"] == 6 || run["charged"] != 0.0);
    assert!(charged, "{run}");
    // What had not begun is taken up again.
    let run = again.taken_up(&waiting);
    assert!(
        (run["state"] == "waiting" || run["state"] == "gathering") && run["charged"].is_null(),
        "{run}"
    );
}

#[test]
fn a_run_that_nobody_joins_or_that_is_killed_costs_what_left() {
    let _alone = alone();
    let parties = Parties::new(4);
    let mut daemons = daemons(&parties, WARD);
    let lonely = parties.plan("lonely", &RUN.replace("60000", "1000"));
    submit(&daemons[0], &parties.path("lonely.json"), "ward.npy").json_of(201);
    let run = ended(&daemons[0], &lonely);
    assert_eq!(
        (&run["outcome"], &run["exit_code"], &run["charged"]),
        (&"aborted".into(), &4.into(), &Value::Null),
        "{run}"
    );
    let budget = daemons[0].http.get("/v1/status").json_of(200)["budgets"][0].clone();
    assert_eq!(
        (&budget["epsilon_spent"], &budget["reserved_mu_squared"]),
        (&0.0.into(), &0.0.into()),
        "nothing left: {budget}"
    );
    // Nothing private has left: the plan can be tried again.
    submit(&daemons[0], &parties.path("lonely.json"), "ward.npy").json_of(201);

    let digest = parties.plan("slow", &format!("{RUN}round_ms = 3000\npace_ms = 400\n"));
    for daemon in &daemons {
        submit(daemon, &parties.path("slow.json"), "ward.npy").json_of(201);
    }
    until_phase(&daemons[3], &digest, "mixing");
    let killed = daemons.pop().expect("four");
    killed.kill();
    let again = Daemon::start(&parties, 3, &WARD.replace("NAME", "dave"));
    let run = again.http.get(&format!("/v1/runs/{digest}")).json_of(200);
    assert_eq!(
        (&run["state"], &run["exit_code"]),
        (&"interrupted".into(), &6.into()),
        "{run}"
    );
    let budget = again.http.get("/v1/status").json_of(200)["budgets"][0].clone();
    assert!(budget["epsilon_spent"].as_f64() > Some(0.8), "{budget}");
    submit(&again, &parties.path("slow.json"), "ward.npy").refused(409, "already taken part");
    assert_eq!(ended(&daemons[0], &digest)["outcome"], "degraded");
}

#[test]
fn a_plan_whose_proposer_fills_the_seats_is_refused_if_nobody_vouches_for_them() {
    let _alone = alone();
    let parties = Parties::new(4);
    parties.plan("plan", RUN);
    parties.write_inputs(&[8]);
    let ids: Vec<String> = parties.lines().iter().map(|lines| id_of(lines)).collect();
    for (vouched, refused) in [(&ids[..1], true), (&ids[..2], true), (&ids[..], false)] {
        let configuration = format!("[policy]\nmax_epsilon = 1.0\nvouched = {vouched:?}\n");
        let daemon = Daemon::start(&parties, 0, &configuration);
        std::fs::copy(parties.path("alice.npy"), parties.path("alice.data/ward.npy")).expect("writable");
        let reply = submit(&daemon, &parties.path("plan.json"), "ward.npy");
        if refused {
            let problem = reply.refused(403, "policy.vouched");
            assert!(
                problem["detail"]
                    .as_str()
                    .is_some_and(|text| text.contains("carol")),
                "{problem}"
            );
        } else {
            let digest = reply.json_of(201)["digest"]
                .as_str()
                .expect("a digest")
                .to_owned();
            daemon
                .http
                .ask("DELETE", &format!("/v1/runs/{digest}"), &[], &[])
                .json_of(200);
        }
        assert_eq!(daemon.end().0.code, 0);
    }
    let daemon = Daemon::start(&parties, 0, "[policy]\nmax_epsilon = 0.5\n");
    let problem = submit(&daemon, &parties.path("plan.json"), "ward.npy").refused(403, "policy.max_epsilon");
    assert_eq!(problem["exit_code"], 3, "{problem}");
}

fn id_of(lines: &str) -> String {
    let line = lines
        .lines()
        .find(|line| line.starts_with("id = "))
        .expect("an id");
    line.trim_start_matches("id = ").trim_matches('"').to_owned()
}

#[test]
fn what_it_cannot_start_with_is_refused_and_said() {
    let _alone = alone();
    let parties = Parties::new(4);
    let node = |file: &str| parties.run(["node", "--config", file, "--json"]);
    let file = Daemon::configure(&parties, 0, "[policy]\nmax_epsilom = 1.0\n");
    let refusal = node(&file).refused_at(2, "policy.max_epsilom");
    assert!(
        refusal["error"]["message"]
            .as_str()
            .is_some_and(|text| text.contains("line 6")),
        "{refusal}"
    );

    // A second daemon.
    let file = Daemon::configure(&parties, 0, "");
    let daemon = Daemon::start(&parties, 0, "");
    node(&file).refused_at(2, "state")["error"]["message"]
        .as_str()
        .filter(|text| text.contains(&daemon.pid().to_string()))
        .expect("it names the process");
    assert_eq!(daemon.http.get("/healthz").status, 200, "the first one goes on");
    assert_eq!(daemon.end().0.code, 0);

    // A port in use.
    let taken =
        std::net::TcpListener::bind(("127.0.0.1", parties.ports(0)[0])).expect("the daemon has ended");
    node(&file).refused(2, "in use");
    drop(taken);

    // A ledger that rotted.
    const ROTTEN: &str = "{\"entry\":\"opened\",\"version\":1} 00\n";
    let state = parties.path("alice.state");
    let before = std::fs::read(state.join("ledger")).expect("a ledger");
    std::fs::write(state.join("ledger"), ROTTEN).expect("writable");
    let refusal = node(&file).refused(2, "backup").to_string();
    assert!(refusal.contains("corrupt"), "{refusal}");
    std::fs::write(state.join("ledger"), before).expect("writable");
    // Records that rotted, of any age, keep nothing down.
    let rotten = ["offers/x/offer.json", "runs/x/run.json"];
    for name in rotten {
        let path = state.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
        std::fs::write(path, ROTTEN).expect("writable");
    }
    // Somebody else's folder, and one that is none.
    let foreign = parties.path("foreign");
    std::fs::create_dir(&foreign).expect("writable");
    if std::os::unix::fs::chown(&foreign, Some(12345), None).is_ok() {
        parties
            .run(["node", "--config", &file, "--state", "foreign", "--json"])
            .refused(2, "12345");
    }
    parties
        .run(["node", "--config", &file, "--state", "peers.toml", "--json"])
        .refused_at(2, "state");
    // What was restored is fine again; what rotted is named, and not served.
    let daemon = Daemon::start(&parties, 0, "");
    let readiness = daemon.http.get("/readyz").json_of(200);
    for name in rotten {
        let named = readiness["damaged"].to_string();
        assert!(named.contains(&format!("\"{name}: is corrupt")), "{readiness}");
    }
    let status = daemon.http.get("/v1/status").json_of(200);
    assert_eq!(
        (&status["runs"], &status["offers"]),
        (&serde_json::json!([]), &serde_json::json!([]))
    );
    assert_eq!(daemon.end().0.code, 0);
}

#[test]
fn a_full_disk_refuses_what_does_not_fit_and_the_daemon_goes_on() {
    let _alone = alone();
    let parties = Parties::new(4);
    let run = RUN.replace("[8]", "[40000]");
    let digest = parties.plan("plan", &run);
    parties.write_inputs(&[40_000]);
    let file = Daemon::configure(&parties, 0, "");
    // No file may grow beyond 200 kB: to the daemon that is a disk that is full, and needs no disk
    // of its own.
    let script = format!("trap '' XFSZ; ulimit -f 200; exec \"$0\" node --config {file}");
    let mut command = Command::new("bash");
    command
        .args(["-c", &script])
        .arg(undertone_tests::undertone())
        .current_dir(parties.folder());
    let daemon = Daemon::follow(&parties, 0, Running::start(command, None));
    let plan = std::fs::read(parties.path("plan.json")).expect("a plan");
    let vector = std::fs::read(parties.path("alice.npy")).expect("a vector");
    assert!(vector.len() > 200 * 1024);
    let sent = Some(("application/x-npy", &vector[..]));
    daemon.submit(&plan, "", sent).refused(507, "make room");
    daemon.http.get(&format!("/v1/runs/{digest}")).refused(404, "");
    std::fs::write(parties.path("alice.data/ward.npy"), vector).expect("the test's disk is not full");
    submit(&daemon, &parties.path("plan.json"), "ward.npy").json_of(201);
    // There is no room for its mean either: it ends before anything is spent.
    let ended = daemon.client(["watch", &digest]).json_of(2);
    let reason = ended["reason"].as_str().expect("it says why");
    assert!(reason.contains("no room") && ended["charged"].is_null());
    assert_eq!(daemon.end().0.code, 0);
}

/// What members would refuse to join they refuse to be offered.
fn too_dear_an_offer(alice: &Daemon, bob: &Daemon) {
    let dear = RUN.replace("name", "privacy = { epsilon = 1.2 }\nname");
    let proposed = alice.propose(&dear, "").json_of(201);
    let digest = proposed["digest"].as_str().expect("a digest");
    assert!(
        proposed["members"]["bob"]
            .as_str()
            .is_some_and(|said| said.starts_with("refused: ")),
        "{proposed}"
    );
    assert_eq!(proposed["run"], Value::Null, "{proposed}");
    bob.http
        .get(&format!("/v1/offers/{digest}"))
        .refused(404, "digest");
    alice
        .http
        .ask("DELETE", &format!("/v1/offers/{digest}"), &[], &[])
        .json_of(200);
}

/// A daemon whose data set `ward` is its party's vector.
fn start_with_ward(parties: &Parties, party: usize, configuration: &str) -> Daemon {
    let name = &parties.names()[party];
    let data = parties.path(&format!("{name}.data"));
    std::fs::create_dir_all(&data).expect("the test's folder is writable");
    std::fs::copy(parties.path(&format!("{name}.npy")), data.join("ward.npy")).expect("writable");
    Daemon::start(parties, party, &configuration.replace("NAME", name))
}

#[test]
fn plans_travel_to_the_members_and_each_decides_for_itself() {
    let _alone = alone();
    let parties = Parties::new(4);
    let ids: Vec<String> = parties.lines().iter().map(|lines| id_of(lines)).collect();
    let by_itself = format!(
        "{WARD}[policy]\nmax_epsilon = 1.0\nvouched = {ids:?}\n[[auto_accept]]\nproposer = \"alice\"\ndata_set = \"ward\"\n"
    );
    // Nobody vouches for anybody here: nothing is accepted unasked.
    let asks = by_itself.replace(&format!("vouched = {ids:?}\n"), "");
    parties.write_inputs(&[8]);
    let start = |party, configuration: &str| start_with_ward(&parties, party, configuration);
    let (alice, bob, carol) = (start(0, &by_itself), start(1, &by_itself), start(2, &asks));
    // Dave has time to come.
    let run = format!("{RUN}grace_ms = 30000\n");
    let proposed = alice.propose(&run, "").json_of(201);
    let digest = proposed["digest"].as_str().expect("a digest").to_owned();
    let said = |name: &str| proposed["members"][name].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        (said("bob").as_str(), said("carol").as_str()),
        ("accepted", "open"),
        "{proposed}"
    );
    assert!(said("dave").starts_with("not reached"), "{proposed}");
    assert_eq!(
        proposed["run"]["digest"],
        digest.as_str(),
        "alice accepts her own: {proposed}"
    );
    // Dave comes late and is offered the plan all the same.
    let dave = start(3, &by_itself);
    let offer = carol.http.get(&format!("/v1/offers/{digest}")).json_of(200);
    assert_eq!(
        (&offer["state"], &offer["proposer"]),
        (&"open".into(), &"alice".into()),
        "{offer}"
    );
    assert!(
        offer["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("everybody else colludes")),
        "{offer}"
    );
    let plans =
        [&alice, &bob, &carol].map(|daemon| daemon.http.get(&format!("/v1/offers/{digest}/plan")).body);
    assert!(
        plans.iter().all(|plan| *plan == plans[0]),
        "the same bytes everywhere"
    );
    let accept = format!("/v1/offers/{digest}/accept?data_set=ward");
    carol.http.bring("POST", &accept, None).json_of(201);
    for daemon in [&alice, &bob, &carol] {
        let run = ended(daemon, &digest);
        assert_eq!(
            (&run["outcome"], &run["included"].as_array().map(Vec::len)),
            (&"done".into(), &Some(4)),
            "{run}"
        );
    }
    assert_eq!(ended(&dave, &digest)["proposer"], "alice");

    too_dear_an_offer(&alice, &bob);
    let (ended, _) = bob.end();
    log_tells_of_a_run(&ended.stderr, &digest);
}

/// `cargo test --release -p undertone-tests --test daemon -- --ignored --nocapture hundred`: prints
/// runs a second, memory and files.
#[test]
#[ignore = "a measurement"]
fn a_hundred_runs_four_at_a_time_leave_no_trace_in_memory() {
    let _alone = alone();
    let parties = Parties::new(5);
    let run = RUN.replace("[8]", "[1000]");
    parties.write_inputs(&[1000]);
    let start = |(party, _)| start_with_ward(&parties, party, "[policy]\nmax_runs = 4\n");
    let daemons: Vec<Daemon> = parties.names().iter().enumerate().map(start).collect();
    let digests: Vec<String> = (0..100)
        .map(|number| parties.plan(&format!("run-{number}"), &run))
        .collect();
    let idle: Vec<f64> = daemons
        .iter()
        .map(|daemon| gauge(daemon, "process_resident_memory_bytes"))
        .collect();
    let mut used: Vec<[Vec<f64>; 2]> = vec![];
    let begun = std::time::Instant::now();
    for (batch, digests) in digests.chunks(25).enumerate() {
        for (number, _) in digests.iter().enumerate() {
            let plan = parties.path(&format!("run-{}.json", 25 * batch + number));
            for daemon in &daemons {
                submit(daemon, &plan, "ward.npy").json_of(201);
            }
        }
        for daemon in &daemons {
            for digest in digests {
                assert_eq!(ended(daemon, digest)["outcome"], "done");
            }
        }
        used.push(
            ["process_resident_memory_bytes", "process_open_fds"]
                .map(|name| daemons.iter().map(|d| gauge(d, name)).collect()),
        );
    }
    let took = begun.elapsed().as_secs_f64();
    println!(
        "100 runs of d = 1000 through 5 daemons, four at a time: {took:.1} s, {:.2} runs a second",
        100.0 / took
    );
    println!("memory idle {idle:?}");
    for (batch, [memory, files]) in used.iter().enumerate() {
        println!(
            "after {} runs: memory {memory:?}, files {files:?}",
            25 * (batch + 1)
        );
    }
    for (first, last) in [(&used[0][0], &used[3][0]), (&used[0][1], &used[3][1])] {
        for (first, last) in first.iter().zip(last) {
            assert!(*last <= 1.1 * first + 1.0, "grew from {first} to {last}");
        }
    }
}
