//! docker-compose.yml brought up for real, and taken down whatever happens.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{Ended, Followed, Running, follow_at, undertone};

/// A composition of its own name, with results in a folder of its own.
#[derive(Debug)]
pub struct Composition {
    project: String,
    file: PathBuf,
    /// The port of a page, once [`Composition::open_page`] has opened one.
    page: Option<u16>,
    results: tempfile::TempDir,
}

/// Checks that the machine has the programs that a composition needs, or names the missing one.
pub fn possible() -> Result<(), String> {
    for (program, arguments) in [
        ("docker", ["info", "--format", "{{.ServerVersion}}"].as_slice()),
        ("docker-compose", &["version"]),
    ] {
        let output = Command::new(program)
            .args(arguments)
            .output()
            .map_err(|e| format!("{program}: {e}"))?;
        if !output.status.success() {
            return Err(format!(
                "{program}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ));
        }
    }
    Ok(())
}

/// The top of the repository.
pub fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace")
}

/// Where the image's program lies for its build, seen from the top of the repository.
const PROGRAM: &str = "target/image/undertone";

/// Makes what the offline image copies: the program under test, and the base image.
pub fn build_offline() {
    let program = top().join(PROGRAM);
    std::fs::create_dir_all(program.parent().expect("a folder")).expect("target is writable");
    std::fs::copy(undertone(), &program).expect("the program under test");
    succeeded(Command::new(top().join("deploy/base-image")).arg(&program));
}

/// Kills a container at once.
pub fn kill_container(id: &str) {
    succeeded(Command::new("docker").args(["kill", id]));
}

fn succeeded(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}\n{}\n{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

impl Composition {
    /// A composition of a file such as docker-compose.yml; nothing is started yet.
    pub fn new(file: &Path) -> Self {
        let results = tempfile::Builder::new()
            .prefix("results")
            .tempdir()
            .expect("a folder");
        Composition {
            project: format!("undertone-test-{}", std::process::id()),
            file: file.to_owned(),
            page: None,
            results,
        }
    }

    fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new("docker-compose");
        command.args([
            "--env-file",
            "deploy/offline.env",
            "--project-name",
            &self.project,
            "--project-directory",
            ".",
            "--file",
        ]);
        command.arg(&self.file);
        if let Some(port) = self.page {
            command
                .args(["--file", "deploy/page.yml"])
                .env("UNDERTONE_PAGE_PORT", port.to_string());
        }
        command
            .args(arguments)
            .env("UNDERTONE_RESULTS", self.results.path())
            .env("UNDERTONE_BINARY", PROGRAM)
            .current_dir(top());
        command
    }

    /// Adds the door to a page, at this port of this machine.
    pub fn open_page(&mut self, port: u16) {
        self.page = Some(port);
    }

    /// Starts `docker-compose` with these arguments.
    pub fn start<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Running {
        Running::start(self.command(arguments), None)
    }

    /// Runs `docker-compose` with these arguments, which must succeed; what it printed.
    #[track_caller]
    pub fn run<const N: usize>(&self, arguments: [&str; N]) -> String {
        let ended = self.start(arguments).wait();
        assert_eq!(
            ended.code,
            0,
            "docker-compose {arguments:?}\n{}\n{}\n{}",
            ended.stdout,
            ended.stderr,
            self.logs()
        );
        ended.stdout
    }

    /// Runs `undertone` in a service's container, beside its daemon.
    pub fn exec<const N: usize>(&self, service: &str, arguments: [&str; N]) -> Ended {
        self.start(["exec", "-T", service, "undertone"].into_iter().chain(arguments))
            .wait()
    }

    /// Follows a run's events on a service, until the run ends. Once a service.
    pub fn follow(&self, service: &str, digest: &str) -> (Running, Followed) {
        let events = [
            "exec",
            "-T",
            service,
            "undertone",
            "watch",
            digest,
            "--events",
            "/results/pipe",
        ];
        follow_at(self.command(events), &self.results(service).join("pipe"))
    }

    /// The container of a service, running or not.
    #[track_caller]
    pub fn container(&self, service: &str) -> String {
        // `ps` shows one-shot services that have ended only with --all.
        let id = self.run(["ps", "--all", "--quiet", service]).trim().to_owned();
        assert!(!id.is_empty(), "{service} has no container\n{}", self.logs());
        id
    }

    /// Returns docker's description of a service's container.
    pub fn inspect(&self, service: &str) -> Value {
        let text = succeeded(Command::new("docker").args(["inspect", &self.container(service)]));
        let list: Value = serde_json::from_str(&text).expect("docker prints JSON");
        list[0].clone()
    }

    /// Waits until a one-shot service has ended; its exit code.
    pub fn ended(&self, service: &str) -> i32 {
        let mut docker = Command::new("docker");
        docker.args(["wait", &self.container(service)]);
        let ended = Running::start(docker, None).wait();
        ended
            .stdout
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("docker wait {service}: {}{}", ended.stdout, ended.stderr))
    }

    /// A file out of a service's container.
    pub fn file(&self, service: &str, path: &str) -> Vec<u8> {
        let copy = self.results.path().join("copy");
        let from = format!("{}:{path}", self.container(service));
        succeeded(Command::new("docker").args(["cp", &from]).arg(&copy));
        std::fs::read(copy).expect("copied")
    }

    /// The folder that is mounted into a service for its results.
    pub fn results(&self, service: &str) -> PathBuf {
        self.results.path().join(service)
    }

    /// Returns the last log lines of all services, for a failure's message.
    pub fn logs(&self) -> String {
        let output = self.command(["logs", "--no-color", "--tail", "40"]).output();
        output.map_or_else(
            |e| e.to_string(),
            |o| String::from_utf8_lossy(&o.stdout).into_owned(),
        )
    }
}

impl Drop for Composition {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        let _ = self.command(["down", "--volumes", "--timeout", "10"]).output();
    }
}
