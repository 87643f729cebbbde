//! `undertone local`: the final object, the files that it keeps, and that anybody can check them.

use std::collections::BTreeSet;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libp2p_identity::{PeerId, PublicKey};
use serde_json::Value;
use sha2::{Digest, Sha256};
use undertone_tests::{
    Ended, alone, npy_shape, read_json, read_npy, receipt, run_in, write_inputs, write_npy_f32,
};

/// Deadlines that no run comes to on any machine: they cost nothing when all goes well.
const PATIENT: &str = "[run]\njoin_ms = 60000\nround_ms = 30000\nsettle_ms = 30000\n";

/// Runs `local` with what stands in a line.
fn local(folder: &Path, line: &str) -> Ended {
    let _alone = alone();
    run_in(folder, format!("local --json {line}").split_whitespace())
}

/// Long vectors of few parties, for the way that they go.
const IN_A_BALL: &str = "[data]\nclip = { kind = \"l2\", radius = 1.0 }\nnoise_ok = true\n";

/// Runs `local` with the patience of [`PATIENT`] and these lines of a run file that lies
/// elsewhere.
fn patient(folder: &Path, line: &str, lines: &str) -> Ended {
    let run = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(run.path(), format!("version = 1\n{lines}{PATIENT}")).expect("writable");
    local(folder, &format!("{line} --run {}", run.path().display()))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A check of one key of the final object.
type Check = fn(&Value) -> bool;

const FINAL_OBJECT: [(&str, Check); 27] = [
    ("parties", Value::is_u64),
    ("finished", Value::is_u64),
    ("included", Value::is_array),
    ("agreed", Value::is_boolean),
    ("outcome", Value::is_string),
    ("epsilon", Value::is_f64),
    ("delta", Value::is_f64),
    ("epsilon_claimed", Value::is_f64),
    ("epsilon_searched", |found| found.is_number() || found.is_null()),
    ("threat", Value::is_string),
    ("claims", Value::is_array),
    ("standard_error", Value::is_f64),
    ("error_floor", Value::is_f64),
    ("weights", Value::is_object),
    ("clipped", Value::is_u64),
    ("rms_error", Value::is_f64),
    ("max_abs_error", Value::is_f64),
    ("rms_error_plain", Value::is_f64),
    ("rounds", Value::is_u64),
    ("wall_s", Value::is_f64),
    ("total_wall_s", Value::is_f64),
    ("private_bytes", Value::is_u64),
    ("public_bytes", Value::is_u64),
    ("exit_codes", Value::is_object),
    ("digest", Value::is_string),
    ("exit_code", Value::is_u64),
    ("same_bits", Value::is_boolean),
];

fn check_final_object(object: &Value, parties: u64) {
    for (key, right) in FINAL_OBJECT {
        let value = object
            .get(key)
            .unwrap_or_else(|| panic!("the final object has no {key}"));
        assert!(right(value), "{key} is {value}");
    }
    assert_eq!(
        (&object["parties"], &object["finished"]),
        (&parties.into(), &parties.into())
    );
    assert_eq!(
        (&object["agreed"], &object["outcome"], &object["exit_code"]),
        (&true.into(), &"done".into(), &0.into())
    );
    let number = |key: &str| object[key].as_f64().expect("a number");
    assert!(
        number("epsilon") > 0.0 && number("epsilon") <= number("epsilon_claimed"),
        "as it turned out, within the claim"
    );
    assert!(number("standard_error") >= number("error_floor"));
    assert!(number("wall_s") > 0.0 && number("wall_s") < number("total_wall_s"));
    assert!(number("max_abs_error") >= number("rms_error"));
    let weights: f64 = object["weights"]
        .as_object()
        .expect("weights")
        .values()
        .filter_map(Value::as_f64)
        .sum();
    assert!((weights - 1.0).abs() < 1e-9, "the weights add up to {weights}");
    assert!(
        object["exit_codes"]
            .as_object()
            .expect("codes")
            .values()
            .all(|code| code == 0)
    );
}

/// rms² d / σ² is χ² with d degrees: 5 standard deviations of it, √(2/d) each, are a chance below
/// 1e-6 (d ≥ 1000).
fn check_error(object: &Value, dimension: usize) {
    let number = |key: &str| object[key].as_f64().expect("a number");
    let ratio = (number("rms_error") / number("standard_error")).powi(2);
    let allowed = 5.0 * (2.0 / dimension as f64).sqrt();
    assert!(
        (ratio - 1.0).abs() <= allowed,
        "the error's variance is {ratio} times the accounted one (allowed: ±{allowed})"
    );
}

#[test]
fn synthetic_vectors_end_with_the_whole_final_object() {
    let folder = folder();
    let ended = patient(folder.path(), "--nodes 4 --dimension 1000", "");
    let object = ended.json_of(0);
    check_final_object(&object, 4);
    check_error(&object, 1000);
    assert_eq!(object["clipped"], 0, "drawn within the clipping range");
    let names: Vec<&str> = object["included"]
        .as_array()
        .expect("names")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(names, ["party-0", "party-1", "party-2", "party-3"]);
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("readable").count(),
        0,
        "without --output nothing stays behind"
    );
}

