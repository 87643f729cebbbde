//! A release of the program that the tests run: made twice, listed, installed, upgraded, removed.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use undertone_tests::booted::{self, Machine};
use undertone_tests::dist::TOOLS;
use undertone_tests::python::python;
use undertone_tests::{left_out, read_json, undertone};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Whether a release can be made here; says what is absent otherwise.
fn is_possible(test: &str) -> bool {
    let absent = TOOLS.iter().find(|tool| !tool.is_optional && !tool.is_there());
    if let Some(tool) = absent {
        left_out(test, &format!("{} is absent", tool.name));
    }
    absent.is_none()
}

fn succeeded(command: &mut Command) -> String {
    let ended: Output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{command:?}\n{said}\n{errors}");
    said
}

fn xtask(out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["dist", "--binary"]).arg(undertone());
    command
        .arg("--out")
        .arg(out)
        .env("SOURCE_DATE_EPOCH", "1790000000");
    command
}

/// The folder of a release, made once for all tests.
fn made() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dist");
        let _ = fs::remove_dir_all(&out);
        succeeded(&mut xtask(&out));
        out
    })
}

/// The folder of a release of a lower version, made once for all tests.
fn older() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dist-older");
        let _ = fs::remove_dir_all(&out);
        succeeded(xtask(&out).args(["--version", "0.1.9"]));
        out
    })
}

/// The one file of a release with this ending.
fn file(out: &Path, ending: &str) -> PathBuf {
    let paths = fs::read_dir(out)
        .expect("it was made")
        .flatten()
        .map(|entry| entry.path());
    let mut found: Vec<PathBuf> = paths
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    assert_eq!(found.len(), 1, "*{ending}: {found:?}");
    found.remove(0)
}

fn contents(out: &Path) -> Vec<(String, Vec<u8>)> {
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, fs::read(entry.path()).expect("readable"))
    };
    let mut files: Vec<_> = fs::read_dir(out).expect("made").flatten().map(read).collect();
    files.sort();
    files
}

#[test]
fn a_release_that_is_made_twice_has_the_same_bytes() {
    if !is_possible("a release twice") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // What could show in the bytes: another time zone, language, folder, and mask of modes.
    let mut again = Command::new("sh");
    again.args(["-c", "umask 077; exec \"$@\"", "sh"]);
    let xtask = xtask(folder.path());
    again.arg(xtask.get_program()).args(xtask.get_args());
    again
        .current_dir(folder.path())
        .env("SOURCE_DATE_EPOCH", "1790000000")
        .env("TZ", "Asia/Tokyo")
        .env("LC_ALL", "C");
    succeeded(&mut again);
    let (first, second) = (contents(made()), contents(folder.path()));
    let names: Vec<&String> = first.iter().map(|(name, _)| name).collect();
    assert_eq!(names, second.iter().map(|(name, _)| name).collect::<Vec<_>>());
    assert_eq!(names.len(), 6, "{names:?}");
    // The list of digests, which differs with any of them, comes first by its name.
    for (one, other) in first.iter().zip(&second).rev() {
        assert!(one.1 == other.1, "{} differs", one.0);
    }
    let mut check = Command::new("sha256sum");
    succeeded(
        check
            .args(["--check", "--strict", "SHA256SUMS"])
            .current_dir(made()),
    );
}

