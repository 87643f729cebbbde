//! The notices of one kind that a node holds: a bit for each party that has signed one.

use serde::{Deserialize, Serialize};

use crate::messages::row::Row;
use crate::messages::stage::Stage;
use crate::topology::party::Party;

/// A kind of notice of which each party says one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// The neighbours that the author does not reach before START.
    Unreached,
    /// A READY, or its withdrawal.
    Ready,
    /// A START, by number.
    Start(u8),
    /// The author's word that it has given up the START of this number.
    GiveUp(u8),
    /// An item of a stage, with its body.
    Item(Stage),
    /// A list of a stage.
    List(Stage),
    /// A vote of a stage.
    Vote(Stage),
    /// A call in a stage that this party is gone.
    Unreachable(Stage, Party),
    /// The author's word that it missed a message of averaging.
    Missed,
    /// The author's word that it has done all rounds of averaging.
    Averaged,
    /// The author's own secret of a round.
    Key(u32),
    /// The author's share of this party's secret of a round.
    Share(u32, Party),
    /// The author's word that it still waits for logs, after others arrived late.
    Awake,
}

impl Kind {
    /// Whether an author may have said several, of which nodes may hold different ones: then each
    /// has a mark.
    pub fn has_marks(self) -> bool {
        matches!(
            self,
            Kind::Unreached | Kind::Ready | Kind::Start(_) | Kind::Item(_) | Kind::Awake
        )
    }

    /// Whether it matters before START only.
    pub fn is_of_gathering(self) -> bool {
        matches!(
            self,
            Kind::Unreached | Kind::Ready | Kind::Start(_) | Kind::GiveUp(_)
        )
    }
}

/// The first bytes of a notice's signature.
pub type Mark = [u8; 4];

/// The notices of one kind that a node holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldKind {
    /// The kind.
    pub kind: Kind,
    /// The parties whose notice it holds.
    pub held: Row,
    /// The marks of the held notices, in the order of the authors, where the kind has marks; else
    /// empty.
    pub marks: Vec<Mark>,
}

impl HeldKind {
    /// Whether it is one of a plan with so many parties.
    pub fn is_of(&self, parties: usize) -> bool {
        let marks = if self.kind.has_marks() {
            self.held.parties().count()
        } else {
            0
        };
        self.held.is_of(parties) && self.marks.len() == marks
    }
}
