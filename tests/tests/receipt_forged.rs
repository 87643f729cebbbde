//! Forged receipts, each signed with a member's real key over a real plan of every mechanism and
//! computation: `undertone receipt` refuses them, or says whose word it takes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use undertone::party::identity::Identity;
use undertone::party::receipt::signing::signed_bytes;
use undertone_tests::{Ended, Parties, alone, read_json, start_in};

/// A plan that is run by five parties: what it is called, its run file, and each party's shape.
struct Kind {
    name: &'static str,
    lines: &'static str,
    shape: &'static [usize],
}

const KINDS: [Kind; 12] = [
    Kind {
        name: "uniform",
        lines: "[data]\nshape = [3]\n",
        shape: &[3],
    },
    Kind {
        name: "masks",
        lines: "[data]\nshape = [3]\n[mechanism]\nkind = \"pairwise\"\n",
        shape: &[3],
    },
    Kind {
        name: "exchanges",
        lines: "[data]\nshape = [3]\n[mechanism]\nkind = \"ppsc\"\n",
        shape: &[3],
    },
    Kind {
        name: "gaussian",
        lines: "[data]\nshape = [3]\n[run]\nsealed = false\n",
        shape: &[3],
    },
    Kind {
        name: "gaussian-exchanges",
        lines: "[data]\nshape = [3]\n[mechanism]\nkind = \"ppsc\"\ncorrelated = \"gaussian\"\n[run]\nsealed = false\n",
        shape: &[3],
    },
    Kind {
        name: "averaged",
        lines: "[data]\nshape = [3]\n[run]\ndissemination = \"consensus\"\n",
        shape: &[3],
    },
    Kind {
        name: "drawn",
        lines: "[data]\nshape = [3]\n[privacy]\ncoalitions = \"static\"\n",
        shape: &[3],
    },
    Kind {
        name: "records",
        lines: "[data]\nshape = [3]\nunit = \"record\"\nrecords = { at_most = 9 }\nclip = { kind = \"l2\", radius = 1.0 }\n",
        shape: &[4, 3],
    },
    Kind {
        name: "model-of-records",
        lines: "task = \"regression\"\n[data]\nshape = [3]\nrecords = 400\n[model]\nloss = \"squared\"\nclip = 1.0\niterations = 3\nstep = 0.1\n[privacy]\nepsilon = 8.0\n",
        shape: &[400, 3],
    },
    Kind {
        name: "stream",
        lines: "task = \"stream\"\n[data]\nshape = [3]\nreleases = 4\n[mechanism]\nsums = \"everybody\"\n",
        shape: &[4, 3],
    },
    Kind {
        name: "gossip",
        lines: "task = \"stream\"\n[data]\nshape = [3]\nreleases = 4\n[mechanism]\nsums = \"open\"\n",
        shape: &[4, 3],
    },
    Kind {
        name: "sums-revealed",
        lines: "[data]\nshape = [3]\n[mechanism]\nkind = \"ppsc\"\nindependent_noise = \"none\"\naccept_exact_sum = true\n",
        shape: &[3],
    },
];

const PARTIES: usize = 5;

/// A run that is over, and the key of one who took part.
struct Forger {
    parties: Parties,
    identity: Identity,
    honest: Value,
}

impl Forger {
    fn of(kind: &Kind) -> Self {
        let parties = Parties::new(PARTIES);
        parties.write_inputs(kind.shape);
        // Nobody waits for these, also on a machine with other work.
        let deadlines = match kind.lines.contains("regression") {
            true => "join_ms = 60000\niteration_ms = 60000\n",
            false => "join_ms = 60000\nround_ms = 120000\nsettle_ms = 30000\n",
        };
        let run = if kind.lines.contains("[run]") {
            ""
        } else {
            "[run]\n"
        };
        let lines = kind.lines.replacen("[data]\n", "[data]\nnoise_ok = true\n", 1);
        parties.plan("real", &format!("name = \"real\"\n{lines}{run}{deadlines}"));
        let joins: Vec<_> = (0..PARTIES)
            .map(|party| start_in(parties.folder(), parties.join("real", party)))
            .collect();
        for join in joins {
            join.wait().json_of(0);
        }
        let identity = Identity::load(&parties.path("alice.key")).expect("a key");
        let honest = read_json(&parties.path("real-alice.receipt.json"));
        Forger {
            parties,
            identity,
            honest,
        }
    }

