//! deploy/monitoring: the dashboard and the alert rules name metrics that a daemon really has.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use undertone_tests::composition::top;
use undertone_tests::daemon::Daemon;
use undertone_tests::nginx::framed;
use undertone_tests::ports::Ports;
use undertone_tests::{Parties, Running, Signal, left_out, read_json, signal};

fn file(name: &str) -> PathBuf {
    top().join("deploy/monitoring").join(name)
}

/// What an expression of PromQL asks for by name: our metrics, and those of processes.
fn metrics(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    let ours = |word: &&str| {
        ["undertone_", "process_"]
            .iter()
            .any(|start| word.starts_with(start))
    };
    words.filter(ours).map(String::from).collect()
}

/// Every expression of the dashboard, panel by panel.
fn dashboard() -> Vec<String> {
    let dashboard = read_json(&file("grafana.json"));
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let text = |target: &Value| target["expr"].as_str().expect("an expression").to_owned();
    targets.map(text).collect()
}

/// Every expression of the rules, with the alert's name.
fn alerts() -> Vec<(String, String)> {
    let rules = fs::read_to_string(file("alerts.yml")).expect("there are rules");
    let mut alerts = vec![];
    for line in rules.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("- alert: ") {
            alerts.push((name.to_owned(), String::new()));
        } else if let Some(expression) = line.strip_prefix("expr: ") {
            alerts.last_mut().expect("a rule has a name first").1 = expression.to_owned();
        }
    }
    alerts
}

#[test]
fn every_metric_that_is_watched_is_one_of_the_daemons() {
    let parties = Parties::new(4);
    let set = "[[data_set]]\nname = \"ward\"\nepsilon = 3.0\ndelta = 1e-5\n";
    let daemon = Daemon::start(&parties, 0, set);
    // Before any run and any request that failed.
    let page = daemon.http.get("/metrics").text();
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    let known: BTreeSet<&str> = samples.filter_map(|line| line.split(['{', ' ']).next()).collect();
    let (dashboard, alerts) = (dashboard(), alerts());
    assert!(
        dashboard.len() >= 15 && alerts.len() >= 10,
        "{dashboard:?} {alerts:?}"
    );
    for (name, expression) in &alerts {
        assert!(
            expression.contains("up ") || !metrics(expression).is_empty(),
            "{name}: {expression}"
        );
    }
    let mut watched = BTreeSet::new();
    for expression in dashboard
        .iter()
        .chain(alerts.iter().map(|(_, expression)| expression))
    {
        for metric in metrics(expression) {
            assert!(
                known.contains(metric.as_str()),
                "{metric} of {expression} is not in\n{page}"
            );
            watched.insert(metric);
        }
    }
    let ours = known.iter().filter(|metric| metric.starts_with("undertone_"));
    // Of a histogram its buckets tell the rest.
    let seen = |metric: &str| {
        let parts = ["_sum", "_count"];
        let whole = parts.iter().find_map(|part| metric.strip_suffix(part));
        watched.contains(metric) || whole.is_some_and(|whole| watched.contains(&format!("{whole}_bucket")))
    };
    let unseen: Vec<_> = ours.filter(|metric| !seen(metric)).collect();
    assert!(unseen.is_empty(), "nobody watches {unseen:?}");
    // Increases are seen from the first on.
    for labels in [
        "outcome=\"withheld\"",
        "outcome=\"interrupted\"",
        "code=\"401\"",
        "code=\"507\"",
    ] {
        assert!(page.contains(&format!("{{{labels}}} 0\n")), "{labels}\n{page}");
    }
    assert!(page.contains("undertone_peers 3\n"), "{page}");
    daemon.http.with_token(None).get("/metrics").refused(401, "token");
    let refused = daemon.http.get("/metrics").text();
    assert!(
        refused.contains("undertone_api_requests_total{code=\"401\"} 1\n"),
        "{refused}"
    );
    assert_eq!(daemon.end().0.code, 0);
}

#[test]
fn prometheus_takes_the_rules() {
    let checked = Command::new("promtool")
        .args(["check", "rules"])
        .arg(file("alerts.yml"))
        .output();
    let Ok(checked) = checked else {
        return left_out("monitoring", "no promtool");
    };
    let reported = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(
        checked.status.success(),
        "{reported}{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    assert!(
        reported.contains(&format!("{} rules found", alerts().len())),
        "{reported}"
    );
}

