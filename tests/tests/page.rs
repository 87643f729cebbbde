//! The daemon's page in a real browser: what it shows, that it fits a telephone, and that whatever
//! strangers call themselves stays text.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use serde_json::{Value, json};
use undertone_tests::browser::Browser;
use undertone_tests::daemon::Daemon;
use undertone_tests::http::Reply;
use undertone_tests::ports::Ports;
use undertone_tests::{Parties, alone, left_out, write_npy};

const RUN: &str = "version = 1\ntask = \"mean\"\nname = \"ward-means\"\n[data]\nshape = [2]\nunit = \"record\"\nrecords = 1000\n\
                   columns = [\"age\", \"weight\"]\nclip = { kind = \"box\", low = [18, 40], high = [100, 160] }\n\
                   [run]\njoin_ms = 60000\n";
const BUDGET: &str = "[[data_set]]\nname = \"ward-7\"\nunit = \"record\"\nepsilon = 3.0\ndelta = 1e-5\n";

/// Four daemons, and a table of a thousand rows; alice's API is where a browser gets to.
fn cluster(parties: &Parties, api: u16) -> (Vec<Daemon>, String) {
    let rows: String = (0..1000)
        .map(|row| format!("{},{}\n", 30 + row % 50, 60 + row % 40))
        .collect();
    parties.write("ward.csv", &format!("age,weight\n{rows}"));
    let api = SocketAddr::from(([127, 0, 0, 1], api));
    let daemons = (0..4).map(|party| match party {
        0 => Daemon::start_with(parties, 0, api, BUDGET),
        _ => Daemon::start(parties, party, BUDGET),
    });
    (daemons.collect(), format!("http://{api}/"))
}

fn submit(daemon: &Daemon, plan: &str) {
    daemon.client(["submit", plan, "--input", "ward.csv"]).json_of(0);
}

fn token(daemon: &Daemon) -> &str {
    daemon.http.token.as_deref().expect("a token")
}

/// Clicks the first button with this text.
fn click(browser: &mut Browser, text: &str) {
    let button = format!("[...document.querySelectorAll('button')].find((b) => b.textContent === '{text}')");
    browser.until(&format!("{button} !== undefined"));
    browser.value(&format!("{button}.click()"));
}

#[test]
fn the_page_shows_what_the_daemon_knows_and_nothing_private() {
    if !Browser::is_there() {
        return left_out("page", "no chromium");
    }
    let _alone = alone();
    let parties = Parties::new(4);
    let digest = parties.plan("plan", RUN);
    parties.plan("next", &RUN.replace("ward-means", "next-means"));
    let port = Ports::hold(1);
    let (daemons, address) = cluster(&parties, port[0]);
    daemons.iter().for_each(|daemon| submit(daemon, "plan.json"));
    for daemon in &daemons {
        daemon.client(["watch", &digest]).json_of(0);
    }
    submit(&daemons[0], "next.json");
    let mut browser = Browser::start();
    browser.resize(1200, 900);
    wrong_and_right_token(&mut browser, &address, token(&daemons[0]));
    let text = |browser: &mut Browser, id: &str| {
        let text = browser.value(&format!("document.getElementById('{id}').innerText"));
        text.as_str().expect("text").to_owned()
    };
    browser.until("document.querySelectorAll('#runs-in-progress .chip').length === 3");
    let going = text(&mut browser, "runs-in-progress");
    assert!(
        ["next-means", "waiting for", "bob", "carol", "dave", "gathering"]
            .iter()
            .all(|word| going.contains(word)),
        "{going}"
    );
    assert_eq!(text(&mut browser, "peers").matches("answers").count(), 6);
    let budgets = text(&mut browser, "budgets");
    assert!(
        budgets.contains("ward-7") && budgets.contains("by 1 run"),
        "{budgets}"
    );
    shows_the_mean(&mut browser, &daemons[0], &digest);
    keeps_to_the_window(&mut browser);
    let whole = browser.value("document.documentElement.outerHTML").to_string();
    for private in [
        token(&daemons[0]),
        "ward.csv",
        "alice.state",
        "alice.key",
        parties.folder().to_str().expect("text"),
    ] {
        assert!(!whole.contains(private), "{private} is in the page");
    }
    assert_eq!(browser.value("faults"), json!([]));
    for daemon in daemons {
        assert_eq!(daemon.end().0.code, 0);
    }
    browser.until("!document.getElementById('lost').hidden");
}

