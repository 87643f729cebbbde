//! One node's publishing under way, whichever way it is.

use crate::agreement::items::Items;
use crate::messages::notice::{ItemSet, Round};
use crate::messages::wire::Bytes;
use crate::publishing::interface::{PublishingAction, Surroundings};
use crate::time::Time;
use crate::topology::party::Party;

/// The work of a node that has published its own final until it has a result, and then for others.
///
/// What only some ways need does nothing unless they say so.
pub trait Publication: Send {
    /// A set of items is agreed, and all of them are held.
    fn agreed(&mut self, now: Time, set: &ItemSet, items: &Items, around: &Surroundings<'_>);

    /// No set was agreed on in time, or before this node left; `set` is what is held of the
    /// members.
    fn unresolved(&mut self, set: &ItemSet, items: &Items);

    /// The publication that goes on once finals are flooded, after [`PublishingAction::Flood`].
    fn into_flooding(self: Box<Self>) -> Box<dyn Publication>;

    /// Returns the actions to do since the last call.
    fn take_actions(&mut self) -> Vec<PublishingAction>;

    /// A round that a neighbour signed.
    fn round(&mut self, _round: Round, _values: Bytes) {}

    /// A neighbour can be reached (again): what it may lack is sent.
    fn connected(&mut self, _peer: Party) {}

    /// Does what can be done now.
    fn advance(&mut self, _now: Time, _around: &Surroundings<'_>) {}

    /// Returns the moment to advance although nothing happened.
    fn wake(&self, _now: Time, _around: &Surroundings<'_>) -> Time {
        Time::FAR
    }

    /// Whether the set is agreed and work goes on with it.
    fn is_under_way(&self) -> bool {
        false
    }

    /// This node leaves while publishing is under way: it ends with what there is.
    fn leave(&mut self) {}

    /// Whether nobody else needs this node any more, as far as it knows.
    fn is_over(&self, _around: &Surroundings<'_>) -> bool {
        true
    }
}
