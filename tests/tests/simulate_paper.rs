//! `undertone simulate --paper`: the paper's numbers, ours and the ratio.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;
use undertone_tests::{assert_close, run_in};

/// All figures and tables, computed once: the answer, and the folder that they were written into.
static ALL: LazyLock<(Value, PathBuf)> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("papers");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let line = "simulate --paper all --runs 2 --out . --json";
    (run_in(&folder, line.split(' ')).json_of(0), folder)
});

fn one_of_all(name: &str) -> Value {
    let papers = ALL.0["papers"].as_array().expect("papers");
    let paper = papers.iter().find(|paper| paper["paper"] == name);
    paper.expect(name).clone()
}

fn table(name: &str) -> Value {
    let answer = one_of_all(name);
    for row in answer["rows"].as_array().expect("rows") {
        for key in ["theorem", "least"] {
            let (paper, ours) = (
                row[key]["paper"].as_f64().expect("a number"),
                row[key]["ours"].as_f64().expect("a number"),
            );
            assert_close(&row[key]["ratio"], ours / paper, 1e-12, name);
        }
    }
    answer
}

fn column<'a>(table: &'a Value, key: &'a str, whose: &'a str) -> Vec<f64> {
    table["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row[key][whose].as_f64().expect("a number"))
        .collect()
}

/// Koskela and Kulkarni print no numbers of their figures: what they say of them holds, and what
/// they do not say.
#[test]
fn kk_pairs_come_to_one_over_n_for_equal_contributions() {
    let answer = one_of_all("kk-fig1");
    let rows = answer["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2 * 2 * 2 * 9);
    for row in rows {
        let number = |key: &str| row[key].as_f64().expect("a number");
        assert!(
            number("upper") >= number("even") && number("upper") <= 1.0,
            "{row}"
        );
        let evenly = row["graph"].as_str().expect("a name").starts_with("a)");
        if evenly && row["rounds"] == 200 {
            assert!((number("even") * 100.0 - 1.0).abs() < 0.1, "{row}");
        }
        if evenly && row["rounds"] == 200 && row["pair"] == "neighbour" && row["view"] == "sums" {
            assert!(
                number("upper") > 0.025,
                "the worst contributions are not equal: {row}"
            );
        }
    }
    for file in ["kk-fig1.csv", "kk-fig1.svg"] {
        let text = std::fs::read_to_string(ALL.1.join(file)).expect("written");
        assert!(text.contains("Erd"), "{file}");
    }
}

/// The first version's right half is of a graph that is given; on a small one of ours.
#[test]
fn kk_first_figure_1_takes_the_facebook_graph() {
    let folder = tempfile::tempdir().expect("a folder");
    // A ring with chords to the node that the paper looks at.
    let ring = (0..302).map(|node| format!("{} {}\n", node, (node + 1) % 302));
    let edges: String = ring.chain(["0 300\n80 300\n".to_owned()]).collect();
    std::fs::write(folder.path().join("facebook_combined.txt"), edges).expect("a file");
    let ask = |flags: &[&str]| {
        let all = ["simulate", "--paper"]
            .iter()
            .chain(flags)
            .map(|flag| (*flag).to_owned());
        run_in(folder.path(), all.collect::<Vec<_>>())
    };
    let left = ask(&["kk-first-fig1", "--json"]).json_of(0);
    assert_eq!(left["rows"].as_array().map(Vec::len), Some(18));
    assert!(left["notes"].to_string().contains("--data"), "{left}");
    let both = ask(&["kk-first-fig1", "--data", ".", "--json"]).json_of(0);
    let rows = both["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 18 + 4 * 9);
    let pairs: Vec<&Value> = rows[18..].iter().step_by(9).map(|row| &row["pair"]).collect();
    assert_eq!(pairs, ["neighbour", "neighbour", "not adjacent", "not adjacent"]);
    ask(&["kk-fig1", "--runs", "3", "--json"]).json_of(2);
    std::fs::write(folder.path().join("facebook_combined.txt"), "0 1\n").expect("a file");
    ask(&["kk-first-fig1", "--data", ".", "--json"]).json_of(7);
}

#[test]
fn ppsc_table_2() {
    let table = table("ppsc-table2");
    assert_eq!(
        column(&table, "theorem", "paper"),
        [8.0, 12.0, 15.0, 18.0, 21.0, 25.0]
    );
    assert_eq!(
        column(&table, "theorem", "ours"),
        [8.0, 12.0, 15.0, 18.0, 21.0, 24.0]
    );
    assert_eq!(
        column(&table, "least", "paper"),
        [5.0, 8.0, 11.0, 14.0, 17.0, 20.0]
    );
    assert_eq!(column(&table, "least", "ours"), column(&table, "least", "paper"));
    assert!(
        table["notes"].to_string().contains("0.99985"),
        "the erratum is said"
    );
}

#[test]
fn ppsc_table_3() {
    let table = table("ppsc-table3");
    assert_eq!(
        column(&table, "theorem", "paper"),
        [341.0, 371.0, 400.0, 282.0, 312.0, 341.0, 223.0, 253.0, 282.0]
    );
    assert_eq!(
        column(&table, "theorem", "ours"),
        column(&table, "theorem", "paper")
    );
    assert_eq!(
        column(&table, "least", "paper"),
        [226.0, 255.0, 285.0, 167.0, 197.0, 227.0, 123.0, 153.0, 183.0]
    );
    assert!(
        column(&table, "least", "ratio")
            .into_iter()
            .all(|ratio| (0.9..=1.01).contains(&ratio)),
        "{table}"
    );
    assert!(
        table["notes"].to_string().contains("0.874"),
        "the erratum is said"
    );
}

#[test]
fn ppsc_table_5() {
    let table = table("ppsc-table5");
    assert_eq!(
        column(&table, "theorem", "paper"),
        [552.0, 579.0, 605.0, 507.0, 533.0, 559.0, 461.0, 487.0, 513.0]
    );
    assert_eq!(
        column(&table, "theorem", "ours"),
        column(&table, "theorem", "paper")
    );
    assert_eq!(column(&table, "outer", "ours"), [207.0, 260.0, 313.0].repeat(3));
    let least = column(&table, "least", "paper");
    for (ours, paper) in column(&table, "least", "ours").into_iter().zip(least) {
        assert!((ours - paper).abs() <= 4.0, "{table}");
    }
    let notes = table["notes"].to_string();
    assert!(
        notes.contains("√n") && notes.contains("exact sum"),
        "errata are said"
    );
}

#[test]
fn ppsc_table_6() {
    let answer = one_of_all("ppsc-table6");
    for row in answer["rows"].as_array().expect("rows") {
        let ours = row["probability"]["ours"].as_f64().expect("a number");
        let exact = match row["outer"].as_u64() {
            Some(207) => (0.99795, 0.888),
            Some(260) => (0.99742, 0.861),
            _ => (0.99690, 0.835),
        };
        assert_close(&row["probability"]["ours"], exact.0, 1e-5, "every state changes");
        assert_close(&row["full_rank"], exact.1, 1e-3, "full rank");
        assert_close(
            &row["probability"]["ratio"],
            ours / row["probability"]["paper"].as_f64().expect("a number"),
            1e-12,
            "a ratio",
        );
    }
}

/// Pictures of 2 × 2 pixels in MNIST's files: the first pixel is bright where the digit is even.
#[test]
fn ppsc_figure_8_is_trained_on_digits_of_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let digits: Vec<u8> = (0..100u8).map(|at| at.wrapping_mul(37) % 10).collect();
    let picture = |digit: &u8| [255 * (1 - digit % 2), digit * 20, 90, 0];
    let pictures: Vec<u8> = digits.iter().flat_map(picture).collect();
    let images = [&[0, 0, 8, 3, 0, 0, 0, 100, 0, 0, 0, 2, 0, 0, 0, 2][..], &pictures].concat();
    let labels = [&[0, 0, 8, 1, 0, 0, 0, 100][..], &digits].concat();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).expect("written");
    let line = "simulate --paper ppsc-figure8 --data . --out out --json";
    let refused = run_in(folder.path(), line.split(' ')).json_of(2);
    assert_eq!(refused["error"]["field"], "--data", "{refused}");
    write("t10k-images-idx3-ubyte", &images);
    write("t10k-labels-idx1-ubyte", &labels);
    let answer = run_in(folder.path(), line.split(' ')).json_of(0);
    let rows = answer["rows"].as_array().expect("rows");
    let end = |positive: &str| {
        let row = rows
            .iter()
            .find(|row| row["positive"] == positive)
            .expect("a labelling");
        row["end"].as_f64().expect("a number")
    };
    assert!(end("even") == 1.0 && end("5 or more") > 0.9, "{answer}");
    assert_close(&rows[0]["ratio"], 1.0 / 0.85, 1e-12, "beside the paper");
    let svg = std::fs::read_to_string(folder.path().join("out/ppsc-figure8.svg")).expect("drawn");
    assert!(svg.contains("polyline") && svg.contains("5 or more"), "{svg}");
    let missing = run_in(folder.path(), "simulate --paper ppsc-figure8 --json".split(' ')).json_of(2);
    assert_eq!(missing["error"]["field"], "--data");
}

#[test]
fn a_table_takes_no_run() {
    let folder = tempfile::tempdir().expect("a folder");
    run_in(folder.path(), ["simulate", "--paper", "ppsc-table9", "--json"]).refused(2, "ppsc-table2");
    run_in(
        folder.path(),
        ["simulate", "--paper", "ppsc-table2", "--parties", "4", "--json"],
    )
    .refused(2, "--parties");
    run_in(folder.path(), ["simulate", "--json"]).refused(2, "RUN.toml");
    let text = run_in(folder.path(), ["simulate", "--paper", "ppsc-table2"]);
    assert!(
        text.code == 0 && text.stdout.contains("Figure 5") && text.stdout.contains("0.9998"),
        "{}",
        text.stdout
    );
}

fn computed(arguments: &str) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let line = format!("simulate --paper {arguments} --json");
    run_in(folder.path(), line.split(' ')).json_of(0)
}

