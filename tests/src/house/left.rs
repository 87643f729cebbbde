//! What the redrawing of the house has still to mend. Nothing may be added; what is mended goes.

/// Files with lines too wide, too many lines, or documentation that leans on its neighbour.
pub const FILES: &[&str] = &[];

/// Type names that two files of a crate define.
pub const NAMES: &[&str] = &[];

/// Functions with more than five parameters besides `self`.
pub const FUNCTIONS: &[&str] = &[];