/// A wrong token in the address is asked for again; the right one does not stay in the address.
fn wrong_and_right_token(browser: &mut Browser, address: &str, token: &str) {
    browser.open(&format!("{address}#{}", "0".repeat(64)));
    browser.until("document.querySelector('#token').innerText.includes('not this daemon')");
    assert_eq!(browser.value("document.body.dataset.shown"), Value::Null);
    browser.value(&format!(
        "document.querySelector('#token input').value = '{token}'"
    ));
    click(browser, "Show");
    browser.until("document.body.dataset.shown && !document.querySelector('#token')");
    browser.open(&format!("{address}#{token}"));
    browser.until("document.body.dataset.shown");
    assert_eq!(browser.value("location.href"), address);
    let written = "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'written' } catch { return 'refused' } })()";
    assert_eq!(browser.value(written), "refused", "the policy has trusted types");
    assert_eq!(browser.value("faults.splice(0).length"), 1);
}

/// Each column has its own error bar, and the receipt is the daemon's, byte for byte.
fn shows_the_mean(browser: &mut Browser, daemon: &Daemon, digest: &str) {
    click(browser, "Mean");
    browser.until("document.querySelectorAll('#results td.plot svg').length === 2");
    let rows =
        browser.value("[...document.querySelectorAll('#results table tr')].map((row) => row.innerText)");
    let utility = daemon
        .http
        .get(&format!("/v1/runs/{digest}/utility"))
        .json_of(200);
    for (column, row) in utility["columns"]
        .as_array()
        .expect("two")
        .iter()
        .zip(rows.as_array().expect("two"))
    {
        let row = row.as_str().expect("text");
        assert!(
            row.starts_with(column["column"].as_str().expect("a name")),
            "{row}"
        );
        let shown: f64 = row
            .rsplit("± ")
            .next()
            .and_then(|error| error.trim().parse().ok())
            .expect("a number");
        let noise = column["noise"].as_f64().expect("a number");
        assert!((shown / noise - 1.0).abs() < 1e-3, "{row}: {noise}");
        let bar = "Number(document.querySelector('#results td.plot svg .bar').getAttribute('width'))";
        assert!(browser.value(bar).as_f64().expect("a width") > 0.0);
    }
    click(browser, "Receipt");
    browser.until("document.querySelectorAll('#results pre').length === 2");
    let receipt = browser.value("document.querySelector('#results pre').textContent");
    let kept = daemon.http.get(&format!("/v1/runs/{digest}/receipt"));
    assert_eq!(receipt.as_str(), Some(kept.text().as_str()));
}

/// The columns of a patient's row, in an answer of statistics.
const STATISTICS: &str = "version = 1\ntask = \"describe\"\nname = \"ward-table\"\n[data]\nrecords = 1000\n\
                          [describe]\ngroup_by = \"arm\"\n\
                          [[describe.column]]\nname = \"arm\"\ncategories = [\"old\", \"new\"]\n\
                          [[describe.column]]\nname = \"age\"\nlow = 18\nhigh = 100\nwant = [\"mean\", \"quantiles\"]\n\
                          [run]\njoin_ms = 60000\n";

