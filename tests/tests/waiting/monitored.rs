//! Prometheus over five daemons on hosts of their own, by TLS, as the guide's page on monitoring
//! has it; one of them is killed.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use undertone_tests::composition::top;
use undertone_tests::documents::page::Page;
use undertone_tests::journey::{Journey, block_with};
use undertone_tests::nginx::framed;
use undertone_tests::testnet::possible;
use undertone_tests::{Running, alone, left_out};

/// The last one is where Prometheus runs.
const NAMES: [&str; 6] = ["aarhus", "bergen", "coimbra", "delft", "evora", "watch"];
const DAEMONS: usize = 5;
const KILLED: usize = 2;

/// Until Prometheus knows, on a machine that does other things.
const LONGEST: Duration = Duration::from_secs(120);

/// A text of deploy/monitoring in which each of these is replaced.
fn deployed(file: &str, replaced: &[(&str, &str)]) -> String {
    let path = top().join("deploy/monitoring").join(file);
    let text = fs::read_to_string(path).expect("a file of the repository");
    with(text, replaced)
}

fn with(text: String, replaced: &[(&str, &str)]) -> String {
    replaced.iter().fold(text, |text, (theirs, ours)| {
        assert!(text.contains(theirs), "no {theirs} in\n{text}");
        text.replace(theirs, ours)
    })
}

/// The page's job for a daemon on another machine, for each of them.
fn prometheus_yml(net: &Journey) -> String {
    let page = Page::read("node/guide/monitoring.md").text;
    let block = page.split("```yaml\n").nth(2).expect("two blocks of YAML");
    let block = block.split("```").next().expect("its end");
    let (head, job) = block.split_once("  - job_name").expect("a job");
    let job = format!("  - job_name{job}");
    let jobs = (0..DAEMONS).map(|host| {
        let name = NAMES[host];
        let (target, certificate) = (format!("{}:9443", net.net.address(host)), format!("{name}.crt"));
        let token = format!("{name}.token");
        let replaced: [(&str, &str); 4] = [
            ("undertone", name),
            ("hospital-ca.crt", &certificate),
            ("token.prometheus", &token),
            ("aarhus.example:9443", &target),
        ];
        with(job.clone(), &replaced)
    });
    let often = "global: { scrape_interval: 5s, scrape_timeout: 5s, evaluation_interval: 1s }\n";
    format!(
        "{often}rule_files: [alerts.yml]\n{head}{}",
        jobs.collect::<String>()
    )
}

/// nginx beside a daemon, with a certificate of its own; Prometheus's host has that, and the token.
fn proxied(net: &Journey, host: usize) -> Running {
    let name = NAMES[host];
    let address = net.net.address(host);
    net.done(
        host,
        &format!(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={name} \
             -addext subjectAltName=IP:{address} -keyout tls.key -out tls.crt"
        ),
    );
    let folder = net.folder(host);
    let beside = format!("{}/", folder.display());
    let site: [(&str, &str); 1] = [("/etc/undertone/", &beside)];
    let site = framed(&deployed("nginx.conf", &site), &folder);
    fs::write(folder.join("nginx.conf"), site).expect("writable");
    let watch = net.folder(DAEMONS);
    for (file, to) in [
        ("tls.crt".to_owned(), format!("{name}.crt")),
        (format!("{name}/state/read.token"), format!("{name}.token")),
    ] {
        fs::write(watch.join(to), net.read(host, &file)).expect("writable");
    }
    net.start(host, "exec nginx -p \"$PWD\" -c \"$PWD/nginx.conf\"")
}

/// The jobs of the alerts that fire, by name, once there are any that `wanted` wants.
fn firing(net: &Journey, wanted: &str) -> Vec<(String, String)> {
    let ask = block_with("monitoring.md", "ALERTS");
    let script = format!("{ask} > found.json\ngrep -q '{wanted}' found.json\ncat found.json");
    let found: Value = net.until(DAEMONS, &script, LONGEST).json();
    let alerts = found["data"]["result"].as_array().expect("a list").iter();
    let word = |alert: &Value, key: &str| alert["metric"][key].as_str().unwrap_or_default().to_owned();
    alerts
        .map(|alert| (word(alert, "alertname"), word(alert, "job")))
        .collect()
}

#[test]
fn prometheus_over_five_daemons_names_the_one_that_was_killed() {
    let lacking = ["prometheus", "nginx", "openssl", "curl"]
        .into_iter()
        .find(|program| {
            let tried = Command::new(program).arg("--help").output();
            tried.is_err()
        });
    let missing = possible()
        .err()
        .or(lacking.map(|program| format!("no {program}")));
    if let Some(missing) = missing {
        return left_out("Prometheus over daemons", &missing);
    }
    let _alone = alone();
    let net = Journey::new(&NAMES);
    for host in 0..DAEMONS {
        net.done(host, "undertone example hospitals");
    }
    net.plan("averages.md", 4);
    net.walk(&block_with("averages.md", "--out evora.key"));
    net.mail(4, [0], &["evora.lines"]);
    net.done(0, &block_with("averages.md", "> peers-of-five.toml"));
    net.mail(0, 1..DAEMONS, &["peers-of-five.toml"]);
    let page = Page::read("node/guide/monitoring.md").text;
    let token = page.lines().find(|line| line.starts_with("read_token = "));
    let api = format!("[api]\n{}\n", token.expect("a line of the page"));
    let start = block_with("daemon.md", "mkdir $city");
    let start = with(
        start,
        &[("[api]\n", &api), ("../peers.toml", "../peers-of-five.toml")],
    );
    let daemons: Vec<Running> = (0..DAEMONS).map(|host| net.daemon(host, &start)).collect();
    let proxies: Vec<Running> = (0..DAEMONS).map(|host| proxied(&net, host)).collect();

    let watch = net.folder(DAEMONS);
    fs::write(watch.join("prometheus.yml"), prometheus_yml(&net)).expect("writable");
    // Two minutes are nobody's wish in a test.
    let rules = deployed("alerts.yml", &[("for: 2m", "for: 15s")]);
    fs::write(watch.join("alerts.yml"), rules).expect("writable");
    let start = block_with("monitoring.md", "--storage.tsdb.path");
    let prometheus = net.start(DAEMONS, &format!("exec {start}"));
    let all = "curl -fsS -G --data-urlencode 'query=count(undertone_peers)' http://127.0.0.1:9090/api/v1/query > all.json\n\
               grep -q '\"5\"' all.json";
    net.until(DAEMONS, all, LONGEST);
    let early = firing(&net, "success");
    assert!(early.is_empty(), "all are up: {early:?}");

    net.done(KILLED, &format!("kill -9 $(cat {}/state/lock)", NAMES[KILLED]));
    let fired = firing(&net, "UndertoneDown");
    assert_eq!(fired, [("UndertoneDown".to_owned(), NAMES[KILLED].to_owned())]);
    drop((prometheus, proxies, daemons));
}
