//! Invariant 3: all nodes that say `agreed` name the same set and hold the same bits (where finals
//! are averaged: are as close to each other as they say; of a training the same model); all that
//! publish computed their gate from the same logs. (protocol/docs/phases.md)

use crate::run::outcome::Outcome;
use crate::simulator::invariants::mass;
use crate::simulator::invariants::violation::Violation;
use crate::topology::party::Party;

/// Checks all outcomes of one run, each with its party.
pub fn check<'a>(outcomes: impl IntoIterator<Item = (Party, &'a Outcome)>) -> Result<(), Violation> {
    let outcomes: Vec<(Party, &Outcome)> = outcomes.into_iter().collect();
    let mut agreed = outcomes.iter().filter(|(_, outcome)| outcome.agreed);
    if let Some((first, one)) = agreed.next() {
        for (party, other) in agreed {
            if one.included != other.included {
                return Err(Violation::new(
                    "agreed",
                    format!("parties {first} and {party} agreed on different sets"),
                ));
            }
            if result(one) != result(other) {
                return Err(Violation::new(
                    "agreed",
                    format!("parties {first} and {party} hold different models"),
                ));
            }
            if let (Some(a), Some(b)) = (&one.sum, &other.sum) {
                let steps =
                    one.accuracy.map_or(0.0, |it| it.steps) + other.accuracy.map_or(0.0, |it| it.steps);
                if a.weight != b.weight || mass::largest_difference(&a.value, &b.value) > steps {
                    return Err(Violation::new(
                        "agreed",
                        format!("parties {first} and {party} hold different bits"),
                    ));
                }
            }
        }
    }
    let mut audited = outcomes.iter().filter(|(_, outcome)| outcome.verdict.is_some());
    if let Some((first, one)) = audited.next() {
        for (party, other) in audited {
            // The logs are those of the last iteration that each has followed.
            let together = iterations(one) == iterations(other);
            if together && one.logs != other.logs {
                return Err(Violation::new(
                    "agreed",
                    format!("parties {first} and {party} audited different logs"),
                ));
            }
        }
    }
    Ok(())
}

/// Returns the result of a training: public, and equal for all who agree.
fn result(outcome: &Outcome) -> Option<&[f64]> {
    outcome.training.as_ref()?.result.as_deref()
}

fn iterations(outcome: &Outcome) -> Option<u64> {
    Some(outcome.training.as_ref()?.iterations)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    use super::*;
    use crate::lattice::grid::LatticeWeight;
    use crate::messages::log::{AgreedLogs, Log};
    use crate::mixing::exchange::Tally;
    use crate::publishing::result::Accuracy;
    use crate::publishing::result::Sum;
    use crate::run::outcome::Ending;
    use crate::run::outcome::GateVerdict;
    use crate::run::outcome::TrainingOutcome;
    use crate::simulator::cluster::tests::{integers, plan};

    fn outcome(first: i128) -> Outcome {
        let plan = plan(4, "", 3);
        Outcome {
            ending: Ending::Done,
            started: BTreeSet::new(),
            started_at: None,
            schedule_seed: None,
            records: Default::default(),
            logs: Some(Arc::new(AgreedLogs::new())),
            own_log: None,
            verdict: Some(GateVerdict {
                publish: Some(BTreeSet::new()),
                reason: String::new(),
            }),
            included: BTreeSet::from([0, 1]),
            agreed: true,
            sum: Some(Sum {
                value: integers(&plan, &[first, 2]),
                weight: LatticeWeight(2),
            }),
            accuracy: None,
            sealed: None,
            opened_for: Vec::new(),
            unopened: Vec::new(),
            out_of_range: false,
            training: None,
            gossip: None,
            tally: Tally::default(),
        }
    }

    #[test]
    fn different_sets_bits_and_logs_are_seen() {
        let good = outcome(1);
        let against = |change: &dyn Fn(&mut Outcome)| {
            let mut bad = outcome(1);
            change(&mut bad);
            check([(0, &good), (1, &bad)])
        };
        assert_eq!(against(&|_| ()), Ok(()));
        assert!(against(&|bad| bad.included = BTreeSet::from([0])).is_err());
        assert_eq!(
            against(&|bad| (bad.included, bad.agreed) = (BTreeSet::from([0]), false)),
            Ok(()),
            "it does not claim agreement"
        );
        assert!(check([(0, &good), (1, &outcome(2))]).is_err());
        assert!(against(&|bad| bad.sum.as_mut().expect("there").weight = LatticeWeight(3)).is_err());
        let near = |steps: f64| {
            let accuracy = Some(Accuracy {
                steps,
                standard_errors: 0.1,
                apart: 0.2,
            });
            let averaged = |first| Outcome {
                accuracy,
                ..outcome(first)
            };
            let grid = plan(4, "", 3).lattice().value_grid() as f64;
            check([
                (0, &averaged(1)),
                (
                    1,
                    &Outcome {
                        accuracy: accuracy.map(|a| Accuracy {
                            steps: steps * grid,
                            ..a
                        }),
                        ..averaged(2)
                    },
                ),
            ])
        };
        assert_eq!(near(1.0), Ok(()), "averages that are as close as they say");
        assert!(near(0.5).is_err());
        assert!(against(&|bad| bad.logs = Some(Arc::new(AgreedLogs::from([(0, Log::default())])))).is_err());
    }

    #[test]
    fn who_fell_out_of_a_training_holds_another_model_and_may_not_say_agreed() {
        let trained = |iterations: u64, model: f64| Outcome {
            training: Some(TrainingOutcome {
                iterations,
                mixings: 0,
                spent: iterations,
                corrected: vec![],
                rejected: vec![],
                unopened: Default::default(),
                departed: BTreeMap::new(),
                stopped: None,
                result: Some(vec![model]),
            }),
            logs: Some(Arc::new(AgreedLogs::from([(
                iterations as Party,
                Log::default(),
            )]))),
            ..outcome(1)
        };
        let (whole, prefix) = (trained(6, 2.0), trained(4, 1.0));
        let against = |other: &Outcome| check([(0, &whole), (1, other)]);
        assert!(against(&prefix).is_err());
        assert!(against(&trained(6, 1.0)).is_err());
        assert_eq!(against(&trained(6, 2.0)), Ok(()));
        let silent = Outcome {
            agreed: false,
            ..prefix
        };
        assert_eq!(against(&silent), Ok(()));
    }
}