/// Statistics are a table with an interval for each figure, the daemon's own numbers; buttons copy
/// the digest and an offer's command, and save what the API answers.
#[test]
fn the_page_shows_statistics_with_intervals_and_its_buttons_copy_and_save() {
    if !Browser::is_there() {
        return left_out("page", "no chromium");
    }
    let _alone = alone();
    let parties = Parties::new(4);
    let rows: String = (0..1000)
        .map(|row| format!("{},{}\n", 30 + row % 50, ["old", "new"][row / 2 % 2]))
        .collect();
    parties.write("ward.csv", &format!("age,arm\n{rows}"));
    let digest = parties.plan("table", STATISTICS);
    parties.write("next.toml", &STATISTICS.replace("ward-table", "next-table"));
    let port = Ports::hold(1);
    let api = SocketAddr::from(([127, 0, 0, 1], port[0]));
    let daemons: Vec<Daemon> = (0..4)
        .map(|party| match party {
            0 => Daemon::start_with(&parties, 0, api, BUDGET),
            _ => Daemon::start(&parties, party, BUDGET),
        })
        .collect();
    daemons.iter().for_each(|daemon| submit(daemon, "table.json"));
    for daemon in &daemons {
        daemon.client(["watch", &digest]).json_of(0);
    }
    let propose = ["submit", "--propose", "next.toml", "--input", "ward.csv"];
    let proposed = daemons[1].client(propose).json_of(0);
    let offered = proposed["digest"].as_str().expect("a digest").to_owned();
    let mut browser = Browser::start();
    browser.resize(1200, 900);
    browser.open(&format!("http://{api}/#{}", token(&daemons[0])));
    browser.until("document.body.dataset.shown");
    browser.value(RECORD);
    shows_statistics(&mut browser, &daemons[0], &digest);
    shows_open_intervals(&mut browser);
    copies_and_saves(&mut browser, &daemons[0], (&digest, &offered));
    assert_eq!(browser.value("faults"), json!([]));
    for daemon in daemons {
        assert_eq!(daemon.end().0.code, 0);
    }
}

/// Keeps what is copied and saved, instead of a clipboard and a folder.
const RECORD: &str = "window.copied = []; window.saved = []; \
                      Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => { copied.push(text); } } }); \
                      const blobs = new Map(), make = URL.createObjectURL; \
                      URL.createObjectURL = (blob) => { const place = make.call(URL, blob); blobs.set(place, blob); return place; }; \
                      HTMLAnchorElement.prototype.click = function () { const name = this.download; \
                      blobs.get(this.href).text().then((text) => saved.push([name, text])); }; 0";

fn shows_statistics(browser: &mut Browser, daemon: &Daemon, digest: &str) {
    click(browser, "Mean");
    browser.until("document.querySelectorAll('#results table tr').length > 10");
    let rows = browser.value(
        "[...document.querySelectorAll('#results table tr')].map((row) => [...row.cells].map((cell) => cell.textContent))",
    );
    let path = format!("/v1/runs/{digest}/result");
    let csv = daemon
        .http
        .ask("GET", &path, &[("Accept", "text/csv")], b"")
        .text();
    let told: Vec<Vec<&str>> = csv
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect())
        .filter(|cells: &Vec<&str>| !cells[3].is_empty())
        .collect();
    let shown = rows.as_array().expect("rows");
    assert_eq!(shown.len(), told.len());
    for (row, cells) in shown.iter().zip(&told) {
        for (at, of_file) in [(0, 0), (1, 1), (2, 2)] {
            assert_eq!(row[at], cells[of_file], "{row}");
        }
        let number = |text: &str| text.replace([',', '\u{a0}', ' '], "").replace('−', "-");
        let near = |shown: &str, of_file: &str| {
            let [shown, of_file] = [shown, of_file].map(|text| number(text).parse::<f64>());
            let (Ok(shown), Ok(of_file)) = (shown, of_file) else {
                return false;
            };
            (shown - of_file).abs() <= 6e-3 * of_file.abs().max(1e-3)
        };
        let [value, interval] = [3, 4].map(|at| row[at].as_str().expect("text"));
        assert!(near(value, cells[3]), "{row} {cells:?}");
        if !cells[6].is_empty() {
            let ends = interval.trim_matches(['[', ']']);
            let (low, high) = ends.split_once(", ").expect("an interval");
            assert!(near(low, cells[6]) && near(high, cells[7]), "{row} {cells:?}");
        }
    }
    let text = browser.value("document.getElementById('results').textContent");
    assert!(
        text.as_str()
            .is_some_and(|text| text.contains("one in twenty misses")),
        "{text}"
    );
}

