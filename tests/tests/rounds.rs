//! Means in sequence of what programs hand over, a program for each party.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use undertone_tests::daemon::Daemon;
use undertone_tests::openapi::Document;
use undertone_tests::{
    Ended, Parties, Running, alone, assert_close, digits, network, read_json, read_npy, run_in, start_in,
    undertone, write_npy,
};

const PARTIES: usize = 6;
const ROUNDS: usize = 25;

/// Rounds of the network's weights. Whoever protects whole parties needs many of them: with six a
/// mean is mostly noise, which is meant where how is tested and not how much.
fn run_file(data: &str) -> String {
    format!(
        "version = 1\ntask = \"rounds\"\nname = \"fedavg\"\n[data]\nshape = [{}]\n{data}\n[privacy]\n\
         epsilon = 8.0\ndelta = 1e-5\n",
        network::WEIGHTS
    )
}

/// Each party is one client, and what it hands over is hidden whole.
const WHOLE: &str = "releases = 12\nclip = { kind = \"l2\", radius = 0.001 }\nnoise_ok = true";

/// Each row is one, and each layer of what it changes is clipped by itself.
const ROWS: &str = "releases = 25\nunit = \"record\"\ntensors = { hidden = [16, 65], out = [10, 17] }\n\
                    clip = { kind = \"tensors\", radius = { hidden = 0.3, out = 0.4 } }";

fn prepare(folder: &Path, run: &str) {
    digits::share_out(folder, PARTIES);
    fs::write(folder.join("run.toml"), run).expect("writable");
}

/// A local cluster whose parties each run the program of the digits, some with faults.
fn local(folder: &Path, variables: &[(&str, &str)]) -> Ended {
    let program = env!("CARGO_BIN_EXE_fedavg");
    let line = "local --inputs tables --run run.toml --output kept --json --program";
    let mut command = std::process::Command::new(undertone());
    command
        .args(line.split(' '))
        .arg(program)
        .envs(variables.iter().copied())
        .current_dir(folder);
    Running::start(command, None).wait()
}

/// The weights that each party's program ended with.
fn weights(folder: &Path) -> Vec<Vec<f64>> {
    let of = |party: usize| {
        let text = fs::read_to_string(folder.join(format!("tables/party-{party}.weights"))).ok()?;
        Some(text.lines().map(|line| line.parse().expect("a number")).collect())
    };
    (0..PARTIES).filter_map(of).collect()
}

fn log(folder: &Path, party: usize) -> String {
    fs::read_to_string(folder.join(format!("kept/party-{party}/node.log"))).expect("a log")
}

#[test]
fn a_network_learns_from_six_parties_programs() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    prepare(folder, &(run_file(ROWS) + "[run]\niteration_ms = 20000\n"));
    let object = local(folder, &[("TENSORS", "")]).json_of(0);
    assert_eq!(
        (&object["outcome"], &object["same_bits"]),
        (&"done".into(), &true.into())
    );
    assert_eq!(object["iterations"]["run"], ROUNDS, "{object}");
    let plan = read_json(&folder.join("kept/plan.json"));
    assert_close(&plan["members"][0]["sensitivity"], 1.0, 1e-12, "2 √(0.3² + 0.4²)");
    let weights = weights(folder);
    assert_eq!(weights.len(), PARTIES, "each program was told the last mean");
    assert!(weights.iter().all(|all| *all == weights[0]));
    let accuracy = network::accuracy(&weights[0], &digits::read(&folder.join("test.csv")));
    let before = network::accuracy(&network::start(), &digits::read(&folder.join("test.csv")));
    println!("FedAvg: {accuracy} on held-out digits");
    // The noise is fresh in each run: 0.81 on average, and 0.015 the standard deviation.
    assert!(
        accuracy > 0.7 && before < 0.3,
        "{before} before, {accuracy} after"
    );
    let (_, header, mean) = read_npy(&folder.join("kept/party-2/mean.npy"));
    assert!(
        header.contains("(1210,)") && mean.len() == network::WEIGHTS,
        "{header}"
    );
    let receipt = read_json(&folder.join("kept/party-2/receipt.json"));
    assert_eq!(receipt["iterations"]["spent"], ROUNDS);
    run_in(
        folder,
        ["receipt", "kept/party-2/receipt.json", "--plan", "kept/plan.json"],
    );
}

