//! A party's data as a file, in a format that its extension names. It is read with its shape, dtype
//! and names, and the mean is written in the same ones.

mod carried;
mod csv;
pub mod expected;
mod foreign;
pub mod formats;
mod json;
pub mod layout;
mod npy;
mod safetensors;
mod unusable;
pub mod vector;
