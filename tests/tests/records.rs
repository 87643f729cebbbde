//! Records, public weights, and the files that parties bring: through `local` and `join`.

use std::fs;
use std::path::Path;

use serde_json::Value;
use undertone_tests::{Ended, Parties, alone, assert_close, read_json, run_in, write_npy};

/// Little noise: what a mean is can be told from what it is not.
const LOUD: &str = "[privacy]\nepsilon = 20.0\ndelta = 0.01\n[mechanism]\nrounds = 4\n\
     [run]\njoin_ms = 60000\nround_ms = 30000\nsettle_ms = 30000\n";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("inputs")).expect("writable");
    folder
}

fn input(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    fs::write(folder.join("inputs").join(name), content).expect("writable");
}

/// Runs `local` on the folder's inputs with this [data] section, keeping everything in `kept`.
fn local(folder: &Path, data: &str) -> Ended {
    let _alone = alone();
    fs::write(folder.join("run.toml"), format!("{data}\n{LOUD}")).expect("writable");
    run_in(
        folder,
        [
            "local", "--json", "--inputs", "inputs", "--run", "run.toml", "--output", "kept",
        ],
    )
}

fn number(object: &Value, key: &str) -> f64 {
    object[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} is {}", object[key]))
}

fn kept(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join("kept").join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// Rows of two columns, some of them outside of the unit ball: party p brings `counts[p]`.
fn rows(party: usize, count: usize) -> Vec<[f64; 2]> {
    (0..count)
        .map(|row| {
            [
                ((row * 7 + party) as f64).sin(),
                0.3 + 0.2 * ((row * 3 + party) as f64).cos(),
            ]
        })
        .collect()
}

fn table(rows: &[[f64; 2]]) -> String {
    rows.iter().map(|[x, y]| format!("{x:?},{y:?}\n")).collect()
}

const COUNTS: [usize; 4] = [300, 40, 700, 1];

#[test]
fn the_mean_is_over_all_records_and_one_record_is_what_delta_counts() {
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
    let object = local(folder.path(), "[data]\nunit = \"record\"").json_of(0);
    let total = all.len() as f64;
    assert_eq!(object["records"], all.len());
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
    let plan = read_json(&folder.path().join("kept/plan.json"));
    assert_eq!(plan["data"]["shape"], serde_json::json!([2]), "one record's");
    for (member, count) in plan["members"].as_array().expect("members").iter().zip(COUNTS) {
        assert_eq!(
            (&member["records"], &member["sensitivity"]),
            (&count.into(), &2.0.into()),
            "2C, however many records"
        );
    }
    let error = number(&object, "standard_error");
    let std = number(&plan["mechanism"], "independent_std");
    assert_close(
        &object["standard_error"],
        std * 2.0 / total,
        1e-9,
        "noise of four parties over all records",
    );
    assert!(
        (1.0..1.6).contains(&(error / number(&object, "error_floor"))),
        "{object}"
    );
    // Every party's mean in its own format, of one record's shape, all with the same numbers.
    let lines = kept(folder.path(), "a/mean.csv");
    let line = lines.strip_prefix("left,right\n").expect("the names stay");
    assert_eq!(kept(folder.path(), "c/mean.csv"), line);
    let mean: Vec<f64> = line
        .trim()
        .split(',')
        .map(|cell| cell.parse().expect("a number"))
        .collect();
    assert_eq!(
        serde_json::from_str::<Vec<f64>>(&kept(folder.path(), "d/mean.json")).expect("a list"),
        mean
    );
    let (_, header, values) = undertone_tests::read_npy(&folder.path().join("kept/b/mean.npy"));
    assert!(
        header.contains("(2,") && !header.contains("40") && values == mean,
        "{header}"
    );
    // Six standard errors: a chance below 1e-8. A mean of the parties' means would be off by much more.
    for (found, expected) in mean.iter().zip(clipped) {
        assert!(
            (found - expected).abs() <= 6.0 * error,
            "{mean:?} should be {clipped:?} ± {error}"
        );
    }
    let rms = ((mean[0] - clipped[0]).hypot(mean[1] - clipped[1])) / 2f64.sqrt();
    assert_close(&object["rms_error"], rms, 1e-6, "rms_error");
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

#[test]
fn a_model_is_one_vector_and_stays_a_model() {
    let folder = folder();
    let f32s = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    // 0x3f00 is 0.5 in bfloat16, 0x3800 in half precision.
    let weights = |scale: f32| {
        model(&[
            ("w", "F32", &[2, 2], f32s(&[scale, -scale, 0.1, 0.2])),
            ("b", "BF16", &[1], 0x3f00u16.to_le_bytes().into()),
            ("h", "F16", &[], 0x3800u16.to_le_bytes().into()),
        ])
    };
    ["a", "b", "c", "d"]
        .iter()
        .zip([0.1, 0.2, 0.3, 0.4])
        .for_each(|(name, s)| input(folder.path(), &format!("{name}.safetensors"), weights(s)));
    let object = local(folder.path(), "[data]\nclip = { kind = \"l2\", radius = 1.0 }").json_of(0);
    let plan = read_json(&folder.path().join("kept/plan.json"));
    assert_eq!(plan["data"]["shape"], serde_json::json!([6]), "all coordinates");
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
fn unusable_files_are_refused_with_the_place() {
    let folder = folder();
    let good = "1,2\n3,4\n";
    let put = |text: &str| {
        ["a.csv", "b.csv", "c.csv"]
            .into_iter()
            .for_each(|name| input(folder.path(), name, good));
        input(folder.path(), "d.csv", text);
    };
    for (text, about) in [
        ("1,2\n3,word\n", "row 2 (line 2), column 2 is not a number"),
        ("1,2\n3\n", "ragged: row 2"),
        ("x,y\n", "no rows"),
        ("", "empty"),
        ("1,2,3\n4,5,6\n", "shape [2, 3]"),
    ] {
        put(text);
        let refusal = local(folder.path(), "").refused(7, about);
        assert!(
            refusal["error"]["message"]
                .as_str()
                .is_some_and(|m| m.contains("d.csv") || m.contains("d is")),
            "{refusal}"
        );
    }
    put("1,2,3\n");
    local(folder.path(), "[data]\nunit = \"record\"").refused(7, "of shape [3]");
    put("x,y\n1,2\n");
    input(folder.path(), "c.csv", "y,x\n1,2\n");
    local(folder.path(), "[data]\nunit = \"record\"").refused(7, "column 1");
    assert!(
        !folder.path().join("kept/plan.json").exists(),
        "found before anything is made"
    );
}

#[test]
fn settings_that_make_no_sense_are_one_sentence() {
    let folder = folder();
    for (run, field, about) in [
        (
            "[data]\nclip = { kind = \"box\", low = 2, high = 1 }",
            "data.clip",
            "low = 2 not below high = 1",
        ),
        (
            "[data]\nclip = { kind = \"box\", low = [0, 0, 5, 0], high = 1 }",
            "data.clip",
            "coordinate 2",
        ),
        ("[mechanism]\nfanout = 4", "mechanism.fanout", "from 1 to 3"),
        (
            "[mechanism]\nfanout = 2\n[topology]\nprivate = \"ring\"",
            "mechanism.fanout",
            "only 2 private neighbours",
        ),
        ("[mechanism]\nrounds = 0", "mechanism.rounds", "is 0"),
        (
            "[mechanism]\ninjection = { c = [\"1/2\", \"1/4\"], z = [[\"1\"], [\"-1\"]] }",
            "mechanism.injection",
            "Definition 3.4, condition i",
        ),
        (
            "[mechanism]\ninjection = { c = [\"1/2\", \"1/2\"], z = [[\"1\"], [\"1\"]] }",
            "mechanism.injection",
            "would not cancel",
        ),
        (
            "[privacy]\nepsilon = 1e-200\ndelta = 1e-200",
            "mechanism.independent_std",
            "beyond any number",
        ),
    ] {
        fs::write(folder.path().join("run.toml"), run).expect("writable");
        let refusal = run_in(
            folder.path(),
            [
                "local",
                "--json",
                "--nodes",
                "5",
                "--dimension",
                "4",
                "--run",
                "run.toml",
            ],
        )
        .refused_at(2, field);
        assert!(
            refusal["error"]["message"]
                .as_str()
                .is_some_and(|m| m.contains(about) && !m.contains('\n')),
            "{refusal}"
        );
    }
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
    // The widest column makes the sum: χ² with about 200 degrees, 5 standard deviations of it are a chance below 1e-6.
    let ratio = (number(&object, "rms_error") / number(&object, "standard_error")).powi(2);
    assert!(
        (ratio - 1.0).abs() < 0.5,
        "the error's variance is {ratio} times the accounted one"
    );
}

#[test]
fn join_wants_as_many_records_as_the_plan_has() {
    let parties = Parties::new(3);
    let list = parties.peer_list();
    let counted: String = list
        .split_inclusive('\n')
        .map(|line| {
            if line.starts_with("public") {
                format!("{line}records = 5\n")
            } else {
                line.into()
            }
        })
        .collect();
    parties.write("peers.toml", &counted);
    let run = format!("version = 1\nname = \"rows\"\n[data]\nshape = [2]\nunit = \"record\"\n{LOUD}");
    parties.plan("plan", &run);
    let join = |file: &str| {
        let arguments = [
            "join",
            "plan.json",
            "--identity",
            "alice.key",
            "--input",
            file,
            "--output",
            "mean.csv",
            "--json",
        ];
        parties.run(arguments)
    };
    parties.write("four.csv", "1,0\n0,1\n1,1\n0,0\n");
    let refusal = join("four.csv").refused_at(7, "--input");
    let message = refusal["error"]["message"].as_str().expect("a sentence");
    assert!(
        message.contains("4 records") && message.contains("has 5"),
        "{message}"
    );
    parties.write("wide.csv", &"1,0,1\n".repeat(5));
    join("wide.csv").refused(7, "[3]");
    parties.write("one.json", "3.5");
    join("one.json").refused_at(7, "--input");
    // Without counts in the peer list there is no such plan, nor one with counts and another unit.
    parties.write("peers.toml", &list);
    parties.write("run.toml", &run);
    parties
        .run([
            "plan",
            "run.toml",
            "--peers",
            "peers.toml",
            "--out",
            "no.json",
            "--json",
        ])
        .refused(2, "records");
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
    // (mean − true)/error is about standard normal but for clipping: the sum of 12 squares exceeds 50 by a chance of 1.4e-6.
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

/// Names of columns are part of the plan: whoever brings them in another order is told before anything is sent.
#[test]
fn columns_in_another_order_are_refused() {
    let parties = Parties::new(4);
    let run = "version = 1\nname = \"c\"\n[data]\nshape = [3]\ncolumns = [\"age\", \"height\", \"weight\"]\n[mechanism]\nrounds = 3\n";
    parties.plan("run", run);
    assert_eq!(
        read_json(&parties.path("run.json"))["data"]["columns"],
        serde_json::json!(["age", "height", "weight"])
    );
    let join = |table: &str| {
        parties.write("alice.csv", table);
        parties.run([
            "join",
            "run.json",
            "--identity",
            "alice.key",
            "--input",
            "alice.csv",
            "--output",
            "mean.csv",
            "--json",
        ])
    };
    let refusal = join("age,weight,height\n0.1,0.2,0.3\n").refused(7, "column 2");
    assert!(
        refusal["error"]["message"]
            .as_str()
            .is_some_and(|m| m.contains("\"weight\"") && m.contains("\"height\"")),
        "{refusal}"
    );
    for (lines, about) in [
        ("columns = [\"age\"]", "1 names for 3"),
        ("columns = [\"a\", \"b\", \"a\"]", "column 3"),
    ] {
        parties.write(
            "wrong.toml",
            &format!("version = 1\nname = \"c\"\n[data]\nshape = [3]\n{lines}\n"),
        );
        parties
            .run([
                "plan",
                "wrong.toml",
                "--peers",
                "peers.toml",
                "--out",
                "p.json",
                "--json",
            ])
            .refused(2, about);
    }
    // `local` takes the names from the files, and holds them against the run file's.
    let folder = folder();
    for name in ["a.csv", "b.csv", "c.csv"] {
        input(folder.path(), name, "x,y\n0.1,0.2\n");
    }
    assert_eq!(local(folder.path(), "").code, 0);
    let plan = read_json(&folder.path().join("kept").join("plan.json"));
    assert_eq!(plan["data"]["columns"], serde_json::json!(["x", "y"]));
    local(folder.path(), "[data]\ncolumns = [\"y\", \"x\"]").refused(7, "column 1");
}
