//! The shape of files: how long, how wide, and how their comments begin.

use std::collections::BTreeMap;

use crate::house::arrows::Arrows;
use crate::house::tokens::{Comment, Lexed, lex};

/// No file is longer.
pub const MOST_LINES: usize = 600;
/// No line of code is wider, strings apart.
pub const CODE_COLUMNS: usize = 110;
/// No line of prose is wider.
pub const PROSE_COLUMNS: usize = 100;

/// Returns the faults in the shape of a source file, each with its line.
pub fn faults(source: &str) -> Vec<(usize, String)> {
    let lexed = lex(source);
    let count = source.lines().count();
    let mut faults = vec![];
    if count > MOST_LINES {
        faults.push((count, format!("{count} lines are more than {MOST_LINES}")));
    }
    faults.extend(widths(source, &lexed));
    faults.extend(openings(source, &lexed.comments));
    faults.extend(
        lexed
            .comments
            .iter()
            .filter(|comment| cites(&comment.text))
            .map(|comment| {
                (
                    comment.line,
                    format!("a comment cites a ticket: {}", comment.text),
                )
            }),
    );
    faults
}

fn widths(source: &str, lexed: &Lexed) -> Vec<(usize, String)> {
    let mut faults = vec![];
    for (index, text) in source.lines().enumerate() {
        let (line, columns) = (index + 1, text.chars().count());
        if text.trim_start().starts_with("//") {
            if columns > PROSE_COLUMNS && breakable(text) {
                faults.push((line, format!("prose of {columns} columns")));
            }
        } else if columns > CODE_COLUMNS && columns > CODE_COLUMNS + longest_literal(lexed, line, columns) {
            faults.push((line, format!("code of {columns} columns")));
        }
    }
    faults
}

/// Whether a line of prose could be wrapped: it has a blank within the width, and is no row of a
/// table.
fn breakable(text: &str) -> bool {
    let prose = text.trim_start().trim_start_matches(['/', '!']).trim_start();
    let indent = text.chars().count() - prose.chars().count();
    let within: String = prose.chars().take(PROSE_COLUMNS.saturating_sub(indent)).collect();
    within.contains(' ') && !prose.starts_with('|')
}

/// The columns of a line that one string takes; all of it where the string has several lines.
fn longest_literal(lexed: &Lexed, line: usize, columns: usize) -> usize {
    let here = lexed
        .literals
        .iter()
        .filter(|it| (it.line..=it.last_line).contains(&line));
    let length = here.map(|it| {
        if it.line == it.last_line {
            it.length
        } else {
            columns
        }
    });
    length.max().unwrap_or(0)
}

/// Documentation that cannot stand alone in an editor's pop-up.
fn openings(source: &str, comments: &[Comment]) -> Vec<(usize, String)> {
    let lines: Vec<&str> = source.lines().map(str::trim_start).collect();
    let documents = |text: &str| text.starts_with("///") || text.starts_with("//!");
    let first = comments.iter().filter(|comment| {
        let before = comment.line.checked_sub(2).map_or("", |index| lines[index]);
        documents(&comment.text) && !documents(before)
    });
    let leaning = first.filter(|comment| {
        let words = comment.text[3..].trim_start();
        ["The same ", "The same,", "Of "]
            .iter()
            .any(|lean| words.starts_with(lean))
    });
    leaning
        .map(|comment| (comment.line, format!("leans on a neighbour: {}", comment.text)))
        .collect()
}

/// How summaries do not begin, since neither a verb nor a noun phrase does.
const COINED_OPENINGS: [&str; 3] = ["Whoever ", "So many ", "Of which "];

/// Summaries with an opening that a native reader stumbles over.
pub fn coined_openings(source: &str) -> Vec<(usize, String)> {
    let coined = |words: &str| COINED_OPENINGS.iter().any(|opening| words.starts_with(opening));
    let summaries = summaries(source).into_iter().filter(|(_, words)| coined(words));
    summaries
        .map(|(line, words)| (line, format!("begin with a verb or a noun phrase: {words}")))
        .collect()
}

/// The number of summaries that begin with "What".
pub fn what_openings(source: &str) -> usize {
    let what = |words: &str| words.starts_with("What ");
    summaries(source).iter().filter(|(_, words)| what(words)).count()
}

/// The lines of comments that are no documentation, and the lines of code, before the tests.
pub fn whys_and_code(source: &str) -> (usize, usize) {
    let code = source
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let lines = code.lines().map(str::trim).filter(|line| !line.is_empty());
    let plain = lines.filter(|line| !line.starts_with("///") && !line.starts_with("//!"));
    let (whys, code): (Vec<&str>, Vec<&str>) = plain.partition(|line| line.starts_with("//"));
    (whys.len(), code.len())
}

/// The first line of each documentation comment, with its number.
fn summaries(source: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = source.lines().map(str::trim_start).collect();
    let documents = |text: &str| text.starts_with("///") || text.starts_with("//!");
    let first = (0..lines.len()).filter(|&at| documents(lines[at]) && (at == 0 || !documents(lines[at - 1])));
    first
        .map(|at| (at + 1, lines[at][3..].trim_start().to_owned()))
        .collect()
}

/// Whether a comment names a ticket by its number.
fn cites(comment: &str) -> bool {
    let lower = comment.to_lowercase();
    let words: Vec<&str> = lower.split([' ', '(', ')', ',', ';', '\n']).collect();
    let numbered = |word: &str| {
        word.trim_start_matches('#')
            .starts_with(|c: char| c.is_ascii_digit())
    };
    let hashed = |word: &str| word.starts_with('#') && numbered(word);
    let named = |pair: &[&str]| matches!(pair[0], "issue" | "issues" | "ticket") && numbered(pair[1]);
    words.iter().any(|word| hashed(word)) || words.windows(2).any(named)
}

/// Names of types that several files of a crate define, with these files.
pub fn defined_twice(arrows: &Arrows) -> Vec<(String, Vec<String>)> {
    let mut places: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    for (path, file) in &arrows.0 {
        for name in &file.types {
            places.entry(name).or_default().push(path.clone());
        }
    }
    let twice = places.into_iter().filter(|(_, files)| files.len() > 1);
    twice.map(|(name, files)| (name.clone(), files)).collect()
}

/// Lines of a Markdown text whose prose is too wide: code, tables and the addresses of links apart.
pub fn wide_prose(markdown: &str) -> Vec<usize> {
    let (mut wide, mut code) = (vec![], false);
    for (index, line) in markdown.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            code = !code;
        } else if !code && !line.trim_start().starts_with('|') {
            let columns = without_addresses(line).chars().count();
            if columns > PROSE_COLUMNS {
                wide.push(index + 1);
            }
        }
    }
    wide
}

/// The line without the addresses of its links: `[text](address)` as `[text]`.
fn without_addresses(line: &str) -> String {
    let mut parts = line.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push(']');
        text += part.split_once(')').map_or("", |(_, rest)| rest);
    }
    text
}
