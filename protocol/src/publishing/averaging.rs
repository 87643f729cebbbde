//! Publishing by averaging: instead of every final, each node sends its own to its public
//! neighbours, and averages until all are within ν.
//!
//! 1. **Entries.** The second agreement is on entries ([`entry`](crate::averaging::entry)): weight,
//!    range and hash of each gated final. So all know whose finals are averaged (the set E, signed
//!    by a quorum), with which weights, and bit for bit what; and how many rounds it takes. With
//!    its entry a node sends its neighbours its *opening*: the final in units of the plan's
//!    [`terms`](crate::averaging::terms). They take it only if it has the entry's hash and range.
//! 2. **The fast form** ([`fast`]): the rounds that
//!    [`AveragingCourse::fit`](crate::averaging::course::AveragingCourse::fit) gives for E's graph
//!    and ranges, on integers. Its error is bounded beforehand, so a node that has done the last
//!    round has its result, whatever becomes of others.
//! 3. **Falling back.** Who misses a message says so, once, signed and flooded; whoever hears of it
//!    begins ratio consensus ([`fallback`]) from the very same opening, those that have their
//!    result as well, for the others' sake. A neighbour that is gone, or silent for `settle_ms`,
//!    is *cut off*, by a signed and flooded notice; what follows from all cuts is in [`cuts`]. It
//!    ends when a difference of at most ν/2 to the exact mean is verified, or
//!    [`FALLBACK_STAGES`](machine::FALLBACK_STAGES) × `settle_ms` after the fast form's time
//!    without one: then the result is what was verified last, and its bound is said.
//! 4. **Comparing.** Whoever has its result says so; once the others have theirs it floods sums of
//!    it with random signs ([`sketch`](crate::averaging::sketch)), and waits for those of the
//!    others, briefly.
//!
//! Nobody counts `agreed` unless its result has exactly E's finals and a quorum's sums are near its
//! own. If nobody lied, two nodes that do are within ν of each other, whichever form each finished
//! with: their bounds say so. If somebody did they are as near as sums can show:
//! [`sketch`](crate::averaging::sketch)(crate::averaging::sketch) says how near that is.
//!
//! All of this is for neighbours that follow the protocol. One that lies can spoil the mean, as it
//! can with its own value; what it cannot do:
//!
//! - Be believed where it can be checked: an opening that is not the one of its entry, or a change
//!   beyond what the entries allow, is told and not used, and its author is *broken*: it is not
//!   waited for any more.
//! - Hold up the others for ever: nobody is waited for longer than
//!   [`LONGEST_WAIT`](machine::LONGEST_WAIT) × `settle_ms` (in ratio consensus up to half as long
//!   again), whatever it says; nor the fast form as a whole for longer than
//!   [`FAST_STAGES`](machine::FAST_STAGES), or all of averaging for longer than
//!   [`MOST_STAGES`](machine::MOST_STAGES) of them.
//! - Leave two honest nodes with different results that both are agreed, unless their difference is
//!   too small for the sums to show. It cannot make its lie fit the sums: nobody knows their signs
//!   before the results are fixed that they compare (`comparing` has the argument).
//! - Fill memory: a neighbour's messages of two rounds are kept in each form, and of nobody else.
//!
//! Privacy is that of publishing all finals: every message is a function of the openings of E, of
//! signed notices and of time; each party enters one opening, which was gated, and nothing that is
//! private enters later. (The invariant [`entered`](crate::simulator::invariants::entered) holds
//! that in the simulator.)
//!
//! The machine is fed by its parent, [`crate::run::machine`], and its deeds are drained from it.
//! What comes in is in `receiving` and `inbox`, what goes out in `sending`; `fast_rounds` and
//! `falling_back` move the two forms on, `patience` says how long is waited for whom, `concluding`
//! and `comparing` are the end.

mod averaged;
mod comparing;
mod comparison;
mod concluding;
pub mod cuts;
pub mod early;
pub mod fallback;
mod falling_back;
pub mod fast;
mod fast_rounds;
mod inbox;
pub mod machine;
mod opening;
mod patience;
pub mod publication;
mod receiving;
mod sending;
