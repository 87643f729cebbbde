//! The second journey, typed out: identities, a peer list, a plan, and one `join` a party in a
//! process of its own; and whatever may come between.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use undertone_tests::{
    Ended, Followed, Parties, Running, alone, assert_close, follow_in, npy_shape, read_json, read_npy,
    receipt, run_in, start_in, write_npy, write_npy_f32, write_raw_npy,
};

const SHAPE: [usize; 2] = [20, 50];

fn run_file(join_ms: u64) -> String {
    let shape = format!("shape = [{}, {}]", SHAPE[0], SHAPE[1]);
    format!(
        "version = 1\nname = \"journey\"\n[data]\nnoise_ok = true\n{shape}\n[mechanism]\nrounds = 4\n[run]\njoin_ms = {join_ms}\ngrace_ms = {join_ms}\n"
    )
}

/// Four parties with inputs and a plan "plan".
fn planned(join_ms: u64) -> (Parties, String) {
    let parties = Parties::new(4);
    parties.write_inputs(&SHAPE);
    let digest = parties.plan("plan", &run_file(join_ms));
    (parties, digest)
}

fn follow(parties: &Parties, plan: &str, party: usize) -> (Running, Followed) {
    follow_in(parties.folder(), parties.join(plan, party))
}

fn join(parties: &Parties, plan: &str, party: usize, more: &[&str]) -> Ended {
    let more = more.iter().map(|flag| (*flag).to_owned());
    run_in(
        parties.folder(),
        parties.join(plan, party).into_iter().chain(more),
    )
}

fn until_gathering(events: &mut Followed) {
    events.until("gathering", |e| {
        e["event"] == "phase" && e["phase"] == "gathering"
    });
}

