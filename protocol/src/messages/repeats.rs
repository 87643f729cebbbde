//! What repeats on a stream is sent once.
//!
//! Every member signs the same START and, twice, the same set: thousands of bytes that a node would
//! pass on once for each of its n signers, n² in all, and more than anything else where hundreds
//! take part. On an ordered stream both ends remember the last few long notices that went over it
//! in full; one that is as long as one of these, and equal to it over a long run, refers to that
//! run. Only notices are: they are public and signed, and what a stream restores is checked like
//! what came in full.

use std::collections::VecDeque;

use crate::messages::wire::{NOTICE, PREFIX, VERSION};

/// The kind of a frame that refers to an earlier one of its stream.
const REPEAT: u8 = 8;
/// Version, kind, which frame, where the run begins, how long it is.
const HEADER: usize = PREFIX + 1 + 4 + 4;
/// Frames that are remembered: a START, the sets of two stages, and one more.
const KEPT: usize = 4;
/// Shorter runs are not worth a reference.
const LEAST: usize = 128;
/// Shorter frames are not remembered: all that name no set.
const SHORT: usize = 256;
/// Nor are longer ones: sets of 1,000 parties are well below. It bounds what a peer can make a node
/// hold.
const MOST: usize = 64 << 10;

/// Bytes that are compared at once.
const BLOCK: usize = 32;

/// One end of one direction of a stream. Both ends see the same frames in the same order.
#[derive(Default)]
pub struct Repeats {
    kept: VecDeque<Vec<u8>>,
}

impl Repeats {
    /// The sending end: what goes over the stream instead of this frame; none: the frame itself.
    pub fn shorten(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        if !is_kept(frame) {
            return None;
        }
        let runs = self
            .kept
            .iter()
            .enumerate()
            .filter(|(_, kept)| kept.len() == frame.len());
        let runs = runs.map(|(index, kept)| (longest_run(kept, frame), index));
        let longest = runs
            .max_by_key(|((_, length), _)| *length)
            .filter(|((_, length), _)| *length >= LEAST);
        let Some(((start, length), index)) = longest else {
            self.keep(frame);
            return None;
        };
        let mut short = Vec::with_capacity(HEADER + frame.len() - length);
        short.extend_from_slice(&[VERSION, REPEAT, index as u8]);
        short.extend_from_slice(&(start as u32).to_le_bytes());
        short.extend_from_slice(&(length as u32).to_le_bytes());
        short.extend_from_slice(&frame[..start]);
        short.extend_from_slice(&frame[start + length..]);
        Some(short)
    }

    /// The receiving end: the frame that this one stands for; none: it stands for itself, or refers
    /// to nothing, which nobody reads then.
    pub fn restore(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let [VERSION, REPEAT, index, rest @ ..] = frame else {
            if is_kept(frame) {
                self.keep(frame);
            }
            return None;
        };
        let (start, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (start, length) = (
            u32::from_le_bytes(*start) as usize,
            u32::from_le_bytes(*length) as usize,
        );
        let kept = self.kept.get(usize::from(*index))?;
        let run = kept.get(start..start.checked_add(length)?)?;
        let (before, after) = rest.split_at_checked(start)?;
        Some([before, run, after].concat()).filter(|restored| restored.len() == kept.len())
    }

    fn keep(&mut self, frame: &[u8]) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(frame.to_vec());
    }
}

/// Whether a frame that goes over the stream in full is remembered.
fn is_kept(frame: &[u8]) -> bool {
    frame.starts_with(&[VERSION, NOTICE]) && (SHORT..=MOST).contains(&frame.len())
}

/// Where two frames of the same length are equal for longest, as (start, length).
fn longest_run(a: &[u8], b: &[u8]) -> (usize, usize) {
    let mut longest = (0, 0);
    let mut start = 0;
    for (block, (x, y)) in a.chunks(BLOCK).zip(b.chunks(BLOCK)).enumerate() {
        // Most blocks of a long run are equal as a whole.
        if x == y {
            continue;
        }
        for (at, _) in x.iter().zip(y).enumerate().filter(|(_, (x, y))| x != y) {
            let at = block * BLOCK + at;
            longest = longer(longest, (start, at - start));
            start = at + 1;
        }
    }
    longer(longest, (start, a.len().saturating_sub(start)))
}

