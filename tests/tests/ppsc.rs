//! PPSC as people use it: multi-gossip over real processes, a party that dies in it, and what is
//! refused before anything moves.

use std::path::Path;

use serde_json::{Value, json};
use undertone_tests::{
    Parties, Signal, alone, assert_close, assert_mean_of, follow_in, killed, private_rounds, read_json,
    read_npy, receipt, run_in, signal_if_alive,
};

const DIMENSION: usize = 200;

/// Deadlines that nobody comes to, on a machine with other work, too: they cost nothing when all
/// goes well, or who is missed was killed.
const PATIENT: &str = "join_ms = 60000\nround_ms = 30000\nsettle_ms = 30000\n";

fn name(party: usize) -> String {
    format!("party-{party}")
}

fn mean(kept: &Path, party: usize) -> Option<Vec<u8>> {
    std::fs::read(kept.join(name(party)).join("mean.npy")).ok()
}

fn write_run(folder: &Path, lines: &str) {
    std::fs::write(folder.join("run.toml"), format!("version = 1\n{lines}")).expect("writable");
}

#[test]
fn a_local_cluster_gossips_in_pairs_and_averages_exactly() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    write_run(
        folder.path(),
        &format!("[mechanism]\nkind = \"ppsc\"\n[run]\n{PATIENT}"),
    );
    let line = format!("local --nodes 6 --dimension {DIMENSION} --run run.toml --output kept --json");
    let object = run_in(folder.path(), line.split(' ')).json_of(0);
    assert_eq!(
        (&object["finished"], &object["outcome"], &object["agreed"]),
        (&6.into(), &"done".into(), &true.into())
    );
    let kept = folder.path().join("kept");
    let plan = read_json(&kept.join("plan.json"));
    let mechanism = &plan["mechanism"];
    assert_eq!(
        (&mechanism["kind"], &mechanism["correlated_std"]),
        (&"ppsc".into(), &Value::Null)
    );
    let sigma = mechanism["independent_std"].as_f64().expect("σ*");
    // One component: an exchange an iteration, in as many rounds as their longest chain has.
    let shares: usize = plan["out"]
        .as_array()
        .expect("rounds")
        .iter()
        .flat_map(|round| round.as_array().expect("parties"))
        .map(|to| to.as_array().expect("receivers").len())
        .sum();
    assert_eq!(mechanism["iterations"], shares, "{mechanism}");
    assert!(
        plan["out"].as_array().expect("rounds").len() < shares,
        "exchanges without a common party share a round"
    );
    for party in 0..6 {
        assert_eq!(mean(&kept, party), mean(&kept, 0), "same bits");
        let receipt = receipt::of_local(&kept, &name(party));
        assert_close(&receipt["standard_error"], sigma / 6f64.sqrt(), 1e-9, "σ*/√6");
        assert!(receipt["epsilon"].as_f64() <= receipt["epsilon_claimed"].as_f64());
        assert!(
            receipt["revealed"]
                .as_str()
                .is_some_and(|text| text.contains("exact sum")),
            "in plain words"
        );
        receipt::assert_mu_follows(&receipt);
    }
    let number = |key: &str| object[key].as_f64().expect("a number");
    let ratio = (number("rms_error") / number("standard_error")).powi(2);
    // χ² of 200 degrees, five standard deviations.
    assert!(
        (ratio - 1.0).abs() <= 5.0 * (2.0 / DIMENSION as f64).sqrt(),
        "{ratio} times the accounted variance"
    );
}

