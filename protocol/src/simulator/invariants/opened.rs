//! Invariant 8 (protocol/docs/phases.md): a secret or a share of one leaves only after its teller's
//! gate was passed, for those whom it let through, and only for members of the one set that is
//! opened. So of everybody outside of it no more is known than the letters tell.

use std::collections::{BTreeMap, BTreeSet};

use crate::messages::notice::Notice;
use crate::messages::stage::Stage;
use crate::messages::wire::{self, PublicFrame};
use crate::run::outcome::{GateVerdict, Outcome, SealedFinal};
use crate::simulator::invariants::violation::Violation;
use crate::topology::party::Party;

/// The secrets and shares revealed so far, which open sealed finals.
#[derive(Default)]
pub struct RevealedSecrets {
    /// The parties that each node's gate has let through: the last verdict.
    passed: BTreeMap<Party, BTreeSet<Party>>,
    /// The parties whose secret, or a share of it, was revealed.
    revealed: BTreeSet<Party>,
    /// The parties that have revealed a secret or a share.
    tellers: BTreeSet<Party>,
    /// The corrections that parties have given.
    corrected: BTreeSet<(Party, Stage)>,
    /// The liar whose notices are not looked at.
    liar: Option<Party>,
}

impl RevealedSecrets {
    /// Nothing revealed yet. What `liar` tells is not looked at.
    pub fn except(liar: Option<Party>) -> Self {
        RevealedSecrets {
            liar,
            ..RevealedSecrets::default()
        }
    }

    /// A node was given its verdict.
    pub fn verdict(&mut self, party: Party, verdict: &GateVerdict) {
        let passed = verdict.publish.clone().unwrap_or_default();
        self.passed.insert(party, passed);
    }

    /// A frame was given to the public graph.
    pub fn public(&mut self, frame: &[u8]) -> Result<(), Violation> {
        let signed = match wire::read_public(frame) {
            Ok(PublicFrame::Body { stage, author, .. }) => return self.corrected(stage, author),
            Ok(PublicFrame::Item { signed, .. } | PublicFrame::Notice(signed)) => signed,
            _ => return Ok(()),
        };
        if let Notice::Item { stage, .. } = signed.notice {
            return self.corrected(stage, signed.author);
        }
        let of = match signed.notice {
            Notice::Key { .. } => signed.author,
            Notice::Share { of, .. } => of as Party,
            _ => return Ok(()),
        };
        if self.liar == Some(signed.author) {
            return Ok(());
        }
        self.revealed.insert(of);
        self.tellers.insert(signed.author);
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

    /// A correction is seen for the first time, or is passed on.
    fn corrected(&mut self, stage: Stage, author: Party) -> Result<(), Violation> {
        let correction = matches!(stage, Stage::Correction(_));
        if !correction || self.liar == Some(author) {
            return Ok(());
        }
        let first = self.corrected.insert((author, stage));
        if first && self.tellers.contains(&author) {
            let text = format!("party {author} corrects its final after it told what opens one");
            return Err(Violation::new("opened", text));
        }
        Ok(())
    }

    /// The end of a run: nothing was revealed of anybody outside of the set that is opened.
    pub fn finish<'a>(&self, outcomes: impl Iterator<Item = &'a Outcome>) -> Result<(), Violation> {
        let mut open = outcomes.filter(|outcome| outcome.sealed == Some(SealedFinal::Opened));
        let outside = open.find_map(|outcome| {
            let mut revealed = self.revealed.iter();
            revealed.find(|party| !outcome.included.contains(party))
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
    fn a_secret_revealed_too_early_or_for_another_party_is_a_violation() {
        let (round, secret) = (0, Disclosed([7; 32]));
        let key = |author| said(author, Notice::Key { round, secret });
        let share = |author, of| {
            let share = secret;
            said(author, Notice::Share { round, of, share })
        };
        let mut opened = RevealedSecrets::default();
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
        let mut liar = RevealedSecrets::except(Some(1));
        assert_eq!(liar.public(&key(1)), Ok(()));
    }

    #[test]
    fn an_opened_final_that_is_corrected_is_seen() {
        let (round, secret) = (0, Disclosed([7; 32]));
        let key = said(1, Notice::Key { round, secret });
        let correction = |stage, author| wire::body_frame(Stage::Correction(stage), author, b"less");
        let mut opened = RevealedSecrets::default();
        let publish = Some(BTreeSet::from([1, 2]));
        let reason = String::new();
        opened.verdict(1, &GateVerdict { publish, reason });
        assert_eq!(opened.public(&correction(1, 1)), Ok(()), "nothing is open yet");
        assert_eq!(opened.public(&key), Ok(()));
        assert_eq!(opened.public(&correction(1, 1)), Ok(()), "passed on");
        assert_eq!(opened.public(&correction(1, 2)), Ok(()), "who has told nothing");
        assert!(opened.public(&correction(2, 1)).is_err(), "a new one");
    }
}
