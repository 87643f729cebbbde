use super::*;
use crate::mechanism::places::finals;
use crate::testing::{logs, plan};

fn without(parties: usize, missing: Party) -> BTreeSet<Party> {
    (0..parties).filter(|&party| party != missing).collect()
}

fn own(plan: &Plan) -> Vec<f64> {
    (0..plan.parties())
        .map(|party| plan.draft().weight(party))
        .collect()
}

#[test]
fn a_run_without_faults_is_as_predicted() {
    let plan = plan(5, "[mechanism]\nrounds = 4");
    let everybody: BTreeSet<Party> = (0..5).collect();
    let result = realised(&plan, &logs(&plan, &[0, 1, 2, 3, 4]), &everybody, &everybody).expect("sane logs");
    assert!((result.standard_error / plan.calibration().predicted.standard_error - 1.0).abs() < 1e-9);
    assert!(result.weights.iter().all(|weight| (weight - 0.2).abs() < 1e-12));
    assert!((result.total_weight - 5.0).abs() < 1e-12 && result.lost_weight.abs() < 1e-12 && result.usable);
}

#[test]
fn with_roll_back_a_departure_leaves_the_exact_mean_of_the_rest() {
    let plan = plan(
        5,
        "weights = { party-0 = 2.0, party-1 = 1.0, party-2 = 1.0, party-3 = 1.0, party-4 = 0.5 }\n[mechanism]\nrounds = 4",
    );
    for departed in 0..5 {
        let rest = without(5, departed);
        let members: Vec<Party> = rest.iter().copied().collect();
        let mut logs = logs(&plan, &members);
        // It was there in round 1: whoever got its share rolls it back.
        let to = plan.schedule().sends_to(1, departed)[0];
        let received = &mut logs.get_mut(&to).expect("a member").received;
        received.insert(
            0,
            undertone_protocol::messages::log::ReceivedEntry {
                round: 1,
                from: departed,
                applied: 1,
            },
        );
        received.sort_by_key(|entry| (entry.round, entry.from));
        let result = realised(&plan, &logs, &rest, &rest).expect("sane logs");
        let traced = summed(
            &settled::likely(
                &plan,
                &Setting::of_plan(&plan).unwrap().fault_free().unwrap(),
                &logs,
                &rest,
            )
            .unwrap(),
            &own(&plan),
            &rest,
        );
        assert!(
            (traced.weight - result.total_weight).abs() < 1e-12 && traced.correlated < 1e-24,
            "the short cut is the sum of the finals"
        );
        assert!((traced.independent - 4.0).abs() < 1e-12);
        let weight: f64 = rest.iter().map(|&party| plan.draft().weight(party)).sum();
        let expected = plan.calibration().independent_std * 2.0 / weight;
        assert!(
            (result.standard_error / expected - 1.0).abs() < 1e-9,
            "{} {expected}",
            result.standard_error
        );
        assert!((result.total_weight - weight).abs() < 1e-12 && result.lost_weight.abs() < 1e-12);
        for (party, b) in result.weights.iter().enumerate() {
            let expected = if party == departed {
                0.0
            } else {
                plan.draft().weight(party) / weight
            };
            assert!((b - expected).abs() < 1e-12);
        }
    }
}

#[test]
fn a_missing_final_costs_what_was_predicted_on_average() {
    let plan = plan(5, "[mechanism]\nrounds = 4");
    let everybody: BTreeSet<Party> = (0..5).collect();
    let logs = logs(&plan, &[0, 1, 2, 3, 4]);
    let variance = |missing| {
        realised(&plan, &logs, &everybody, &without(5, missing))
            .expect("sane logs")
            .standard_error
            .powi(2)
    };
    let mean = (0..5).map(variance).sum::<f64>() / 5.0;
    let predicted = plan
        .calibration()
        .predicted
        .standard_error_late_dropout
        .expect("computed");
    assert!((mean.sqrt() / predicted - 1.0).abs() < 1e-9);
    let result = realised(&plan, &logs, &everybody, &without(5, 0)).expect("sane logs");
    assert!(
        (result.lost_weight - 1.0).abs() < 0.5 && (result.weights.iter().sum::<f64>() - 1.0).abs() < 1e-12
    );
}

#[test]
fn too_much_noise_or_too_little_weight_is_no_mean() {
    let plan = plan(4, "[mechanism]\nrounds = 3");
    let everybody: BTreeSet<Party> = (0..4).collect();
    let logs = logs(&plan, &[0, 1, 2, 3]);
    let lonely = realised(&plan, &logs, &everybody, &BTreeSet::from([0])).expect("sane logs");
    assert!(!lonely.usable);
    let nobody = realised(&plan, &logs, &everybody, &BTreeSet::new()).expect("sane logs");
    assert!(!nobody.usable && nobody.standard_error.is_infinite());
}

#[test]
fn without_roll_back_a_crash_leaves_noise_behind() {
    let plan = plan(4, "[mechanism]\nrounds = 4\nrollback = false");
    let rest = without(4, 3);
    let mut logs = logs(&plan, &[0, 1, 2]);
    let to = plan.schedule().sends_to(1, 3)[0];
    let received = &mut logs.get_mut(&to).expect("a member").received;
    received.push(undertone_protocol::messages::log::ReceivedEntry {
        round: 1,
        from: 3,
        applied: 1,
    });
    received.sort_by_key(|entry| (entry.round, entry.from));
    let result = realised(&plan, &logs, &rest, &rest).expect("sane logs");
    let exact = plan.calibration().independent_std / 3f64.sqrt();
    assert!(
        result.standard_error > exact * 1.005,
        "{result:?} {exact} {}",
        plan.calibration().correlated_std
    );
    assert!((result.weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(result.weights[3] > 0.0, "what it sent stays in the mean");
}

#[test]
fn with_ppsc_a_missing_final_costs_what_the_rows_say() {
    let plan = plan(6, "[mechanism]\nkind = \"ppsc\"");
    let setting = Setting::of_plan(&plan).expect("a plan");
    let (rows, places) = (
        late(&setting).expect("a schedule"),
        late_held(&setting, finals(&setting.out)),
    );
    assert_eq!(rows, places);
    assert!(places.iter().any(|(sum, _)| sum.correlated > 0.0));
}
