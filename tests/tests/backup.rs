//! A backup, the loss of the disk, and the restore: nothing that was spent is forgotten, and no
//! data set takes a run before its operator has said that nothing else was spent.

use std::path::Path;

use serde_json::{Value, json};
use undertone_tests::daemon::Daemon;
use undertone_tests::{Ended, Parties, alone, run_in};

const RUN: &str =
    "version = 1\nname = \"backup\"\n[run]\njoin_ms = 60000\n[data]\nnoise_ok = true\nshape = [8]\n";

const WARD: &str = "[[data_set]]\nname = \"ward\"\nfile = \"ward.npy\"\nepsilon = 4.0\ndelta = 1e-5\n";

const CONFIG: [&str; 3] = ["--config", "alice.node.toml", "--json"];

fn start(parties: &Parties, party: usize) -> Daemon {
    Daemon::start(parties, party, WARD)
}

/// All take part in a plan; each run as it ended.
fn run(parties: &Parties, daemons: &[Daemon], plan: &str) -> Vec<Value> {
    let (file, digest) = (parties.path(&format!("{plan}.json")), digest(parties, plan));
    for daemon in daemons {
        let plan = std::fs::read(&file).expect("a plan");
        daemon.submit(&plan, "data_file=ward.npy", None).json_of(201);
    }
    let ended = |daemon: &Daemon| {
        daemon
            .http
            .events(&format!("/v1/runs/{digest}/events"), &[], |_| false);
        daemon.http.get(&format!("/v1/runs/{digest}")).json_of(200)
    };
    daemons.iter().map(ended).collect()
}

fn digest(parties: &Parties, plan: &str) -> String {
    let verified = parties
        .run(["verify", &format!("{plan}.json"), "--json"])
        .json_of(0);
    verified["digest"].as_str().expect("a digest").to_owned()
}

fn budget(daemon: &Daemon) -> Value {
    daemon.http.get("/v1/status").json_of(200)["budgets"][0].clone()
}

/// `undertone ledger adopt` of alice with more flags.
fn adopt(parties: &Parties, more: &[&str]) -> Ended {
    run_in(
        parties.folder(),
        ["ledger", "adopt"].iter().chain(more).chain(&CONFIG),
    )
}