    /// Signs a receipt and has it checked.
    fn present(&self, receipt: &Value, more: &str) -> Ended {
        let text = format!("{receipt:#}\n");
        let signature = self
            .identity
            .keypair
            .sign(&signed_bytes(&text))
            .expect("a signature");
        self.parties.write("forged.json", &text);
        self.parties
            .write("forged.json.sig", &(STANDARD.encode(signature) + "\n"));
        let line = format!("receipt forged.json --json {more}");
        undertone_tests::run_in(self.parties.folder(), line.split_whitespace())
    }

    fn with_plan(&self, receipt: &Value) -> Ended {
        self.present(receipt, "--plan real.json")
    }
}

/// States that nothing was lost.
fn free(receipt: &mut Value) {
    for key in ["mu", "epsilon", "epsilon_opened", "mu_iteration"] {
        if receipt[key].is_number() {
            receipt[key] = json!(0.0);
        }
    }
}

fn list<'a>(receipt: &'a mut Value, key: &str) -> Option<&'a mut Vec<Value>> {
    receipt["execution"][key].as_array_mut()
}

/// A forgery: what is changed; false where this receipt has no such part.
type Forgery = (&'static str, fn(&mut Value) -> bool);

const FORGERIES: [Forgery; 33] = [
    ("neither execution nor loss", |it| {
        for key in ["execution", "mu", "epsilon"] {
            it[key] = Value::Null;
        }
        it.as_object_mut()
            .is_some_and(|it| it.remove("unbounded").is_none())
    }),
    ("no execution, and nothing lost", |it| {
        free(it);
        it["execution"] = Value::Null;
        // Where nothing bounds a loss none is stated, with or without an execution.
        it["unbounded"] != true
    }),
    ("nothing lost", |it| {
        free(it);
        it["mu"].is_number()
    }),
    ("a little less lost", |it| {
        let mu = it["mu"].as_f64();
        it["mu"] = json!(mu.map(|mu| mu * (1.0 - 1e-6)));
        mu.is_some()
    }),
    ("a smaller epsilon", |it| {
        let epsilon = it["epsilon"].as_f64();
        it["epsilon"] = json!(epsilon.map(|epsilon| epsilon * 0.99));
        epsilon.is_some()
    }),
    ("nobody's final is seen", |it| {
        free(it);
        list(it, "published").map(Vec::clear).is_some()
    }),
    ("one final is not seen", |it| {
        free(it);
        list(it, "published").and_then(Vec::pop).is_some()
    }),
    ("nobody colludes", |it| {
        free(it);
        list(it, "corrupted").map(Vec::clear).is_some()
    }),
    ("a round less", |it| {
        let rounds = it["execution"]["rounds"].as_u64();
        it["execution"]["rounds"] = json!(rounds.map(|rounds| rounds - 1));
        rounds.is_some() && list(it, "out").and_then(Vec::pop).is_some()
    }),
    ("an iteration less", |it| {
        list(it, "edges").and_then(Vec::pop).is_some()
    }),
    ("a mask less", |it| list(it, "masks").and_then(Vec::pop).is_some()),
    ("another schedule", |it| {
        let Some(out) = list(it, "out") else { return false };
        out.rotate_left(1);
        true
    }),
    ("other exchanges", |it| {
        let Some(edges) = list(it, "edges") else {
            return false;
        };
        edges.reverse();
        true
    }),
    ("values that may change by half", |it| {
        let Some(sensitivity) = list(it, "sensitivity") else {
            return false;
        };
        sensitivity
            .iter_mut()
            .for_each(|it| *it = json!(it.as_f64().map(|it| it / 2.0)));
        let mu = it["mu"].as_f64();
        it["mu"] = json!(mu.map(|mu| mu / 2.0));
        mu.is_some()
    }),
    ("nobody is online", |it| {
        free(it);
        let Some(rounds) = it["execution"]["rounds"].as_u64() else {
            return false;
        };
        let row = |here: bool| json!(vec![here; PARTIES]);
        let rows: Vec<Value> = (0..=rounds).map(|round| row(round == 0)).collect();
        it["execution"]["online"] = json!(rows);
        true
    }),
    ("withheld, with data in the result", |it| {
        free(it);
        it["outcome"] = json!("withheld");
        list(it, "published").map(Vec::clear).is_some()
    }),
    ("aborted, with data in the result", |it| {
        free(it);
        it["outcome"] = json!("aborted");
        it["result_sha256"] = Value::Null;
        true
    }),
    ("done with nobody's data", |it| {
        free(it);
        it["included"] = json!([]);
        list(it, "published").map(Vec::clear).is_some()
    }),
    ("gossip of which nothing left", |it| {
        free(it);
        let is_new = it.get("gossip").is_none();
        it["gossip"] = json!({ "sums": "open", "protect": "all" });
        it["iterations"] = json!({ "planned": 1, "run": 1, "spent": 0, "releases": 1 });
        is_new
    }),
    ("nothing is spent", |it| {
        free(it);
        let known = it["iterations"].is_object();
        it["iterations"]["spent"] = json!(0);
        known
    }),
    ("one release is not spent", |it| {
        let spent = it["iterations"]["spent"].as_u64();
        it["iterations"]["spent"] = json!(spent.map(|spent| spent - 1));
        spent.is_some()
    }),
    ("one release may change", |it| {
        let known = it["protect"].is_string() || it["gossip"].is_object();
        match it["protect"].is_string() {
            true => it["protect"] = json!("one"),
            false if known => it["gossip"]["protect"] = json!("one"),
            false => {}
        }
        known
    }),
    ("less noise than there is", |it| {
        let error = it["standard_error"].as_f64();
        it["standard_error"] = json!(error.map(|error| error * 0.99));
        error.is_some_and(|error| error > 0.0)
    }),
    ("more records than the bound", |it| {
        let known = it["records"].is_object();
        if known {
            it["records"]["alice"] = json!(10);
        }
        known
    }),
    ("fewer records than there were", |it| {
        let known = it["records"].is_object();
        if known {
            it["records"]["alice"] = json!(3);
        }
        known
    }),
    ("no number of records", |it| {
        let object = it.as_object_mut().expect("an object");
        object.remove("records").is_some()
    }),
    ("records where the plan has their number", |it| {
        let is_new = it.get("records").is_none();
        it["records"] = json!({ "alice": 3 });
        is_new
    }),
    ("another draw", |it| {
        let seed = it["draw"]["seed"].as_u64();
        it["draw"]["seed"] = json!(seed.map(|seed| seed ^ 1));
        seed.is_some()
    }),
    ("draws with the chance of one", |it| {
        // Of one draw, where there may be three.
        let chance = it["draw"]["chance"].as_f64();
        it["draw"]["chance"] = json!(chance.map(|chance| chance / 3.0));
        it["draw"]["most"] = json!(1);
        chance.is_some()
    }),
    ("fewer draws with the chance of all", |it| {
        let most = it["draw"]["most"].as_u64();
        it["draw"]["most"] = json!(1);
        most.is_some()
    }),
    ("a draw where nothing is drawn", |it| {
        let is_drawn = !it["draw"].is_null();
        it["draw"] = json!({ "delta": 1e-30 });
        !is_drawn
    }),
    ("nothing added by sampling", |it| {
        let sampled = it["sampling_delta"].as_f64();
        it["sampling_delta"] = json!(0.0);
        sampled.is_some_and(|sampled| sampled > 0.0)
    }),
    ("withheld for nothing, though something was told", |it| {
        // Gaussian shares tell something before anybody publishes, and so did each opened release.
        let shares_tell = ["correlated_std", "pairwise_std"]
            .iter()
            .any(|key| it[key].is_number());
        let opened = it["iterations"]["spent"].as_u64().is_some_and(|spent| spent > 0);
        let bounded = it["mu"].is_number() && it["gossip"].is_null();
        free(it);
        it["outcome"] = json!("withheld");
        it["included"] = json!([]);
        it["agreed"] = json!(false);
        for key in ["result_sha256", "standard_error"] {
            it[key] = Value::Null;
        }
        for key in ["published", "corrupted"] {
            it["execution"][key] = json!([]);
        }
        bounded && (shares_tell || opened)
    }),
];

#[test]
fn forged_receipts_of_every_kind_are_refused() {
    let _alone = alone();
    let mut tried = std::collections::BTreeMap::new();
    for kind in &KINDS {
        let forger = Forger::of(kind);
        let good = forger.with_plan(&forger.honest).json_of(0);
        let named = forger.honest["result_sha256"].is_string();
        assert!(named, "{}: {}", kind.name, forger.honest);
        assert_eq!(good["mean_checked"], false);
        for (what, forge) in FORGERIES {
            let mut forged = forger.honest.clone();
            if !forge(&mut forged) {
                continue;
            }
            *tried.entry(what).or_insert(0) += 1;
            let ended = forger.with_plan(&forged);
            assert_eq!(
                ended.code, 3,
                "{}, {what}: {}{}",
                kind.name, ended.stdout, ended.stderr
            );
        }
        check_words(kind, &forger);
        check_means(kind, &forger);
    }
    println!("{tried:?}");
    let idle: Vec<&str> = FORGERIES
        .iter()
        .map(|(what, _)| *what)
        .filter(|what| !tried.contains_key(what))
        .collect();
    assert_eq!(idle, [""; 0], "each is tried on some kind");
}

/// What nobody can check is said to be its party's word.
fn check_words(kind: &Kind, forger: &Forger) {
    let mut nothing = forger.honest.clone();
    free(&mut nothing);
    for key in ["execution", "result_sha256", "standard_error"] {
        nothing[key] = Value::Null;
    }
    (nothing["outcome"], nothing["included"]) = (json!("aborted"), json!([]));
    for key in ["iterations", "protect", "gossip", "unbounded"] {
        nothing.as_object_mut().expect("an object").remove(key);
    }
    for key in ["mu", "epsilon"] {
        nothing[key] = json!(0.0);
    }
    let object = forger.with_plan(&nothing).json_of(0);
    assert_eq!(object["mu_recomputed"], Value::Null, "{}: {object}", kind.name);
    let unchecked = object["unchecked"].to_string();
    assert!(
        unchecked.contains("That nothing private left alice is its word"),
        "{}: {unchecked}",
        kind.name
    );
    // No loss is stated: that is said, and nothing is computed.
    let mut boundless = forger.honest.clone();
    for key in ["execution", "mu", "epsilon"] {
        boundless[key] = Value::Null;
    }
    boundless["unbounded"] = json!(true);
    let object = forger.with_plan(&boundless);
    if boundless["gossip"].is_null() {
        let object = object.json_of(0);
        let said = object["sentences"].to_string() + &object["unchecked"].to_string();
        assert!(
            said.contains("has no bound") && said.contains("nothing was computed"),
            "{}: {said}",
            kind.name
        );
    }
    // Without its plan a receipt is held against itself, and that is said.
    let text = forger.present(&forger.honest, "").json_of(0);
    assert_eq!(
        (&text["plan_checked"], &text["signature_checked"]),
        (&json!(false), &json!(false))
    );
}

/// The result is the file that the receipt names, to the bit.
fn check_means(kind: &Kind, forger: &Forger) {
    let check =
        |receipt: &Value, mean: &str| forger.present(receipt, &format!("--plan real.json --mean {mean}"));
    let object = check(&forger.honest, "real-alice.npy").json_of(0);
    assert_eq!(object["mean_checked"], true, "{}", kind.name);
    let good = std::fs::read(forger.parties.path("real-alice.npy")).expect("a mean");
    for at in [0, good.len() / 2, good.len() - 1] {
        let mut changed = good.clone();
        changed[at] ^= 1;
        std::fs::write(forger.parties.path("changed.npy"), changed).expect("writable");
        check(&forger.honest, "changed.npy").refused_at(3, "--mean");
    }
    check(&forger.honest, "absent.npy").refused_at(2, "--mean");
    let mut nameless = forger.honest.clone();
    nameless["result_sha256"] = Value::Null;
    check(&nameless, "real-alice.npy").refused_at(3, "--mean");
    for wrong in [json!("00"), json!(7), json!("Z".repeat(64))] {
        let mut named = forger.honest.clone();
        named["result_sha256"] = wrong;
        forger.with_plan(&named).refused_at(3, "forged.json");
    }
    let mut missing = forger.honest.clone();
    missing
        .as_object_mut()
        .expect("an object")
        .remove("result_sha256");
    forger.with_plan(&missing).refused_at(3, "forged.json");
}

/// What a receipt of numbers of one's own names: nothing, for they could be found by trying.
#[test]
fn estimates_that_are_their_owners_alone_are_named_by_no_hash() {
    let _alone = alone();
    let kind = Kind {
        name: "neighbours",
        lines: "task = \"stream\"\n[data]\nshape = [3]\nreleases = 2\n[mechanism]\nsums = \"neighbours\"\n",
        shape: &[2, 3],
    };
    let forger = Forger::of(&kind);
    assert_eq!(forger.honest["result_sha256"], Value::Null, "{}", forger.honest);
    forger.with_plan(&forger.honest).json_of(0);
    let ended = forger.present(&forger.honest, "--plan real.json --mean real-alice.npy");
    let refusal = ended.refused_at(3, "--mean");
    assert!(refusal.to_string().contains("its party's alone"), "{refusal}");
}
