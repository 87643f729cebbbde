//! A change of one value that moves along shares, as linear functions of how much of it each share
//! carries.

use undertone_protocol::topology::party::Party;

/// A hand-over of one round: the same share to each of its receivers.
#[derive(Debug, Clone, PartialEq)]
pub struct Sending {
    /// The round, from 1.
    pub round: u32,
    /// The party that sends.
    pub from: Party,
    /// The receivers, at least one party, and the round in which each joined its receiver's state.
    pub to: Vec<(Party, u32)>,
}

impl Sending {
    /// Whether `party` is one of its receivers.
    pub fn reaches(&self, party: Party) -> bool {
        self.to.iter().any(|&(to, _)| to == party)
    }
}

/// A linear function of the flow: pairs of a sending and its coefficient, each once, in ascending
/// order.
pub type Row = Vec<(usize, f64)>;

/// All that is handed over in a schedule, by round and sender, where each share joins its receiver
/// in its round.
pub fn sendings(sends: &[Vec<Vec<Party>>]) -> Vec<Sending> {
    let of_round = |(index, round): (usize, &Vec<Vec<Party>>)| {
        let sent = round.iter().enumerate().filter(|(_, to)| !to.is_empty());
        let sending = |(from, to): (Party, &Vec<Party>)| Sending {
            round: index as u32 + 1,
            from,
            to: to.iter().map(|&to| (to, index as u32 + 1)).collect(),
        };
        sent.map(sending).collect::<Vec<_>>()
    };
    sends.iter().enumerate().flat_map(of_round).collect()
}

/// Returns the net flow out of `party` by the end of round `until`. Each of its shares carries the
/// flow of its sending out, and each that it accepts carries some in.
pub fn led_out(sendings: &[Sending], party: Party, until: u32) -> Row {
    let part = |(index, sending): (usize, &Sending)| {
        if sending.from == party {
            (sending.round <= until).then_some((index, sending.to.len() as f64))
        } else {
            let joined = sending
                .to
                .iter()
                .any(|&(to, round)| to == party && round <= until);
            joined.then_some((index, -1.0))
        }
    };
    sendings.iter().enumerate().filter_map(part).collect()
}

/// The sum of `factor` times each row.
pub fn combined<'a>(parts: impl IntoIterator<Item = (f64, &'a Row)>) -> Row {
    let mut sum = std::collections::BTreeMap::<usize, f64>::new();
    for (factor, row) in parts {
        for &(index, part) in row {
            *sum.entry(index).or_default() += factor * part;
        }
    }
    sum.into_iter().filter(|&(_, part)| part != 0.0).collect()
}
