//! Where results are written: nothing but a file is replaced, a name says its format, and what is
//! wrong with either is found before a plan is spent.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::process::Command;

use undertone_tests::{Parties, alone, read_json, start_in};

const RUN: &str =
    "version = 1\nname = \"outputs\"\n[data]\nnoise_ok = true\nshape = [2]\n[run]\njoin_ms = 60000\n";

/// Three parties with a plan and inputs in two formats.
fn planned() -> Parties {
    let parties = Parties::new(3);
    parties.write_inputs(&[2]);
    parties.write("x.json", "[0.25, 0.5]");
    parties.plan("plan", RUN);
    parties
}

fn pipe(parties: &Parties, name: &str) {
    let made = Command::new("mkfifo").arg(parties.path(name)).status();
    assert!(made.is_ok_and(|made| made.success()), "mkfifo is of POSIX");
}

#[test]
fn a_result_that_would_be_lost_or_replace_what_is_no_file_is_refused_before_the_plan_is_spent() {
    let parties = planned();
    for name in ["pipe.json", "r.json.sig", "model.json"] {
        pipe(&parties, name);
    }
    symlink("pipe.json", parties.path("to-pipe.json")).expect("a link");
    symlink("nowhere.json", parties.path("dangling.json")).expect("a link");
    symlink("x.json", parties.path("to-input.json")).expect("a link");
    fs::create_dir(parties.path("folder.json")).expect("a folder");
    let refused = |more: &[&str], field: &str, words: &str| {
        let base = [
            "join",
            "plan.json",
            "--identity",
            "alice.key",
            "--input",
            "x.json",
            "--json",
        ];
        let ended = undertone_tests::run_in(parties.folder(), base.iter().chain(more));
        ended.refused_at(2, field);
        assert!(ended.stdout.contains(words), "{more:?}: {}", ended.stdout);
    };
    let output = |path: &str, words: &str| refused(&["--output", path], "--output", words);
    output("pipe.json", "a pipe");
    output("to-pipe.json", "a pipe");
    output("dangling.json", "leads nowhere");
    output("folder.json", "a folder");
    output("no/folder/mean.json", "cannot be written");
    for name in ["mean.csv", "mean.npy", "mean", "mean.json.gz"] {
        output(name, "written as .json");
    }
    for name in ["x.json", "to-input.json", "./plan.json"] {
        output(name, "written over");
    }
    let receipt = |path: &str, words: &str| {
        refused(&["--output", "mean.json", "--receipt", path], "--receipt", words);
    };
    receipt("pipe.json", "a pipe");
    receipt("r.json", "a pipe");
    receipt("receipt.csv", "written as .json");
    receipt("mean.json", "written over");
    refused(
        &["--output", "mean.json", "--events", "mean.json"],
        "--events",
        "written over",
    );
    for name in ["pipe.json", "r.json.sig"] {
        let kind = fs::symlink_metadata(parties.path(name))
            .expect("it is there")
            .file_type();
        assert!(kind.is_fifo(), "{name}");
    }
    assert!(fs::read_link(parties.path("dangling.json")).is_ok() && !parties.path("nowhere.json").exists());
    assert!(!parties.path("mean.json").exists());
    // Nothing of it was spent: see the next test, which joins with such a plan.
    let spent = fs::read_dir(parties.path("alice.key.spent")).map_or(0, |marks| {
        marks
            .filter_map(Result::ok)
            .filter(|mark| mark.file_name().to_string_lossy().contains('-'))
            .count()
    });
    assert_eq!(spent, 0);
}

#[test]
fn a_link_and_a_mode_stay_as_they_were() {
    let _alone = alone();
    let parties = planned();
    fs::create_dir(parties.path("mounted")).expect("a folder");
    parties.write("mounted/mean.json", "[]");
    symlink("mounted/mean.json", parties.path("alice.json")).expect("a link");
    parties.write(
        "bob.json",
        "a text that is longer than any mean of two numbers, so that it would show",
    );
    parties.write("bob.receipt.json", "");
    for (name, mode) in [
        ("mounted/mean.json", 0o640),
        ("bob.json", 0o600),
        ("bob.receipt.json", 0o664),
    ] {
        fs::set_permissions(parties.path(name), Permissions::from_mode(mode)).expect("ours");
    }
    let nodes: Vec<_> = ["alice", "bob", "carol"]
        .map(|name| {
            let line = format!(
                "join plan.json --identity {name}.key --input x.json --output {name}.json --receipt {name}.receipt.json --json"
            );
            start_in(parties.folder(), line.split(' '))
        })
        .into_iter()
        .collect();
    for node in nodes {
        node.wait().json_of(0);
    }
    let mean = read_json(&parties.path("carol.json"));
    assert_eq!(mean.as_array().map(Vec::len), Some(2));
    assert!(
        fs::symlink_metadata(parties.path("alice.json"))
            .expect("it is there")
            .is_symlink()
    );
    for (name, mode) in [("mounted/mean.json", 0o640), ("bob.json", 0o600)] {
        assert_eq!(read_json(&parties.path(name)), mean, "{name}");
        let found = fs::metadata(parties.path(name))
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(found & 0o777, mode, "{name}");
    }
    let receipt = fs::metadata(parties.path("bob.receipt.json")).expect("it is there");
    assert_eq!(receipt.permissions().mode() & 0o777, 0o664);
    let line = "receipt bob.receipt.json --plan plan.json --peers peers.toml --json";
    undertone_tests::run_in(parties.folder(), line.split(' ')).json_of(0);
}

#[test]
fn a_plan_is_made_only_where_it_and_its_picture_can_be_written() {
    let parties = Parties::new(3);
    parties.write("run.toml", RUN);
    pipe(&parties, "pipe.json");
    pipe(&parties, "picture.csv");
    let refused = |more: &[&str], field: &str| {
        let base = ["plan", "run.toml", "--peers", "peers.toml", "--json"];
        undertone_tests::run_in(parties.folder(), base.iter().chain(more)).refused_at(2, field);
        assert!(
            !parties.path("plan.json").exists(),
            "{more:?}: half of it was written"
        );
    };
    for name in ["pipe.json", "plan.toml", "run.toml", "peers.toml"] {
        refused(&["--out", name], "--out");
    }
    // The points of a picture go beside it.
    for name in ["quote.png", "quote", "picture.svg", "no/folder/quote.svg"] {
        refused(&["--out", "plan.json", "--plot", name], "--plot");
    }
}