/// Each party's program does something else wrong: its party contributes nothing in that round, the
/// run is whole, and only the party's owner is told.
#[test]
fn whatever_programs_do_the_run_is_whole() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let quick = run_file(WHOLE) + "[run]\niteration_ms = 1500\n";
    prepare(folder, &quick);
    let faults = "party-0:nan:2 party-0:shape:4 party-1:rows:3 party-2:round:5 party-3:hang:6 party-4:die:7 \
                  party-5:endless:8 party-1:huge:9";
    let object = local(folder, &[("FAULTS", faults), ("WHOLE", "")]).json_of(5);
    assert_eq!(
        (&object["outcome"], &object["same_bits"]),
        (&"degraded".into(), &true.into())
    );
    assert_eq!(
        object["iterations"]["departed"],
        Value::Object(Default::default()),
        "{object}"
    );
    for (party, words) in [
        (0, "coordinate 3 is not a number"),
        (0, "the plan wants [1210]"),
        (1, "shape [2, 1210]"),
        (2, "answered for round 6"),
        (3, "did not answer in time"),
        (4, "has ended"),
        (5, "announced 18446744073709551615 bytes"),
    ] {
        let log = log(folder, party);
        assert!(
            log.contains("contributes nothing") && log.contains(words),
            "{words}: {log}"
        );
    }
    assert_eq!(
        log(folder, 1).matches("contributes nothing").count(),
        1,
        "what is huge is clipped"
    );
    // Nothing that others see says it.
    for party in 0..PARTIES {
        let receipt = fs::read_to_string(folder.join(format!("kept/party-{party}/receipt.json")));
        let receipt = receipt.expect("a receipt");
        assert!(
            !receipt.contains("nothing") && !receipt.contains("program"),
            "{receipt}"
        );
    }
    // On this machine all parties are one's own. (Under load more rounds may be missed.)
    let missed = |party: &str, round: u64| {
        let spans = object["silence"][party]["contributed_nothing"].as_array();
        spans.into_iter().flatten().any(|span| {
            let bound = |key: &str| span[key].as_u64().expect("a round");
            (bound("first")..=bound("last")).contains(&round)
        })
    };
    for (party, round) in [(0, 2), (0, 4), (1, 3), (2, 5), (3, 6), (4, 7), (4, 12), (5, 8)] {
        assert!(
            missed(&format!("party-{party}"), round),
            "{party}, {round}: {object}"
        );
    }
    // Those that went on have the last model; the others' programs are gone, and so is what hung.
    let weights = weights(folder);
    assert_eq!(weights.len(), 3, "parties 0, 1 and 2");
    assert!(weights.iter().all(|all| *all == weights[0]));
}

/// Rows instead of one vector: each is clipped by the node, and the claim says what it rests on.
#[test]
fn a_program_may_hand_over_rows() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let names = ["ann", "ben", "cat", "dan"];
    fs::create_dir(folder.join("tables")).expect("writable");
    names.iter().for_each(|name| {
        let rows = "1,2\n3,4\n5,6\n".repeat(400);
        fs::write(folder.join(format!("tables/{name}.csv")), rows).expect("writable");
    });
    let run = "version = 1\ntask = \"rounds\"\nname = \"rows\"\n[data]\nshape = [2]\nunit = \"record\"\n\
               releases = 3\nclip = { kind = \"box\", low = -8.0, high = 8.0 }\n\
               [privacy]\nepsilon = 8.0\n[run]\niteration_ms = 20000\n";
    fs::write(folder.join("run.toml"), run).expect("writable");
    script(folder, ADDED);
    let line = "local --inputs tables --run run.toml --output kept --json --program ./step";
    let object = run_in(folder, line.split(' ')).json_of(0);
    assert_eq!(object["records"], 4800);
    // Rows are (1, 2), (3, 4), (5, 6), plus the mean so far: 3, 4, then 6, 8, then clipped at 8.
    let (_, _, mean) = read_npy(&folder.join("kept/ann/mean.npy"));
    let expected = [(7.0 + 8.0 + 8.0) / 3.0, 8.0];
    for (found, expected) in mean.iter().zip(expected) {
        assert!((found - expected).abs() < 0.1, "{mean:?}");
    }
    for name in names {
        let (_, _, reported) = read_npy(&folder.join(format!("tables/{name}.csv.npy")));
        assert_eq!(reported, mean, "{name}'s program was told the last mean");
    }
    let plan = run_in(folder, ["verify", "kept/plan.json"]);
    assert!(plan.stdout.contains("no record makes it fail"), "{}", plan.stdout);
}