#[test]
fn inputs_come_back_in_their_shape_and_all_that_is_kept_can_be_checked() {
    let folder = folder();
    let inputs = folder.path().join("inputs");
    std::fs::create_dir(&inputs).expect("writable");
    let vectors = write_inputs(&inputs, 4, &[40, 30]);
    let object = patient(
        folder.path(),
        "--inputs inputs --nodes 4 --output kept --events events.jsonl",
        IN_A_BALL,
    )
    .json_of(0);
    check_final_object(&object, 4);
    check_error(&object, 1200);
    let kept = folder.path().join("kept");
    let names = ["party-a", "party-b", "party-c", "party-d"];
    assert_eq!(object["included"], serde_json::json!(names));
    check_means(&kept, &names, &object, &vectors);
    let summary = read_json(&kept.join("summary.json"));
    assert_eq!(summary, object, "summary.json is the final object");
    check_plan(&kept, &object);
    for name in names {
        assert!(kept.join(name).join("node.log").is_file());
        check_receipt(&kept, name, &object);
    }
    check_events(
        &folder.path().join("events.jsonl"),
        &names,
        object["rounds"].as_u64().expect("T"),
    );
}

fn check_means(kept: &Path, names: &[&str], object: &Value, vectors: &[Vec<f64>]) {
    let bytes =
        |name: &str| std::fs::read(kept.join(name).join("mean.npy")).expect("every node keeps its mean");
    let first = bytes(names[0]);
    assert!(
        names.iter().all(|name| bytes(name) == first),
        "all nodes hold the same bits"
    );
    let (descriptor, header, mean) = read_npy(&kept.join(names[0]).join("mean.npy"));
    assert_eq!((descriptor.as_str(), mean.len()), ("<f8", 1200));
    assert_eq!(npy_shape(&header), [40, 30]);
    // What the object says of the error, computed here from the files. The inputs lie within the
    // ball: clipping leaves them.
    let mean_of = |i: usize| vectors.iter().map(|v| v[i]).sum::<f64>() / 4.0;
    let square = |i: usize| (mean[i] - mean_of(i)).powi(2);
    let rms = ((0..1200).map(square).sum::<f64>() / 1200.0).sqrt();
    undertone_tests::assert_close(&object["rms_error"], rms, 1e-9, "rms_error");
    undertone_tests::assert_close(&object["rms_error_plain"], rms, 1e-9, "rms_error_plain");
    let largest = (0..1200).map(|i| square(i).sqrt()).fold(0.0, f64::max);
    undertone_tests::assert_close(&object["max_abs_error"], largest, 1e-9, "max_abs_error");
}

fn check_plan(kept: &Path, object: &Value) {
    let digest = object["digest"].as_str().expect("hex");
    let verified = run_in(kept, ["verify", "plan.json", "--digest", digest, "--json"]).json_of(0);
    assert_eq!(verified["claims"], object["claims"]);
    assert_eq!(verified["epsilon_claimed"], object["epsilon_claimed"]);
}