/// An answer with a median time whose interval has no upper end, and with a figure that is not
/// shown.
const OPEN: &str = "const real = window.fetch; window.fetch = (place, options) => \
                    (options?.headers?.Accept || '') !== 'text/csv' ? real(place, options) : Promise.resolve(new Response( \
                    'group,column,statistic,value,raw,noise,low,high,sampling\\n,months,median time,34,,,29,,\\n,months,S(60),,,,,,\\n', \
                    { headers: { 'Content-Type': 'text/csv' } })); window.restored = () => { window.fetch = real; }; 0";

/// An interval that is not reached has no number for its upper end. What is opened again is asked
/// for again.
fn shows_open_intervals(browser: &mut Browser) {
    browser.value(OPEN);
    click(browser, "Mean");
    browser.until("!document.querySelector('#results table')");
    click(browser, "Mean");
    browser.until("document.querySelectorAll('#results table tr').length === 1");
    let cells = browser
        .value("[...document.querySelector('#results table tr').cells].map((cell) => cell.textContent)");
    assert_eq!(
        cells,
        json!(["", "months", "median time", "34", "[29, not reached]"])
    );
    browser.value("restored(); 0");
}

fn copies_and_saves(browser: &mut Browser, daemon: &Daemon, (digest, offered): (&str, &str)) {
    let command = format!("undertone accept {offered} --input FILE");
    browser.until("document.querySelector('#offers code')");
    let shown = browser.value("document.querySelector('#offers code').textContent");
    assert_eq!(shown.as_str(), Some(command.as_str()));
    let until = browser.value("document.querySelector('#offers').textContent");
    assert!(
        until.as_str().is_some_and(|text| text.contains(" (in ")),
        "it is open for days: {until}"
    );
    click(browser, "Copy command");
    browser.until("copied.length === 1");
    browser.value("[...document.querySelectorAll('#results button')].find((b) => b.textContent === 'Copy digest').click()");
    browser.until("copied.length === 2");
    assert_eq!(browser.value("copied"), json!([command, digest]));
    for (at, button) in ["Save mean", "Save receipt", "Save signature"]
        .into_iter()
        .enumerate()
    {
        click(browser, button);
        browser.until(&format!("saved.length === {}", at + 1));
    }
    let answer = |what: &str, kind: &str| {
        let path = format!("/v1/runs/{digest}/{what}");
        daemon.http.ask("GET", &path, &[("Accept", kind)], b"").text()
    };
    let name = |what: &str| format!("{}-{what}", &digest[..12]);
    assert_eq!(
        browser.value("saved"),
        json!([
            [name("result.csv"), answer("result", "text/csv")],
            [name("receipt.json"), answer("receipt", "*/*")],
            [name("receipt.json.sig"), answer("receipt.sig", "*/*")],
        ])
    );
}

const ROUNDS: &str = "version = 1\ntask = \"rounds\"\nname = \"shared-model\"\n[data]\nshape = [2]\nreleases = 4\n\
                      unit = \"record\"\nrecords = 10\nclip = { kind = \"l2\", radius = 1.0 }\nnoise_ok = true\n[run]\njoin_ms = 60000\n\
                      iteration_ms = 120000\n";

