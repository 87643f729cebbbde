//! Processes under watch: started, followed by their events, and ended by a watchdog at the latest.
//!
//! Nothing here sleeps. A process's events come through a named pipe, so that waiting for one is
//! reading.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::pty::{OpenptyResult, openpty};
use nix::sys::signal::{kill, killpg};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::Value;

use crate::undertone;

pub use nix::sys::signal::Signal;

/// No process of ours takes as long on any machine that can build it; the watchdog kills what does.
const LONGEST: Duration = Duration::from_secs(300);

/// Held by a test that starts many processes: one such test at a time, so that two cores are enough
/// for its deadlines.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The output of a command and how it ended.
#[derive(Debug)]
pub struct Ended {
    /// The process's exit code, -1 if a signal ended it.
    pub code: i32,
    /// The text that it wrote to standard output.
    pub stdout: String,
    /// The text that it wrote to standard error.
    pub stderr: String,
}

impl Ended {
    /// The one JSON object on standard output.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("not one JSON object: {e}\n{}\n{}", self.stdout, self.stderr))
    }

    /// The one JSON object on standard output, after checking the exit code.
    #[track_caller]
    pub fn json_of(&self, code: i32) -> Value {
        assert_eq!(self.code, code, "exit code\n{}\n{}", self.stdout, self.stderr);
        self.json()
    }

    /// Checks that this is a refusal under `--json`: the error object of the contract, this exit
    /// code, and a message, field or hint that says `about`. Nothing else may be on standard
    /// output.
    #[track_caller]
    pub fn refused(&self, code: i32, about: &str) -> Value {
        let object = self.json_of(code);
        let keys = |value: &Value| {
            value
                .as_object()
                .map(|o| o.keys().cloned().collect::<Vec<_>>())
                .unwrap_or_default()
        };
        assert_eq!(keys(&object), ["error", "exit_code"], "{object}");
        assert_eq!(object["exit_code"], code, "{object}");
        assert_eq!(
            keys(&object["error"]),
            ["field", "hint", "kind", "message"],
            "{object}"
        );
        assert!(
            object["error"]["kind"].is_string() && object["error"]["message"].is_string(),
            "{object}"
        );
        assert!(
            object["error"].to_string().contains(about),
            "{object} should speak of {about}"
        );
        object
    }

    /// Checks that the refusal names this field.
    #[track_caller]
    pub fn refused_at(&self, code: i32, field: &str) -> Value {
        let object = self.refused(code, "");
        let found = object["error"]["field"].as_str().unwrap_or_default();
        assert!(found.contains(field), "{object} should name the field {field}");
        object
    }
}

/// A process and all that it started: ended together.
#[derive(Debug)]
pub struct Running {
    what: String,
    group: Pid,
    begun: Instant,
    ended: Receiver<ExitStatus>,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
}

/// Starts `undertone` with these arguments in a folder.
pub fn start_in<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Running {
    let mut command = Command::new(undertone());
    command.args(arguments).current_dir(folder);
    Running::start(command, None)
}

/// Starts `undertone` with these arguments on a machine without wide vector instructions, as far as
/// libraries that look for them at run time are concerned.
pub fn start_narrow_in<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Running {
    let mut command = Command::new(undertone());
    command.args(arguments).current_dir(folder);
    command.env(
        "GLIBC_TUNABLES",
        "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX2,-AVX,-FMA,-FMA4,-AVX_Fast_Unaligned_Load",
    );
    Running::start(command, None)
}

/// Runs `undertone` with these arguments in a folder.
pub fn run_in<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Ended {
    start_in(folder, arguments).wait()
}

/// Runs `undertone` for a reader whose window has this many columns.
pub fn run_within<S: AsRef<OsStr>>(
    columns: usize,
    folder: &Path,
    arguments: impl IntoIterator<Item = S>,
) -> Ended {
    let mut command = Command::new(undertone());
    command
        .args(arguments)
        .current_dir(folder)
        .env("COLUMNS", columns.to_string());
    Running::start(command, None).wait()
}

/// Runs `undertone` as a person does who looks on: its standard output is a terminal.
pub fn run_on_terminal<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Ended {
    let OpenptyResult { master, slave } = openpty(None, None).expect("a pseudo-terminal");
    let mut command = Command::new(undertone());
    command.args(arguments).current_dir(folder).stdout(slave);
    Running::spawn(command, None, Some(master.into())).wait()
}

