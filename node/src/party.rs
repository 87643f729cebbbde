//! Taking part in a run: identity, input, the driver of the machine, receipt.

pub mod clipping;
pub mod driver;
pub mod events;
pub mod identity;
pub mod input;
pub mod part;
pub mod reaching;
pub mod receipt;
pub mod room;
mod sealing;
pub mod signals;
pub mod spent;
