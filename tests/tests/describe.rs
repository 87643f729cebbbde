//! Statistics of tables through the commands: Table 1 of the example's hospitals, files, refusals,
//! and what the frames and bytes of two data sets say.

use std::fs;
use std::path::Path;

use serde_json::Value;
use undertone_tests::daemon::Daemon;
use undertone_tests::{Ended, Parties, alone, read_json, run_in};

const LOCAL: [&str; 8] = [
    "local", "--json", "--inputs", "tables", "--run", "run.toml", "--output", "kept",
];

/// A folder with tables of these texts.
fn tables(texts: &[(&str, &str)], run: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("tables")).expect("made");
    for (name, text) in texts {
        fs::write(folder.path().join("tables").join(name), text).expect("written");
    }
    let run = format!("task = \"describe\"\nname = \"t\"\n{run}");
    fs::write(folder.path().join("run.toml"), run).expect("written");
    folder
}

fn local(folder: &Path) -> Ended {
    let _alone = alone();
    run_in(folder, LOCAL)
}

const RUN: &str = "[describe]\ngroup_by = \"arm\"\n\
                   [[describe.column]]\nname = \"arm\"\ncategories = [\"old\", \"new\"]\n\
                   [[describe.column]]\nname = \"age\"\nlow = 0\nhigh = 100\nwant = [\"mean\", \"quantiles\"]\nbins = 20\n\
                   [[describe.column]]\nname = \"died\"\ncategories = [0, 1]\n\
                   [[describe.table]]\ncolumns = [\"arm\", \"died\"]\n";

/// A made-up table, some of whose cells are missing or say something else.
fn table(rows: usize, odd: &str) -> String {
    let mut text = "left,arm,age,died\n".to_owned();
    for row in 0..rows {
        let age = if row == 3 {
            odd.to_owned()
        } else {
            (20 + row * 7 % 60).to_string()
        };
        let arm = ["old", "new"][row / 2 % 2];
        text += &format!("x,{arm},{age},{}\n", row % 2);
    }
    text
}

/// The example's Table 1: all nodes hold the same sums to the bit, most intervals hold the true
/// figure, and the receipt states these sums.
#[test]
fn table_1_of_the_example_is_what_its_rows_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |line: &str| run_in(folder.path(), line.split(' '));
    assert_eq!(run("example hospitals").code, 0);
    let object = {
        let _alone = alone();
        run("local --json --inputs hospitals/trial --run hospitals/table-1.toml --output demo").json_of(0)
    };
    assert_eq!(
        (object["same_bits"].as_bool(), object["records"].as_u64()),
        (Some(true), Some(4000))
    );
    let count = |key: &str| object["statistics"][key].as_f64().expect(key);
    assert!(count("intervals") > 60.0, "{}", object["statistics"]["intervals"]);
    assert!(
        count("intervals_held") > 0.85 * count("intervals"),
        "{}",
        object["statistics"]["intervals_held"]
    );
    let figures = |city: &str| read_json(&folder.path().join("demo").join(city).join("figures.json"));
    assert_eq!(figures("aarhus")["sums"], figures("delft")["sums"]);
    let receipt = read_json(&folder.path().join("demo/aarhus/receipt.json"));
    assert_eq!(receipt["describe"]["rows"], 4000.0);
    assert!(
        receipt["epsilon"].as_f64().is_some_and(|epsilon| epsilon <= 1.0),
        "{}",
        receipt["epsilon"]
    );
    let checked = run(
        "receipt demo/aarhus/receipt.json --plan demo/plan.json --figures demo/delft/figures.json --json",
    );
    assert_eq!(checked.json_of(0)["figures_checked"], true);
    let mut forged = figures("aarhus");
    forged["sums"][3] = 17.5.into();
    fs::write(folder.path().join("forged.json"), forged.to_string()).expect("written");
    run("receipt demo/aarhus/receipt.json --figures forged.json --json").refused(3, "other sums");
    let table = run("figures demo/aarhus/figures.json --difference arm=old,new");
    for words in ["by arm", "median", "S(", "old less new", "intervals 95 %"] {
        assert!(table.stdout.contains(words), "{words}\n{}", table.stdout);
    }
    run("figures demo/aarhus/figures.json --plot demo/figures.svg --json").json_of(0);
    let svg = fs::read_to_string(folder.path().join("demo/figures.svg")).expect("drawn");
    assert!(
        svg.starts_with("<svg") && svg.contains("months") && svg.contains("<polygon"),
        "{svg}"
    );
    let csv = run("figures demo/aarhus/figures.json --csv").stdout;
    assert!(csv.starts_with("group,column,statistic,value"), "{csv}");
    run("figures demo/aarhus/figures.json --quantile months=0.9 --json").refused(2, "has no quantiles");
}

