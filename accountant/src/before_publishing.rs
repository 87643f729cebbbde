//! What leaves a party before anything can be withheld (DESIGN section 3, Before publishing). The gate cannot call shares back.

use undertone_protocol::injection::Injection;
use undertone_protocol::mixing::Party;

use crate::account::scaled;
use crate::class::in_parallel;
use crate::coalitions;
use crate::execution::{ExecutionError, InjectionSpec, NamedInjection};
use crate::faults::cut_off;
use crate::loss::{Noise, squared_losses};
use crate::setting::Setting;
use crate::view::{Trace, View, seen_states};

/// Every party cut off from all that do not collude, against every coalition.
pub struct BeforePublishing {
    views: Vec<(Party, View)>,
}

impl BeforePublishing {
    /// The views of the shares that a party cut off from all honest ones sends to each coalition of `colluding` parties; none above
    /// [`coalitions::MOST_PARTIES`] parties or [`coalitions::MOST_CASES`] views.
    pub fn of(setting: &Setting) -> Result<Option<Self>, ExecutionError> {
        let (parties, size) = (setting.parties(), setting.colluding);
        if parties > coalitions::MOST_PARTIES || size >= parties {
            return Ok(None);
        }
        let base = setting.fault_free()?;
        let coalitions = coalitions::all(parties, size);
        if parties * coalitions.len() > coalitions::MOST_CASES {
            return Ok(None);
        }
        let pairs: Vec<(Party, &Vec<Party>)> = (0..parties)
            .flat_map(|party| coalitions.iter().filter(move |c| !c.contains(&party)).map(move |c| (party, c)))
            .collect();
        let views = in_parallel(pairs.len(), |index| {
            let (party, coalition) = pairs[index];
            Some(cut_off(&base, party, coalition).map(|execution| {
                let seen = seen_states(&execution);
                let mine = |who: Party, round: u32| who == party && seen.contains(&(who, round));
                let trace = Trace::keeping(&execution, &setting.weights, mine);
                let rows: Vec<&[f64]> =
                    seen.iter().filter(|(who, _)| *who == party).filter_map(|&(who, t)| trace.state(who, t)).collect();
                // Nothing of it ever reaches an honest party and nothing of theirs reaches it: only its own unknowns matter.
                (party, View::from_rows(&rows, vec![party], parties, setting.rounds()))
            }))
        });
        Ok(Some(BeforePublishing { views: views.into_iter().collect::<Result<_, _>>()? }))
    }

    /// How many views there are.
    pub fn cases(&self) -> usize {
        self.views.len()
    }

    /// The largest μ² at σ* = 1 and r = σ_Δ²/σ*², and whose it is.
    pub fn worst(&self, setting: &Setting, ratio: f64) -> (f64, Party) {
        let noise = Noise { independent_std: 1.0, correlated_std: ratio.sqrt() };
        let losses =
            self.views.iter().map(|(party, view)| (scaled(setting.sensitivity[*party], squared_losses(view, noise)[0]), *party));
        losses.fold((0.0, 0), |worst, loss| if loss.0 > worst.0 { loss } else { worst })
    }
}

/// The theorem, for any coalition and any faults: μ² at σ* = 1 and Δ = 1.
///
/// Until its final, a party lets nothing leave but functions of what it injected before round T: even one that knows each of these
/// injections, c_t x̃ + Z_t η, t < T, sees x̃ through noise that is still out. For D_Inc the sums of the first t + 1 are
/// (t + 1)/(T + 1) x̃ + η_{t+1}, independent noises: μ² = 1/(σ*² + σ_Δ²/Σ_{t≤T}(t/(T + 1))²). For D_EI all but one of the noises
/// are seen: 1/(σ*² + σ_Δ²). For any (c, Z) it is the loss of that view.
pub fn theorem(injection: &InjectionSpec, rounds: usize, ratio: f64) -> Result<f64, ExecutionError> {
    match injection {
        InjectionSpec::Named(NamedInjection::Incremental) => {
            let last = rounds as f64 + 1.0;
            let precision: f64 = (1..=rounds).map(|t| (t as f64 / last).powi(2)).sum();
            Ok(1.0 / (1.0 + ratio / precision))
        }
        InjectionSpec::Named(NamedInjection::Early) => Ok(1.0 / (1.0 + ratio)),
        InjectionSpec::Custom(custom) => {
            let refused = |error: undertone_protocol::injection::InjectionError| ExecutionError::Invalid {
                place: "injection".into(),
                problem: error.to_string(),
            };
            let injection = Injection::custom(custom.c.clone(), custom.z.clone()).map_err(refused)?;
            Ok(seen_injections(&injection, ratio))
        }
    }
}

/// The loss of {c_t x̃ + Z_t η, t < T}: sums of them are functions of them and see no more.
fn seen_injections(injection: &Injection<f64>, ratio: f64) -> f64 {
    let rounds = injection.rounds();
    let rows: Vec<Vec<f64>> =
        (0..rounds).map(|t| std::iter::once(injection.c()[t]).chain(injection.z(t).iter().copied()).collect()).collect();
    let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
    squared_losses(&View::from_rows(&rows, vec![0], 1, rounds), Noise { independent_std: 1.0, correlated_std: ratio.sqrt() })[0]
}

#[cfg(test)]
mod tests {
    use undertone_protocol::graph::Graph;
    use undertone_protocol::schedule::Schedule;

    use super::*;

    #[test]
    fn a_cut_off_party_loses_what_its_execution_says() {
        let schedule = Schedule::draw(&Graph::complete(5), 1, 4, 5).expect("enough neighbours");
        let setting = Setting {
            injection: InjectionSpec::Named(NamedInjection::Incremental),
            out: schedule.out().to_vec(),
            sensitivity: vec![1.0; 5],
            weights: vec![1.0; 5],
            colluding: 2,
            dropouts: 0,
            rollback: true,
        };
        let base = setting.fault_free().expect("a schedule");
        let before = BeforePublishing::of(&setting).expect("executions").expect("few");
        assert_eq!(before.cases(), 5 * 6);
        let noise = Noise { independent_std: 1.0, correlated_std: 3.0 };
        let mut worst = 0.0f64;
        for coalition in coalitions::all(5, 2) {
            for party in (0..5).filter(|party| !coalition.contains(party)) {
                let view = View::of(&cut_off(&base, party, &coalition).expect("an execution"));
                // Nobody else loses more in that execution than it does when cut off itself: hence the maximum over all.
                worst = squared_losses(&view, noise).into_iter().fold(worst, f64::max);
            }
        }
        let found = before.worst(&setting, 9.0).0;
        assert!((found / worst - 1.0).abs() < 1e-12, "{found} {worst}");
        assert!(found > 0.0 && found <= theorem(&setting.injection, 4, 9.0).expect("closed form"));
    }

    #[test]
    fn closed_forms_are_the_losses_of_their_views() {
        for rounds in [1, 2, 5, 9] {
            for ratio in [0.01, 1.0, 40.0] {
                for (named, injection) in [
                    (NamedInjection::Incremental, Injection::incremental(rounds)),
                    (NamedInjection::Early, Injection::early(rounds)),
                ] {
                    let closed = theorem(&InjectionSpec::Named(named), rounds, ratio).expect("closed form");
                    let view = seen_injections(&injection, ratio);
                    assert!((closed / view - 1.0).abs() < 1e-10, "{named:?} {rounds} {ratio}: {closed} {view}");
                }
            }
        }
    }
}