/// A program that prints to its standard output: all parties contribute nothing in every round, and
/// whoever runs them is told so, and asked the right question.
#[test]
fn a_program_that_prints_is_found_out() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::create_dir(folder.join("tables")).expect("writable");
    let names = ["ann", "ben", "cat"];
    names.iter().for_each(|name| {
        let rows = "1,2\n".repeat(400);
        fs::write(folder.join(format!("tables/{name}.csv")), rows).expect("writable");
    });
    let run = "version = 1\ntask = \"rounds\"\nname = \"prints\"\n[data]\nshape = [2]\nunit = \"record\"\n\
               releases = 3\nclip = { kind = \"box\", low = 10.0, high = 11.0 }\n[privacy]\nepsilon = 8.0\n\
               [run]\niteration_ms = 20000\n";
    fs::write(folder.join("run.toml"), run).expect("writable");
    script(
        folder,
        &ADDED.replace(
            "    mean = array",
            "    print('round', round, flush=True)\n    mean = array",
        ),
    );
    let line = "local --inputs tables --run run.toml --output kept --program ./step";
    let ended = run_in(folder, line.split(' '));
    assert_eq!(ended.code, 5, "{}", ended.stderr);
    for name in names {
        let reported = format!("{name} contributed nothing in rounds 1 to 3: the program's answer is text");
        assert!(ended.stdout.contains(&reported), "{}", ended.stdout);
    }
    assert!(
        ended
            .stdout
            .contains("did the program print to its standard output?")
    );
    // The box has no zero: what counts instead is its corner.
    let (_, _, mean) = read_npy(&folder.join("kept/ann/mean.npy"));
    assert!(mean.iter().all(|x| (x - 10.0).abs() < 0.2), "{mean:?}");
    let summary = read_json(&folder.join("kept/summary.json"));
    assert_eq!(summary["exit_codes"]["ben"], 5, "{summary}");
    script(folder, ADDED);
    let works = run_in(folder, line.split(' '));
    assert_eq!(works.code, 0, "{}", works.stderr);
    assert!(!works.stdout.contains("contributed nothing"), "{}", works.stdout);
}

/// Each row of the party's table, plus the mean so far; keeps the last mean beside the table.
const ADDED: &str = r#"#!/usr/bin/env python3
import struct, sys
from array import array
rows = [[float(cell) for cell in line.split(",")] for line in open(sys.argv[1])]
while True:
    round, length = struct.unpack("<IQ", sys.stdin.buffer.read(12))
    npy = sys.stdin.buffer.read(length)
    mean = array("d", npy[10 + npy[8] + 256 * npy[9]:]) if npy else [0.0, 0.0]
    if round == 0:
        open(sys.argv[1] + ".npy", "wb").write(npy)
        break
    values = array("d", [x + m for row in rows for x, m in zip(row, mean)])
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({len(rows)}, 2), }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values.tobytes()
    sys.stdout.buffer.write(struct.pack("<IQ", round, len(npy)) + npy)
    sys.stdout.buffer.flush()
"#;

