//! The adding up of slices: whose sums are used, when slices go to everybody, and how long sums are
//! waited for.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{PAIRWISE, stage_of};
use crate::messages::notice::Notice;
use crate::messages::stage::{Phase, Stage};
use crate::messages::wire::{self, PublicFrame};
use crate::plan::checked::Plan;
use crate::run::machine::Run;
use crate::run::outcome::{Ending, Event, Outcome, SliceProgress};
use crate::simulator::cluster::tests::plan_of;
use crate::task::tests::ensemble::{Ensemble, Travelling};
use crate::time::Time;
use crate::topology::party::Party;

const SETTLE_MS: u64 = 3200;
const PARTIES: usize = 8;

/// A plan whose finals travel in slices. Each slice has keepers that lack some other.
fn sliced() -> Arc<Plan> {
    let run = format!("[run]\nsettle_ms = {SETTLE_MS}\ndissemination = \"slices\"\n");
    plan_of(4000, PARTIES, &PAIRWISE.replace("[run]\n", &run), 4)
}

/// The keepers of a slice where all are in START.
fn keepers(plan: &Plan, slice: u32) -> BTreeSet<Party> {
    let privacy = &plan.draft().privacy;
    let each = privacy.colluding + privacy.dropouts + 1;
    let keepers = plan.keepers(&(0..PARTIES).collect(), each);
    keepers.expect("it is sliced").of(slice).collect()
}

/// The author, and the slice, of a signed sum that is announced.
fn announces_sum(sent: &Travelling<'_>) -> Option<(Party, u32)> {
    match wire::read_public(sent.frame).ok()? {
        PublicFrame::Notice(signed) | PublicFrame::Item { signed, .. } => match signed.notice {
            Notice::Item {
                stage: Stage::Sum(slice),
                ..
            } => Some((signed.author, slice)),
            _ => None,
        },
        _ => None,
    }
}

fn is_slice(sent: &Travelling<'_>) -> bool {
    match wire::read_public(sent.frame) {
        Ok(PublicFrame::Slice { .. }) => true,
        Ok(PublicFrame::Body { stage, .. }) => matches!(stage, Stage::Slice(_)),
        _ => false,
    }
}

fn done_at(ensemble: &Ensemble<'_>, party: Party) -> Time {
    ensemble.said_at(party, &Event::Phase(Phase::Done))
}

fn sum_of(outcome: &Outcome) -> Option<&crate::lattice::vector::LatticeVector> {
    outcome.sum.as_ref().map(|sum| &sum.value)
}

/// As many as may lie could have signed a wrong sum: one more is needed. A sum that lacks its
/// signers is waited for during one stage after opening, and then there is no mean.
#[test]
fn a_sum_is_used_once_more_members_than_may_lie_have_signed_it() {
    let plan = sliced();
    let colluding = plan.draft().privacy.colluding;
    let lacked = (0..).find(|&slice| !keepers(&plan, slice).contains(&0));
    let lacked = lacked.expect("nobody keeps all slices");
    for signers in [colluding, colluding + 1] {
        let heard: BTreeSet<Party> = keepers(&plan, lacked).into_iter().take(signers).collect();
        let opens = Cell::new(false);
        let mut ensemble = Ensemble::new(&plan);
        ensemble.arrives = Box::new(|sent| {
            let unheard = announces_sum(sent)
                .is_some_and(|(author, slice)| slice == lacked && !heard.contains(&author));
            sent.to != 0 || !(unheard || opens.get() && is_slice(sent))
        });
        ensemble.until(|ensemble| stage_of(ensemble.run(0)) == "opening");
        let start = ensemble.run(0).record.started_at.expect("it began");
        opens.set(true);
        ensemble.until(|ensemble| ensemble.outcomes.len() == PARTIES - 1);
        let slices = plan.slices().expect("slices").count();
        if signers == colluding {
            let here = SliceProgress::AddingUp(slices - 1, slices);
            assert_eq!(ensemble.run(0).slices(), Some(here));
            let lacking = keepers(&plan, lacked)
                .difference(&heard)
                .copied()
                .collect::<Vec<_>>();
            assert_eq!(ensemble.run(0).awaited(), lacking, "whose signatures are lacking");
        }
        ensemble.play();
        let outcome = ensemble.outcome(0);
        assert!((1..PARTIES).all(|party| ensemble.outcome(party).ending == Ending::Done));
        assert_eq!(ensemble.run(0).slices(), None, "it has ended");
        if signers == colluding {
            assert_eq!((&outcome.ending, outcome.agreed), (&Ending::Degraded, true));
            assert_eq!((sum_of(outcome), outcome.included.len()), (None, PARTIES));
            let why = format!("no mean: 1 of {slices} sums of slices did not come in time");
            let told = ensemble.complaints(0);
            assert!(told.iter().any(|text| text.starts_with(&why)), "{told:?}");
            // Settling takes two stages where finals are sealed; opening and adding up follow.
            assert_eq!(done_at(&ensemble, 0), start.plus_millis(4 * SETTLE_MS));
        } else {
            assert_eq!(outcome.ending, Ending::Done);
            assert_eq!(sum_of(outcome), sum_of(ensemble.outcome(1)));
            assert_eq!(done_at(&ensemble, 0), done_at(&ensemble, 1), "at once");
        }
    }
}