/// Four jobs of other names, a daemon that has died, and a machine that never was one.
#[test]
fn dead_daemon_fires_whatever_its_job_is_called() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = file("alerts.yml");
    let fires = |minute: u32| {
        format!(
            "      - eval_time: {minute}m
        alertname: UndertoneDown
        exp_alerts:
          - exp_labels: {{ severity: critical, job: ward, instance: 'a:7300' }}
            exp_annotations:
              summary: The daemon at a:7300 does not answer
              description: 'Runs go on without it, up to `dropouts` parties. Its log says how it ended: exit 2 is a configuration to mend.'
"
        )
    };
    let text = format!(
        "rule_files: [{rules:?}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{ series: 'up{{job=\"ward\", instance=\"a:7300\"}}', values: '1x10 0x3000 1x10' }}
      - {{ series: 'undertone_peers{{job=\"ward\", instance=\"a:7300\"}}', values: '3x10 stale' }}
      - {{ series: 'up{{job=\"lab\", instance=\"b:7300\"}}', values: '1x30' }}
      - {{ series: 'undertone_peers{{job=\"lab\", instance=\"b:7300\"}}', values: '3x30' }}
      - {{ series: 'up{{job=\"node\", instance=\"a:9100\"}}', values: '0x3030' }}
    alert_rule_test:
      - eval_time: 9m
        alertname: UndertoneDown
{}      - eval_time: 3015m
        alertname: UndertoneDown
",
        // After minutes, and after two days.
        [20, 2900].map(fires).concat()
    );
    let path = folder.path().join("down.yml");
    std::fs::write(&path, text).expect("writable");
    let Ok(tested) = Command::new("promtool")
        .args(["test", "rules"])
        .arg(&path)
        .output()
    else {
        return left_out("monitoring", "no promtool");
    };
    let said = [tested.stdout, tested.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(tested.status.success(), "{said:?}");
}

/// `deploy/monitoring/nginx.conf` with the paths and the port of a test.
fn proxy(parties: &Parties, port: u16, api: u16) -> String {
    let mut site = fs::read_to_string(file("nginx.conf")).expect("a site");
    let folder = parties.folder().display();
    for (theirs, ours) in [
        ("listen 9443 ssl", format!("listen 127.0.0.1:{port} ssl")),
        ("/etc/undertone/", format!("{folder}/")),
        ("127.0.0.1:7300", format!("127.0.0.1:{api}")),
    ] {
        assert!(site.contains(theirs), "{theirs} is not in nginx.conf");
        site = site.replace(theirs, &ours);
    }
    framed(&site, parties.folder())
}

#[test]
fn metrics_are_scraped_by_tls_through_debians_nginx() {
    let there = |program: &str, says: &str| Command::new(program).arg(says).output().is_ok();
    if !(there("nginx", "-v") && there("openssl", "version") && there("curl", "--version")) {
        return left_out("nginx", "no nginx, openssl or curl (Debian: nginx-light)");
    }
    let parties = Parties::new(3);
    let ports = Ports::hold(2);
    let (port, api) = (ports[0], ports[1]);
    let listens = SocketAddr::from(([127, 0, 0, 1], api));
    let daemon = Daemon::start_with(&parties, 0, listens, "read_token = \"read.token\"\n");
    let certificate = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
                       -addext subjectAltName=DNS:localhost -keyout tls.key -out tls.crt";
    let made = Command::new("openssl")
        .args(certificate.split(' '))
        .current_dir(parties.folder())
        .output();
    assert!(made.is_ok_and(|made| made.status.success()), "openssl");
    parties.write("nginx.conf", &proxy(&parties, port, api));
    let mut nginx = Command::new("nginx");
    let configuration = parties.path("nginx.conf");
    nginx
        .arg("-p")
        .arg(parties.folder())
        .arg("-c")
        .arg(&configuration);
    let nginx = Running::start(nginx, None);
    let token = fs::read_to_string(parties.path("read.token")).expect("the daemon made it");
    let ask = |path: &str, token: &str| {
        let mut curl = Command::new("curl");
        curl.args([
            "-sS",
            "--cacert",
            "tls.crt",
            "--retry",
            "20",
            "--retry-connrefused",
            "--retry-delay",
            "1",
        ])
        .args([
            "-w",
            "\n%{http_code}",
            "-H",
            &format!("Authorization: Bearer {}", token.trim()),
        ])
        .arg(format!("https://localhost:{port}{path}"))
        .current_dir(parties.folder());
        let output = curl.output().expect("curl");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{path}: {errors}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, status) = text.rsplit_once('\n').expect("a status");
        (status.to_owned(), body.to_owned())
    };
    let (status, metrics) = ask("/metrics", &token);
    assert!(
        status == "200" && metrics.contains("undertone_peers "),
        "{status}\n{metrics}"
    );
    assert_eq!(ask("/metrics", "another-token-0123456789").0, "401");
    let full = daemon.http.token.clone().expect("a token");
    for path in ["/v1/status", "/", "/v1/runs", "/metrics/", "/readyz"] {
        assert_eq!(ask(path, &full).0, "404", "{path}");
    }
    signal(nginx.pid(), Signal::SIGTERM);
    assert_eq!(nginx.wait().code, 0);
    assert_eq!(daemon.end().0.code, 0);
}
