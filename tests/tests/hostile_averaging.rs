//! What a hostile member of a run with `dissemination = "consensus"` enters and calls for, at the
//! level of the machines: the others end within what they claim of the exact mean; nobody publishes
//! anything of its own twice (the table checks that of every frame).

use std::sync::Arc;

use undertone_protocol::averaging::entry::FinalEntry;
use undertone_protocol::lattice::grid::LatticeWeight;
use undertone_protocol::messages::log::AgreedLogs;
use undertone_protocol::messages::notice::{Network, Notice, Recipient, Round, item_hash};
use undertone_protocol::messages::stage::Phase;
use undertone_protocol::messages::stage::Stage;
use undertone_protocol::messages::wire::{self, PrivateFrame, PublicFrame};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::interface::Output;
use undertone_protocol::run::outcome::{Ending, GateVerdict};
use undertone_protocol::simulator::invariants::mass;
use undertone_protocol::topology::party::Party;
use undertone_tests::simulated::{others, plan, real_gate};
use undertone_tests::table::hostile::{
    DIMENSION, Moment, OTHER, PARTIES, VICTIM, enters, flooded, notice, once, ring, round, sends, signer_of,
    to, victim_averages, victim_publishes, victim_settles,
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
        round(0, &opening),
        notice(Notice::Missed),
        notice(Notice::Averaged),
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
                slips.push(to(party, round(said.round, &values)));
            }
            Turn {
                passes: !(silent && party == HOSTILE),
                slips,
            }
        });
        assert_eq!(publishing.len(), 2);
        assert!(!flooded(&table));
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
fn an_entry_whose_range_differs_from_its_openings_is_reported() {
    for range in [0, (1 << 47) - 1] {
        let table = with_entry(|entry| FinalEntry { range, ..entry });
        let (included, _) = table.assert_averaged();
        assert_eq!(included, others(&ring(), &[HOSTILE]));
        assert!(
            table
                .offences_reported_by(VICTIM)
                .iter()
                .any(|(of, text)| *of == HOSTILE && text.contains("range")),
            "{:?}",
            table.offences
        );
    }
}

/// A weight that is not its party's shows in the sum of all: nobody has a mean with it, and nobody
/// overflows.
#[test]
fn an_entry_of_any_weight_is_in_nobodys_mean() {
    for weight in [i128::MAX / PARTIES as i128, -(i128::MAX / PARTIES as i128), 0, -1] {
        let table = with_entry(|entry| FinalEntry {
            weight: LatticeWeight(weight),
            ..entry
        });
        let ends: Vec<_> = table
            .honest()
            .map(|(_, outcome)| (outcome.agreed, outcome.sum.is_some()))
            .collect();
        // With a sum of weights that is none nobody averages, and its final is not what it
        // announced.
        let without_it = (true, true);
        let end = if weight > 0 { (false, false) } else { without_it };
        assert!(ends.iter().all(|found| *found == end), "{weight}: {ends:?}");
    }
}

