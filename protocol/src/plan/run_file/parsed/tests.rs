mod described;
mod foreign;
mod fractions;
mod noise;
mod training;

use proptest::prelude::*;

use super::*;
use crate::lattice::payload::Ratio;
use crate::plan::defaults::SETTINGS;
use crate::plan::exchange::inca::{Cancelling, GaussianNoise, Inca};
use crate::plan::exchange::ppsc::{Ppsc, PpscNoise};
use crate::plan::run_file::fraction::Fraction;

const LEAST: &str = "name = \"study\"\n[data]\nshape = [10]\n";

fn parse(text: &str, parties: usize) -> RunFile {
    RunFile::parse(text, parties).unwrap_or_else(|error| panic!("{error}"))
}

/// The minimal file with more lines: those starting with "data." etc. go to their section.
fn with(lines: &[(&str, &str)]) -> String {
    let mut text = String::from("name = \"study\"\n");
    lines
        .iter()
        .filter(|(section, _)| section.is_empty())
        .for_each(|(_, line)| text.push_str(&format!("{line}\n")));
    for section in ["data", "privacy", "mechanism", "topology", "run"] {
        text.push_str(&format!("[{section}]\n"));
        if section == "data" && !lines.iter().any(|(_, line)| line.starts_with("shape")) {
            text.push_str("shape = [10]\n");
        }
        lines
            .iter()
            .filter(|(name, _)| *name == section)
            .for_each(|(_, line)| text.push_str(&format!("{line}\n")));
    }
    text
}

fn refusal(text: &str, parties: usize) -> RunFileError {
    RunFile::parse(text, parties).expect_err("refused")
}

/// Field, line and message of the refusal of the minimal file with one more line.
fn refused(section: &str, line: &str, parties: usize) -> (String, Option<usize>, String) {
    let text = with(&[(section, line)]);
    let error = refusal(&text, parties);
    let written = text.lines().position(|l| line.starts_with(l)).map(|at| at + 1);
    let found = match &error {
        RunFileError::Toml { line, .. }
        | RunFileError::Foreign { line, .. }
        | RunFileError::Field { line, .. } => *line,
    };
    assert_eq!(found, written, "{error}");
    (
        error.field().unwrap_or_default().to_string(),
        found,
        error.to_string(),
    )
}

#[test]
fn all_documents_of_defaults_parse_and_know_every_key() {
    for (task, defaults) in TaskName::ALL
        .into_iter()
        .flat_map(|task| [(task, Defaults::File), (task, Defaults::Local)])
    {
        let raw = RawRunFile::defaults(task, defaults);
        assert_eq!(raw.version, Some(1));
        assert_eq!(raw.name.is_some(), defaults == Defaults::Local);
    }
    // Every key of the table is one that the parser knows, and the parser lists no other.
    let sections = || "data describe model recursion privacy mechanism topology run".split(' ');
    let lists = || "column table covariance".split(' ');
    let of_lists = ["describe.column", "describe.table", "describe.covariance"];
    for section in std::iter::once("").chain(sections()).chain(of_lists) {
        let text = if section.is_empty() {
            "zzz = 1\n".to_string()
        } else {
            match section.contains('.') {
                true => format!("[[{section}]]\nzzz = 1\n"),
                false => format!("[{section}]\nzzz = 1\n"),
            }
        };
        let message = RawRunFile::parse(&text).unwrap_err().to_string();
        let mut listed: Vec<&str> = message.split('`').skip(3).step_by(2).collect();
        let mut table: Vec<&str> = SETTINGS
            .iter()
            .filter(|s| s.section == section)
            .map(|s| s.key)
            .collect();
        table.sort_unstable();
        table.dedup();
        if section.is_empty() {
            table.extend(sections());
        }
        if section == "describe" {
            table.extend(lists());
        }
        listed.sort_unstable();
        table.sort_unstable();
        assert_eq!(listed, table, "{message}");
    }
}

