//! What lies in deploy/: samples that parse, a unit that systemd accepts, a composition that is
//! what its generator prints.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use undertone_tests::composition::top;
use undertone_tests::daemon::Daemon;
use undertone_tests::ports::Ports;
use undertone_tests::{Parties, Running, left_out, run_in, undertone};

fn sample(name: &str) -> String {
    top().join("deploy/testnet").join(name).display().to_string()
}

#[test]
fn the_sample_run_can_be_planned_for_the_sample_peers() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, peers) = (sample("run.toml"), sample("peers.toml"));
    let quote = run_in(
        folder.path(),
        ["plan", &run, "--peers", &peers, "--out", "plan.json", "--json"],
    )
    .json_of(0);
    assert_eq!(quote["utility"]["is_noise"], false, "{quote}");
    run_in(
        folder.path(),
        [
            "verify",
            "plan.json",
            "--max-epsilon",
            "1",
            "--min-colluders",
            "1",
            "--json",
        ],
    )
    .json_of(0);
}

#[test]
fn a_daemon_runs_with_the_sample_configuration() {
    let parties = Parties::new(1);
    let folder = parties.folder();
    let read = |name: &str| fs::read_to_string(sample(name)).expect("there is a sample");
    // Alice's own lines, with a key and addresses that there are, in the place of the sample's.
    let peers = read("peers.toml");
    let (head, rest) = peers.split_once("[[peer]]").expect("there are peers");
    let (_, others) = rest.split_once("[[peer]]").expect("there are others");
    parties.write(
        "peers.toml",
        &format!("{head}{}[[peer]]{others}", parties.lines()[0]),
    );
    parties.write("node.toml", &read("node.toml"));
    fs::rename(parties.path("alice.key"), parties.path("identity.key")).expect("ours");
    fs::create_dir(parties.path("data")).expect("ours");
    let mut command = Command::new(undertone());
    command
        .args(["node", "--config", "node.toml"])
        .current_dir(folder);
    let daemon = Daemon::of(
        Running::start(command, None),
        "alice",
        folder,
        &parties.path("state"),
    );
    let status = run_in(folder, ["status", "--json"]).json_of(0);
    assert_eq!(
        (&status["party"], &status["budgets"][0]["data_set"]),
        (&"alice".into(), &"ward-7".into())
    );
    let (ended, _) = daemon.end();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

fn systemd_analyze(arguments: &[&str], unit: &Path) -> Option<Output> {
    Command::new("systemd-analyze")
        .args(arguments)
        .arg(unit)
        .output()
        .ok()
}

#[test]
fn systemd_accepts_the_unit_and_finds_it_hardened() {
    let folder = tempfile::tempdir().expect("a folder");
    let unit = folder.path().join("undertone.service");
    let text = fs::read_to_string(top().join("deploy/undertone.service")).expect("there is a unit");
    // Verifying looks for the program.
    let installed = "ExecStart=/usr/local/bin/undertone ";
    assert_eq!(text.matches(installed).count(), 1);
    fs::write(
        &unit,
        text.replace(installed, &format!("ExecStart={} ", undertone().display())),
    )
    .expect("writable");
    let Some(verified) = systemd_analyze(&["verify"], &unit) else {
        return left_out("the systemd unit", "systemd-analyze is absent");
    };
    // An unknown key is a warning and exit 0.
    let said = String::from_utf8_lossy(&verified.stderr);
    let about_ours: Vec<&str> = said.lines().filter(|line| line.contains("undertone")).collect();
    assert!(verified.status.success() && about_ours.is_empty(), "{said}");
    // Exposure from 0 (none) to 100; an ordinary service has about 96. Ours has 12.
    let hardened =
        systemd_analyze(&["security", "--offline=true", "--threshold=15"], &unit).expect("it was there");
    assert!(
        hardened.status.success(),
        "{}",
        String::from_utf8_lossy(&hardened.stdout)
    );
}

/// On an empty system: the user, and the folders that are its own.
#[test]
fn systemd_makes_the_user_and_its_folders() {
    use std::os::unix::fs::MetadataExt;
    let root = tempfile::tempdir().expect("a folder");
    let at = |path: &str| root.path().join(path);
    for kind in ["sysusers.d", "tmpfiles.d"] {
        let place = at("usr/lib").join(kind);
        fs::create_dir_all(&place).expect("writable");
        let ours = top().join("deploy").join(kind).join("undertone.conf");
        fs::copy(ours, place.join("undertone.conf")).expect("it is there");
    }
    for folder in ["etc", "var/lib"] {
        fs::create_dir_all(at(folder)).expect("writable");
    }
    let said = |command: &mut Command| {
        let ended = command
            .arg(format!("--root={}", root.path().display()))
            .output()
            .ok()?;
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        Some((ended.status.success(), said))
    };
    let Some((made, said_of_user)) = said(&mut Command::new("systemd-sysusers")) else {
        return left_out("the user of systemd", "systemd-sysusers is absent");
    };
    if !made && said_of_user.contains("ermi") {
        return left_out("the user of systemd", "not root");
    }
    assert!(made, "{said_of_user}");
    let users = fs::read_to_string(at("etc/passwd")).expect("made");
    let own = users
        .lines()
        .find(|line| line.starts_with("undertone:"))
        .expect("the user");
    let fields: Vec<&str> = own.split(':').collect();
    assert_eq!(fields[5..], ["/var/lib/undertone", "/usr/sbin/nologin"], "{own}");
    let (made, said) =
        said(Command::new("systemd-tmpfiles").arg("--create")).expect("it comes with the other");
    assert!(made, "{said}");
    let of = |path: &str| {
        let found = fs::metadata(at(path)).expect("made");
        (found.mode() & 0o777, found.uid().to_string())
    };
    let uid = fields[2].to_owned();
    assert_eq!(of("var/lib/undertone"), (0o700, uid.clone()));
    assert_eq!(of("var/lib/undertone/data"), (0o700, uid));
    assert_eq!(of("etc/undertone"), (0o755, "0".to_owned()));
}

fn compose_for(arguments: &[&str]) -> Output {
    let mut command = Command::new(top().join("deploy/compose-for"));
    command
        .args(arguments)
        .env_remove("UNDERTONE_NODES")
        .output()
        .expect("it runs")
}

#[test]
fn the_composition_is_what_its_generator_prints() {
    let printed = compose_for(&[]);
    let kept = fs::read_to_string(top().join("docker-compose.yml")).expect("there is a composition");
    assert_eq!(
        String::from_utf8_lossy(&printed.stdout),
        kept,
        "run `deploy/compose-for 5 > docker-compose.yml`"
    );
    let eight = String::from_utf8(compose_for(&["8"]).stdout).expect("text");
    for (line, count) in [("    <<: *node", 8), ("  node-8: {}", 1), ("  node-9: {}", 0)] {
        assert_eq!(
            eight.lines().filter(|found| *found == line).count(),
            count,
            "{line}"
        );
    }
    for wrong in ["2", "many", "-1"] {
        assert_eq!(compose_for(&[wrong]).status.code(), Some(2), "{wrong}");
    }
}

/// The composition with the door to a page, as `docker-compose` reads it.
fn with_page() -> Option<String> {
    let files = ["-f", "docker-compose.yml", "-f", "deploy/page.yml", "config"];
    let mut command = Command::new("docker-compose");
    let output = command
        .args(files)
        .env_remove("UNDERTONE_PAGE_PORT")
        .current_dir(top())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(text)
}

/// One port, for this machine alone, into a network from which nothing gets out; all else is as it
/// was.
#[test]
fn the_page_of_one_node_is_published_for_this_machine_alone() {
    let Some(config) = with_page() else {
        return left_out("the page's port", "docker-compose is absent");
    };
    let published: Vec<&str> = config.lines().filter(|line| line.contains("7300/tcp")).collect();
    assert_eq!(published.len(), 1, "{config}");
    assert_eq!(published[0].trim(), "- 127.0.0.1:7300:7300/tcp", "{config}");
    let (_, node) = config.split_once("\n  node-2:\n").expect("a service");
    let (node, _) = node.split_once("\n  node-3:\n").expect("the next one");
    for line in [
        "127.0.0.1:7300:7300/tcp",
        "page: {}",
        "undertone: {}",
        "read_only: true",
    ] {
        assert!(node.contains(line), "{line}\n{node}");
    }
    for line in ["enable_ip_masquerade: \"false\"", "internal: true"] {
        assert_eq!(config.matches(line).count(), 1, "{line}\n{config}");
    }
}

/// A daemon in the environment that the door sets listens on TCP, answers the page, and is found by
/// the clients in its container.
#[test]
fn a_daemon_in_the_environment_of_the_door_serves_its_page() {
    let text = fs::read_to_string(top().join("deploy/page.yml")).expect("there is a door");
    let port = Ports::hold(1)[0];
    let variables: Vec<(String, String)> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("UNDERTONE_"))
        .filter_map(|line| line.split_once(": "))
        .map(|(key, value)| {
            let value = value.trim_matches('"').replace("7300", &port.to_string());
            (format!("UNDERTONE_{key}"), value)
        })
        .collect();
    assert_eq!(variables.len(), 2, "{text}");
    let parties = Parties::new(3);
    let mut command = Command::new(undertone());
    command.envs(variables.clone());
    let listen = SocketAddr::from(([127, 0, 0, 1], port));
    let daemon = Daemon::start_at(command, &parties, 0, listen);
    let page = daemon.http.get("/");
    assert_eq!(page.status, 200);
    assert!(page.text().contains("<title>"), "{}", page.text());
    let mut status = Command::new(undertone());
    status
        .args(["status", "--ready", "--config", "alice.node.toml"])
        .envs(variables)
        .current_dir(parties.folder());
    let healthy = Running::start(status, None).wait();
    assert_eq!(healthy.code, 0, "{}", healthy.stderr);
    assert_eq!(daemon.end().0.code, 0);
}
