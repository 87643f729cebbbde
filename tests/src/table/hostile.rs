//! A hostile member of a run with `dissemination = "consensus"`: what it can send, and when.

use std::sync::{Arc, OnceLock};

use undertone_protocol::messages::notice::{Network, Notice, Recipient, Round};
use undertone_protocol::messages::signing::Signer;
use undertone_protocol::messages::stage::Phase;
use undertone_protocol::messages::wire::{self, PublicFrame};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::simulated_keypair;
use undertone_protocol::run::interface::Output;
use undertone_protocol::run::outcome::Event;
use undertone_protocol::topology::party::Party;

use super::{HOSTILE, Slip, Table, Turn};
use crate::simulated::plan;

/// Two may be wrong, the hostile member and one that it fools, and the others are still a quorum.
/// On the ring 0–1–2–3–4–5–6 the hostile member 3 is a neighbour of 2 and of 4, and of nobody else.
pub const PARTIES: usize = 7;
/// A neighbour of the hostile member on the ring.
pub const VICTIM: Party = 2;
/// The hostile member's other neighbour on the ring.
pub const OTHER: Party = 4;
/// No neighbour of the victim's.
pub const FAR: Party = 0;
/// Several coordinates share each of the sums that are compared, so that there is room for lies
/// between these.
pub const DIMENSION: usize = 200;

const RUN: &str = "[mechanism]\nrounds = 4\n[run]\ndissemination = \"consensus\"\n";

/// The plan with that ring.
pub fn ring() -> Arc<Plan> {
    static RING: OnceLock<Arc<Plan>> = OnceLock::new();
    RING.get_or_init(|| plan(PARTIES, DIMENSION, &format!("{RUN}[topology]\npublic = \"ring\"")))
        .clone()
}

/// The hostile member is everybody's only public neighbour.
pub fn star() -> Arc<Plan> {
    static STAR: OnceLock<Arc<Plan>> = OnceLock::new();
    let edge = |party: &usize| format!("[\"party-{party}\", \"party-{HOSTILE}\"]");
    let edges: Vec<String> = (0..PARTIES)
        .filter(|party| *party != HOSTILE)
        .map(|party| edge(&party))
        .collect();
    let topology = format!(
        "[topology]\npublic = {{ kind = \"edges\", edges = [{}] }}",
        edges.join(", ")
    );
    STAR.get_or_init(|| plan(PARTIES, DIMENSION, &format!("{RUN}{topology}")))
        .clone()
}

/// The hostile member is in the midst of the longest graph that there is.
pub fn path() -> Arc<Plan> {
    static PATH: OnceLock<Arc<Plan>> = OnceLock::new();
    let edges: Vec<String> = (1..PARTIES)
        .map(|party| format!("[\"party-{}\", \"party-{party}\"]", party - 1))
        .collect();
    let topology = format!(
        "[topology]\npublic = {{ kind = \"edges\", edges = [{}] }}",
        edges.join(", ")
    );
    PATH.get_or_init(|| plan(PARTIES, DIMENSION, &format!("{RUN}{topology}")))
        .clone()
}

/// The last round that anybody sends.
pub fn last_round(plan: &Arc<Plan>) -> u32 {
    let mut last = 0;
    Table::new(plan).play(|_, output| {
        last = sends(output).map_or(last, |(_, round, _)| last.max(round.round));
        Turn::none()
    });
    last
}

/// Signs for a party of it.
pub fn signer_of(party: Party) -> Signer {
    Signer::new(party, *ring().digest(), simulated_keypair(party), 1 << 40)
}

/// A round that the hostile member signs.
pub fn round(number: u32, values: &[u8]) -> Arc<[u8]> {
    wire::round_frame(&signer_of(HOSTILE).round(number, values).expect("signs"), values)
}

/// A notice that the hostile member signs.
pub fn notice(notice: Notice) -> Arc<[u8]> {
    wire::notice_frame(&signer_of(HOSTILE).sign(Recipient::All, notice).expect("signs"))
}

/// It reaches this party from the hostile member.
pub fn to(party: Party, frame: Arc<[u8]>) -> Slip {
    Slip {
        network: Network::Public,
        from: HOSTILE,
        to: party,
        frame,
    }
}

/// A round of averaging that this output sends, with whom it goes to.
pub fn sends(output: &Output) -> Option<(Party, Round, Vec<u8>)> {
    let Output::Public { to, frame } = output else {
        return None;
    };
    match wire::read_public(frame) {
        Ok(PublicFrame::Round { round, values }) => Some((*to, round, frame[values].to_vec())),
        _ => None,
    }
}

/// A notice that this output sends, with its author.
pub fn says(output: &Output) -> Option<(Party, Notice)> {
    let Output::Public { frame, .. } = output else {
        return None;
    };
    match wire::read_public(frame) {
        Ok(PublicFrame::Notice(signed) | PublicFrame::Item { signed, .. }) => {
            Some((signed.author, signed.notice))
        }
        _ => None,
    }
}

/// Whether it sends this round.
pub fn sends_round(output: &Output, number: u32) -> bool {
    sends(output).is_some_and(|(_, round, _)| round.round == number)
}

/// Whether a machine enters this phase.
pub fn enters(output: &Output, phase: Phase) -> bool {
    matches!(output, Output::Event(Event::Phase(entered)) if *entered == phase)
}

/// When a slip comes.
pub type Moment = fn(Party, &Output) -> bool;

/// The victim has no final yet.
pub fn victim_settles(party: Party, output: &Output) -> bool {
    party == VICTIM && enters(output, Phase::Settling)
}

/// The victim's final goes out.
pub fn victim_publishes(party: Party, output: &Output) -> bool {
    party == VICTIM && enters(output, Phase::Publishing)
}

/// The finals' set is agreed, and the first round done.
pub fn victim_averages(party: Party, output: &Output) -> bool {
    party == VICTIM && sends_round(output, 1)
}

/// Slips them in once, at that moment.
pub fn once(at: Moment, slips: Vec<Slip>) -> impl FnMut(Party, &Output) -> Turn {
    let mut slips = Some(slips);
    move |party, output| {
        if at(party, output) {
            Turn::slip(slips.take().unwrap_or_default())
        } else {
            Turn::none()
        }
    }
}

/// Replaces the hostile member's frames of a round to its neighbours with lies.
pub fn lies(table: &mut Table, number: u32, mut lie: impl FnMut(Party, Round, Vec<u8>) -> Vec<u8>) {
    table.play(|party, output| match sends(output) {
        Some((peer, round, values)) if party == HOSTILE && round.round == number => {
            let lie = lie(peer, round, values);
            Turn::instead(vec![to(peer, self::round(number, &lie))])
        }
        _ => Turn::none(),
    });
}

/// Whether anybody has flooded its final.
pub fn flooded(table: &Table) -> bool {
    table.floods > 0
}

/// Frames of the hostile member that anybody still holds.
pub fn kept(frames: &[Arc<[u8]>]) -> usize {
    frames.iter().filter(|frame| Arc::strong_count(frame) > 1).count()
}