/// The marks of spent plans in a party's default state folder.
fn spent(parties: &Parties, party: usize) -> Vec<String> {
    let path = parties.path(&format!("{}.key.state/marks", parties.names()[party]));
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let spent = text.lines().filter(|line| line.contains(r#""mark":"spent""#));
    spent.map(str::to_owned).collect()
}

fn check_done(object: &Value, name: &str) {
    for key in [
        "parties",
        "finished",
        "included",
        "agreed",
        "outcome",
        "epsilon",
        "delta",
        "epsilon_claimed",
        "epsilon_searched",
        "threat",
        "claims",
        "standard_error",
        "error_floor",
        "weights",
        "rounds",
        "wall_s",
        "total_wall_s",
        "private_bytes",
        "public_bytes",
        "digest",
        "exit_code",
    ] {
        assert!(object.get(key).is_some(), "{name}: the final object has no {key}");
    }
    assert_eq!(
        (&object["finished"], &object["outcome"], &object["agreed"]),
        (&1.into(), &"done".into(), &true.into()),
        "{name}"
    );
    assert_eq!(
        object["included"],
        serde_json::json!(["alice", "bob", "carol", "dave"])
    );
    assert!(
        object.get("rms_error").is_none_or(Value::is_null),
        "the others' inputs are not known here"
    );
}

#[test]
fn four_parties_join_and_a_plan_is_spent_once() {
    let _alone = alone();
    let (parties, digest) = planned(30_000);
    // A value that must not show up anywhere, at the most talkative level.
    let mut marked = vec![0.001; 1000];
    marked[0] = 0.071_828_182_845_904;
    write_npy(&parties.path("alice.npy"), &SHAPE, &marked);
    let verified = parties
        .run([
            "verify",
            "plan.json",
            "--max-epsilon",
            "1",
            "--min-colluders",
            "1",
            "--json",
        ])
        .json_of(0);
    assert_eq!(verified["digest"].as_str(), Some(digest.as_str()));
    let talkative = [
        "-vv",
        "--log",
        "json",
        "--show-private",
        "--digest",
        &digest,
        "--max-epsilon",
        "1",
    ]
    .map(String::from);
    let (alice, events) = follow_in(
        parties.folder(),
        parties.join("plan", 0).into_iter().chain(talkative),
    );
    let others: Vec<Running> = (1..4)
        .map(|party| start_in(parties.folder(), parties.join("plan", party)))
        .collect();
    let alice = alice.wait();
    let object = alice.json_of(0);
    check_done(&object, "alice");
    assert_eq!(object["clipped"], 0, "shown on demand, with --show-private");
    for (party, running) in (1..).zip(others) {
        let other = running.wait().json_of(0);
        check_done(&other, &parties.names()[party]);
        assert!(
            other.get("clipped").is_none_or(Value::is_null),
            "a statistic of a private input is not shown unasked"
        );
    }
    check_files(&parties, &object);
    check_silence(&alice, &events.rest(), &parties);
    for party in 0..4 {
        let entries = spent(&parties, party);
        assert!(
            entries.len() == 1 && entries[0].contains(&digest) && entries[0].contains("12D3KooW"),
            "{entries:?}"
        );
        let refusal = join(&parties, "plan", party, &[]).refused(6, "already taken part");
        assert!(
            refusal["error"]["field"]
                .as_str()
                .is_some_and(|field| field.contains(".key.spent/marks")),
            "{refusal}"
        );
    }
    // Looked for first of all: before the input is read, before the policy.
    std::fs::remove_file(parties.path("alice.npy")).expect("it was there");
    join(&parties, "plan", 0, &["--max-epsilon", "0.1"]).refused(6, "already taken part");
}

fn check_files(parties: &Parties, object: &Value) {
    let mean = |name: &str| std::fs::read(parties.path(&format!("plan-{name}.npy"))).expect("a mean");
    assert!(
        parties.names().iter().all(|name| mean(name) == mean("alice")),
        "all hold the same bits"
    );
    let (descriptor, header, values) = read_npy(&parties.path("plan-alice.npy"));
    assert_eq!(
        (descriptor.as_str(), npy_shape(&header).as_slice(), values.len()),
        ("<f8", SHAPE.as_slice(), 1000)
    );
    for name in parties.names() {
        let receipt = read_json(&parties.path(&format!("plan-{name}.receipt.json")));
        receipt::assert_complete(&receipt);
        assert_eq!(receipt["digest"], object["digest"]);
        receipt::assert_mu_follows(&receipt);
        assert!(parties.path(&format!("plan-{name}.receipt.json.sig")).is_file());
    }
    assert_close(&object["weights"]["bob"], 0.25, 1e-9, "an equal weight");
}

/// No coordinate of the marked input is in a log, an event, an answer or a receipt, and neither is
/// the secret key.
fn check_silence(alice: &Ended, events: &[Value], parties: &Parties) {
    let reported: String = events.iter().map(Value::to_string).collect();
    let receipt = std::fs::read_to_string(parties.path("plan-alice.receipt.json")).expect("readable");
    let key = std::fs::read_to_string(parties.path("alice.key")).expect("readable");
    let secret = key
        .lines()
        .find_map(|line| line.strip_prefix("secret = "))
        .expect("a secret")
        .trim_matches('"')
        .to_owned();
    for (place, text) in [
        ("log", &alice.stderr),
        ("answer", &alice.stdout),
        ("events", &reported),
        ("receipt", &receipt),
    ] {
        assert!(
            !text.contains("0.0718281") && !text.contains("7.18281"),
            "the marked coordinate is in the {place}"
        );
        assert!(!text.contains(&secret), "the secret key is in the {place}");
    }
    assert!(
        alice.stderr.lines().count() > 10,
        "at this level there is something to read:\n{}",
        alice.stderr
    );
    for line in alice.stderr.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("--log json: {e}\n{line}"));
        assert!(line.is_object());
    }
    assert!(
        events
            .iter()
            .any(|e| e["event"] == "finished" && e["exit_code"] == 0)
    );
}

