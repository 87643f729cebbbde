//! What a quote says beside its claims: errors with more parties gone, errors at other ε, a
//! picture, and what would help where a target cannot be met.

use serde_json::Value;
use undertone_tests::{PLAN, Parties, alone, assert_close, start_in, watched_in};

const RUN: &str = "version = 1\nname = \"test\"\n[data]\nshape = [40]\n[mechanism]\nrounds = 4\n";

/// [`RUN`] with the papers' noise, whose losses are computed coalition by coalition.
const GAUSSIAN: &str = "version = 1\nname = \"test\"\n[data]\nshape = [40]\n[mechanism]\ncorrelated = \"gaussian\"\nrounds = 4\n";

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The quote names what the plan could use instead, and what each rests on.
fn assert_compared(quote: &Value) {
    let ways = quote["alternatives"].as_array().expect("a list");
    let names: Vec<&str> = ways.iter().filter_map(|way| way["mechanism"].as_str()).collect();
    assert_eq!(
        names,
        [
            "PPSC, uniform noise, sealed finals",
            "masks of pairs, sealed finals",
            "INCA, Gaussian noise, finals not sealed",
            "local noise",
            "a trusted server"
        ]
    );
    for way in ways {
        assert!(number(&way["standard_error"]) > 0.0 && number(&way["bytes_per_party"]) > 0.0);
        assert!(
            way["rests_on"]
                .as_str()
                .is_some_and(|reported| !reported.is_empty()),
            "{way}"
        );
    }
    let (gaussian, local, server) = (&ways[2], &ways[3], &ways[4]);
    let predicted = &quote["predicted"];
    assert!(number(&gaussian["standard_error"]) > number(&predicted["standard_error"]));
    assert_eq!(local["standard_error"], predicted["local"]);
    assert_eq!(server["standard_error"], predicted["central"]);
    let sentences = quote["rests_on"].as_array().expect("sentences");
    assert!(sentences.len() == 6, "{sentences:?}");
}

