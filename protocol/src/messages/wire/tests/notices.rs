//! A notice of each kind.

use super::*;

pub(super) fn give_up() -> Notice {
    Notice::GiveUp {
        number: 1,
        incarnation: [6; 16],
        next: Some([7; 32]),
    }
}

pub(super) fn awake() -> Notice {
    Notice::Awake {
        arrivals: vec![LateArrivals { party: 4, count: 2 }],
    }
}

pub(super) fn notices() -> Vec<Notice> {
    let stage = Stage::Publishing;
    vec![
        ready(),
        Notice::Start {
            number: 0,
            incarnation: [6; 16],
            seats: [7; 32],
        },
        Notice::Item {
            stage,
            hash: [9; 32],
            bytes: 77,
        },
        Notice::List {
            stage,
            held: Row::of(11, [0, 2, 9]),
            versions: vec![(0, [1; 32]), (2, [3; 32])],
        },
        Notice::Vote {
            stage,
            early: true,
            set: [4; 32],
        },
        Notice::Unreachable { stage, party: 4 },
        Notice::Want { stage, item: 4 },
        Notice::Lack { stage, item: 4 },
        Notice::Summary {
            gathered: true,
            holdings: Vec::new(),
        },
        Notice::WantSet { set: [3; 32] },
        Notice::Answered,
        Notice::Missed,
        Notice::Averaged,
        Notice::Waiting,
        Notice::Commit {
            key: [5; 32],
            pair: None,
            records: None,
            commitment: [7; 32],
        },
        Notice::Reveal {
            number: 0,
            incarnation: [6; 16],
            seats: [7; 32],
            commitments: [8; 32],
            nonce: [9; 32],
        },
        Notice::Withdraw { incarnation: [5; 16] },
        give_up(),
        Notice::Unreached {
            parties: vec![Unreached {
                party: 4,
                ready: Some([6; 16]),
                found: Found::Silent,
            }],
        },
        Notice::Here,
        Notice::Finished,
        awake(),
        Notice::Key {
            round: 2,
            secret: Disclosed([0xa1; 32]),
        },
        Notice::Share {
            round: 2,
            of: 4,
            share: Disclosed([0xa2; 32]),
        },
    ]
}
