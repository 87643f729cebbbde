//! The shape of the sources: how long files are, how wide lines are, how documentation begins, and
//! that no name means two types. How long functions are, clippy counts.

use std::collections::BTreeMap;

use undertone_tests::house::arrows::Arrows;
use undertone_tests::house::flags::questions;
use undertone_tests::house::functions::{MOST_PARAMETERS, crowded};
use undertone_tests::house::prose::{
    CODE_COLUMNS, MOST_LINES, PROSE_COLUMNS, coined_openings, defined_twice, faults, what_openings,
    whys_and_code, wide_prose,
};
use undertone_tests::house::sources::{below, workspace};

const CRATES: [&str; 4] = ["protocol", "accountant", "node", "tests"];

#[test]
fn files_and_lines_keep_their_measure_and_comments_stand_alone() {
    let mut reported = vec![];
    for folder in CRATES {
        for (path, source) in below(&workspace().join(folder)) {
            let faults = faults(&source).into_iter();
            reported.extend(faults.map(|(line, fault)| format!("{folder}/{path}:{line}: {fault}")));
        }
    }
    assert_none(&reported);
}

/// Summaries that begin with "What", at most. They are to become fewer: whoever rewrites one lowers
/// this number. The aim is none.
const MOST_WHATS: usize = 122;

#[test]
fn summaries_begin_with_a_verb_or_a_noun_phrase() {
    let (mut reported, mut whats) = (vec![], 0);
    for folder in CRATES {
        for (path, source) in below(&workspace().join(folder)) {
            let coined = coined_openings(&source).into_iter();
            reported.extend(coined.map(|(line, fault)| format!("{folder}/{path}:{line}: {fault}")));
            whats += what_openings(&source);
        }
    }
    assert_none(&reported);
    assert!(
        whats <= MOST_WHATS,
        "{whats} summaries begin with What, not {MOST_WHATS}"
    );
}

/// Lines that say why, in a thousand lines of code, at least. They are to become more: whoever adds
/// some raises its number. The aim is thirty in each folder.
const LEAST_WHYS: [(&str, usize); 4] = [
    ("protocol/src/run", 30),
    ("protocol/src/agreement", 30),
    ("protocol/src/sealing", 27),
    ("accountant/src/guarantee", 54),
];

#[test]
fn bodies_say_why_no_less_often() {
    let mut reported = vec![];
    for (folder, least) in LEAST_WHYS {
        let files = below(&workspace().join(folder));
        let (whys, code) = files.iter().filter(|(path, _)| !path.contains("tests")).fold(
            (0, 0),
            |(whys, code), (_, source)| {
                let (more, lines) = whys_and_code(source);
                (whys + more, code + lines)
            },
        );
        let found = 1000 * whys / code.max(1);
        if found < least {
            reported.push(format!(
                "{folder}: {found} lines in a thousand say why, not {least}"
            ));
        }
    }
    assert_none(&reported);
}

#[test]
fn lines_that_say_why_are_counted_without_documentation_and_tests() {
    let source = "/// Asks.\nfn a() {\n    // Nobody else does.\n    b();\n}\n\n#[cfg(test)]\nmod tests {\n    // No.\n}\n";
    assert_eq!(whys_and_code(source), (1, 3));
}

#[test]
fn coined_openings_are_found_in_summaries_only() {
    let source =
        "/// Whoever asks.\nfn a() {}\n/// Asks.\n/// Whoever asks.\nfn b() {}\n//! So many are asked.\n";
    let lines: Vec<usize> = coined_openings(source).iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [1, 6]);
    assert_eq!(
        what_openings("/// What it is.\nfn a() {}\n/// It is\n/// What it is.\n"),
        1
    );
}

#[test]
fn no_type_name_is_defined_twice_in_a_crate() {
    let mut reported = vec![];
    for folder in CRATES {
        let arrows = Arrows::of(&below(&workspace().join(folder).join("src")));
        let twice = defined_twice(&arrows).into_iter();
        reported.extend(twice.map(|(name, files)| format!("{folder}: {name} in {}", files.join(", "))));
    }
    assert_none(&reported);
}

#[test]
fn no_function_takes_too_many_parameters() {
    let mut reported = vec![];
    for folder in CRATES {
        for (path, source) in below(&workspace().join(folder)) {
            let crowded = crowded(&source).into_iter();
            reported.extend(crowded.map(|(line, name, count)| {
                format!("{folder}/{path}:{line}: {name} takes {count}, not {MOST_PARAMETERS}")
            }));
        }
    }
    assert_none(&reported);
}

/// The lines that ask what kind of run this is, at most. They are to become fewer: a line that goes
/// lowers this number, and none may come. The aim is a hundred.
const MOST_QUESTIONS: usize = 465;

#[test]
fn lines_that_ask_what_kind_of_run_this_is_become_no_more() {
    let mut asked = 0;
    for folder in ["protocol/src", "accountant/src", "node/src"] {
        let files = below(&workspace().join(folder));
        asked += files
            .iter()
            .map(|(path, source)| questions(path, source).len())
            .sum::<usize>();
    }
    assert!(asked <= MOST_QUESTIONS, "{asked} lines ask");
    assert!(
        asked > MOST_QUESTIONS - 5,
        "{asked} lines ask: lower MOST_QUESTIONS"
    );
}