/// Table 1 without groups: nine numbers, with quartiles or without, and three flags.
fn ungrouped(wants: &str) -> String {
    let numbers = [
        ("age (years)", 18.0, 100.0),
        ("systolic pressure (mmHg)", 80.0, 220.0),
        ("diastolic pressure (mmHg)", 40.0, 130.0),
        ("heart rate (1/min)", 40.0, 160.0),
        ("body mass index (kg/m2)", 14.0, 54.0),
        ("cholesterol (mg/dl)", 80.0, 360.0),
        ("platelets (1e9/l)", 40.0, 500.0),
        ("haemoglobin (g/dl)", 6.0, 20.0),
        ("creatinine (mg/dl)", 0.2, 5.2),
    ];
    let number = |(name, low, high): &(&str, f64, f64)| {
        format!("[[describe.column]]\nname = \"{name}\"\nlow = {low}\nhigh = {high}\nwant = [{wants}]\n")
    };
    let flag = |name: &str| format!("[[describe.column]]\nname = \"{name}\"\ncategories = [0, 1]\n");
    format!(
        "version = 1\ntask = \"describe\"\nname = \"t\"\n[data]\nrecords = 1000\n{}{}\
         [privacy]\nepsilon = 1.0\ndelta = 1e-6\ncolluding = 1\ndropouts = 1\n",
        numbers.iter().map(number).collect::<String>(),
        ["diabetic", "smoker", "readmitted"].map(flag).concat(),
    )
}

/// Errors of the example's 4,000 patients at ε = 1, of noise of four parties: the design's table.
#[test]
fn errors_of_the_examples_statistics_are_those_of_the_design() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(run_in(folder.path(), ["example", "hospitals"]).code, 0);
    let simulated = |wants: &str, runs: &str| {
        fs::write(folder.path().join("run.toml"), ungrouped(wants)).expect("written");
        let line = [
            "simulate",
            "run.toml",
            "--inputs",
            "hospitals/trial",
            "--runs",
            runs,
            "--json",
        ];
        let object = {
            let _alone = alone();
            run_in(folder.path(), line).json_of(0)
        };
        move |column: &str, statistic: &str, key: &str| {
            let all = object["statistics"].as_array().expect("a list");
            let found = all
                .iter()
                .find(|of| of["column"] == column && of["statistic"] == statistic);
            found.unwrap_or_else(|| panic!("{column} {statistic}"))[key]
                .as_f64()
                .expect("a number")
        }
    };
    let near = |found: f64, expected: f64, part: f64| {
        assert!((found / expected - 1.0).abs() <= part, "{found}, not {expected}");
    };
    const AGE: &str = "age (years)";
    let table_1 = simulated("\"mean\"", "10");
    near(table_1(AGE, "mean", "noise"), 0.42, 0.05);
    near(table_1(AGE, "sd", "noise"), 0.48, 0.05);
    near(table_1(AGE, "missing", "noise"), 36.0, 0.05);
    near(table_1("diabetic", "share 1", "noise"), 0.006, 0.08);
    // Of quantiles there is no one number for an error: the root of the mean square of 100.
    let with_quartiles = simulated("\"mean\", \"quantiles\"", "100");
    near(with_quartiles(AGE, "mean", "noise"), 0.55, 0.06);
    near(with_quartiles(AGE, "median", "error"), 0.67, 0.25);
    for quartile in ["25 %", "75 %"] {
        near(with_quartiles(AGE, quartile, "error"), 0.9, 0.25);
        near(
            with_quartiles("creatinine (mg/dl)", quartile, "error"),
            0.012,
            0.3,
        );
    }
}

/// A word, an infinite number, a category that nobody declared: never an error, and the same bytes
/// on the wire.
#[test]
fn odd_cells_end_no_run_and_change_no_byte_count() {
    let bytes: Vec<u64> = ["61", "NA", "x?", "1e400", ""]
        .into_iter()
        .map(|odd| {
            let usual = table(400, "50");
            let odd = table(400, odd);
            let files = [
                ("a.csv", odd.as_str()),
                ("b.csv", &usual),
                ("c.csv", &usual),
                ("d.csv", &usual),
            ];
            let folder = tables(&files, &format!("[data]\nnoise_ok = true\n{RUN}"));
            let object = local(folder.path()).json_of(0);
            object["private_bytes"].as_u64().expect("bytes")
        })
        .collect();
    assert!(bytes.iter().all(|each| *each == bytes[0]), "{bytes:?}");
}

