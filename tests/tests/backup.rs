//! A backup, the loss of the disk, and the restore: nothing that was spent is forgotten, and no
//! data set takes a run before its operator has said that nothing else was spent.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use undertone_tests::daemon::Daemon;
use undertone_tests::http::Reply;
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

/// `undertone restore` of alice.
fn restore(parties: &Parties, file: &str) -> Ended {
    parties.run(["restore", file, "--config", "alice.node.toml", "--json"])
}

/// Hands in a plan that is refused.
fn hand_in(parties: &Parties, daemon: &Daemon, plan: &str) -> Reply {
    let plan = std::fs::read(parties.path(&format!("{plan}.json"))).expect("a plan");
    daemon.submit(&plan, "data_file=ward.npy", None)
}

fn mode(parties: &Parties, file: &str) -> u32 {
    let metadata = std::fs::metadata(parties.path(file)).expect("there");
    metadata.permissions().mode() & 0o777
}

/// Daemons of all with a vector each.
fn started(parties: &Parties) -> Vec<Daemon> {
    parties.write_inputs(&[8]);
    let start = |(party, name): (usize, &String)| {
        Daemon::configure(parties, party, WARD);
        let to = parties.path(&format!("{name}.data/ward.npy"));
        std::fs::copy(parties.path(&format!("{name}.npy")), to).expect("writable");
        start(parties, party)
    };
    parties.names().iter().enumerate().map(start).collect()
}

#[test]
fn a_lost_disk_is_restored_and_forgets_no_charge() {
    let _alone = alone();
    let parties = Parties::new(3);
    for plan in ["first", "second", "third", "fourth"] {
        parties.plan(plan, RUN);
    }
    let mut daemons = started(&parties);
    run(&parties, &daemons, "first");
    let secret = backs_up_with_and_without_the_key(&parties);
    // A run that the backup does not know; then the disk is lost.
    let second = run(&parties, &daemons, "second");
    assert_eq!(second[0]["outcome"], "done");
    let spent = budget(&daemons[0]);
    restore(&parties, "alice.tar").refused(2, "in use");
    assert_eq!(daemons.remove(0).end().0.code, 0);
    loses_its_disk_and_restores_it(&parties, &secret);
    is_closed_until_the_operator_opens_it(&parties, &daemons[0]);

    let alice = start(&parties, 0);
    let after = budget(&alice);
    for key in ["runs", "mu_squared", "epsilon_spent", "runs_left", "closed_since"] {
        assert_eq!(after[key], spent[key], "{key}");
    }
    let refused = hand_in(&parties, &alice, "second");
    assert_eq!(refused.status, 409, "spent, by the receipt");
    daemons.insert(0, alice);
    let third = run(&parties, &daemons, "third");
    assert!(third.iter().all(|run| run["outcome"] == "done"));
    let spent = budget(&daemons[0]);
    assert_eq!(daemons.remove(0).end().0.code, 0);

    // The old backup once more: it lowers nothing, and closes all the same.
    let again = restore(&parties, "alice.tar").json_of(0);
    assert_eq!(
        (&again["charged"], &again["marked"], &again["receipts"]),
        (&0.into(), &0.into(), &0.into())
    );
    assert_eq!(again["closed"], json!(["ward"]));
    let alice = start(&parties, 0);
    assert_eq!(budget(&alice)["mu_squared"], spent["mu_squared"]);
    assert_eq!(hand_in(&parties, &alice, "fourth").status, 403);
    refuses_what_is_no_backup_of_its_own(&parties);
    for daemon in daemons.into_iter().chain([alice]) {
        assert_eq!(daemon.end().0.code, 0);
    }
}

/// While the daemon runs; without the key, and with it. The key.
fn backs_up_with_and_without_the_key(parties: &Parties) -> Vec<u8> {
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
    assert_eq!(
        [mode(parties, "key.tar"), mode(parties, "alice.tar")],
        [0o600, 0o600]
    );
    secret
}

