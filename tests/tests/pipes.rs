//! A pipe where a command reads a file that its user names: an error that names it and says what to
//! do, at once. Opening one would wait until somebody writes into it, perhaps for ever.

use std::process::Command;
use std::time::{Duration, Instant};

use undertone_tests::{Parties, run_in};

const RUN: &str = "version = 1\nname = \"pipes\"\n[data]\nnoise_ok = true\nshape = [2]\n";

/// A second, and as much again for each process that the machine has to run beside this one.
const SOON: Duration = Duration::from_secs(5);

/// Three parties with a plan, inputs, and a pipe under a few names.
fn planned() -> Parties {
    let parties = Parties::new(3);
    parties.write_inputs(&[2]);
    parties.plan("plan", RUN);
    for name in ["fifo", "fifo.npy", "fifo.json", "fifo.safetensors"] {
        let made = Command::new("mkfifo").arg(parties.path(name)).status();
        assert!(made.is_ok_and(|made| made.success()), "mkfifo is of POSIX");
    }
    std::fs::write(parties.path("token"), "a".repeat(32)).expect("writable");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(parties.path("token"), private).expect("it is ours");
    parties
}

/// The exit code of a command line that names a pipe, after checking that its error says so.
fn refused(parties: &Parties, line: &str) -> i32 {
    let begun = Instant::now();
    let ended = run_in(parties.folder(), format!("{line} --json").split(' '));
    assert!(begun.elapsed() < SOON, "{line}: {:?}", begun.elapsed());
    let said = ended.refused(ended.code, "a pipe")["error"].to_string();
    let named = ["fifo", "plain file", "saved first"].map(|words| said.contains(words));
    assert_eq!(named, [true; 3], "{line}: {said}");
    ended.code
}

#[test]
fn a_pipe_in_place_of_a_file_is_refused_at_once_and_named() {
    let parties = planned();
    let join = "join plan.json --identity alice.key --input alice.npy --output mean.npy";
    for line in [
        join.replace("plan.json", "fifo"),
        join.replace("alice.key", "fifo"),
        "verify fifo".into(),
        "plan fifo --peers peers.toml --out new.json".into(),
        "plan run.toml --peers fifo --out new.json".into(),
        "identity show fifo".into(),
        "doctor fifo --identity alice.key".into(),
        "doctor plan.json --identity fifo".into(),
        "audit fifo".into(),
        "simulate fifo --parties 3".into(),
        "local --run fifo --nodes 3".into(),
        "status --api 127.0.0.1:9 --token-file fifo".into(),
        "submit fifo --input alice.npy --api 127.0.0.1:9 --token-file token".into(),
        "node --config fifo".into(),
    ] {
        assert_eq!(refused(&parties, &line), 2, "{line}");
    }
    for line in [
        join.replace("alice.npy", "fifo.npy"),
        "predict fifo.json --input alice.npy".into(),
        "receipt fifo".into(),
        "account inca fifo --correlated uniform --independent-std 1 --delta 1e-6".into(),
        "account ppsc fifo --correlated uniform --independent-std 1 --delta 1e-6".into(),
        "account connectivity --parties 3 --graph fifo".into(),
    ] {
        let code = refused(&parties, &line);
        assert!([2, 7].contains(&code), "{line}: {code}");
    }
}

#[test]
fn a_pipe_that_a_file_names_is_refused_at_once() {
    let parties = planned();
    let node = |identity: &str, peers: &str, token: &str| {
        format!(
            "version = 1\nidentity = \"{identity}\"\nstate = \"state\"\ndata = \"data\"\npeers = \"{peers}\"\n\
             [api]\ntoken = \"{token}\"\n"
        )
    };
    std::fs::create_dir(parties.path("data")).expect("a folder");
    for text in [
        node("fifo", "peers.toml", "token"),
        node("alice.key", "fifo", "token"),
        node("alice.key", "peers.toml", "fifo"),
    ] {
        parties.write("node.toml", &text);
        assert_eq!(refused(&parties, "node --config node.toml"), 2, "{text}");
    }
    parties.write(
        "template.toml",
        "version = 1\nname = \"pipes\"\ntask = \"rounds\"\n[data]\ntemplate = \"fifo.safetensors\"\n",
    );
    let line = "plan template.toml --peers peers.toml --out new.json";
    assert_eq!(refused(&parties, line), 2);
}
