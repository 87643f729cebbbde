//! `undertone account connectivity`: who would have to collude or depart before the others fall
//! into pieces.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use undertone_accountant::account::connectivity::{self, AtLeast, Separation, Unanswerable};
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::party::Party;

use crate::commands::account::answer::{read_input, report};
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;
use crate::reporting::table::Table;

/// Flags of `account connectivity`.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("who-shares").args(["graph", "schedule"]).required(true)))]
pub struct ConnectivityArgs {
    /// Who shares with whom: one edge `u v` a line, parties count from 0, `#` comments; in pieces
    /// or not
    #[arg(long, value_name = "EDGES.txt")]
    graph: Option<PathBuf>,
    /// n; with --graph one more than its largest party if left out
    #[arg(long, value_name = "N")]
    parties: Option<usize>,
    /// T: the graph of those who meet in so many rounds, in each of which everybody sends to one of
    /// all others and no pair meets twice
    #[arg(long, value_name = "T", requires = "parties", requires = "seed")]
    schedule: Option<usize>,
    /// What the schedule is drawn from
    #[arg(long, value_name = "S", requires = "schedule")]
    seed: Option<u64>,
    /// Ask only whether it takes K parties or more to separate the others
    #[arg(long, value_name = "K")]
    at_least: Option<usize>,
    /// How many parties of a coalition pool what they know
    #[arg(long, value_name = "C", default_value_t = 0)]
    colluding: usize,
}

pub(super) fn run(arguments: &ConnectivityArgs) -> Result<Report, Failure> {
    let graph = arguments.read()?;
    match arguments.at_least {
        Some(wanted) => {
            let answer = connectivity::at_least(&graph, wanted);
            report(&answer, describe_at_least(&graph, wanted, &answer))
        }
        None => {
            let answer = connectivity::account(&graph, arguments.colluding)
                .map_err(|error| arguments.refuse(error))?;
            report(&answer, describe(&graph, arguments.colluding, &answer))
        }
    }
}

impl ConnectivityArgs {
    fn read(&self) -> Result<Graph, Failure> {
        let graph = match (&self.graph, self.schedule) {
            (Some(path), _) => connectivity::listed(&read_input(path, "--graph")?, self.parties),
            (None, rounds) => connectivity::scheduled(
                self.parties.unwrap_or_default(),
                rounds.unwrap_or_default(),
                self.seed.unwrap_or_default(),
            ),
        };
        graph.map_err(|error| self.refuse(error))
    }

    fn refuse(&self, error: Unanswerable) -> Failure {
        match (&error, &self.graph) {
            (Unanswerable::Range { flag, .. }, _) => Failure::usage(error.to_string()).field(flag),
            (Unanswerable::Edges(_), Some(path)) => Failure::input(error.to_string())
                .in_file(path)
                .field(path.display()),
            (Unanswerable::Edges(_), None) => Failure::input(error.to_string()),
        }
    }
}

fn describe_at_least(graph: &Graph, wanted: usize, answer: &AtLeast) -> String {
    match &answer.cut {
        _ if answer.at_least => format!("Yes: it takes at least {wanted} parties to separate the others.\n"),
        cut => format!("No: {}.\n", separated(graph, cut.as_deref())),
    }
}

fn describe(graph: &Graph, colluding: usize, answer: &Separation) -> String {
    let fewest = match &answer.cut {
        Some(cut) if cut.len() > 1 => "; no fewer do",
        _ => "",
    };
    let mut parties_of: BTreeMap<usize, Vec<Party>> = BTreeMap::new();
    for (party, &m) in answer.among.iter().enumerate() {
        parties_of.entry(m).or_default().push(party);
    }
    let mut table = Table::with_headings(["among", "parties"]);
    for (m, parties) in &parties_of {
        table.row([m.to_string(), listed(parties)]);
    }
    let whoever = match colluding {
        0 => "With nobody colluding".to_owned(),
        1 => "Whoever else colludes".to_owned(),
        _ => format!("Whichever {colluding} others collude"),
    };
    format!(
        "κ = {}: {}{fewest}.\n\n{whoever}, each party's own value is hidden at least\n{}",
        answer.kappa,
        separated(graph, answer.cut.as_deref()),
        table.render()
    )
}

/// Says who separates the others, as a part of a sentence.
fn separated(graph: &Graph, cut: Option<&[Party]>) -> String {
    match cut {
        None => format!(
            "each of the {} parties shares with each other, and nobody separates them",
            graph.parties()
        ),
        Some([]) => format!(
            "the graph is in {} pieces, with nobody taken away",
            graph.components().len()
        ),
        Some([one]) => format!("party {one} alone would separate others from each other"),
        Some(cut) => format!(
            "these {} parties would separate others from each other: {}",
            cut.len(),
            listed(cut)
        ),
    }
}

/// Parties by their numbers; of many the first ones, and how many more.
fn listed(parties: &[Party]) -> String {
    const MOST: usize = 60;
    let numbers: Vec<String> = parties.iter().take(MOST).map(Party::to_string).collect();
    match parties.len().saturating_sub(MOST) {
        0 => numbers.join(", "),
        more => format!("{} and {more} more", numbers.join(", ")),
    }
}
