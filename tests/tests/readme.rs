//! Every command of README.md and of the guide is run, in order, as it stands there, and prints the
//! figures that stand beside it.
//!
//! A block is left out only if the line above it says `<!-- not run: REASON -->` with a reason
//! that is known, or `<!-- slow: HOW SLOW -->`: those are run by `cargo test --release -p
//! undertone-tests --test readme -- --ignored`.

use undertone_tests::alone;
use undertone_tests::documents::block::{Block, Mark, blocks};
use undertone_tests::documents::page::{Entry, Page, entries, guide};
use undertone_tests::documents::running::{Output, files, lacking, run};

#[test]
fn every_command_of_the_readme_works() {
    let _alone = alone();
    let readme = Page::read("README.md");
    let outputs = run(std::slice::from_ref(&readme), false);
    assert!(outputs.len() >= 3, "a README shows how to use the thing");
    check(&outputs, &[readme]);
}

#[test]
fn every_command_of_the_guide_works() {
    let _alone = alone();
    let pages = guide();
    let outputs = run(&pages, false);
    assert!(outputs.len() > 25, "{} blocks", outputs.len());
    check(&outputs, &pages);
}

#[test]
#[ignore = "takes minutes; wants an optimised build"]
fn slow_commands_of_the_guide_work() {
    let _alone = alone();
    let is_slow = |page: &Page| {
        blocks(&page.text)
            .iter()
            .any(|block| block.mark == Some(Mark::Slow))
    };
    let pages: Vec<Page> = guide().into_iter().filter(is_slow).collect();
    assert!(!pages.is_empty());
    run(&pages, true);
}

/// Checks the figures of documents against what their commands printed.
fn check(outputs: &[Output], pages: &[Page]) {
    for output in outputs {
        let page = pages.iter().find(|page| page.path == output.page);
        let text = &page.expect("a page of these").text;
        for figure in FIGURES.iter().filter(|it| output.commands.contains(it.command)) {
            figure.check(&output.stdout, text);
        }
        if output.commands.contains("undertone simulate little.toml") {
            check_models(&output.stdout, text);
        }
    }
}

/// A number that documents state, and that a command of theirs prints.
struct Figure {
    command: &'static str,
    /// What stands before it in the command's output.
    printed: &'static str,
    /// What stands before it in the document.
    stated: &'static str,
    /// How far they may be apart: six times what noise is, and half a digit.
    tolerance: f64,
}

const FIGURES: [Figure; 2] = [
    Figure {
        command: "cut -d, -f1 aarhus-mean.csv",
        printed: "age (years)\n",
        stated: "patients of the four hospitals are ",
        tolerance: 6.0 * 0.42 + 0.5,
    },
    Figure {
        command: "--run risk.toml --test held-out.csv",
        printed: "it names ",
        stated: "The model names ",
        tolerance: 6.0 * 0.34 + 0.5,
    },
];

impl Figure {
    fn check(&self, output: &str, text: &str) {
        let number = |text: &str, before: &str| {
            let after = text
                .split_once(before)
                .and_then(|(_, rest)| rest.split_whitespace().next());
            let number = after.and_then(|word| word.parse::<f64>().ok());
            number.unwrap_or_else(|| panic!("no number after {before:?} in\n{text}"))
        };
        let (found, stated) = (number(output, self.printed), number(text, self.stated));
        assert!(
            (found - stated).abs() <= self.tolerance,
            "{stated}, found {found}"
        );
    }
}

/// Checks that what the page says of three kinds of noise is what its own command found, within the
/// errors that it states, and that the differences are no chance.
fn check_models(simulated: &str, text: &str) {
    let number = |text: &str| {
        text.parse::<f64>()
            .unwrap_or_else(|_| panic!("{text:?} is no number"))
    };
    let found = ["a trusted server's noise", "this plan", "local noise alone"].map(|name| {
        let row = simulated.lines().find_map(|line| line.trim().strip_prefix(name));
        let cells: Vec<&str> = row.expect("a row of the table").split_whitespace().collect();
        (number(cells[0]), number(cells[1]))
    });
    for pair in found.windows(2) {
        let [(better, of_one), (worse, of_other)] = [pair[0], pair[1]];
        assert!(better - worse > of_one.hypot(of_other), "chance: {simulated}");
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let stated = words
        .windows(3)
        .filter(|three| three[1] == "±")
        .filter_map(|three| {
            let error = three[2].trim_end_matches([',', '.']);
            Some((three[0].parse::<f64>().ok()?, error.parse::<f64>().ok()?))
        });
    let [plan, server, local] = stated.collect::<Vec<_>>()[..] else {
        panic!("the page states three figures with their errors")
    };
    for ((stated, error), (mean, _)) in [server, plan, local].into_iter().zip(found) {
        assert!((stated - mean).abs() <= error, "{stated} ± {error}: {simulated}");
    }
}

#[test]
fn a_block_without_its_programs_is_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = format!("/nowhere:{}", folder.path().display());
    let block = "curl -fsS -K curl.rc http://127.0.0.1:7300/v1/status";
    assert_eq!(lacking(block, &path).as_deref(), Some("curl"));
    assert_eq!(
        lacking("DIGEST=$(sha256sum third.json)", &path).as_deref(),
        Some("sha256sum")
    );
    assert_eq!(lacking("undertone status > curl.rc; cat curl.rc", &path), None);
    std::fs::write(folder.path().join("curl"), "").expect("writable");
    assert_eq!(lacking(block, &path), None);
    let named = files(
        "undertone plan a/run.toml --epsilon 0.2 --out 'third.json'; curl http://127.0.0.1:7300/x.html",
    );
    assert!(named.iter().eq(["a/run.toml", "third.json"]), "{named:?}");
}

