//! The conditions that must hold after every event, and at the end.

use super::*;
use crate::lattice::grid::LatticeWeight;
use crate::topology::multi_gossip::MultiGossip;
use crate::topology::schedule::Schedule;

impl Simulation<'_> {
    /// Mass and weight over all nodes, the crashed ones included, after an event that has reached
    /// `party`. Public frames leave its state alone as a rule.
    pub(super) fn check_sums(&mut self, party: Party, thorough: bool) {
        // What is sealed for circles is no share, and no state is handed on.
        if self.settled || self.plan.reads_circles() {
            return;
        }
        let nodes = &self.nodes;
        let node = |party: Party| Some((nodes[party].task.release().holdings()?, &nodes[party].ledger));
        // Who leaves takes its state with it, of which others have shares: sums end here.
        if self.nodes[party].outcome.is_some() && node(party).is_none() && self.balance.holds(party) {
            self.settled = true;
            return;
        }
        let at = self.now.as_millis();
        for violation in self.balance.event(party, thorough, node) {
            self.violations.push(Violation {
                text: format!("at {at} ms: {}", violation.text),
                ..violation
            });
            self.settled = true;
        }
    }

    /// The schedule that shares follow where outer iterations come one after another: that of each,
    /// in so many rounds as it has at most.
    pub(super) fn schedule_of_outer(plan: &Plan) -> Option<Schedule> {
        let outer = plan.draft().computation.recursion()?;
        let most = outer.gossip_iterations as usize;
        let rounds = (0..outer.iterations).flat_map(|iteration| {
            let seed = plan.schedule_seed().unwrap_or(0).wrapping_add(iteration);
            let drawn = MultiGossip::draw(&plan.draft().private_graph, most, seed);
            let schedule = drawn.expect("a checked plan").schedule();
            let sends = |round: usize, party: Party| schedule.sends_to(round as u32, party).to_vec();
            let of_round = |round| (0..plan.parties()).map(|party| sends(round, party)).collect();
            (1..=most).map(of_round).collect::<Vec<Vec<Vec<Party>>>>()
        });
        Some(Schedule::from_out(rounds.collect()))
    }

    pub(super) fn spend(&mut self, party: Party) {
        let violation = self.checks_of_present(party).spend(party);
        self.violations.extend(violation);
        if let Some((number, members)) = self.nodes[party].task.release().start() {
            let violation = self.begun.begins(party, number, members.clone()).err();
            self.violations.extend(violation);
        }
        let (at, input) = (self.after_work(), Input::Spent(Ok(())));
        self.schedule(at, Occurrence::Input { party, input });
    }

    /// These did not hold of a public frame. Computations as in the paper say their states to
    /// everybody.
    pub(super) fn broken_in_public(&mut self, violations: Vec<Violation>) {
        if self.plan.draft().computation.recursion().is_none() {
            self.violations.extend(violations);
        }
    }

    /// Whether nobody publishes: each node has estimates of its own.
    pub(super) fn gossips(&self) -> bool {
        self.plan.draft().averages()
    }

    pub(super) fn finish(mut self) -> Report {
        let outcomes = self.nodes.iter().enumerate();
        let outcomes =
            outcomes.filter_map(|(party, node)| node.outcome.as_ref().map(|(_, outcome)| (party, outcome)));
        let one = self.plan.draft().releases() == 1 && !self.gossips();
        // Computations as in the paper end with an iterate of each party's own.
        let common = !self.gossips() && self.plan.draft().computation.recursion().is_none();
        let outcomes = outcomes.filter(|_| common);
        let mut violations: Vec<Violation> = agreed::check(outcomes).err().into_iter().collect();
        let running = |node: &Node| matches!(node.status, Status::Up) && node.outcome.is_none();
        for (party, _) in self.nodes.iter().enumerate().filter(|(_, node)| running(node)) {
            violations.push(Violation::new(
                "liveness",
                format!("party {party} never finished"),
            ));
        }
        let over = self.nodes.iter().enumerate();
        let over = over.filter(|(_, node)| node.outcome.is_some() && node.task.keeps_secrets());
        violations.extend(over.map(|(party, _)| {
            let text = format!("party {party} has ended and has keys of masks");
            Violation::new("wiped", text)
        }));
        violations.extend(self.check_finals());
        let outcomes = self.nodes.iter().filter_map(|node| node.outcome.as_ref());
        // Of a training only the last iteration's outcomes are known.
        if one {
            let checks = self.checks.get(&1);
            violations.extend(checks.and_then(|checks| checks.finish(outcomes.map(|(_, outcome)| outcome))));
        }
        self.violations.append(&mut violations);
        Report {
            finished_at: self
                .nodes
                .iter()
                .map(|node| node.outcome.as_ref().map(|(at, _)| *at))
                .collect(),
            shares_left: self.nodes.iter().map(|node| node.shares_left).collect(),
            bytes: self.nodes.iter().map(|node| node.bytes).collect(),
            purposes: self.purposes,
            outcomes: self
                .nodes
                .into_iter()
                .map(|node| node.outcome.map(|(_, outcome)| outcome))
                .collect(),
            noised: self.noised,
            private: self.private,
            events: self.events,
            trace: self.trace,
            violations: self.violations,
        }
    }

    /// After roll-back, the finals of all who may publish add up to their x̃, to the bit, and their
    /// weights to their own.
    pub(super) fn check_finals(&self) -> Vec<Violation> {
        if self.gossips() {
            return self.check_estimates();
        }
        if self.plan.draft().releases() > 1 {
            return self.check_models();
        }
        if !self.plan.draft().exchange.rolls_back() {
            return Vec::new();
        }
        let mut violations = Vec::new();
        let lies = self
            .conditions
            .equivocation
            .as_ref()
            .filter(|it| it.stage == Stage::Publishing)
            .map(|it| it.party);
        for (_, outcome) in self.nodes.iter().filter_map(|node| node.outcome.as_ref()) {
            let publishers = outcome
                .verdict
                .as_ref()
                .and_then(|verdict| verdict.publish.as_ref());
            // The set may have chosen the version that is a lie.
            let honest = lies.is_none_or(|party| !outcome.included.contains(&party));
            if let Some(sum) = outcome
                .sum
                .as_ref()
                .filter(|_| honest && publishers == Some(&outcome.included))
            {
                let noised = outcome.included.iter().map(|&party| &self.noised[party]);
                violations.extend(match &outcome.accuracy {
                    None => mass::check([&sum.value], noised).err(),
                    Some(accuracy) => mass::check_average(&sum.value, noised, accuracy.steps).err(),
                });
                let own = outcome
                    .included
                    .iter()
                    .map(|&party| match self.plan.lattice().ring() {
                        Some(_) => LatticeWeight(self.plan.weight_units(party).into()),
                        None => self.nodes[party].ledger.own_weight(),
                    });
                violations.extend(weight::check([sum.weight], own).err());
            }
        }
        violations
    }
}
