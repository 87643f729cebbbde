//! The documents of this repository: the README and the pages of the guide, their commands, their
//! links, and the guide as HTML.

pub mod block;
pub mod citations;
pub mod html;
pub mod links;
pub mod page;
pub mod running;
pub mod wording;
