//! The composition, for real: five daemons in containers, a run, a run during which one of them is
//! killed.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::Value;
use undertone_tests::composition::{Composition, build_offline, kill_container, possible, top};
use undertone_tests::http::Http;
use undertone_tests::ports::Ports;
use undertone_tests::{left_out, read_json, receipt, write_npy};

const NODES: [&str; 5] = ["node-1", "node-2", "node-3", "node-4", "node-5"];
const PATIENTS: &str = "/var/lib/undertone/data/patients.csv";
const COLUMNS: usize = 12;
/// Rows of the stream.
const STREAMED: usize = 10;

/// What `docker-compose up` computes: hospitals.toml as a test reads it.
struct Task {
    low: Vec<f64>,
    high: Vec<f64>,
    text: String,
}

fn task() -> Task {
    let text = std::fs::read_to_string(top().join("deploy/hospitals.toml")).expect("there is a run file");
    let file: toml::Table = text.parse().expect("it is TOML");
    let bound = |key: &str| {
        let bounds = file["data"]["clip"][key].as_array().expect("one a column");
        bounds
            .iter()
            .map(|bound| bound.as_float().expect("a number"))
            .collect()
    };
    Task {
        low: bound("low"),
        high: bound("high"),
        text,
    }
}

fn numbers(csv: &[u8]) -> Vec<Vec<f64>> {
    let text = std::str::from_utf8(csv).expect("text");
    let row = |line: &str| {
        line.split(',')
            .map(|cell| cell.parse().unwrap_or_else(|_| panic!("{cell:?} in {line:?}")))
            .collect()
    };
    text.lines().skip(1).map(row).collect()
}

impl Task {
    /// The mean over all patients of these nodes, each within the public bounds.
    fn true_mean(&self, composition: &Composition, nodes: &[&str]) -> Vec<f64> {
        let rows: Vec<Vec<f64>> = nodes
            .iter()
            .flat_map(|node| numbers(&composition.file(node, PATIENTS)))
            .collect();
        assert_eq!(rows.len(), 1000 * nodes.len());
        let clipped = |c: usize| {
            rows.iter()
                .map(move |row| row[c].clamp(self.low[c], self.high[c]))
        };
        (0..COLUMNS)
            .map(|c| clipped(c).sum::<f64>() / rows.len() as f64)
            .collect()
    }

    /// Each column's standard error: noise is proportional to its width, and a receipt has the root
    /// of the mean square.
    fn errors(&self, overall: f64) -> Vec<f64> {
        let widths: Vec<f64> = self
            .low
            .iter()
            .zip(&self.high)
            .map(|(low, high)| high - low)
            .collect();
        let root = (widths.iter().map(|w| w * w).sum::<f64>() / COLUMNS as f64).sqrt();
        widths.iter().map(|width| overall * width / root).collect()
    }

    /// Every node holds the same mean, close to the true one, and a receipt whose execution gives
    /// its ε.
    fn check(&self, composition: &Composition, nodes: &[&str], digest: &str) -> Value {
        let truth = self.true_mean(composition, nodes);
        let file = |node: &str, name: &str| composition.results(node).join(digest).join(name);
        let first = std::fs::read(file(nodes[0], "mean.csv")).expect("a mean");
        for node in nodes {
            let receipt = read_json(&file(node, "receipt.json"));
            receipt::assert_complete(&receipt);
            receipt::assert_mu_follows(&receipt);
            assert_eq!(receipt["party"], **node);
            assert_eq!(receipt["included"], serde_json::json!(nodes), "{node}");
            assert!(
                receipt["epsilon"].as_f64() <= receipt["epsilon_claimed"].as_f64(),
                "{node}: {}",
                receipt["epsilon"]
            );
            assert!(file(node, "receipt.json.sig").is_file());
            let mean = std::fs::read(file(node, "mean.csv")).expect("a mean");
            assert_eq!(mean, first, "{node} has other bits than {}", nodes[0]);
            let errors = self.errors(receipt["standard_error"].as_f64().expect("accounted"));
            for (c, found) in numbers(&mean)[0].iter().enumerate() {
                let off = (found - truth[c]).abs() / errors[c];
                assert!(
                    off < 6.0,
                    "{node}: column {c} is {found}, {off} standard errors from {}",
                    truth[c]
                );
            }
        }
        read_json(&file(nodes[0], "receipt.json"))
    }
}

