use super::*;
use crate::peers::Peers;
use crate::run_file::{RunFile, Unit};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A draft of simulated parties from run-file lines; `name` and `shape` are added.
fn draft(parties: usize, lines: &str) -> Draft {
    let text = format!("name = \"test\"\n[data]\nshape = [4]\n{lines}");
    let file = RunFile::parse(&text, parties).unwrap_or_else(|error| panic!("{error}"));
    let records = (file.data.unit == Unit::Record).then_some(20);
    Draft::new(file, &Peers::simulated(parties, records).unwrap(), 7)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Numbers of about the right size; whether claims hold is not this module's business.
fn calibration(draft: &Draft, rounds: u32) -> Calibration {
    let seed = 0xfeed_face_cafe_beef;
    let claim = |faults, epsilon: f64, established, holds_as_headline| Claim {
        adversary: Adversary::Coalition,
        size: draft.privacy.colluding,
        faults,
        mu: 0.25,
        epsilon,
        delta: draft.privacy.delta,
        established,
        cases: 28,
        seed: None,
        changes: None,
        holds_as_headline,
    };
    Calibration {
        rounds,
        drawn: Calibration::draw(draft, rounds, seed),
        independent_std: match draft.mechanism.independent_noise {
            IndependentNoise::Calibrated => 3.1 * draft.largest_sensitivity(),
            IndependentNoise::None => 0.0,
        },
        correlated_std: 9.7 * draft.largest_sensitivity(),
        claims: vec![
            claim(Faults::Class, 0.9, Established::Exhaustive, true),
            claim(Faults::BeforePublishing, 0.95, Established::Exhaustive, true),
            claim(Faults::Any, 4.2, Established::Theorem, false),
        ],
        predicted: Predicted {
            standard_error: 1.1,
            standard_error_one_dropout: Some(1.2),
            standard_error_late_dropout: None,
            central: 0.9,
            local: 2.6,
            error_floor: 1.0,
            bytes_per_party: 0,
        },
    }
}

fn plan(parties: usize, lines: &str, rounds: u32) -> Plan {
    let draft = draft(parties, lines);
    let calibration = calibration(&draft, rounds);
    Plan::assemble(draft, calibration, [0xab; 16]).unwrap_or_else(|error| panic!("{error}"))
}

fn value(plan: &Plan) -> Value {
    serde_json::from_str(plan.to_json()).unwrap()
}

fn parse(value: &Value) -> Result<Plan, PlanError> {
    Plan::parse(serde_json::to_string(value).unwrap().as_bytes())
}

/// PPSC as the paper has it, over two components.
const EXACT: &str = "[mechanism]\nkind = \"ppsc\"\nindependent_noise = \"none\"\naccept_exact_sum = true\nlocal_noise_ok = true
[topology]\nprivate = { kind = \"edges\", edges = [[\"party-0\", \"party-1\"], [\"party-2\", \"party-3\"], [\"party-3\", \"party-4\"]] }";

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
    ] {
        let plan = plan(parties, lines, rounds);
        let read = Plan::parse(plan.to_json().as_bytes())
            .unwrap_or_else(|error| panic!("{error}\n{}", plan.to_json()));
        assert_eq!(read.draft(), plan.draft());
        assert_eq!(read.calibration(), plan.calibration());
        assert_eq!(read.lattice(), plan.lattice());
        assert_eq!(read.injection(), plan.injection());
        assert_eq!(read.iterations(), plan.iterations());
        assert_eq!(
            (read.digest(), read.nonce(), read.to_json()),
            (plan.digest(), plan.nonce(), plan.to_json())
        );
        assert_eq!(read.write(), plan.to_json());
        assert_eq!(read.draft().mechanism.rounds, Rounds::Fixed(rounds));
    }
}

