use super::*;
use crate::testing::plan_of;

fn planned(parties: usize, records: Option<u64>, data: &str, rest: &str) -> Plan {
    let text = format!("name = \"utility\"\n[data]\n{data}\n{rest}");
    plan_of(&text, parties, records)
}

const PATIENTS: &str = "unit = \"record\"\nshape = [2]\ncolumns = [\"age\", \"pulse\"]\n\
                        clip = { kind = \"box\", low = [18, 40], high = [100, 160] }";

/// A sum is a mean times the weight of all, and so is its noise: what is left of it is the same.
#[test]
fn a_sum_and_its_mean_have_the_same_utility() {
    let of = |result: &str| {
        let text = format!(
            "task = \"rounds\"\nname = \"rounds\"\n[data]\nshape = [3]\nreleases = 2\n{result}\n\
             weights = {{ party-0 = 3.0, party-2 = 0.5 }}\nclip = {{ kind = \"l2\", radius = 2.0 }}\n"
        );
        plan_of(&text, 5, None)
    };
    let (mean, sum) = (of(""), of("result = \"sum\""));
    let total = mean.draft().total_weight();
    assert_eq!(total, 6.5);
    let [one, all] = [&mean, &sum].map(|plan| &plan.calibration().predicted);
    let same = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-12, "{found}");
    for (of_mean, of_sum) in [
        (one.standard_error, all.standard_error),
        (one.central, all.central),
        (one.local, all.local),
        (one.error_floor, all.error_floor),
    ] {
        same(of_sum, of_mean * total);
    }
    // Five noises, or four.
    let four = all.standard_error_one_dropout.expect("one may leave");
    same(four, all.standard_error * 0.8f64.sqrt());
    let [one, all] = [&mean, &sum].map(Utility::of);
    same(all.ratio(), one.ratio());
    assert!(one.sentence().contains("2 means") && all.sentence().contains("2 sums"));
    assert!(
        all.sentence().contains("a sum here has norm at most 13"),
        "{}",
        all.sentence()
    );
    same(all.json()["sum_at_most"].as_f64().expect("a number"), 13.0);
}

#[test]
fn the_noise_of_a_ball_is_its_norm() {
    let plan = planned(8, None, "shape = [1000]", "");
    let utility = Utility::with_error(&plan, 1.22);
    assert!((utility.ratio() - 1.22 * 1000f64.sqrt()).abs() < 1e-9);
    assert!(utility.is_noise());
    assert_eq!(
        utility.sentence(),
        "A mean here has norm at most 1.00, the noise has norm 38.6: the result is noise, \
         38.6 times as large"
    );
    let wide = planned(
        8,
        None,
        "shape = [4]\nclip = { kind = \"l2\", radius = 50.0 }",
        "",
    );
    let utility = Utility::with_error(&wide, 0.5);
    assert_eq!(utility.ratio(), 0.02);
    assert_eq!(
        utility.sentence(),
        "A mean here has norm at most 50.0, the noise has norm 1.00: 2.00 % of that"
    );
    assert_eq!((utility.warning(), utility.table()), (None, String::new()));
}

#[test]
fn the_noise_of_columns_is_beside_each_ones_range() {
    let plan = planned(8, Some(1000), PATIENTS, "");
    let scales = plan.scales().root_mean_square();
    // Noise of a hundredth of each column's width.
    let utility = Utility::with_error(&plan, 0.01 * scales);
    assert!((utility.ratio() - 0.02).abs() < 1e-12);
    assert_eq!(
        utility.sentence(),
        "A mean here lies within its public bounds, the noise is at most 2.00 % of half of their distance \
         (age from 18 to 100: ± 0.820; pulse from 40 to 160: ± 1.20)"
    );
    assert!(
        utility
            .table()
            .contains("age     18              100  0.820             2.00"),
        "{}",
        utility.table()
    );
    let utility = Utility::with_error(&plan, 0.6 * scales);
    assert!(
        utility.is_noise() && utility.sentence().contains("up to 1.20 times half"),
        "{}",
        utility.sentence()
    );
}

/// Each change that is said to help is made, and the plan calibrated again.
#[test]
fn what_would_help_does() {
    let cases = [
        (8, None, "shape = [4]", ""),
        (
            5,
            None,
            "shape = [16]\nclip = { kind = \"box\", low = 0, high = 1 }",
            "",
        ),
        (4, None, "shape = [3]", "[mechanism]\nkind = \"pairwise\""),
        (
            5,
            Some(3),
            "unit = \"record\"\nshape = [3]\nclip = { kind = \"l2\", radius = 2.0 }",
            "",
        ),
    ];
    let mut changes = 0;
    for (parties, records, data, rest) in cases {
        let plan = planned(parties, records, data, rest);
        let utility = Utility::of(&plan);
        assert!(utility.is_noise(), "{}", utility.sentence());
        for help in utility.would_help() {
            let number = |text: &str| text.parse::<f64>().expect("a number");
            let better = if let Some(epsilon) = help.strip_prefix("privacy.epsilon = ") {
                planned(
                    parties,
                    records,
                    data,
                    &format!("[privacy]\nepsilon = {epsilon}\n{rest}"),
                )
            } else if let Some(count) = help
                .strip_prefix("some ")
                .and_then(|it| it.strip_suffix(" parties"))
            {
                planned(number(count) as usize, records, data, rest)
            } else if let Some(count) = help
                .strip_prefix("some ")
                .and_then(|it| it.strip_suffix(" records"))
            {
                planned(
                    parties,
                    Some((number(count) / parties as f64).ceil() as u64),
                    data,
                    rest,
                )
            } else if let Some(count) = help
                .strip_prefix("at most ")
                .and_then(|it| it.strip_suffix(" coordinates"))
            {
                let from = format!("shape = [{}]", plan.draft().dimension());
                planned(
                    parties,
                    records,
                    &data.replace(&from, &format!("shape = [{count}]")),
                    rest,
                )
            } else {
                assert_eq!(help, "unit = \"record\", where each party has many rows");
                continue;
            };
            let found = Utility::of(&better);
            assert!(!found.is_noise(), "{help}: {}", found.sentence());
            changes += 1;
        }
    }
    assert!(changes >= 8, "{changes}");
}

#[test]
fn noise_is_refused_unless_it_is_meant() {
    let refused = check(&planned(5, None, "shape = [8]", "")).unwrap_err();
    assert_eq!(refused.field.as_deref(), Some("data.noise_ok"));
    assert!(
        refused.message.contains("a mean here has norm at most"),
        "{}",
        refused.message
    );
    check(&planned(5, None, "shape = [8]\nnoise_ok = true", "")).expect("it is meant");
    check(&planned(8, Some(1000), PATIENTS, "")).expect("patients have a mean");
}