#[test]
fn the_least_file_gets_the_defaults() {
    let file = parse(LEAST, 8);
    assert_eq!(
        file.privacy,
        Privacy {
            epsilon: 1.0,
            delta: 1e-6,
            colluding: 1,
            coalitions: Coalitions::Any,
            dropouts: 1,
            share_faults: None,
        }
    );
    assert_eq!(file.data.clip, Clip::L2 { radius: 1.0 });
    assert_eq!(file.data.weights, None);
    assert!(file.run.sealed);
    assert_eq!(
        file.exchange,
        Exchange::Inca(Inca {
            rounds: Rounds::Auto,
            noise: Cancelling::Uniform
        })
    );
    assert_eq!(
        (
            file.run.min_parties,
            file.run.join_ms,
            file.run.grace_ms,
            file.run.round_ms,
            file.run.settle_ms,
            file.run.pace_ms
        ),
        (7, 120_000, 120_000, 2000, 4000, 0)
    );
    assert_eq!(file.run.accept_by, None, "a daemon's proposal says it");
    assert_eq!(file.topology.private, GraphChoice::Complete);
    assert!(file.supported().is_ok());

    let mut raw = RawRunFile::parse("").unwrap();
    raw.data.shape = Some(vec![4]);
    let local = raw.resolve(3, Defaults::Local).unwrap();
    assert_eq!(
        (
            local.run.join_ms,
            local.run.round_ms,
            local.run.settle_ms,
            local.name.as_str()
        ),
        (10_000, 1000, 2000, "local")
    );
}

#[test]
fn dropouts_default_to_what_leaves_a_majority() {
    let dropouts = |parties, colluding: usize| {
        let text = with(&[("privacy", &format!("colluding = {colluding}"))]);
        let file = parse(&text, parties);
        assert_eq!(file.run.min_parties, parties - file.privacy.dropouts);
        file.privacy.dropouts
    };
    assert_eq!(dropouts(3, 1), 0);
    assert_eq!(dropouts(3, 0), 1);
    assert_eq!(dropouts(4, 1), 1);
    assert_eq!(dropouts(4, 2), 0);
    assert_eq!(dropouts(8, 5), 1);
    assert_eq!(dropouts(8, 6), 0);
}

#[test]
fn every_choice_of_the_contract_parses() {
    let file = parse(
        r#"
version = 1
task = "mean"
name = "all"
[data]
shape = [2, 2]
unit = "party"
adjacency = "zero-out"
clip = { kind = "box", low = [-1, 0.5, 0, 1], high = 2 }
weights = { alice = 2.0, bob = 0.1 }
[privacy]
epsilon = 2
delta = 1e-5
colluding = 2
coalitions = "static"
dropouts = 2
[mechanism]
kind = "inca"
injection = { c = ["1/2", "0.5"], z = [["1"], ["-1"]] }
rounds = 1
fanout = 3
rollback = false
[topology]
private = { kind = "edges", edges = [["alice", "bob"], ["bob", "carol"]] }
public = { kind = "random-regular", degree = 4 }
[run]
min_parties = 9
dissemination = "consensus"
accuracy = 0.01
pace_ms = 2000
"#,
        10,
    );
    assert_eq!(
        file.data.clip,
        Clip::Box {
            low: Bound::Each(vec![-1.0, 0.5, 0.0, 1.0]),
            high: Bound::All(2.0)
        }
    );
    let weights = file.data.weights.as_ref().unwrap();
    assert_eq!(weights["alice"], 2.0);
    // The nearest multiple of 2^-20.
    assert_eq!(weights["bob"], 104_858.0 / 1_048_576.0);
    let half = Fraction(Ratio::new(1, 2).unwrap());
    let one = |n| vec![Fraction(Ratio::whole(n))];
    let injection = InjectionChoice::Custom {
        c: vec![half, half],
        z: vec![one(1), one(-1)],
    };
    assert_eq!(
        file.exchange,
        Exchange::Inca(Inca {
            rounds: Rounds::Fixed(1),
            noise: Cancelling::Gaussian(GaussianNoise {
                injection,
                fanout: 3,
                rollback: false
            })
        })
    );
    assert_eq!(file.topology.public, GraphChoice::RandomRegular { degree: 4 });
    assert_eq!(file.run.dissemination, Dissemination::Consensus);
}

