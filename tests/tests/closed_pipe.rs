//! Output whose reader has left (`| head`): no panic, no message, and no end of a daemon.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use undertone_tests::daemon::Daemon;
use undertone_tests::{Parties, Running, alone, undertone};

const RUN: &str =
    "version = 1\nname = \"pipe\"\n[data]\nnoise_ok = true\nshape = [8]\n[run]\njoin_ms = 60000\n";

/// What a shell shows for a process that SIGPIPE ended.
const NO_READER: i32 = 141;

/// The end of a pipe that nobody reads.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn command<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(undertone());
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs `undertone` with what stands in a line, its standard output unread: it says nothing at all;
/// its exit code.
#[track_caller]
fn quietly(folder: &Path, line: &str) -> Option<i32> {
    let mut command = command(folder, line.split_whitespace());
    let ended = command.stdout(unread()).output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "undertone {line}");
    ended.status.code()
}

/// The daemon of the first party. All that it prints goes into one pipe, whose reader leaves after
/// five lines.
fn daemon_whose_reader_leaves(parties: &Parties) -> Daemon {
    let file = Daemon::configure(parties, 0, "");
    let log = parties.path("log");
    mkfifo(&log, Mode::S_IRUSR | Mode::S_IWUSR).expect("a named pipe");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "exec \"$0\" node --config \"$1\" -vv >log 2>&1"])
        .arg(undertone())
        .arg(&file)
        .current_dir(parties.folder());
    let running = Running::start(shell, None);
    let log = BufReader::new(File::open(log).expect("the shell opens it, too"));
    let lines: Vec<String> = log.lines().take(5).map_while(Result::ok).collect();
    assert_eq!(lines.len(), 5, "{lines:?}");
    Daemon::follow(parties, 0, running)
}

#[test]
fn a_daemon_outlives_the_reader_of_its_log() {
    let _alone = alone();
    let parties = Parties::new(4);
    let daemon = daemon_whose_reader_leaves(&parties);
    let status = daemon.client(["status"]).json_of(0);
    assert!(status.is_object(), "{status}");
    let (ended, _) = daemon.end();
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn clients_end_quietly_when_nobody_reads() {
    let _alone = alone();
    let parties = Parties::new(4);
    parties.write_inputs(&[8]);
    let digest = parties.plan("run", RUN);
    let daemon = Daemon::start(&parties, 0, "");
    let client = |line: &str| quietly(parties.folder(), &format!("{line} --config alice.node.toml"));
    assert_eq!(client("status"), Some(0));
    assert_eq!(client("status --json"), Some(0));
    assert_eq!(client("status 00 --json"), Some(2), "a failure keeps its code");
    assert_eq!(client("submit run.json --input alice.npy"), Some(0));
    // The others never come: whoever follows the run for nobody ends, and the run does not.
    assert_eq!(client(&format!("watch {digest}")), Some(NO_READER));
    assert_eq!(client(&format!("watch {digest} --events -")), Some(NO_READER));
    let run = daemon.http.get(&format!("/v1/runs/{digest}")).json_of(200);
    assert_eq!(run["state"], "gathering", "{run}");
    assert_eq!(client(&format!("withdraw {digest}")), Some(0));
    assert_eq!(daemon.end().0.code, 0);
}

#[test]
fn commands_end_quietly_when_nobody_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let gaussian = "account gaussian --delta 1e-6 --mu 1";
    for (line, code) in [
        (gaussian, 0),
        (&format!("{gaussian} --json"), 0),
        (
            "identity new --out a.key --name a --private /ip4/127.0.0.1/tcp/1 --public /ip4/127.0.0.1/tcp/2",
            0,
        ),
        ("identity show a.key", 0),
        ("identity show absent.key --json", 2),
        ("--help", 0),
        ("--no-such-flag --json", 2),
    ] {
        assert_eq!(quietly(folder.path(), line), Some(code), "{line}");
    }
}

#[test]
fn a_local_run_ends_as_it_would_have_when_nobody_reads() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let line = "local --nodes 4 --dimension 10 --round-ms 60000 --output kept";
    let status = command(folder.path(), line.split(' '))
        .stdout(unread())
        .stderr(unread())
        .status()
        .expect("it starts");
    assert_eq!(status.code(), Some(0));
    assert!(folder.path().join("kept/summary.json").exists());
}

#[test]
fn an_answer_that_cannot_be_written_is_reported() {
    let full = File::options().write(true).open("/dev/full");
    let Ok(full) = full else {
        return undertone_tests::left_out("an_answer_that_cannot_be_written_is_reported", "/dev/full");
    };
    let gaussian = "account gaussian --delta 1e-6 --mu 1".split(' ');
    let ended = command(Path::new("."), gaussian).stdout(full).output();
    let ended = ended.expect("it starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        ended.status.code() == Some(75) && said.contains("standard output cannot be written"),
        "{said}"
    );
}