fn check_receipt(kept: &Path, name: &str, object: &Value) {
    let receipt = receipt::of_local(kept, name);
    for key in [
        "digest",
        "included",
        "agreed",
        "outcome",
        "epsilon",
        "epsilon_claimed",
        "delta",
        "standard_error",
        "claims",
    ] {
        assert_eq!(receipt[key], object[key], "{name}: {key}");
    }
    assert_eq!(receipt["departed"], serde_json::json!([]));
    assert_eq!(receipt["lost_weight"].as_f64(), Some(0.0));
    undertone_tests::assert_close(&receipt["total_weight"], 4.0, 1e-9, "total weight");
    receipt::assert_mu_follows(&receipt);
    check_signature(kept, name);
}

/// The public key is in the party's id; the signed bytes are as the contract says.
fn check_signature(kept: &Path, name: &str) {
    let plan = read_json(&kept.join("plan.json"));
    let member = plan["members"]
        .as_array()
        .expect("members")
        .iter()
        .find(|m| m["name"] == name)
        .expect("a member");
    let id: PeerId = member["id"].as_str().expect("an id").parse().expect("a peer id");
    let key = PublicKey::try_decode_protobuf(id.as_ref().digest()).expect("an ed25519 id holds its key");
    let text = std::fs::read(kept.join(name).join("receipt.json")).expect("readable");
    let line = std::fs::read_to_string(kept.join(name).join("receipt.json.sig")).expect("readable");
    assert_eq!(line.lines().count(), 1, "one line");
    let signature = STANDARD.decode(line.trim_end()).expect("standard padded base64");
    let signed = |text: &[u8]| [b"undertone/receipt/1\0".as_slice(), &Sha256::digest(text)].concat();
    assert_eq!(signature.len(), 64);
    assert!(key.verify(&signed(&text), &signature), "{name}'s signature");
    assert!(
        !key.verify(&signed(&[&text[..], b" "].concat()), &signature),
        "a signature that holds for anything holds for nothing"
    );
}

fn check_events(file: &Path, names: &[&str], rounds: u64) {
    let text = std::fs::read_to_string(file).expect("the events are there");
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is an object"))
        .collect();
    let known = [
        "spawned", "phase", "ready", "signed", "round", "sealed", "opened", "peer", "fault", "waiting",
        "finished",
    ];
    let mut last = 0;
    for event in &events {
        let at = event["t_ms"]
            .as_u64()
            .unwrap_or_else(|| panic!("no t_ms: {event}"));
        assert!(at >= last, "time runs forwards");
        last = at;
        assert!(names.iter().any(|name| event["party"] == *name), "{event}");
        assert!(known.iter().any(|kind| event["event"] == *kind), "{event}");
        assert!(
            event
                .as_object()
                .expect("an object")
                .iter()
                .all(|(key, v)| !v.is_f64() && (!v.is_array() || *key == "names")),
            "a value may be in {event}"
        );
    }
    for name in names {
        let of = |kind: &str| {
            events
                .iter()
                .filter(|e| e["party"] == *name && e["event"] == kind)
                .collect::<Vec<_>>()
        };
        assert_eq!(of("spawned").len(), 1);
        assert!(of("spawned")[0]["pid"].is_u64());
        let phases: Vec<&str> = of("phase").iter().filter_map(|e| e["phase"].as_str()).collect();
        assert_eq!(
            phases,
            ["gathering", "mixing", "settling", "publishing", "done"],
            "{name}"
        );
        let reported: Vec<u64> = of("round").iter().filter_map(|e| e["round"].as_u64()).collect();
        assert_eq!(reported, (1..=rounds).collect::<Vec<_>>(), "{name}");
        let finished = of("finished");
        assert_eq!(
            (finished.len(), &finished[0]["exit_code"], &finished[0]["outcome"]),
            (1, &0.into(), &"done".into())
        );
        let peers: BTreeSet<&str> = of("peer").iter().filter_map(|e| e["peer"].as_str()).collect();
        assert_eq!(peers.len(), names.len() - 1, "{name} met all others");
    }
    assert!(
        events.iter().all(|e| e["event"] != "fault"),
        "nothing went wrong:\n{text}"
    );
}