/// Containers as the composition promises them.
fn check_hardened(composition: &Composition) {
    for node in NODES {
        let container = composition.inspect(node);
        let (host, state) = (&container["HostConfig"], &container["State"]);
        assert_eq!(state["Health"]["Status"], "healthy", "{node}");
        assert_eq!(
            (&host["ReadonlyRootfs"], &host["CapDrop"]),
            (&true.into(), &serde_json::json!(["ALL"])),
            "{node}"
        );
        assert!(
            host["SecurityOpt"].to_string().contains("no-new-privileges"),
            "{node}"
        );
        assert_eq!(container["Config"]["User"], "10001:10001", "{node}");
    }
}

/// Follows a run on a node to its end; what `watch` exits with.
fn watch(composition: &Composition, node: &str, digest: &str) -> i32 {
    composition.exec(node, ["watch", digest, "--json"]).code
}

#[test]
fn five_containers_average_and_survive_a_kill() {
    if let Err(missing) = possible() {
        return left_out("the composition", &missing);
    }
    build_offline();
    let mut composition = Composition::new(Path::new("docker-compose.yml"));
    let task = task();
    composition.run(["up", "--build", "--detach"]);
    assert_eq!(composition.ended("propose"), 0, "{}", composition.logs());
    let digest = newest(&composition, "node-2");
    for node in NODES {
        assert_eq!(watch(&composition, node, &digest), 0, "{node}");
    }
    let receipt = task.check(&composition, &NODES, &digest);
    check_hardened(&composition);
    println!(
        "the first run: ε = {}, standard error {}",
        receipt["epsilon"], receipt["standard_error"]
    );
    a_kill_in_the_second_run(&composition, &task);
    it_is_back_for_the_third(&composition, &task);
    the_fourth_has_masks_of_pairs(&composition, &task);
    the_fifth_fits_a_model(&composition, &task);
    the_sixth_is_a_stream_of_secure_sums(&composition);
    the_seventh_describes_a_table(&composition);
    the_page_is_reached_from_this_machine(&mut composition);
}

/// The digest of a node's newest run.
fn newest(composition: &Composition, node: &str) -> String {
    let status = composition.exec(node, ["status", "--json"]).json_of(0);
    status["runs"][0]["digest"]
        .as_str()
        .unwrap_or_else(|| panic!("no run: {status}"))
        .to_owned()
}

/// Node 1 proposes this run file; the plan's digest.
fn propose(composition: &Composition, run: &str) -> String {
    std::fs::write(composition.results("node-1").join("run.toml"), run).expect("writable by root");
    let line = [
        "submit",
        "--propose",
        "/results/run.toml",
        "--data-set",
        "patients",
        "--json",
    ];
    let proposed = composition.exec("node-1", line).json_of(0);
    proposed["digest"].as_str().expect("a digest").to_owned()
}

/// Nothing is mixed: the private graph carries hardly a byte.
fn the_fourth_has_masks_of_pairs(composition: &Composition, task: &Task) {
    let run = format!("{}\n[mechanism]\nkind = \"pairwise\"\n", task.text);
    let digest = propose(composition, &run);
    for node in NODES {
        assert_eq!(watch(composition, node, &digest), 0, "{node}");
    }
    let receipt = task.check(composition, &NODES, &digest);
    assert_eq!(receipt["execution"]["kind"], "pairwise", "{receipt}");
}

/// Who is readmitted, from a patient's other columns.
fn the_fifth_fits_a_model(composition: &Composition, task: &Task) {
    let run = task
        .text
        .replace("task = \"mean\"", "task = \"regression\"")
        .replace("epsilon = 1.0", "epsilon = 0.5")
        + "\n[model]\nloss = \"logistic\"\niterations = 20\n";
    let digest = propose(composition, &run);
    for node in NODES {
        assert_eq!(
            watch(composition, node, &digest),
            0,
            "{node}: {}",
            composition.logs()
        );
    }
    let models = NODES.map(|node| {
        let receipt = read_json(&composition.results(node).join(&digest).join("receipt.json"));
        receipt::assert_mu_follows(&receipt);
        assert_eq!(receipt["iterations"]["run"], 20, "{node}");
        assert!(
            receipt["epsilon"].as_f64().is_some_and(|epsilon| epsilon <= 0.5),
            "{receipt}"
        );
        composition
            .exec(
                node,
                ["result", &digest, "--output", "/results/model.npy", "--json"],
            )
            .json_of(0);
        std::fs::read(composition.results(node).join("model.npy")).expect("a model")
    });
    assert!(
        models.iter().all(|model| *model == models[0]),
        "one model, to the bit"
    );
}