/// Runs `undertone` while somebody watches its standard error, which is a terminal; returns what
/// that showed, each state of a line that changes in place.
pub fn watched_in<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> String {
    let OpenptyResult { master, slave } = openpty(None, None).expect("a pseudo-terminal");
    let mut command = Command::new(undertone());
    command
        .args(arguments)
        .current_dir(folder)
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(slave);
    let mut child = command.spawn().expect("it starts");
    drop(command);
    let shown = drain(File::from(master));
    let status = child.wait().expect("a child can be waited for");
    let shown = shown.join().expect("a reader");
    assert!(status.success(), "{shown}");
    shown
}

/// Starts `undertone` with these arguments and `--events`, and follows what it tells.
pub fn follow_in<S: AsRef<OsStr>>(
    folder: &Path,
    arguments: impl IntoIterator<Item = S>,
) -> (Running, Followed) {
    let pipes = tempfile::Builder::new()
        .prefix("events")
        .tempdir()
        .expect("a folder for the pipe");
    let pipe = pipes.path().join("pipe");
    let mut command = Command::new(undertone());
    command
        .args(arguments)
        .arg("--events")
        .arg(&pipe)
        .current_dir(folder);
    let (running, mut followed) = follow_at(command, &pipe);
    followed._pipes = Some(pipes);
    (running, followed)
}

/// Starts a command that writes its events to this path, whoever it does that as, and follows what
/// it tells.
pub fn follow_at(command: Command, pipe: &Path) -> (Running, Followed) {
    mkfifo(pipe, Mode::S_IRUSR | Mode::S_IWUSR).expect("a named pipe");
    std::fs::set_permissions(pipe, std::fs::Permissions::from_mode(0o622)).expect("ours");
    let running = Running::start(command, Some(pipe.to_owned()));
    (running, Followed::new(pipe.to_owned()))
}

