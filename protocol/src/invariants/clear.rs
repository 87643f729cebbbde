//! Invariant 4: no value leaves in the clear before publishing. Public frames carry no bytes of a share, and vectors only as finals, once
//! their author publishes. (DESIGN, section 7. That nothing sealed is logged is tested where logs are written.)

use std::collections::BTreeSet;

use super::Violation;
use crate::message::Stage;
use crate::wire::{self, PrivateFrame, PublicFrame};

/// So many bytes of a share in a public frame are no coincidence.
const MARK: usize = 12;

/// What was sealed so far.
#[derive(Default)]
pub struct Clear {
    /// The first bytes of each share's values.
    marks: BTreeSet<[u8; MARK]>,
}

impl Clear {
    /// A frame was given to the private graph.
    pub fn private(&mut self, frame: &[u8]) {
        if let Ok(PrivateFrame::Share { values, .. }) = wire::read_private(frame)
            && let Some(mark) = frame[values].first_chunk::<MARK>()
            && mark.iter().any(|&byte| byte != 0)
        {
            self.marks.insert(*mark);
        }
    }

    /// A frame was given to the public graph.
    pub fn public(&self, frame: &[u8]) -> Result<(), Violation> {
        let last = matches!(wire::read_public(frame), Ok(PublicFrame::Body { stage: Stage::Publishing, .. }));
        let sealed = |window: &[u8]| window.first_chunk::<MARK>().is_some_and(|window| self.marks.contains(window));
        if !last && frame.windows(MARK).any(sealed) {
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
    use crate::lattice::LatticeWeight;
    use crate::log::ShareId;

    #[test]
    fn a_share_in_the_clear_is_seen() {
        let values: Vec<u8> = (1..40).collect();
        let share = wire::share_frame(&[0; 32], ShareId { round: 1, from: 0, to: 1 }, LatticeWeight(1), &values);
        let mut clear = Clear::default();
        clear.private(&share);
        assert!(clear.public(&share).is_err(), "the share itself");
        assert!(clear.public(&wire::body_frame(&[0; 32], Stage::Settling, 0, &values)).is_err(), "inside of a log");
        assert_eq!(clear.public(&wire::body_frame(&[0; 32], Stage::Settling, 0, &values[1..])), Ok(()));
        assert!(clear.public(b"junk").is_err());
    }
}
