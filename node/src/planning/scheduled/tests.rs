use undertone_protocol::plan::scheduled::OccurrenceId;

use super::*;

const RUN: &str = "name = \"weekly\"\n[data]\nnoise_ok = true\nshape = [2]\n[privacy]\ndropouts = 1\n";

fn terms<'a>(text: &'a str, list: &'a Peers) -> Terms<'a> {
    Terms {
        text,
        path: "weekly.toml".as_ref(),
        list,
    }
}

fn scheduled(attempt: u32) -> Scheduled {
    Scheduled {
        occurrence: OccurrenceId([7; 32]),
        attempt,
    }
}

fn all(list: &Peers, records: Option<u32>) -> Vec<Attendee> {
    let peers = list.as_slice().iter();
    peers.map(|peer| Attendee { id: peer.id, records }).collect()
}

#[test]
fn members_make_the_same_plan_and_it_is_read_as_it_was_written() {
    let list = Peers::simulated(5).expect("peers");
    let own = terms(RUN, &list)
        .plan(&all(&list, None), scheduled(3))
        .expect("a plan");
    let others = terms(RUN, &list)
        .plan(&all(&list, None), scheduled(3))
        .expect("a plan");
    assert_eq!(own.to_json(), others.to_json());
    let read = Plan::parse(own.to_json().as_bytes()).expect("what was written");
    assert_eq!((read.digest(), read.draft()), (own.digest(), own.draft()));
    assert_eq!(read.draft().scheduled, Some(scheduled(3)));
    let named = |text: &str| Scheduled::named(text.as_bytes());
    assert_eq!(named(own.to_json()), Some(scheduled(3)));
    for other in ["", "{}", "[3]", "{\"occurrence\": \"07\", \"attempt\": 3}"] {
        assert_eq!(named(other), None, "{other}");
    }
    // Everybody's own list says where they are.
    assert!(!own.to_json().contains("invalid/tcp"), "{}", own.to_json());
    assert_eq!(own.draft().run.join_ms, JOIN_MS);
    let next = terms(RUN, &list)
        .plan(&all(&list, None), scheduled(4))
        .expect("a plan");
    assert_ne!(next.digest(), own.digest());
    assert_eq!(
        compare(&next, &own).expect_err("another attempt").field,
        "attempt"
    );
}

#[test]
fn calibrated_numbers_may_differ_in_last_bits_and_nothing_else() {
    let list = Peers::simulated(5).expect("peers");
    let own = terms(RUN, &list)
        .plan(&all(&list, None), scheduled(0))
        .expect("a plan");
    let base: Value = serde_json::from_str(own.to_json()).expect("JSON");
    let differs = |pointer: &str, factor: f64| {
        let mut changed = base.clone();
        let place = changed.pointer_mut(pointer).expect(pointer);
        *place = (place.as_f64().expect("a number") * factor).into();
        differing("", &changed, &base).map(|difference| difference.field)
    };
    for calibrated in [
        "/mechanism/independent_std",
        "/claims/0/mu",
        "/predicted/standard_error",
    ] {
        assert_eq!(differs(calibrated, 1.0 + 5e-10), None, "{calibrated}");
        let field = calibrated[1..].replace('/', ".");
        assert_eq!(differs(calibrated, 1.0 + 2e-9), Some(field));
    }
    for exact in ["/privacy/epsilon", "/members/0/sensitivity"] {
        assert_eq!(differs(exact, 1.0 + 5e-10), Some(exact[1..].replace('/', ".")));
    }
    let mut longer = base.clone();
    longer["members"]
        .as_array_mut()
        .expect("a list")
        .push(Value::Null);
    longer["more"] = "x".repeat(1000).into();
    let difference = differing("", &longer, &base).expect("more of it");
    assert!(difference.to_string().len() < 300, "{difference}");
}