/// A training has a bar, which grows with each sum, and says the round that is waited for.
#[test]
fn the_page_shows_how_far_a_training_is() {
    if !Browser::is_there() {
        return left_out("page", "no chromium");
    }
    let _alone = alone();
    let parties = Parties::new(4);
    let digest = parties.plan("plan", ROUNDS);
    let port = Ports::hold(1);
    let (daemons, address) = cluster(&parties, port[0]);
    write_npy(&parties.path("part.npy"), &[10, 2], &[0.5, 0.25].repeat(10));
    let [part, plan] =
        ["part.npy", "plan.json"].map(|name| std::fs::read(parties.path(name)).expect("written"));
    let numpy = Some(("application/x-npy", &part[..]));
    for daemon in &daemons {
        daemon.submit(&plan, "", numpy).json_of(201);
    }
    let place = |round: u32| format!("/v1/runs/{digest}/rounds/{round}");
    let mean_of = |round: u32| {
        for daemon in &daemons {
            assert_eq!(daemon.http.get(&place(round)).status, 200);
        }
    };
    mean_of(1);
    let mut browser = Browser::start();
    browser.resize(1200, 900);
    browser.open(&format!("{address}#{}", token(&daemons[0])));
    browser.until("document.body.dataset.shown");
    let bar = "document.querySelector('#runs-in-progress svg')";
    for sums in 1..4 {
        let shown = format!("{sums} of 4 sums known");
        browser.until(&format!("{bar}?.getAttribute('aria-label') === '{shown}'"));
        let share = browser.value(&format!(
            "Number({bar}.querySelector('.spent').getAttribute('width'))"
        ));
        assert_eq!(share, json!(25 * sums), "{shown}");
        for daemon in &daemons {
            assert_eq!(daemon.http.bring("POST", &place(sums + 1), numpy).status, 204);
        }
        mean_of(sums + 1);
    }
    browser.until("document.querySelector('#runs-in-progress').innerText.includes('None.')");
    keeps_to_the_window(&mut browser);
    assert_eq!(browser.value("faults"), json!([]));
    for daemon in daemons {
        assert_eq!(daemon.end().0.code, 0);
    }
}

/// Nothing stands out of the window, of a desk or of a telephone.
fn keeps_to_the_window(browser: &mut Browser) {
    for width in [1200, 400] {
        browser.resize(width, 2400);
        browser.draw(&Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("page-{width}.png")));
        let wide = browser.value("document.documentElement.scrollWidth");
        assert!(
            wide.as_u64().is_some_and(|wide| wide <= u64::from(width)),
            "{wide} of {width}"
        );
    }
}

/// What would be run, if it were markup anywhere.
const HOSTILE: &str = "<img src=x onerror=\"window.hit=1\">'\"><script>window.hit=1</script>";

