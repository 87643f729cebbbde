mod refusals;

use serde_json::{Value, json};

use super::*;
use crate::lattice::injection::Injection;
use crate::plan::claim::{Claim, Established, Faults, Predicted};
use crate::plan::file::MOST_PLAN_BYTES;
use crate::plan::peers::Peers;
use crate::plan::run_file::parsed::RunFile;
use crate::plan::run_file::records::RecordCounts;
use crate::plan::run_file::settings::{CorrelatedNoise, Dissemination, Unit};
use crate::topology::multi_gossip::MultiGossip;

/// The papers' noise, which finals that are not sealed have.
const GAUSSIAN: &str = "[mechanism]\ncorrelated = \"gaussian\"\n";

/// A draft of simulated parties from run-file lines; `name` and `shape` are added.
fn draft(parties: usize, lines: &str) -> Draft {
    draft_of(4, parties, lines)
}

fn draft_of(dimension: usize, parties: usize, lines: &str) -> Draft {
    let text = format!("name = \"test\"\n[data]\nshape = [{dimension}]\n{lines}");
    let mut file = RunFile::parse(&text, parties).unwrap_or_else(|error| panic!("{error}"));
    if file.data.unit == Unit::Record {
        file.data.records.get_or_insert(RecordCounts::exactly(20));
    }
    Draft::new(file, &Peers::simulated(parties).unwrap(), 7).unwrap_or_else(|error| panic!("{error}"))
}

/// Numbers of about the right size; whether claims hold is not this module's business.
fn calibration(draft: &Draft, rounds: u32) -> Calibration {
    let seed = 0xfeed_face_cafe_beef;
    let (size, delta) = (draft.privacy.colluding, draft.privacy.delta);
    let claim = |faults, epsilon: f64, established, holds_as_headline| Claim {
        established,
        cases: 28,
        holds_as_headline,
        ..Claim::theorem(size, faults, (0.25, epsilon), delta)
    };
    Calibration {
        rounds,
        drawn: Calibration::draw(draft, rounds, seed),
        independent_std: match draft.exchange.adds_own_noise() {
            true => 3.1 * draft.largest_sensitivity(),
            false => 0.0,
        },
        correlated_std: match draft.exchange.correlated() {
            CorrelatedNoise::Gaussian => 9.7 * draft.largest_sensitivity(),
            CorrelatedNoise::Uniform => 0.0,
        },
        claims: vec![
            claim(Faults::Class, 0.9, Established::Exhaustive, true),
            claim(Faults::BeforePublishing, 0.95, Established::Exhaustive, true),
            claim(Faults::Any, 4.2, Established::Theorem, false),
        ],
        predicted: Predicted {
            standard_error: 1.1,
            standard_error_one_dropout: Some(1.2),
            standard_error_late_dropout: None,
            standard_error_correcting: None,
            central: 0.9,
            local: 2.6,
            error_floor: 1.0,
            bytes_per_party: 0,
        },
    }
}

fn plan(parties: usize, lines: &str, rounds: u32) -> Plan {
    plan_of(draft(parties, lines), rounds)
}

fn plan_of(draft: Draft, rounds: u32) -> Plan {
    let calibration = calibration(&draft, rounds);
    Plan::assemble(draft, calibration, [0xab; 16]).unwrap_or_else(|error| panic!("{error}"))
}

/// The exact (c, Z) of a plan of INCA.
fn injection(plan: &Plan) -> Option<Arc<Injection<Ratio>>> {
    match plan.mechanism(0) {
        Mechanism::Injection(injection) => Some(injection),
        _ => None,
    }
}

fn value(plan: &Plan) -> Value {
    serde_json::from_str(plan.to_json()).unwrap()
}

fn parse(value: &Value) -> Result<Plan, PlanError> {
    Plan::parse(serde_json::to_string(value).unwrap().as_bytes())
}

/// PPSC as the paper has it, over two components.
const EXACT: &str = r#"
[mechanism]
kind = "ppsc"
independent_noise = "none"
accept_exact_sum = true
local_noise_ok = true
[topology.private]
kind = "edges"
edges = [["party-0", "party-1"], ["party-2", "party-3"], ["party-3", "party-4"]]
"#;

