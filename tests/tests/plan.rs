//! `identity`, `plan` and `verify` as people use them: the figures that a plan must reach, what a
//! member refuses to join, and what files that make no sense are told.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use undertone_tests::{PLAN, Parties, read_json, run_in};

const RUN: &str = "version = 1\nname = \"test\"\n[data]\nshape = [40]\n";

/// [`RUN`] with the papers' noise, of which every coalition is computed.
const GAUSSIAN: &str =
    "version = 1\nname = \"test\"\n[data]\nshape = [40]\n[mechanism]\ncorrelated = \"gaussian\"\n";

#[test]
fn an_identity_is_private_and_prints_the_lines_of_a_peer_list() {
    let parties = Parties::new(3);
    let mode = std::fs::metadata(parties.path("alice.key"))
        .expect("it was made")
        .permissions()
        .mode()
        & 0o777;
    assert_eq!(mode, 0o600, "mode {mode:o}");
    let list: toml::Table = parties
        .peer_list()
        .parse()
        .expect("the printed lines are a peer list");
    let peers = list["peer"].as_array().expect("[[peer]]");
    assert_eq!(peers.len(), 3);
    for (peer, name) in peers.iter().zip(parties.names()) {
        assert_eq!(peer["name"].as_str(), Some(name.as_str()));
        assert!(
            peer["id"].as_str().is_some_and(|id| id.starts_with("12D3KooW")),
            "{peer:?}"
        );
        assert!(["private", "public"].iter().all(|key| {
            peer[*key]
                .as_str()
                .is_some_and(|a| a.starts_with("/ip4/127.0.0.1/tcp/"))
        }));
    }
    let shown = parties.run(["identity", "show", "alice.key"]);
    assert_eq!(
        (shown.code, shown.stdout.as_str()),
        (0, parties.lines()[0].as_str()),
        "show prints what new printed"
    );
    let key = std::fs::read_to_string(parties.path("alice.key")).expect("readable");
    let secret = key
        .lines()
        .find_map(|line| line.strip_prefix("secret = "))
        .expect("the key holds a secret")
        .trim_matches('"');
    assert!(!shown.stdout.contains(secret) && !shown.stderr.contains(secret));
}

#[test]
fn a_recovery_key_is_in_the_lines_and_is_made_with_the_identity_or_not_at_all() {
    let parties = Parties::new(3);
    let new = |out: &str, recovery: &str| {
        parties.run(["identity", "new", "--out", out, "--recovery", recovery, "--json"])
    };
    let made = new("new.key", "new-recovery.key").json_of(0);
    let recovery = parties
        .run(["identity", "show", "new-recovery.key", "--json"])
        .json_of(0);
    assert_eq!(made["recovery"], recovery["id"]);
    assert!(
        made["recovery"] != made["id"] && made["recovery"].is_string(),
        "{made}"
    );
    let lines = parties.run(["identity", "show", "new.key"]).stdout;
    parties.write("peers.toml", &format!("{}{lines}", parties.peer_list()));
    parties.write("run.toml", RUN);
    parties.run(PLAN).json_of(0);
    // A recovery file that exists stays, and no identity names a key which nobody has.
    let kept = || std::fs::read(parties.path("new-recovery.key")).expect("readable");
    let before = kept();
    new("other.key", "new-recovery.key").refused_at(2, "--recovery");
    assert!(!parties.path("other.key").exists());
    assert_eq!(before, kept());
}

