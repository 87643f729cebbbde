//! Publishing by averaging: instead of every final, each node sends its own to its public
//! neighbours, and averages until all are within ν.
//!
//! 1. **Entries.** The second agreement is on entries ([`entry`](crate::averaging::entry)): weight,
//!    range and hash of each gated final. So all know whose finals are averaged (the set E, signed
//!    by a quorum), with which weights, and bit for bit what; and how many rounds it takes. With
//!    its entry a node sends its neighbours its *opening*: the final in units of the plan's
//!    [`terms`](crate::averaging::terms). They take it only if it has the entry's hash and range.
//! 2. **Rounds** ([`fast`]): those that
//!    [`StepSchedule::fit`](crate::averaging::step_schedule::StepSchedule::fit) gives for E's graph
//!    and ranges, on integers. Their error is bounded beforehand, so a node that has done the last
//!    one is within ν/2 of the exact mean, whatever becomes of others. It says so
//!    ([`Averaged`](crate::messages::notice::Notice::Averaged)), and gives its mean out once all
//!    others have said so, too.
//! 3. **A missed message.** Who misses one says so, once, signed and flooded; whoever hears of it
//!    before its mean is out floods its final ([`flooding`]), and all agree on a set of finals and
//!    add them up, as in a plan that floods. Who is gone, or silent for `settle_ms`, is missed. Who
//!    has its mean already takes part for the others' sake, and so does who gave it out.
//!
//! An average is not agreed on: each node has another one, and `agreed` is null in its receipt. If
//! nobody lied two are within ν of each other. After a flood `agreed` means what it means there.
//!
//! One that lies can corrupt averages, as it can with its own value; what it cannot do:
//!
//! - Be believed where it can be checked: an opening that is not the one of its entry, or a change
//!   beyond what the entries allow, is reported and not used, and its author is *broken*: it is not
//!   waited for any more. A flooded final that is not the one of its entry is in nobody's sum.
//! - Hold up the others for ever: nobody is waited for longer than
//!   [`LONGEST_WAIT`](machine::LONGEST_WAIT) × `settle_ms`, whatever it says; nor averaging for
//!   longer than [`AVERAGING_STAGES`](machine::AVERAGING_STAGES) of them, or all of it for longer
//!   than [`MOST_STAGES`](machine::MOST_STAGES).
//! - Cost a result: it can have the finals flooded by saying that it missed a message, once. If no
//!   set is agreed on then, as when most have left, who has done all rounds gives out its average.
//! - Fill memory: a neighbour's messages of two rounds are kept, and of nobody else.
//!
//! Privacy is that of publishing all finals: every message is a function of the finals of E, of
//! signed notices and of time; each party enters one opening, which was gated, and floods the final
//! that it is the opening of. (The invariant [`entered`](crate::simulator::invariants::entered)
//! holds that in the simulator.)
//!
//! The machine is fed by its parent, [`crate::run::machine`], and its actions are drained from it.
//! What comes in is in `receiving` and `inbox`, what goes out in `sending`; `fast_rounds` moves the
//! rounds on, `patience` says how long is waited for whom.

pub mod early;
pub mod fast;
mod fast_rounds;
pub mod flooding;
mod inbox;
pub mod machine;
mod opening;
mod patience;
pub mod publication;
mod receiving;
mod sending;