#[test]
fn who_is_absent_is_left_out_of_weights_and_records() {
    let list = Peers::simulated(5).expect("peers");
    let text = format!("{RUN}[data.weights]\nparty-0 = 2.0\nparty-4 = 3.0\n");
    let four = &all(&list, None)[..4];
    let plan = terms(&text, &list).plan(four, scheduled(0)).expect("a plan");
    assert_eq!(plan.draft().members[0].weight, Some(2.0));
    assert!(!plan.to_json().contains("party-4"));
    let refused = terms(&text, &list)
        .plan(&four[..3], scheduled(0))
        .expect_err("too few");
    assert!(
        refused
            .message
            .contains("3 of 5 members take part, and 4 are needed"),
        "{refused}"
    );
    let twice = [four[0], four[0], four[1], four[2]];
    assert!(terms(&text, &list).plan(&twice, scheduled(0)).is_err());
    let strange = text.replace("party-4", "party-9");
    let refused = terms(&strange, &list)
        .plan(&all(&list, None), scheduled(0))
        .expect_err("nobody's name");
    assert!(refused.message.contains("party-9"), "{refused}");
}

#[test]
fn records_are_those_that_each_said_or_the_run_files() {
    let list = Peers::simulated(4).expect("peers");
    let text = "name = \"t\"\n[data]\nnoise_ok = true\nshape = [2]\nclip = { kind = \"l2\", radius = 1.0 }\nunit = \"record\"\n";
    let asks = |text: &str| terms(text, &list).asks_for_records().expect("a run file");
    assert!(asks(text) && !asks(RUN));
    let mut who = all(&list, Some(50));
    who[2].records = Some(70);
    let plan = terms(text, &list).plan(&who, scheduled(0)).expect("a plan");
    let records: Vec<u64> = plan
        .draft()
        .members
        .iter()
        .filter_map(|member| Some(member.records?.most()))
        .collect();
    assert_eq!(records, [50, 50, 70, 50]);
    // Nobody chooses a graph by a number of records of its own.
    let random = format!("{text}[topology]\nprivate = {{ kind = \"random-regular\", degree = 4 }}\n");
    let eight = Peers::simulated(8).expect("peers");
    let graph = |records| {
        let mut who = all(&eight, Some(50));
        who[0].records = Some(records);
        let plan = terms(&random, &eight).plan(&who, scheduled(0)).expect("a plan");
        (plan.digest_hex(), plan.draft().private_graph.clone())
    };
    let [one, other] = [50, 51].map(graph);
    assert!(one.0 != other.0 && one.1 == other.1, "{one:?}, {other:?}");
    assert_eq!(attendees(&plan), who);
    // Whatever they say within the bounds, there is a plan.
    (who[0].records, who[1].records) = (Some(1 << 31), Some(1));
    terms(text, &list).plan(&who, scheduled(0)).expect("a plan");
    who[1].records = None;
    let refused = terms(text, &list)
        .plan(&who, scheduled(0))
        .expect_err("it did not say");
    assert!(refused.message.contains("party-1 did not say"), "{refused}");
    let bounded = text.replace("[2]", "[2]\nrecords = { at_most = 90 }");
    assert!(!asks(&bounded));
    let plan = terms(&bounded, &list)
        .plan(&all(&list, None), scheduled(0))
        .expect("a plan");
    assert_eq!(
        plan.draft().members[0].records.map(|records| records.most()),
        Some(90)
    );
    terms(text, &list)
        .forecast(None, scheduled(0))
        .expect("a plan of all");
}

#[test]
fn a_run_of_rounds_is_no_schedules() {
    let list = Peers::simulated(4).expect("peers");
    let text = "name = \"t\"\ntask = \"rounds\"\n[data]\nshape = [2]\nreleases = 3\nclip = { kind = \"l2\", radius = 1.0 }\n";
    let refused = terms(text, &list).check().expect_err("a program's");
    assert_eq!(refused.field.as_deref(), Some("task"), "{refused}");
}
