//! The bytes of what seals and of what opens.

use super::*;
use crate::messages::log::Sealed;
use crate::sealing::deal::Deal;
use crate::sealing::holders::Tolerance;

/// A log with what it seals: three commitments, four letters.
pub(super) fn sealed_log() -> Log {
    let (commitments, letters) = (vec![[0xc0; 32]; 3], vec![[0x1e; 80]; 4]);
    let deal = Deal { commitments, letters };
    let (hash, bytes) = ([0x9a; 32], 258);
    Log {
        party: 1,
        sealed: Some(Sealed { hash, bytes, deal }),
        ..Log::default()
    }
}

#[test]
fn the_bytes_of_notices_that_open_are_pinned() {
    let envelope = format!(
        "0101 03000000 {} 03 0201000000000000 00 {}",
        "aa".repeat(32),
        "cc".repeat(64)
    );
    let (one, two) = ("a1".repeat(32), "a2".repeat(32));
    let pinned = [
        format!("{envelope} 13000000 02000000 {one}"),
        format!("{envelope} 14000000 02000000 04000000 {two}"),
    ];
    let opening = notices()
        .into_iter()
        .filter(|notice| notice.disclosed().is_some());
    let frames: Vec<_> = opening
        .map(|notice| notice_frame(&signed(notice, Recipient::All)))
        .collect();
    assert_eq!(frames.len(), pinned.len());
    for (frame, pinned) in frames.iter().zip(pinned) {
        assert_eq!(hex(frame), pinned.replace(' ', ""));
        // "One more notice of 190 bytes" a party, with its length prefix.
        assert!(frame.len() <= 190, "{}", frame.len());
    }
}

#[test]
fn the_bytes_of_what_a_log_seals_are_pinned_and_counted() {
    let bytes = log_to_bytes(&sealed_log());
    let (none, hash) = ("0000000000000000".repeat(3), "9a".repeat(32));
    let commitments = format!("0300000000000000 {}", "c0".repeat(3 * 32));
    let letters = format!("0400000000000000 {}", "1e".repeat(4 * 80));
    assert_eq!(
        hex(&bytes),
        format!("0100000000000000 {none} 01 {hash} 0201000000000000 {commitments} {letters}")
            .replace(' ', "")
    );
    assert_eq!(log_from_bytes(&bytes), Ok(sealed_log()));
    let tolerance = Tolerance {
        members: 8,
        started: 8,
        colluding: 1,
        dropouts: 1,
    };
    let threshold = Threshold::of(tolerance).expect("enough members");
    let plain = log_to_bytes(&Log {
        sealed: None,
        ..sealed_log()
    });
    assert_eq!(bytes.len() - plain.len(), sealed_bytes(threshold));
    // Less than one letter is left of what would have to be there.
    for place in [plain.len() + 32 + 8, bytes.len() - 4 * 80 - 8] {
        for hostile in [5, 1 << 20, 1 << 40, u64::MAX] {
            let mut log = bytes.clone();
            log[place..place + 8].copy_from_slice(&u64::to_le_bytes(hostile));
            assert!(log_from_bytes(&log).is_err(), "{place} {hostile}");
        }
    }
}