fn remove(path: &Path) {
    if path.is_dir() {
        std::fs::remove_dir_all(path).expect("it was there");
    } else {
        std::fs::remove_file(path).expect("it was there");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one journey, a step after the other")]
fn a_lost_disk_is_restored_and_forgets_no_charge() {
    let _alone = alone();
    let parties = Parties::new(3);
    for plan in ["first", "second", "third", "fourth"] {
        parties.plan(plan, RUN);
    }
    parties.write_inputs(&[8]);
    let mut daemons = vec![];
    for (party, name) in parties.names().iter().enumerate() {
        Daemon::configure(&parties, party, WARD);
        let to = parties.path(&format!("{name}.data/ward.npy"));
        std::fs::copy(parties.path(&format!("{name}.npy")), to).expect("writable");
        daemons.push(start(&parties, party));
    }
    run(&parties, &daemons, "first");
    // While the daemon runs; without the key, and with it.
    let backup = ["backup", "alice.tar", "--config", "alice.node.toml", "--json"];
    let made = parties.run(backup).json_of(0);
    assert_eq!(
        (&made["party"], &made["with_key"]),
        (&"alice".into(), &false.into())
    );
    let with_key = [
        "backup",
        "key.tar",
        "--with-key",
        "--config",
        "alice.node.toml",
        "--json",
    ];
    parties.run(with_key).json_of(0);
    let secret = std::fs::read(parties.path("alice.key")).expect("the key");
    let holds_key = |file: &str| {
        let bytes = std::fs::read(parties.path(file)).expect("a backup");
        bytes.windows(secret.len()).any(|window| window == secret)
    };
    assert!(holds_key("key.tar") && !holds_key("alice.tar"));
    let mode = |file: &str| {
        use std::os::unix::fs::PermissionsExt;
        let metadata = std::fs::metadata(parties.path(file)).expect("there");
        metadata.permissions().mode() & 0o777
    };
    assert_eq!([mode("key.tar"), mode("alice.tar")], [0o600, 0o600]);

    // A run that the backup does not know; then the disk is lost.
    let second = run(&parties, &daemons, "second");
    let spent = budget(&daemons[0]);
    let restore = ["restore", "alice.tar", "--config", "alice.node.toml", "--json"];
    parties.run(restore).refused(2, "in use");
    assert_eq!(daemons.remove(0).end().0.code, 0);
    for lost in ["alice.state", "alice.key.spent", "alice.key"] {
        remove(&parties.path(lost));
    }
    parties.run(restore).refused(2, "alice.key");
    let with_key = ["restore", "key.tar", "--config", "alice.node.toml", "--json"];
    let restored = parties.run(with_key).json_of(0);
    assert_eq!(restored["key_written"], true, "{restored}");
    assert_eq!(
        (&restored["charged"], &restored["receipts"]),
        (&1.into(), &1.into()),
        "{restored}"
    );
    assert_eq!(
        (std::fs::read(parties.path("alice.key")).ok(), mode("alice.key")),
        (Some(secret), 0o600)
    );

    // Closed: the daemon starts, and takes nothing.
    let refused = |daemon: &Daemon, plan: &str| {
        let plan = std::fs::read(parties.path(&format!("{plan}.json"))).expect("a plan");
        daemon.submit(&plan, "data_file=ward.npy", None)
    };
    let alice = start(&parties, 0);
    let closed = refused(&alice, "third").json_of(403);
    assert!(
        closed["detail"]
            .as_str()
            .is_some_and(|why| why.contains("is closed")),
        "{closed}"
    );
    assert!(
        closed["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("ledger adopt")),
        "{closed}"
    );
    assert_eq!(refused(&alice, "first").status, 409, "spent, by the backup");
    assert_eq!(budget(&alice)["runs"], 1);
    alice
        .http
        .get(&format!("/v1/runs/{}/receipt", digest(&parties, "first")))
        .json_of(200);
    assert_eq!(alice.end().0.code, 0);

    // What is missing is charged from another member's receipt; that alone opens nothing.
    let bob = format!("/v1/runs/{}", digest(&parties, "second"));
    for (file, place) in [("bob.json", "receipt"), ("bob.json.sig", "receipt.sig")] {
        let reply = daemons[0].http.get(&format!("{bob}/{place}"));
        assert_eq!(reply.status, 200);
        std::fs::write(parties.path(file), &reply.body).expect("writable");
    }
    let receipt = ["--receipt", "bob.json", "--plan", "second.json"];
    adopt(&parties, &receipt).refused(2, "data-set");
    let named = ["--data-set", "ward"];
    adopt(
        &parties,
        &[&named[..], &["--receipt", "bob.json", "--plan", "third.json"]].concat(),
    )
    .refused(3, "bob.json");
    adopt(&parties, &["--data-set", "other", "--nothing-else-was-spent"]).refused_at(2, "--data-set");
    let charged = adopt(&parties, &[&named[..], &receipt].concat()).json_of(0);
    assert_eq!(
        charged["adopted"][0]["digest"],
        digest(&parties, "second"),
        "{charged}"
    );
    assert_eq!(
        (&charged["closed"], &charged["opened"]),
        (&json!(["ward"]), &Value::Null)
    );
    let opened = adopt(&parties, &[&named[..], &["--nothing-else-was-spent"]].concat()).json_of(0);
    assert_eq!(
        (&opened["closed"], &opened["opened"]),
        (&json!([]), &"ward".into())
    );
    let alice = start(&parties, 0);
    let after = budget(&alice);
    for key in ["runs", "mu_squared", "epsilon_spent", "runs_left"] {
        assert_eq!(after[key], spent[key], "{key}");
    }
    assert_eq!(second[0]["outcome"], "done");
    assert_eq!(refused(&alice, "second").status, 409, "spent, by the receipt");
    daemons.insert(0, alice);
    assert!(
        run(&parties, &daemons, "third")
            .iter()
            .all(|run| run["outcome"] == "done")
    );
    let spent = budget(&daemons[0]);
    assert_eq!(daemons.remove(0).end().0.code, 0);

    // The old backup once more: it lowers nothing, and closes all the same.
    let again = parties.run(restore).json_of(0);
    assert_eq!(
        (&again["charged"], &again["marked"], &again["receipts"]),
        (&0.into(), &0.into(), &0.into())
    );
    assert_eq!(again["closed"], json!(["ward"]));
    let alice = start(&parties, 0);
    assert_eq!(budget(&alice)["mu_squared"], spent["mu_squared"]);
    assert_eq!(refused(&alice, "fourth").status, 403);

    // Another's backup, and one that is not what was written.
    let of_bob = ["restore", "alice.tar", "--config", "bob.node.toml", "--json"];
    parties.run(of_bob).refused_at(2, "identity");
    let mut bytes = std::fs::read(parties.path("alice.tar")).expect("a backup");
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(parties.path("odd.tar"), bytes).expect("writable");
    let odd = ["restore", "odd.tar", "--config", "alice.node.toml", "--json"];
    parties.run(odd).refused_at(2, "FILE");
    parties
        .run(["restore", "first.json", "--config", "alice.node.toml", "--json"])
        .refused_at(2, "FILE");
    for daemon in daemons.into_iter().chain([alice]) {
        assert_eq!(daemon.end().0.code, 0);
    }
}