#[test]
fn a_member_with_another_plan_is_left_out_and_both_digests_are_named() {
    let _alone = alone();
    let (parties, digest) = planned(1500);
    let other = parties.plan("other", &run_file(1500));
    assert_ne!(digest, other);
    let three: Vec<(Running, Followed)> = (0..3).map(|party| follow(&parties, "plan", party)).collect();
    let (dave, dave_events) = follow(&parties, "other", 3);
    let object = dave.wait().json_of(4);
    assert_eq!(
        (&object["outcome"], &object["finished"]),
        (&"aborted".into(), &0.into())
    );
    assert_eq!(
        spent(&parties, 3),
        Vec::<String>::new(),
        "nothing private has left"
    );
    assert!(!parties.path("other-dave.npy").exists());
    let says = |events: &[Value], who: &str| {
        let text = |e: &Value| e["text"].as_str().unwrap_or("").to_owned();
        let names = |text: &String| text.contains(&digest) && text.contains(&other) && text.contains(who);
        events
            .iter()
            .filter(|e| e["event"] == "fault")
            .map(text)
            .any(|text| names(&text))
    };
    let dave_reported = dave_events.rest();
    assert!(
        ["alice", "bob", "carol"]
            .iter()
            .any(|name| says(&dave_reported, name)),
        "{dave_reported:?}"
    );
    let mut reported = false;
    for (party, (running, events)) in three.into_iter().enumerate() {
        let object = running.wait().json_of(5);
        assert_eq!(object["included"], serde_json::json!(["alice", "bob", "carol"]));
        reported |= says(&events.rest(), "dave");
        let name = &parties.names()[party];
        let receipt = read_json(&parties.path(&format!("plan-{name}.receipt.json")));
        assert_eq!(receipt["departed"], serde_json::json!(["dave"]));
        let sigma = receipt["independent_std"].as_f64().expect("σ*");
        assert_close(&receipt["standard_error"], sigma / 3_f64.sqrt(), 1e-9, "σ*/√3");
        assert!(receipt["epsilon"].as_f64() <= receipt["epsilon_claimed"].as_f64());
        receipt::assert_mu_follows(&receipt);
    }
    assert!(reported, "the three hear of dave's other plan");
}

#[test]
fn too_few_members_abort_and_nothing_private_leaves() {
    let _alone = alone();
    let (parties, _) = planned(3000);
    let two: Vec<Running> = (0..2)
        .map(|party| start_in(parties.folder(), parties.join("plan", party)))
        .collect();
    for (party, running) in two.into_iter().enumerate() {
        let object = running.wait().json_of(4);
        assert_eq!(
            (&object["outcome"], &object["epsilon"]),
            (&"aborted".into(), &0.0.into())
        );
        assert_eq!(spent(&parties, party), Vec::<String>::new());
    }
    // An aborted plan is not spent: the same four may try again.
    let four: Vec<Running> = (0..4)
        .map(|party| start_in(parties.folder(), parties.join("plan", party)))
        .collect();
    for running in four {
        running.wait().json_of(0);
    }
}

/// `join` by the stranger.
fn as_mallory<'a>(plan: &'a str, key: &'a str) -> [&'a str; 9] {
    let [input, output] = ["alice.npy", "mallory.npy"];
    [
        "join",
        plan,
        "--identity",
        key,
        "--input",
        input,
        "--output",
        output,
        "--json",
    ]
}

/// A plan with the members' addresses and the stranger in place of one of them.
fn forge(parties: &Parties, replaced: usize, mallory: &str) {
    let list: String = (0..4)
        .map(|party| {
            if party == replaced {
                mallory.to_owned()
            } else {
                parties.lines()[party].clone()
            }
        })
        .collect();
    parties.write("forged.toml", &run_file(30_000));
    parties.write("forged-peers.toml", &format!("version = 1\n{list}"));
    parties
        .run([
            "plan",
            "forged.toml",
            "--peers",
            "forged-peers.toml",
            "--out",
            "forged.json",
            "--json",
        ])
        .json_of(0);
}

