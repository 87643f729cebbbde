//! `undertone account static`: what a schedule does that is drawn after coalitions are fixed.

use clap::{Args, ValueEnum};
use undertone_accountant::account::static_coalitions::{self, MOST_ROUNDS};
use undertone_accountant::bounds::static_draw::{DrawnRound, StaticDraw};

use crate::commands::account::answer::report;
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;
use crate::reporting::table::Table;

/// The kind of draw in each round.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum RoundOf {
    /// A permutation.
    #[default]
    Permutations,
    /// A pairing.
    Pairings,
}

/// Flags of `account static`.
#[derive(Args, Debug)]
pub struct StaticArgs {
    /// n
    #[arg(long, value_name = "N")]
    parties: usize,
    /// s: how many of them collude or depart, fixed before the draw
    #[arg(long, value_name = "S")]
    removed: usize,
    /// T: so many independent permutations say who sends to whom (or pairings, who hands over)
    #[arg(long, value_name = "T")]
    rounds: u32,
    /// What a round draws: a permutation as with INCA and masks of pairs, or a pairing as with PPSC
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    draw: RoundOf,
    /// q: so many shares between the others go astray, whoever chooses them
    #[arg(long, value_name = "Q", default_value_t = 0)]
    share_faults: usize,
}

pub(super) fn run(arguments: &StaticArgs) -> Result<Report, Failure> {
    let StaticArgs {
        parties,
        removed,
        rounds,
        share_faults,
        draw,
    } = *arguments;
    let draw = StaticDraw {
        round: match draw {
            RoundOf::Permutations => DrawnRound::Permutation,
            RoundOf::Pairings => DrawnRound::Pairing,
        },
        parties,
        removed,
        share_faults,
    };
    let refuse = |error: static_coalitions::OutOfRange| Failure::usage(error.to_string()).field(error.flag);
    let answer = static_coalitions::account(draw, rounds).map_err(refuse)?;
    let fewest = |found: Option<u32>| found.map_or(format!("more than {MOST_ROUNDS}"), |t| t.to_string());
    let mut table = Table::with_headings(["p at most", "rounds"]);
    table
        .row([format!("{:.2e}", answer.ln_p.exp()), rounds.to_string()])
        .row(["1e-9".into(), fewest(answer.rounds.billionth)])
        .row(["1e-12".into(), fewest(answer.rounds.trillionth)]);
    let text = format!(
        "A draw leaves the other {} parties in several pieces with a chance of at most p (ln p = {:.6}).\n\n{}",
        parties - removed,
        answer.ln_p,
        table.render()
    );
    report(&answer, text)
}
