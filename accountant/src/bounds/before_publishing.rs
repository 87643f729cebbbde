//! What leaves a party before anything can be withheld (accountant/docs/guarantees.md). The gate
//! cannot call shares back.
//!
//! What holds is the mechanism's [`theorem`]: any coalition, any faults. Beside it stands what a
//! party loses that is cut off from all honest ones: one pattern of faults, which says how far the
//! theorem may be from the truth. Other patterns lose more, so that it is no bound.

use std::collections::BTreeMap;

use undertone_protocol::topology::party::Party;

use crate::class::coalitions;
use crate::class::faults::cut_off;
use crate::class::setting::Setting;
use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::execution::seen::seen_states;
use crate::execution::trace::Trace;
use crate::losses::loss::{Noise, scaled, squared_losses};
use crate::losses::view::View;
use crate::parallel::in_parallel;

/// Kinds of views that are computed at most. Our choice: a second for 16 parties.
const MOST_VIEWS: usize = 2_000;

/// Every party cut off from all that do not collude, against every coalition: a search over one
/// pattern of faults, never a bound.
pub struct BeforePublishing {
    worst: Leaking,
    cases: usize,
}

/// What lets most out of each party.
enum Leaking {
    /// INCA: a view of each kind.
    Views(Vec<CutOff>),
    /// PPSC: how often a party hands out to the coalition that it hands out to most, and that
    /// coalition ([`theorem`]).
    HandOuts(Vec<(usize, Vec<Party>)>),
}

/// What a party that is cut off from all others lets a coalition see.
struct CutOff {
    party: Party,
    coalition: Vec<Party>,
    view: View,
}

/// To how many a party sends in each round, and how many of these collude.
type Pattern = Vec<(usize, usize)>;

impl BeforePublishing {
    /// The views of the shares that a party cut off from all honest ones sends to each coalition of
    /// `colluding` parties; none with more parties than are computed, or with too many kinds.
    ///
    /// What comes back from the coalition is a function of what it saw before, so that a loss
    /// depends on the rounds in which the coalition is sent to, and on nothing else: one view
    /// stands for all parties and coalitions of a `Pattern`.
    pub fn of(setting: &Setting) -> Result<Option<Self>, ExecutionError> {
        let (parties, size) = (setting.parties(), setting.colluding);
        let few = size < parties && parties <= coalitions::MOST_PARTIES;
        let Some(count) = coalitions::count(parties.saturating_sub(1), size).filter(|_| few) else {
            return Ok(None);
        };
        let cases = parties.saturating_mul(count);
        if setting.mechanism.rules().cut_off_by_closed_form() {
            let worst = Leaking::HandOuts(
                (0..parties)
                    .map(|party| most_handed_out(setting, party))
                    .collect(),
            );
            return Ok(Some(BeforePublishing { worst, cases }));
        }
        // One view of each kind.
        let Some(patterns) = patterns(setting) else {
            return Ok(None);
        };
        let base = setting.fault_free()?;
        let pairs: Vec<(Party, Vec<Party>)> = patterns.into_values().collect();
        let views = in_parallel(pairs.len(), |index| {
            let (party, coalition) = &pairs[index];
            Some(view(setting, &base, *party, coalition))
        });
        let views = views.into_iter().zip(pairs);
        let views = views.map(|(view, (party, coalition))| {
            view.map(|view| CutOff {
                party,
                coalition,
                view,
            })
        });
        Ok(Some(BeforePublishing {
            worst: Leaking::Views(views.collect::<Result<_, _>>()?),
            cases,
        }))
    }

    /// How many parties and coalitions there are.
    pub fn cases(&self) -> usize {
        self.cases
    }

    /// The largest squared loss, sensitivity included, at own noise σ* = 1 and r = σ_Δ²/σ*² =
    /// `ratio`, and whose it is.
    pub fn worst(&self, setting: &Setting, ratio: f64) -> (f64, Party) {
        let (square, party, _) = self.largest(setting, ratio);
        (square, party)
    }

    /// The largest loss μ at this noise; with PPSC σ* may be 0.
    pub fn worst_loss(&self, setting: &Setting, noise: Noise) -> f64 {
        match &self.worst {
            Leaking::Views(_) => {
                self.worst(setting, (noise.correlated_std / noise.independent_std).powi(2))
                    .0
                    .sqrt()
                    / noise.independent_std
            }
            Leaking::HandOuts(each) => {
                let (rules, rounds) = (setting.mechanism.rules(), setting.rounds());
                // Doubt counts as seen.
                let loss = |(party, (seen, _)): (Party, &(usize, Vec<Party>))| {
                    rules
                        .loss_before_publishing(rounds, *seen, setting.sensitivity[party], noise)
                        .unwrap_or(f64::INFINITY)
                };
                each.iter().enumerate().map(loss).fold(0.0, f64::max)
            }
        }
    }

