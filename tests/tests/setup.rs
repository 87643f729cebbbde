//! `undertone setup`: files that a daemon starts with, asked for or given by flags.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use undertone_tests::daemon::Daemon;
use undertone_tests::ports::Ports;
use undertone_tests::{Ended, Running, left_out, run_in, undertone};

/// Sets one party up by flags alone.
fn set_up(folder: &Path, arguments: &[&str]) -> Ended {
    run_in(folder, [&["setup", "--yes", "--json"], arguments].concat())
}

#[test]
fn a_daemon_starts_from_what_three_setups_wrote() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("tables")).expect("writable");
    let ports = Ports::hold(32);
    let pair = ports.iter().find(|port| ports.contains(&(*port + 1)));
    let listen = format!("127.0.0.1:{}", pair.expect("two beside each other"));
    let alice = [
        "alice",
        "--listen",
        &listen,
        "--data",
        "tables",
        "--epsilon",
        "3.5",
    ];
    let made = set_up(folder.path(), &alice).json_of(0);
    assert_eq!(made["party"]["name"], "alice", "{made}");
    assert_eq!(made["next"], "undertone node --config alice/node.toml");
    let mut peers = fs::read_to_string(folder.path().join("alice/peers.toml")).expect("made");
    for (name, host) in [("bob", "192.0.2.7"), ("carol", "carol.example:9000")] {
        let made = set_up(folder.path(), &[name, "--listen", host]).json_of(0);
        peers += made["peer_lines"].as_str().expect("a text");
    }
    fs::write(folder.path().join("alice/peers.toml"), peers).expect("writable");
    let key = fs::metadata(folder.path().join("alice/identity.key")).expect("made");
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    let mut command = Command::new(undertone());
    command
        .args(["node", "--config", "alice/node.toml"])
        .current_dir(folder.path());
    let state = folder.path().join("alice/state");
    let daemon = Daemon::of(Running::start(command, None), "alice", folder.path(), &state);
    let status = run_in(folder.path(), ["status", "--json", "--config", "alice/node.toml"]).json_of(0);
    assert_eq!(status["party"], "alice", "{status}");
    assert_eq!(status["budgets"][0]["data_set"], "data", "{status}");
    assert_eq!(status["budgets"][0]["epsilon"], 3.5, "{status}");
    let (ended, _) = daemon.end();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

/// Runs `setup` for somebody who types these lines.
fn typed(folder: &Path, arguments: &[&str], lines: &str) -> (i32, String) {
    let mut command = Command::new(undertone());
    command
        .arg("setup")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env("XDG_CONFIG_HOME", folder.join("settings"));
    let mut child = command.spawn().expect("it starts");
    let mut input = child.stdin.take().expect("piped");
    // It may end before it has read all.
    let _ = input.write_all(lines.as_bytes());
    drop(input);
    let ended = child.wait_with_output().expect("it ends");
    let said = [ended.stdout, ended.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (ended.status.code().unwrap_or(-1), said.concat())
}

#[test]
fn answers_are_asked_for_and_a_unit_is_written_if_wanted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, said) = typed(
        folder.path(),
        &["Clinic 7"],
        "clinic-7\n\nclinic.example\n2\nyes\n",
    );
    assert_eq!(code, 0, "{said}");
    for part in [
        "Name of this party [party]:",
        "Folder with data",
        "Where the others reach",
        "epsilon of all runs",
        "/dns/clinic.example/tcp/7001",
        "/dns/clinic.example/tcp/7002",
        "systemctl --user enable --now undertone",
    ] {
        assert!(said.contains(part), "{part} is missing\n{said}");
    }
    let node = fs::read_to_string(folder.path().join("Clinic 7/node.toml")).expect("made");
    // A name may lead to a router: this machine listens at all its own addresses.
    assert!(node.contains("private = \"/ip4/0.0.0.0/tcp/7001\""), "{node}");
    assert!(
        node.contains("epsilon = 2.0") && node.contains("max_epsilon = 1.0"),
        "{node}"
    );
    assert!(!node.contains("\ndata = "), "{node}");
    let unit = folder.path().join("settings/systemd/user/undertone.service");
    let text = fs::read_to_string(&unit).expect("made");
    assert!(text.contains("Clinic 7/node.toml\""), "{text}");
    let verify = Command::new("systemd-analyze")
        .args(["--user", "verify"])
        .arg(&unit)
        .env("XDG_RUNTIME_DIR", folder.path())
        .output();
    let Ok(verified) = verify else {
        return left_out("the unit of a user", "systemd-analyze is absent");
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    let about_ours: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("undertone.service"))
        .collect();
    assert!(about_ours.is_empty(), "{said}");
}

#[test]
fn nothing_is_written_before_all_answers_are_sound_and_nothing_over_what_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, said) = typed(folder.path(), &["a"], "alice\n");
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("--yes"), "{said}");
    let (code, said) = typed(folder.path(), &["a"], "alice\n\n\n\nmaybe\n");
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("neither yes nor no"), "{said}");
    for (flag, wrong) in [
        ("--name", "Alice A"),
        ("--data", "absent"),
        ("--listen", "0.0.0.0"),
        ("--epsilon", "-1"),
        ("--epsilon", "inf"),
    ] {
        set_up(folder.path(), &["a", flag, wrong]).refused_at(2, flag);
    }
    assert!(!folder.path().join("a").exists(), "a refused setup left a folder");
    fs::create_dir(folder.path().join("a")).expect("writable");
    fs::write(folder.path().join("a/node.toml"), "mine").expect("writable");
    let refused = set_up(folder.path(), &["a"]).refused_at(2, "DIR");
    assert!(refused.to_string().contains("node.toml"), "{refused}");
    let left: Vec<_> = fs::read_dir(folder.path().join("a"))
        .expect("made")
        .flatten()
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let kept = fs::read_to_string(folder.path().join("a/node.toml")).expect("kept");
    assert_eq!(kept, "mine");
}