fn rows_of<'a>(answer: &'a Value, key: &str, is: &Value) -> Vec<&'a Value> {
    let rows = answer["rows"].as_array().expect("rows");
    rows.iter().filter(|row| row[key] == *is).collect()
}

/// Figure 1: what the paper prints of Muffliato, and the right one beside it.
#[test]
fn inca_figure_1() {
    let answer = one_of_all("inca-figure1");
    let muffliato = rows_of(&answer, "mechanism", &"Muffliato, hypercube".into());
    assert_close(&muffliato[0]["paper"], 0.1764, 1e-3, "Appendix B");
    assert_close(&muffliato[0]["ours"], 0.375, 2e-3, "with the spectral gap");
    let inca = rows_of(
        &answer,
        "mechanism",
        &"INCA; secure aggregation with distributed noise".into(),
    );
    let error = |row: &Value| row["ours"].as_f64().expect("a number");
    assert!(
        inca.windows(2).all(|pair| error(pair[0]) < error(pair[1])),
        "fewer honest, more error"
    );
    let local = error(rows_of(&answer, "mechanism", &"local".into())[0]);
    assert!(error(inca[7]) < local / 200.0);
}

/// Figure 3: what is taken out costs least, but for the trusted server and a lucky GOPA.
#[test]
fn inca_figure_3() {
    let answer = one_of_all("inca-figure3");
    let error = |mechanism: &str, departed: f64| {
        let rows = rows_of(&answer, "mechanism", &mechanism.into());
        let found = rows.iter().find(|row| row["departed"] == departed);
        found.expect("a row")["error"].as_f64().expect("a number")
    };
    for departed in [0.05, 0.1, 0.2] {
        let here = error("here, and secure aggregation", departed);
        assert!(error("trusted server", departed) < here);
        assert!(
            here < error("GOPA, half while it takes out", departed),
            "{departed}"
        );
        assert!(error("GOPA, half while it takes out", departed) < error("CorDP-DME, at least", departed));
        assert!(error("CorDP-DME, at least", departed) < error("local noise", departed));
    }
    assert!((error("here, and secure aggregation", 0.1) / 0.0092 - 1.0).abs() < 0.01);
}

