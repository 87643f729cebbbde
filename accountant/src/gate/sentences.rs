//! Sentences for the faults of a run.

use std::collections::BTreeSet;

use undertone_protocol::messages::log::{AgreedLogs, deniers};
use undertone_protocol::topology::party::Party;

use crate::execution::settled::exceptions;
use crate::execution::share::{Fate, ShareFault};
use crate::gate::plan_facts::Gate;

impl Gate<'_> {
    /// Says why members of the logs are not among those who publish; empty if all are.
    pub(super) fn left_out(&self, logs: &AgreedLogs, publish: &BTreeSet<Party>, why: &str) -> String {
        let deniers = deniers(logs);
        let names = |denied: bool| {
            let parties = logs.keys().filter(|party| !publish.contains(party));
            let parties = parties.filter(|party| deniers.contains(party) == denied);
            let names: Vec<&str> = parties.map(|&party| self.name(party)).collect();
            names.join(" and ")
        };
        let (denied, too_much) = (names(true), names(false));
        let revealed = [
            (denied.as_str(), format!("{denied} denied what it signed for")),
            (too_much.as_str(), format!("with {too_much} {why}")),
        ];
        let revealed = revealed.into_iter().filter(|(names, _)| !names.is_empty());
        revealed
            .map(|(_, sentence)| sentence)
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Returns the faults that the logs show, as sentences.
    pub(super) fn sentences(&self, logs: &AgreedLogs, publish: &BTreeSet<Party>) -> Vec<String> {
        let mut sentences = Vec::new();
        let deniers = deniers(logs);
        for party in 0..self.plan.parties() {
            if !logs.contains_key(&party) {
                sentences.push(format!(
                    "{} departed before the logs were agreed",
                    self.name(party)
                ));
            } else if deniers.contains(&party) {
                sentences.push(format!(
                    "{} was left out: its log denies a share that it signed for",
                    self.name(party)
                ));
            } else if !publish.is_empty() && !publish.contains(&party) {
                sentences.push(format!(
                    "{} was left out: with it the loss would exceed the budget",
                    self.name(party)
                ));
            }
        }
        for fault in exceptions(self.plan, logs) {
            let ShareFault {
                round,
                from,
                to,
                fate,
                applied,
                seen,
            } = fault;
            let (from, to, applied) = (self.name(from), self.name(to), applied.unwrap_or(round));
            sentences.push(match (fate, seen) {
                (Fate::Accepted, _) => {
                    format!("the share of round {round} from {from} to {to} was late: it counts in round {applied}")
                }
                (_, true) => {
                    format!("the share of round {round} from {from} went back unanswered from {to}, which may have read it")
                }
                (_, false) => format!("the share of round {round} from {from} never left for {to}"),
            });
        }
        sentences
    }
}