#[test]
fn every_choice_of_ppsc_parses() {
    let ppsc = parse(
        &with(&[(
            "mechanism",
            "kind = \"ppsc\"\nrounds = 4096\nindependent_noise = \"none\"\n\
             accept_exact_sum = true\nlocal_noise_ok = true",
        )]),
        5,
    );
    assert_eq!(
        ppsc.exchange,
        Exchange::Ppsc(Ppsc {
            rounds: Rounds::Fixed(4096),
            noise: PpscNoise::ExactSum,
            local_noise_ok: true
        })
    );
}

#[test]
fn graphs_injections_and_units_parse_in_short() {
    let other = parse(
        &with(&[
            ("topology", "private = \"ring\""),
            ("mechanism", "injection = \"early\""),
            (
                "data",
                "unit = \"record\"\nclip = { kind = \"l2\", radius = 1.0 }",
            ),
        ]),
        5,
    );
    assert_eq!(other.topology.private, GraphChoice::Ring);
    let Exchange::Inca(inca) = other.exchange else {
        panic!("inca is the default");
    };
    assert_eq!(*inca.noise.injection(), InjectionChoice::Early);
    assert_eq!(other.data.unit, Unit::Record);
}

#[test]
fn what_no_plan_carries_yet_is_said() {
    let with_static =
        |line: &'static str| with(&[("privacy", "coalitions = \"static\""), ("mechanism", line)]);
    assert_eq!(
        parse(&with_static("injection = \"early\""), 8)
            .supported()
            .unwrap_err()
            .field(),
        Some("mechanism.correlated")
    );
    for line in ["rollback = false", "fanout = 2"] {
        assert!(parse(&with_static(line), 8).supported().is_err(), "{line}");
    }
    for kind in ["kind = \"pairwise\"", "kind = \"ppsc\""] {
        assert_eq!(parse(&with_static(kind), 8).supported(), Ok(()));
    }
    for (section, line) in [
        ("mechanism", "injection = \"early\""),
        ("mechanism", "fanout = 2"),
        ("mechanism", "kind = \"ppsc\""),
        ("data", "adjacency = \"zero-out\""),
        (
            "data",
            "unit = \"record\"\nclip = { kind = \"l2\", radius = 1.0 }",
        ),
        ("data", "weights = { alice = 3 }"),
    ] {
        assert_eq!(parse(&with(&[(section, line)]), 8).supported(), Ok(()));
    }
}

#[test]
fn unknown_keys_and_wrong_types_have_their_line() {
    for (section, line, words) in [
        ("", "sede = 1", "unknown field `sede`"),
        ("data", "shapes = [1]", "unknown field `shapes`"),
        (
            "data",
            "clip = { kind = \"l2\", radius = 1.0, low = 0 }",
            "unknown field `low`",
        ),
        (
            "data",
            "clip = { kind = \"l3\", radius = 1.0 }",
            "unknown variant `l3`",
        ),
        (
            "data",
            "clip = { kind = \"box\", low = \"a\", high = 1 }",
            "a number, or a list",
        ),
        ("privacy", "epsilon = \"1\"", "invalid type: string"),
        ("privacy", "colluding = -1", "invalid value: integer `-1`"),
        (
            "mechanism",
            "injection = \"sometimes\"",
            "\"incremental\", \"early\" or",
        ),
        (
            "mechanism",
            "injection = { c = [0.5, 0.5], z = [[\"1\"], [\"-1\"]] }",
            "an exact number in a string",
        ),
        (
            "mechanism",
            "injection = { c = [\"1/0\", \"1\"], z = [[\"1\"], [\"-1\"]] }",
            "\"1/0\" is not an exact number",
        ),
        ("mechanism", "rounds = \"many\"", "\"auto\" or a number of rounds"),
        ("mechanism", "rounds = -3", "\"auto\" or a number of rounds"),
        (
            "topology",
            "private = { kind = \"star\" }",
            "unknown variant `star`",
        ),
        (
            "topology",
            "private = { kind = \"ring\", degree = 3 }",
            "unknown field `degree`",
        ),
        ("topology", "private = \"random-regular\"", "random-regular"),
        ("run", "round_ms = 1.5", "invalid type: floating point"),
    ] {
        let (_, _, message) = refused(section, line, 8);
        assert!(message.contains(words), "{message:?} should contain {words:?}");
    }
    let error = refusal("name = \"x\"\nname = \"y\"\n", 8);
    assert!(
        matches!(error, RunFileError::Toml { line: Some(2), .. }),
        "{error}"
    );
}

