//! What an adversary sees of PPSC: published final states, and every ω that a corrupted party may have read.

use ndarray::Array2;
use undertone_protocol::payload::{Impulse, Payload};

use super::execution::{Exchange, PpscExecution};
use super::machine::MultiGossip;
use crate::execution::Fate;
use crate::view::View;

/// A run of all exchanges on one payload.
pub struct Mixed<P> {
    /// β(S), by party; a crashed party's is the one that it crashed with.
    pub finals: Vec<P>,
    /// ω of each exchange for which it was asked.
    pub messages: Vec<P>,
}

impl<P: Payload> Mixed<P> {
    /// Runs `execution` from `values` with the noise of each exchange, in its order; keeps ω where `keep` says.
    pub fn run(
        execution: &PpscExecution,
        values: Vec<P>,
        mut noise: impl FnMut(usize, &Exchange) -> P,
        keep: impl Fn(&Exchange) -> bool,
    ) -> Self {
        let mut machine = MultiGossip::new(values);
        let mut messages = Vec::new();
        for (index, exchange) in execution.exchanges().iter().enumerate() {
            let omega = machine.send(exchange.out, noise(index, exchange));
            match exchange.fate {
                Fate::Accepted => machine.add(exchange.into, &omega),
                Fate::Returned => machine.add(exchange.out, &omega),
                Fate::Lost => {}
            }
            if keep(exchange) {
                messages.push(omega);
            }
        }
        Mixed { finals: machine.states().to_vec(), messages }
    }
}

/// The rows that the adversary of `execution` sees: B over the honest parties' values, A over the noises of their exchanges.
///
/// Without a coalition and with all finals published these are C and D of the paper (equation 11), the columns of D in the order
/// of the exchanges.
pub fn view(execution: &PpscExecution) -> View {
    let (parties, exchanges) = (execution.parties(), execution.exchanges());
    let unknowns = parties + exchanges.len();
    let corrupted = |party| execution.corrupted().contains(&party);
    let mixed = Mixed::run(
        execution,
        (0..parties).map(|party| Impulse::unit(unknowns, party)).collect(),
        |index, _| Impulse::unit(unknowns, parties + index),
        // What a corrupted party holds is known, whatever the file says about `seen`.
        |exchange| !corrupted(exchange.out) && corrupted(exchange.into) && (exchange.seen || exchange.fate == Fate::Accepted),
    );
    let finals = execution.published().iter().filter(|&&party| !corrupted(party)).map(|&party| &mixed.finals[party]);
    let rows: Vec<&Impulse> = mixed.messages.iter().chain(finals).collect();
    let honest: Vec<usize> = (0..parties).filter(|&party| !corrupted(party)).collect();
    let noises: Vec<usize> = (0..exchanges.len()).filter(|&index| !corrupted(exchanges[index].out)).collect();
    let select = |columns: &[usize], offset: usize| {
        Array2::from_shape_fn((rows.len(), columns.len()), |(row, column)| rows[row].0[offset + columns[column]])
    };
    View { b: select(&honest, 0), a: select(&noises, parties), honest }
}
