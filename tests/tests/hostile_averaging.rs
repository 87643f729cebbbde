//! What a hostile member of a run with `dissemination = "consensus"` enters and calls for, at the
//! level of the machines: the others end within what they claim of the exact mean; nobody publishes
//! anything of its own twice (the table checks that of every frame).

use std::sync::Arc;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::averaging::entry::FinalEntry;
use undertone_protocol::lattice::grid::LatticeWeight;
use undertone_protocol::messages::log::AgreedLogs;
use undertone_protocol::messages::notice::{Form, Network, Notice, Recipient, item_hash};
use undertone_protocol::messages::stage::Phase;
use undertone_protocol::messages::stage::Stage;
use undertone_protocol::messages::wire::{self, PrivateFrame, PublicFrame};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::publishing::averaging::machine::MOST_STAGES;
use undertone_protocol::run::interface::Output;
use undertone_protocol::run::outcome::{Ending, GateVerdict};
use undertone_protocol::simulator::invariants::mass;
use undertone_protocol::time::Time;
use undertone_tests::simulated::{others, plan, real_gate};
use undertone_tests::table::hostile::{
    DIMENSION, Moment, OTHER, PARTIES, VICTIM, enters, fell_back, notice, once, ring, round, said, sends,
    signer_of, to, victim_averages, victim_publishes, victim_settles,
};
use undertone_tests::table::{HOSTILE, Slip, Table, Turn};

/// The entry of somebody whom the gate or the logs leave out, and its opening, are of no use to
/// anybody. Nor is what it says of averaging.
#[test]
fn who_may_not_publish_enters_nothing() {
    fn all_but_the_hostile(plan: &Plan, logs: &AgreedLogs) -> GateVerdict {
        let mut verdict = real_gate(plan, logs);
        verdict.publish.as_mut().expect("they may").remove(&HOSTILE);
        verdict
    }
    let opening = vec![0; DIMENSION * ring().terms().expect("it averages").opening_bytes];
    let entry = FinalEntry::new(LatticeWeight(1 << 60), 0, &opening).to_bytes();
    let mut signer = signer_of(HOSTILE);
    let item = Notice::Item {
        stage: Stage::Publishing,
        hash: item_hash(&entry),
        bytes: entry.len() as u64,
    };
    let mut notice = |notice| wire::notice_frame(&signer.sign(Recipient::All, notice).expect("signs"));
    let frames = [
        notice(item),
        wire::body_frame(Stage::Publishing, HOSTILE, &entry),
        round(Form::Fast, 0, &opening),
        notice(Notice::Missed),
        notice(Notice::Severed {
            party: VICTIM,
            held: true,
        }),
        notice(Notice::Averaged { whole: true }),
    ];
    for by_the_logs in [false, true] {
        let mut table = Table::new(&ring());
        if !by_the_logs {
            table.gate = all_but_the_hostile;
        }
        let (mut silent, mut publishing) = (false, vec![]);
        table.play(|party, output| {
            silent |= by_the_logs && party == HOSTILE && enters(output, Phase::Settling);
            let mut slips = vec![];
            if enters(output, Phase::Publishing) && [VICTIM, OTHER].contains(&party) {
                publishing.push(party);
                slips = frames.iter().map(|frame| to(party, frame.clone())).collect();
            }
            // Whatever it says in its first rounds.
            if let Some((_, said, values)) = sends(output).filter(|_| [VICTIM, OTHER].contains(&party)) {
                slips.push(to(party, round(said.form, said.round, &values)));
            }
            Turn {
                passes: !(silent && party == HOSTILE),
                slips,
            }
        });
        assert_eq!(publishing.len(), 2);
        assert!(!fell_back(&table));
        assert_eq!(
            table.assert_averaged(),
            (others(&ring(), &[HOSTILE]), PARTIES - 1),
            "by the logs: {by_the_logs}"
        );
    }
}

/// A run in which the hostile member announces another entry than its machine did. That does not
/// hold it, and falls silent.
fn with_entry(change: impl Fn(FinalEntry) -> FinalEntry) -> Table {
    let mut table = Table::new(&ring());
    let (mut signer, mut lie) = (signer_of(HOSTILE), None);
    table.play(|party, output| {
        let Output::Public { to: peer, frame } = output else {
            return Turn::none();
        };
        match wire::read_public(frame) {
            Ok(PublicFrame::Item { signed, bytes })
                if (party, signed.author) == (HOSTILE, HOSTILE)
                    && signed.notice.is_item_of(Stage::Publishing) =>
            {
                let bytes =
                    change(FinalEntry::from_bytes(&frame[bytes], PARTIES).expect("an honest one")).to_bytes();
                let announces = Notice::Item {
                    stage: Stage::Publishing,
                    hash: item_hash(&bytes),
                    bytes: bytes.len() as u64,
                };
                let lie = lie.get_or_insert_with(|| {
                    let signed = signer.sign(Recipient::All, announces).expect("signs");
                    wire::announcement_frame(&signed, &bytes)
                });
                Turn::instead(vec![to(*peer, lie.clone())])
            }
            _ => Turn::none(),
        }
    });
    assert!(lie.is_some());
    table
}