/// Puts strangers' words into every text, but for those by which the page tells runs apart.
fn corrupt(value: &mut Value) {
    match value {
        Value::String(text) => *text = format!("{HOSTILE}{text}"),
        Value::Array(values) => values.iter_mut().for_each(corrupt),
        Value::Object(object) => {
            for (_, value) in object
                .iter_mut()
                .filter(|(key, _)| !["state", "phase", "digest"].contains(&key.as_str()))
            {
                corrupt(value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A daemon's page in front of answers that are all strangers' words.
fn hostile_answers(page: Reply, mut answers: Vec<(String, Value)>) -> String {
    answers.iter_mut().for_each(|(_, answer)| corrupt(answer));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(stream, &page, &answers);
        }
    });
    format!("http://{address}/#token-of-nobody-here")
}

fn answer(mut stream: TcpStream, page: &Reply, answers: &[(String, Value)]) -> std::io::Result<()> {
    let mut head = BufReader::new(stream.try_clone()?).lines();
    let first = head.next().transpose()?.unwrap_or_default();
    while head.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = first.split([' ', '?']).nth(1).unwrap_or_default();
    let policy = page
        .header("content-security-policy")
        .expect("the page has a policy");
    let (kind, body) = match answers.iter().find(|(known, _)| known == path) {
        Some((_, value)) => ("application/json", value.to_string().into_bytes()),
        None => ("text/html; charset=utf-8", page.body.clone()),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Security-Policy: {policy}\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(&body)?;
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.read_to_end(&mut vec![]).map(drop)
}

/// A status with an entry of each kind that the page shows.
fn hostile_status(digest: &str) -> Value {
    let run = |state: &str, error: Value| {
        json!({
            "digest": digest, "name": "x", "state": state, "phase": "mixing", "round": 1, "iterations": 1, "rounds": 3,
            "waiting_for": ["bob"],
            "unreachable": ["carol"], "parties": 3, "dimension": 2, "unit": "party", "data_set": "ward", "proposer": "bob",
            "submitted_ms": 1, "ended_ms": 2, "epsilon_claimed": 1, "delta": 1e-6, "epsilon": 1, "unbounded": false,
            "outcome": if state == "ended" { json!("done") } else { Value::Null }, "reason": "why", "included": ["bob"],
            "opened_for": ["carol"], "standard_error": error, "utility": "much",
        })
    };
    let side = json!({ "address": "a", "reachable": false, "problem": "who" });
    json!({
        "party": "alice", "id": "12D3", "version": "0.1", "uptime_s": 1, "private": "a", "public": "b",
        "runs": [run("running", Value::Null), run("ended", json!(0.1))],
        "peers": [{ "name": "bob", "id": "12", "private": side, "public": side }],
        "offers": [{ "digest": digest, "name": "o", "proposer": "bob", "state": "open", "reason": "r", "parties": 3,
                     "dimension": 2, "unit": "party", "epsilon_claimed": 1, "delta": 1e-6 }],
        "budgets": [{ "data_set": "ward", "unit": "party", "epsilon": 3, "delta": 1e-5, "epsilon_spent": 1,
                      "reserved_mu_squared": 1, "runs": 1 }],
        "revoked": [{ "id": "12D3", "name": "bob", "at_ms": 5, "by": "12D3", "line": "x" }],
        "schedules": [{ "name": "weekly", "every": "Mon 03:00", "next_ms": [3], "runs_left": 2,
                        "occasions": [{ "due_ms": 2, "outcome": "missed", "absent": ["bob"], "reason": "why" }] }],
    })
}

#[test]
fn strangers_words_stay_text() {
    if !Browser::is_there() {
        return left_out("page", "no chromium");
    }
    let _alone = alone();
    let parties = Parties::new(4);
    let daemon = Daemon::start(&parties, 0, "");
    let digest = "ab".repeat(32);
    let status = hostile_status(&digest);
    let columns: Value = ["a", "b"]
        .map(|column| json!({ "column": column, "low": 0, "high": 1, "noise": 0.1 }))
        .into();
    let receipt = json!({ "party": "alice", "outcome": "done", "agreed": true, "epsilon": 1, "delta": 1e-6,
                          "included": ["bob"], "opened_for": ["carol"] });
    let of_run = |what: &str| format!("/v1/runs/{digest}/{what}");
    let answers = vec![
        ("/v1/status".to_owned(), status),
        (of_run("result"), json!([0.5, 0.25])),
        (of_run("utility"), json!({ "columns": columns })),
        (of_run("receipt"), receipt),
        (of_run("receipt.sig"), json!("signature")),
    ];
    let address = hostile_answers(daemon.http.get("/"), answers);
    let mut browser = Browser::start();
    browser.resize(400, 900);
    browser.open(&address);
    browser.until("document.body.dataset.shown");
    click(&mut browser, "Mean");
    browser.until("document.querySelectorAll('td.plot').length === 2");
    click(&mut browser, "Receipt");
    browser.until("document.querySelectorAll('pre').length === 2");
    for section in [
        "runs-in-progress",
        "results",
        "budgets",
        "schedules",
        "revoked-keys",
        "peers",
        "offers",
    ] {
        let text = browser.value(&format!("document.getElementById('{section}').textContent"));
        assert!(
            text.as_str().expect("text").contains(HOSTILE),
            "{section}: {text}"
        );
    }
    assert_eq!(
        browser.value("[document.images.length, document.scripts.length, typeof window.hit]"),
        json!([0, 1, "undefined"])
    );
    assert_eq!(browser.value("faults"), json!([]));
    let wide = browser.value("document.documentElement.scrollWidth");
    assert!(wide.as_u64().is_some_and(|wide| wide <= 400), "{wide}");
}