    /// The execution of that loss, its coalition as `corrupted`, and whose it is; none if nobody
    /// loses anything.
    pub fn worst_execution(
        &self,
        setting: &Setting,
        ratio: f64,
    ) -> Result<Option<(Execution, Party)>, ExecutionError> {
        let (_, party, Some(coalition)) = self.largest(setting, ratio) else {
            return Ok(None);
        };
        Ok(Some((cut_off(&setting.fault_free()?, party, coalition)?, party)))
    }

    /// The largest loss, whose it is, and the coalition; none if nobody loses anything.
    fn largest(&self, setting: &Setting, ratio: f64) -> (f64, Party, Option<&[Party]>) {
        let noise = Noise {
            independent_std: 1.0,
            correlated_std: ratio.sqrt(),
        };
        let worse =
            |worst: (f64, Party, _), loss: (f64, Party, _)| if loss.0 > worst.0 { loss } else { worst };
        match &self.worst {
            Leaking::Views(views) => {
                let loss = |cut: &CutOff| {
                    scaled(
                        setting.sensitivity[cut.party],
                        squared_losses(&cut.view, noise)[0],
                    )
                };
                views
                    .iter()
                    .map(|cut| (loss(cut), cut.party, Some(cut.coalition.as_slice())))
                    .fold((0.0, 0, None), worse)
            }
            Leaking::HandOuts(each) => {
                let (rules, rounds) = (setting.mechanism.rules(), setting.rounds());
                let loss = |party: Party, seen: usize| {
                    let square = rules.square_before_publishing(rounds, seen, ratio);
                    scaled(setting.sensitivity[party], square.unwrap_or(f64::INFINITY))
                };
                let losses = each.iter().enumerate();
                losses
                    .map(|(party, (seen, coalition))| (loss(party, *seen), party, Some(coalition.as_slice())))
                    .fold((0.0, 0, None), worse)
            }
        }
    }
}

/// How often `party` hands out to the coalition that it hands out to most, and that coalition: its
/// receivers by how often they receive.
fn most_handed_out(setting: &Setting, party: Party) -> (usize, Vec<Party>) {
    let mut received = vec![0usize; setting.parties()];
    setting
        .out
        .iter()
        .flat_map(|round| &round[party])
        .for_each(|&to| received[to] += 1);
    let mut order: Vec<Party> = (0..setting.parties()).filter(|&other| other != party).collect();
    order.sort_by_key(|&other| (std::cmp::Reverse(received[other]), other));
    order.truncate(setting.colluding);
    (order.iter().map(|&other| received[other]).sum(), order)
}

/// For each pattern the most sensitive party that has it, and a coalition. Only coalitions that
/// hold as many of its receivers as they can: those see most.
fn patterns(setting: &Setting) -> Option<BTreeMap<Pattern, (Party, Vec<Party>)>> {
    let mut patterns: BTreeMap<Pattern, (Party, Vec<Party>)> = BTreeMap::new();
    for party in 0..setting.parties() {
        // Who may be in a coalition that sees most: as many receivers as it holds, then anybody.
        let mut receivers: Vec<Party> = setting
            .out
            .iter()
            .flat_map(|round| round[party].iter().copied())
            .collect();
        receivers.sort_unstable();
        receivers.dedup();
        let size = setting.colluding.min(receivers.len());
        let strangers = (0..setting.parties()).filter(|other| *other != party && !receivers.contains(other));
        let rest: Vec<Party> = strangers.take(setting.colluding - size).collect();
        for chosen in coalitions::all(receivers.len(), size) {
            let coalition: Vec<Party> = chosen
                .into_iter()
                .map(|index| receivers[index])
                .chain(rest.iter().copied())
                .collect();
            let of_round = |round: &Vec<Vec<Party>>| {
                let out = &round[party];
                (out.len(), out.iter().filter(|to| coalition.contains(to)).count())
            };
            let pattern = setting.out.iter().map(of_round).collect();
            let known = patterns.get(&pattern);
            if known.is_none_or(|(other, _)| setting.sensitivity[party] > setting.sensitivity[*other]) {
                patterns.insert(pattern, (party, coalition));
            }
        }
        if patterns.len() > MOST_VIEWS {
            return None;
        }
    }
    Some(patterns)
}