#[test]
fn an_archive_has_the_program_pages_completions_and_notices() {
    if !is_possible("the archive") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let archive = file(made(), "-x86_64-linux.tar.gz");
    succeeded(
        Command::new("tar")
            .arg("-xzf")
            .arg(&archive)
            .current_dir(folder.path()),
    );
    let at = |path: &str| folder.path().join(format!("undertone-{VERSION}")).join(path);
    for path in [
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "share/man/man1/undertone.1",
        "share/man/man1/undertone-plan.1",
        "share/bash-completion/completions/undertone",
        "share/zsh/vendor-completions/_undertone",
        "share/fish/vendor_completions.d/undertone.fish",
        "deploy/undertone.service",
    ] {
        let found = fs::metadata(at(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert!(found.len() > 100 && found.mode() & 0o777 == 0o644, "{path}");
    }
    let said = succeeded(Command::new(at("bin/undertone")).arg("--version"));
    assert_eq!(said, format!("undertone {VERSION}\n"));
    let notices = fs::read_to_string(at("THIRD-PARTY")).expect("text");
    assert!(
        notices.contains("\nsnow 0.") && notices.contains("Apache License"),
        "{notices}"
    );
    let bill: Value = read_json(&at("sbom.cdx.json"));
    assert_eq!(
        (&bill["bomFormat"], &bill["specVersion"]),
        (&"CycloneDX".into(), &"1.5".into())
    );
    assert_eq!(bill["metadata"]["timestamp"], "2026-09-21T14:13:20Z");
    let components = bill["components"].as_array().expect("a list").len();
    assert!(components > 100, "{components}");
}

#[test]
fn a_package_lists_its_files_and_needs() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        return left_out("the Debian package", "dpkg-deb is absent");
    }
    if !is_possible("the Debian package") {
        return;
    }
    let package = file(made(), "_amd64.deb");
    let field = |name: &str| {
        let said = succeeded(Command::new("dpkg-deb").arg("--field").arg(&package).arg(name));
        said.trim().to_owned()
    };
    assert_eq!(
        (field("Package"), field("Version")),
        ("undertone".into(), VERSION.into())
    );
    assert!(
        field("Depends").starts_with("libc6 (>= 2."),
        "{}",
        field("Depends")
    );
    succeeded(Command::new("dpkg-deb").arg("--info").arg(&package));
    let listed = succeeded(Command::new("dpkg-deb").arg("--contents").arg(&package));
    for path in [
        "./usr/bin/undertone",
        "./usr/lib/systemd/system/undertone.service",
        "./usr/lib/sysusers.d/undertone.conf",
        "./usr/lib/tmpfiles.d/undertone.conf",
        "./usr/share/man/man1/undertone.1.gz",
        "./usr/share/doc/undertone/copyright",
        "./usr/share/doc/undertone/THIRD-PARTY",
        "./etc/undertone/",
    ] {
        assert!(
            listed.lines().any(|line| line.ends_with(path)),
            "{path}\n{listed}"
        );
    }
    assert!(
        listed.lines().all(|line| line.contains(" root/root ")),
        "{listed}"
    );
    assert!(!listed.contains("/var/"), "state belongs to no package\n{listed}");
}

#[test]
fn an_image_is_loaded_and_runs_the_program_without_rights() {
    if Command::new("docker")
        .arg("version")
        .output()
        .is_ok_and(|ended| !ended.status.success())
    {
        return left_out("the container's image", "no docker daemon");
    }
    if !is_possible("the container's image") {
        return;
    }
    let image = file(made(), "-oci.tar");
    let docker = |words: &str| {
        let mut command = Command::new("docker");
        command.args(words.split(' '));
        succeeded(&mut command)
    };
    let tag = format!("undertone:{VERSION}");
    let loaded = docker(&format!("load --input {}", image.display()));
    assert!(loaded.contains(&tag), "{loaded}");
    let run = format!("run --rm --network none --read-only {tag}");
    assert_eq!(
        docker(&format!("{run} --version")),
        format!("undertone {VERSION}\n")
    );
    // It may write where its state belongs, and nowhere else.
    let made = docker(&format!(
        "run --rm --network none {tag} identity new --out /var/lib/undertone/a.key --json"
    ));
    assert!(made.contains("\"id\""), "{made}");
    let mut refused = Command::new("docker");
    refused.args([
        "run",
        "--rm",
        "--network",
        "none",
        &tag,
        "identity",
        "new",
        "--out",
        "/etc/a.key",
    ]);
    let refused = refused.output().expect("it runs");
    assert!(!refused.status.success(), "{refused:?}");
    docker(&format!("rmi {tag}"));
}

/// Each blob has its digest as its name: what registries and other engines go by.
#[test]
fn an_image_is_an_oci_layout() {
    if !is_possible("the container's image") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut unpack = Command::new("tar");
    unpack
        .arg("-xf")
        .arg(file(made(), "-oci.tar"))
        .current_dir(folder.path());
    succeeded(&mut unpack);
    let blobs = folder.path().join("blobs/sha256");
    let mut names = Command::new("sh");
    names.args([
        "-c",
        "for f in *; do echo \"$f  $f\"; done | sha256sum --check --strict",
    ]);
    succeeded(names.current_dir(&blobs));
    let read = |value: &Value| {
        let digest = value["digest"].as_str().expect("a digest");
        let path = blobs.join(digest.trim_start_matches("sha256:"));
        assert_eq!(
            fs::metadata(&path).expect("there").len(),
            value["size"].as_u64().expect("a size")
        );
        path
    };
    let index = read_json(&folder.path().join("index.json"));
    let manifest = read_json(&read(&index["manifests"][0]));
    let config = read_json(&read(&manifest["config"]));
    assert_eq!(config["config"]["User"], "10001:10001");
    let mut listed = Command::new("tar");
    listed.arg("-tvzf").arg(read(&manifest["layers"][0]));
    let listed = succeeded(&mut listed);
    for (owner, path) in [
        ("root/root", "usr/local/bin/undertone"),
        ("root/root", "usr/share/doc/undertone/THIRD-PARTY"),
        ("10001/10001", "var/lib/undertone/"),
    ] {
        let is_it = |line: &&str| line.ends_with(&format!(" {path}"));
        let line = listed
            .lines()
            .find(is_it)
            .unwrap_or_else(|| panic!("{path}\n{listed}"));
        assert!(line.contains(owner), "{line}");
    }
    assert!(!listed.contains("chown"), "{listed}");
}