/// A share of PPSC may be any residue, and the state that it leads to anything that fits into an
/// opening: the mean is corrupted, one for all.
#[test]
fn a_share_of_ppsc_of_the_largest_residues_corrupts_one_mean_for_all() {
    let plan = plan(
        4,
        DIMENSION,
        "[mechanism]\nkind = \"ppsc\"\n[run]\ndissemination = \"consensus\"",
    );
    let width = plan.lattice().wire_bytes as usize;
    let values: Vec<u8> = (0..DIMENSION)
        .flat_map(|_| [&vec![0xff; width - 1][..], &[0x7f]].concat())
        .collect();
    let mut corrupted = 0;
    let mut table = Table::new(&plan);
    table.play(|party, output| match output {
        Output::Private { to, frame, .. } if party == HOSTILE => match wire::read_private(frame) {
            Ok(PrivateFrame::Share {
                digest, id, weight, ..
            }) => {
                corrupted += 1;
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
    assert!(corrupted > 0);
    let exact = table.exact();
    for (party, outcome) in table.honest() {
        assert_eq!(
            (&outcome.ending, outcome.agreed),
            (&Ending::Done, false),
            "party {party}"
        );
        let (sum, accuracy) = (
            outcome.sum.as_ref().expect("a mean"),
            outcome.accuracy.expect("averaged"),
        );
        assert!(
            mass::largest_difference(&sum.value, &exact) > 1000.0 * accuracy.steps,
            "it is corrupted"
        );
    }
}

/// Whether finals are flooded, and how many have a mean, when this is said in the hostile member's
/// name. Its own machine does not know of it, and floods nothing.
#[track_caller]
fn floods(at: Moment, frames: Vec<Arc<[u8]>>) -> (bool, usize, Vec<String>) {
    let mut table = Table::new(&ring());
    table.play(once(
        at,
        frames.into_iter().map(|frame| to(VICTIM, frame)).collect(),
    ));
    let (_, stand) = table.assert_averaged();
    (
        flooded(&table),
        stand,
        table
            .offences_reported_by(VICTIM)
            .into_iter()
            .map(|(_, text)| text.to_owned())
            .collect(),
    )
}

#[test]
fn a_missed_message_is_heeded_once_and_only_if_it_is_signed() {
    let mut forged = signer_of(HOSTILE)
        .sign(Recipient::All, Notice::Missed)
        .expect("signs");
    forged.signature.0[3] ^= 1;
    let (back, stand, reported) = floods(victim_averages, vec![wire::notice_frame(&forged)]);
    assert!(
        !back && stand == PARTIES - 1 && reported.len() == 1 && reported[0].contains("its signature"),
        "{back} {stand} {reported:?}"
    );
    let missed = notice(Notice::Missed);
    let ended: Moment = |party, output| party == VICTIM && matches!(output, Output::Finished(_));
    // Early, late, after the end, and a thousand times: everybody has the mean.
    for (at, count) in [
        (victim_settles as Moment, 1),
        (victim_publishes, 1),
        (victim_averages, 1),
        (victim_averages, 1000),
        (ended, 3),
    ] {
        let (back, stand, reported) = floods(at, vec![missed.clone(); count]);
        assert!(
            back && stand == PARTIES - 1 && reported.is_empty(),
            "{back} {stand} {reported:?}"
        );
    }
}

/// It keeps a round from a neighbour, and floods another final than the one that it committed to:
/// all leave it out alike.
#[test]
fn a_flooded_final_that_nobody_committed_to_is_in_no_sum() {
    let (mut table, mut signer) = (Table::new(&ring()), signer_of(HOSTILE));
    table.play(|party, output| {
        let keeps = |(to, round, _): (Party, Round, Vec<u8>)| (to, round.round) == (VICTIM, 2);
        if party == HOSTILE && sends(output).is_some_and(keeps) {
            return Turn::instead(vec![]);
        }
        let Output::Public { to: peer, frame } = output else {
            return Turn::none();
        };
        match wire::read_public(frame) {
            Ok(PublicFrame::Item { signed, bytes })
                if (party, signed.author) == (HOSTILE, HOSTILE)
                    && signed.notice.is_item_of(Stage::Finals) =>
            {
                let mut other = frame[bytes].to_vec();
                let coordinate = wire::FINAL_HEADER + 2;
                other[coordinate] ^= 1;
                let announces = Notice::Item {
                    stage: Stage::Finals,
                    hash: item_hash(&other),
                    bytes: other.len() as u64,
                };
                let signed = signer.sign(Recipient::All, announces).expect("signs");
                Turn::instead(vec![to(*peer, wire::announcement_frame(&signed, &other))])
            }
            _ => Turn::none(),
        }
    });
    assert!(flooded(&table));
    assert_eq!(
        table.assert_averaged(),
        (others(&ring(), &[HOSTILE]), PARTIES - 1)
    );
    let reported = table.offences_reported_by(VICTIM);
    assert!(
        reported
            .iter()
            .any(|(of, text)| *of == HOSTILE && text.contains("not the one that it announced")),
        "{reported:?}"
    );
}
