//! The outcome of many runs: a table by mechanism and fault, every reason, and the seeds.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};
use undertone_protocol::topology::party::Party;

/// The outcome of one run.
#[derive(Debug)]
pub struct Row {
    /// The mechanism's name.
    pub mechanism: &'static str,
    /// The fault's name.
    pub fault: &'static str,
    /// The seed of the run.
    pub seed: u64,
    /// Parties that are alive, honest and connected to most others.
    pub survivors: usize,
    /// Those of them without the result, each with the reason that it states; "" if it states none.
    pub without: Vec<(Party, String)>,
    /// Where the documents say that such a fault may end a run for everybody.
    pub named: Option<&'static str>,
    /// All other parties.
    pub impaired: usize,
    /// Those of the others that have the result.
    pub impaired_with: usize,
    /// Invariants that did not hold.
    pub violations: Vec<String>,
}

#[derive(Default)]
struct Cell {
    runs: usize,
    survivors: usize,
    without: usize,
    seeds: Vec<u64>,
}

/// Many runs.
#[derive(Default)]
pub struct Summary {
    rows: Vec<Row>,
}

/// Stands before a reason where the documents do not say that such a fault may end a run.
const UNNAMED: &str = "not in the documents";

/// The width of what is printed.
const WIDTH: usize = 80;

impl Summary {
    /// Adds a run.
    pub fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Survivors without the result, over all runs.
    pub fn without(&self) -> usize {
        self.rows.iter().map(|row| row.without.len()).sum()
    }

