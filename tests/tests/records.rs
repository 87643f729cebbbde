//! Records, public weights, and the files that parties contribute: through `local` and `join`.

use std::fs;
use std::path::Path;

use serde_json::Value;
use undertone_tests::inputs::{LOUD, folder, input, kept, local, number, rows, table};
use undertone_tests::{Parties, alone, assert_close, read_json, run_in, start_in, write_npy};

const COUNTS: [usize; 4] = [300, 40, 700, 1];

/// Exact numbers come from the files; with a bound START fixes them, and nothing else differs.
#[test]
fn the_mean_is_over_all_records_and_one_record_is_what_delta_counts() {
    for data in ["", "records = { at_most = 5000 }"] {
        mean_is_over_all_records(data);
    }
}

fn mean_is_over_all_records(data: &str) {
    let folder = folder();
    let mut all = vec![];
    for (party, count) in COUNTS.into_iter().enumerate() {
        let name = ["a.csv", "b.npy", "c.csv", "d.json"][party];
        let own = rows(party, count);
        match name {
            "b.npy" => write_npy(
                &folder.path().join("inputs").join(name),
                &[count, 2],
                own.as_flattened(),
            ),
            "d.json" => input(folder.path(), name, format!("{own:?}")),
            "a.csv" => input(folder.path(), name, format!("left,right\n{}", table(&own))),
            _ => input(folder.path(), name, table(&own)),
        }
        all.extend(own);
    }
    let object = local(folder.path(), &format!("[data]\nunit = \"record\"\n{data}")).json_of(0);
    let total = all.len() as f64;
    assert_eq!(object["records"], all.len());
    let receipt = read_json(&folder.path().join("kept/c/receipt.json"));
    assert_eq!(
        receipt["records"]["c"].as_u64(),
        (!data.is_empty()).then_some(700),
        "{receipt}"
    );
    assert_close(
        &object["weights"]["c"],
        700.0 / total,
        1e-12,
        "a party weighs as much as its records",
    );
    let mut clipped = [0.0; 2];
    let mut outside = 0;
    for [x, y] in &all {
        let norm = x.hypot(*y).max(1.0);
        outside += usize::from(norm > 1.0);
        clipped = [clipped[0] + x / norm / total, clipped[1] + y / norm / total];
    }
    assert_eq!(
        object["clipped"], outside,
        "records are clipped one by one, and counted"
    );
    assert_planned_by_records(folder.path(), &object, total);
    let (mean, error) = (mean_of_each(folder.path()), number(&object, "standard_error"));
    // Six standard errors: a chance below 1e-8. A mean of the parties' means would be off by much
    // more.
    for (found, expected) in mean.iter().zip(clipped) {
        assert!(
            (found - expected).abs() <= 6.0 * error,
            "{mean:?} should be {clipped:?} ± {error}"
        );
    }
    let rms = ((mean[0] - clipped[0]).hypot(mean[1] - clipped[1])) / 2f64.sqrt();
    assert_close(&object["rms_error"], rms, 1e-6, "rms_error");
}

/// The plan says how many records each contributes, and its noise is that of four parties over all.
fn assert_planned_by_records(folder: &Path, object: &Value, total: f64) {
    let plan = read_json(&folder.join("kept/plan.json"));
    assert_eq!(plan["data"]["shape"], serde_json::json!([2]), "one record's");
    for (name, count) in ["a", "b", "c", "d"].into_iter().zip(COUNTS) {
        let records = &plan["data"]["records"];
        assert!(records[name] == count || records["at_most"] == 5000, "{records}");
    }
    for member in plan["members"].as_array().expect("members") {
        assert_eq!(member["sensitivity"], 2.0, "2C, however many records");
    }
    let error = number(object, "standard_error");
    let std = number(&plan["mechanism"], "independent_std");
    assert_close(
        &object["standard_error"],
        std * 2.0 / total,
        1e-9,
        "noise of four parties over all records",
    );
    assert!(
        (1.0..1.6).contains(&(error / number(object, "error_floor"))),
        "{object}"
    );
}

