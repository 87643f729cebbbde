//! Every command of README.md is run, in order, as it stands there.
//!
//! Blocks fenced as `sh` run with `sh -eu` in one empty folder; `undertone`, and
//! `cargo run --release --`, mean the binary under test, `python3` one that has what they import,
//! and `node` is the repository's. A block is left out only if the line above it says
//! `<!-- not run: REASON -->` with a reason that is listed here, or, loudly and not in CI, if the
//! machine lacks a program that it needs. Every path that the README names is there.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use undertone_tests::composition::top;
use undertone_tests::python::python;
use undertone_tests::{Running, alone, left_out, undertone};

/// Why a block may not be run here.
const REASONS: [&str; 4] = [
    "needs another machine",
    "needs the network",
    "it is the test command itself",
    "tests/tests/waiting/compose.rs runs it",
];

#[derive(Debug, PartialEq)]
struct Block {
    /// The line where it stands, from 1.
    line: usize,
    commands: String,
    not_run: Option<String>,
}

/// The `sh` blocks of a Markdown text.
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = vec![];
    let mut lines = text.lines().enumerate();
    let mut comment: Option<String> = None;
    while let Some((index, line)) = lines.next() {
        let Some(language) = line.trim().strip_prefix("```") else {
            let reason = line
                .trim()
                .strip_prefix("<!-- not run:")
                .and_then(|rest| rest.strip_suffix("-->"));
            comment = reason.map(|reason| reason.trim().to_owned());
            continue;
        };
        let body: Vec<&str> = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| line.trim() != "```")
            .collect();
        assert!(
            language.trim() != "console" && language.trim() != "bash",
            "line {}: write commands in blocks fenced as sh",
            index + 1
        );
        if language.trim() == "sh" {
            blocks.push(Block {
                line: index + 1,
                commands: body.join("\n"),
                not_run: comment.take(),
            });
        }
        comment = None;
    }
    blocks
}

/// Programs that a block may need and that not every machine has.
const PROGRAMS: [&str; 6] = ["awk", "cmp", "curl", "cut", "python3", "sha256sum"];

/// What a block needs and a machine with these folders on its PATH lacks.
fn lacking(commands: &str, path: &str) -> Option<String> {
    let word = |c: char| !c.is_ascii_alphanumeric() && !"-_./".contains(c);
    let program = |word: &&str| PROGRAMS.contains(word);
    let is_there = |name: &str| {
        path.split(':')
            .any(|folder| Path::new(folder).join(name).is_file())
    };
    let needed = commands.split(word).filter(program);
    let absent = needed.into_iter().find(|name| !is_there(name)).map(str::to_owned);
    let wants_packages = commands.contains("venv/bin/");
    let packages =
        || (wants_packages && python().is_none()).then(|| "Python with ensurepip, numpy and pandas".into());
    absent.or_else(packages)
}

/// The files that a block names.
fn files(commands: &str) -> BTreeSet<String> {
    let part = |c: char| !c.is_ascii_alphanumeric() && !"-_./:".contains(c);
    let is_file = |word: &&str| {
        let extension = Path::new(word).extension().and_then(|it| it.to_str());
        extension.is_some_and(|it| it.chars().all(|c| c.is_ascii_lowercase())) && !word.contains(':')
    };
    commands.split(part).filter(is_file).map(str::to_owned).collect()
}

