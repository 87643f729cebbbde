//! The template of a run of rounds: the last mean is the same file at all nodes, with its whole
//! numbers, types and free text, and nobody's own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use undertone_tests::daemon::Daemon;
use undertone_tests::{Parties, alone, read_json, run_in, write_npy};

/// A model of two tensors that are averaged, and one of whole numbers, with four lines of text.
fn model(steps: i64, w: usize) -> Vec<u8> {
    model_of("tests", steps, w)
}

/// A model whose free text says whom it is for.
fn model_of(whom: &str, steps: i64, w: usize) -> Vec<u8> {
    let text = json!({ "format": "pt", "made": "by hand", "for": whom, "again": "yes" });
    let header = json!({
        "__metadata__": text,
        "b": { "dtype": "F64", "shape": [1], "data_offsets": [0, 8] },
        "steps": { "dtype": "I64", "shape": [], "data_offsets": [8, 16] },
        "w": { "dtype": "F32", "shape": [w], "data_offsets": [16, 16 + 4 * w] },
    });
    let header = header.to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend([0; 8]);
    file.extend(steps.to_le_bytes());
    file.extend(vec![0; 4 * w]);
    file
}

/// Header and data of a model's file.
fn parts(file: &[u8]) -> (Value, &[u8]) {
    let (length, rest) = file.split_first_chunk::<8>().expect("a length");
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    (serde_json::from_slice(header).expect("a header"), data)
}

/// Whether a result is written as the template whose `steps` are 77; its three coordinates.
#[track_caller]
fn assert_of_template(file: &[u8]) -> [f64; 3] {
    let (header, data) = parts(file);
    let template = model(77, 2);
    assert_eq!(header["__metadata__"], parts(&template).0["__metadata__"]);
    for (name, dtype, shape) in [
        ("b", "F64", json!([1])),
        ("w", "F32", json!([2])),
        ("steps", "I64", json!([])),
    ] {
        let tensor = &header[name];
        assert_eq!(
            (&tensor["dtype"], &tensor["shape"]),
            (&dtype.into(), &shape),
            "{name}"
        );
    }
    let at = |name: &str| {
        let at = header[name]["data_offsets"][0].as_u64().expect("an offset") as usize;
        data[at..].to_vec()
    };
    assert_eq!(
        at("steps")[..8],
        77i64.to_le_bytes(),
        "the template's, nobody's own"
    );
    let w = at("w");
    let float = |at: usize| f32::from_le_bytes(w[at..at + 4].try_into().expect("4 bytes")).into();
    let b = f64::from_le_bytes(at("b")[..8].try_into().expect("8 bytes"));
    [b, float(0), float(4)]
}

const RUN: &str = "version = 1\ntask = \"rounds\"\nname = \"models\"\n[data]\nreleases = 2\n\
                   tensors = { b = [1], w = [2] }\nclip = { kind = \"l2\", radius = 1.0 }\nnoise_ok = true\n\
                   template = \"models/start.safetensors\"\n[privacy]\nepsilon = 8.0\n\
                   [run]\niteration_ms = 8000\njoin_ms = 60000\n";

/// Hands over three numbers a round.
const STEP: &str = r#"#!/usr/bin/env python3
import struct, sys
while True:
    round, length = struct.unpack("<IQ", sys.stdin.buffer.read(12))
    sys.stdin.buffer.read(length)
    if round == 0:
        break
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    npy += struct.pack("<3d", 0.5, -0.5, 0.25)
    sys.stdout.buffer.write(struct.pack("<IQ", round, len(npy)) + npy)
    sys.stdout.buffer.flush()
"#;

/// A program, and models beside the run file: the template, one with other tensors, and one with
/// other whole numbers.
fn prepare(folder: &Path) {
    let path = folder.join("step");
    fs::write(&path, STEP).expect("writable");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    fs::create_dir(folder.join("models")).expect("writable");
    for (name, file) in [
        ("start", model(77, 2)),
        ("wide", model(77, 3)),
        ("later", model(78, 2)),
    ] {
        fs::write(folder.join(format!("models/{name}.safetensors")), file).expect("writable");
    }
    fs::write(folder.join("models/numbers.npy"), "none").expect("writable");
    fs::write(folder.join("run.toml"), RUN).expect("writable");
}

fn sha256(file: &[u8]) -> String {
    Sha256::digest(file)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn the_last_mean_is_the_same_file_at_all_nodes_of_a_local_cluster() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    prepare(folder);
    fs::create_dir(folder.join("own")).expect("writable");
    let names = ["a", "b", "c", "d"];
    for (steps, name) in (1..).zip(names) {
        let own = folder.join(format!("own/{name}.safetensors"));
        fs::write(own, model_of(name, steps, 2)).expect("writable");
    }
    let line = "local --inputs own --run run.toml --program ./step --output kept --json";
    let object = run_in(folder, line.split(' ')).json_of(0);
    assert_eq!(
        (&object["outcome"], &object["same_bits"]),
        (&"done".into(), &true.into())
    );
    let files =
        names.map(|name| fs::read(folder.join(format!("kept/{name}/mean.safetensors"))).expect("a mean"));
    assert!(files.iter().all(|file| *file == files[0]), "the same bytes");
    let mean = assert_of_template(&files[0]);
    let error = object["standard_error"].as_f64().expect("a number");
    let off = [mean[0] - 0.5, mean[1] + 0.5, mean[2] - 0.25].map(f64::abs);
    assert!(off.iter().all(|off| *off < 6.0 * error), "{mean:?} ± {error}");
    assert!(
        off.iter().any(|off| *off > 0.01 * error),
        "with noise: {mean:?} ± {error}"
    );
    assert_eq!(
        read_json(&folder.join("kept/plan.json"))["computation"]["template"],
        sha256(&model(77, 2))
    );
}

