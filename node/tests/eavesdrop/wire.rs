//! A reader of the public graph that knows the wire, and nothing of this program.

use libp2p::identity::PublicKey;
use sha2::{Digest, Sha256};
use undertone_protocol::messages::repeats::Repeats;

/// Takes a length in base 128 and as many bytes.
fn chunk<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (mut length, mut shift) = (0usize, 0);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        length |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 || shift > 28 {
            break;
        }
    }
    let (chunk, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(chunk)
}

/// The Yamux streams in one direction of a connection, after its negotiation and the plaintext
/// handshake.
pub(crate) fn streams(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut streams: Vec<(u32, Vec<u8>)> = vec![];
    while let Some(line) = chunk(&mut bytes) {
        if line == b"/yamux/1.0.0\n" {
            break;
        }
    }
    while let Some((header, rest)) = bytes.split_at_checked(12) {
        let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four"));
        assert_eq!(header[0], 0, "Yamux version");
        bytes = rest;
        if header[1] == 0 {
            let Some((data, rest)) = bytes.split_at_checked(number(8) as usize) else {
                break;
            };
            bytes = rest;
            match streams.iter_mut().find(|(id, _)| *id == number(4)) {
                Some((_, stream)) => stream.extend_from_slice(data),
                None => streams.push((number(4), data.to_vec())),
            }
        }
    }
    streams
}

/// The frames that the opener of a stream sent: after the protocol's name and its hello of 134
/// bytes.
pub(crate) fn frames(mut stream: &[u8]) -> Vec<&[u8]> {
    let lines = [&b"/multistream/1.0.0\n"[..], b"/undertone/stream/1\n"];
    for line in lines {
        if chunk(&mut stream) != Some(line) {
            return vec![];
        }
    }
    if stream.first() != Some(&b'H') {
        return vec![];
    }
    let Some((_, mut stream)) = stream.split_at_checked(134) else {
        return vec![];
    };
    let mut frames = vec![];
    while let Some((length, rest)) = stream.split_first_chunk::<4>() {
        let Some((frame, rest)) = rest.split_at_checked(u32::from_be_bytes(*length) as usize) else {
            break;
        };
        frames.push(frame);
        stream = rest;
    }
    frames
}

/// The frames in full: `01 08 which start length before after` stands for one with a run of the
/// `which`th of the last four long notices in between.
pub(crate) fn restored(frames: Vec<&[u8]>) -> Vec<Vec<u8>> {
    let mut kept: Vec<Vec<u8>> = vec![];
    let mut restored = vec![];
    for frame in frames {
        let number = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().expect("four")) as usize;
        if frame[..2] == [1, 8] {
            let (start, length) = (number(3), number(7));
            let (before, after) = frame[11..].split_at(start);
            let run = &kept[usize::from(frame[2])][start..start + length];
            restored.push([before, run, after].concat());
            continue;
        }
        if frame[..2] == [1, 1] && (256..=64 << 10).contains(&frame.len()) {
            if kept.len() == 4 {
                kept.remove(0);
            }
            kept.push(frame.to_vec());
        }
        restored.push(frame.to_vec());
    }
    restored
}

/// Verifies a notice `01 01 author digest phase sequence recipient signature body`; returns its
/// author and kind.
pub(crate) fn verify(frame: &[u8], digest: &[u8; 32], keys: &[PublicKey]) -> (u32, u32) {
    let author: [u8; 4] = frame[2..6].try_into().expect("four");
    assert_eq!(&frame[6..38], digest, "of this run");
    let (phase, sequence) = (frame[38], &frame[39..47]);
    let direct = frame[47] == 1;
    let rest = &frame[if direct { 52 } else { 48 }..];
    let (signature, body) = rest.split_at(64);
    let mut signed = b"undertone/public/1\0".to_vec();
    signed.extend_from_slice(digest);
    signed.push(phase);
    signed.extend_from_slice(sequence);
    signed.push(u8::from(direct));
    if direct {
        signed.extend_from_slice(&frame[48..52]);
        signed.extend_from_slice(&[0; 4]);
    }
    signed.extend_from_slice(&author);
    signed.extend_from_slice(&[0; 4]);
    signed.extend_from_slice(&Sha256::digest(body));
    let author = u32::from_le_bytes(author);
    assert!(
        keys[author as usize].verify(&signed, signature),
        "its author's signature"
    );
    (author, u32::from_le_bytes(body[..4].try_into().expect("four")))
}

/// Sets of few parties are too short for it.
#[test]
fn frames_that_repeat_a_part_of_an_earlier_one_are_read_in_full() {
    let mut sender = Repeats::default();
    let notice = |author: u8| [&[1, 1][..], &[author; 70], &[7; 250], &[author; 9]].concat();
    let in_full: Vec<Vec<u8>> = (0..6)
        .flat_map(|author| [notice(author), vec![1, 1, author]])
        .collect();
    let sent: Vec<Vec<u8>> = in_full
        .iter()
        .map(|frame| sender.shorten(frame).unwrap_or(frame.clone()))
        .collect();
    assert_eq!(sent.iter().filter(|frame| frame[1] == 8).count(), 5);
    assert_eq!(restored(sent.iter().map(|frame| &frame[..]).collect()), in_full);
}