/// A folder to be put first on PATH: `undertone` and `cargo` that mean the binary under test, and a
/// `python3` that need not fetch numpy and pandas, if there is one.
fn stand_ins(folder: &Path) {
    let binary = undertone();
    let mut scripts = vec![
        (
            "undertone",
            format!("#!/bin/sh\nexec '{}' \"$@\"\n", binary.display()),
        ),
        (
            "cargo",
            format!(
                "#!/bin/sh\n[ \"$1 $2 $3\" = 'run --release --' ] || {{ echo \"cargo $*: only 'cargo run --release --' stands in a README\" >&2; exit 99; }}\nshift 3\nexec '{}' \"$@\"\n",
                binary.display()
            ),
        ),
    ];
    if let Some(python) = python() {
        scripts.push((
            "python3",
            format!(
                "#!/bin/sh\nPATH=\"${{PATH#*:}}\" exec {} \"$@\"\n",
                python.display()
            ),
        ));
    }
    for (name, script) in scripts {
        let path = folder.join(name);
        std::fs::write(&path, script).expect("writable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
    }
}

/// Kills what still runs in a folder: daemons that a block began and that no later one ended,
/// because the test failed before.
struct Left(PathBuf);

impl Drop for Left {
    fn drop(&mut self) {
        let Ok(processes) = std::fs::read_dir("/proc") else {
            return;
        };
        let pids = processes
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        for pid in pids
            .filter(|pid: &i32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == self.0))
        {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }
}

#[test]
fn every_command_of_the_readme_works() {
    let _alone = alone();
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let text = std::fs::read_to_string(readme).expect("there is a README");
    let blocks = blocks(&text);
    assert!(
        blocks.iter().filter(|block| block.not_run.is_none()).count() >= 3,
        "a README shows how to use the thing"
    );
    let tools = tempfile::tempdir().expect("a folder");
    stand_ins(tools.path());
    let folder = tempfile::tempdir().expect("a folder");
    let _daemons = Left(folder.path().to_owned());
    std::os::unix::fs::symlink(top().join("node"), folder.path().join("node")).expect("writable");
    let path = format!(
        "{}:{}",
        tools.path().display(),
        std::env::var("PATH").expect("a PATH")
    );
    let mut simulated = None;
    // Files that blocks name, and those that only blocks name that were left out.
    let (mut present, mut absent) = (BTreeSet::new(), BTreeSet::new());
    for Block {
        line,
        commands,
        not_run,
    } in blocks
    {
        if let Some(reason) = not_run {
            assert!(
                REASONS.iter().any(|known| reason.contains(known)),
                "line {line} is not run for no good reason: {reason}"
            );
            continue;
        }
        let made = absent.intersection(&files(&commands)).next().cloned();
        if let Some(missing) = lacking(&commands, &path).or(made) {
            left_out(&format!("README.md:{line}"), &format!("no {missing}"));
            absent.extend(files(&commands).difference(&present).cloned());
            continue;
        }
        present.extend(files(&commands));
        let mut shell = Command::new("sh");
        shell
            .args(["-euc", &commands])
            .current_dir(folder.path())
            .env("PATH", &path);
        let begun = std::time::Instant::now();
        let ended = Running::start(shell, None).wait();
        println!(
            "README.md:{line}: exit {} after {:.1} s",
            ended.code,
            begun.elapsed().as_secs_f64()
        );
        assert_eq!(
            ended.code, 0,
            "README.md:{line}:\n{commands}\n{}\n{}",
            ended.stdout, ended.stderr
        );
        for figure in FIGURES.iter().filter(|figure| commands.contains(figure.command)) {
            figure.check(&ended.stdout, &text);
        }
        if commands.contains("undertone simulate little.toml") {
            simulated = Some(ended.stdout);
        }
    }
    if let Some(simulated) = simulated {
        the_figures_of_the_models_are_those_of(&simulated, &text);
    }
}

/// A number that the README states, and that a command of its own prints.
struct Figure {
    command: &'static str,
    /// What stands before it in the command's output.
    printed: &'static str,
    /// What stands before it in the README.
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

/// What the README says of three kinds of noise is what its own command found, within the errors
/// that it states, and the differences are no chance.
fn the_figures_of_the_models_are_those_of(simulated: &str, text: &str) {
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
        panic!("the README states three figures with their errors")
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

/// What stands in a text like a path into the repository: a name at its top, and more behind it.
/// Capitals stand for what is different each time.
fn paths(text: &str, top: &[String]) -> Vec<String> {
    let part = |c: char| !c.is_ascii_alphanumeric() && !"-_./".contains(c);
    let words = text.split(part).map(|word| word.trim_start_matches("./"));
    let is_ours = |word: &&str| {
        let first = word.split('/').next().unwrap_or_default();
        word.contains('/') && top.iter().any(|name| name == first)
    };
    let capitals = |name: &str| name.chars().all(|c| c.is_ascii_uppercase() || c == '-');
    let named = words.filter(is_ours).map(|word| {
        let kept = word
            .split('/')
            .take_while(|name| name.is_empty() || !capitals(name));
        kept.collect::<Vec<_>>()
            .join("/")
            .trim_end_matches(['.', '/'])
            .to_owned()
    });
    named.collect()
}

#[test]
fn every_path_that_documents_name_is_there() {
    let entries = std::fs::read_dir(top()).expect("the repository").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    // What a build and a run make: neither is in a clean clone.
    let names: Vec<String> = names.filter(|name| name != "target" && name != ".git").collect();
    let mut found = 0;
    for file in [
        "README.md",
        "node/CHANGELOG.md",
        ".github/SECURITY.md",
        "docker-compose.yml",
    ] {
        let text = std::fs::read_to_string(top().join(file)).expect("there is such a file");
        for path in paths(&text.replace("deploy/results/", ""), &names) {
            assert!(
                top().join(&path).exists(),
                "{file} names {path}, which is not there"
            );
            found += 1;
        }
    }
    assert!(found > 12, "{found} paths");
}

#[test]
fn paths_are_found() {
    let top = ["node".to_owned(), "deploy".to_owned()];
    let text = "in `node/src/`, and './node/python[pandas]'; deploy/results/DIGEST/x. Not node or alice/node.toml (deploy/x.yml).";
    assert_eq!(
        paths(text, &top),
        ["node/src", "node/python", "deploy/results", "deploy/x.yml"]
    );
}

#[test]
fn blocks_are_found_with_the_reasons_for_which_they_are_not_run() {
    let text = "a\n```sh\none\ntwo\n```\n<!-- not run: needs the network -->\n```sh\nthree\n```\n```toml\nx = 1\n```\n";
    let block = |line, commands: &str, not_run: Option<&str>| Block {
        line,
        commands: commands.into(),
        not_run: not_run.map(String::from),
    };
    assert_eq!(
        blocks(text),
        [
            block(2, "one\ntwo", None),
            block(7, "three", Some("needs the network"))
        ]
    );
}

/// The glossary of the README: what stands in bold under its heading "Words".
fn words(text: &str) -> String {
    let section = text.split("\n## Words\n").nth(1).expect("the README has words");
    section.split("\n## ").next().expect("a section").to_lowercase()
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
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let words = words(&std::fs::read_to_string(readme).expect("there is a README"));
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
        run("verify vectors/plan.json"),
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