#[test]
fn the_file_has_the_contracts_keys() {
    let plan = plan(5, "weights = { party-1 = 2.0 }", 3);
    let file = value(&plan);
    let keys: Vec<&str> = file.as_object().unwrap().keys().map(String::as_str).collect();
    for key in [
        "version",
        "name",
        "task",
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
    assert_eq!(file["mechanism"]["injection"], json!("incremental"));
    assert_eq!(file["mechanism"]["pairwise_std"], Value::Null);
    assert_eq!(file["mechanism"]["rounds"], json!(3));
    assert_eq!(file["members"][1]["sensitivity"], json!(4.0));
    assert_eq!(file["members"][1]["weight"], json!(2.0));
    assert_eq!(file["members"][0]["weight"], json!(1.0));
    assert_eq!(file["members"][0].get("records"), None);
    assert_eq!(file["run"]["min_parties"], json!(4));
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
fn what_is_derived_may_not_differ() {
    let plan = plan(5, "", 3);
    for (pointer, new, field) in [
        ("/members/2/sensitivity", json!(1.9), "members.2.sensitivity"),
        ("/members/2/sensitivity", json!(2.1), "members.2.sensitivity"),
        ("/schedule_seed", json!("0000000000000000"), "out"),
        ("/out/0", json!([[1], [2], [3], [4], [0]]), "out"),
        ("/out/2", json!([[1], [2], [3], [4], [9]]), "out"),
        ("/out/2", json!([]), "out"),
        ("/out", json!([]), "out"),
        ("/mechanism/rounds", json!(2), "out"),
        ("/mechanism/fanout", json!(2), "out"),
        ("/mechanism/step_log2", json!(-3), "mechanism.step_log2"),
        ("/mechanism/state_bits", json!(128), "mechanism.state_bits"),
        ("/mechanism/wire_bytes", json!(9), "mechanism.wire_bytes"),
        ("/mechanism/pairwise_std", json!(1.0), "mechanism.pairwise_std"),
        (
            "/predicted/bytes_per_party",
            json!(1),
            "predicted.bytes_per_party",
        ),
    ] {
        match parse(&with(&plan, pointer, new)) {
            Err(PlanError::Derived { field: found }) => assert_eq!(found, field),
            other => panic!("{pointer}: {:?}", other.err()),
        }
    }
}

#[test]
fn hostile_values_are_refused() {
    let plan = plan(5, "", 3);
    let long = "x".repeat(100_000);
    let cases = [
        ("/version", json!(2)),
        ("/version", json!(-1)),
        ("/name", json!(long)),
        ("/name", json!("a\u{1b}[31m")),
        ("/task", json!("sum")),
        ("/nonce", json!("ab")),
        ("/nonce", json!("ABABABABABABABABABABABABABABABAB")),
        ("/nonce", json!("é".repeat(16))),
        ("/schedule_seed", json!(7)),
        ("/schedule_seed", json!(null)),
        ("/schedule_seed", json!("feedfacecafebee")),
        ("/data/shape", json!([])),
        ("/data/shape", json!([u64::MAX, u64::MAX])),
        ("/data/shape", json!([-4])),
        ("/data/clip/radius", json!(null)),
        ("/data/clip/radius", json!(0.0)),
        ("/data/clip", json!({"kind": "box", "low": [1.0], "high": 2.0})),
        ("/privacy/epsilon", json!(null)),
        ("/privacy/epsilon", json!(-1.0)),
        ("/privacy/delta", json!(1.0)),
        ("/privacy/colluding", json!(5)),
        ("/privacy/colluding", json!(u64::MAX)),
        ("/privacy/dropouts", json!(u64::MAX)),
        ("/run/min_parties", json!(0)),
        ("/run/min_parties", json!(u64::MAX)),
        ("/run/round_ms", json!(0)),
        ("/run/round_ms", json!(u64::MAX)),
        ("/run/pace_ms", json!(u64::MAX)),
        ("/members", json!([])),
        ("/members/1/name", json!("party-0")),
        ("/members/1/name", json!("Party")),
        ("/members/1/id", json!(plan.draft().members[0].id.to_base58())),
        (
            "/members/1/id",
            json!("QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N"),
        ),
        ("/members/1/private", json!("/ip4/1.2.3.4/udp/1")),
        (
            "/members/1/public",
            json!(plan.draft().members[0].private.as_str()),
        ),
        ("/members/1/sensitivity", json!(null)),
        ("/private_graph", json!([])),
        ("/private_graph/0", json!([0, 5])),
        ("/private_graph/0", json!([0, u64::MAX])),
        ("/private_graph/0", json!([0, -1])),
        ("/private_graph/0", json!([1, 1])),
        ("/private_graph/0", json!([0, 2])),
        ("/private_graph/0", json!([0, 1, 2])),
        ("/public_graph", json!([[0, 1]])),
        ("/mechanism/kind", json!("magic")),
        ("/mechanism/injection", json!({"c": ["1"], "z": [[]]})),
        ("/mechanism/rounds", json!(0)),
        ("/mechanism/rounds", json!(u32::MAX)),
        ("/mechanism/fanout", json!(0)),
        ("/mechanism/fanout", json!(u32::MAX)),
        ("/mechanism/independent_std", json!(null)),
        ("/mechanism/independent_std", json!(0.0)),
        ("/mechanism/independent_std", json!(-1.0)),
        ("/mechanism/independent_std", json!(1e308)),
        ("/mechanism/independent_std", json!(1e-308)),
        ("/mechanism/correlated_std", json!(5e-324)),
        ("/mechanism/correlated_std", json!(1e308)),
        ("/mechanism/step_log2", json!(i64::MIN)),
        ("/out/0/0", json!([u64::MAX])),
        ("/out/0/0", json!([-1])),
        ("/out/0/0", json!([0])),
        ("/claims/0/mu", json!(null)),
        ("/claims/0/mu", json!(-0.1)),
        ("/claims/0/epsilon", json!(-1)),
        ("/claims/0/delta", json!(0)),
        ("/claims/0/size", json!(6)),
        ("/claims/0/cases", json!(-1)),
        ("/claims/0/established", json!("hoped")),
        ("/predicted/standard_error", json!(null)),
        ("/predicted/local", json!(-1.0)),
    ];
    for (pointer, new) in cases {
        assert!(
            parse(&with(&plan, pointer, new.clone())).is_err(),
            "{pointer} = {new}"
        );
    }
    // A number that JSON can spell and f64 cannot hold.
    let text = plan
        .to_json()
        .replace("\"independent_std\": ", "\"independent_std\": 1e999, \"x\": ");
    assert!(matches!(
        Plan::parse(text.as_bytes()),
        Err(PlanError::Json { .. })
    ));
}

#[test]
fn what_is_no_plan_is_refused() {
    let plan = plan(3, "", 2);
    let text = plan.to_json();
    for bad in [
        "",
        "{",
        "[]",
        "null",
        "\u{0}",
        &"[".repeat(100_000),
        &text[..text.len() / 2],
        &text.replace("\"nonce\"", "\"none\""),
        &format!("{text}{text}"),
    ] {
        assert!(matches!(Plan::parse(bad.as_bytes()), Err(PlanError::Json { .. })));
    }
    let doubled = text.replacen("\"version\": 1,", "\"version\": 1, \"version\": 1,", 1);
    assert!(matches!(
        Plan::parse(doubled.as_bytes()),
        Err(PlanError::Json { line: 2, .. })
    ));
    assert!(matches!(Plan::parse(b"\xff\xfe"), Err(PlanError::Json { .. })));
    assert!(matches!(
        Plan::parse(&vec![b' '; MOST_PLAN_BYTES + 1]),
        Err(PlanError::TooLong { .. })
    ));
}

#[test]
fn drafts_check_what_run_file_and_peers_say_together() {
    let peers = Peers::simulated(5, None).unwrap();
    let refused = |lines: &str| {
        let text = format!("name = \"test\"\n[data]\nshape = [4]\n{lines}");
        Draft::new(RunFile::parse(&text, 5).unwrap(), &peers, 0).unwrap_err()
    };
    for (lines, field) in [
        ("weights = { alice = 2.0 }", "data.weights.alice"),
        ("unit = \"record\"", "peer.records"),
        (
            "[mechanism]\nfanout = 3\n[topology]\nprivate = \"ring\"",
            "mechanism.fanout",
        ),
        (
            "[mechanism]\nfanout = 2\n[topology]\nprivate = \"ring\"",
            "mechanism.fanout",
        ),
        (
            "[topology]\nprivate = { kind = \"random-regular\", degree = 3 }",
            "topology.private",
        ),
        (
            "[topology]\npublic = { kind = \"edges\", edges = [[\"party-0\", \"bob\"]] }",
            "topology.public.edges",
        ),
        (
            "[topology]\npublic = { kind = \"edges\", edges = [[\"party-0\", \"party-0\"]] }",
            "topology.public",
        ),
        (
            "[topology]\npublic = { kind = \"edges\", edges = [[\"party-0\", \"party-1\"]] }",
            "topology.public",
        ),
    ] {
        let error = refused(lines);
        assert_eq!(error.field(), field, "{error}");
    }
    let with_records = Peers::simulated(5, Some(3)).unwrap();
    let file = RunFile::parse("name = \"test\"\n[data]\nshape = [4]\n", 5).unwrap();
    assert!(matches!(
        Draft::new(file, &with_records, 0),
        Err(DraftError::Records { .. })
    ));
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
    let records = draft(4, "unit = \"record\"");
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
        crate::peers::simulated_keypair(2).public()
    );
    assert_eq!(
        (draft.honest(), draft.index_of("party-1"), draft.index_of("x")),
        (2, Some(1), None)
    );
}

#[test]
fn calibrations_must_fit_the_draft() {
    let draft = draft(4, "[mechanism]\nrounds = 3");
    let refused = |change: &dyn Fn(&mut Calibration)| {
        let mut calibration = calibration(&draft, 3);
        change(&mut calibration);
        Plan::assemble(draft.clone(), calibration, [0; 16])
            .unwrap_err()
            .field()
            .map(str::to_string)
    };
    assert_eq!(refused(&|c| c.rounds = 2).as_deref(), Some("mechanism.rounds"));
    assert_eq!(
        refused(&|c| c.drawn.as_mut().unwrap().schedule = Calibration::draw_schedule(&draft, 2, 1).unwrap())
            .as_deref(),
        Some("out")
    );
    assert_eq!(
        refused(&|c| c.independent_std = f64::NAN).as_deref(),
        Some("mechanism.independent_std")
    );
    assert_eq!(
        refused(&|c| c.correlated_std = f64::INFINITY).as_deref(),
        Some("mechanism.correlated_std")
    );
    assert_eq!(
        refused(&|c| c.claims[1].mu = f64::INFINITY).as_deref(),
        Some("claims.1.mu")
    );
    assert_eq!(
        refused(&|c| c.predicted.central = f64::NAN).as_deref(),
        Some("predicted.central")
    );
}

#[test]
fn what_no_plan_carries_yet_is_refused() {
    let plan = plan(4, "", 2);
    for (pointer, new, field) in [
        ("/mechanism/kind", json!("gossip"), "mechanism.kind"),
        ("/mechanism/kind", json!("ppsc"), "mechanism.injection"),
        ("/privacy/coalitions", json!("static"), "schedule_seed"),
    ] {
        assert_eq!(
            parse(&with(&plan, pointer, new)).unwrap_err().field(),
            Some(field)
        );
    }
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
    let drawn = MultiGossip::fitting(
        &plan.draft().private_graph,
        80,
        plan.calibration().drawn.as_ref().unwrap().seed,
    )
    .unwrap();
    assert_eq!(
        (drawn.components(), drawn.iterations() as u32),
        (2, plan.iterations().unwrap())
    );
    assert_eq!(plan.schedule(), &drawn.schedule());
    assert!(plan.injection().is_none());
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
            "mechanism.independent_noise",
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
    let plan = plan(3, "", 1);
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any noise, range and size that a file can say: a plan or an error.
    #[test]
    fn no_numbers_panic(independent in -121f64..121.0, correlated in -121f64..121.0, radius in -101f64..101.0, rounds in 1u32..64, extent in 1u64..3_000_000_000, fanout in 1u32..5, kind in prop_oneof![Just("inca"), Just("ppsc")]) {
        let text = format!("name = \"test\"\n[data]\nshape = [{extent}]\nclip = {{ kind = \"l2\", radius = {:e} }}\n[mechanism]\nkind = \"{kind}\"\nfanout = {fanout}\n", 10f64.powf(radius));
        if let Ok(file) = RunFile::parse(&text, 5) {
            let draft = Draft::new(file, &Peers::simulated(5, None).unwrap(), 0);
            if let Ok(draft) = draft {
                let mut calibration = calibration(&draft, rounds);
                calibration.independent_std = 10f64.powf(independent);
                calibration.correlated_std = 10f64.powf(correlated);
                let _ = Plan::assemble(draft, calibration, [0; 16]);
            }
        }
    }

    /// One byte changed anywhere: never a panic, and never the same plan under the same digest.
    #[test]
    fn a_changed_byte_never_panics(at in 0usize..100_000, byte: u8) {
        let plan = plan(3, "", 2);
        let mut bytes = plan.to_json().as_bytes().to_vec();
        let at = at % bytes.len();
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        if let Ok(other) = Plan::parse(&bytes) {
            prop_assert_ne!(other.digest(), plan.digest());
        }
    }
}
