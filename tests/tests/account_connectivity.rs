//! `undertone account connectivity` as a binary: the keys of node/guide/formats.md, what an
//! independent program found, and what is refused.

use serde_json::{Value, json};
use undertone_tests::{Ended, run_in};

/// A folder with one edge list, asked about by flags.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(edges: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("edges.txt"), edges).expect("writable");
        Folder(folder)
    }

    fn run(&self, arguments: &str) -> Ended {
        run_in(
            self.0.path(),
            format!("account connectivity {arguments}").split_whitespace(),
        )
    }

    fn ask(&self, arguments: &str) -> Ended {
        self.run(&format!("{arguments} --json"))
    }

    fn answer(&self, arguments: &str) -> Value {
        self.ask(arguments).json_of(0)
    }
}

/// Two triangles that share party 2.
const BOW_TIE: &str = "# a bow tie\n0 1\n1 2\n2 0\n\n2 3 # here it is thin\n3 4\n4 2\n2 4\n";

#[test]
fn it_answers_what_an_independent_program_did() {
    let folder = Folder::with("0 2\n0 3\n0 5\n1 2\n2 4\n3 4\n");
    let answer = folder.answer("--graph edges.txt --colluding 1");
    assert_eq!(answer["kappa"], 1);
    assert_eq!(answer["among"], json!([4, 1, 4, 3, 3, 1]));
    let folder =
        Folder::with("0 1\n0 2\n0 3\n0 4\n1 2\n1 4\n1 6\n2 3\n2 5\n3 5\n3 7\n4 6\n4 7\n5 6\n5 7\n6 7\n");
    let answer = folder.answer("--graph edges.txt --parties 8 --colluding 2");
    assert_eq!(
        (&answer["kappa"], &answer["among"]),
        (&json!(4), &json!([6, 6, 6, 6, 6, 6, 6, 6]))
    );
    assert_eq!(answer["cut"].as_array().map(Vec::len), Some(4), "{answer}");
}

#[test]
fn what_is_asked_alone_is_answered_alone() {
    let folder = Folder::with(BOW_TIE);
    let ask = |flags: &str| folder.answer(&format!("--graph edges.txt {flags}"));
    assert_eq!(ask(""), json!({"kappa": 1, "cut": [2], "among": [5, 5, 5, 5, 5]}));
    assert_eq!(ask("--at-least 1"), json!({"at_least": true, "cut": null}));
    assert_eq!(ask("--at-least 2"), json!({"at_least": false, "cut": [2]}));
    assert_eq!(ask("--at-least 2 --colluding 1"), ask("--at-least 2"));
    // A party without an edge: in pieces with nobody taken away.
    assert_eq!(
        ask("--parties 6"),
        json!({"kappa": 0, "cut": [], "among": [5, 5, 5, 5, 5, 1]})
    );
    assert_eq!(
        ask("--parties 6 --at-least 1"),
        json!({"at_least": false, "cut": []})
    );
    // Nothing separates those who all share.
    let all = Folder::with("0 1\n1 2\n2 0\n");
    assert_eq!(
        all.answer("--graph edges.txt --colluding 1"),
        json!({"kappa": 2, "cut": null, "among": [2, 2, 2]})
    );
    assert_eq!(
        all.answer("--graph edges.txt --at-least 3"),
        json!({"at_least": false, "cut": null})
    );
}

#[test]
fn schedules_join_each_party_to_two_others_a_round() {
    let folder = Folder::with("");
    let answer = folder.answer("--parties 200 --schedule 22 --seed 1 --at-least 42");
    assert_eq!(answer, json!({"at_least": true, "cut": null}));
    let answer = folder.answer("--parties 20 --schedule 4 --seed 7 --colluding 3");
    assert_eq!(
        (&answer["kappa"], &answer["among"]),
        (&json!(8), &json!(vec![17; 20]))
    );
    assert_eq!(
        folder.answer("--parties 20 --schedule 4 --seed 7 --colluding 3"),
        answer
    );
    assert_eq!(
        folder.answer("--parties 8 --schedule 3 --seed 0 --at-least 7")["at_least"],
        false
    );
}

#[test]
fn the_refusal_names_the_parties_that_separate_others() {
    let folder = Folder::with(BOW_TIE);
    let reported = |flags: &str| {
        let ended = folder.run(&format!("--graph edges.txt {flags}"));
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        ended.stdout
    };
    let text = reported("--colluding 1");
    assert!(
        text.contains("κ = 1: party 2 alone would separate others"),
        "{text}"
    );
    assert!(text.contains("0, 1, 3, 4"), "{text}");
    assert!(reported("--at-least 1").starts_with("Yes: it takes at least 1 "));
    assert!(reported("--at-least 2").starts_with("No: party 2 alone"));
    assert!(reported("--parties 7").contains("in 3 pieces"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = Folder::with(BOW_TIE);
    for (flags, field) in [
        ("--graph edges.txt --parties 0", "--parties"),
        ("--graph edges.txt --parties 5001", "--parties"),
        ("--graph edges.txt --colluding 5", "--colluding"),
        ("--parties 1 --schedule 3 --seed 1", "--parties"),
        ("--parties 99999999999 --schedule 3 --seed 1", "--parties"),
        ("--parties 8 --schedule 0 --seed 1", "--schedule"),
        ("--parties 8 --schedule 64 --seed 1", "--schedule"),
    ] {
        folder.ask(flags).refused_at(2, field);
    }
    for (flags, about) in [
        ("", "--schedule"),
        ("--parties 8", "--graph"),
        (
            "--graph edges.txt --parties 8 --schedule 3 --seed 1",
            "--schedule",
        ),
        ("--graph edges.txt --seed 1", "--schedule"),
        ("--parties 8 --schedule 3", "--seed"),
        ("--schedule 3 --seed 1", "--parties"),
        ("--graph edges.txt --at-least -1", "-1"),
        ("--graph edges.txt --colluding many", "--colluding"),
    ] {
        folder.ask(flags).refused(2, about);
    }
    folder.ask("--graph none.txt").refused_at(7, "--graph");
    for (text, flags, place) in [
        ("0 1\n1 one\n", "", "line 2"),
        ("0 1\n1 1\n", "", "line 2"),
        ("0 1 2\n", "", "line 1"),
        ("", "", "no edge"),
        ("0 1\n\n3 2\n", "--parties 3", "line 3: node 3"),
        ("0 1\n0 5000\n", "", "line 2: node 5000"),
        ("0 18446744073709551615\n", "", "line 1"),
        ("0 18446744073709551616\n", "", "line 1"),
    ] {
        let folder = Folder::with(text);
        let ended = folder.ask(&format!("--graph edges.txt {flags}"));
        ended.refused(7, place);
        ended.refused_at(7, "edges.txt");
    }
}