/// Rows that no data set has: each node's owner brings its own, a row a round.
fn the_sixth_is_a_stream_of_secure_sums(composition: &Composition) {
    let run = format!(
        "version = 1\ntask = \"stream\"\nname = \"stream\"\n[data]\nshape = [2]\nreleases = {STREAMED}\nnoise_ok = true\n\
         clip = {{ kind = \"l2\", radius = 1.0 }}\n[privacy]\nepsilon = 1.0\n[mechanism]\n\
         sums = \"everybody\"\n[run]\njoin_ms = 60000\nsettle_ms = 15000\nround_ms = 60000\n"
    );
    for (node, place) in NODES.iter().zip(0..) {
        let rows: Vec<f64> = (0..STREAMED)
            .flat_map(|_| [0.1 * f64::from(place), -0.2])
            .collect();
        write_npy(&composition.results(node).join("rows.npy"), &[STREAMED, 2], &rows);
    }
    // The peer list is of patients; a row of a stream is a node's own.
    let peers = composition.file("node-1", "/var/lib/undertone/peers.toml");
    let peers = String::from_utf8(peers).expect("text");
    let parties: Vec<&str> = peers
        .lines()
        .filter(|line| !line.starts_with("records"))
        .collect();
    let written = |node: &str, name: &str, text: &[u8]| {
        std::fs::write(composition.results(node).join(name), text).expect("writable by root");
    };
    written("node-1", "peers.toml", parties.join("\n").as_bytes());
    written("node-1", "stream.toml", run.as_bytes());
    let line = "plan /results/stream.toml --peers /results/peers.toml --out /results/stream.json --json";
    let line: Vec<&str> = line.split(' ').collect();
    let line: [&str; 7] = line.try_into().expect("seven words");
    let planned = composition.exec("node-1", line).json_of(0);
    let digest = planned["digest"].as_str().expect("a digest");
    let plan = std::fs::read(composition.results("node-1").join("stream.json")).expect("a plan");
    for node in NODES {
        written(node, "stream.json", &plan);
        let line = [
            "submit",
            "/results/stream.json",
            "--input",
            "/results/rows.npy",
            "--data-set",
            "telemetry",
            "--json",
        ];
        composition.exec(node, line).json_of(0);
    }
    let means = NODES.map(|node| {
        assert_eq!(
            watch(composition, node, digest),
            0,
            "{node}: {}",
            composition.logs()
        );
        let line = ["result", digest, "--output", "/results/stream.npy", "--json"];
        composition.exec(node, line).json_of(0);
        let receipt = read_json(&composition.results(node).join(digest).join("receipt.json"));
        assert_eq!(receipt["claims"][0]["sealed"], true, "{receipt}");
        assert!(receipt["epsilon"].as_f64() <= Some(1.0), "{receipt}");
        std::fs::read(composition.results(node).join("stream.npy")).expect("estimates")
    });
    assert!(
        means.iter().all(|mean| *mean == means[0]),
        "one mean a round, to the bit"
    );
}

