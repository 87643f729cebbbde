//! The most that a node may owe one public neighbour at once. The transport's limits follow from
//! it, so that they never take a new connection for a slow peer.

use crate::agreement::flood::disclosures::CANDIDATES;
use crate::messages::wire;
use crate::mixing::parameters::MixingParameters;
use crate::plan::checked::Plan;
use crate::publishing::way::Way;
use crate::run::item_rules::ItemRules;
use crate::run::machine::Run;

/// Frames, and the sum of their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The number of frames.
    pub frames: usize,
    /// The bytes of all of them together, without length prefixes.
    pub bytes: usize,
}

/// Notices of each party besides those of stages: READY, START, whom it does not reach, that it
/// missed a message of averaging and that it has done all rounds.
const NOTICES_OF_A_PARTY: usize = 5;

/// The notices of each stage in which parties agree, besides its item: a list and a vote.
const VOTES_OF_A_STAGE: usize = 2;

/// Notices that a party of which something is wrong adds for each of the others in each stage:
/// these call it gone, it calls them gone, and it signs another version of its item. One that
/// vanished adds fewer.
const NOTICES_ABOUT_A_STAGE: usize = 3;

/// A push may follow one that an earlier connection left in the queue. (After a third the queue is
/// cleared, once: the next push fits.)
const PUSHES: usize = 2;

/// The frames to one neighbour that are sent meanwhile: rounds of averaging, and notices to it
/// alone. A neighbour holds up the next rounds: the opening, two rounds, and again two after a
/// reconnect. Our guess, with some to spare.
const LONG_FRAMES: usize = 8;
const SHORT_FRAMES: usize = 4096;

impl Run {
    /// Returns the most times `settle_ms` that publishing takes once the logs are agreed, at least
    /// one.
    pub fn publishing_stages(&self) -> u64 {
        match &self.public_state.rules.way {
            Way::Readable(finals) => finals.most_stages(),
            // Others open what is open here, and come to it by the plan's clock.
            Way::Sealed(_) => 2,
            Way::Kept => 1,
        }
    }

    /// The longest frames that peers may send: on the public graph, on the private one.
    pub fn frame_limits(plan: &Plan) -> (usize, usize) {
        let public = |rules: ItemRules| {
            wire::public_frame_limit(plan.parties(), rules.largest()).max(rules.way.frame_limit())
        };
        (
            ItemRules::of_all_runs(plan).map(public).max().unwrap_or(0),
            wire::private_frame_limit(match plan.circle_ring() {
                Some(ring) => ring.width() * plan.draft().dimension(),
                None => MixingParameters::of(plan, 0).share_bytes(),
            }),
        )
    }

    /// The most that a public neighbour is owed at once, as long as no more parties depart or lie
    /// than the plan's `dropouts` and `colluding`: all notices held, every item, and what goes on
    /// meanwhile. START and votes name their sets by a hash, and a list is
    /// a row of bits.
    /// It takes little memory to let these wait: notices and items are held anyway, once for all
    /// neighbours, and a frame in a queue is some 40 bytes beside them. Only rounds of averaging
    /// are held by nothing else, hence few of them.
    pub fn most_owed(plan: &Plan) -> Backlog {
        let owed = ItemRules::of_all_runs(plan).map(|rules| Run::most_owed_in(plan, &rules));
        let larger = |a: Backlog, b: Backlog| Backlog {
            frames: a.frames.max(b.frames),
            bytes: a.bytes.max(b.bytes),
        };
        owed.reduce(larger).expect("a plan has a run")
    }

    fn most_owed_in(plan: &Plan, rules: &ItemRules) -> Backlog {
        let (parties, privacy) = (plan.parties(), &plan.draft().privacy);
        let (notice, all) = (wire::NOTICE_BYTES, rules.stages.all());
        let (stages, agreed) = (
            all.len(),
            all.iter().filter(|&&it| rules.stages.agree_in(it)).count(),
        );
        let suspects = (privacy.dropouts + privacy.colluding).min(parties);
        // A liar tells wrong shares, as many as are taken.
        let wrong = if rules.stages.are_sealed() { CANDIDATES } else { 0 };
        let about = stages * NOTICES_ABOUT_A_STAGE + wrong;
        let about = suspects * parties * about;
        // Where parties agree they sign lists and votes.
        let sets = wire::unreached_bytes(parties) + agreed * wire::set_bytes(parties);
        let of_a_party =
            NOTICES_OF_A_PARTY + stages + agreed * VOTES_OF_A_STAGE + rules.revealed_by_a_party();
        let held = Backlog {
            frames: parties * of_a_party + about,
            bytes: parties * (of_a_party * notice + sets) + about * notice,
        };
        // Each stage has an item of each party.
        let items = all.iter().map(|&stage| wire::body_bytes(rules.largest_of(stage)));
        let items: usize = items.sum();
        let (longest, _) = Run::frame_limits(plan);
        Backlog {
            frames: PUSHES * held.frames + 2 * parties + LONG_FRAMES + SHORT_FRAMES,
            bytes: PUSHES * held.bytes + parties * items + LONG_FRAMES * longest + SHORT_FRAMES * notice,
        }
    }
}
