//! Tables and plans of statistics that are refused: with which exit code, which field, and which
//! repair.

use std::fs;

use serde_json::{Value, json};
use undertone_tests::daemon::Daemon;
use undertone_tests::{Ended, Parties, alone, run_on_terminal};

const COLUMNS: &str = "[[describe.column]]\nname = \"age\"\nlow = 0\nhigh = 100\n\
                       [[describe.column]]\nname = \"months\"\nlow = 0\nhigh = 60\nwant = [\"survival\"]\nevent = \"died\"\n";

/// The run file of a table with these lines of `[data]` and of `[describe]`.
fn run_file(data: &str, describe: &str) -> String {
    format!(
        "version = 1\ntask = \"describe\"\nname = \"t\"\n[data]\nnoise_ok = true\n{data}\n[describe]\n{describe}\n\
         {COLUMNS}[run]\njoin_ms = 1000\n"
    )
}

/// A table of so many rows, whose ages are this cell.
fn table(rows: usize, age: &str) -> String {
    "age,months,died\n".to_owned() + &format!("{age},12.5,1\n").repeat(rows)
}

/// Joins with a table of alice's. Nobody else is there: a table that is not refused waits in
/// vain.
fn join(parties: &Parties, plan: &str, text: &str, more: &[&str]) -> Ended {
    parties.write("alice.csv", text);
    let plan = format!("{plan}.json");
    let mut arguments = vec![
        "join",
        &plan,
        "--json",
        "--identity",
        "alice.key",
        "--input",
        "alice.csv",
    ];
    arguments.extend(["--output", "figures.json"]);
    arguments.extend(more);
    undertone_tests::run_in(parties.folder(), arguments)
}

#[test]
fn tables_of_other_columns_or_of_other_numbers_of_rows_are_refused_before_ready() {
    let _alone = alone();
    let parties = Parties::new(4);
    parties.plan("exact", &run_file("records = 50", ""));
    parties.plan("bounded", &run_file("records = { at_most = 50 }", ""));
    parties.plan("private", &run_file("records = 50", "count = \"private\""));
    let refused = |plan: &str, text: &str, words: &str, repair: &str| {
        let object = join(&parties, plan, text, &[]).refused(7, words);
        let hint = object["error"]["hint"].as_str().unwrap_or_default();
        assert!(hint.contains(repair), "{object}");
        assert_eq!(object["error"]["field"], "--input", "{object}");
    };
    let without_events = "age,months\n61,12.5\n".to_owned();
    refused(
        "exact",
        &without_events,
        "no column is called \\\"died\\\"",
        "describe.column.name",
    );
    for rows in [49, 51] {
        let words = format!("{rows} records, the plan has 50 of alice");
        refused("exact", &table(rows, "61"), &words, "data.records");
    }
    refused("bounded", &table(51, "61"), "at most 50", "data.records.at_most");
    refused("private", &table(51, "61"), "room for", "larger data.records");
    let words = "most cells of column \\\"age\\\" are no numbers";
    refused("exact", &table(50, "many"), words, "--anyway");
    // Fewer rows than the capacity, and words that are meant: not refused, so nobody is there.
    for (plan, text, more) in [
        ("private", table(3, "61"), &[][..]),
        ("exact", table(50, "many"), &["--anyway"][..]),
    ] {
        let ended = join(&parties, plan, &text, more);
        assert!(![0, 2, 7].contains(&ended.code), "{}", ended.stdout);
    }
}

/// A daemon has no flag to take words for missing numbers: it says what to do instead. Empty cells
/// it takes.
#[test]
fn a_daemon_refuses_words_for_numbers_and_says_to_leave_the_cells_empty() {
    let _alone = alone();
    let parties = Parties::new(4);
    parties.plan("plan", &run_file("records = 50", ""));
    let ward = "[[data_set]]\nname = \"ward\"\nunit = \"record\"\nepsilon = 3.0\ndelta = 1e-5\n";
    let daemon = Daemon::start(&parties, 0, ward);
    parties.write("ward.csv", &table(50, "many"));
    let submit = ["submit", "plan.json", "--data-set", "ward", "--input", "ward.csv"];
    let ended = daemon.client(submit);
    let object = ended.refused(7, "most cells of column \\\"age\\\" are no numbers");
    let hint = object["error"]["hint"].as_str().unwrap_or_default();
    assert!(
        hint.contains("leave them empty") && !hint.contains("--anyway"),
        "{object}"
    );
    parties.write("ward.csv", &table(50, ""));
    // At a terminal the owner learns of them, and nowhere else.
    let at_terminal = submit.into_iter().chain(["--config", "alice.node.toml"]);
    let shown = run_on_terminal(parties.folder(), at_terminal);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    for words in ["only this terminal shows it", "age: of 50 cells 50 missing"] {
        assert!(shown.stderr.contains(words), "{}", shown.stderr);
    }
    assert!(!shown.stdout.contains("of 50 cells"), "{}", shown.stdout);
    assert_eq!(daemon.end().0.code, 0);
}

/// Plans that are too large or forged end with exit 3, and name what is at fault.
#[test]
fn plans_of_too_many_coordinates_or_with_another_layout_are_refused() {
    let parties = Parties::new(4);
    let categories: Vec<String> = (0..98).map(|k| k.to_string()).collect();
    let wide: String = (0..5)
        .map(|at| {
            format!(
                "[[describe.column]]\nname = \"c{at}\"\ncategories = [{}]\nwant = []\n",
                categories.join(", ")
            )
        })
        .collect();
    let table = "[[describe.table]]\ncolumns = [\"c0\", \"c1\", \"c2\", \"c3\", \"c4\"]\n";
    parties.write("wide.toml", &(run_file("records = 50", "") + &wide + table));
    let plan = [
        "plan",
        "wide.toml",
        "--peers",
        "peers.toml",
        "--out",
        "wide.json",
        "--json",
    ];
    let object = parties.run(plan).refused(3, "10000000");
    assert!(object.to_string().contains("for the table of"), "{object}");

    parties.plan("fine", &run_file("records = 50", "count = \"private\""));
    let text = fs::read_to_string(parties.path("fine.json")).expect("a plan");
    let fine: Value = serde_json::from_str(&text).expect("JSON");
    for (pointer, forged) in [
        ("/computation/layout/kappa", json!(0.1)),
        ("/computation/layout/blocks/0/scale", json!(0.5)),
        ("/computation/layout/replace_one", json!(1.0)),
        ("/data/clip/replace_one", json!(1.0)),
    ] {
        let mut plan = fine.clone();
        *plan.pointer_mut(pointer).expect(pointer) = forged;
        parties.write("forged.json", &plan.to_string());
        parties.run(["verify", "forged.json", "--json"]).refused(3, "");
    }
}