/// A JSON list of objects and a table are the same data.
#[test]
fn tables_and_objects_go_together_and_counts_may_be_private() {
    let rows: Vec<Value> = (0..300)
        .map(|row| serde_json::json!({ "age": 20 + row % 60, "arm": "old", "died": row % 2 == 0 }))
        .collect();
    let json = serde_json::to_string(&rows).expect("written");
    let csv = table(250, "50");
    let files = [
        ("a.json", json.as_str()),
        ("b.csv", &csv),
        ("c.csv", &csv),
        ("d.csv", &csv),
    ];
    let folder = tables(
        &files,
        &format!(
            "[data]\nnoise_ok = true\nrecords = 400\n{}",
            RUN.replace("[describe]\n", "[describe]\ncount = \"private\"\n")
        ),
    );
    let object = local(folder.path()).json_of(0);
    let file = read_json(&folder.path().join("kept/a/figures.json"));
    assert_eq!(file["rows"], Value::Null, "nobody says");
    let plan = read_json(&folder.path().join("kept/plan.json"));
    assert_eq!(plan["data"]["records"], 400, "a capacity");
    let receipt = read_json(&folder.path().join("kept/a/receipt.json"));
    assert_eq!(
        (&receipt["describe"]["rows"], &receipt["records"]),
        (&Value::Null, &Value::Null)
    );
    let rows: f64 = object["statistics"]["figures"]["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .map(|group| group["rows"]["raw"].as_f64().expect("rows"))
        .sum();
    let noise = object["statistics"]["figures"]["groups"][0]["rows"]["noise"]
        .as_f64()
        .expect("noise");
    assert!((rows - 1050.0).abs() < 6.0 * 2.0 * noise, "{rows} ± {noise}");
}

#[test]
fn tables_that_are_none_and_noise_that_leaves_nothing_are_refused() {
    let refused = |text: &str, run: &str, code: i32, words: &str| {
        let usual = table(60, "50");
        let folder = tables(
            &[
                ("a.csv", text),
                ("b.csv", &usual),
                ("c.csv", &usual),
                ("d.csv", &usual),
            ],
            run,
        );
        local(folder.path()).refused(code, words);
    };
    let fine = format!("[data]\nnoise_ok = true\n{RUN}");
    refused("arm,age\nold,50\n", &fine, 7, "no column is called \\\"died\\\"");
    refused("arm,age,died\nold,50\n", &fine, 7, "ragged");
    refused("arm,age,died\nold,\"50,5\",1\n", &fine, 7, "decimal comma");
    refused("arm,age,died\nold,many,1\nnew,few,0\n", &fine, 7, "no numbers");
    refused(
        &table(60, "50"),
        &format!("[privacy]\nepsilon = 0.02\n{RUN}"),
        2,
        "noise_ok",
    );
    refused(
        &table(60, "50"),
        "[[describe.column]]\nname = \"age\"\nlow = 5\nhigh = 1\n",
        2,
        "describe.column.0.low",
    );
    // Means of numbers alone refuse missing cells, and say what counts them.
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("tables")).expect("made");
    for name in ["a.csv", "b.csv", "c.csv"] {
        fs::write(folder.path().join("tables").join(name), "x,y\n1,NA\n").expect("written");
    }
    let run = "name = \"t\"\n[data]\nunit = \"record\"\nclip = { kind = \"l2\", radius = 1.0 }\n";
    fs::write(folder.path().join("run.toml"), run).expect("written");
    local(folder.path()).refused(7, "task = \\\"describe\\\"");
}