/// A system with nothing but `dpkg`'s own records.
struct EmptySystem(tempfile::TempDir);

impl EmptySystem {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for path in ["var/lib/dpkg/updates", "var/lib/dpkg/info", "etc"] {
            fs::create_dir_all(folder.path().join(path)).expect("writable");
        }
        fs::write(folder.path().join("var/lib/dpkg/status"), "").expect("writable");
        EmptySystem(folder)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Runs `dpkg` on it. The package's scripts run outside: there is no shell in it.
    fn dpkg(&self, arguments: &[&Path]) -> String {
        let mut command = Command::new("dpkg");
        command
            .arg(format!("--root={}", self.0.path().display()))
            .args(["--force-script-chrootless", "--force-depends", "--force-bad-path"])
            .args(arguments)
            .env("LC_ALL", "C");
        succeeded(&mut command)
    }
}

#[test]
fn a_package_keeps_the_state_through_upgrade_removal_and_purge() {
    for program in ["dpkg", "systemd-sysusers", "systemd-tmpfiles"] {
        if Command::new(program).arg("--version").output().is_err() {
            return left_out("installing the package", &format!("{program} is absent"));
        }
    }
    if !nix::unistd::geteuid().is_root() {
        return left_out("installing the package", "not root");
    }
    if !is_possible("installing the package") {
        return;
    }
    let system = EmptySystem::new();
    let said = system.dpkg(&["-i".as_ref(), &file(older(), "_amd64.deb")]);
    assert!(said.contains("make an identity"), "{said}");
    let users = fs::read_to_string(system.at("etc/passwd")).expect("made");
    assert!(users.contains("undertone:"), "{users}");
    let home = fs::metadata(system.at("var/lib/undertone")).expect("made");
    assert_eq!(home.permissions().mode() & 0o777, 0o700);
    let kept = [
        "var/lib/undertone/identity.key",
        "var/lib/undertone/identity.key.spent/marks",
        "var/lib/undertone/state/ledger",
        "etc/undertone/node.toml",
    ];
    for path in kept {
        fs::create_dir_all(system.at(path).parent().expect("a folder")).expect("writable");
        fs::write(system.at(path), path).expect("writable");
    }
    let all_kept = || {
        let is_kept = |path: &&str| fs::read_to_string(system.at(path)).is_ok_and(|found| found == **path);
        assert!(kept.iter().all(is_kept), "something is lost");
    };
    let said = system.dpkg(&["-i".as_ref(), &file(made(), "_amd64.deb")]);
    assert!(
        said.contains("Unpacking undertone") && said.contains("over (0.1.9)"),
        "{said}"
    );
    assert!(!said.contains("make an identity"), "{said}");
    all_kept();
    assert!(system.at("usr/bin/undertone").is_file());
    for how in ["--remove", "--purge"] {
        let said = system.dpkg(&[how.as_ref(), "undertone".as_ref()]);
        for word in ["identity.key", "marks", "ledger", "/var/lib/undertone"] {
            assert!(said.contains(word), "{how} should name {word}\n{said}");
        }
        assert!(!system.at("usr/bin/undertone").exists(), "{how}");
        all_kept();
    }
}

