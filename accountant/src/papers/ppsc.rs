//! PPSC's tables and its Figure 8.

pub mod averaging;
pub mod closed_forms;
pub(super) mod digits;
pub mod equations;
mod second_moments;