/// One departed, no noise stays, and the sum shows: of changes that keep it there is a loss.
fn assert_exact_sum(receipt: &Value, victim: &str, survivors: &[&String]) {
    assert_eq!(
        (&receipt["departed"], &receipt["included"]),
        (&json!([victim]), &json!(survivors))
    );
    let sentences = receipt["faults"]
        .as_array()
        .expect("sentences")
        .iter()
        .filter_map(Value::as_str);
    assert!(
        sentences.into_iter().any(|text| text.contains(victim)),
        "{receipt}"
    );
    assert_close(&receipt["standard_error"], 0.0, 0.0, "no noise stays in the mean");
    assert_eq!(receipt["execution"]["parties"], 8);
    assert!(
        receipt["execution"]["edges"].is_array(),
        "an execution of account ppsc: {receipt}"
    );
    // One value's change shows in the sum; of changes that keep it there is a loss.
    assert_eq!(
        (&receipt["epsilon"], &receipt["unbounded"]),
        (&Value::Null, &true.into())
    );
    assert!(
        receipt["same_sum_epsilon"]
            .as_f64()
            .is_some_and(|epsilon| epsilon > 0.0 && epsilon <= 1.0),
        "{receipt}"
    );
}

/// With `independent_noise = "none"` x̃ = x: what the survivors hold can be compared with their
/// very inputs.
#[test]
fn a_kill_among_eight_leaves_the_survivors_exact_mean() {
    let _alone = alone();
    killed::in_time(60, one_of_eight_is_killed);
}

/// False: the victim was through with mixing when it was killed.
fn one_of_eight_is_killed(pace_ms: u64) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let lines = "[data]\nclip = { kind = \"l2\", radius = 1.0 }\n[mechanism]\nkind = \"ppsc\"\n\
                 independent_noise = \"none\"\naccept_exact_sum = true\n[run]\n";
    write_run(folder.path(), &format!("{lines}pace_ms = {pace_ms}\n{PATIENT}"));
    std::fs::create_dir(folder.path().join("inputs")).expect("writable");
    let inputs: Vec<Vec<f64>> = undertone_tests::write_inputs(&folder.path().join("inputs"), 8, &[DIMENSION]);
    let (running, mut events) = follow_in(
        folder.path(),
        "local --inputs inputs --run run.toml --output kept --json".split(' '),
    );
    let spawned = events.spawned(8);
    let (victim, pid) = spawned[3].clone();
    events.until("its fourth round", |e| {
        e["event"] == "round" && e["party"] == *victim && e["round"] == 4
    });
    signal_if_alive(pid, Signal::SIGKILL);
    let (reported, ended) = (events.rest(), running.wait());
    if !killed::in_mixing(&reported, &victim) {
        return false;
    }
    let object = ended.json_of(5);
    let kept = folder.path().join("kept");
    let survivors: Vec<&String> = spawned
        .iter()
        .map(|(name, _)| name)
        .filter(|name| **name != victim)
        .collect();
    assert_eq!(
        (&object["included"], &object["agreed"]),
        (&json!(survivors), &true.into()),
        "{object}"
    );
    let read =
        |party: &str| std::fs::read(kept.join(party).join("mean.npy")).expect("a survivor holds a mean");
    for party in &survivors {
        assert_eq!(object["exit_codes"][party], 5, "{object}");
        assert!(
            read(party) == read(survivors[0]),
            "the survivors hold the same bits"
        );
        assert_exact_sum(&receipt::of_local(&kept, party), &victim, &survivors);
    }
    let (_, _, values) = read_npy(&kept.join(survivors[0]).join("mean.npy"));
    for (coordinate, found) in values.iter().enumerate() {
        let rest = inputs
            .iter()
            .enumerate()
            .filter(|(party, _)| *party != 3)
            .map(|(_, input)| input[coordinate]);
        let truth = rest.sum::<f64>() / 7.0;
        assert!(
            (found - truth).abs() < 1e-8,
            "coordinate {coordinate}: {found}, the seven's mean is {truth}"
        );
    }
    assert!(
        reported
            .iter()
            .all(|e| e["event"] != "fault" || !e["text"].as_str().unwrap_or("").contains("fit")),
        "{reported:?}"
    );
    true
}

/// With noise: the same, σ*/√7, and ε within the claim.
#[test]
fn a_kill_in_multi_gossip_costs_accuracy_only() {
    let _alone = alone();
    killed::in_time(60, one_is_killed_in_multi_gossip);
}