/// By hand: plan, join, and the figures as `.csv`, too.
#[test]
fn members_join_with_tables_and_hold_the_same_sums() {
    let parties = Parties::new(4);
    for (party, name) in parties.names().iter().enumerate() {
        parties.write(&format!("{name}.csv"), &table(300 + party, "NA"));
    }
    parties.write(
        "run.toml",
        &format!(
            "task = \"describe\"\nname = \"t\"\n[data]\nnoise_ok = true\nrecords = {{ at_most = 400 }}\n{RUN}"
        ),
    );
    let planned = parties.run(["plan", "run.toml", "--peers", "peers.toml", "--out", "plan.json"]);
    assert_eq!(planned.code, 0, "{}", planned.stderr);
    assert!(
        planned.stdout.contains("4 statistics") || planned.stdout.contains("statistics of a table"),
        "{}",
        planned.stdout
    );
    let verified = parties.run(["verify", "plan.json", "--json"]).json_of(0);
    assert_eq!(verified["name"], "t");
    let _alone = alone();
    let running: Vec<_> = parties
        .names()
        .iter()
        .enumerate()
        .map(|(party, name)| {
            let output = if party == 3 { "csv" } else { "json" };
            let arguments = [
                "join".to_owned(),
                "plan.json".to_owned(),
                "--json".to_owned(),
                "--identity".to_owned(),
                format!("{name}.key"),
                "--input".to_owned(),
                format!("{name}.csv"),
                "--output".to_owned(),
                format!("{name}-figures.{output}"),
                "--receipt".to_owned(),
                format!("{name}-receipt.json"),
            ];
            undertone_tests::start_in(parties.folder(), arguments)
        })
        .collect();
    for running in running {
        running.wait().json_of(0);
    }
    let file = |name: &str| read_json(&parties.path(&format!("{name}-figures.json")));
    let names = parties.names();
    assert_eq!(file(&names[0])["sums"], file(&names[2])["sums"]);
    assert_eq!(file(&names[0])["rows"], 1206.0, "START fixed the numbers");
    let csv = fs::read_to_string(parties.path(&format!("{}-figures.csv", names[3]))).expect("written");
    assert!(csv.contains("\nold,age,mean,"), "{csv}");
}

/// Daemons take tables as uploads, charge the data set, and answer figures as JSON and as CSV.
#[test]
fn daemons_answer_figures_in_both_formats_and_charge_the_data_set() {
    let _alone = alone();
    let parties = Parties::new(4);
    let ward = "[[data_set]]\nname = \"ward\"\nunit = \"record\"\nepsilon = 3.0\ndelta = 1e-5\n";
    let daemons: Vec<Daemon> = (0..4).map(|party| Daemon::start(&parties, party, ward)).collect();
    let run = format!(
        "task = \"describe\"\nversion = 1\nname = \"t\"\n[data]\nnoise_ok = true\nrecords = 300\n{RUN}[run]\njoin_ms = 60000\n"
    );
    let digest = parties.plan("table", &run);
    let plan = fs::read(parties.path("table.json")).expect("a plan");
    for (party, daemon) in daemons.iter().enumerate() {
        let odd = ["NA", "x?", "", "61"][party];
        let text = table(300, odd);
        let taken = daemon.submit(&plan, "data_set=ward", Some(("text/csv", text.as_bytes())));
        assert_eq!(taken.json_of(201)["data_set"], "ward");
    }
    check_that_owners_alone_are_told(&daemons, &digest);
    let result = |daemon: &Daemon, kind: &str| {
        let path = format!("/v1/runs/{digest}/result");
        daemon.http.ask("GET", &path, &[("Accept", kind)], b"")
    };
    let mut sums = vec![];
    for daemon in &daemons {
        daemon
            .http
            .events(&format!("/v1/runs/{digest}/events"), &[], |_| false);
        let run = daemon.http.get(&format!("/v1/runs/{digest}")).json_of(200);
        assert_eq!(run["outcome"], "done", "{run}");
        assert!(run["charged"].as_f64() > Some(0.0), "{run}");
        let figures = result(daemon, "application/json").json_of(200);
        sums.push(figures["sums"].clone());
        assert_eq!(figures["digest"], digest.as_str());
        let csv = result(daemon, "text/csv");
        assert_eq!((csv.status, csv.media_type()), (200, "text/csv"));
        assert!(csv.text().contains("\nold,age,mean,"), "{}", csv.text());
        result(daemon, "application/x-npy").refused(406, "application/json");
        let utility = daemon
            .http
            .get(&format!("/v1/runs/{digest}/utility"))
            .json_of(200);
        assert!(
            utility["statistics"]
                .as_array()
                .is_some_and(|each| each.len() == 4),
            "{utility}"
        );
    }
    assert!(sums.iter().all(|each| *each == sums[0]), "the same at all nodes");
    let ragged = daemons[0].submit(
        &plan,
        "data_set=ward",
        Some(("text/csv", b"arm,age,died\nold,50\n")),
    );
    assert!(ragged.status >= 400, "{}", ragged.text());
    for daemon in daemons {
        let (ended, _) = daemon.end();
        assert!(!ended.stderr.contains("of 300 cells"), "{}", ended.stderr);
    }
}

