//! Refusals: of plans, drafts and calibrations.

use proptest::prelude::*;

use super::*;
use crate::plan::peers::simulated_keypair;

#[test]
fn what_is_derived_may_not_differ() {
    let plan = plan(5, GAUSSIAN, 3);
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

fn all_are_refused(plan: &Plan, cases: impl IntoIterator<Item = (&'static str, Value)>) {
    for (pointer, new) in cases {
        assert!(
            parse(&with(plan, pointer, new.clone())).is_err(),
            "{pointer} = {new}"
        );
    }
}

#[test]
fn hostile_settings_and_members_are_refused() {
    let plan = plan(5, "", 3);
    let long = "x".repeat(100_000);
    let cases = [
        ("/version", json!(2)),
        ("/version", json!(-1)),
        ("/name", json!(long)),
        ("/name", json!("a\u{1b}[31m")),
        ("/computation/task", json!("sum")),
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
        ("/run/quorum", json!(3)),
        ("/run/quorum", json!(5)),
        ("/run/quorum", json!(null)),
        ("/run/grace_ms", json!(u64::MAX)),
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
            json!(plan.draft().members[0].contact.at[0].as_str()),
        ),
        ("/members/1/sensitivity", json!(null)),
    ];
    all_are_refused(&plan, cases);
}

#[test]
fn hostile_graphs_mechanisms_and_claims_are_refused() {
    let cases = [
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
    all_are_refused(&plan(5, "", 3), cases);
}

#[test]
fn a_number_that_json_can_spell_and_f64_cannot_hold_is_refused() {
    let text = plan(5, "", 3)
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
    let peers = Peers::simulated(5).unwrap();
    let refused = |lines: &str| {
        let text = format!("name = \"test\"\n[data]\nshape = [4]\n{lines}");
        Draft::new(RunFile::parse(&text, 5).unwrap(), &peers, 0).unwrap_err()
    };
    for (lines, field) in [
        ("weights = { alice = 2.0 }", "data.weights.alice"),
        (
            "unit = \"record\"\nclip = { kind = \"l2\", radius = 1.0 }",
            "data.records",
        ),
        (
            "unit = \"record\"\nclip = { kind = \"l2\", radius = 1.0 }\nrecords = { party-0 = 3 }",
            "data.records",
        ),
        (
            "unit = \"record\"\nclip = { kind = \"l2\", radius = 1.0 }\nrecords = { at_most = { alice = 3 } }",
            "data.records.at_most.alice",
        ),
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
    let plan = plan(4, GAUSSIAN, 2);
    for (pointer, new, field) in [
        ("/mechanism/kind", json!("gossip"), "mechanism.sums"),
        ("/mechanism/kind", json!("ppsc"), "mechanism.independent_noise"),
        ("/privacy/coalitions", json!("static"), "mechanism.correlated"),
    ] {
        assert_eq!(
            parse(&with(&plan, pointer, new)).unwrap_err().field(),
            Some(field)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any noise, range and size that a file can say: a plan or an error.
    #[test]
    fn no_numbers_panic(
        (independent, correlated) in (-121f64..121.0, -121f64..121.0),
        radius in -101f64..101.0,
        (rounds, fanout) in (1u32..64, 1u32..5),
        extent in 1u64..3_000_000_000,
        kind in prop_oneof![Just("inca"), Just("ppsc")],
    ) {
        let data = format!("shape = [{extent}]\nclip = {{ kind = \"l2\", radius = {:e} }}", libm::pow(10.0, radius));
        let mechanism = format!("kind = \"{kind}\"\nfanout = {fanout}");
        let text = format!("name = \"test\"\n[data]\n{data}\n[mechanism]\n{mechanism}\n");
        if let Ok(file) = RunFile::parse(&text, 5) {
            let draft = Draft::new(file, &Peers::simulated(5).unwrap(), 0);
            if let Ok(draft) = draft {
                let mut calibration = calibration(&draft, rounds);
                calibration.independent_std = libm::pow(10.0, independent);
                calibration.correlated_std = libm::pow(10.0, correlated);
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

/// Vectors of anybody are further apart than second moments can be: no plan of a mean has them.
#[test]
fn only_a_model_that_is_solved_for_has_second_moments() {
    let draft = draft(4, "");
    let plan = Plan::assemble(draft.clone(), calibration(&draft, 3), [0; 16]).unwrap();
    let mut forged = value(&plan);
    forged["data"]["contributed"] = json!("second-moments");
    let error = parse(&forged).unwrap_err();
    assert_eq!(error.field(), Some("data.contributed"), "{error}");
}

const DESCRIBED: &str = "task = \"describe\"\nname = \"t\"\n[data]\nrecords = 20\n[describe]\ngroup_by = \"arm\"\n\
                         [[describe.column]]\nname = \"arm\"\ncategories = [\"old\", \"new\"]\n\
                         [[describe.column]]\nname = \"age\"\nlow = 18\nhigh = 100\nwant = [\"quantiles\"]\n";

/// The layout, κ and Δ of statistics are derived again: a smaller Δ would be a false claim.
#[test]
fn a_forged_layout_of_statistics_is_refused() {
    let file = RunFile::parse(DESCRIBED, 4).unwrap_or_else(|error| panic!("{error}"));
    let draft = Draft::new(file, &Peers::simulated(4).unwrap(), 7).unwrap();
    let plan = Plan::assemble(draft.clone(), calibration(&draft, 3), [0; 16]).unwrap();
    let read = Plan::parse(plan.to_json().as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plan.to_json(), read.to_json());
    let text = plan.to_json().to_owned();
    assert!(
        text.contains("\"kappa\"") && text.contains("\"want\": \"quantiles\""),
        "{text}"
    );
    let delta = plan.draft().largest_sensitivity();
    for (pointer, new) in [
        ("/computation/layout/kappa", json!(0.1)),
        ("/computation/layout/replace_one", json!(1.0)),
        ("/computation/layout/coordinates", json!(7)),
        ("/computation/layout/blocks/0/scale", json!(0.5)),
        ("/computation/layout/blocks/0/at", json!(2)),
        ("/computation/layout/blocks/0/want", json!("mean")),
        ("/computation/describe/column/1/high", json!(17)),
        ("/computation/describe/column/1/share", json!(2.0)),
        ("/computation/describe/column/0/categories", json!(["old", "old"])),
        ("/computation/describe/group_by", json!("age")),
        ("/data/clip/replace_one", json!(delta / 2.0)),
        ("/data/clip/cell", json!(1.0)),
        ("/data/shape", json!([100])),
        ("/data/unit", json!("party")),
        ("/data/clip", json!({ "kind": "l2", "radius": 1.0 })),
        ("/members/0/sensitivity", json!(delta / 2.0)),
        ("/run/sealed", json!(false)),
        ("/run/dissemination", json!("consensus")),
    ] {
        let error = parse(&with(&plan, pointer, new)).expect_err(pointer);
        assert!(error.field().is_some(), "{pointer}: {error}");
    }
    // Nor may a mean have it: its vectors are anybody's.
    let draft = draft_of(2, 4, "");
    let mean = Plan::assemble(draft.clone(), calibration(&draft, 3), [0; 16]).unwrap();
    let described = value(&plan)["data"]["clip"].clone();
    let error = parse(&with(&mean, "/data/clip", described)).unwrap_err();
    assert_eq!(error.field(), Some("data.contributed"), "{error}");
}

/// A run file cannot say it; what a forged plan says would be averaged as if it were finals.
#[test]
fn stream_that_says_consensus_is_refused() {
    let text = "name = \"test\"\ntask = \"stream\"\n[data]\nshape = [4]\nreleases = 3\n[mechanism]\nsums = \"open\"\n";
    let file = RunFile::parse(text, 5).unwrap();
    let draft = Draft::new(file, &Peers::simulated(5).unwrap(), 7).unwrap();
    let mut calibration = calibration(&draft, 3);
    calibration.correlated_std = 0.0;
    let plan = Plan::assemble(draft, calibration, [0; 16]).unwrap();
    let forged = with(&plan, "/run/dissemination", json!("consensus"));
    assert_eq!(parse(&forged).unwrap_err().field(), Some("run.dissemination"));
}

#[test]
fn a_circle_that_colluders_and_departed_could_read_is_refused() {
    let drafted = |parties: usize, graph: &str, against: &str| {
        let text = format!(
            "task = \"stream\"\nname = \"circles\"\n[data]\nshape = [2]\nreleases = 3\n[mechanism]\n\
             sums = \"neighbours\"\n[topology]\nprivate = {graph}\n[privacy]\n{against}\n"
        );
        let file = RunFile::parse(&text, parties).unwrap_or_else(|error| panic!("{error}"));
        Draft::new(file, &Peers::simulated(parties).unwrap(), 7)
    };
    let refused = |parties: usize, graph: &str, against: &str| {
        let error = drafted(parties, graph, against)
            .err()
            .map(|error| error.to_string());
        error.is_some_and(|text| text.contains("who can read a circle of 2 others"))
    };
    let (ring, regular) = ("{ kind = \"ring\" }", "{ kind = \"random-regular\", degree = 3 }");
    // Two neighbours besides the reader: with two against a party, one honest message is left.
    assert!(refused(8, ring, "colluding = 1\ndropouts = 1"));
    assert!(!refused(8, ring, "colluding = 1\ndropouts = 0"));
    assert!(!refused(8, regular, "colluding = 1\ndropouts = 1"));
}

/// The simulated peers, some of them without addresses, and relays.
fn without_addresses(parties: usize, hidden: &[usize], relays: usize) -> Peers {
    let key = |number: usize| simulated_keypair(number).public().to_peer_id().to_base58();
    let mut list = String::from("version = 1\n");
    for party in 0..parties {
        let id = key(party);
        list += &format!("[[peer]]\nname = \"party-{party}\"\nid = \"{id}\"\n");
        if !hidden.contains(&party) {
            list += &format!("private = \"/dns/party-{party}.invalid/tcp/7001\"\n");
        }
    }
    for relay in 0..relays {
        let id = key(parties + relay);
        list += &format!(
            "[[relay]]\nname = \"relay-{relay}\"\nid = \"{id}\"\nat = [\"/dns/relay.invalid/tcp/{}\"]\n",
            443 + relay
        );
    }
    Peers::parse(&list).unwrap()
}

#[test]
fn two_that_nobody_can_dial_need_a_relay_if_they_are_neighbours() {
    let drafted = |hidden: &[usize], relays: usize, graph: &str| {
        let text = format!("name = \"t\"\n[data]\nshape = [4]\n[topology]\n{graph}\n");
        let file = RunFile::parse(&text, 5).unwrap();
        Draft::new(file, &without_addresses(5, hidden, relays), 7)
    };
    for hidden in [&[][..], &[2], &[0]] {
        drafted(hidden, 0, "").expect("the others dial it");
    }
    let refused = drafted(&[1, 3], 0, "").unwrap_err();
    assert_eq!(refused.field(), "peers");
    let message = refused.to_string();
    assert!(
        message.contains("\"party-1\"") && message.contains("\"party-3\""),
        "{message}"
    );
    assert!(message.contains("relay = true"), "{message}");
    drafted(&[1, 3], 1, "").expect("a relay joins them");
    // Not neighbours: 1 and 3 of a ring.
    let ring = "private = { kind = \"ring\" }\npublic = { kind = \"ring\" }";
    drafted(&[1, 3], 0, ring).expect("they exchange nothing");
}

#[test]
fn a_plan_says_where_each_is_reached_and_which_relays_there_are() {
    let text = "name = \"t\"\n[data]\nshape = [4]\n";
    let file = RunFile::parse(text, 5).unwrap();
    let draft = Draft::new(file, &without_addresses(5, &[1, 3], 2), 7).unwrap();
    let calibration = calibration(&draft, 3);
    let plan = Plan::assemble(draft, calibration, [1; 16]).unwrap();
    let read = Plan::parse(plan.to_json().as_bytes()).unwrap();
    assert_eq!(read.draft(), plan.draft());
    assert_eq!(read.draft().relays.len(), 2);
    let cases = [
        ("/relays/0/id", json!(plan.draft().members[0].id.to_base58())),
        ("/relays/0/at", json!([])),
        ("/relays/1/name", json!("Relay")),
        ("/relays", json!([])),
    ];
    all_are_refused(&plan, cases);
}
