//! Random edits of known inputs.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Longest piece that an edit inserts or copies.
const PIECE: usize = 64;

/// One change of an input.
#[derive(Clone, Debug)]
enum Edit {
    /// A bit is another one.
    Flip(Index, u8),
    /// A byte is this one.
    Set(Index, u8),
    /// A number is written over what stands there.
    Number(Index, u64, usize),
    /// Removes a number of bytes.
    Cut(Index, usize),
    /// All that follows goes.
    End(Index),
    /// These come in.
    Insert(Index, Vec<u8>),
    /// A piece comes in again somewhere else.
    Copy(Index, Index, usize),
}

impl Edit {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let at = |index: &Index| index.index(bytes.len() + 1);
        match self {
            Edit::Insert(index, piece) => {
                let at = at(index);
                bytes.splice(at..at, piece.iter().copied());
            }
            Edit::End(index) => bytes.truncate(at(index)),
            Edit::Cut(index, length) => {
                let at = at(index);
                let end = (at + length).min(bytes.len());
                bytes.drain(at..end);
            }
            Edit::Copy(from, to, length) => {
                let (from, to) = (at(from), at(to));
                let piece = bytes[from..(from + length).min(bytes.len())].to_vec();
                bytes.splice(to..to, piece);
            }
            Edit::Flip(index, bit) => change(bytes, index, |byte| byte ^ (1 << bit)),
            Edit::Set(index, value) => change(bytes, index, |_| *value),
            Edit::Number(index, number, width) => {
                let at = at(index);
                let written = number.to_le_bytes();
                bytes[at..]
                    .iter_mut()
                    .zip(&written[..*width])
                    .for_each(|(byte, new)| *byte = *new);
            }
        }
    }
}

fn change(bytes: &mut [u8], index: &Index, to: impl Fn(u8) -> u8) {
    if !bytes.is_empty() {
        let at = index.index(bytes.len());
        bytes[at] = to(bytes[at]);
    }
}

/// Numbers at which readers go wrong.
fn number() -> impl Strategy<Value = u64> {
    let edges = [
        0,
        1,
        127,
        128,
        250,
        251,
        252,
        253,
        254,
        255,
        256,
        1 << 15,
        1 << 16,
        1 << 31,
        1 << 32,
        1 << 63,
        u64::MAX,
    ];
    prop_oneof![select(edges.to_vec()).boxed(), any::<u64>().boxed()]
}

fn edit() -> impl Strategy<Value = Edit> {
    let index = any::<Index>;
    prop_oneof![
        4 => (index(), 0..8u8).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        4 => (index(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        4 => (index(), number(), 1..=8usize).prop_map(|(at, number, width)| Edit::Number(at, number, width)),
        2 => (index(), 1..PIECE).prop_map(|(at, length)| Edit::Cut(at, length)),
        1 => index().prop_map(Edit::End),
        2 => (index(), vec(any::<u8>(), 1..PIECE)).prop_map(|(at, piece)| Edit::Insert(at, piece)),
        2 => (index(), index(), 1..PIECE).prop_map(|(from, to, length)| Edit::Copy(from, to, length)),
    ]
}

/// Inputs of a corpus with some edits, and now and then random bytes.
pub(crate) fn edited(corpus: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let known = (select(corpus), vec(edit(), 1..6)).prop_map(|(mut input, edits)| {
        edits.iter().for_each(|edit| edit.apply(&mut input));
        input
    });
    prop_oneof![9 => known, 1 => vec(any::<u8>(), 0..256)]
}