/// Every party's mean in its own format, of one record's shape, all with the same numbers.
fn mean_of_each(folder: &Path) -> Vec<f64> {
    let lines = kept(folder, "a/mean.csv");
    let line = lines.strip_prefix("left,right\n").expect("the names stay");
    assert_eq!(kept(folder, "c/mean.csv"), line);
    let mean: Vec<f64> = line
        .trim()
        .split(',')
        .map(|cell| cell.parse().expect("a number"))
        .collect();
    assert_eq!(
        serde_json::from_str::<Vec<f64>>(&kept(folder, "d/mean.json")).expect("a list"),
        mean
    );
    let (_, header, values) = undertone_tests::read_npy(&folder.join("kept/b/mean.npy"));
    assert!(
        header.contains("(2,") && !header.contains("40") && values == mean,
        "{header}"
    );
    mean
}

#[test]
fn columns_of_a_box_are_scaled_to_width_1() {
    let folder = folder();
    for party in 0..4 {
        let rows: String = (0..50)
            .map(|row| format!("{},{}\n", (row + party) % 2, 100 + (row * 37 + party * 11) % 500))
            .collect();
        input(
            folder.path(),
            &format!("{}.csv", ["a", "b", "c", "d"][party]),
            format!("yes,count\n{rows}"),
        );
    }
    let bounds = "clip = { kind = \"box\", low = [0, 100], high = [1, 500] }";
    let object = local(folder.path(), &format!("[data]\nunit = \"record\"\n{bounds}")).json_of(0);
    let plan = read_json(&folder.path().join("kept/plan.json"));
    assert_close(
        &plan["members"][0]["sensitivity"],
        2f64.sqrt(),
        1e-12,
        "two columns of width 1",
    );
    let errors: Vec<f64> = object["standard_errors"]
        .as_array()
        .expect("per column")
        .iter()
        .filter_map(Value::as_f64)
        .collect();
    assert!((errors[1] / errors[0] - 400.0).abs() < 1e-9, "{errors:?}");
    let overall = (errors.iter().map(|e| e * e).sum::<f64>() / 2.0).sqrt();
    assert_close(
        &object["standard_error"],
        overall,
        1e-9,
        "the root of their mean square",
    );
    assert_close(
        &plan["predicted"]["standard_error"],
        overall,
        1e-9,
        "as predicted",
    );
    let receipt = read_json(&folder.path().join("kept/a/receipt.json"));
    assert_eq!(receipt["standard_error"], object["standard_error"]);
    let columns = object["columns"].as_array().expect("columns have names");
    assert_eq!(
        (&columns[0]["name"], &columns[1]["name"]),
        (&"yes".into(), &"count".into())
    );
    assert!(
        (number(&columns[0], "mean") - 0.5).abs() < 6.0 * errors[0],
        "{columns:?}"
    );
    // Without scaling the widest column would set this one's noise: some 400 times as much.
    assert!(errors[0] < 0.02, "{errors:?}");
    assert!(number(&object, "rms_error") < 6.0 * overall);
    // Zero-out: the farthest corner from zero, in widths.
    let zeroed = local(
        folder.path(),
        &format!("[data]\nunit = \"record\"\nadjacency = \"zero-out\"\n{bounds}"),
    )
    .json_of(0);
    assert_eq!(zeroed["exit_code"], 0);
    let plan = read_json(&folder.path().join("kept/plan.json"));
    assert_close(
        &plan["members"][0]["sensitivity"],
        (1.0f64 + 1.25 * 1.25).sqrt(),
        1e-12,
        "√(1² + (500/400)²)",
    );
}

