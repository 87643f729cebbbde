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
    let envelope = format!("0101 03 fb0201 00 {}", "cc".repeat(64));
    let (one, two) = ("a1".repeat(32), "a2".repeat(32));
    let pinned = [
        format!("{envelope} 11 02 {one}"),
        format!("{envelope} 12 02 04 {two}"),
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
        assert!(frame.len() <= 120, "{}", frame.len());
    }
}

#[test]
fn the_bytes_of_what_a_log_seals_are_pinned_and_counted() {
    let none = Schedule::none();
    let bytes = log_to_bytes(&sealed_log(), &none);
    let hash = "9a".repeat(32);
    let commitments = format!("03 {}", "c0".repeat(3 * 32));
    let letters = format!("04 {}", "1e".repeat(4 * 80));
    assert_eq!(
        hex(&bytes),
        format!("00 00 00 01 {hash} fb0201 {commitments} {letters}").replace(' ', "")
    );
    assert_eq!(log_from_bytes(&bytes, 1, &none), Ok(sealed_log()));
    let tolerance = Tolerance {
        members: 8,
        started: 8,
        colluding: 1,
        dropouts: 1,
    };
    let threshold = Threshold::of(tolerance).expect("enough members");
    let unsealed = Log {
        sealed: None,
        ..sealed_log()
    };
    let plain = log_to_bytes(&unsealed, &none);
    assert!(bytes.len() - plain.len() <= sealed_bytes(threshold));
    // Less than one letter is left of what would have to be there.
    for place in [plain.len() + 32 + 3, bytes.len() - 4 * 80 - 1] {
        for hostile in [5, 1 << 20, 1 << 40, u64::MAX] {
            let length = [&[253][..], &u64::to_le_bytes(hostile)].concat();
            let log = [&bytes[..place], &length, &bytes[place + 1..]].concat();
            assert!(log_from_bytes(&log, 1, &none).is_err(), "{place} {hostile}");
        }
    }
}
