//! A reader of the public graph that knows the wire, and nothing of this program.

use libp2p::identity::PublicKey;
use sha2::{Digest, Sha256};

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

/// Takes a number: one byte up to 250, else 251, 252 or 253 and two, four or eight bytes.
fn number(bytes: &mut &[u8]) -> u64 {
    let (&first, rest) = bytes.split_first().expect("a number");
    let length = match first {
        251 => 2,
        252 => 4,
        253 => 8,
        small => {
            *bytes = rest;
            return u64::from(small);
        }
    };
    let (digits, rest) = rest.split_at(length);
    *bytes = rest;
    let mut number = [0; 8];
    number[..length].copy_from_slice(digits);
    u64::from_le_bytes(number)
}

/// A short item's notice, as it would stand apart, and its bytes, of `01 09 author stage signature
/// bytes`; author and stage are a byte each.
pub(crate) fn apart(frame: &[u8]) -> (Vec<u8>, &[u8]) {
    let ([author, stage], rest) = frame[2..].split_first_chunk().expect("an author and a stage");
    let (signature, body) = rest.split_at(64);
    let mut notice = vec![1, 1, *author, 0, 0];
    notice.extend_from_slice(signature);
    notice.extend_from_slice(&[2, *stage]);
    notice.extend_from_slice(&Sha256::digest(body));
    match u8::try_from(body.len()) {
        Ok(short @ ..251) => notice.push(short),
        _ => {
            let length = u16::try_from(body.len()).expect("a short item");
            notice.push(251);
            notice.extend_from_slice(&length.to_le_bytes());
        }
    }
    (notice, body)
}

/// The phase of a notice of this kind: of logs and votes on them, that of the logs.
fn phase(kind: u8, stage: u8) -> u8 {
    match kind {
        // An item, a list, a vote, a call, and asking for an item.
        2..=7 if stage == 0 || stage == 2 => 2,
        2..=7 => 3,
        0 | 1 | 8 | 12..=16 | 19..=21 => 0,
        // That its author still waits for logs.
        23 => 2,
        _ => 3,
    }
}

/// Verifies a notice `01 01 author sequence recipient signature body`; returns its author and kind,
/// and what follows these in the body.
pub(crate) fn verify<'a>(frame: &'a [u8], digest: &[u8; 32], keys: &[PublicKey]) -> (u32, u32, &'a [u8]) {
    let mut rest = &frame[2..];
    let (author, sequence) = (number(&mut rest), number(&mut rest));
    let direct = number(&mut rest) == 1;
    let recipient = if direct { number(&mut rest) } else { 0 };
    let (signature, body) = rest.split_at(64);
    let mut signed = b"undertone/public/1\0".to_vec();
    signed.extend_from_slice(digest);
    signed.push(phase(body[0], *body.get(1).unwrap_or(&0)));
    signed.extend_from_slice(&sequence.to_le_bytes());
    signed.push(u8::from(direct));
    if direct {
        signed.extend_from_slice(&recipient.to_le_bytes());
    }
    signed.extend_from_slice(&author.to_le_bytes());
    signed.extend_from_slice(&Sha256::digest(body));
    assert!(
        keys[author as usize].verify(&signed, signature),
        "its author's signature of kind {}",
        body[0]
    );
    (author as u32, u32::from(body[0]), &body[1..])
}