#[test]
fn single_precision_and_clipping() {
    let folder = folder();
    let inputs = folder.path().join("inputs");
    std::fs::create_dir(&inputs).expect("writable");
    // Two of the three lie far outside of the ball of radius 1: they are scaled onto it.
    for (name, value) in [("ann", 0.01_f32), ("ben", 3.0), ("cleo", -2.0)] {
        write_npy_f32(&inputs.join(format!("{name}.npy")), &[10, 10, 10], &[value; 1000]);
    }
    let object = patient(
        folder.path(),
        "--inputs inputs --output kept --epsilon 4 --delta 1e-5",
        IN_A_BALL,
    )
    .json_of(0);
    check_final_object(&object, 3);
    assert_eq!((&object["clipped"], &object["delta"]), (&2.into(), &1e-5.into()));
    check_error(&object, 1000);
    let claimed = object["epsilon_claimed"].as_f64().expect("a number");
    assert!(claimed > 3.9 && claimed <= 4.0, "{claimed}");
    let number = |key: &str| object[key].as_f64().expect("a number");
    assert!(
        number("rms_error_plain") > 0.0 && number("rms_error_plain") != number("rms_error"),
        "clipping is an error, too"
    );
    for name in ["ann", "ben", "cleo"] {
        let (descriptor, header, values) = read_npy(&folder.path().join("kept").join(name).join("mean.npy"));
        assert_eq!((descriptor.as_str(), values.len()), ("<f4", 1000));
        assert_eq!(npy_shape(&header), [10, 10, 10]);
        receipt::assert_mu_follows(&receipt::of_local(&folder.path().join("kept"), name));
    }
}

#[test]
fn a_seed_repeats_data_and_schedule_but_never_noise_or_the_plan() {
    let folder = folder();
    for name in ["one", "two"] {
        patient(
            folder.path(),
            &format!("--nodes 3 --dimension 50 --seed 7 --output {name}"),
            "",
        )
        .json_of(0);
    }
    let plan = |name: &str| read_json(&folder.path().join(name).join("plan.json"));
    let (one, two) = (plan("one"), plan("two"));
    assert_eq!(one["out"], two["out"]);
    assert_ne!(one["nonce"], two["nonce"], "a fresh nonce in each plan");
    let mean = |name: &str| std::fs::read(folder.path().join(name).join("party-0/mean.npy")).expect("a mean");
    assert_ne!(mean("one"), mean("two"), "noise is never seeded");
}

#[test]
fn a_run_file_gives_what_the_flags_do_not() {
    let folder = folder();
    std::fs::write(
        folder.path().join("run.toml"),
        "version = 1\n[data]\nclip = { kind = \"box\", low = -1.0, high = 1.0 }\nadjacency = \"zero-out\"\n[privacy]\nepsilon = 2.0\n[mechanism]\nrounds = 3\n[run]\nsettle_ms = 12345\n",
    )
    .expect("writable");
    // Its deadlines are the defaults of `local`: whether all processes of a busy machine keep them
    // is not the point here.
    let ended = local(
        folder.path(),
        "--nodes 3 --dimension 20 --run run.toml --epsilon 3 --output kept",
    );
    assert!([0, 4, 5, 6].contains(&ended.code), "{}", ended.stderr);
    let plan = read_json(&folder.path().join("kept/plan.json"));
    assert_eq!(plan["privacy"]["epsilon"], 3.0, "a flag beats the file");
    assert_eq!(
        (&plan["mechanism"]["rounds"], &plan["run"]["settle_ms"]),
        (&3.into(), &12345.into())
    );
    assert_eq!(
        (&plan["run"]["join_ms"], &plan["run"]["round_ms"]),
        (&10_000.into(), &1000.into()),
        "the defaults of `local`"
    );
    let sensitivity = &plan["members"][0]["sensitivity"];
    undertone_tests::assert_close(sensitivity, 20_f64.sqrt(), 1e-12, "√d·max(|low|, |high|)");
}

#[test]
fn people_read_a_table() {
    let folder = folder();
    let _alone = alone();
    std::fs::write(folder.path().join("run.toml"), format!("version = 1\n{PATIENT}")).expect("writable");
    let ended = run_in(
        folder.path(),
        "local --nodes 3 --dimension 10 --run run.toml".split(' '),
    );
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for words in [
        "The mean of 3 of 3 parties",
        "same bits",
        "protected",
        "against",
        "claimed before the run",
        "ε as it turned out",
        "trusted server",
        "local noise",
    ] {
        assert!(
            ended.stdout.contains(words),
            "{words} is missing from\n{}",
            ended.stdout
        );
    }
    for phase in ["gathering", "mixing", "settling", "publishing"] {
        assert!(
            ended.stderr.contains(phase),
            "a progress line tells of {phase}:\n{}",
            ended.stderr
        );
    }
}