/// Owners hand over what they like over the API: the first part with the plan, each later one once
/// the mean before it is there.
#[test]
fn daemons_take_parts_over_the_api() {
    let _alone = alone();
    let parties = Parties::new(4);
    let run = "version = 1\ntask = \"rounds\"\nname = \"over-the-api\"\n[data]\nshape = [2]\nreleases = 3\n\
               unit = \"record\"\nrecords = { at_most = 2000 }\nclip = { kind = \"l2\", radius = 1.0 }\n\
               tensors = { left = [1], right = [1] }\n[privacy]\nepsilon = 8.0\n[run]\niteration_ms = 8000\n";
    let digest = parties.plan("plan", run);
    let daemons: Vec<Daemon> = (0..4)
        .map(|party| Daemon::start(&parties, party, "[policy]\nmax_epsilon = 8.0\n"))
        .collect();
    let documents = daemons[0].http.get("/v1/openapi.json").json_of(200);
    let document = Document::new(documents);
    let part = |name: &str, values: &[f64]| {
        write_npy(&parties.path(name), &[1000, values.len()], &values.repeat(1000));
        fs::read(parties.path(name)).expect("written")
    };
    let plan = fs::read(parties.path("plan.json")).expect("a plan");
    for daemon in &daemons {
        let first = part("first.npy", &[0.1, -0.1]);
        let vector = Some(("application/x-npy", &first[..]));
        daemon.submit(&plan, "", vector).json_of(201);
    }
    let place = |round: u32| format!("/v1/runs/{digest}/rounds/{round}");
    let post = |daemon: &Daemon, round: u32, body: &[u8]| {
        let numpy = Some(("application/x-npy", body));
        let reply = daemon.http.bring("POST", &place(round), numpy);
        document.check(&reply);
        reply
    };
    let mean = |daemon: &Daemon, round: u32| {
        let reply = daemon.http.get(&place(round));
        document.check(&reply);
        assert_eq!(reply.status, 200, "{}", reply.text());
        fs::write(parties.path("mean.npy"), &reply.body).expect("writable");
        read_npy(&parties.path("mean.npy")).2
    };
    assert_tensors(&daemons[0], &document, &place(1), &mean(&daemons[0], 1));
    for daemon in &daemons {
        let found = mean(daemon, 1);
        assert!(
            (found[0] - 0.1).abs() < 0.02 && (found[1] + 0.1).abs() < 0.02,
            "{found:?}"
        );
        // Of another round, of another shape, then right, then once more.
        post(daemon, 1, &part("stale.npy", &[0.0, 0.0])).refused(409, "round");
        post(daemon, 3, &part("early.npy", &[0.0, 0.0])).refused(409, "round");
        post(daemon, 2, &part("wide.npy", &[0.0; 3])).refused(422, "body");
        post(daemon, 2, b"no numpy").refused(422, "body");
        let table = daemon.http.bring("POST", &place(2), Some(("text/csv", b"0,0")));
        table.refused(415, "application/x-npy");
        if daemon.name != "alice" {
            assert_eq!(post(daemon, 2, &part("second.npy", &[0.4, 0.0])).status, 204);
            post(daemon, 2, &part("twice.npy", &[0.4, 0.0])).refused(409, "round");
        }
    }
    // Alice gave nothing for round 2: zero counts, and she goes on.
    for daemon in &daemons {
        let found = mean(daemon, 2);
        assert!((found[0] - 0.3).abs() < 0.02, "{found:?}");
        assert_eq!(post(daemon, 3, &part("third.npy", &[0.5, 0.5])).status, 204);
    }
    rounds_end(daemons, &parties, &digest, |daemon| mean(daemon, 3));
}

/// A mean comes as the plan's tensors, `left` and `right`, for who accepts these.
fn assert_tensors(daemon: &Daemon, document: &Document, place: &str, mean: &[f64]) {
    let accept = [("Accept", "application/x-safetensors")];
    let reply = daemon.http.ask("GET", place, &accept, &[]);
    document.check(&reply);
    let header = String::from_utf8_lossy(&reply.body).into_owned();
    assert!(
        header.contains("\"left\"") && header.contains("\"right\""),
        "{header}"
    );
    let numbers: Vec<u8> = mean.iter().flat_map(|x| x.to_le_bytes()).collect();
    assert!(reply.body.ends_with(&numbers), "the same numbers");
}

/// The last mean is each run's result, and nothing is asked for any more.
fn rounds_end(daemons: Vec<Daemon>, parties: &Parties, digest: &str, mean: impl Fn(&Daemon) -> Vec<f64>) {
    for daemon in &daemons {
        // Alice's owner is told what alice missed, and nobody else.
        let (code, missed) = match &daemon.name[..] {
            "alice" => (5, serde_json::json!([2])),
            _ => (0, serde_json::json!([])),
        };
        let ended = daemon.client(["watch", digest]).json_of(code);
        let spans = ended["contributed_nothing"].as_array().expect("spans");
        let rounds: Value = spans.iter().map(|span| span["first"].clone()).collect();
        assert_eq!(rounds, missed, "{ended}");
        assert_eq!(
            (&ended["outcome"], &ended["iteration"]),
            (&"done".into(), &3.into()),
            "{ended}"
        );
        let last = mean(daemon);
        assert!(last.iter().all(|x| (x - 0.5).abs() < 0.02), "{last:?}");
        let output = format!("{}.result.npy", daemon.name);
        daemon.client(["result", digest, "--output", &output]).json_of(0);
        assert_eq!(read_npy(&parties.path(&output)).2, last);
        for round in [0, 4] {
            let place = format!("/v1/runs/{digest}/rounds/{round}");
            daemon.http.get(&place).refused(404, "round");
        }
    }
    for daemon in daemons {
        assert_eq!(daemon.end().0.code, 0);
    }
}