#[test]
fn an_identity_is_never_overwritten_nor_read_if_others_can_read_it() {
    let parties = Parties::new(1);
    let before = std::fs::read(parties.path("alice.key")).expect("readable");
    let refusal = parties
        .run(["identity", "new", "--out", "alice.key", "--json"])
        .refused_at(2, "--out");
    assert!(
        refusal["error"]["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("never overwritten")),
        "{refusal}"
    );
    assert_eq!(
        std::fs::read(parties.path("alice.key")).expect("readable"),
        before
    );
    for mode in [0o644, 0o640, 0o604] {
        std::fs::set_permissions(parties.path("alice.key"), std::fs::Permissions::from_mode(mode))
            .expect("ours");
        let refusal = parties
            .run(["identity", "show", "alice.key", "--json"])
            .refused_at(2, "--identity");
        assert!(refusal.to_string().contains("chmod 600 alice.key"), "{refusal}");
    }
}

#[test]
fn an_identity_with_a_bad_name_or_address_is_not_made() {
    let parties = Parties::new(1);
    let new =
        |flag: &str, value: &str| parties.run(["identity", "new", "--out", "new.key", flag, value, "--json"]);
    for name in ["", "A", "a b", "a_b", "ä", "abcdefghijklmnopqrstuvwxyz-0123456"] {
        new("--name", name).refused_at(2, "--name");
    }
    for address in [
        "here",
        "127.0.0.1:7001",
        "/ip4/127.0.0.1/udp/7001",
        "/ip4/300.0.0.1/tcp/1",
        "/ip4/1.2.3.4/tcp/70000",
        "/ip4/1.2.3.4",
    ] {
        new("--private", address).refused_at(2, "--private");
        new("--public", address).refused_at(2, "--public");
    }
    assert!(!parties.path("new.key").exists());
}

/// Claims of one kind in a quote or plan.
fn claims<'a>(quote: &'a Value, faults: &str, established: &str) -> Vec<&'a Value> {
    let all = quote["claims"].as_array().expect("claims").iter();
    all.filter(|claim| claim["faults"] == faults && claim["established"] == established)
        .collect()
}

fn check_figures(quote: &Value, most: &[(&str, f64)]) {
    let predicted = &quote["predicted"];
    let floor = predicted["error_floor"].as_f64().expect("a number");
    for (key, ratio) in most {
        let found = predicted[*key].as_f64().expect("a number") / floor;
        println!(
            "{} parties: {key} = {found:.3} × floor (at most {ratio})",
            quote["parties"]
        );
        assert!(
            found <= *ratio,
            "{key} is {found} times the floor, more than {ratio}"
        );
        assert!(
            found >= 1.0,
            "{key} is {found} times the floor, below what is possible"
        );
    }
    let class = claims(quote, "class", "exhaustive");
    assert_eq!(class.len(), 1, "{quote}");
    let worst = class[0]["epsilon"].as_f64().expect("a number");
    assert!(
        (0.999..=1.0).contains(&worst),
        "the worst ε of the class is {worst}"
    );
    assert!(
        class[0]["holds_as_headline"] == true && class[0]["cases"].as_u64() > Some(1000),
        "{}",
        class[0]
    );
    assert_eq!(
        quote["epsilon_claimed"].as_f64(),
        Some(worst),
        "the headline is the worst of the class here"
    );
    assert_eq!(claims(quote, "before-publishing", "theorem").len(), 1);
    assert_eq!(
        claims(quote, "any", "theorem").len(),
        1,
        "every quote prints Δ/σ*"
    );
    // What a party loses that is cut off: one pattern of faults, below what is proved of all.
    assert!(quote["epsilon_searched"].as_f64() < quote["epsilon_claimed"].as_f64());
}

/// The floor is Δ / (μ √(n·n_H)) with μ of (1, 1e-6): checked from the outside.
fn check_floor(quote: &Value, parties: &Parties, count: f64) {
    let mu = parties
        .run([
            "account",
            "gaussian",
            "--epsilon",
            "1",
            "--delta",
            "1e-6",
            "--json",
        ])
        .json_of(0)["mu"]
        .as_f64()
        .expect("μ");
    let floor = 2.0 / (mu * (count * (count - 1.0)).sqrt());
    undertone_tests::assert_close(&quote["predicted"]["error_floor"], floor, 1e-9, "error floor");
}

fn quote(parties: &Parties, run: &str) -> Value {
    parties.write("run.toml", run);
    parties.run(PLAN).json_of(0)
}

/// What verify says of the plan that a quote was given with.
fn assert_verify_agrees(parties: &Parties, quote: &Value) {
    let verified = parties.run(["verify", "plan.json", "--json"]).json_of(0);
    assert_eq!(verified["verified"], true);
    for key in [
        "claims",
        "predicted",
        "digest",
        "epsilon_claimed",
        "rounds",
        "threat",
        "rests_on",
    ] {
        assert_eq!(verified[key], quote[key], "{key}");
    }
    let plan = read_json(&parties.path("plan.json"));
    assert_eq!(
        (&plan["claims"], &plan["predicted"]),
        (&quote["claims"], &quote["predicted"])
    );
}