#[test]
fn blocks_are_found_with_their_marks() {
    let text = "a\n```sh\none\ntwo\n```\n<!-- not run: needs the network -->\n```sh\nthree\n```\n\
                ```toml\nx = 1\n```\n<!-- slow: a minute -->\n```sh\nfour\n```\n";
    let block = |line, commands: &str, mark: Option<Mark>| Block {
        line,
        commands: commands.into(),
        mark,
    };
    let not_run = Mark::NotRun("needs the network".into());
    let found = blocks(text);
    assert_eq!(
        found,
        [
            block(2, "one\ntwo", None),
            block(7, "three", Some(not_run)),
            block(14, "four", Some(Mark::Slow))
        ]
    );
    let run = |slow| found.iter().map(|block| block.is_run(slow)).collect::<Vec<_>>();
    assert_eq!(run(false), [true, false, false]);
    assert_eq!(run(true), [true, false, true]);
}

#[test]
fn pages_stand_in_the_summary_and_say_what_they_continue() {
    let found = entries("# Summary\n\n[First](a.md)\n\n# Part\n\n- [Second](b.md)\n");
    let page = |title: &str, file: &str| Entry::Page {
        title: title.into(),
        file: file.into(),
    };
    assert_eq!(
        found,
        [
            page("First", "a.md"),
            Entry::Part("Part".into()),
            page("Second", "b.md")
        ]
    );
    let page = |text: &str| Page {
        path: "node/guide/b.md".into(),
        text: text.into(),
    };
    assert_eq!(page("<!-- continues: a.md -->\n# B").continues(), Some("a.md"));
    assert_eq!(page("# B").continues(), None);
}

/// Headings of tables: the lines above a line of dashes, split where there are two blanks.
fn headings(quote: &str) -> Vec<String> {
    let lines: Vec<&str> = quote.lines().collect();
    let under = |line: &&str| !line.trim().is_empty() && line.chars().all(|c| c == '-' || c == ' ');
    let above = lines
        .windows(2)
        .filter(|pair| under(&pair[1]))
        .map(|pair| pair[0]);
    let cells = above.flat_map(|line| line.split("  ").map(str::trim).collect::<Vec<_>>());
    cells.filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
}

#[test]
fn the_words_of_a_quote_are_explained() {
    let words = Page::read("node/guide/glossary.md").text.to_lowercase();
    let folder = tempfile::tempdir().expect("a folder");
    let run = |line: &str| {
        let ended = undertone_tests::run_in(folder.path(), line.split(' '));
        // Whether a busy machine keeps the deadlines of `local` is not the point.
        assert!([0, 5].contains(&ended.code), "{line}: {}", ended.stderr);
        ended.stdout
    };
    let _alone = alone();
    run("example hospitals");
    run("local --inputs hospitals/tables --run hospitals/run.toml --output rows");
    run("local --nodes 4 --dimension 3 --output vectors");
    let parties = undertone_tests::Parties::new(4);
    parties.write("run.toml", "name = \"words\"\n[data]\nshape = [3]\n");
    let planned = parties.run(["plan", "run.toml", "--peers", "peers.toml", "--out", "plan.json"]);
    let quotes = [
        run("verify rows/plan.json"),
        run("verify rows/plan.json --full"),
        run("verify vectors/plan.json --full"),
        planned.stdout,
    ];
    let mut found = 0;
    for quote in &quotes {
        for heading in headings(quote) {
            let heading = heading.to_lowercase();
            assert!(words.contains(&heading), "{heading:?} is not among the words");
            found += 1;
        }
        for letter in quote
            .chars()
            .filter(|c| ('α'..='ω').contains(c) || ('Α'..='Ω').contains(c))
        {
            let letter = letter.to_lowercase().to_string();
            assert!(words.contains(&letter), "{letter} is not among the words");
        }
    }
    assert!(found > 25, "{found} headings");
}