#[test]
fn an_entry_whose_range_is_not_its_openings_is_told() {
    for range in [0, (1 << 47) - 1] {
        let table = with_entry(|entry| FinalEntry { range, ..entry });
        let (included, _) = table.assert_averaged();
        assert_eq!(included, others(&ring(), &[HOSTILE]));
        assert!(
            table
                .told_by(VICTIM)
                .iter()
                .any(|(of, text)| *of == HOSTILE && text.contains("range")),
            "{:?}",
            table.offences
        );
    }
}

/// A weight that is not its party's shows in the sum of all: nobody has a mean, and nobody
/// overflows.
#[test]
fn an_entry_of_any_weight_ends_the_run() {
    for weight in [i128::MAX / PARTIES as i128, -(i128::MAX / PARTIES as i128), 0, -1] {
        let table = with_entry(|entry| FinalEntry {
            weight: LatticeWeight(weight),
            ..entry
        });
        table.assert_no_claim_is_false();
        let ends: Vec<_> = table
            .honest()
            .map(|(_, outcome)| (outcome.agreed, outcome.sum.is_some()))
            .collect();
        assert!(
            ends.iter().all(|end| *end == (false, false)),
            "{weight}: {ends:?}"
        );
    }
}

/// A share of PPSC may be any residue, and the state that it leads to anything that fits into an
/// opening: the mean is spoilt, one for all.
#[test]
fn a_share_of_ppsc_of_the_largest_residues_spoils_one_mean_for_all() {
    let plan = plan(
        4,
        DIMENSION,
        "[mechanism]\nkind = \"ppsc\"\n[run]\ndissemination = \"consensus\"",
    );
    let width = plan.lattice().wire_bytes as usize;
    let values: Vec<u8> = (0..DIMENSION)
        .flat_map(|_| [&vec![0xff; width - 1][..], &[0x7f]].concat())
        .collect();
    let mut spoilt = 0;
    let mut table = Table::new(&plan);
    table.play(|party, output| match output {
        Output::Private { to, frame, .. } if party == HOSTILE => match wire::read_private(frame) {
            Ok(PrivateFrame::Share {
                digest, id, weight, ..
            }) => {
                spoilt += 1;
                let frame = wire::share_frame(&digest, id, weight, &values);
                Turn::instead(vec![Slip {
                    network: Network::Private,
                    from: HOSTILE,
                    to: *to,
                    frame,
                }])
            }
            _ => Turn::none(),
        },
        _ => Turn::none(),
    });
    assert!(spoilt > 0);
    table.assert_no_claim_is_false();
    let exact = table.exact();
    for (party, outcome) in table.honest() {
        assert_eq!(
            (&outcome.ending, outcome.agreed),
            (&Ending::Done, true),
            "party {party}"
        );
        let (sum, accuracy) = (
            outcome.sum.as_ref().expect("agreed"),
            outcome.accuracy.expect("averaged"),
        );
        assert!(
            mass::largest_difference(&sum.value, &exact) > 1000.0 * accuracy.steps,
            "it is spoilt"
        );
    }
}

/// Whether anybody falls back, and how many agree on everybody's mean, when the hostile member says
/// this.
#[track_caller]
fn falls_back(at: Moment, frames: Vec<Arc<[u8]>>) -> (bool, usize, Vec<String>) {
    let mut table = Table::new(&ring());
    table.play(once(
        at,
        frames.into_iter().map(|frame| to(VICTIM, frame)).collect(),
    ));
    let (included, agreed) = table.assert_averaged();
    assert_eq!(included, others(&ring(), &[]));
    (
        fell_back(&table),
        agreed,
        table
            .told_by(VICTIM)
            .into_iter()
            .map(|(_, text)| text.to_owned())
            .collect(),
    )
}