#[test]
fn public_weights_and_zero_out() {
    let folder = folder();
    let vectors = [[0.3, -0.2], [0.1, 0.4], [-0.5, 0.2], [0.6, 0.6]];
    for (name, vector) in ["a", "b", "c", "d"].iter().zip(vectors) {
        input(folder.path(), &format!("{name}.json"), format!("{vector:?}"));
    }
    let object = local(
        folder.path(),
        "[data]\nadjacency = \"zero-out\"\nweights = { a = 2.0, b = 0.5 }",
    )
    .json_of(0);
    let weights = [2.0 / 4.5, 0.5 / 4.5, 1.0 / 4.5, 1.0 / 4.5];
    for (name, weight) in ["a", "b", "c", "d"].iter().zip(weights) {
        assert_close(&object["weights"][name], weight, 1e-12, name);
    }
    let plan = read_json(&folder.path().join("kept/plan.json"));
    let sensitivities: Vec<f64> = plan["members"]
        .as_array()
        .expect("members")
        .iter()
        .map(|m| number(m, "sensitivity"))
        .collect();
    assert_eq!(sensitivities, [2.0, 0.5, 1.0, 1.0], "C times the weight");
    let mean: Vec<f64> = serde_json::from_str(&kept(folder.path(), "c/mean.json")).expect("a list");
    let expected = [0, 1].map(|i| weights.iter().zip(vectors).map(|(b, v)| b * v[i]).sum::<f64>());
    let square = mean
        .iter()
        .zip(expected)
        .map(|(m, e)| (m - e).powi(2))
        .sum::<f64>()
        / 2.0;
    assert_close(
        &object["rms_error"],
        square.sqrt(),
        1e-9,
        "against the weighted mean",
    );
    assert!(square.sqrt() < 6.0 * number(&object, "standard_error"));
    for (weight, field) in [("0.0", "data.weights.a"), ("-1.0", "data.weights.a")] {
        local(folder.path(), &format!("[data]\nweights = {{ a = {weight} }}")).refused_at(2, field);
    }
    local(folder.path(), "[data]\nweights = { zoe = 1.0 }").refused_at(2, "data.weights.zoe");
}