#[test]
fn without_anything_to_average_it_demonstrates_itself() {
    let object = patient(folder().path(), "", "").json_of(0);
    assert_eq!(
        (&object["demonstration"], &object["outcome"], &object["exit_code"]),
        (&true.into(), &"done".into(), &0.into())
    );
    let number = |key: &str| object[key].as_f64().expect("a number");
    assert!(number("epsilon") <= number("epsilon_claimed"));
}

#[test]
fn what_makes_no_sense_is_refused_before_a_node_starts() {
    let folder = folder();
    for (line, field) in [
        ("--nodes 2 --dimension 10", "--nodes"),
        ("--nodes 4 --dimension 0", "--dimension"),
        ("--nodes 4 --dimension 10 --epsilon 0", "privacy.epsilon"),
        ("--nodes 4 --dimension 10 --epsilon -1", "privacy.epsilon"),
        ("--nodes 4 --dimension 10 --delta 1", "privacy.delta"),
        ("--nodes 4 --dimension 10 --delta 0", "privacy.delta"),
        (
            "--nodes 4 --dimension 10 --pace-ms 500 --round-ms 100",
            "run.pace_ms",
        ),
        ("--nodes 4 --dimension 10 --run absent.toml", "--run"),
        (
            "--nodes 4 --dimension 10 --events no/such/events.jsonl",
            "--events",
        ),
        ("--nodes 4 --dimension 10 --output /proc/nothing", "--output"),
        ("--inputs absent", "--inputs"),
    ] {
        local(folder.path(), line).refused_at(2, field);
    }
    local(folder.path(), "--nodes 4 --dimension 10 --inputs absent").refused(2, "--inputs");
    std::fs::write(
        folder.path().join("run.toml"),
        "version = 1\n[privacy]\nepsilom = 1.0\n",
    )
    .expect("writable");
    local(folder.path(), "--nodes 4 --dimension 10 --run run.toml").refused(2, "line 3");
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("readable").count(),
        1,
        "nothing was made"
    );
}

#[test]
fn inputs_that_cannot_be_used_are_named() {
    let folder = folder();
    let inputs = folder.path().join("inputs");
    std::fs::create_dir(&inputs).expect("writable");
    write_inputs(&inputs, 2, &[4]);
    local(folder.path(), "--inputs inputs").refused_at(2, "--inputs");
    write_inputs(&inputs, 4, &[4]);
    local(folder.path(), "--inputs inputs --nodes 5").refused_at(2, "--nodes");
    let bad = inputs.join("party-c.npy");
    undertone_tests::write_npy(&bad, &[2, 2], &[0.0; 4]);
    local(folder.path(), "--inputs inputs").refused(7, "party-c");
    write_npy_f32(&bad, &[4], &[0.0; 4]);
    local(folder.path(), "--inputs inputs").refused(7, "party-c");
    undertone_tests::write_npy(&bad, &[4], &[0.0, f64::NAN, 0.0, 0.0]);
    local(folder.path(), "--inputs inputs").refused(7, "coordinate 1");
    std::fs::write(&bad, "").expect("writable");
    local(folder.path(), "--inputs inputs").refused(7, "empty");
    std::fs::rename(&bad, inputs.join("Party C.npy")).expect("writable");
    local(folder.path(), "--inputs inputs").refused_at(2, "--inputs");
}

/// A benchmark starts `local` with flags of the same names, and ends as that refuses them.
#[test]
fn a_benchmark_names_the_flag_that_makes_no_run() {
    let folder = tempfile::tempdir().expect("a folder");
    for (line, flag) in [
        ("benchmark --nodes 0", "--nodes"),
        ("benchmark --dimension 0", "--dimension"),
    ] {
        let refusal = run_in(folder.path(), line.split(' ').chain(["--json"])).refused_at(2, flag);
        let message = refusal["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("at least"), "{line}: {message}");
    }
}