/// False: the victim was through with mixing when it was killed.
fn one_is_killed_in_multi_gossip(pace_ms: u64) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    write_run(
        folder.path(),
        &format!("[mechanism]\nkind = \"ppsc\"\n[run]\npace_ms = {pace_ms}\n{PATIENT}"),
    );
    let line = format!("local --nodes 8 --dimension {DIMENSION} --run run.toml --output kept --json");
    let (running, mut events) = follow_in(folder.path(), line.split(' '));
    let (victim, pid) = events.spawned(8)[5].clone();
    events.until("its sixth round", |e| {
        e["event"] == "round" && e["party"] == *victim && e["round"] == 6
    });
    signal_if_alive(pid, Signal::SIGKILL);
    let (reported, ended) = (events.rest(), running.wait());
    if !killed::in_mixing(&reported, &victim) {
        return false;
    }
    let object = ended.json_of(5);
    let kept = folder.path().join("kept");
    for party in (0..8).filter(|&party| party != 5) {
        assert_eq!(mean(&kept, party), mean(&kept, 0), "same bits");
        let receipt = receipt::of_local(&kept, &name(party));
        assert_eq!(receipt["departed"], json!([victim]));
        let sigma = receipt["independent_std"].as_f64().expect("σ*");
        assert_close(&receipt["standard_error"], sigma / 7f64.sqrt(), 1e-9, "σ*/√7");
        assert!(
            receipt["epsilon"].as_f64() <= receipt["epsilon_claimed"].as_f64(),
            "{receipt}"
        );
        receipt::assert_mu_follows(&receipt);
    }
    assert_eq!(
        (&object["outcome"], &object["finished"]),
        (&"degraded".into(), &7.into())
    );
    true
}

#[test]
fn members_of_a_peer_list_plan_verify_and_join() {
    let _alone = alone();
    let parties = Parties::new(4);
    let inputs = parties.write_inputs(&[20]);
    let run = format!(
        "version = 1\nname = \"pairs\"\n[data]\nnoise_ok = true\nshape = [20]\n[privacy]\nepsilon = 2.0\n[mechanism]\nkind = \"ppsc\"\n[run]\n{PATIENT}"
    );
    let digest = parties.plan("p", &run);
    let quote = parties
        .run(["verify", "p.json", "--digest", &digest, "--json"])
        .json_of(0);
    assert_eq!(quote["verified"], true);
    assert!(
        quote["revealed"]
            .as_str()
            .is_some_and(|text| text.contains("exact sum of everybody's values")),
        "{quote}"
    );
    let quoted = parties.run(["verify", "p.json"]);
    assert!(
        quoted
            .stdout
            .contains("Multi-gossip alone would reveal the exact sum"),
        "{}",
        quoted.stdout
    );
    let joined: Vec<_> = (0..4)
        .map(|party| undertone_tests::start_in(parties.folder(), parties.join("p", party)))
        .collect();
    let objects: Vec<Value> = joined
        .into_iter()
        .map(|joined| joined.wait().json_of(0))
        .collect();
    for (party, object) in parties.names().iter().zip(&objects) {
        let (_, _, mean) = read_npy(&parties.path(&format!("p-{party}.npy")));
        assert_mean_of(
            &mean,
            &inputs,
            object["standard_error"].as_f64().expect("a number"),
        );
        receipt::assert_mu_follows(&read_json(&parties.path(&format!("p-{party}.receipt.json"))));
    }
    // Exact sums are for those who say so, and not for a member with a largest ε.
    parties.plan(
        "exact",
        &run.replace(
            "kind = \"ppsc\"",
            "kind = \"ppsc\"\nindependent_noise = \"none\"\naccept_exact_sum = true",
        ),
    );
    let said = parties.run(["verify", "exact.json"]);
    assert!(
        said.code == 0 && said.stdout.contains("This plan reveals the exact sum"),
        "{}",
        said.stdout
    );
    parties
        .run(["verify", "exact.json", "--max-epsilon", "5", "--json"])
        .refused_at(3, "--max-epsilon");
    // A claim that its own noise does not give is refused.
    let mut plan = read_json(&parties.path("p.json"));
    let std = &mut plan["mechanism"]["independent_std"];
    *std = json!(std.as_f64().expect("σ*") * 0.5);
    parties.write("q.json", &plan.to_string());
    assert_eq!(parties.run(["verify", "q.json"]).code, 3);
}

