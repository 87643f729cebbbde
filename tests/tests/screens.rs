//! Text for people fits on their screen: no line is longer than it is wide, no word is broken, and
//! a quote is no longer than a page.

use std::path::Path;

use undertone_tests::{Ended, alone, run_in, run_within};

/// Lines of a page, as a quote may have them at 100 columns.
const PAGE: usize = 40;

/// Columns that a text takes: every letter here is one wide.
fn width(line: &str) -> usize {
    line.chars().count()
}

/// The words of a text, in order of the alphabet; rules of tables are no words.
fn words(text: &str) -> Vec<&str> {
    let mut words: Vec<&str> = text
        .split_whitespace()
        .filter(|word| !word.chars().all(|c| c == '-'))
        .collect();
    words.sort_unstable();
    words
}

/// Checks that no line is longer than this, except one that is a single word.
#[track_caller]
fn assert_fits(text: &str, columns: usize) {
    for line in text.lines().filter(|line| width(line) > columns) {
        assert_eq!(
            line.split_whitespace().count(),
            1,
            "{} columns: {line}\n{text}",
            width(line)
        );
    }
}

#[track_caller]
fn shown(folder: &Path, columns: usize, line: &str) -> String {
    let ended = run_within(columns, folder, line.split(' '));
    // Whether a busy machine keeps the deadlines of `local` is not the point.
    assert!([0, 5].contains(&ended.code), "{line}: {}", ended.stderr);
    assert_fits(&ended.stdout, columns);
    ended.stdout
}

/// The page of a deterministic command at 80 and 100 columns: each has the words that a window
/// without an end shows.
#[track_caller]
fn page(folder: &Path, line: &str) -> [String; 2] {
    let whole = shown(folder, 1000, line);
    [80, 100].map(|columns| {
        let page = shown(folder, columns, line);
        assert_eq!(words(&page), words(&whole), "words of\n{page}");
        page
    })
}