/// What a coalition sees of a party that is cut off.
fn view(
    setting: &Setting,
    base: &Execution,
    party: Party,
    coalition: &[Party],
) -> Result<View, ExecutionError> {
    let execution = cut_off(base, party, coalition)?;
    let seen = seen_states(&execution);
    let trace = Trace::keeping(&execution, &setting.weights, |who, round| {
        who == party && seen.contains(&(who, round))
    });
    let rows: Vec<&[f64]> = seen
        .iter()
        .filter(|(who, _)| *who == party)
        .filter_map(|&(who, t)| trace.state(who, t))
        .collect();
    // Nothing of it ever reaches an honest party and nothing of theirs reaches it: only its own
    // unknowns matter.
    Ok(View::from_rows(&rows, vec![party], |party| trace.noises(party)))
}

/// The mechanism's theorem for one party, any coalition and any faults: its squared loss before
/// publishing, at own noise σ* = 1, r = σ_Δ²/σ*² = `ratio` and unit sensitivity.
pub fn theorem(setting: &Setting, party: Party, ratio: f64) -> Result<f64, ExecutionError> {
    let hand_outs = setting.hand_outs(party);
    Ok(setting
        .mechanism
        .rules()
        .square_before_publishing(setting.rounds(), hand_outs, ratio)?)
}

/// The bound of [`theorem`] on the loss μ of one party, sensitivity included, at this noise; with
/// PPSC a party's own noise may be 0.
pub fn bound(setting: &Setting, party: Party, noise: Noise) -> Result<f64, ExecutionError> {
    let sensitivity = setting.sensitivity[party];
    if sensitivity == 0.0 {
        return Ok(0.0);
    }
    let hand_outs = setting.hand_outs(party);
    Ok(setting
        .mechanism
        .rules()
        .loss_before_publishing(setting.rounds(), hand_outs, sensitivity, noise)?)
}

/// The largest bound of [`theorem`] over all parties, squared sensitivity included, at own noise
/// σ* = 1.
pub fn largest_theorem(setting: &Setting, ratio: f64) -> Result<f64, ExecutionError> {
    let of_party = |party: Party| {
        Ok(scaled(
            setting.sensitivity[party],
            theorem(setting, party, ratio)?,
        ))
    };
    (0..setting.parties())
        .map(of_party)
        .try_fold(0.0, |largest: f64, square: Result<f64, ExecutionError>| {
            Ok(largest.max(square?))
        })
}

#[cfg(test)]
mod tests {
    use undertone_protocol::topology::graph::Graph;
    use undertone_protocol::topology::schedule::Schedule;

    use super::*;
    use crate::mechanism::inca::{InjectionSpec, NamedInjection};

    #[test]
    fn a_cut_off_party_loses_what_its_execution_says() {
        let schedule = Schedule::draw(&Graph::complete(5), 1, 4, 5).expect("enough neighbours");
        let setting = Setting {
            mechanism: InjectionSpec::Named(NamedInjection::Incremental).into(),
            out: schedule.out().to_vec(),
            sensitivity: vec![0.8, 1.0, 0.9, 1.0, 0.7],
            weights: vec![1.0; 5],
            colluding: 2,
            dropouts: 0,
            rollback: true,
            uniform: false,
            drawn_share_faults: None,
        };
        let base = setting.fault_free().expect("a schedule");
        let before = BeforePublishing::of(&setting).expect("executions").expect("few");
        assert_eq!(before.cases(), 5 * 6);
        let noise = Noise {
            independent_std: 1.0,
            correlated_std: 3.0,
        };
        let mut worst = 0.0f64;
        for coalition in coalitions::all(5, 2) {
            for party in (0..5).filter(|party| !coalition.contains(party)) {
                let view = View::of(&cut_off(&base, party, &coalition).expect("an execution"));
                // Nobody else loses more in that execution than it does when cut off itself: hence
                // the maximum over all.
                let losses = squared_losses(&view, noise).into_iter().zip(&view.honest);
                worst = losses
                    .map(|(square, &who)| scaled(setting.sensitivity[who], square))
                    .fold(worst, f64::max);
            }
        }
        let found = before.worst(&setting, 9.0).0;
        assert!((found / worst - 1.0).abs() < 1e-12, "{found} {worst}");
        assert!(found > 0.0 && found <= largest_theorem(&setting, 9.0).expect("closed form"));
    }
}
