//! Liars among the authors, keepers and hops of slices, each with a crash beside it.

use super::*;
use crate::agreement::placing::KeeperReport;
use crate::messages::log::Sealed;
use crate::messages::notice::{ItemHash, Notice, Recipient, item_hash};
use crate::messages::signing::Signer;
use crate::messages::wire::{self, PublicFrame};
use crate::plan::peers::simulated_keypair;
use crate::simulator::cluster::lying::{Sending, Sent};
use crate::simulator::equivocator::OtherWord;

const LIAR: Party = 2;

/// The ways in which a party lies about slices.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    /// A keeper reports nothing.
    NoReport,
    /// A keeper reports late, to half of the others.
    LateReport,
    /// A keeper reports to half of the others that it has nothing.
    TwoReports,
    /// A keeper reports that it has what others have not sent it: it never got a slice.
    FalseReport,
    /// A keeper signs a wrong sum, and serves it.
    WrongSum,
    /// A keeper signs the right sum, and to half of the others a wrong one.
    TwoSums,
    /// A keeper signs the right sum, and serves nothing.
    UnservedSum,
    /// An author has another root in the log that half of the others get.
    TwoLogs,
    /// An author's slices have a wrong path.
    WrongPath,
    /// An author sends one keeper nothing.
    NoSlice,
    /// An author sends everything at a quarter of settling.
    LateSlices,
    /// A hop passes nothing on.
    Drops,
    /// A hop passes everything on late.
    Delays,
    /// A hop passes everything on twice.
    Repeats,
    /// A hop changes what it passes on.
    Rewrites,
}

const LIES: [Lie; 15] = [
    Lie::NoReport,
    Lie::LateReport,
    Lie::TwoReports,
    Lie::FalseReport,
    Lie::WrongSum,
    Lie::TwoSums,
    Lie::UnservedSum,
    Lie::TwoLogs,
    Lie::WrongPath,
    Lie::NoSlice,
    Lie::LateSlices,
    Lie::Drops,
    Lie::Delays,
    Lie::Repeats,
    Lie::Rewrites,
];

/// The liar's signature on an item, announced with its bytes.
fn announced(plan: &Plan, stage: Stage, item: &[u8]) -> Arc<[u8]> {
    let mut signer = Signer::new(LIAR, *plan.digest(), simulated_keypair(LIAR), 0);
    let (hash, bytes) = (item_hash(item), item.len() as u64);
    let notice = Notice::Item { stage, hash, bytes };
    let signed = signer.sign(Recipient::All, notice).expect("signs");
    match stage {
        Stage::Slice(_) => wire::slice_frame(LIAR, stage, signed.signature, item),
        Stage::Sum(_) => wire::notice_frame(&signed),
        _ => wire::announcement_frame(&signed, item),
    }
}

/// A sum that is none of anybody's values.
fn wrong_sum(plan: &Plan, slice: u32) -> Vec<u8> {
    vec![7; plan.slices().expect("slices").bytes(slice)]
}

/// The liar's own words, and what it passes on.
struct Liar {
    plan: Arc<Plan>,
    lie: Lie,
    /// The latest log root of each party, as seen on the wire: for false reports.
    roots: BTreeMap<Party, ItemHash>,
}

impl Liar {
    fn half(&self, to: Party) -> bool {
        to % 2 == 1
    }

    /// A quarter of settling, and three eighths, in milliseconds.
    fn late_ms(&self, eighths: u64) -> u64 {
        2 * self.plan.draft().run.settle_ms * eighths / 8
    }