#[test]
fn what_cannot_be_private_is_refused_with_its_fix() {
    let parties = Parties::new(5);
    let refused = |lines: &str, code: i32, field: &str, words: &str| {
        parties.write(
            "bad.toml",
            &format!("version = 1\nname = \"bad\"\n[data]\nshape = [3]\n{lines}"),
        );
        let refusal = parties
            .run([
                "plan",
                "bad.toml",
                "--peers",
                "peers.toml",
                "--out",
                "bad.json",
                "--json",
            ])
            .refused_at(code, field);
        assert!(refusal.to_string().contains(words), "{refusal}");
        assert!(!parties.path("bad.json").exists());
    };
    let ppsc = "[mechanism]\nkind = \"ppsc\"\n";
    let edges =
        |list: &str| format!("{ppsc}[topology]\nprivate = {{ kind = \"edges\", edges = [{list}] }}\n");
    let path = r#"["alice", "bob"], ["bob", "carol"], ["carol", "dave"]"#;
    refused(
        &edges(path),
        2,
        "topology.private",
        "gives \\\"erin\\\" no neighbour",
    );
    let lonely = format!(r#"{path}, ["dave", "erin"]"#);
    refused(
        &edges(&lonely),
        3,
        "topology.private",
        "mechanism.local_noise_ok = true",
    );
    let public = format!("{ppsc}[topology]\npublic = {{ kind = \"edges\", edges = [{path}] }}\n");
    refused(&public, 2, "topology.public", "does not reach \\\"erin\\\"");
    refused(
        &format!("{ppsc}independent_noise = \"none\"\n"),
        2,
        "mechanism.independent_noise",
        "accept_exact_sum = true",
    );
    refused(&format!("{ppsc}fanout = 2\n"), 2, "mechanism.fanout", "inca");
    refused(
        &format!("{ppsc}rollback = false\n"),
        2,
        "mechanism.rollback",
        "inca",
    );
    refused(
        &format!("{ppsc}rounds = 1\n"),
        2,
        "mechanism.rounds",
        "rounds = \\\"auto\\\"",
    );
}

#[test]
fn the_private_phase_takes_no_more_rounds_than_the_longest_chain_of_exchanges() {
    for parties in [6, 12] {
        for row in private_rounds::measured(parties) {
            // 4 exchanges a party, each of two parties: some party takes part in 8 at least, one
            // after the other.
            assert!(row.critical_path >= 8 && row.exchanges >= 4 * parties, "{row:?}");
            assert!(
                row.to_last_share >= 2.0 && row.to_last_answer > row.to_last_share,
                "{row:?}"
            );
            assert!(row.ratio() <= 1.3, "{row:?}");
        }
    }
}

/// Twice as many parties as can be computed: what is claimed is a theorem, and the noise is far
/// below that of local privacy.
#[test]
fn fifty_parties_share_their_noise_by_a_theorem() {
    let folder = tempfile::tempdir().expect("a folder");
    write_run(
        folder.path(),
        "[privacy]\ncolluding = 3\n[mechanism]\nkind = \"ppsc\"\n",
    );
    let object = run_in(
        folder.path(),
        "simulate run.toml --parties 50 --direct --json".split(' '),
    )
    .json_of(0);
    assert_eq!(object["violations"], json!([]));
    let number = |key: &str| {
        object[key]
            .as_f64()
            .unwrap_or_else(|| panic!("{key} of {object}"))
    };
    assert!(number("standard_error") < 0.3 * number("local"), "{object}");
    assert!(number("epsilon") <= number("epsilon_claimed") && number("epsilon_claimed") <= 1.0);
    let headline = object["claims"]
        .as_array()
        .expect("claims")
        .iter()
        .find(|claim| claim["faults"] == "class")
        .expect("of the class");
    assert_eq!(
        (&headline["established"], &headline["holds_as_headline"]),
        (&"theorem".into(), &true.into())
    );
}