fn loses_its_disk_and_restores_it(parties: &Parties, secret: &[u8]) {
    for lost in ["alice.state", "alice.key.spent", "alice.key"] {
        remove(&parties.path(lost));
    }
    restore(parties, "alice.tar").refused(2, "alice.key");
    let restored = restore(parties, "key.tar").json_of(0);
    assert_eq!(restored["key_written"], true, "{restored}");
    assert_eq!(
        (&restored["charged"], &restored["receipts"]),
        (&1.into(), &1.into()),
        "{restored}"
    );
    assert_eq!(
        (
            std::fs::read(parties.path("alice.key")).ok(),
            mode(parties, "alice.key")
        ),
        (Some(secret.to_vec()), 0o600)
    );
}

/// The daemon starts, says which data set is closed, and takes nothing, until what is missing is
/// charged and the operator has said that nothing else is.
fn is_closed_until_the_operator_opens_it(parties: &Parties, bob: &Daemon) {
    let alice = start(parties, 0);
    let closed = hand_in(parties, &alice, "third").json_of(403);
    let says = |key: &str, words: &str| closed[key].as_str().is_some_and(|said| said.contains(words));
    assert!(
        says("detail", "is closed") && says("hint", "ledger adopt"),
        "{closed}"
    );
    let refused = hand_in(parties, &alice, "first");
    assert_eq!(refused.status, 409, "spent, by the backup");
    let at_start = budget(&alice);
    assert_eq!(at_start["runs"], 1);
    assert!(at_start["closed_since"].is_string(), "{at_start}");
    let ready = alice.http.get("/readyz").json_of(200);
    assert_eq!(ready["closed"], json!(["ward"]), "{ready}");
    let shown = run_in(parties.folder(), ["status", "--config", "alice.node.toml"]);
    assert!(
        shown.stdout.contains("Closed: \"ward\" takes no run"),
        "{}",
        shown.stdout
    );
    alice
        .http
        .get(&format!("/v1/runs/{}/receipt", digest(parties, "first")))
        .json_of(200);
    assert_eq!(alice.end().0.code, 0);

    // What is missing is charged from another member's receipt; that alone opens nothing.
    let of_bob = format!("/v1/runs/{}", digest(parties, "second"));
    for (file, place) in [("bob.json", "receipt"), ("bob.json.sig", "receipt.sig")] {
        let reply = bob.http.get(&format!("{of_bob}/{place}"));
        assert_eq!(reply.status, 200);
        std::fs::write(parties.path(file), &reply.body).expect("writable");
    }
    let receipt = ["--receipt", "bob.json", "--plan", "second.json"];
    adopt(parties, &receipt).refused(2, "data-set");
    let named = ["--data-set", "ward"];
    adopt(
        parties,
        &[&named[..], &["--receipt", "bob.json", "--plan", "third.json"]].concat(),
    )
    .refused(3, "bob.json");
    adopt(parties, &["--data-set", "other", "--nothing-else-was-spent"]).refused_at(2, "--data-set");
    let charged = adopt(parties, &[&named[..], &receipt].concat()).json_of(0);
    assert_eq!(
        charged["adopted"][0]["digest"],
        digest(parties, "second"),
        "{charged}"
    );
    assert_eq!(
        (&charged["closed"], &charged["opened"]),
        (&json!(["ward"]), &Value::Null)
    );
    let opened = adopt(parties, &[&named[..], &["--nothing-else-was-spent"]].concat()).json_of(0);
    assert_eq!(
        (&opened["closed"], &opened["opened"]),
        (&json!([]), &"ward".into())
    );
}

/// Another's backup, and one that is not what was written.
fn refuses_what_is_no_backup_of_its_own(parties: &Parties) {
    let of_bob = ["restore", "alice.tar", "--config", "bob.node.toml", "--json"];
    parties.run(of_bob).refused_at(2, "identity");
    let mut bytes = std::fs::read(parties.path("alice.tar")).expect("a backup");
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(parties.path("odd.tar"), bytes).expect("writable");
    restore(parties, "odd.tar").refused_at(2, "FILE");
    restore(parties, "first.json").refused_at(2, "FILE");
}