    fn send(&mut self, sending: &Sending<'_>) -> Sent {
        let Ok(frame) = wire::read_public(sending.frame) else {
            return Sent::AsItIs;
        };
        self.note_root(&frame, sending.frame);
        let is_slice = matches!(frame, PublicFrame::Slice { .. });
        if is_slice && sending.to == LIAR && self.lie == Lie::FalseReport {
            return Sent::Later(vec![]);
        }
        if sending.from != LIAR {
            return Sent::AsItIs;
        }
        match frame {
            PublicFrame::Slice { signed, bytes } if signed.author == LIAR => {
                self.own_slice(sending, signed.notice, &sending.frame[bytes])
            }
            PublicFrame::Slice { .. } => self.passed_on(sending),
            PublicFrame::Item { signed, bytes } if signed.author == LIAR => match signed.notice {
                Notice::Item {
                    stage: Stage::Keeping,
                    ..
                } => self.report(sending, bytes.len()),
                Notice::Item {
                    stage: Stage::Settling,
                    ..
                } => self.log(sending, &sending.frame[bytes]),
                _ => Sent::AsItIs,
            },
            PublicFrame::Notice(signed) if signed.author == LIAR => match signed.notice {
                Notice::Item {
                    stage: Stage::Sum(slice),
                    ..
                } => self.sum(sending, slice),
                _ => Sent::AsItIs,
            },
            PublicFrame::Body {
                stage: Stage::Sum(slice),
                ..
            } => match self.lie {
                Lie::UnservedSum => Sent::Later(vec![]),
                Lie::WrongSum => Sent::Replaced(wire::body_frame(
                    Stage::Sum(slice),
                    LIAR,
                    &wrong_sum(&self.plan, slice),
                )),
                _ => Sent::AsItIs,
            },
            _ => Sent::AsItIs,
        }
    }

    fn note_root(&mut self, frame: &PublicFrame, bytes: &[u8]) {
        if let Some((Stage::Settling, author, range)) = frame.item()
            && let Ok(log) = wire::log_from_bytes(&bytes[range], author, self.plan.exchanges())
            && let Some(Sealed { hash, .. }) = log.sealed
        {
            self.roots.insert(author, hash);
        }
    }

    fn own_slice(&self, sending: &Sending<'_>, notice: Notice, item: &[u8]) -> Sent {
        let Notice::Item { stage, .. } = notice else {
            return Sent::AsItIs;
        };
        match self.lie {
            Lie::WrongPath => {
                let mut item = item.to_vec();
                item[0] ^= 1;
                Sent::Replaced(announced(&self.plan, stage, &item))
            }
            Lie::NoSlice if sending.to == 5 => Sent::Later(vec![]),
            Lie::LateSlices => Sent::Later(vec![(self.late_ms(2), sending.frame.clone())]),
            _ => Sent::AsItIs,
        }
    }

    fn passed_on(&self, sending: &Sending<'_>) -> Sent {
        let frame = sending.frame.clone();
        match self.lie {
            Lie::Drops => Sent::Later(vec![]),
            Lie::Delays => Sent::Later(vec![(self.late_ms(3), frame)]),
            Lie::Repeats => Sent::Later(vec![(0, frame.clone()), (5, frame)]),
            Lie::Rewrites => {
                let mut other = frame.to_vec();
                *other.last_mut().expect("not empty") ^= 1;
                Sent::Replaced(Arc::from(other))
            }
            _ => Sent::AsItIs,
        }
    }

    fn report(&self, sending: &Sending<'_>, length: usize) -> Sent {
        let parties = self.plan.parties();
        match self.lie {
            Lie::NoReport => Sent::Later(vec![]),
            Lie::LateReport if self.half(sending.to) => {
                Sent::Later(vec![(self.late_ms(3), sending.frame.clone())])
            }
            Lie::LateReport => Sent::Later(vec![]),
            Lie::TwoReports if self.half(sending.to) => {
                // Rows without a bit, and so no root.
                let kept = self.kept().len();
                let empty = vec![0; kept * parties.div_ceil(8)];
                assert!(empty.len() < length);
                Sent::Replaced(announced(&self.plan, Stage::Keeping, &empty))
            }
            Lie::FalseReport => {
                let rows = vec![others(&self.plan, &[]).into_iter().collect::<Vec<_>>(); self.kept().len()];
                let report = KeeperReport::of(parties, &rows, &self.roots);
                Sent::Replaced(announced(&self.plan, Stage::Keeping, &report.to_bytes()))
            }
            _ => Sent::AsItIs,
        }
    }

    fn kept(&self) -> Vec<u32> {
        let all = others(&self.plan, &[]);
        let keepers = self.plan.keepers(&all, 3).expect("slices");
        keepers.kept_by(LIAR).to_vec()
    }