#[test]
fn a_stranger_does_not_stop_the_run() {
    let _alone = alone();
    let (parties, _) = planned(30_000);
    // The lower id dials: a stranger whose id is below the largest member's will dial that member.
    let lines = |party: usize| parties.lines()[party].clone();
    let id = |lines: &str| {
        lines
            .lines()
            .find_map(|line| line.strip_prefix("id = "))
            .expect("an id")
            .trim_matches('"')
            .to_owned()
    };
    let target = (0..4).max_by_key(|&party| id(&lines(party))).expect("four");
    let made = (0..20).map(|attempt| (attempt, parties.new_identity(&format!("mallory-{attempt}"))));
    let (attempt, mallory) = made
        .into_iter()
        .find(|(_, made)| id(made) < id(&lines(target)))
        .expect("one of twenty ids is smaller");
    // Not in the plan: refused by its own node.
    let key = format!("mallory-{attempt}.key");
    let own = as_mallory("plan.json", &key);
    parties.run(own).refused_at(3, "--identity");
    // In a plan of its own making, with the members' addresses, in place of one that it does not
    // dial.
    let replaced = (target + 1) % 4;
    forge(&parties, replaced, &mallory);
    let (running, mut events) = follow(&parties, "plan", target);
    until_gathering(&mut events);
    let forged = as_mallory("forged.json", &key);
    let stranger = start_in(parties.folder(), forged);
    let mallory_id = id(&mallory);
    let refused = |e: &Value| {
        e["event"] == "fault" && e["text"].as_str().is_some_and(|text| text.contains(&mallory_id))
    };
    events.until("a fault that names the stranger", refused);
    let others: Vec<Running> = (0..4)
        .filter(|&p| p != target)
        .map(|party| start_in(parties.folder(), parties.join("plan", party)))
        .collect();
    check_done(&running.wait().json_of(0), "the target");
    for other in others {
        check_done(&other.wait().json_of(0), "another");
    }
    drop(stranger);
    assert!(!parties.path("mallory.npy").exists());
}

#[test]
fn garbage_on_both_ports_does_not_stop_the_run() {
    let _alone = alone();
    let (parties, _) = planned(30_000);
    let (alice, mut events) = follow(&parties, "plan", 0);
    until_gathering(&mut events);
    let mut held = vec![];
    for port in parties.ports(0) {
        for garbage in [
            vec![0_u8; 100_000],
            vec![0xff; 100_000],
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            b"\x13/multistream/1.0.0\n\x07/plain\n".to_vec(),
            vec![],
        ] {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("alice listens");
            // She may hang up on it at any byte.
            let _ = stream.write_all(&garbage);
            held.push(stream);
        }
    }
    events.until("a fault that names the offender", |e| {
        e["event"] == "fault" && e["text"].as_str().is_some_and(|t| t.contains("127.0.0.1"))
    });
    let others: Vec<Running> = (1..4)
        .map(|party| start_in(parties.folder(), parties.join("plan", party)))
        .collect();
    events.until("mixing", |e| e["phase"] == "mixing");
    for port in parties.ports(0) {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
            let _ = stream.write_all(&[0x55; 1000]);
            held.push(stream);
        }
    }
    check_done(&alice.wait().json_of(0), "alice");
    for other in others {
        check_done(&other.wait().json_of(0), "another");
    }
    drop(held);
}

#[test]
fn a_port_in_use_is_named() {
    let _alone = alone();
    let (parties, _) = planned(30_000);
    for port in parties.ports(2) {
        let _listener = TcpListener::bind(("127.0.0.1", port)).expect("free until now");
        let refusal = join(&parties, "plan", 2, &[]).refused_at(2, "members");
        assert!(
            refusal["error"]["message"]
                .as_str()
                .is_some_and(|m| m.contains(&port.to_string())),
            "{refusal}"
        );
    }
    assert_eq!(spent(&parties, 2), Vec::<String>::new());
}