/// The picture is whole and says what it shows.
fn assert_drawn(parties: &Parties) {
    let svg = std::fs::read_to_string(parties.path("quote.svg")).expect("drawn");
    assert!(
        svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
        "{}",
        &svg[..svg.len().min(80)]
    );
    for text in [
        "this plan",
        "trusted server",
        "local noise",
        "parties gone",
        "this plan&apos;s epsilon",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    assert!(!svg.contains("percent"), "six parties are counted");
    let points = std::fs::read_to_string(parties.path("quote.csv")).expect("beside it");
    assert!(points.starts_with("chart,line,across,x,up,y\n"), "{points}");
    assert!(
        points.contains("Error with parties gone for good,this plan,parties gone,2,"),
        "{points}"
    );
}

#[test]
fn a_quote_says_what_departures_and_other_epsilons_cost_and_draws_it() {
    let parties = Parties::new(6);
    parties.write("run.toml", RUN);
    let plan = [
        "plan",
        "run.toml",
        "--peers",
        "peers.toml",
        "--out",
        "plan.json",
        "--plot",
        "quote.svg",
        "--json",
    ];
    let quote = parties.run(plan).json_of(0);
    let departures = quote["error_with_departures"].as_array().expect("a list");
    let counts: Vec<(u64, u64)> = departures
        .iter()
        .map(|row| {
            (
                row["percent"].as_u64().expect("percent"),
                row["parties"].as_u64().expect("parties"),
            )
        })
        .collect();
    assert_eq!(counts, [(0, 0), (1, 1), (5, 1), (10, 1), (20, 2)]);
    let plain = number(&quote["predicted"]["standard_error"]);
    assert_close(&departures[0]["standard_error"], plain, 1e-12, "nobody gone");
    assert_close(
        &departures[4]["standard_error"],
        plain * (6.0f64 / 4.0).sqrt(),
        1e-12,
        "two gone, the exact mean over four",
    );
    assert_eq!(
        (&departures[3]["tolerated"], &departures[4]["tolerated"]),
        (&Value::Bool(true), &Value::Bool(false))
    );
    let curve = quote["error_by_epsilon"].as_array().expect("a list");
    let here = curve
        .iter()
        .find(|at| at["epsilon"] == 1.0)
        .expect("the target is on the curve");
    assert_close(&here["standard_error"], plain, 1e-9, "at the target");
    assert_close(
        &here["central"],
        number(&quote["predicted"]["central"]),
        1e-9,
        "a trusted server",
    );
    let errors: Vec<f64> = curve.iter().map(|at| number(&at["standard_error"])).collect();
    assert!(errors.windows(2).all(|pair| pair[1] < pair[0]), "{errors:?}");
    assert_eq!(
        quote["would_help"],
        serde_json::json!([]),
        "all coalitions were computed"
    );
    assert_compared(&quote);
    assert_drawn(&parties);
    assert_reported(&parties);
}

/// What people are told besides.
fn assert_reported(parties: &Parties) {
    let reported = parties.run([
        "plan",
        "run.toml",
        "--peers",
        "peers.toml",
        "--out",
        "again.json",
        "--full",
    ]);
    assert!(
        reported.stdout.contains("gone for good") && reported.stdout.contains("Standard error at other ε"),
        "{}",
        reported.stdout
    );
    for words in [
        "What this plan could use instead:",
        "PPSC, uniform noise, sealed finals",
        "one missing final costs ",
        "What this rests on. It takes κ = ",
        "one party leaves while it owes a correction",
    ] {
        assert!(reported.stdout.contains(words), "{words}: {}", reported.stdout);
    }
}

#[test]
fn a_picture_that_cannot_be_written_is_the_flags_fault() {
    let parties = Parties::new(4);
    parties.write("run.toml", RUN);
    let plan = [
        "plan",
        "run.toml",
        "--peers",
        "peers.toml",
        "--out",
        "plan.json",
        "--plot",
        "nowhere/quote.svg",
        "--json",
    ];
    parties.run(plan).refused_at(2, "--plot");
}

#[test]
fn a_target_that_cannot_be_met_says_which_numbers_suffice() {
    let parties = Parties::new(7);
    let plan = |run: &str| {
        parties.write("run.toml", run);
        parties.run(PLAN)
    };
    let ring = "[topology]\nprivate = { kind = \"ring\" }\n";
    let refusal = plan(&format!("{GAUSSIAN}{ring}")).refused_at(3, "topology.private");
    let hint = refusal["error"]["hint"].as_str().expect("a hint");
    assert!(
        hint.contains("at least 4 private neighbours") && hint.contains("privacy.dropouts = 0"),
        "{hint}"
    );
    // Each of them does suffice.
    plan(&format!(
        "{GAUSSIAN}[topology]\nprivate = {{ kind = \"random-regular\", degree = 4 }}\n"
    ))
    .json_of(0);
    plan(&format!("{GAUSSIAN}{ring}[privacy]\ndropouts = 0\n")).json_of(0);
}

#[test]
fn a_plan_with_local_noise_says_what_would_make_it_cancel_and_that_does() {
    let parties = Parties::new(8);
    let plan = |rounds: u64| {
        parties.write(
            "run.toml",
            &GAUSSIAN.replace("rounds = 4", &format!("rounds = {rounds}")),
        );
        parties.run(PLAN).json_of(0)
    };
    let times_local =
        |quote: &Value| number(&quote["predicted"]["standard_error"]) / number(&quote["predicted"]["local"]);
    let short = plan(2);
    assert!(
        times_local(&short) > 0.999,
        "after two rounds two parties may be all that a third sent to: {short}"
    );
    let remedies = short["would_help"].as_array().expect("a list");
    let rounds = remedies
        .iter()
        .find(|remedy| remedy["setting"] == "mechanism.rounds")
        .expect("more rounds help");
    let enough = plan(rounds["value"].as_u64().expect("a number"));
    assert!(
        times_local(&enough) < 0.6 && enough["would_help"] == serde_json::json!([]),
        "{enough}"
    );
    parties.write("run.toml", &GAUSSIAN.replace("rounds = 4", "rounds = 2"));
    let reported = parties
        .run(["plan", "run.toml", "--peers", "peers.toml", "--out", "plan.json"])
        .stdout;
    assert!(
        reported.contains("With mechanism.rounds = 3, or privacy.dropouts = 0 most of it cancels."),
        "{reported}"
    );
    let full = parties.run(["verify", "plan.json", "--full"]).stdout;
    assert!(
        full.contains("fewer stay than run.min_parties: nothing is published"),
        "{reported}"
    );
}

#[test]
fn what_no_lattice_carries_says_which_numbers_fit() {
    let parties = Parties::new(4);
    let plan = |run: &str| {
        parties.write("run.toml", run);
        parties.run(PLAN)
    };
    let hint = |refusal: &Value| refusal["error"]["hint"].as_str().expect("a hint").to_owned();
    let after = |text: &str, what: &str| {
        let rest = text
            .split_once(what)
            .unwrap_or_else(|| panic!("{what} in {text}"))
            .1;
        rest.split([' ', ',']).next().expect("a word").to_owned()
    };
    let small = format!("{GAUSSIAN}[privacy]\ndelta = 1e-11\n");
    let reported = hint(&plan(&small).refused_at(2, "mechanism"));
    plan(&small.replace("1e-11", &after(&reported, "privacy.delta = "))).json_of(0);
    let long = GAUSSIAN.replace("rounds = 4", "rounds = 60");
    let rounds = after(
        &hint(&plan(&long).refused_at(2, "mechanism")),
        "mechanism.rounds = ",
    );
    plan(&long.replace("rounds = 60", &format!("rounds = {rounds}"))).json_of(0);
}

#[test]
fn a_simulation_measures_what_was_accounted_and_draws_it() {
    let parties = Parties::new(1);
    parties.write("run.toml", RUN);
    let arguments = [
        "simulate",
        "run.toml",
        "--parties",
        "5",
        "--runs",
        "12",
        "--seed",
        "3",
        "--plot",
        "runs.svg",
        "--json",
    ];
    let simulated = parties.run(arguments).json_of(0);
    let interval: Vec<f64> = simulated["rms_error_interval"]
        .as_array()
        .expect("two numbers")
        .iter()
        .map(number)
        .collect();
    let (rms, accounted) = (
        number(&simulated["rms_error"]),
        number(&simulated["standard_error"]),
    );
    assert!(interval[0] < rms && rms < interval[1], "{interval:?} {rms}");
    // 480 coordinates: three and a half standard deviations of the measured one.
    assert!(
        (rms / accounted - 1.0).abs() < 3.5 / (2.0f64 * 480.0).sqrt(),
        "{rms} {accounted}"
    );
    assert!(number(&simulated["central"]) < accounted && accounted < number(&simulated["local"]));
    let svg = std::fs::read_to_string(parties.path("runs.svg")).expect("drawn");
    assert!(
        svg.contains("accounted") && svg.matches("<circle").count() >= 12,
        "a circle a run"
    );
}

#[test]
fn who_watches_sees_how_far_long_work_is() {
    let _alone = alone();
    let parties = Parties::new(4);
    parties.write("run.toml", RUN);
    let line = "simulate run.toml --parties 4 --runs 30";
    let shown = watched_in(parties.folder(), line.split(' '));
    assert!(
        shown.contains("runs  [") && shown.contains("] 0 of 30, "),
        "{shown}"
    );
    assert!(shown.contains(" left"), "{shown}");
    // Nobody knows how long other work is: the time that it took stands beside it, and moves.
    let shown = watched_in(parties.folder(), "local --nodes 3 --dimension 10".split(' '));
    assert!(
        shown.contains("gathering   ") && shown.contains(" parties ready  0s"),
        "{shown}"
    );
    assert!(shown.contains("Calibrating noise for 3 parties"), "{shown}");
}

/// The terminal of a party that joins has a bar of its rounds and the time that is left.
#[test]
fn who_joins_sees_a_bar_of_its_rounds_and_the_time_that_is_left() {
    const ROUNDS: u32 = 30;
    let _alone = alone();
    let parties = Parties::new(4);
    parties.write_inputs(&[500]);
    let run = format!(
        "version = 1\nname = \"bar\"\n[data]\nnoise_ok = true\nshape = [500]\n[mechanism]\nrounds = {ROUNDS}\n\
         [run]\njoin_ms = 60000\ngrace_ms = 60000\nround_ms = 30000\nsettle_ms = 30000\n"
    );
    parties.plan("plan", &run);
    let begin = |party| start_in(parties.folder(), parties.join("plan", party));
    let others: Vec<_> = (1..4).map(begin).collect();
    let shown = watched_in(parties.folder(), parties.join("plan", 0));
    for other in others {
        other.wait().json_of(0);
    }
    let bars = shown.split("rounds of mixing  [").skip(1);
    let done: Vec<u32> = bars
        .map(|bar| {
            let (_, counted) = bar.split_once("] ").unwrap_or_else(|| panic!("{bar}"));
            let (done, rest) = counted.split_once(" of ").unwrap_or_else(|| panic!("{bar}"));
            let (all, time) = rest.split_once(", ").unwrap_or_else(|| panic!("{bar}"));
            assert_eq!(all.parse(), Ok(ROUNDS), "{bar}");
            let left = time.split_once(" left").map(|(time, _)| time);
            assert!(left.is_some_and(|time| time.ends_with('s')), "{bar}");
            done.parse().unwrap_or_else(|_| panic!("{bar}"))
        })
        .collect();
    assert!(!done.is_empty() && done.is_sorted(), "{done:?}\n{shown}");
    // The line says whom the run waits for, by sentences; the log does not say it as well.
    for twice in ["waiting for  ", "phase=", "gathering ready="] {
        assert!(!shown.contains(twice), "{twice:?}: {shown}");
    }
}