fn longer(one: (usize, usize), other: (usize, usize)) -> (usize, usize) {
    if other.1 > one.1 { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::notice::Notice;
    use crate::messages::notice::Recipient;
    use crate::messages::notice::Seat;
    use crate::messages::notice::SignedNotice;
    use crate::messages::notice::Stage;
    use crate::messages::signature::Signature;
    use crate::messages::wire;

    fn notice(author: usize, notice: Notice) -> Vec<u8> {
        // Different notices of one author have different signatures.
        let signature = Signature([author as u8 ^ wire::notice_to_bytes(&notice).last().unwrap_or(&0); 64]);
        let signed = SignedNotice {
            author,
            digest: [7; 32],
            sequence: author as u64,
            recipient: Recipient::All,
            notice,
            signature,
        };
        wire::notice_frame(&signed).to_vec()
    }

    fn vote(author: usize, of: u8) -> Vec<u8> {
        notice(
            author,
            Notice::Vote {
                stage: Stage::Settling,
                early: true,
                set: (0..50).map(|party| (party, [of; 32])).collect(),
            },
        )
    }

    fn reveal(author: usize) -> Vec<u8> {
        let seats = (0..50)
            .map(|party| Seat {
                party,
                incarnation: [party as u8; 16],
            })
            .collect();
        notice(
            author,
            Notice::Reveal {
                seats,
                commitments: [9; 32],
                nonce: [author as u8; 32],
            },
        )
    }

    /// Over a stream and back; how many bytes went over it.
    fn pass(ends: &mut (Repeats, Repeats), frame: &[u8]) -> usize {
        let short = ends.0.shorten(frame);
        let travels = short.as_deref().unwrap_or(frame);
        let restored = ends.1.restore(travels);
        assert_eq!(restored.as_deref().unwrap_or(travels), frame);
        assert_eq!(restored.is_some(), short.is_some());
        travels.len()
    }

    #[test]
    fn a_set_travels_once_a_stream() {
        let mut ends = Default::default();
        for of in 0..2 {
            assert_eq!(pass(&mut ends, &vote(0, of)), vote(0, of).len());
            for author in 1..50 {
                let sent = pass(&mut ends, &vote(author, of));
                assert!(sent < 160, "{sent} bytes of {}", vote(author, of).len());
            }
        }
        assert!(
            pass(&mut ends, &vote(60, 0)) < 160,
            "the earlier one is still there"
        );
        // Neither begins nor ends like the one before.
        pass(&mut ends, &reveal(0));
        assert!(pass(&mut ends, &reveal(1)) < 200);
        // The oldest is forgotten at both ends.
        (2..6).for_each(|of| assert!(pass(&mut ends, &vote(0, of)) > 1000));
        assert!(pass(&mut ends, &vote(0, 0)) > 1000);
    }

    #[test]
    fn the_longest_run_is_found_wherever_it_is() {
        let naive = |a: &[u8], b: &[u8]| {
            let starts = (0..a.len()).map(|start| {
                (
                    start,
                    a[start..]
                        .iter()
                        .zip(&b[start..])
                        .take_while(|(a, b)| a == b)
                        .count(),
                )
            });
            starts.fold((0, 0), longer)
        };
        for seed in 0..500u32 {
            let mut state = seed.wrapping_mul(2_654_435_761) | 1;
            let mut next = |below: usize| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as usize % below
            };
            let a = vec![0; 1 + next(300)];
            let mut b = a.clone();
            (0..next(8)).for_each(|_| b[next(a.len())] = 1);
            assert_eq!(longest_run(&a, &b).1, naive(&a, &b).1, "{b:?}");
            let (start, length) = longest_run(&a, &b);
            assert_eq!(a[start..start + length], b[start..start + length]);
        }
    }

    #[test]
    fn what_is_short_or_no_notice_stays_as_it_is() {
        let mut ends = Default::default();
        for frame in [
            notice(1, Notice::Waiting),
            wire::body_frame(&[7; 32], Stage::Settling, 1, &[5; 3000]).to_vec(),
            vec![VERSION, NOTICE],
            vec![],
            [vec![VERSION, NOTICE], vec![1; MOST]].concat(),
        ] {
            assert_eq!(
                (pass(&mut ends, &frame), pass(&mut ends, &frame)),
                (frame.len(), frame.len())
            );
        }
    }

    #[test]
    fn references_to_nothing_restore_nothing() {
        let (mut sender, mut receiver) = (Repeats::default(), Repeats::default());
        sender.shorten(&vote(0, 1));
        let short = sender.shorten(&vote(1, 1)).expect("a repeat");
        assert_eq!(receiver.restore(&short), None, "nothing is here yet");
        receiver.restore(&vote(0, 1));
        assert_eq!(receiver.restore(&short).as_deref(), Some(&vote(1, 1)[..]));
        for at in 0..HEADER {
            for byte in [0, 1, 8, 127, 255] {
                let mut hostile = short.clone();
                hostile[at] = byte;
                let restored = receiver.restore(&hostile);
                assert!(restored.is_none_or(|restored| restored.len() == vote(0, 1).len()));
            }
        }
        (0..short.len()).for_each(|length| assert_eq!(receiver.restore(&short[..length]), None));
        assert_eq!(receiver.restore(&[&short[..], &[0]].concat()), None);
    }

    #[test]
    fn the_bytes_are_pinned() {
        let mut sender = Repeats::default();
        let frame = |first: u8, last: u8| [&[VERSION, NOTICE, first][..], &[5; 300], &[last]].concat();
        assert_eq!(sender.shorten(&frame(1, 2)), None);
        assert_eq!(
            sender.shorten(&frame(3, 4)),
            Some(vec![1, 8, 0, 3, 0, 0, 0, 44, 1, 0, 0, 1, 1, 3, 4])
        );
    }
}