#[test]
fn an_unusable_input_is_refused_before_anything_is_sent() {
    let (parties, _) = planned(30_000);
    let file = parties.path("alice.npy");
    let good = std::fs::read(&file).expect("readable");
    let refused = |about: &str| {
        let ended = join(&parties, "plan", 0, &[]);
        assert_eq!(ended.code, 7, "{about}: {}{}", ended.stdout, ended.stderr);
        let refusal = ended.refused(7, about);
        assert!(
            refusal["error"]["message"]
                .as_str()
                .is_some_and(|m| m.contains("alice.npy")),
            "{refusal} should name the file"
        );
        assert!(
            refusal["error"]["field"].is_string() && refusal["error"]["hint"].is_string(),
            "{refusal} should name a field and a fix"
        );
    };
    let mut values = vec![0.01; 1000];
    write_npy(&file, &[999], &values[..999]);
    refused("999 coordinates");
    write_npy(&file, &[50, 20], &values);
    refused("[50, 20]");
    write_npy(&file, &[1000], &values);
    refused("[1000]");
    for (bad, what) in [
        (f64::NAN, "NaN"),
        (f64::INFINITY, "infinite"),
        (f64::NEG_INFINITY, "infinite"),
    ] {
        values[637] = bad;
        write_npy(&file, &SHAPE, &values);
        refused("coordinate 637");
        refused(what);
    }
    write_npy_f32(&file, &SHAPE, &[f32::NAN; 1000]);
    refused("coordinate 0");
    for descriptor in ["<i8", "<f2", "<c16", "|b1", "|O"] {
        write_raw_npy(&file, descriptor, &SHAPE, vec![0; 16_000]);
        refused("dtype");
    }
    for (length, about) in [
        (0, "empty"),
        (5, "truncated"),
        (40, "truncated"),
        (good.len() - 1, "truncated"),
    ] {
        std::fs::write(&file, &good[..length]).expect("writable");
        refused(about);
    }
    std::fs::write(&file, "0.1,0.2\n0.3,0.4\n".repeat(100)).expect("writable");
    refused("not a .npy file");
    std::fs::remove_file(&file).expect("it was there");
    refused("cannot be opened");
    std::fs::create_dir(&file).expect("writable");
    refused("");
    assert_eq!(spent(&parties, 0), Vec::<String>::new());
    assert!(!parties.path("plan-alice.npy").exists());
}

#[test]
fn what_this_machine_refuses_is_found_before_the_run() {
    let (parties, digest) = planned(30_000);
    let with = |changes: &[(&str, &str)]| {
        let mut arguments = parties.join("plan", 0);
        for (flag, value) in changes {
            match arguments.iter().position(|a| a == flag) {
                Some(at) => arguments[at + 1] = (*value).to_owned(),
                None => arguments.extend([(*flag).to_owned(), (*value).to_owned()]),
            }
        }
        run_in(parties.folder(), arguments)
    };
    with(&[("--output", "no/such/folder/mean.npy")]).refused_at(2, "--output");
    with(&[("--output", "/proc/mean.npy")]).refused_at(2, "--output");
    with(&[("--output", ".")]).refused_at(2, "--output");
    with(&[("--receipt", "no/such/folder/receipt.json")]).refused_at(2, "--receipt");
    with(&[("--state", "/proc/state")]).refused_at(2, "--state");
    with(&[("--state", "alice.key")]).refused_at(2, "--state");
    with(&[("--events", "no/such/events.jsonl")]).refused_at(2, "--events");
    with(&[("--identity", "absent.key")]).refused_at(2, "--identity");
    with(&[("--identity", "peers.toml")]).refused_at(2, "--identity");
    with(&[("--digest", &"0".repeat(64))]).refused(3, &digest);
    with(&[("--max-epsilon", "0.5")]).refused_at(3, "--max-epsilon");
    with(&[("--min-colluders", "2")]).refused_at(3, "--min-colluders");
    std::fs::set_permissions(parties.path("alice.key"), std::fs::Permissions::from_mode(0o644))
        .expect("ours");
    with(&[]).refused(2, "chmod 600");
    std::fs::set_permissions(parties.path("alice.key"), std::fs::Permissions::from_mode(0o600))
        .expect("ours");
    let plan = std::fs::read_to_string(parties.path("plan.json")).expect("readable");
    parties.write(
        "plan.json",
        &plan.replacen("\"epsilon\": 1.0", "\"epsilon\": 0.5", 1),
    );
    assert_eq!(with(&[]).code, 3, "a plan whose claims do not hold");
    parties.write("plan.json", &plan[..plan.len() / 2]);
    with(&[]).refused(3, "plan.json");
    assert_eq!(spent(&parties, 0), Vec::<String>::new());
}