/// Statistics of all patients, each within seven times the noise that is said of it.
fn the_seventh_describes_a_table(composition: &Composition) {
    let run = "version = 1\ntask = \"describe\"\nname = \"table\"\n[data]\nrecords = 1000\n\
               [[describe.column]]\nname = \"age (years)\"\nlow = 18\nhigh = 100\nwant = [\"mean\", \"quantiles\"]\n\
               [[describe.column]]\nname = \"smoker\"\ncategories = [0, 1]\n\
               [privacy]\nepsilon = 1.0\ndelta = 1e-6\n[run]\njoin_ms = 60000\n";
    let digest = propose(composition, run);
    for node in NODES {
        assert_eq!(watch(composition, node, &digest), 0, "{node}");
    }
    let files = NODES.map(|node| {
        let folder = composition.results(node).join(&digest);
        receipt::assert_mu_follows(&read_json(&folder.join("receipt.json")));
        read_json(&folder.join("figures.json"))
    });
    assert!(
        files.iter().all(|file| file["sums"] == files[0]["sums"]),
        "the same sums, to the bit"
    );
    assert_eq!(files[0]["rows"], 5000.0);
    let rows: Vec<Vec<f64>> = NODES
        .iter()
        .flat_map(|node| numbers(&composition.file(node, PATIENTS)))
        .collect();
    let mean = |column: usize, low: f64| {
        let cells = rows.iter().map(|row| row[column].clamp(low, 100.0));
        cells.sum::<f64>() / rows.len() as f64
    };
    let statistics = &files[0]["figures"]["groups"][0]["statistics"];
    let age = &statistics[0]["mean"];
    let smokers = &statistics[2]["cells"][1]["share"];
    for (figure, truth) in [(age, mean(0, 18.0)), (smokers, mean(10, 0.0))] {
        let number = |key: &str| figure[key].as_f64().unwrap_or_else(|| panic!("{statistics}"));
        let off = (number("value") - truth).abs() / number("noise");
        assert!(off < 7.0, "{figure}, and the truth is {truth}");
    }
}

/// The door of deploy/page.yml: one node's page and API at a port of this machine, with its token.
fn the_page_is_reached_from_this_machine(composition: &mut Composition) {
    let port = Ports::hold(1);
    composition.open_page(port[0]);
    composition.run(["up", "--detach", "node-2"]);
    let token = composition.file("node-2", "/var/lib/undertone/state/api.token");
    let http = Http {
        address: format!("127.0.0.1:{}", port[0]),
        token: Some(String::from_utf8(token).expect("text").trim_end().to_owned()),
    };
    // Nobody sends: it only paces the asking.
    let (_sender, pace) = channel::<()>();
    let is_ready = || matches!(http.try_ask("GET", "/readyz", &[], &[]), Ok(reply) if reply.status == 200);
    let ready = (0..600).any(|_| is_ready() || pace.recv_timeout(Duration::from_millis(100)).is_ok());
    assert!(ready, "{}", composition.logs());
    assert!(http.get("/").text().contains("<title>"));
    assert_eq!(http.get("/v1/status").json_of(200)["party"], "node-2");
    http.with_token(None).get("/v1/status").refused(401, "token");
    let healthy = composition.exec("node-2", ["status", "--ready"]);
    assert_eq!(healthy.code, 0, "{}", healthy.stderr);
}

fn a_kill_in_the_second_run(composition: &Composition, task: &Task) {
    // Docker takes its time to kill, on a machine that does other things; the rounds take more.
    let slow = task
        .text
        .replace("[run]", "[run]\nround_ms = 8000\npace_ms = 2000");
    let victim = composition.container("node-4");
    let digest = &propose(composition, &slow);
    let (watching, mut events) = composition.follow("node-2", digest);
    events.until("the second round", |event| {
        event["event"] == "round" && event["round"] == 2
    });
    kill_container(&victim);
    assert_eq!(watching.wait().code, 5, "degraded: node-4 is missing");
    let others = ["node-1", "node-2", "node-3", "node-5"];
    for node in others {
        assert_eq!(watch(composition, node, digest), 5, "{node}");
    }
    let receipt = task.check(composition, &others, digest);
    assert_eq!(receipt["departed"], serde_json::json!(["node-4"]));
}

fn it_is_back_for_the_third(composition: &Composition, task: &Task) {
    composition.run(["up", "--detach", "node-4"]);
    composition.run(["run", "--rm", "-T", "propose"]);
    let digest = newest(composition, "node-1");
    for node in NODES {
        assert_eq!(watch(composition, node, &digest), 0, "{node}");
    }
    task.check(composition, &NODES, &digest);
    // The run that it was killed in stays charged, and it has read the result of the others.
    let status = composition.exec("node-4", ["status", "--json"]).json_of(0);
    let interrupted = &status["runs"][1];
    assert_eq!(
        (
            &interrupted["state"],
            &interrupted["exit_code"],
            &status["budgets"][0]["runs"]
        ),
        (&"ended".into(), &5.into(), &3.into()),
        "{status}"
    );
}
