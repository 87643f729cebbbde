//! The guarantees of a plan, by theorem: one file each, with its noise, its claims and their
//! consequences. Everything else asks [`choice::Guarantee`].

pub mod as_in_paper;
pub(crate) mod choice;
pub mod circles;
mod connected;
mod drawn;
pub(crate) mod exact_sum;
pub mod forecast;
mod gaussian;
mod mixed;
pub mod own_noise;
