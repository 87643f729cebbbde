//! Records, weights and columns that do not fit are refused with their place.

use std::fs;

use undertone_tests::inputs::{LOUD, folder, input, local};
use undertone_tests::{Parties, read_json, run_in};

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
fn join_wants_as_many_records_as_the_plan_has() {
    let parties = Parties::new(3);
    let run = format!(
        "version = 1\nname = \"rows\"\n[data]\nnoise_ok = true\nshape = [2]\nunit = \"record\"\n\
         records = 5\nclip = {{ kind = \"l2\", radius = 1.0 }}\n{LOUD}"
    );
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
            "--max-delta",
            "0.01",
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
    // Without numbers there is no such plan; with a bound a table may be shorter, and no longer.
    parties.write("run.toml", &run.replace("records = 5\n", ""));
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
        .refused_at(2, "data.records");
    parties.plan("plan", &run.replace("records = 5", "records = { at_most = 3 }"));
    let refusal = join("four.csv").refused_at(7, "--input");
    let message = refusal["error"]["message"].as_str().expect("a sentence");
    assert!(message.contains("at most 3 of alice"), "{message}");
}

/// Names of columns are part of the plan: whoever contributes them in another order is told before
/// anything is sent.
#[test]
fn columns_in_another_order_are_refused() {
    let parties = Parties::new(4);
    let run = "version = 1\nname = \"c\"\n[data]\nnoise_ok = true\nshape = [3]\ncolumns = [\"age\", \"height\", \"weight\"]\n[mechanism]\nrounds = 3\n";
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
            .is_some_and(|m| m.contains("\"height\"") && !m.contains("weight")),
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