/// Error / floor where nobody departs, one does in mixing, one right after its log, and one while
/// it owes a correction.
#[test]
fn parties_come_to_the_floor_by_sealed_finals_and_verify_agrees() {
    for (count, expected) in [
        (8, [1.080, 1.155, 1.080, 1.155]),
        (16, [1.035, 1.069, 1.035, 1.069]),
    ] {
        let parties = Parties::new(count);
        let quote = quote(&parties, RUN);
        let predicted = &quote["predicted"];
        let keys = [
            "standard_error",
            "standard_error_one_dropout",
            "standard_error_late_dropout",
            "standard_error_correcting",
        ];
        for (key, expected) in keys.into_iter().zip(expected) {
            let error = predicted[key].as_f64().expect("a number");
            let found = error / predicted["error_floor"].as_f64().expect("a number");
            assert!(
                (found - expected).abs() < 0.002,
                "{count}: {key} {found} {expected}"
            );
        }
        check_floor(&quote, &parties, count as f64);
        let sealed = |faults: &str| -> Vec<Value> {
            let claims = claims(&quote, faults, "theorem").into_iter();
            claims.map(|claim| claim["sealed"].clone()).collect()
        };
        assert_eq!(sealed("class"), [json!(true)]);
        assert_eq!(sealed("before-publishing"), [json!(true)]);
        assert_eq!(sealed("any"), [Value::Null], "Δ/σ* rests on no sealing");
        assert_verify_agrees(&parties, &quote);
    }
}

#[test]
fn eight_parties_reach_their_figures_with_gaussian_noise_and_verify_agrees() {
    let parties = Parties::new(8);
    let quote = quote(&parties, GAUSSIAN);
    check_figures(
        &quote,
        &[
            ("standard_error", 1.16),
            ("standard_error_one_dropout", 1.24),
            ("standard_error_late_dropout", 2.4),
        ],
    );
    check_floor(&quote, &parties, 8.0);
    assert_verify_agrees(&parties, &quote);
}

#[test]
fn a_plan_without_roll_back_is_refused() {
    let (parties, _) = planned();
    parties.write("papers.toml", &format!("{RUN}[mechanism]\nrollback = false\n"));
    let mut arguments = PLAN;
    arguments[1] = "papers.toml";
    parties.run(arguments).refused_at(2, "mechanism.rollback");
    parties
        .run([
            "local",
            "--nodes",
            "4",
            "--dimension",
            "40",
            "--run",
            "papers.toml",
            "--json",
        ])
        .refused_at(2, "mechanism.rollback");
    parties
        .run(["simulate", "papers.toml", "--parties", "4", "--json"])
        .json_of(0);
    // Somebody else's file.
    let mut plan = read_json(&parties.path("plan.json"));
    plan["mechanism"]["rollback"] = json!(false);
    parties.write("without.json", &plan.to_string());
    parties
        .run(["verify", "without.json", "--json"])
        .refused_at(3, "mechanism.rollback");
}

#[test]
fn compose_takes_no_plan_at_its_word() {
    let (parties, digest) = planned();
    let plan = read_json(&parties.path("plan.json"));
    let compose = |file: &str| parties.run(["account", "compose", file, "--delta", "1e-6", "--json"]);
    let claimed = plan["claims"].as_array().expect("a list");
    let claimed = claimed.iter().filter(|claim| claim["holds_as_headline"] == true);
    let largest = claimed
        .filter_map(|claim| claim["mu"].as_f64())
        .fold(0.0, f64::max);
    let answer = compose("plan.json").json_of(0);
    undertone_tests::assert_close(&answer["mu"], largest, 1e-9, &digest);
    let mut less = plan.clone();
    for claim in less["claims"].as_array_mut().expect("a list") {
        claim["mu"] = json!(0.01);
        claim["epsilon"] = json!(0.5);
    }
    parties.write("less.json", &less.to_string());
    compose("less.json").refused_at(3, "less.json");
}

#[test]
fn sixteen_parties_reach_theirs() {
    let parties = Parties::new(16);
    let quote = quote(&parties, GAUSSIAN);
    check_figures(
        &quote,
        &[("standard_error", 1.16), ("standard_error_one_dropout", 1.20)],
    );
    check_floor(&quote, &parties, 16.0);
}