#[test]
fn what_is_written_reads_back() {
    for (parties, lines, rounds) in [
        (8, "", 7),
        (3, "", 1),
        (
            5,
            "weights = { party-1 = 2.0, party-4 = 0.1 }\n[mechanism]\nfanout = 2\ninjection = \"early\"",
            4,
        ),
        (
            4,
            "adjacency = \"zero-out\"\nclip = { kind = \"box\", low = 1, high = [2, 3, 4, 5] }",
            3,
        ),
        (
            6,
            "[mechanism]\ninjection = { c = [\"1/4\", \"3/4\"], z = [[\"1/2\"], [\"-1/2\"]] }\n[topology]\nprivate = \"ring\"",
            1,
        ),
        (
            6,
            "[topology]\nprivate = { kind = \"random-regular\", degree = 3 }",
            2,
        ),
        (6, "[mechanism]\nkind = \"ppsc\"", 9),
        (5, EXACT, 80),
        (6, "[mechanism]\ncorrelated = \"uniform\"", 3),
        (6, "[mechanism]\nkind = \"ppsc\"\ncorrelated = \"uniform\"", 9),
    ] {
        let plan = plan(parties, lines, rounds);
        let read = Plan::parse(plan.to_json().as_bytes())
            .unwrap_or_else(|error| panic!("{error}\n{}", plan.to_json()));
        assert_eq!(read.draft(), plan.draft());
        assert_eq!(read.calibration(), plan.calibration());
        assert_eq!(read.lattice(), plan.lattice());
        assert_eq!(injection(&read), injection(&plan));
        assert_eq!(read.iterations(), plan.iterations());
        assert_eq!(
            (read.digest(), read.nonce, read.to_json()),
            (plan.digest(), plan.nonce, plan.to_json())
        );
        assert_eq!(read.write(), plan.to_json());
        assert_eq!(read.draft().exchange.rounds(), Rounds::Fixed(rounds));
    }
}

/// Where the run file leaves the choice long vectors that are sealed travel in slices if that is
/// clearly less; what is readable is averaged only where the file says so.
#[test]
fn what_a_file_leaves_open_is_slices_or_a_flood() {
    let sparse = "[topology]\npublic = { kind = \"random-regular\", degree = 4 }\n[run]\n";
    let chosen = |coordinates, parties, lines: &str| {
        let plan = plan_of(draft_of(coordinates, parties, lines), 3);
        (plan.terms().is_some(), plan.draft().run.dissemination)
    };
    let asked = |way: &str| format!("{GAUSSIAN}{sparse}dissemination = \"{way}\"\n");
    assert_eq!(
        chosen(20_000, 300, &asked("consensus")),
        (true, Dissemination::Consensus)
    );
    assert_eq!(chosen(20_000, 300, &asked("auto")), (false, Dissemination::Flood));
    assert_eq!(
        chosen(30_000, 300, sparse),
        (false, Dissemination::Slices),
        "few bytes of many"
    );
    assert_eq!(
        chosen(100, 300, sparse),
        (false, Dissemination::Flood),
        "short vectors"
    );
    assert_eq!(
        chosen(100_000, 4, ""),
        (false, Dissemination::Flood),
        "too few parties"
    );
    assert_eq!(chosen(100_000, 8, ""), (false, Dissemination::Slices));
    let few = draft_of(100_000, 4, "[run]\ndissemination = \"slices\"\n");
    let refused = Plan::assemble(few.clone(), calibration(&few, 3), [0; 16]).unwrap_err();
    assert_eq!(refused.field(), Some("run.dissemination"), "{refused}");
}

#[test]
fn the_file_has_the_contracts_keys() {
    let plan = plan(5, "weights = { party-1 = 2.0 }", 3);
    let file = value(&plan);
    assert_eq!(file["run"]["sealed"], json!(true));
    assert_eq!(file["mechanism"]["correlated"], json!("uniform"));
    let keys: Vec<&str> = file.as_object().unwrap().keys().map(String::as_str).collect();
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
        "schedule_seed",
        "out",
        "claims",
        "predicted",
    ] {
        assert!(keys.contains(&key), "{key}");
    }
    assert_eq!(file["nonce"], json!("abababababababababababababababab"));
    assert_eq!(file["schedule_seed"], json!("feedfacecafebeef"));
    assert_eq!(file["mechanism"]["kind"], json!("inca"));
    assert_eq!(file["mechanism"]["injection"], Value::Null);
    assert_eq!(file["mechanism"]["pairwise_std"], Value::Null);
    assert_eq!(file["mechanism"]["rounds"], json!(3));
    assert_eq!(file["members"][1]["sensitivity"], json!(4.0));
    assert_eq!(file["members"][1]["weight"], json!(2.0));
    assert_eq!(file["members"][0]["weight"], json!(1.0));
    assert_eq!(file["members"][0].get("records"), None);
    assert_eq!(file["run"]["min_parties"], json!(4));
    assert_eq!(file["run"]["quorum"], json!(4));
    assert_eq!(file["claims"][1]["faults"], json!("before-publishing"));
    assert_eq!(file["claims"][0]["established"], json!("exhaustive"));
    assert_eq!(file["claims"][0].get("seed"), None);
    assert_eq!(file["private_graph"].as_array().unwrap().len(), 10);
    assert_eq!(file["out"].as_array().unwrap().len(), 3);
    assert!(file["predicted"]["bytes_per_party"].as_u64().unwrap() > 0);
    assert_eq!(plan.epsilon_claimed(), Some(0.95));
    assert_eq!(plan.epsilon_searched(), None);
}

