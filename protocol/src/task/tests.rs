//! The machines of all parties of a plan, stepped by hand in unit tests.

pub(crate) mod ensemble;