fn script(folder: &Path, text: &str) {
    let path = folder.join("step");
    fs::write(&path, text).expect("writable");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
}

#[test]
fn what_makes_no_rounds_is_refused_by_field() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    prepare(folder, &run_file(WHOLE));
    let refused = |run: String, line: &str, (code, field): (i32, &str)| {
        fs::write(folder.join("run.toml"), run).expect("writable");
        run_in(folder, line.split(' ')).refused_at(code, field);
    };
    let line = "local --inputs tables --run run.toml --json";
    let with = "local --inputs tables --run run.toml --json --program ./step";
    refused(run_file(WHOLE), line, (2, "--program"));
    refused(
        run_file(WHOLE)
            .replace("rounds", "mean")
            .replace("releases = 12\n", ""),
        with,
        (2, "--program"),
    );
    refused(
        run_file(WHOLE).replace("releases = 12\n", ""),
        with,
        (2, "data.releases"),
    );
    refused(
        run_file(&format!("{WHOLE}\n[mechanism]\nkind = \"ppsc\"")),
        with,
        (2, "mechanism.kind"),
    );
}

/// `join` with a program on its own that clips its rows itself, sums instead of means, and what is
/// wrong with it before anything has left.
#[test]
fn parties_join_with_programs_of_their_own() {
    let _alone = alone();
    let parties = Parties::new(4);
    let folder = parties.folder();
    script(folder, ONES);
    let run = "version = 1\ntask = \"rounds\"\nname = \"ones\"\n[data]\nshape = [3]\nreleases = 4\n\
               unit = \"record\"\nrecords = { at_most = 2000 }\nclip = { kind = \"l2\", radius = 1.0 }\nclipped = \"by-program\"\nresult = \"sum\"\n\
               [privacy]\nepsilon = 8.0\n[run]\niteration_ms = 20000\n";
    parties.plan("plan", run);
    let plan = run_in(folder, ["verify", "plan.json", "--full"]).stdout;
    for words in [
        "sums in sequence",
        "each program clips as it says",
        "standard error of the sum",
    ] {
        assert!(plan.contains(words), "{words}: {plan}");
    }
    let join = |party: usize, program: &str, output: &str| {
        let name = &parties.names()[party];
        let line = format!(
            "join plan.json --identity {name}.key --program {program} --records 1000 --output {output} \
             --receipt {name}.json --json"
        );
        start_in(folder, line.split(' '))
    };
    join(0, "./absent", "a.npy").wait().refused_at(2, "--program");
    join(0, "./step", "a.csv").wait().refused_at(2, "--output");
    let without = format!(
        "join plan.json --identity {}.key --input a.npy --output a.npy --json",
        parties.names()[0]
    );
    start_in(folder, without.split(' '))
        .wait()
        .refused_at(2, "--program");
    // The first one's program ends in its third round: nobody but its owner is told.
    let ends = ONES.replace("    header = ", "    if round == 3: break\n    header = ");
    fs::write(folder.join("ends"), ends).expect("writable");
    fs::set_permissions(folder.join("ends"), fs::Permissions::from_mode(0o755)).expect("ours");
    let running: Vec<Running> = (0..4)
        .map(|party| {
            let program = if party == 0 { "./ends" } else { "./step" };
            join(party, program, &format!("mean-{party}.npy"))
        })
        .collect();
    for (party, running) in running.into_iter().enumerate().rev() {
        let object = running.wait().json_of(if party == 0 { 5 } else { 0 });
        assert_eq!(object["outcome"], "done", "{object}");
        let missed = &object["contributed_nothing"];
        match party {
            0 => assert_eq!(
                (&missed[0]["first"], &missed[0]["last"]),
                (&3.into(), &4.into()),
                "{object}"
            ),
            _ => assert!(missed.is_null(), "{object}"),
        }
    }
    let means: Vec<Vec<f64>> = (0..4)
        .map(|party| read_npy(&folder.join(format!("mean-{party}.npy"))).2)
        .collect();
    assert!(means.iter().all(|mean| *mean == means[0]));
    // Each hands over a thousand tenths of the round's number: 400 in the last, three of them.
    let receipt = read_json(&folder.join(format!("{}.json", parties.names()[0])));
    let error = receipt["standard_error"].as_f64().expect("a number");
    assert!((1.0..40.0).contains(&error), "{receipt}");
    assert!(
        means[0].iter().all(|x| (x - 1200.0).abs() < 6.0 * error),
        "{:?}",
        means[0]
    );
    assert_eq!(receipt["result"], "sum", "{receipt}");
    assert!(receipt["weights"][&parties.names()[1]] == 1000.0, "{receipt}");
    assert_eq!(receipt["records"][&parties.names()[1]], 1000, "{receipt}");
}