    fn sum(&self, sending: &Sending<'_>, slice: u32) -> Sent {
        let lies = match self.lie {
            Lie::WrongSum => true,
            Lie::TwoSums => self.half(sending.to),
            _ => false,
        };
        match lies {
            true => {
                let sum = wrong_sum(&self.plan, slice);
                Sent::Replaced(announced(&self.plan, Stage::Sum(slice), &sum))
            }
            false => Sent::AsItIs,
        }
    }

    fn log(&self, sending: &Sending<'_>, item: &[u8]) -> Sent {
        if self.lie != Lie::TwoLogs || !self.half(sending.to) {
            return Sent::AsItIs;
        }
        let schedule = self.plan.exchanges();
        let mut log = wire::log_from_bytes(item, LIAR, schedule).expect("its own log");
        log.sealed.as_mut().expect("sealed").hash[0] ^= 1;
        Sent::Replaced(announced(
            &self.plan,
            Stage::Settling,
            &wire::log_to_bytes(&log, schedule),
        ))
    }
}

/// A run with a liar, and perhaps with a fault beside it.
fn with_liar(plan: &Arc<Plan>, lie: Lie, seed: u64, faults: Vec<Fault>) -> Report {
    let mut conditions = Conditions::new(seed).with_faults(faults);
    // Named, so that nobody honest is accused of what it does.
    conditions.other_word = Some((LIAR, OtherWord::Votes(BTreeSet::new())));
    let mut simulation = Simulation::new(plan.clone(), inputs(plan), &class_gate, conditions);
    let mut liar = Liar {
        plan: plan.clone(),
        lie,
        roots: BTreeMap::new(),
    };
    simulation.wire = Some(Box::new(move |sending| liar.send(sending)));
    let report = simulation.run();
    assert_eq!(report.violations, [], "{lie:?}, seed {seed}");
    report
}

/// In how many of `runs` all others hold one exact sum; in the others nothing is opened.
fn means(plan: &Arc<Plan>, lie: Lie, runs: u64, crashes: bool) -> u64 {
    let mut means = 0;
    for seed in 0..runs {
        let (started, _, finished) = milestones_of(plan, seed);
        let mut rng = stream(seed, "kill", 3);
        let dead = [0, 1, 3, 4, 5, 6, 7][rng.random_range(0..7)];
        let fault = kill(dead, moment(&mut rng, started, finished), rng.random_bool(0.5));
        let faults = if crashes { vec![fault] } else { vec![] };
        let left_out: &[Party] = if crashes { &[LIAR, dead] } else { &[LIAR] };
        let report = with_liar(plan, lie, seed, faults);
        means += u64::from(opened(&report, &others(plan, left_out)).is_some());
    }
    means
}

#[test]
fn whatever_one_party_lies_of_slices_all_others_have_the_exact_sum() {
    for lines in [PAIRWISE.to_string(), format!("{PAIRWISE}\n{SPARSE}")] {
        let plan = sliced(8, &lines, 4);
        for lie in LIES {
            let means = means(&plan, lie, 3, false);
            assert_eq!(means, 3, "{lie:?}: {lines}");
        }
    }
}

#[test]
fn a_liar_about_slices_and_a_crash_cost_no_honest_party_its_share() {
    let plan = sliced(8, &format!("{PAIRWISE}\n{SPARSE}"), 4);
    for lie in LIES {
        let means = means(&plan, lie, 4, true);
        println!("{lie:?}: {means} of 4");
        // Whose final is not placed, or who gives no correction, counts as departed: beside a crash
        // that is one more than the plan tolerates, and nothing is opened.
        let departs = [Lie::TwoLogs, Lie::WrongPath, Lie::FalseReport].contains(&lie);
        assert!(departs || means >= 2, "{lie:?}: {means} of 4");
    }
}

/// For a command of its own.
#[test]
#[ignore = "a soak of some minutes"]
fn soak_of_liars_about_slices() {
    for (lines, rounds) in MECHANISMS {
        for lines in [lines.to_string(), format!("{lines}\n{SPARSE}")] {
            let plan = sliced(8, &lines, rounds);
            for lie in LIES {
                let (alone, beside) = (means(&plan, lie, 60, false), means(&plan, lie, 60, true));
                println!("{lie:?}: {alone} and {beside} of 60 have a mean: {lines}");
            }
        }
    }
}