/// Each (section, line, field): the minimal file with that line is refused for that field.
fn each_is_refused<const N: usize>(cases: [(&str, &str, &str); N]) {
    for (section, line, field) in cases {
        let (found, _, message) = refused(section, line, 8);
        assert_eq!(found, field, "{message}");
    }
}

#[test]
fn data_that_make_no_sense_are_refused_by_field() {
    each_is_refused([
        ("", "version = 2", "version"),
        ("data", "shape = []", "data.shape"),
        ("data", "shape = [3, 0]", "data.shape"),
        ("data", "shape = [65536, 65536]", "data.shape"),
        (
            "data",
            "shape = [9223372036854775807, 9223372036854775807]",
            "data.shape",
        ),
        (
            "data",
            "clip = { kind = \"l2\", radius = 0.0 }",
            "data.clip.radius",
        ),
        (
            "data",
            "clip = { kind = \"l2\", radius = -1.0 }",
            "data.clip.radius",
        ),
        (
            "data",
            "clip = { kind = \"l2\", radius = inf }",
            "data.clip.radius",
        ),
        (
            "data",
            "clip = { kind = \"l2\", radius = nan }",
            "data.clip.radius",
        ),
        (
            "data",
            "clip = { kind = \"box\", low = 1, high = 1 }",
            "data.clip",
        ),
        (
            "data",
            "clip = { kind = \"box\", low = nan, high = 1 }",
            "data.clip",
        ),
        (
            "data",
            "clip = { kind = \"box\", low = 0, high = [1, 2] }",
            "data.clip.high",
        ),
        (
            "data",
            "clip = { kind = \"box\", low = [0,0,0,0,0,0,0,0,0,2], high = 1 }",
            "data.clip",
        ),
        ("data", "weights = { alice = 0.0 }", "data.weights.alice"),
        ("data", "weights = { alice = -1.0 }", "data.weights.alice"),
        ("data", "weights = { alice = nan }", "data.weights.alice"),
        ("data", "weights = { alice = 1e9 }", "data.weights.alice"),
        (
            "data",
            "weights = { alice = 1.0 }\nunit = \"record\"\nclip = { kind = \"l2\", radius = 1.0 }",
            "data.weights",
        ),
    ]);
    let rows = refusal(&with(&[("data", "unit = \"record\"")]), 5);
    assert_eq!(rows.field(), Some("data.clip"), "{rows}");
}

#[test]
fn targets_and_times_that_make_no_sense_are_refused_by_field() {
    // "dropouts = 2^64 - 1" is beyond what TOML integers hold: the parser refuses it, with its
    // line.
    each_is_refused([
        ("privacy", "epsilon = 0.0", "privacy.epsilon"),
        ("privacy", "epsilon = -1", "privacy.epsilon"),
        ("privacy", "epsilon = inf", "privacy.epsilon"),
        ("privacy", "epsilon = nan", "privacy.epsilon"),
        ("privacy", "delta = 0.0", "privacy.delta"),
        ("privacy", "delta = 1", "privacy.delta"),
        ("privacy", "delta = nan", "privacy.delta"),
        ("privacy", "colluding = 7", "privacy.colluding"),
        ("privacy", "dropouts = 4", "privacy.dropouts"),
        ("privacy", "dropouts = 18446744073709551615", "privacy.dropouts"),
        ("run", "min_parties = 6", "run.min_parties"),
        ("run", "min_parties = 9", "run.min_parties"),
        ("run", "join_ms = 0", "run.join_ms"),
        ("run", "round_ms = 100000000", "run.round_ms"),
        ("run", "settle_ms = 0", "run.settle_ms"),
        ("run", "pace_ms = 2001", "run.pace_ms"),
        ("run", "accuracy = 0.0", "run.accuracy"),
    ]);
}