#[test]
fn the_layout_is_for_people() {
    let plan = plan(3, "", 2);
    let lines: Vec<&str> = plan.to_json().lines().collect();
    assert_eq!(lines[0], "{");
    assert_eq!(lines[1], "  \"version\": 1,");
    assert!(lines.contains(&"    [0, 1],"));
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.starts_with("    {\"name\": \"party-"))
            .count(),
        3
    );
    assert!(plan.to_json().ends_with("}\n"));
}

#[test]
fn the_digest_is_that_of_the_bytes() {
    let plan = plan(3, "", 2);
    let spaced = format!("{} ", plan.to_json());
    let read = Plan::parse(spaced.as_bytes()).unwrap();
    assert_ne!(read.digest(), plan.digest());
    assert_eq!(read.digest()[..], Sha256::digest(spaced.as_bytes())[..]);
    assert_eq!(plan.digest_hex(), hex(&Sha256::digest(plan.to_json().as_bytes())));
    assert_eq!(plan.digest_hex().len(), 64);
    let other = Plan::assemble(plan.draft().clone(), plan.calibration().clone(), [0; 16]).unwrap();
    assert_ne!(other.digest(), plan.digest());
}

/// Sets the value at a JSON pointer.
fn with(plan: &Plan, pointer: &str, new: Value) -> Value {
    let mut file = value(plan);
    *file.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = new;
    file
}

#[test]
fn weights_and_records_are_exact() {
    let weighted = draft(4, "weights = { party-1 = 2.5, party-3 = 0.1 }");
    assert_eq!(weighted.weight(0), 1.0);
    assert_eq!(weighted.weight_units(1), 5 << 19);
    assert_eq!(
        weighted.weight(3),
        weighted.weight_units(3) as f64 / (1 << 20) as f64
    );
    assert_eq!(weighted.sensitivity(1), 5.0);
    assert_eq!(weighted.value_bound(), 2.5);
    assert_eq!(weighted.largest_sensitivity(), 5.0);
    let records = draft(4, "unit = \"record\"\nclip = { kind = \"l2\", radius = 1.0 }");
    assert_eq!(
        (
            records.weight(0),
            records.total_weight(),
            records.sensitivity(0),
            records.value_bound()
        ),
        (20.0, 80.0, 2.0, 20.0)
    );
}

#[test]
fn keys_come_out_of_ids() {
    let draft = draft(3, "");
    assert_eq!(
        draft.members[2].public_key(),
        crate::plan::peers::simulated_keypair(2).public()
    );
    assert_eq!(draft.honest(), 2);
}

