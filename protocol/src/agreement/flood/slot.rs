//! The slots of the flood, each of which holds at most one notice.

use crate::messages::held_kind::Kind;
use crate::messages::notice::Notice;
use crate::messages::stage::Stage;
use crate::topology::party::Party;

/// A place in the flood for at most one notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    /// A party's newest word about neighbours that it does not reach before START. First, so that
    /// a node that gets all that is held hears it before the READYs that it is about.
    Unreached(Party),
    /// A party's newest READY, or its withdrawal.
    Ready(Party),
    /// A party's START, by number.
    Start(u8, Party),
    /// A party's word that it has given up the START of this number.
    GiveUp(u8, Party),
    /// A party's item of a stage.
    Item(Stage, Party),
    /// A party's list of a stage.
    List(Stage, Party),
    /// A party's vote of a stage.
    Vote(Stage, Party),
    /// A party's call that another one is gone, in a stage.
    Unreachable(Stage, Party, Party),
    /// A party's word that it missed a message of averaging.
    Missed(Party),
    /// A party's word that it has done all rounds of averaging.
    Averaged(Party),
    /// A party's own secret of a round: (round, author).
    Key(u32, Party),
    /// A party's share of another's secret of a round: (round, author, of).
    Share(u32, Party, Party),
    /// A party's newest word that it still waits for logs.
    Awake(Party),
}

impl Slot {
    /// Whether what it is for opens something, and is checked later than it comes.
    pub fn discloses(self) -> bool {
        matches!(self, Slot::Key(..) | Slot::Share(..))
    }

    /// Returns the kind of notice that the slot is for, and its author.
    pub fn kind(self) -> (Kind, Party) {
        match self {
            Slot::Unreached(author) => (Kind::Unreached, author),
            Slot::Ready(author) => (Kind::Ready, author),
            Slot::Start(number, author) => (Kind::Start(number), author),
            Slot::GiveUp(number, author) => (Kind::GiveUp(number), author),
            Slot::Item(stage, author) => (Kind::Item(stage), author),
            Slot::List(stage, author) => (Kind::List(stage), author),
            Slot::Vote(stage, author) => (Kind::Vote(stage), author),
            Slot::Unreachable(stage, author, party) => (Kind::Unreachable(stage, party), author),
            Slot::Missed(author) => (Kind::Missed, author),
            Slot::Averaged(author) => (Kind::Averaged, author),
            Slot::Key(round, author) => (Kind::Key(round), author),
            Slot::Share(round, author, of) => (Kind::Share(round, of), author),
            Slot::Awake(author) => (Kind::Awake, author),
        }
    }

    /// The slot of an author's notice; `None` for one that is not flooded.
    pub fn of(author: Party, notice: &Notice) -> Option<Slot> {
        match *notice {
            Notice::Ready { .. } | Notice::Commit { .. } | Notice::Withdraw { .. } => {
                Some(Slot::Ready(author))
            }
            Notice::Start { number, .. } | Notice::Reveal { number, .. } => Some(Slot::Start(number, author)),
            Notice::GiveUp { number, .. } => Some(Slot::GiveUp(number, author)),
            Notice::Item { stage, .. } => Some(Slot::Item(stage, author)),
            Notice::List { stage, .. } => Some(Slot::List(stage, author)),
            Notice::Vote { stage, .. } => Some(Slot::Vote(stage, author)),
            Notice::Unreachable { stage, party } => Some(Slot::Unreachable(stage, author, party)),
            Notice::Missed => Some(Slot::Missed(author)),
            Notice::Averaged => Some(Slot::Averaged(author)),
            Notice::Unreached { .. } => Some(Slot::Unreached(author)),
            Notice::Key { round, .. } => Some(Slot::Key(round, author)),
            Notice::Share { round, of, .. } => Some(Slot::Share(round, author, of as Party)),
            Notice::Awake { .. } => Some(Slot::Awake(author)),
            Notice::Want { .. }
            | Notice::Lack { .. }
            | Notice::WantSet { .. }
            | Notice::Answered
            | Notice::Summary { .. }
            | Notice::Waiting
            | Notice::Finished
            | Notice::Here => None,
        }
    }
}