/// Lets a reader of the pipe go that waits for a writer, or will begin to soon: opening for writing
/// succeeds once there is a reader.
fn let_go(pipe: &File) {
    let pipe = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    // Nobody sends: it only paces the trying.
    let (_sender, pace) = channel::<()>();
    for _ in 0..500 {
        let opened = OpenOptions::new()
            .write(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(&pipe);
        match opened {
            // ENXIO: no reader yet, or none any more.
            Err(e) if e.raw_os_error() == Some(Errno::ENXIO as i32) => {
                let _ = pace.recv_timeout(Duration::from_millis(20));
            }
            _ => return,
        }
    }
}

impl Running {
    /// Starts a command as a process group of its own. `pipe`: a named pipe whose reader must not
    /// wait for ever if the process never opens it.
    pub fn start(mut command: Command, pipe: Option<PathBuf>) -> Self {
        command.stdout(Stdio::piped());
        Running::spawn(command, pipe, None)
    }

    /// `shown`: where its standard output comes from, if that is no pipe.
    fn spawn(mut command: Command, pipe: Option<PathBuf>, shown: Option<File>) -> Self {
        let what = format!("{command:?}");
        if !command.get_envs().any(|(name, _)| name == "COLUMNS") {
            // So that a test finds a sentence on one line.
            command.env("COLUMNS", "1000");
        }
        command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        // The pipe itself: by the time the process ends, its path may name another one's.
        let pipe = pipe.map(|path| {
            let mut held = OpenOptions::new();
            held.read(true).custom_flags(OFlag::O_PATH.bits());
            held.open(&path).expect("a named pipe")
        });
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{what}: {e}"));
        // A terminal ends once the last one has closed it.
        drop(command);
        let group = Pid::from_raw(child.id() as i32);
        let stdout = shown.map(drain).or_else(|| child.stdout.take().map(drain));
        let stderr = child.stderr.take().map(drain);
        let (sender, ended) = channel();
        std::thread::spawn(move || {
            let status = child.wait().expect("a child can be waited for");
            let _ = sender.send(status);
            if let Some(pipe) = pipe {
                let_go(&pipe);
            }
        });
        Running {
            what,
            group,
            begun: Instant::now(),
            ended,
            stdout,
            stderr,
        }
    }

    /// The id of the running process.
    pub fn pid(&self) -> i32 {
        self.group.as_raw()
    }

    /// Waits for its end. A process that takes longer than the watchdog allows is killed and fails
    /// the test.
    pub fn wait(mut self) -> Ended {
        let status = self
            .ended
            .recv_timeout(LONGEST.saturating_sub(self.begun.elapsed()));
        if status.is_err() {
            let _ = killpg(self.group, Signal::SIGKILL);
        }
        let read = |thread: Option<JoinHandle<String>>| {
            thread.map_or(String::new(), |t| t.join().expect("a reader does not panic"))
        };
        let (stdout, stderr) = (read(self.stdout.take()), read(self.stderr.take()));
        let status = status
            .unwrap_or_else(|_| panic!("{} did not end within {LONGEST:?}\n{stdout}\n{stderr}", self.what));
        Ended {
            code: status.code().unwrap_or(-1),
            stdout,
            stderr,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.stdout.is_some() {
            // A test that failed half-way leaves no nodes behind.
            let _ = killpg(self.group, Signal::SIGKILL);
        }
    }
}

fn drain(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = vec![];
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Sends a signal to a process that a test started.
pub fn signal(pid: i32, signal: Signal) {
    assert!(signal_if_alive(pid, signal), "{signal} to {pid}: it is gone");
}

/// Sends a signal to a process that may have ended already. False: it has.
pub fn signal_if_alive(pid: i32, signal: Signal) -> bool {
    match kill(Pid::from_raw(pid), signal) {
        Ok(()) => true,
        Err(Errno::ESRCH) => false,
        Err(e) => panic!("{signal} to {pid}: {e}"),
    }
}

/// The events of a process, as they come.
#[derive(Debug)]
pub struct Followed {
    lines: Receiver<String>,
    seen: Vec<Value>,
    _pipes: Option<tempfile::TempDir>,
}

impl Followed {
    fn new(pipe: PathBuf) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let Ok(file) = File::open(pipe) else { return };
            for line in BufReader::new(file).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Followed {
            lines,
            seen: vec![],
            _pipes: None,
        }
    }

    fn next(&mut self) -> Option<Value> {
        match self.lines.recv_timeout(LONGEST) {
            Ok(line) => {
                let event: Value =
                    serde_json::from_str(&line).unwrap_or_else(|e| panic!("not an event: {e}\n{line}"));
                self.seen.push(event.clone());
                Some(event)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no event for {LONGEST:?}; {}", self.reported()),
        }
    }

    fn reported(&self) -> String {
        let lines: Vec<String> = self.seen.iter().map(Value::to_string).collect();
        format!("told so far:\n{}", lines.join("\n"))
    }

    /// Reads on until an event that is wanted.
    #[track_caller]
    pub fn until(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        while let Some(event) = self.next() {
            if wanted(&event) {
                return event;
            }
        }
        panic!("ended without {what}; {}", self.reported());
    }

    /// Reads on until this many `spawned` events were told: (party, process id) in that order.
    pub fn spawned(&mut self, count: usize) -> Vec<(String, i32)> {
        let mut nodes = vec![];
        while nodes.len() < count {
            let event = self.until("spawned", |e| e["event"] == "spawned");
            let pid = event["pid"].as_i64().expect("a process id") as i32;
            nodes.push((event["party"].as_str().expect("a name").to_owned(), pid));
        }
        nodes
    }

    /// Reads to the end; all events since the start.
    pub fn rest(mut self) -> Vec<Value> {
        while self.next().is_some() {}
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_never_opens_its_pipe_does_not_hold_its_reader() {
        let (running, followed) = follow_in(Path::new("."), ["--no-such-flag"]);
        assert_eq!(running.wait().code, 2);
        assert!(followed.rest().is_empty());
    }

    #[test]
    fn a_process_that_has_ended_does_not_touch_the_pipe_of_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let script = |text: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", text]).current_dir(folder.path());
            command
        };
        let (first, events) = follow_at(script("echo 1 > pipe"), &pipe);
        assert_eq!(first.wait().code, 0);
        assert_eq!(events.rest(), [1]);
        std::fs::remove_file(&pipe).expect("a pipe");
        // Longer than the first one's end is looked at again.
        let (second, events) = follow_at(script("sleep 0.3; echo 2 > pipe"), &pipe);
        assert_eq!(events.rest(), [2]);
        assert_eq!(second.wait().code, 0);
    }

    #[test]
    fn what_a_test_leaves_running_is_killed() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR).expect("a named pipe");
        let mut command = Command::new("sh");
        command
            .args(["-c", "(echo begun; exec tail -f /dev/null) > pipe & wait"])
            .current_dir(folder.path());
        let running = Running::start(command, Some(pipe.clone()));
        let mut reader = BufReader::new(File::open(pipe).expect("the process opens it, too"));
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        assert_eq!(line, "begun\n");
        drop(running);
        // The grandchild holds the pipe open: this returns once it is gone.
        assert_eq!(reader.read_line(&mut line).expect("the end"), 0);
    }
}