#[test]
fn a_plan_says_all_that_the_contract_lists() {
    let parties = Parties::new(4);
    let digest = parties.plan("plan", &format!("{GAUSSIAN}rounds = 4\n"));
    let plan = read_json(&parties.path("plan.json"));
    for key in [
        "version",
        "name",
        "computation",
        "nonce",
        "data",
        "privacy",
        "run",
        "members",
        "private_graph",
        "public_graph",
        "mechanism",
    ] {
        assert!(!plan[key].is_null(), "{key}");
    }
    for key in [
        "kind",
        "injection",
        "rounds",
        "fanout",
        "independent_std",
        "correlated_std",
        "step_log2",
        "state_bits",
        "wire_bytes",
    ] {
        assert!(!plan["mechanism"][key].is_null(), "mechanism.{key}");
    }
    assert_eq!(
        plan["mechanism"].get("pairwise_std"),
        Some(&Value::Null),
        "unused here"
    );
    assert_schedule(&plan);
    assert_members(&plan, &parties);
    // The digest is that of the file's bytes.
    use sha2::{Digest, Sha256};
    let bytes = std::fs::read(parties.path("plan.json")).expect("readable");
    let found: String = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(found, digest);
    // Two plans of the same files differ (a nonce), so that a plan can be spent once.
    assert_ne!(parties.plan("again", &format!("{GAUSSIAN}rounds = 4\n")), digest);
}

/// In each of four rounds everybody sends one share and receives one.
fn assert_schedule(plan: &Value) {
    let out = plan["out"].as_array().expect("rounds");
    assert_eq!((out.len(), plan["mechanism"]["rounds"].as_u64()), (4, Some(4)));
    for round in out {
        let mut targets: Vec<u64> = round
            .as_array()
            .expect("parties")
            .iter()
            .map(|to| to[0].as_u64().expect("an index"))
            .collect();
        assert!(
            targets.iter().enumerate().all(|(from, &to)| from as u64 != to),
            "{round}"
        );
        targets.sort_unstable();
        assert_eq!(
            targets,
            [0, 1, 2, 3],
            "a permutation, so that everybody receives one share"
        );
    }
}

/// Members stand in the order of the peer list, each with its sensitivity.
fn assert_members(plan: &Value, parties: &Parties) {
    let names: Vec<&str> = plan["members"]
        .as_array()
        .expect("members")
        .iter()
        .filter_map(|m| m["name"].as_str())
        .collect();
    assert_eq!(names, parties.names(), "in the order of the peer list");
    assert!(
        plan["members"]
            .as_array()
            .expect("members")
            .iter()
            .all(|m| m["sensitivity"] == 2.0),
        "2C for an L2 ball of radius 1"
    );
}

/// Parties with a verified plan of 4 and its digest.
fn planned() -> (Parties, String) {
    let parties = Parties::new(4);
    let digest = parties.plan("plan", &format!("{RUN}[mechanism]\nrounds = 4\n"));
    (parties, digest)
}

#[test]
fn verify_holds_a_plan_to_the_members_policy() {
    let (parties, digest) = planned();
    let verify = |flag: &str, value: &str| parties.run(["verify", "plan.json", "--json", flag, value]);
    assert_eq!(
        verify("--digest", &digest).json_of(0)["digest"].as_str(),
        Some(digest.as_str())
    );
    verify("--digest", &digest.to_uppercase()).json_of(0);
    let refusal = verify("--digest", &"0".repeat(64)).refused_at(3, "--digest");
    assert!(
        refusal["error"]["message"]
            .as_str()
            .is_some_and(|m| m.contains(&digest) && m.contains(&"0".repeat(64))),
        "{refusal}"
    );
    verify("--max-epsilon", "1").json_of(0);
    verify("--max-epsilon", "0.9").refused_at(3, "--max-epsilon");
    verify("--max-epsilon", "-1").refused_at(2, "--max-epsilon");
    verify("--max-epsilon", "nan").refused_at(2, "--max-epsilon");
    verify("--min-colluders", "0").json_of(0);
    verify("--min-colluders", "1").json_of(0);
    verify("--min-colluders", "2").refused_at(3, "--min-colluders");
    parties
        .run(["verify", "absent.json", "--json"])
        .refused_at(2, "PLAN.json");
}

#[test]
fn the_default_policy_asks_for_one_colluder() {
    let parties = Parties::new(4);
    parties.plan(
        "plan",
        &format!("{RUN}[privacy]\ncolluding = 0\n[mechanism]\nrounds = 4\n"),
    );
    parties
        .run(["verify", "plan.json", "--json"])
        .refused_at(3, "--min-colluders");
    parties
        .run(["verify", "plan.json", "--json", "--min-colluders", "0"])
        .json_of(0);
}