#[test]
fn another_file_than_the_plans_is_refused_before_anything_leaves() {
    let parties = Parties::new(4);
    let folder = parties.folder();
    prepare(folder);
    let plan = |run: String, (code, field): (i32, &str)| {
        fs::write(folder.join("run.toml"), run).expect("writable");
        let line = "plan run.toml --peers peers.toml --out refused.json --json";
        run_in(folder, line.split(' ')).refused_at(code, field)
    };
    let named = |name: &str| RUN.replace("start.safetensors", name);
    let absent = plan(named("absent.safetensors"), (2, "data.template"));
    assert!(
        absent.to_string().contains("models/absent.safetensors"),
        "{absent}"
    );
    plan(named("numbers.npy"), (2, "data.template"));
    let wide = plan(named("wide.safetensors"), (2, "data.template"));
    assert!(wide.to_string().contains("\\\"w\\\" of shape [3]"), "{wide}");
    let whole = "tensors = { b = [1], w = [2] }";
    plan(RUN.replace(whole, "shape = [3]"), (2, "data.tensors"));
    let mean = RUN
        .replace("\"rounds\"", "\"mean\"")
        .replace("releases = 2\n", "");
    plan(mean, (2, "data.template"));
    let digits = |digits: &str| RUN.replace("\"models/start.safetensors\"", digits);
    plan(digits("{ sha256 = \"AB\" }"), (2, "data.template"));
    // A plan of the digits alone is the plan of the file.
    parties.plan(
        "plan",
        &digits(&format!("{{ sha256 = \"{}\" }}", sha256(&model(77, 2)))),
    );
    parties.plan(
        "bare",
        &RUN.replace("template = \"models/start.safetensors\"\n", ""),
    );
    let join = |plan: &str, more: &str, (code, field): (i32, &str)| {
        let line = format!(
            "join {plan}.json --identity {}.key --program ./step --json {more}",
            parties.names()[0]
        );
        run_in(folder, line.split(' ')).refused_at(code, field)
    };
    let missing = join("plan", "--output mean.safetensors", (2, "--template"));
    assert!(missing.to_string().contains(&sha256(&model(77, 2))), "{missing}");
    let output = "--output mean.safetensors --template models/";
    let other = join("plan", &format!("{output}later.safetensors"), (7, "--template"));
    assert!(other.to_string().contains(&sha256(&model(77, 2))), "{other}");
    join("plan", &format!("{output}absent.safetensors"), (7, "--template"));
    // The plan's own template, which has other tensors than the plan: only its digits were known.
    let wide = fs::read(parties.path("models/wide.safetensors")).expect("a model");
    parties.plan("odd", &digits(&format!("{{ sha256 = \"{}\" }}", sha256(&wide))));
    let odd = join("odd", &format!("{output}wide.safetensors"), (7, "--template"));
    assert!(odd.to_string().contains("\\\"w\\\" of shape [3]"), "{odd}");
    join("bare", &format!("{output}start.safetensors"), (2, "--template"));
}

/// A daemon finds it in its data folder, by its SHA-256.
#[test]
fn daemons_write_the_template_of_their_data_folder() {
    let _alone = alone();
    let parties = Parties::new(4);
    prepare(parties.folder());
    let once = RUN.replace("releases = 2", "releases = 1");
    let digest = parties.plan("plan", &once);
    let daemons: Vec<Daemon> = (0..4)
        .map(|party| Daemon::start(&parties, party, "[policy]\nmax_epsilon = 8.0\n"))
        .collect();
    write_npy(&parties.path("part.npy"), &[3], &[0.5, -0.5, 0.25]);
    let (plan, part) = (
        fs::read(parties.path("plan.json")),
        fs::read(parties.path("part.npy")),
    );
    let (plan, part) = (plan.expect("a plan"), part.expect("a part"));
    let submit = |daemon: &Daemon| daemon.submit(&plan, "", Some(("application/x-npy", &part)));
    let name = format!("{}.safetensors", sha256(&model(77, 2)));
    for daemon in &daemons {
        submit(daemon).refused(400, "template");
        let place = parties.path(&format!("{}.data/{name}", daemon.name));
        fs::write(&place, model(78, 2)).expect("writable");
        submit(daemon).refused(422, "template");
        fs::write(&place, model(77, 2)).expect("writable");
        submit(daemon).json_of(201);
    }
    let files: Vec<Vec<u8>> = daemons
        .iter()
        .map(|daemon| {
            daemon.client(["watch", &digest]).json_of(0);
            let output = format!("{}.safetensors", daemon.name);
            daemon.client(["result", &digest, "--output", &output]).json_of(0);
            fs::read(parties.path(&output)).expect("a result")
        })
        .collect();
    assert_of_template(&files[0]);
    assert!(files.iter().all(|file| *file == files[0]), "the same bytes");
    for daemon in daemons {
        assert_eq!(daemon.end().0.code, 0);
    }
}