#[test]
fn a_plan_of_ppsc_says_its_iterations_and_its_own_noises() {
    let plan = plan(5, EXACT, 80);
    let mechanism = value(&plan)["mechanism"].clone();
    for (key, found) in [
        ("kind", json!("ppsc")),
        ("injection", Value::Null),
        ("independent_std", Value::Null),
        ("correlated_std", Value::Null),
        ("pairwise_std", json!(9.7 * 2.0)),
        ("independent_noise", json!("none")),
        ("accept_exact_sum", json!(true)),
        ("iterations", json!(plan.iterations())),
        ("rounds", json!(80)),
    ] {
        assert_eq!(mechanism[key], found, "{key}");
    }
    // The schedule is that of its seed, over both components.
    let drawn = MultiGossip::fitting(
        &plan.draft().private_graph,
        80,
        plan.calibration().drawn.as_ref().unwrap().seed,
    )
    .unwrap();
    assert_eq!(
        (drawn.edges()[0].len(), drawn.edges().len() as u32),
        (2, plan.iterations().unwrap())
    );
    assert_eq!(plan.schedule(), &drawn.schedule());
    assert!(injection(&plan).is_none());
    // Nothing of it can be edited.
    for (pointer, new, field) in [
        (
            "/mechanism/iterations",
            json!(plan.iterations().unwrap() + 1),
            "mechanism.iterations",
        ),
        ("/mechanism/iterations", Value::Null, "mechanism.iterations"),
        (
            "/mechanism/independent_std",
            json!(1.0),
            "mechanism.independent_std",
        ),
        (
            "/mechanism/correlated_std",
            json!(1.0),
            "mechanism.correlated_std",
        ),
        ("/mechanism/pairwise_std", Value::Null, "mechanism.pairwise_std"),
        (
            "/mechanism/accept_exact_sum",
            json!(false),
            "mechanism.accept_exact_sum",
        ),
        (
            "/mechanism/independent_noise",
            json!("calibrated"),
            "mechanism.independent_std",
        ),
        ("/mechanism/fanout", json!(2), "mechanism.fanout"),
        ("/mechanism/rollback", json!(false), "mechanism.rollback"),
        ("/mechanism/rounds", json!(79), "out"),
        ("/out/3", json!([[], [], [], [], []]), "out"),
        ("/private_graph", json!([[0, 1], [2, 3]]), "private_graph"),
    ] {
        assert_eq!(
            parse(&with(&plan, pointer, new)).unwrap_err().field(),
            Some(field),
            "{pointer}"
        );
    }
}

#[test]
fn a_plan_of_inca_has_the_keys_that_it_always_had() {
    let plan = plan(3, GAUSSIAN, 1);
    assert_eq!(value(&plan)["run"].get("sealed"), None);
    let mechanism = value(&plan)["mechanism"].clone();
    let keys: Vec<&str> = mechanism
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let mut expected = [
        "kind",
        "injection",
        "rounds",
        "fanout",
        "rollback",
        "independent_std",
        "correlated_std",
        "pairwise_std",
        "step_log2",
        "state_bits",
        "wire_bytes",
    ];
    expected.sort_unstable();
    assert_eq!(keys, expected, "or its digest would be another one");
    assert_eq!(
        parse(&with(&plan, "/mechanism/pairwise_std", json!(1.0)))
            .unwrap_err()
            .field(),
        Some("mechanism.pairwise_std")
    );
}

#[test]
fn box_inputs_have_a_range_on_the_lattice() {
    let plan = plan(
        4,
        "clip = { kind = \"box\", low = 1, high = [2, 3, 4, 5] }\nweights = { party-2 = 2.0 }",
        3,
    );
    let (low, high) = plan.input_range(2, 3).unwrap();
    let cell = plan.lattice().value_step();
    assert!(
        (2.0..2.0 + 2.0 * cell).contains(&low) && (10.0 - cell..10.0 + cell).contains(&high),
        "{low} {high} {cell}"
    );
    assert!(((high / cell).trunc() - (low / cell).trunc()) * cell <= 8.0);
    assert_eq!(super::tests::plan(4, "", 3).input_range(0, 0), None);
    let records = super::tests::plan(
        4,
        "unit = \"record\"\nclip = { kind = \"box\", low = [0, -10, 40, 4], high = [1, 10, 500, 4.5] }",
        3,
    );
    assert!(records.scales().differ());
    assert_eq!(
        (records.draft().sensitivity(0), records.draft().value_bound()),
        (2.0, 20.0 * 9.0)
    );
    let cell = records.lattice().value_step();
    for coordinate in 0..4 {
        let (low, high) = records.input_range(1, coordinate).unwrap();
        let cells = (high / cell).trunc() - (low / cell).trunc();
        assert!(
            cells * cell <= 1.0 && (cells + 3.0) * cell >= 1.0,
            "{coordinate}: {low} to {high}, cell {cell}"
        );
    }
    let far = draft(4, "clip = { kind = \"box\", low = 1e20, high = 1.0001e20 }");
    let mut numbers = calibration(&far, 2);
    numbers.independent_std = 1e4;
    assert_eq!(
        Plan::assemble(far, numbers, [0; 16]).unwrap_err(),
        PlanError::FarBox
    );
}