/// Figure 3a: what the paper says of T, and what it says of k while few depart; with two draws a
/// point.
#[test]
fn inca_figure_3a() {
    let answer = one_of_all("inca-figure3a");
    let rows = answer["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 18);
    let calm = one_of_all("inca-figure3");
    let of = |mechanism: &str, departed: &Value| {
        let rows = rows_of(&calm, "mechanism", &mechanism.into());
        let found = rows.iter().find(|row| row["departed"] == *departed);
        found.expect("a row")["error"].as_f64().expect("a number")
    };
    let error = |fanout: u64, rounds: u64, departed: &Value| {
        let found = rows
            .iter()
            .find(|row| row["fanout"] == fanout && row["rounds"] == rounds && row["departed"] == *departed);
        found.expect("a row")["error"].as_f64().expect("a number")
    };
    for row in rows {
        let (departed, found) = (&row["departed"], row["error"].as_f64().expect("a number"));
        let central = of("trusted server", departed);
        assert_close(&row["ratio"], found / central, 1e-12, "over the trusted server");
        assert!(found > of("here, and secure aggregation", departed), "{row}");
        assert!(
            row["uncancelled"].as_f64().expect("a number") < found,
            "own noise counts, too: {row}"
        );
    }
    for departed in [0.05, 0.1, 0.2].map(Value::from) {
        for fanout in [1, 3, 5] {
            assert!(
                error(fanout, 20, &departed) < error(fanout, 10, &departed),
                "{fanout}"
            );
        }
    }
    for departed in [0.05, 0.1].map(Value::from) {
        for rounds in [10, 20] {
            assert!(
                error(1, rounds, &departed) < error(5, rounds, &departed),
                "{rounds}"
            );
        }
    }
    let notes = answer["notes"].to_string();
    assert!(
        notes.contains("so in 9 of 9") && notes.contains("2 drawn ones"),
        "{notes}"
    );
}

#[test]
fn inca_figure_2_and_5() {
    let answer = computed("inca-figure2 --runs 50 --seed 3");
    let of = |parties: u64, share: f64| {
        let rows = rows_of(&answer, "parties", &parties.into());
        let found = rows
            .iter()
            .find(|row| row["corrupted"] == share && row["fanout"] == 1);
        found.expect("a row")["rounds"].as_u64().expect("they hold")
    };
    assert!(of(5000, 0.5) > of(5000, 0.05) && of(5000, 0.5) > of(100, 0.5));
    // "Slightly higher than 15", of 10⁵ runs.
    assert!((9..=18).contains(&of(5000, 0.5)), "{answer}");
    let answer = computed("inca-figure5 --runs 40");
    let success = |adversary: &str, fanout: u64, rounds: u64| {
        let rows = rows_of(&answer, "adversary", &adversary.into());
        let found = rows
            .iter()
            .find(|row| row["fanout"] == fanout && row["rounds"] == rounds);
        found.expect("a row")["success"].as_f64().expect("a share")
    };
    let (observed, corrupted) = ("half of the states observed", "30 % corrupted");
    assert!(success(observed, 5, 4) > success(observed, 1, 4));
    assert!(success(corrupted, 1, 10) > success(corrupted, 5, 10));
}

#[test]
fn everything_is_written_into_a_folder() {
    let (answer, folder) = &*ALL;
    let names = [
        "inca-figure1",
        "inca-figure2",
        "inca-figure3",
        "inca-figure3a",
        "inca-figure5",
        "kk-fig1",
        "kk-fig2",
        "kk-first-fig1",
        "kk-first-fig2",
        "ppsc-table2",
        "ppsc-table3",
        "ppsc-table5",
        "ppsc-table6",
    ];
    assert_eq!(answer["papers"].as_array().map(Vec::len), Some(names.len()));
    for name in names {
        let csv = std::fs::read_to_string(folder.join(format!("{name}.csv")));
        let csv = csv.expect("written");
        let columns = |line: &str| line.split(',').count();
        let first = csv.lines().next().expect("headings");
        assert!(csv.lines().count() > 5, "{name}");
        assert!(
            ["T", "S,", "L,", "mechanism"]
                .iter()
                .any(|word| first.contains(word)),
            "{first}"
        );
        assert!(columns(first) >= 5, "{first}");
        let drawn = std::fs::read_to_string(folder.join(format!("{name}.svg")));
        assert_eq!(drawn.is_ok(), !name.starts_with("ppsc"), "{name}");
        assert!(drawn.is_ok_and(|svg| svg.contains("polyline")) || name.starts_with("ppsc"));
    }
    let line = "simulate --paper ppsc-table2 --runs 5 --json";
    run_in(Path::new("."), line.split(' ')).refused_at(2, "--paper");
}

/// The index names every figure that was computed with its files, how far it is off, and why.
#[test]
fn all_figures_are_in_the_index_with_what_deviates() {
    let page = std::fs::read_to_string(ALL.1.join("index.md")).expect("written");
    let files: Vec<&str> = ALL.0["files"]
        .as_array()
        .expect("files")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(files.last(), Some(&"index.md"));
    for file in &files[..files.len() - 1] {
        assert!(page.contains(&format!("[{file}]({file})")), "{file}");
        assert!(ALL.1.join(file).is_file(), "{file}");
    }
    for paper in ALL.0["papers"].as_array().expect("papers") {
        let name = paper["paper"].as_str().expect("a name");
        let (_, section) = page.split_once(&format!("\n## {name}\n")).expect(name);
        let section = section.split("\n## ").next().unwrap_or_default();
        for note in paper["notes"].as_array().expect("notes") {
            assert!(section.contains(note.as_str().expect("a note")), "{name}");
        }
    }
    // Theorem 2 gives 24 iterations where the paper prints 25.
    let (_, table) = page.split_once("\n## ppsc-table2\n").expect("a section");
    assert!(table.contains("deviate by more than 1 %"), "{table}");
    assert!(page.contains("- `ppsc-figure8`"), "left out, and said so");
}
