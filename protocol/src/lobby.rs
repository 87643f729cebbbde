//! How people who do not trust their host make one list of a group.
//!
//! One opens a lobby and sends an invitation; the others sit down in it. When the host closes it,
//! all get the list, and a number of ten digits that they compare in one call. Who says yes signs
//! the list; it is in force once all who sit have signed.
//!
//! ```text
//! host          sits people down, closes the lobby, collects signatures
//! guest         checks what the host says
//! check_number  commitments, and the number that all compare
//! confirmed     signatures over a list, and whose are missing
//! invitation    the text that lets one in
//! names         names that people would mix up
//! ```
//!
//! # What holds
//! - A host that shows two people two lists has fixed its part of both numbers before it learns
//!   theirs: they are equal once in 10^10 closes, and a guest takes part in at most 20 closes.
//! - A guest answers each step of a close once, and no close twice. Its own lines are in the list
//!   as it wrote them, and no two names look alike.
//! - Nothing is in force without the signatures of all who sit.
//! - A guest that is silent or says what does not belong there loses its seat, and costs one close.
//! - Tokens and drawn numbers are in no `Debug`.

pub mod check_number;
pub mod confirmed;
pub mod guest;
pub mod host;
pub mod invitation;
mod names;
#[cfg(test)]
mod tests;