/// Where nobody hears of a signed sum slices are flooded half a stage after their keepers began to
/// add up, and not before; then everybody adds up by itself.
#[test]
fn slices_of_sums_that_lack_signers_go_to_everybody_after_half_a_stage() {
    let plan = sliced();
    let first = RefCell::new(BTreeMap::<Party, Time>::new());
    let (now, opened) = (Cell::new(Time::ZERO), Cell::new(false));
    let mut ensemble = Ensemble::new(&plan);
    ensemble.arrives = Box::new(|sent| {
        if opened.get() && is_slice(sent) {
            first.borrow_mut().entry(sent.from).or_insert(now.get());
        }
        announces_sum(sent).is_none()
    });
    let adds_up = |run: &Run| matches!(run.slices(), Some(SliceProgress::AddingUp(..)));
    ensemble.until(|ensemble| (0..PARTIES).all(|party| adds_up(ensemble.run(party))));
    let begun = ensemble.now;
    opened.set(true);
    while ensemble.outcomes.len() < PARTIES {
        ensemble.step();
        now.set(ensemble.now);
    }
    let half = begun.plus_millis(SETTLE_MS / 2);
    for party in 0..PARTIES {
        let outcome = ensemble.outcome(party);
        assert_eq!((&outcome.ending, outcome.agreed), (&Ending::Done, true));
        assert_eq!(sum_of(outcome), sum_of(ensemble.outcome(0)));
        assert_eq!(done_at(&ensemble, party), half);
    }
    let first = first.borrow();
    assert!(
        !first.is_empty() && first.values().all(|&at| at == half),
        "{first:?}"
    );
}

/// Slices that everybody has the sums of are not sent again, however long others stay.
#[test]
fn slices_whose_sums_are_signed_go_to_nobody() {
    let plan = sliced();
    let opened = Cell::new(false);
    let mut ensemble = Ensemble::new(&plan);
    ensemble.arrives = Box::new(|sent| {
        assert!(!opened.get() || !is_slice(sent), "{} to {}", sent.from, sent.to);
        let notice = super::notice_of(sent);
        // So that the others stay for a whole stage.
        sent.from != 7 || notice != Some(Notice::Finished)
    });
    ensemble.until(|ensemble| (0..PARTIES).all(|party| stage_of(ensemble.run(party)) == "opening"));
    opened.set(true);
    ensemble.play();
    let ended = done_at(&ensemble, 0);
    ensemble.until(|ensemble| ensemble.has_said(0, &Event::Complete));
    assert_eq!(
        ensemble.said_at(0, &Event::Complete),
        ended.plus_millis(SETTLE_MS)
    );
    assert!((0..PARTIES).all(|party| ensemble.outcome(party).ending == Ending::Done));
}
