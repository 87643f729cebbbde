//! The gate (accountant/docs/guarantees.md): no final leaves unless the loss of what really
//! happened is within the budget, or, where noise is uniform, unless each value is hidden among as
//! many as the plan says.
//!
//! It is a function of the plan and the agreed logs alone, so that all who hold them decide alike.
//! With roll-back the departed count as online in every round and as known to the coalition
//! (Theorem R); shares between members are as the logs have them. Numerical doubt and logs that
//! contradict the schedule count as exceeded.
//!
//! Where the plan is for coalitions that were chosen before START drew the schedule, what happened
//! must lie in the tolerated class: of that the draws were; and who departed must not have learned
//! too much by themselves, as departures that somebody chose by the schedule would. What is stated
//! of the run is then the theorem's, for any coalition.

mod computed;
pub mod connected;
pub mod decision;
pub mod plan_facts;
pub mod sealed;
mod sentences;
pub mod stated;
pub mod verdict;
