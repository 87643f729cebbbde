//! Invariants 8 and 10 (SEALING, section 10): a secret or a share of one leaves only after its
//! teller's gate was passed, for those whom it let through, and only for members of the one set
//! that is opened. So of everybody outside of it no more is known than the letters tell.

use std::collections::{BTreeMap, BTreeSet};

use crate::messages::notice::Notice;
use crate::messages::wire::{self, PublicFrame};
use crate::run::outcome::{GateVerdict, Outcome, SealedFinal};
use crate::simulator::invariants::violation::Violation;
use crate::topology::party::Party;

/// What was told so far of what opens sealed finals.
#[derive(Default)]
pub struct Told {
    /// Whom each node's gate has let through: the last verdict.
    passed: BTreeMap<Party, BTreeSet<Party>>,
    /// Whose secret, or a share of it, was told.
    told: BTreeSet<Party>,
    /// What this one tells is not looked at.
    liar: Option<Party>,
}

impl Told {
    /// Nothing told yet. What `liar` tells is not looked at.
    pub fn except(liar: Option<Party>) -> Self {
        Told {
            liar,
            ..Told::default()
        }
    }

    /// A node was given its verdict.
    pub fn verdict(&mut self, party: Party, verdict: &GateVerdict) {
        let passed = verdict.publish.clone().unwrap_or_default();
        self.passed.insert(party, passed);
    }

    /// A frame was given to the public graph.
    pub fn public(&mut self, frame: &[u8]) -> Result<(), Violation> {
        let Ok(PublicFrame::Notice(signed)) = wire::read_public(frame) else {
            return Ok(());
        };
        let of = match signed.notice {
            Notice::Key { .. } => signed.author,
            Notice::Share { of, .. } => of as Party,
            _ => return Ok(()),
        };
        if self.liar == Some(signed.author) {
            return Ok(());
        }
        self.told.insert(of);
        let passed = self.passed.get(&signed.author);
        if passed.is_some_and(|passed| passed.contains(&of)) {
            return Ok(());
        }
        Err(Violation::new(
            "opened",
            format!(
                "party {} told what opens party {of}, whom its gate has not let through",
                signed.author
            ),
        ))
    }

    /// The end of a run: nothing was told of anybody outside of the set that is opened.
    pub fn finish<'a>(&self, outcomes: impl Iterator<Item = &'a Outcome>) -> Result<(), Violation> {
        let mut open = outcomes.filter(|outcome| outcome.sealed == Some(SealedFinal::Opened));
        let outside = open.find_map(|outcome| {
            let mut told = self.told.iter();
            told.find(|party| !outcome.included.contains(party))
        });
        match outside {
            None => Ok(()),
            Some(party) => Err(Violation::new(
                "opened",
                format!("what opens party {party} was told, and the opened set is without it"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::notice::{Disclosed, Recipient, SignedNotice};
    use crate::messages::signature::Signature;

    fn said(author: Party, notice: Notice) -> Vec<u8> {
        let signed = SignedNotice {
            author,
            sequence: 1,
            recipient: Recipient::All,
            notice,
            signature: Signature([0; 64]),
        };
        wire::notice_frame(&signed).to_vec()
    }

    #[test]
    fn what_is_told_too_early_or_of_somebody_else_is_seen() {
        let (round, secret) = (0, Disclosed([7; 32]));
        let key = |author| said(author, Notice::Key { round, secret });
        let share = |author, of| {
            let share = secret;
            said(author, Notice::Share { round, of, share })
        };
        let mut opened = Told::default();
        assert!(opened.public(&key(1)).is_err(), "before the verdict");
        let verdict = |publish: &[Party]| GateVerdict {
            publish: Some(publish.iter().copied().collect()),
            reason: String::new(),
        };
        opened.verdict(1, &verdict(&[1, 2]));
        assert_eq!(opened.public(&key(1)), Ok(()));
        assert_eq!(opened.public(&share(1, 2)), Ok(()));
        assert!(opened.public(&share(1, 3)).is_err(), "outside of the set");
        opened.verdict(1, &verdict(&[1]));
        assert!(opened.public(&share(1, 2)).is_err(), "left out since");
        assert!(opened.public(&key(2)).is_err(), "another's verdict");
        let mut liar = Told::except(Some(1));
        assert_eq!(liar.public(&key(1)), Ok(()));
    }
}