/// A model file: name, dtype, shape, bytes.
fn model(tensors: &[(&str, &str, &[usize], Vec<u8>)]) -> Vec<u8> {
    let (mut entries, mut data) = (vec!["\"__metadata__\":{\"format\":\"pt\"}".to_owned()], vec![]);
    for (name, dtype, shape, bytes) in tensors {
        let from = data.len();
        data.extend(bytes);
        entries.push(format!(
            "\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{from},{}]}}",
            data.len()
        ));
    }
    let header = format!("{{{}}}", entries.join(","));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

fn i64s(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// A model of three tensors that are averaged, and one that is not: each party's own stays.
fn weights(scale: f32) -> Vec<u8> {
    let w = [scale, -scale, 0.1, 0.2];
    // 0x3f00 is 0.5 in bfloat16, 0x3800 in half precision.
    model(&[
        (
            "w",
            "F32",
            &[2, 2],
            w.iter().flat_map(|v| v.to_le_bytes()).collect(),
        ),
        ("b", "BF16", &[1], 0x3f00u16.to_le_bytes().into()),
        ("h", "F16", &[], 0x3800u16.to_le_bytes().into()),
        ("steps", "I64", &[2], i64s(&[(scale * 10.0) as i64, 7])),
    ])
}

#[test]
fn a_model_is_one_vector_and_stays_a_model() {
    let folder = folder();
    ["a", "b", "c", "d"]
        .iter()
        .zip([0.1, 0.2, 0.3, 0.4])
        .for_each(|(name, s)| input(folder.path(), &format!("{name}.safetensors"), weights(s)));
    let clip = "[data]\nclip = { kind = \"tensors\", radius = { w = 1.0, b = 0.5, h = 0.25 } }";
    let object = local(folder.path(), clip).json_of(0);
    let plan = read_json(&folder.path().join("kept/plan.json"));
    assert_eq!(
        plan["data"]["shape"],
        serde_json::json!([6]),
        "all that is averaged"
    );
    let extents = serde_json::json!({ "b": [1], "h": [], "w": [2, 2] });
    assert_eq!(plan["data"]["tensors"], extents);
    let sensitivity = plan["members"][0]["sensitivity"].as_f64().expect("a number");
    assert!(
        (sensitivity - 2.0 * 1.3125f64.sqrt()).abs() < 1e-12,
        "{sensitivity}"
    );
    let mean = fs::read(folder.path().join("kept/a/mean.safetensors")).expect("written");
    let length = u64::from_le_bytes(mean[..8].try_into().expect("8 bytes")) as usize;
    let header: Value = serde_json::from_slice(&mean[8..8 + length]).expect("a header");
    assert_eq!(header["__metadata__"]["format"], "pt");
    for (name, dtype, shape) in [
        ("w", "F32", serde_json::json!([2, 2])),
        ("b", "BF16", serde_json::json!([1])),
        ("h", "F16", serde_json::json!([])),
    ] {
        assert_eq!(
            (&header[name]["dtype"], &header[name]["shape"]),
            (&dtype.into(), &shape),
            "{name}"
        );
    }
    let at = 8 + length + header["w"]["data_offsets"][0].as_u64().expect("an offset") as usize;
    let found = f64::from(f32::from_le_bytes(mean[at..at + 4].try_into().expect("4 bytes")));
    assert!(
        (found - 0.25).abs() < 6.0 * number(&object, "standard_error"),
        "{found}"
    );
    let steps = 8 + length + header["steps"]["data_offsets"][0].as_u64().expect("an offset") as usize;
    assert_eq!(
        (&header["steps"]["dtype"], &mean[steps..steps + 16]),
        (&"I64".into(), &i64s(&[1, 7])[..])
    );
    // A radius for a tensor that no model has.
    let odd = clip.replace("w = 1.0", "v = 1.0");
    local(folder.path(), &odd).refused_at(2, "data.clip.radius");
    // Another party's model with another dtype: both are named.
    let other = model(&[
        ("w", "F64", &[2, 2], vec![0; 32]),
        ("b", "BF16", &[1], vec![0; 2]),
        ("h", "F16", &[], vec![0; 2]),
    ]);
    input(folder.path(), "d.safetensors", other);
    let refusal = local(folder.path(), "").refused(7, "d is a model whose tensor \\\"w\\\" is float64");
    assert!(
        refusal["error"]["message"]
            .as_str()
            .is_some_and(|m| m.contains("a is a model") && m.contains("float32")),
        "{refusal}"
    );
    input(
        folder.path(),
        "d.safetensors",
        model(&[("steps", "I64", &[1], vec![0; 8])]),
    );
    local(folder.path(), "").refused(7, "steps");
}

#[test]
fn simulated_records_have_the_accounted_error_after_a_departure() {
    let folder = folder();
    let run = format!(
        "[data]\nshape = [3]\nunit = \"record\"\nclip = {{ kind = \"box\", low = [-1, 0, 40], high = [1, 1, 500] }}\n{LOUD}"
    );
    fs::write(folder.path().join("run.toml"), run).expect("writable");
    let arguments = [
        "simulate",
        "run.toml",
        "--parties",
        "4",
        "--runs",
        "200",
        "--kills",
        "1",
        "--seed",
        "1",
        "--json",
    ];
    let object = run_in(folder.path(), arguments).json_of(0);
    assert_eq!(
        (
            &object["violations"],
            &object["runs_with_the_survivors_exact_sum"]
        ),
        (&serde_json::json!([]), &200.into())
    );
    // The widest column makes the sum: χ² with about 200 degrees, 5 standard deviations of it are a
    // chance below 1e-6.
    let ratio = (number(&object, "rms_error") / number(&object, "standard_error")).powi(2);
    assert!(
        (ratio - 1.0).abs() < 0.5,
        "the error's variance is {ratio} times the accounted one"
    );
}

#[test]
fn the_demonstration_shows_each_column() {
    let folder = folder();
    let ended = {
        let _alone = alone();
        let patient = "[run]\njoin_ms = 60000\nround_ms = 30000\nsettle_ms = 30000\n";
        fs::write(folder.path().join("patient.toml"), patient).expect("writable");
        run_in(
            folder.path(),
            [
                "local",
                "--seed",
                "7",
                "--run",
                "patient.toml",
                "--json",
                "--output",
                "kept",
            ],
        )
    };
    let object = ended.json_of(0);
    assert_eq!(
        (&object["parties"], &object["records"], &object["demonstration"]),
        (&8.into(), &8000.into(), &true.into())
    );
    let columns = object["columns"].as_array().expect("columns");
    assert_eq!(columns.len(), 12);
    // (mean − true)/error is about standard normal but for clipping: the sum of 12 squares exceeds
    // 50 by a chance of 1.4e-6.
    let square: f64 = columns
        .iter()
        .map(|c| (number(c, "error") / number(c, "standard_error")).powi(2))
        .sum();
    assert!(square < 50.0, "{columns:?}");
    let error = |name: &str| {
        columns
            .iter()
            .find(|c| c["name"] == name)
            .map_or(0.0, |c| number(c, "standard_error"))
    };
    assert!((0.0015..0.0025).contains(&error("diabetic")), "{columns:?}");
    assert!(
        (0.7..1.15).contains(&error("platelets (1e9/l)")),
        "the widest, 460 units: {columns:?}"
    );
    assert!(kept(folder.path(), "aarhus/mean.csv").starts_with("age (years),systolic"));
    fs::write(folder.path().join("run.toml"), "[data]\nshape = [3]\n").expect("writable");
    run_in(folder.path(), ["local", "--run", "run.toml", "--json"]).refused_at(2, "data.shape");
}

/// One run file and one bound: next month tables have other lengths, and a fifth party has joined.
/// Each mean is over the rows that there are.
#[test]
fn one_run_file_serves_a_month_of_four_and_a_month_of_five() {
    let _alone = alone();
    let parties = Parties::new(5);
    let run = format!(
        "version = 1\nname = \"monthly\"\n[data]\nnoise_ok = true\nshape = [2]\nunit = \"record\"\n\
         records = {{ at_most = 400 }}\nclip = {{ kind = \"l2\", radius = 1.0 }}\n{LOUD}"
    );
    for (month, counts) in [vec![120, 7, 300, 55], vec![90, 310, 12, 60, 400]]
        .into_iter()
        .enumerate()
    {
        let plan = format!("month-{month}");
        let list = parties.lines()[..counts.len()].concat();
        parties.write("peers.toml", &format!("version = 1\n{list}"));
        parties.plan(&plan, &run);
        let tables: Vec<Vec<[f64; 2]>> = counts.iter().map(|&count| rows(count, count)).collect();
        let running: Vec<_> = tables
            .iter()
            .enumerate()
            .map(|(party, own)| {
                let name = &parties.names()[party];
                parties.write(&format!("{name}.csv"), &table(own));
                let line = format!(
                    "join {plan}.json --identity {name}.key --input {name}.csv --output {plan}-{name}.csv \
                     --receipt {plan}-{name}.json --max-delta 0.01 --max-epsilon 20 --json"
                );
                start_in(parties.folder(), line.split(' '))
            })
            .collect();
        let ends: Vec<Value> = running
            .into_iter()
            .map(|running| running.wait().json_of(0))
            .collect();
        let total: usize = counts.iter().sum();
        let clipped = |[x, y]: &[f64; 2]| {
            let norm = x.hypot(*y).max(1.0);
            [x / norm, y / norm]
        };
        let sum = tables
            .iter()
            .flatten()
            .map(clipped)
            .fold([0.0, 0.0], |[a, b], [x, y]| [a + x, b + y]);
        let text = fs::read_to_string(parties.path(&format!("{plan}-alice.csv"))).expect("a mean");
        let mean: Vec<f64> = text
            .trim()
            .split(',')
            .map(|cell| cell.parse().expect("a number"))
            .collect();
        let error = number(&ends[0], "standard_error");
        for (found, sum) in mean.iter().zip(sum) {
            assert!(
                (found - sum / total as f64).abs() <= 6.0 * error,
                "{mean:?}, {sum} of {total}, {error}"
            );
        }
        let receipt = read_json(&parties.path(&format!("{plan}-alice.json")));
        for (name, count) in parties.names().iter().zip(&counts) {
            assert_eq!(receipt["records"][name], *count, "{receipt}");
        }
        let checked = format!("receipt {plan}-alice.json --plan {plan}.json --mean {plan}-alice.csv --json");
        run_in(parties.folder(), checked.split(' ')).json_of(0);
    }
}
