//! Ways of making one result of finals, one file a way.

pub mod averaging;
pub mod corrections;
pub mod flood;
pub mod interface;
pub mod opening;
pub mod publication;
pub mod result;
pub mod sealed;
pub mod way;