#[test]
fn questions_are_found_outside_of_tests_comments_and_heads() {
    let source = "use a::TaskName::Mean;\n// averages()\npub fn averages() -> bool {\n    \
                  let a = plan.averages();\n    \"averages()\"\n}\n#[cfg(test)]\nmod tests {\n    averages();\n}\n";
    assert_eq!(questions("run/machine.rs", source), [4]);
    assert_eq!(questions("plan/exchange/inca.rs", source), [0; 0]);
    assert_eq!(questions("run/tests/ends.rs", source), [0; 0]);
}

fn assert_none(faults: &[String]) {
    assert!(
        faults.is_empty(),
        "{} faults\n{}",
        faults.len(),
        faults.join("\n")
    );
}

/// The lines in which a made-up source has faults.
fn lines(source: &str) -> Vec<usize> {
    faults(source).into_iter().map(|(line, _)| line).collect()
}

#[test]
fn a_long_file_is_found() {
    let of = |count: usize| "fn f() {}\n".repeat(count);
    assert_eq!(lines(&of(MOST_LINES)), [0; 0]);
    assert_eq!(lines(&of(MOST_LINES + 1)), [MOST_LINES + 1]);
}

#[test]
fn wide_lines_are_found() {
    let wide = |columns: usize, start: &str, fill: &str| {
        let more = columns - start.chars().count();
        format!(
            "{start}{}\n",
            fill.repeat(more.div_ceil(fill.len())).split_at(more).0
        )
    };
    let (code, prose) = (CODE_COLUMNS, PROSE_COLUMNS);
    assert_eq!(lines(&wide(code, "let a = ", "b+")), [0; 0]);
    assert_eq!(lines(&wide(code + 1, "let a = ", "b+")), [1]);
    for start in ["/// A", "    // A", "//! A"] {
        assert_eq!(lines(&wide(prose, start, " b")), [0; 0]);
        assert_eq!(lines(&wide(prose + 1, start, " b")), [1]);
    }
    // Nobody can break a word or a string.
    assert_eq!(lines(&wide(200, "/// https://", "b")), [0; 0]);
    let text = "b".repeat(200);
    assert_eq!(lines(&format!("f(\"{text}\");\n")), [0; 0]);
    assert_eq!(lines(&format!("f(\"{text}\\\n{text}\");\n")), [0; 0]);
    assert_eq!(lines(&format!("f(\"{text}\", {text});\n")), [1]);
}

#[test]
fn comments_that_lean_on_a_neighbour_or_cite_are_found() {
    for leaning in [
        "/// The same for parties.\nstruct A;",
        "    /// Of the claim.\n    a: u8,",
        "//! Of this crate.",
        "// See issue 12.",
        "/// What it is (#7).",
        "/* Ticket #3 */",
    ] {
        assert_eq!(lines(leaning), [1], "{leaning}");
    }
    for sound in [
        "/// What two parties share.\n/// Of these, the first counts.\nstruct A;",
        "// The same for each.",
        "/// A ticket is taken by one of 2.\n#[derive(Debug)]\nstruct A;",
        "const A: &str = \"/// The same as issue 12\";",
    ] {
        assert_eq!(lines(sound), [0; 0], "{sound}");
    }
}

#[test]
fn a_name_of_two_types_is_found() {
    let sources = [
        (
            "a.rs",
            "pub struct Same;\nimpl Iterator for Same {\n    type Item = u8;\n}",
        ),
        (
            "b.rs",
            "enum Same {}\nimpl Iterator for u8 {\n    type Item = u8;\n}",
        ),
        (
            "c.rs",
            "#[cfg(test)]\nmod tests {\n    struct Same;\n}\nstruct Other;",
        ),
    ];
    let sources: BTreeMap<String, String> = sources
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .into();
    let twice = defined_twice(&Arrows::of(&sources));
    assert_eq!(
        twice,
        [("Same".to_owned(), vec!["a.rs".to_owned(), "b.rs".to_owned()])]
    );
}

#[test]
fn wide_prose_in_markdown_is_found() {
    let wide = "word ".repeat(21);
    let text = format!(
        "{wide}\n```\n{wide}\n```\n| {wide} |\n[a]({})\n[{wide}](b)\n",
        "b".repeat(200)
    );
    assert_eq!(wide_prose(&text), [1, 7]);
}

#[test]
fn a_function_of_six_parameters_is_found() {
    let five = "a: u8, b: &[u8; 2], c: (u8, u8), d: BTreeMap<u8, Vec<u8>>, e: impl Fn(u8, u8) -> u8,";
    for (source, found) in [
        (format!("fn f({five}) {{}}"), false),
        (format!("fn f(&mut self, {five}) {{}}"), false),
        (format!("fn f<F: Fn(u8, u8) -> u8>({five} g: F) {{}}"), true),
        (
            format!("impl A {{\n    fn f(self, {five} g: u8) -> u8;\n}}"),
            true,
        ),
    ] {
        assert_eq!(!crowded(&source).is_empty(), found, "{source}");
    }
}