/// The sum of a thousand rows that have a tenth of the round's number three times.
const ONES: &str = r#"#!/usr/bin/env python3
import struct, sys
from array import array
while True:
    round, length = struct.unpack("<IQ", sys.stdin.buffer.read(12))
    sys.stdin.buffer.read(length)
    if round == 0:
        break
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    values = array("d", [round * 100.0] * 3).tobytes()
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values
    sys.stdout.buffer.write(struct.pack("<IQ", round, len(npy)) + npy)
    sys.stdout.buffer.flush()
"#;

/// Hands over the same sum of both tensors in each round, as a `.safetensors`.
const SUMS: &str = "#!/usr/bin/env python3
import json, struct, sys
places = {'bias': ([2], [0, 8]), 'weight': ([1, 3], [8, 20])}
head = {name: {'dtype': 'F32', 'shape': shape, 'data_offsets': at} for name, (shape, at) in places.items()}
head = json.dumps(head).encode()
body = struct.pack('<Q', len(head)) + head + struct.pack('<5f', 100, 200, 300, 400, 500)
while True:
    round, length = struct.unpack('<IQ', sys.stdin.buffer.read(12))
    sys.stdin.buffer.read(length)
    if round == 0:
        break
    sys.stdout.buffer.write(struct.pack('<IQ', round, len(body)) + body)
    sys.stdout.buffer.flush()
";

/// Tensors that a program has clipped, each by itself: `join` names their coordinates.
#[test]
fn parties_join_with_programs_that_clip_tensors() {
    let _alone = alone();
    let parties = Parties::new(4);
    let folder = parties.folder();
    script(folder, SUMS);
    let run = "version = 1\ntask = \"rounds\"\nname = \"tensors\"\n[data]\nreleases = 2\nunit = \"record\"\n\
               tensors = { bias = [2], weight = [1, 3] }\nrecords = { at_most = 2000 }\nclipped = \"by-program\"\n\
               clip = { kind = \"tensors\", radius = { bias = 1.0, weight = 1.0 } }\n[privacy]\nepsilon = 8.0\n\
               [run]\njoin_ms = 60000\niteration_ms = 20000\n";
    parties.plan("plan", run);
    let join = |name: &String| {
        let line = format!(
            "join plan.json --identity {name}.key --program ./step --records 1000 --output {name}.safetensors"
        );
        start_in(folder, line.split(' '))
    };
    let running: Vec<Running> = parties.names().iter().map(join).collect();
    let means = running.into_iter().zip(parties.names()).map(|(running, name)| {
        let ended = running.wait();
        assert_eq!(ended.code, 0, "{name}: {}{}", ended.stdout, ended.stderr);
        // In the order of names.
        for place in ["bias[0]", "bias[1]", "weight[0,0]", "weight[0,2]"] {
            assert!(ended.stdout.contains(place), "{place}: {}", ended.stdout);
        }
        assert!(!ended.stdout.contains("coordinate"), "{}", ended.stdout);
        fs::read(folder.join(format!("{name}.safetensors"))).expect("a mean")
    });
    let means: Vec<Vec<u8>> = means.collect();
    assert!(means.iter().all(|mean| *mean == means[0]));
}
