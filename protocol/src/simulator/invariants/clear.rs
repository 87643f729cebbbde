//! Invariant 4: no value leaves in the clear before publishing. Public frames carry no bytes of a
//! share, and vectors only as finals, once their author publishes. (protocol/docs/phases.md. That
//! nothing sealed is logged is tested where logs are written.)

use std::collections::BTreeSet;

use crate::messages::stage::Stage;
use crate::messages::wire::{self, PrivateFrame, PublicFrame};
use crate::simulator::invariants::violation::Violation;

/// Number of a share's bytes in a public frame that are no coincidence.
const MARK: usize = 12;

/// The shares sealed so far.
pub struct Clear {
    /// The first bytes of each share's values.
    marks: BTreeSet<[u8; MARK]>,
    /// Whether any of them begins with these two bytes: most places in a frame need no further
    /// look.
    begins: Vec<bool>,
}

impl Default for Clear {
    fn default() -> Self {
        Clear {
            marks: BTreeSet::new(),
            begins: vec![false; 1 << 16],
        }
    }
}

fn beginning(mark: &[u8; MARK]) -> usize {
    usize::from(u16::from_le_bytes([mark[0], mark[1]]))
}

impl Clear {
    /// A frame was given to the private graph. Whether it is a share that was not known before.
    pub fn private(&mut self, frame: &[u8]) -> bool {
        if let Ok(PrivateFrame::Share { values, .. }) = wire::read_private(frame)
            && let Some(mark) = frame[values].first_chunk::<MARK>()
            && mark.iter().any(|&byte| byte != 0)
        {
            self.begins[beginning(mark)] = true;
            return self.marks.insert(*mark);
        }
        false
    }

    /// A frame was given to the public graph.
    pub fn public(&self, frame: &[u8]) -> Result<(), Violation> {
        // What a correction gives back may be a single share.
        let last = matches!(
            wire::read_public(frame).as_ref().map(PublicFrame::item),
            Ok(Some((
                Stage::Publishing | Stage::Correction(_) | Stage::Finals,
                ..
            )))
        );
        let may_be = |mark: &&[u8; MARK]| self.begins[beginning(mark)];
        let marks = frame
            .windows(MARK)
            .filter_map(|window| window.first_chunk::<MARK>());
        if !last && marks.filter(may_be).any(|mark| self.marks.contains(mark)) {
            return Err(Violation::new("clear", "a public frame carries bytes of a share"));
        }
        if wire::read_public(frame).is_err() {
            return Err(Violation::new("clear", "a public frame is none of ours"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::grid::LatticeWeight;
    use crate::messages::log::ShareId;

    #[test]
    fn a_share_in_the_clear_is_seen() {
        let values: Vec<u8> = (1..40).collect();
        let share = wire::share_frame(
            &[0; 32],
            ShareId {
                round: 1,
                from: 0,
                to: 1,
            },
            LatticeWeight(1),
            &values,
        );
        let mut clear = Clear::default();
        clear.private(&share);
        assert!(clear.public(&share).is_err(), "the share itself");
        assert!(
            clear
                .public(&wire::body_frame(Stage::Settling, 0, &values))
                .is_err(),
            "inside of a log"
        );
        assert_eq!(
            clear.public(&wire::body_frame(Stage::Settling, 0, &values[1..])),
            Ok(())
        );
        assert!(clear.public(b"junk").is_err());
    }
}