fn example(folder: &Path) {
    let made = run_in(folder, ["example", "hospitals"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
}

fn count(text: &str) -> usize {
    text.lines().count()
}

#[test]
fn a_mean_of_twelve_columns_is_quoted_and_shown_on_one_page() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    example(folder);
    for columns in [80, 100] {
        let line = "local --inputs hospitals/tables --run hospitals/run.toml --output kept";
        let last = shown(folder, columns, line);
        assert!(
            columns < 100 || count(&last) <= PAGE,
            "{} lines:\n{last}",
            count(&last)
        );
        assert!(
            last.contains("readmitted") && !last.contains("per coordinate"),
            "{last}"
        );
    }
    let [_, quote] = page(folder, "verify kept/plan.json");
    assert!(quote.starts_with("The plan holds: "), "{quote}");
    assert!(count(&quote) <= PAGE, "{} lines:\n{quote}", count(&quote));
    for said in [
        "better than each party adding its own noise; a trusted server would be",
        "protected",
        "against",
        "budget",
        "network",
        "time",
        "better  ",
    ] {
        let joined = quote.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(quote.contains(said) || joined.contains(said), "{said}:\n{quote}");
    }
    page(folder, "verify kept/plan.json --full");
    let [_, receipt] = page(folder, "receipt kept/aarhus/receipt.json --plan kept/plan.json");
    assert!(count(&receipt) <= PAGE, "{} lines:\n{receipt}", count(&receipt));
}

#[test]
fn a_plan_is_quoted_on_one_page() {
    let parties = undertone_tests::Parties::new(4);
    parties.write(
        "run.toml",
        "name = \"columns\"\n[data]\nunit = \"record\"\nrecords = { alice = 1000, bob = 1000, carol = 1000, dave = 1000 }\nshape = [12]\nclip = { kind = \"box\", low = 0, high = [1, 2, 3, 4, 5, 6, 7, 8, 9, \
         10, 11, 12] }\ncolumns = [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", \"i\", \"j\", \"k\", \"l\"]\n",
    );
    let line = "plan run.toml --peers peers.toml --out plan.json";
    let quote = shown(parties.folder(), 100, line);
    assert!(count(&quote) <= PAGE, "{} lines:\n{quote}", count(&quote));
    shown(parties.folder(), 80, line);
    let full = shown(parties.folder(), 80, &format!("{line} --full"));
    assert!(
        count(&full) > PAGE && full.contains("What this rests on"),
        "{full}"
    );
}

/// A run file of each kind, and words that its quote must have.
const KINDS: [(&str, &str); 3] = [
    (
        "task = \"regression\"\nname = \"model\"\n[data]\nunit = \"record\"\nrecords = { at_most = 1000 }\nshape = [5]\n[model]\nloss = \"logistic\"\n",
        "noise of the sums that the model is made of",
    ),
    (
        "task = \"stream\"\nname = \"stream\"\n[data]\nshape = [3]\nreleases = 8\n[mechanism]\nsums = \"open\"\n",
        "gossip",
    ),
    (
        "task = \"rounds\"\nname = \"rounds\"\n[data]\nshape = [3]\nreleases = 4\nnoise_ok = true\n",
        "each party",
    ),
];

#[test]
fn quotes_of_all_tasks_fit_on_the_screen() {
    for (run, said) in KINDS {
        let parties = undertone_tests::Parties::new(5);
        parties.write("run.toml", run);
        for columns in [80, 100] {
            let line = "plan run.toml --peers peers.toml --out plan.json";
            let quote = shown(parties.folder(), columns, line);
            assert!(
                count(&quote) <= PAGE + (100 - columns) / 2,
                "{} lines:\n{quote}",
                count(&quote)
            );
            let joined = quote.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(joined.contains(said), "{said}: {quote}");
        }
        page(parties.folder(), "verify plan.json");
        page(parties.folder(), "verify plan.json --full");
    }
}

/// The commands that a page of help lists.
fn commands(page: &Ended) -> Vec<String> {
    let listed = page
        .stdout
        .lines()
        .skip_while(|line| !line.starts_with("Commands"));
    let listed = listed.skip(1).take_while(|line| line.starts_with("  "));
    let names = listed.filter(|line| !line.starts_with("   "));
    names
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect()
}

/// Explanations of keys stay in their column, however narrow the window is; keys are found by their
/// last name, by their table and by their file.
#[test]
fn pages_of_keys_keep_their_columns_and_are_found_by_short_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = |about: &str| {
        let ended = run_within(80, folder.path(), ["help", about]);
        assert_eq!(ended.code, 0, "{about}: {}", ended.stderr);
        assert_fits(&ended.stdout, 80);
        ended.stdout
    };
    for (about, column) in [("mean", 20), ("rounds", 20), ("node.toml", 27)] {
        let page = page(about);
        let of_keys = page
            .lines()
            .skip_while(|line| !line.starts_with("Its keys") && !line.starts_with("Keys"));
        for line in of_keys.skip(1).filter(|line| line.starts_with("   ")) {
            let indent = line.chars().take_while(|c| *c == ' ').count();
            assert_eq!(indent, column, "{about}: {line:?}");
        }
    }
    for (about, wanted) in [
        ("records", "data.records in RUN.toml"),
        ("privacy", "privacy.epsilon in RUN.toml"),
        ("privacy", "privacy.colluding in RUN.toml"),
        ("run-file", "Keys of RUN.toml by task"),
        ("peers.toml", "in PEERS.toml"),
    ] {
        assert!(page(about).contains(wanted), "{about}: {}", page(about));
    }
}

#[test]
fn every_page_of_short_help_fits_on_25_lines_of_80_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut open: Vec<Vec<String>> = vec![vec![]];
    let mut seen = 0;
    while let Some(names) = open.pop() {
        let help = |flag: &str| {
            let line = names.iter().map(String::as_str).chain([flag]);
            run_within(80, folder.path(), line)
        };
        let short = help("-h");
        assert_eq!(short.code, 0, "{names:?}: {}", short.stderr);
        let lines = count(&short.stdout);
        assert!(lines <= 25, "{names:?} -h: {lines} lines\n{}", short.stdout);
        assert_fits(&short.stdout, 80);
        for name in commands(&help("--help")) {
            open.push([names.clone(), vec![name]].concat());
        }
        seen += 1;
    }
    assert!(seen > 30, "{seen} pages");
}