    /// Runs with a survivor without the result.
    fn exceptions(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| !row.without.is_empty())
    }

    /// Those of them that no document names.
    pub fn unnamed(&self) -> impl Iterator<Item = &Row> {
        self.exceptions().filter(|row| row.named.is_none())
    }

    /// Runs in which an invariant did not hold.
    pub fn violations(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| !row.violations.is_empty())
    }

    /// By mechanism and fault, in the order of the first run of each.
    fn cells(&self) -> Vec<((&'static str, &'static str), Cell)> {
        let mut cells: Vec<((&'static str, &'static str), Cell)> = vec![];
        for row in &self.rows {
            let name = (row.mechanism, row.fault);
            let place = cells.iter().position(|(of, _)| *of == name);
            let place = place.unwrap_or_else(|| {
                cells.push((name, Cell::default()));
                cells.len() - 1
            });
            let cell = &mut cells[place].1;
            cell.runs += 1;
            cell.survivors += row.survivors;
            cell.without += row.without.len();
            if !row.without.is_empty() || !row.violations.is_empty() {
                cell.seeds.push(row.seed);
            }
        }
        cells.sort_by_key(|(name, _)| *name);
        cells
    }

    /// Reasons without names and numbers, behind what the documents say of it, most frequent first,
    /// each with parties and seeds.
    fn reasons(&self) -> Vec<(String, usize, Vec<u64>)> {
        let mut reasons: BTreeMap<String, (usize, Vec<u64>)> = BTreeMap::new();
        for row in &self.rows {
            for (_, reason) in &row.without {
                let reason = match (row.named, reason.as_str()) {
                    (named, "") => format!("[{}] (no reason)", named.unwrap_or(UNNAMED)),
                    (named, some) => format!("[{}] {}", named.unwrap_or(UNNAMED), kind_of(some)),
                };
                let (count, seeds) = reasons.entry(reason).or_default();
                *count += 1;
                if seeds.last() != Some(&row.seed) {
                    seeds.push(row.seed);
                }
            }
        }
        let mut reasons: Vec<_> = reasons
            .into_iter()
            .map(|(text, (count, seeds))| (text, count, seeds))
            .collect();
        reasons.sort_by_key(|(_, count, _)| std::cmp::Reverse(*count));
        reasons
    }

    /// The table for a terminal of 80 columns.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{:<13} {:<15} {:>5} {:>9} {:>7}  {}\n",
            "mechanism", "fault", "runs", "survivors", "without", "seeds"
        );
        for ((mechanism, fault), cell) in self.cells() {
            let row = format!(
                "{mechanism:<13} {fault:<15} {:>5} {:>9} {:>7}  ",
                cell.runs, cell.survivors, cell.without
            );
            text += &in_columns(&row, &listed(&cell.seeds));
        }
        let runs = self.rows.len();
        let survivors: usize = self.rows.iter().map(|row| row.survivors).sum();
        let impaired: usize = self.rows.iter().map(|row| row.impaired).sum();
        let with: usize = self.rows.iter().map(|row| row.impaired_with).sum();
        let _ = writeln!(
            text,
            "\n{runs} runs, {survivors} survivors, {} without the result, in {} runs,\n\
             {} of which no document names; {with} of {impaired} others have it; {} runs broke an\n\
             invariant",
            self.without(),
            self.exceptions().count(),
            self.unnamed().count(),
            self.violations().count()
        );
        for (reason, count, seeds) in self.reasons() {
            text.push('\n');
            text += &in_columns(&format!("{count:>4}  "), &reason);
            text += &in_columns("      seeds ", &listed(&seeds));
        }
        for row in self.violations() {
            let _ = writeln!(text, "\nseed {}: {:?}", row.seed, row.violations);
        }
        text
    }

    /// The summary as one JSON object.
    pub fn json(&self) -> Value {
        let cells = self.cells().into_iter().map(|((mechanism, fault), cell)| {
            json!({"mechanism": mechanism, "fault": fault, "runs": cell.runs,
                "survivors": cell.survivors, "without": cell.without, "seeds": cell.seeds})
        });
        let exceptions = self.exceptions().map(|row| {
            let without = row.without.iter();
            let without = without.map(|(party, reason)| json!({"party": party, "reason": reason}));
            json!({"mechanism": row.mechanism, "fault": row.fault, "seed": row.seed, "named": row.named,
                "without": without.collect::<Vec<_>>()})
        });
        let violations = self.violations();
        let violations = violations.map(|row| json!({"seed": row.seed, "violations": row.violations}));
        json!({
            "runs": self.rows.len(),
            "survivors": self.rows.iter().map(|row| row.survivors).sum::<usize>(),
            "without": self.without(),
            "impaired": self.rows.iter().map(|row| row.impaired).sum::<usize>(),
            "impaired_with": self.rows.iter().map(|row| row.impaired_with).sum::<usize>(),
            "cells": cells.collect::<Vec<_>>(),
            "exceptions": exceptions.collect::<Vec<_>>(),
            "violations": violations.collect::<Vec<_>>(),
        })
    }
}

/// A reason with N for each number: reasons that differ in names only are one kind.
fn kind_of(reason: &str) -> String {
    let mut kind = String::new();
    for char in reason.chars() {
        match char.is_ascii_digit() {
            true if kind.ends_with('N') => {}
            true => kind.push('N'),
            false => kind.push(char),
        }
    }
    let mut before = String::new();
    // Lists of names are of any length.
    while before != kind {
        before.clone_from(&kind);
        kind = kind
            .replace("party-N, party-N", "party-N")
            .replace("party-N and party-N", "party-N");
    }
    kind
}

fn listed(seeds: &[u64]) -> String {
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    seeds.join(" ")
}

/// Text behind a head, broken between words, its further lines indented as far.
fn in_columns(head: &str, text: &str) -> String {
    let indent = " ".repeat(head.len());
    let (mut lines, mut line) = (String::new(), head.to_owned());
    for word in text.split_whitespace() {
        if line.len() + word.len() > WIDTH && line.len() > indent.len() {
            lines += line.trim_end();
            lines.push('\n');
            line.clone_from(&indent);
        }
        line += word;
        line.push(' ');
    }
    lines + line.trim_end() + "\n"
}