#[test]
fn mechanisms_that_make_no_sense_are_refused_by_field() {
    each_is_refused([
        ("mechanism", "rounds = 0", "mechanism.rounds"),
        ("mechanism", "rounds = 64", "mechanism.rounds"),
        ("mechanism", "fanout = 0", "mechanism.fanout"),
        ("mechanism", "fanout = 7", "mechanism.fanout"),
        ("mechanism", "fanout = 8", "mechanism.fanout"),
        (
            "mechanism",
            "injection = { c = [\"1\"], z = [[]] }",
            "mechanism.injection.c",
        ),
        (
            "mechanism",
            "injection = { c = [\"1\", \"1\"], z = [[\"1\"], [\"-1\"]] }",
            "mechanism.injection",
        ),
        (
            "mechanism",
            "injection = { c = [\"1/65\", \"64/65\"], z = [[\"1\"], [\"-1\"]] }",
            "mechanism.injection",
        ),
        (
            "mechanism",
            "injection = { c = [\"1\", \"0\"], z = [[\"1\"], [\"1\"]] }",
            "mechanism.injection",
        ),
        (
            "mechanism",
            "independent_noise = \"none\"",
            "mechanism.independent_noise",
        ),
        (
            "mechanism",
            "accept_exact_sum = true",
            "mechanism.accept_exact_sum",
        ),
        (
            "mechanism",
            "independent_noise = \"none\"\nkind = \"ppsc\"",
            "mechanism.independent_noise",
        ),
        ("mechanism", "rounds = 4097\nkind = \"ppsc\"", "mechanism.rounds"),
        ("mechanism", "fanout = 2\nkind = \"ppsc\"", "mechanism.fanout"),
        (
            "mechanism",
            "rollback = false\nkind = \"ppsc\"",
            "mechanism.rollback",
        ),
        (
            "mechanism",
            "injection = \"early\"\nkind = \"ppsc\"",
            "mechanism.injection",
        ),
    ]);
    let both = with(&[
        ("mechanism", "rounds = 2"),
        (
            "mechanism",
            "injection = { c = [\"1\", \"0\"], z = [[\"1\"], [\"-1\"]] }",
        ),
    ]);
    assert_eq!(refusal(&both, 8).field(), Some("mechanism.rounds"));
}

#[test]
fn names_that_cannot_be_shown_everywhere_are_refused() {
    for name in ["", " x", "a/b", "a\\n", "é", &"x".repeat(65)] {
        let text = format!("name = \"{name}\"\n[data]\nshape = [1]\n");
        assert_eq!(refusal(&text, 8).field(), Some("name"), "{name}");
    }
}

#[test]
fn what_is_missing_is_named_with_an_example() {
    let error = refusal("[data]\nshape = [1]\n", 8);
    assert_eq!(
        (error.field(), error.to_string().contains("name = ")),
        (Some("name"), true)
    );
    assert_eq!(refusal("name = \"x\"\n", 8).field(), Some("data.shape"));
    assert!(refusal(LEAST, 2).to_string().contains("number of parties is 2"));
    assert_eq!(refusal(LEAST, 1025).field(), Some("the number of parties"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_printed_fraction_is_the_same_fraction(numerator in -100i64..100, denominator in 1i64..100) {
        let fraction = Fraction(Ratio::new(numerator, denominator).unwrap());
        prop_assert_eq!(fraction.to_string().parse::<Fraction>(), Ok(fraction));
    }

    #[test]
    fn no_text_panics(text in ".{0,120}", at in 0usize..1000, byte: u8, parties: usize) {
        let _ = RunFile::parse(&text, parties);
        let _ = text.parse::<Fraction>();
        let defaults = crate::plan::defaults::document(TaskName::Mean, Defaults::File);
        let whole = format!("name = \"x\"\n{}", defaults.replace("[privacy]", "shape = [2]\n[privacy]"));
        prop_assert!(RunFile::parse(&whole, 8).is_ok());
        let mut bytes = whole.into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = RunFile::parse(&String::from_utf8_lossy(&bytes), parties);
    }
}