/// Each owner learns of its own table, with the owner's token; nothing else that a daemon answers
/// or logs has a word of it.
fn check_that_owners_alone_are_told(daemons: &[Daemon], digest: &str) {
    let told = [
        "age: of 300 cells 1 missing",
        "age: of 300 cells 1 no number",
        "age: of 300 cells 1 missing",
    ];
    for (party, daemon) in daemons.iter().enumerate() {
        let own = daemon.http.get(&format!("/v1/runs/{digest}/table")).json_of(200);
        let sentences = own["sentences"].to_string();
        match told.get(party) {
            Some(said) => assert!(sentences.contains(said), "{sentences}"),
            None => assert!(!sentences.contains("age"), "{sentences}"),
        }
        for path in [
            "/v1/status",
            "/v1/runs",
            "/v1/offers",
            &format!("/v1/runs/{digest}"),
        ] {
            let text = daemon.http.get(path).text();
            assert!(!text.contains("of 300 cells"), "{path}: {text}");
        }
        let unknown = format!("/v1/runs/{}/table", "0".repeat(64));
        assert_eq!(daemon.http.get(&unknown).status, 404);
    }
}

/// A run file is proposed to daemons and accepted with a table each: their figures are those of
/// `local` for the same tables, up to the noise of either.
#[test]
fn daemons_that_accept_a_proposed_table_have_the_figures_of_local() {
    let _alone = alone();
    let parties = Parties::new(4);
    let ward = "[[data_set]]\nname = \"ward\"\nunit = \"record\"\nepsilon = 20.0\ndelta = 1e-5\n";
    let daemons: Vec<Daemon> = (0..4).map(|party| Daemon::start(&parties, party, ward)).collect();
    // The largest budget that a plan may have, for the least noise.
    let run = format!(
        "version = 1\ntask = \"describe\"\nname = \"t\"\n[data]\nrecords = 300\n[privacy]\nepsilon = 10.0\n\
         delta = 1e-6\n{RUN}[run]\njoin_ms = 60000\n"
    );
    parties.write("run.toml", &run);
    fs::create_dir(parties.path("tables")).expect("made");
    for (party, name) in parties.names().iter().enumerate() {
        let text = table(300, ["NA", "x?", "", "61"][party]);
        parties.write(&format!("{name}.csv"), &text);
        parties.write(&format!("tables/{name}.csv"), &text);
    }
    let proposed = daemons[0].client(["submit", "--propose", "run.toml", "--input", "alice.csv"]);
    let digest = proposed.json_of(0)["digest"]
        .as_str()
        .expect("a digest")
        .to_owned();
    for daemon in &daemons[1..] {
        let table = format!("{}.csv", daemon.name);
        let accepted = daemon.client(["accept", &digest, "--input", &table]).json_of(0);
        assert_eq!(accepted["digest"], digest.as_str());
    }
    let files: Vec<Value> = daemons
        .iter()
        .map(|daemon| {
            let watched = daemon.client(["watch", &digest]).json_of(0);
            assert_eq!(watched["outcome"], "done", "{watched}");
            let name = format!("{}-figures.json", daemon.name);
            daemon.client(["result", &digest, "--output", &name]).json_of(0);
            read_json(&parties.path(&name))
        })
        .collect();
    assert!(files.iter().all(|file| file["sums"] == files[0]["sums"]));
    assert_eq!(files[0]["rows"], 1200.0);
    let shown = parties.run(["figures", "bob-figures.json"]);
    assert!(shown.stdout.contains("by arm"), "{}", shown.stdout);

    parties.run(LOCAL).json_of(0);
    let of_local = read_json(&parties.path("kept/alice/figures.json"));
    for key in ["describe", "rows", "included"] {
        assert_eq!(of_local[key], files[0][key], "{key}");
    }
    let numbers = |file: &Value, key: &str| -> Vec<f64> {
        let list = file[key].as_array().expect("a list").iter();
        list.map(|number| number.as_f64().expect("a number")).collect()
    };
    let noise = files[0]["noise"].as_f64().expect("a number");
    assert!(noise < 5.0, "{noise}");
    let pairs = numbers(&of_local, "sums")
        .into_iter()
        .zip(numbers(&files[0], "sums"));
    for (at, (one, other)) in pairs.enumerate() {
        // Of some 200 coordinates, each the difference of two with this noise.
        assert!(
            (one - other).abs() < 7.0 * noise * 2f64.sqrt(),
            "{at}: {one}, {other}"
        );
    }
    for daemon in daemons {
        assert_eq!(daemon.end().0.code, 0);
    }
}
