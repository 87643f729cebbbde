//! Run files and peer lists that make no sense: refused with their field and line.

use serde_json::json;
use undertone_tests::{Ended, PLAN, Parties, run_in};

const RUN: &str = "version = 1\nname = \"test\"\n[data]\nshape = [40]\n";

/// `plan --json` on files in the parties' folder.
fn planned(parties: &Parties, run: &str, peers: &str, out: &str) -> Ended {
    parties.run(["plan", run, "--peers", peers, "--out", out, "--json"])
}

/// A run file with a fault, the field that its refusal must name, and the line where that is known.
const BAD_RUNS: [(&str, &str, Option<u32>); 27] = [
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\ncolour = 3\n",
        "colour",
        Some(5),
    ),
    (
        "version = 1\nname = \"x\"\ncolour = 3\n[data]\nshape = [4]\n",
        "colour",
        Some(3),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\n[color]\n",
        "color",
        Some(5),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\nclip = { kind = \"l2\", radios = 1.0 }\n",
        "data.clip",
        Some(5),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\n[privacy]\nepsilon = 0.0\n",
        "privacy.epsilon",
        Some(6),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\n[privacy]\nepsilon = -1.0\n",
        "privacy.epsilon",
        Some(6),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\n[privacy]\nepsilon = inf\n",
        "privacy.epsilon",
        Some(6),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\n[privacy]\nepsilon = nan\n",
        "privacy.epsilon",
        Some(6),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\n[privacy]\nepsilon = \"1\"\n",
        "privacy.epsilon",
        Some(6),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\n[privacy]\ndelta = 0.0\n",
        "privacy.delta",
        Some(6),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\n[privacy]\ndelta = 1.0\n",
        "privacy.delta",
        Some(6),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\n[privacy]\ndelta = -1e-6\n",
        "privacy.delta",
        Some(6),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\n[privacy]\ncolluding = 4\n",
        "privacy.colluding",
        Some(6),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\n[privacy]\ndropouts = 2\n",
        "privacy.dropouts",
        Some(6),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = []\n",
        "data.shape",
        Some(4),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4, 0]\n",
        "data.shape",
        Some(4),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [99999999999, 99999999999]\n",
        "data.shape",
        Some(4),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\nclip = { kind = \"l2\", radius = 0.0 }\n",
        "data.clip",
        Some(5),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\nclip = { kind = \"box\", low = 1.0, high = -1.0 }\n",
        "data.clip",
        Some(5),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\nclip = { kind = \"box\", low = [0.0, 0.0], high = 1.0 }\n",
        "data.clip",
        Some(5),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\nweights = { zoe = 2.0 }\n",
        "data.weights.zoe",
        None,
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\n[run]\nmin_parties = 1\n",
        "run.min_parties",
        Some(6),
    ),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\n[run]\npace_ms = 5000\n",
        "run.pace_ms",
        Some(6),
    ),
    (
        "version = 2\nname = \"x\"\n[data]\nshape = [4]\n",
        "version",
        Some(1),
    ),
    ("version = 1\n[data]\nshape = [4]\n", "name", None),
    ("version = 1\nname = \"x\"\n", "data.shape", None),
    (
        "version = 1\nname = \"x\"\n[data]\nshape = [4]\n[mechanism]\nkind = \"magic\"\n",
        "mechanism.kind",
        Some(6),
    ),
];

#[test]
fn a_run_file_that_makes_no_sense_is_refused_with_its_field_and_line() {
    let parties = Parties::new(4);
    for (run, field, line) in BAD_RUNS {
        parties.write("bad.toml", run);
        let ended = planned(&parties, "bad.toml", "peers.toml", "bad.json");
        assert_eq!(ended.code, 2, "{run}{}{}", ended.stdout, ended.stderr);
        let refusal = ended.refused_at(2, field);
        let message = refusal["error"]["message"].as_str().expect("a message");
        let place = line.map_or(String::new(), |line| format!("line {line}:"));
        assert!(message.contains(&place), "{message} should tell of {place}");
        assert!(
            line.is_none() || message.starts_with("bad.toml"),
            "{message} should name the file"
        );
        assert!(!parties.path("bad.json").exists());
    }
    parties.write("bad.toml", "version = 1\n[data\n");
    planned(&parties, "bad.toml", "peers.toml", "bad.json").refused(2, "line 2:");
    planned(&parties, "absent.toml", "peers.toml", "bad.json").refused(2, "absent.toml");
    planned(&parties, "bad.toml", "absent.toml", "bad.json").refused_at(2, "--peers");
    parties.write("bad.toml", RUN);
    planned(&parties, "bad.toml", "peers.toml", "no/such/folder.json").refused_at(2, "--out");
}

#[test]
fn a_peer_list_that_makes_no_sense_is_refused_with_its_field_and_line() {
    let parties = Parties::new(4);
    parties.write("run.toml", RUN);
    let good = parties.peer_list();
    let lines = parties.lines();
    let id = |party: usize| lines[party].lines().nth(2).expect("the id's line");
    let [port, _] = parties.ports(3);
    let cases: [(String, &str, &str); 11] = [
        (
            format!("version = 1\n{}{}", lines[0], lines[1]),
            "peer",
            "2 peers",
        ),
        ("version = 1\n".into(), "peer", "0 peers"),
        (
            good.replace("name = \"dave\"", "name = \"alice\""),
            "peer.3.name",
            "line 18:",
        ),
        (good.replace(id(3), id(0)), "peer.3.id", "line 19:"),
        (
            good.replace("name = \"dave\"", "name = \"Dave!\""),
            "peer.3.name",
            "line 18:",
        ),
        (
            good.replace(id(3), "id = \"12D3KooWnobody\""),
            "peer.3.id",
            "line 19:",
        ),
        (
            good.replace(&format!("/tcp/{port}"), &format!("/udp/{port}")),
            "peer.3.private",
            "line 20:",
        ),
        (
            good.replace(&format!("/tcp/{port}"), "/tcp/99999"),
            "peer.3.private",
            "line 20:",
        ),
        (
            good.replace(
                &format!("/ip4/127.0.0.1/tcp/{port}"),
                &format!("127.0.0.1:{port}"),
            ),
            "peer.3.private",
            "line 20:",
        ),
        (good.replace("version = 1", "version = 7"), "", "line 1:"),
        (format!("{good}colour = 3\n"), "", "colour"),
    ];
    for (list, field, about) in cases {
        assert_ne!(list, good);
        parties.write("bad.toml", &list);
        let ended = planned(&parties, "run.toml", "bad.toml", "bad.json");
        assert_eq!(ended.code, 2, "{field}: {}{}", ended.stdout, ended.stderr);
        ended.refused(2, about);
        ended.refused_at(2, field);
    }
}

/// What sealed finals do not go with, and what they take.
#[test]
fn what_does_not_go_with_sealed_finals_is_refused() {
    let refused = |count: usize, lines: &str, field: &str| {
        let parties = Parties::new(count);
        parties.write("run.toml", &format!("{RUN}{lines}\n"));
        parties.run(PLAN).refused_at(2, field)
    };
    let sealed = "[run]\nsealed = true\n";
    for lines in [
        "[mechanism]\ncorrelated = \"gaussian\"",
        "[mechanism]\nfanout = 2",
        "[mechanism]\nkind = \"ppsc\"\nindependent_noise = \"none\"\naccept_exact_sum = true",
    ] {
        refused(6, &format!("{lines}\n{sealed}"), "run.sealed");
    }
    refused(6, &format!("{sealed}dissemination = \"consensus\""), "run.sealed");
    // A threshold that nobody can reach cannot be asked for: who is left must be a majority, and so
    // enough to hold the shares.
    refused(3, "[privacy]\ncolluding = 2", "privacy.colluding");
    refused(3, "[privacy]\ndropouts = 1", "privacy.dropouts");
}

/// Sparse graphs that carry Gaussian noise carry what is the default, and what is too thin names
/// the cut, and where edges are missing.
#[test]
fn sparse_private_graphs_plan_and_too_thin_ones_are_refused_with_the_place() {
    let parties = Parties::new(8);
    for lines in [
        "[topology]\nprivate = { kind = \"random-regular\", degree = 3 }",
        "[topology]\nprivate = { kind = \"random-regular\", degree = 4 }",
        "[privacy]\ndropouts = 0\n[topology]\nprivate = \"ring\"",
        "[mechanism]\nkind = \"ppsc\"\n[topology]\nprivate = { kind = \"random-regular\", degree = 3 }",
    ] {
        parties.write("run.toml", &format!("{RUN}{lines}\n"));
        let quote = parties.run(PLAN).json_of(0);
        let class = &quote["claims"][0];
        assert_eq!(
            (&class["basis"], &class["sealed"]),
            (&json!("connectivity"), &json!(true)),
            "{lines}"
        );
        parties.run(["verify", "plan.json", "--json"]).json_of(0);
    }
    parties.write("run.toml", &format!("{RUN}[topology]\nprivate = \"ring\"\n"));
    let refusal = parties.run(PLAN).refused_at(3, "topology.private");
    let message = refusal["error"]["message"].as_str().expect("a sentence");
    for words in [
        "these 2 parties, ",
        "would separate ",
        " from the others",
        "add private edges at ",
    ] {
        assert!(message.contains(words), "{words}: {message}");
    }
}

/// A description has its columns from its run file; a table with words in it is no list of numbers.
#[test]
fn descriptions_take_nothing_from_a_file_like_the_parties() {
    let parties = Parties::new(4);
    parties.write("like.csv", "age,stage\n41,II\n50,IV\n");
    let columns = "[[describe.column]]\nname = \"age\"\nlow = 18\nhigh = 100\n";
    let run = format!(
        "version = 1\ntask = \"describe\"\nname = \"like\"\n[data]\nnoise_ok = true\nrecords = 900\n{columns}"
    );
    parties.write("run.toml", &run);
    parties.run(PLAN).json_of(0);
    let like = PLAN.into_iter().chain(["--like", "like.csv"]);
    let refusal = run_in(parties.folder(), like).refused_at(2, "--like");
    let hint = refusal["error"]["hint"].as_str().expect("a sentence");
    assert!(hint.contains("[[describe.column]]"), "{hint}");
}
