//! The outputs of a host.

use libp2p_identity::PeerId;

use crate::lobby::confirmed::Confirmed;
use crate::lobby::guest::Numbered;
use crate::messages::lobby::{Refusal, ToGuest};
use crate::plan::peers::difference::ListChange;

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostOutput {
    /// Send this to these guests.
    Say(Vec<PeerId>, ToGuest),
    /// Send this to a guest, and close its connection.
    Dismiss(PeerId, ToGuest),
    /// Tell the operator.
    News(HostNews),
}

/// The news of a lobby for its host's operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostNews {
    /// Somebody sat down, or changed its lines.
    Sat {
        /// Its name.
        name: String,
        /// Its id.
        id: PeerId,
        /// The difference from the old list, if there is one.
        change: Option<ListChange>,
    },
    /// Somebody sits there no more.
    Left {
        /// Its name.
        name: String,
        /// The host's reason; `None`: the guest went, said no, or its connection broke.
        why: Option<Refusal>,
    },
    /// The lobby is being closed for the n-th time.
    Closing(u32),
    /// A list needs three parties.
    TooFew {
        /// The number that there would be.
        found: usize,
    },
    /// Here is the number: do all have it?
    Number(Numbered),
    /// Somebody says yes to the list.
    Yes {
        /// Its name.
        name: String,
    },
    /// Somebody of the list that is compared is not there any more, or was taken out: that list can
    /// come into force no more.
    Void,
    /// The list is in force.
    InForce(Numbered, Confirmed),
    /// The lobby has ended without a list.
    Ended,
}
