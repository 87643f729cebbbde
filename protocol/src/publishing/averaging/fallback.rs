//! Ratio consensus between live neighbours, round by round, until a difference is verified.
//!
//! In *windows* of D + 1 rounds, D the component's diameter, the nodes find the largest difference
//! between any two neighbours at the window's first round: each measures its own, and every message
//! passes on the largest heard of. After D rounds everybody has the same maximum m, and two nodes'
//! means at that first round differ by at most D·m in any coordinate. Each keeps its mean of that
//! round: that is the result once D·m is within the tolerance, and everybody finishes in the same
//! window. Since counts are positive and add up, the exact mean is a convex combination of these
//! means, so D·m bounds the distance to it, too.
//!
//! That holds for one set of cut edges. Every message names the sender's; a window in which a node
//! meets two of them proves nothing (∞). If a node met only one, then so did, up to their messages
//! to it, all that it heard from, at distance up to D in that very graph: all of the component.

use std::collections::BTreeMap;

use crate::averaging::ratio::RatioConsensus;
use crate::messages::wire::Bytes;
use crate::publishing::averaging::cuts::{Roles, View};
use crate::topology::party::Party;

/// What a neighbour said in a round of ratio consensus.
#[derive(Clone, Debug)]
pub struct Said {
    /// Its view's label.
    pub view: u64,
    /// The largest difference that it heard of.
    pub spread: f64,
    /// Its running sums.
    pub sums: Bytes,
}

struct Window {
    label: u64,
    worst: f64,
    /// This node's mean at the window's first round.
    mean: Vec<f64>,
}

/// A mean with a bound on its distance to any other node's, and to the exact one.
#[derive(Clone, Debug)]
pub struct Verified {
    /// In units.
    pub mean: Vec<f64>,
    /// In units.
    pub bound: f64,
}

/// One node's part in the ratio form.
pub struct Fallback {
    ratio: RatioConsensus,
    width: usize,
    round: u32,
    /// The label of the view with which the present state was computed.
    label: u64,
    view: View,
    roles: Roles,
    /// The newest running sums of each neighbour that were taken.
    taken: BTreeMap<Party, Bytes>,
    window: Option<Window>,
    best: Option<Verified>,
}

impl Fallback {
    /// Begins with this node's own opening; [`Fallback::message`] has the first message.
    pub fn new(ratio: RatioConsensus, width: usize, view: View, roles: Roles) -> Self {
        let label = view.label();
        let mut fallback = Fallback {
            ratio,
            width,
            round: 0,
            label,
            view,
            roles,
            taken: BTreeMap::new(),
            window: None,
            best: None,
        };
        fallback.ratio.give(fallback.roles.live.len());
        fallback
    }

    /// The round whose messages are needed next.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Bytes of a message's vector.
    pub fn length(&self) -> usize {
        self.ratio.state().len() * self.width
    }

    /// The cut edges that it knows of.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// What follows from them.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// The newest verified mean of the present view.
    pub fn best(&self) -> Option<&Verified> {
        self.best.as_ref()
    }

    /// More edges are cut. `ratio` has what this node now enters for others.
    pub fn change(
        &mut self,
        view: View,
        roles: Roles,
        enter: impl FnOnce(&mut RatioConsensus, &Roles, &Roles),
    ) {
        enter(&mut self.ratio, &self.roles, &roles);
        self.taken.retain(|party, _| roles.live.contains(party));
        self.window = None;
        self.best = None;
        (self.view, self.roles) = (view, roles);
    }

    /// The present round's message: label, spread and running sums. None: they do not fit, which no
    /// honest run comes to.
    pub fn message(&self) -> Option<(u64, f64, Vec<u8>)> {
        let mut bytes = vec![0; self.length()];
        let spread = self.window.as_ref().map_or(f64::INFINITY, |window| window.worst);
        self.ratio
            .write(self.width, &mut bytes)
            .then_some((self.label, spread, bytes))
    }

    fn opens_window(&self) -> bool {
        self.round.is_multiple_of(self.roles.diameter + 1)
    }

    fn ends_window(&self) -> bool {
        (self.round + 1).is_multiple_of(self.roles.diameter + 1)
    }

    /// Takes the messages of the present round from every live neighbour, and moves on to the next.
    /// A verified mean, if a window ended with one.
    pub fn step(&mut self, messages: BTreeMap<Party, Said>) -> Option<&Verified> {
        let same = self.label == self.view.label() && messages.values().all(|said| said.view == self.label);
        if self.opens_window() {
            let apart = |(party, said): (&Party, &Said)| {
                self.ratio.apart(
                    self.taken.get(party).map(|bytes| &bytes[..]),
                    &said.sums,
                    self.width,
                )
            };
            let worst = messages.iter().map(apart).fold(0.0, f64::max);
            let mean = self.ratio.mean();
            let worst = if same && mean.is_some() {
                worst
            } else {
                f64::INFINITY
            };
            self.window = Some(Window {
                label: self.label,
                worst,
                mean: mean.unwrap_or_default(),
            });
        } else if let Some(window) = &mut self.window {
            let heard = messages.values().map(|said| {
                if said.spread >= 0.0 {
                    said.spread
                } else {
                    f64::INFINITY
                }
            });
            window.worst = heard.fold(window.worst, f64::max);
            if !same || window.label != self.label {
                window.worst = f64::INFINITY;
            }
        }
        let ended = if self.ends_window() {
            self.window.take()
        } else {
            None
        };
        self.taken = messages
            .into_iter()
            .map(|(party, said)| (party, said.sums))
            .collect();
        self.ratio
            .receive(self.taken.values().map(|bytes| &bytes[..]), self.width);
        self.label = self.view.label();
        self.round += 1;
        self.ratio.give(self.roles.live.len());
        let window = ended.filter(|window| window.worst.is_finite() && window.label == self.label)?;
        // Rounding of the result to whole steps, and of its f64: less than a unit.
        let bound = window.worst * f64::from(self.roles.diameter) + 1.0;
        self.best = Some(Verified {
            mean: window.mean,
            bound,
        });
        self.best.as_ref()
    }
}
