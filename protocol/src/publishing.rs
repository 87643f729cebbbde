//! How finals become one result, one file a way.

pub mod averaging;
pub mod result;