#[test]
fn calls_to_fall_back_are_heeded_once_and_only_if_they_are_signed() {
    let mut forged = signer_of(HOSTILE)
        .sign(Recipient::All, Notice::Missed)
        .expect("signs");
    forged.signature.0[3] ^= 1;
    let (back, agreed, told) = falls_back(victim_averages, vec![wire::notice_frame(&forged)]);
    assert!(
        !back && agreed == PARTIES - 1 && told.len() == 1 && told[0].contains("its signature"),
        "{back} {agreed} {told:?}"
    );
    let missed = notice(Notice::Missed);
    let ended: Moment = |party, output| party == VICTIM && matches!(output, Output::Finished(_));
    // Early, late, after the end, and a thousand times: the same mean, agreed by all.
    for (at, count) in [
        (victim_settles as Moment, 1),
        (victim_publishes, 1),
        (victim_averages, 1),
        (victim_averages, 1000),
        (ended, 3),
    ] {
        let (back, agreed, told) = falls_back(at, vec![missed.clone(); count]);
        assert!(
            back && agreed == PARTIES - 1 && told.is_empty(),
            "{back} {agreed} {told:?}"
        );
    }
}

/// It cuts its edges, says that it did of edges that there are not, contradicts itself, and takes
/// part all the same.
#[test]
fn cuts_hold_for_its_own_edges_and_cost_nobody_the_mean() {
    for held in [true, false] {
        let mut signer = signer_of(HOSTILE);
        let mut frames = vec![];
        for _ in 0..50 {
            for party in 0..PARTIES {
                for held in [held, !held] {
                    let signed = signer
                        .sign(Recipient::All, Notice::Severed { party, held })
                        .expect("signs");
                    frames.push(wire::notice_frame(&signed));
                }
            }
        }
        frames.insert(
            0,
            wire::notice_frame(&signer.sign(Recipient::All, Notice::Missed).expect("signs")),
        );
        frames.push(wire::notice_frame(
            &signer
                .sign(Recipient::All, Notice::Severed { party: 77, held })
                .expect("signs"),
        ));
        let mut table = Table::new(&ring());
        table.play(once(
            victim_averages,
            frames.into_iter().map(|frame| to(VICTIM, frame)).collect(),
        ));
        let (included, agreed) = table.assert_averaged();
        assert_eq!(
            (included, agreed),
            (others(&ring(), &[]), PARTIES - 1),
            "its neighbours enter its opening"
        );
        let told = table.told_by(VICTIM);
        assert!(
            told.iter().any(|(_, text)| text.contains("two different"))
                && told.iter().any(|(_, text)| text.contains("malformed"))
        );
    }
}

/// Running sums that are anything at all, hundreds of rounds long: nothing is verified while they
/// come. Once their author falls silent and is cut off, its edges take all of it with them, and the
/// mean is the exact one of everybody's openings.
#[test]
fn wild_running_sums_leave_with_their_author() {
    let settle_ms = ring().draft().run.settle_ms;
    for wild in 0..4u8 {
        let (mut table, mut rng) = (Table::new(&ring()), ChaCha8Rng::seed_from_u64(u64::from(wild)));
        let missed = notice(Notice::Missed);
        let (mut called, mut answers) = (false, 0);
        table.play(|party, output| {
            if victim_averages(party, output) && !std::mem::replace(&mut called, true) {
                return Turn::slip(vec![to(VICTIM, missed.clone())]);
            }
            // Its own machine does not know of that call: what its neighbours say is what it
            // answers.
            match sends(output).filter(|(to, round, _)| *to == HOSTILE && round.form == Form::Ratio) {
                Some(_) if answers >= 400 => Turn::none(),
                None => Turn::none(),
                Some((_, theirs, values)) => {
                    answers += 1;
                    let spread = [0.0, -1.0, f64::NAN, f64::INFINITY][rng.random_range(0..4)];
                    let view = if wild < 3 || rng.random_bool(0.9) {
                        theirs.view
                    } else {
                        7
                    };
                    let values: Vec<u8> = match wild {
                        0 => vec![0x7f; values.len()],
                        1 => (0..values.len()).map(|_| rng.random_range(0..=255)).collect(),
                        2 => vec![0; values.len()],
                        _ => values
                            .iter()
                            .map(|x| x ^ u8::from(rng.random_bool(0.01)))
                            .collect(),
                    };
                    Turn::slip(vec![to(
                        party,
                        said(Form::Ratio, theirs.round, view, spread, &values),
                    )])
                }
            }
        });
        assert_eq!(answers, 400);
        assert_eq!(table.assert_averaged(), (others(&ring(), &[]), PARTIES - 1));
        assert!(
            table.now <= Time::from_millis(settle_ms * (MOST_STAGES + 1)),
            "{:?}",
            table.now
        );
        assert_eq!(table.faults, []);
    }
}