#[test]
fn people_read_the_same_refusal_on_standard_error() {
    let parties = Parties::new(4);
    parties.write("run.toml", &format!("{RUN}[privacy]\nepsilon = 0.0\n"));
    let ended = parties.run(["plan", "run.toml", "--peers", "peers.toml", "--out", "plan.json"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    assert!(
        ended.stderr.contains("privacy.epsilon is 0") && ended.stderr.contains("line 6"),
        "{}",
        ended.stderr
    );
}

/// Both neighbours of everybody on a ring may be against it once one party colludes and another may
/// depart.
#[test]
fn a_private_graph_that_cannot_protect_somebody_is_refused_by_name() {
    let parties = Parties::new(5);
    let run = "version = 1\nname = \"ring\"\n[data]\nshape = [4]\n[mechanism]\nrounds = 3\n";
    parties.write("ring.toml", &format!("{run}[topology]\nprivate = \"ring\"\n"));
    let plan = |file: &str| {
        parties.run([
            "plan",
            file,
            "--peers",
            "peers.toml",
            "--out",
            "ring.json",
            "--json",
        ])
    };
    let object = plan("ring.toml").refused_at(3, "topology.private");
    let message = object["error"]["message"].as_str().expect("a sentence");
    assert!(
        message.contains("alice") && message.contains("add private edges"),
        "{message}"
    );
    assert!(!parties.path("ring.json").exists(), "no plan is written");
    parties.write(
        "calm.toml",
        &format!("{run}[privacy]\ndropouts = 0\n[topology]\nprivate = \"ring\"\n"),
    );
    plan("calm.toml").json_of(0);
}

/// Shape and columns are those of a file like the parties'; the target is found by its name.
#[test]
fn plan_like_a_table_takes_its_shape_and_columns() {
    let parties = Parties::new(4);
    parties.write("like.csv", "age,dose,stage\n41.5,0.2,1\n50.25,0.4,0\n");
    let run = "version = 1\ntask = \"regression\"\nname = \"like\"\n[data]\nrecords = { at_most = 900 }\n\
               noise_ok = true\n[model]\nloss = \"logistic\"\ntarget = \"stage\"\niterations = 3\n";
    parties.write("run.toml", run);
    let plan = |more: &str| {
        let line = format!("plan run.toml --peers peers.toml --out plan.json --json{more}");
        run_in(parties.folder(), line.split(' '))
    };
    plan("").refused_at(2, "data.shape");
    plan(" --like like.csv").json_of(0);
    let text = std::fs::read_to_string(parties.path("plan.json")).expect("a plan");
    assert!(
        !text.contains("41.5") && !text.contains("50.25"),
        "no value of the file"
    );
    let model = &read_json(&parties.path("plan.json"))["computation"]["model"];
    assert_eq!(model["names"], json!(["age", "dose", "stage"]), "{model}");
    assert_eq!(
        (&model["columns"], &model["target"]),
        (&json!(3), &json!("stage"))
    );
    plan(" --like absent.csv").refused(7, "absent.csv");
}

/// With a bound the quote says what it is for, and what half as many records come to.
#[test]
fn quote_of_bounded_records_gives_the_error_at_the_bound_and_at_half_of_it() {
    let parties = Parties::new(4);
    let run = |records: &str| {
        format!(
            "version = 1\nname = \"bounded\"\n[data]\nshape = [2]\nunit = \"record\"\nrecords = {records}\n\
             clip = {{ kind = \"l2\", radius = 1.0 }}\n"
        )
    };
    let quote = |records: &str| {
        parties.plan("plan", &run(records));
        let plan = ["verify", "plan.json", "--json"];
        let text = parties.run(["verify", "plan.json"]).stdout;
        (
            parties.run(plan).json_of(0),
            text.split_whitespace().collect::<Vec<_>>().join(" "),
        )
    };
    let (bounded, text) = quote("{ at_most = 2000 }");
    assert!(text.contains("at most 8000 records of 4 parties"), "{text}");
    assert!(text.contains("With half of them, 4000, they are 2"), "{text}");
    let [error, half] =
        ["standard_error", "standard_error_at_half"].map(|key| bounded["predicted"][key].as_f64());
    assert_eq!(half, error.map(|error| 2.0 * error), "{bounded}");
    let (exact, text) = quote("2000");
    assert!(
        text.contains(" 8000 records of 4 parties") && !text.contains("half of them"),
        "{text}"
    );
    let [exact, bounded] = [&exact["predicted"], &bounded["predicted"]];
    assert!(exact.get("standard_error_at_half").is_none(), "{exact}");
    assert_eq!(exact["standard_error"], bounded["standard_error"]);
}
