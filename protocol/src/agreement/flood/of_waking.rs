//! The held notices of parties that arrived late, and of parties that still wait for logs.

use crate::agreement::flood::Flood;
use crate::agreement::flood::slot::Slot;
use crate::messages::notice::{LateArrivals, Notice};
use crate::topology::party::Party;

/// Returns the number of late arrivals of a party by these words.
fn of(arrivals: &[LateArrivals], party: Party) -> u8 {
    let entry = arrivals.binary_search_by_key(&party, |entry| entry.party);
    entry.map_or(0, |place| arrivals[place].count)
}

impl Flood {
    /// The newest word of each party that it still waits for logs.
    fn words_of_waking(&self) -> impl Iterator<Item = (Party, &[LateArrivals])> {
        let all = Slot::Awake(0)..=Slot::Awake(Party::MAX);
        self.held
            .range(all)
            .filter_map(|(slot, held)| match (slot, &held.notice) {
                (Slot::Awake(author), Notice::Awake { arrivals }) => Some((*author, &arrivals[..])),
                _ => None,
            })
    }

    /// Whether anybody has arrived late.
    pub fn says_of_waking(&self) -> bool {
        self.words_of_waking().next().is_some()
    }

    /// Returns the number of late arrivals that each party has reported of itself, ascending by
    /// party.
    pub fn late_arrivals(&self) -> Vec<LateArrivals> {
        // Only a party's own word counts: others could name arrivals that never were.
        let own = self.words_of_waking().map(|(party, arrivals)| LateArrivals {
            party,
            count: of(arrivals, party),
        });
        own.filter(|entry| entry.count > 0).collect()
    }

    /// Returns the parties whose notices say that they still waited for logs after `party` had
    /// arrived late `arrival` times, ascending.
    pub fn waiting_after(&self, party: Party, arrival: u8) -> impl Iterator<Item = Party> {
        let words = self.words_of_waking();
        words
            .filter(move |(_, arrivals)| of(arrivals, party) >= arrival)
            .map(|(author, _)| author)
    }
}
