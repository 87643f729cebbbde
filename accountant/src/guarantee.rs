//! What a plan promises, and by which theorem: one file each, with its noise, its claims and what
//! else follows. Everything else asks [`choice::Guarantee`].

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