/// As an operator has it: installed, started by systemd, updated, removed, purged.
#[test]
fn a_daemon_of_the_package_runs_under_systemd_until_the_package_goes() {
    if let Some(why) = booted::impossible() {
        return left_out("a daemon under systemd", why);
    }
    if !is_possible("a daemon under systemd") {
        return;
    }
    let files = tempfile::tempdir().expect("a folder");
    for (name, release) in [("older.deb", older()), ("newer.deb", made())] {
        fs::copy(file(release, "_amd64.deb"), files.path().join(name)).expect("writable");
    }
    let machine = Machine::boot(files.path());
    let said = machine.succeeds("dpkg -i /srv/older.deb");
    assert!(said.contains("make an identity"), "{said}");
    // The guide's page on installing, with answers.
    machine.succeeds(
        "setpriv --reuid undertone --clear-groups undertone setup /var/lib/undertone --name clinic --yes \
         --listen none --epsilon 3",
    );
    machine.succeeds("install -t /etc/undertone /var/lib/undertone/node.toml /var/lib/undertone/peers.toml");
    for (name, port) in [("aarhus", 9001), ("bergen", 9003)] {
        let at = |port: u16| format!("/ip4/127.0.0.1/tcp/{port}");
        machine.succeeds(&format!(
            "undertone identity new --out /srv/{name}.key --name {name} --private {} --public {} \
             >> /etc/undertone/peers.toml",
            at(port),
            at(port + 1)
        ));
    }
    machine.succeeds("systemctl enable --now undertone");
    let status = || {
        let line = "undertone status --api unix:/var/lib/undertone/state/api.sock --json";
        let begun = Instant::now();
        loop {
            let ended = machine.run(line);
            if ended.status.success() {
                return serde_json::from_slice::<Value>(&ended.stdout).expect("an object");
            }
            let log = machine.run("journalctl --no-pager --unit undertone --lines 30");
            let log = String::from_utf8_lossy(&log.stdout).into_owned();
            assert!(begun.elapsed() < Duration::from_secs(60), "{ended:?}\n{log}");
        }
    };
    let before = status();
    assert_eq!(before["party"], "clinic", "{before}");
    let pid = || machine.succeeds("systemctl show --property MainPID undertone");
    let first = pid();
    let user = machine
        .succeeds("ps --no-headers -o user:20 -p $(systemctl show --property MainPID --value undertone)");
    assert_eq!(user.trim(), "undertone");
    // An update leaves it running: it may be in the middle of a run.
    let said = machine.succeeds("dpkg -i /srv/newer.deb");
    assert!(said.contains("systemctl restart undertone"), "{said}");
    assert_eq!(pid(), first);
    machine.succeeds("systemctl restart undertone");
    assert_ne!(pid(), first);
    assert_eq!(status()["id"], before["id"]);
    assert!(before["id"].is_string(), "{before}");
    for how in ["--remove", "--purge"] {
        machine.succeeds(&format!("dpkg {how} undertone"));
        let state = machine.run("systemctl is-active undertone").stdout;
        assert_ne!(String::from_utf8_lossy(&state).trim(), "active", "{how}");
        machine.succeeds("test -s /var/lib/undertone/identity.key -a -d /var/lib/undertone/state");
    }
}

#[test]
fn a_wheel_brings_the_program_and_the_client_into_a_fresh_environment() {
    let Some(python) = python() else {
        return left_out("the wheel", "no Python with ensurepip, numpy and pandas");
    };
    if !is_possible("the wheel") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let run = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(folder.path())
            .env("PYTHONDONTWRITEBYTECODE", "1");
        succeeded(&mut command)
    };
    run(&python, &["-m", "venv", "--system-site-packages", "fresh"]);
    let fresh = folder.path().join("fresh/bin/python");
    let wheel = file(made(), ".whl");
    let name = wheel.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(
        name.starts_with(&format!("undertone_node-{VERSION}-py3-none-manylinux_2_")),
        "{name}"
    );
    let install = ["-m", "pip", "install", "--no-index", "--no-deps"];
    run(&fresh, &[&install[..], &[&wheel.to_string_lossy()]].concat());
    let said = run(&folder.path().join("fresh/bin/undertone"), &["--version"]);
    assert_eq!(said, format!("undertone {VERSION}\n"));
    let said = run(
        &fresh,
        &[
            "-c",
            "import undertone_node; print(undertone_node.Daemon.__name__)",
        ],
    );
    assert_eq!(said, "Daemon\n");
}

#[test]
fn what_is_no_program_is_refused_by_name() {
    if !is_possible("refusals of a release") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    fs::write(&script, "#!/bin/sh\n").expect("writable");
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command
        .args(["dist", "--binary"])
        .arg(&script)
        .arg("--out")
        .arg(folder.path());
    let ended = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("script: it is no program"), "{said}");
    for wrong in [&["--binry", "x"][..], &["--binary"]] {
        let ended = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .arg("dist")
            .args(wrong)
            .output();
        let ended = ended.expect("it runs");
        assert_eq!(ended.status.code(), Some(2), "{wrong:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains("--tools"));
    }
}
