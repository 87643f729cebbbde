//! Citations: pages that comments and documents name, and the code and tests that pages name.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::documents::links::anchors;

/// Folders of pages that may be cited by their path.
const PAGES: [&str; 3] = ["protocol/docs/", "accountant/docs/", "node/guide/"];

/// Names of design pages that are not in this repository.
const ABSENT: [&str; 8] = [
    "DESIGN",
    "FLOOR",
    "SEALING",
    "MODELS",
    "ERRATA",
    "CONTRACTS",
    "SLICES",
    "STATISTICS",
];

/// The pages that a text cites, as `protocol/docs/NAME.md`, with an anchor where there is one.
pub fn cited(text: &str) -> BTreeSet<String> {
    let part = |c: char| !c.is_ascii_alphanumeric() && !"-_./#".contains(c);
    let is_cited = |word: &&str| PAGES.iter().any(|page| word.starts_with(page)) && word.contains(".md");
    let trimmed = |word: &str| word.trim_end_matches(['.', '#', '-']).to_owned();
    text.split(part).filter(is_cited).map(trimmed).collect()
}

/// Whether a cited page is there, and has a heading of that anchor.
pub fn resolves(citation: &str, top: &Path) -> bool {
    let (file, heading) = citation.split_once('#').unwrap_or((citation, ""));
    let Ok(text) = fs::read_to_string(top.join(file)) else {
        return false;
    };
    heading.is_empty() || anchors(&text).iter().any(|anchor| anchor == heading)
}

/// Lines of a source, from 1, whose comments name a page that is not here.
pub fn absent(source: &str) -> Vec<usize> {
    let comment = |line: &str| line.split_once("//").map(|(_, comment)| comment.to_owned());
    let names = |comment: &str| {
        let words = comment.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-');
        words.into_iter().any(|word| ABSENT.contains(&word))
    };
    let lines = source.lines().enumerate();
    let cites = lines.filter(|(_, line)| comment(line).is_some_and(|it| names(&it)));
    cites.map(|(index, _)| index + 1).collect()
}

/// Returns the texts between single backticks in a Markdown text.
fn codes(text: &str) -> impl Iterator<Item = &str> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(|code| !code.contains('\n'))
}

/// The files of code that a page names: `CRATE/src/….rs`.
pub fn files(text: &str) -> BTreeSet<&str> {
    let folders = ["protocol/", "accountant/", "node/", "tests/"];
    let is_file = |code: &&str| code.ends_with(".rs") && folders.iter().any(|it| code.starts_with(it));
    codes(text).filter(is_file).collect()
}

/// The tests that a page names: words of four parts or more.
pub fn tests(text: &str) -> BTreeSet<&str> {
    let part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_test = |code: &&str| code.matches('_').count() >= 3 && code.chars().all(part);
    codes(text).filter(is_test).collect()
}
