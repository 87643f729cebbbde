//! The parts of a receipt that are computed again, and in words those that are not.
//!
//! A loss that is stated is never taken over: it is held against the execution, or against the
//! plan's noise where there is none. Which shares arrived, whether anything was opened and how much
//! has left only the run's own messages show; a receipt is its party's word for that.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Value, json};
use undertone_accountant::account::{inca, ppsc};
use undertone_accountant::bounds::static_draw::delta_of_noise;
use undertone_accountant::calibration::utility::error_of_whole;
use undertone_accountant::gate::decision::withheld;
use undertone_accountant::gate::plan_facts::delta_of;
use undertone_accountant::gate::stated::{StatedError, StatedExecution};
use undertone_accountant::losses::loss::Noise;
use undertone_accountant::losses::{gaussian, releases};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::choice::Computation;
use undertone_protocol::topology::party::Party;

use crate::commands::receipt::stated::{Stated, StatedEnd};
use crate::daemon::policy;
use crate::party::gossiped;
use crate::party::trained;
use crate::reporting::failure::Failure;
use crate::reporting::table::at_most;

/// How far a stated loss may be below the recomputed one: what two machines' arithmetic may differ
/// by, and more.
const ROUNDING: f64 = 1e-9;

/// A receipt's loss, computed again.
pub(super) struct Recomputed {
    /// μ, never above what the receipt states; none where nothing could be computed.
    pub(super) mu: Option<f64>,
    /// The parts that were not computed, in sentences.
    pub(super) unchecked: Vec<String>,
}

impl Recomputed {
    fn nothing(why: impl Into<String>) -> Self {
        Recomputed {
            mu: None,
            unchecked: vec![why.into()],
        }
    }

    /// The end of the line that says what was checked.
    pub(super) fn summary(&self) -> String {
        match self.mu {
            Some(mu) => format!("loss: computed again, μ is at least {}", at_most(mu)),
            None => "loss: NOT COMPUTED".to_owned(),
        }
    }
}

impl Stated {
    /// Computes the loss again, and refuses a receipt that states less, or that states one of which
    /// nothing shows where it comes from.
    pub(super) fn recompute(&self, plan: Option<&Plan>) -> Result<Recomputed, Failure> {
        let end = self.end()?;
        let party = self.word("party");
        if end == StatedEnd::Aborted {
            return self.recompute_aborted();
        }
        let unbounded = self.object["unbounded"] == true;
        if let Some(plan) = plan.filter(|_| !unbounded || !self.object["iterations"].is_null()) {
            self.check_iterations(plan, end)?;
        }
        if unbounded != self.object["mu"].is_null() || unbounded != self.object["epsilon"].is_null() {
            return Err(self.refused(
                "its mu and epsilon are null if and only if \"unbounded\" is true, unless the run was aborted",
            ));
        }
        if self.is_resumed() {
            return self.recompute_resumed(plan);
        }
        if self.gossips() {
            return self.recompute_gossip(plan);
        }
        if self.object["execution"].is_null() {
            return match unbounded {
                true => Ok(Recomputed::nothing(
                    "It states no loss: nothing bounds what the run tells, and nothing was computed.",
                )),
                false if self.is_free() => Ok(Recomputed::nothing(format!(
                    "That nothing of {party} has left is its word: no loss follows from what it says."
                ))),
                false => Err(self.refused("it states a loss and no execution that it follows from")),
            };
        }
        let mut unchecked = Vec::new();
        let (named, counted) = (self.loss_of_coalition()?, self.counted());
        let together = |mu: f64| counted.map_or(mu, |counted| releases::together(mu, counted));
        let mu = match plan {
            Some(plan) => {
                let drawn = self.drawn(plan, &mut unchecked)?;
                let stated = StatedExecution::read(&drawn, &self.object["execution"].to_string())
                    .map_err(|e| self.refused(e))?;
                let mu = together(self.loss_within(&drawn, &stated, end, &mut unchecked)?.max(named));
                match counted {
                    None => self.check_loss(mu, |mu| stated.epsilon(mu))?,
                    Some(_) => self.check_loss(mu, |mu| self.epsilon(mu))?,
                }
                mu
            }
            None => {
                let mu = together(self.loss_without_plan(end)?.max(named));
                self.check_loss(mu, |mu| self.epsilon(mu))?;
                mu
            }
        };
        unchecked.extend(self.taken_on_its_word(end, counted.is_some()));
        Ok(Recomputed {
            mu: Some(mu),
            unchecked,
        })
    }

    /// The statements about the run that nothing in the receipt proves.
    fn taken_on_its_word(&self, end: StatedEnd, counted: bool) -> Vec<String> {
        let party = self.word("party");
        let mut unchecked = Vec::new();
        if end == StatedEnd::Withheld {
            unchecked.push(format!(
                "That nothing of {party}'s own was read is its word: the execution is of a run in which no final is seen."
            ));
        } else if self.object["execution"]["kind"] != "pairwise" {
            unchecked.push(format!(
                "Which shares arrived is {party}'s word: the logs that say it are not in the receipt."
            ));
        }
        if self.object["records"].is_object() {
            unchecked.push(format!(
                "How many records each party contributed is {party}'s word: START fixed it."
            ));
        }
        if counted {
            unchecked.push(format!(
                "How many of its contributions have left is {party}'s word."
            ));
        }
        unchecked
    }

    /// A party that restarted in the middle of the run has no log, so that nothing shows what
    /// happened: it states what it was charged with before anything left. For one release that is
    /// no less than the plan's claims; of several it is its word how many have left.
    fn recompute_resumed(&self, plan: Option<&Plan>) -> Result<Recomputed, Failure> {
        if !self.object["execution"].is_null() || self.end()? != StatedEnd::Carried {
            return Err(
                self.refused("it says that its party restarted, and states what only one that did not has")
            );
        }
        let party = self.word("party");
        let mut unchecked = vec![format!(
            "{party} restarted in the middle of the run: that its result is the others' is its word, and who holds \
             another member's receipt can compare the two."
        )];
        let member = |plan: &Plan| {
            plan.draft()
                .members
                .iter()
                .position(|member| member.name == party)
        };
        let least = match plan {
            Some(plan) if self.object["iterations"].is_null() => {
                member(plan).map(|me| policy::charged_mu(plan, me))
            }
            _ => None,
        };
        let epsilon = |mu: f64| match plan {
            Some(plan) => gaussian::epsilon(delta_of(plan), mu).unwrap_or(f64::INFINITY),
            None => self.epsilon(mu),
        };
        match least {
            Some(least) if least.is_finite() => self.check_loss(least, epsilon)?,
            Some(_) if self.object["unbounded"] != true => {
                return Err(self.refused("it states a loss, and nothing bounds that of its plan"));
            }
            Some(_) => {}
            None => unchecked.push(format!(
                "How much of its budget {party} had spent before that is its word."
            )),
        }
        Ok(Recomputed {
            mu: least.filter(|least| least.is_finite()),
            unchecked,
        })
    }

    /// A run that did not begin has no loss, and states nothing that only one that began has.
    fn recompute_aborted(&self) -> Result<Recomputed, Failure> {
        let zero = |key: &str| self.number(key) == Some(0.0);
        let nothing = self.object["included"] == json!([])
            && self.object["execution"].is_null()
            && self.object["iterations"]["spent"].as_u64().unwrap_or(0) == 0
            && zero("mu")
            && zero("epsilon");
        if !nothing {
            return Err(
                self.refused("it says that the run was aborted, and states what only one that began has")
            );
        }
        let party = self.word("party");
        Ok(Recomputed::nothing(format!(
            "That nothing private left {party} is its word: no loss follows from what it says."
        )))
    }

    /// The ε of a loss at the δ that it states.
    fn epsilon(&self, mu: f64) -> f64 {
        gaussian::epsilon(self.number("delta").unwrap_or(f64::NAN), mu).unwrap_or(f64::INFINITY)
    }

    /// Whether it says that none of its contributions has left.
    fn is_free(&self) -> bool {
        self.object["iterations"]["spent"] == 0 && self.number("mu") == Some(0.0)
    }

    /// How many releases its loss is of; none of a single one. An execution is one release's.
    fn counted(&self) -> Option<u64> {
        let spent = self.object["iterations"]["spent"].as_u64()?;
        // Where one release of a stream may change, no two count.
        Some(match self.object["protect"] == "one" {
            true => spent.min(1),
            false => spent,
        })
    }

    /// How far it came is what a run of the plan can come to.
    fn check_iterations(&self, plan: &Plan, end: StatedEnd) -> Result<(), Failure> {
        let draft = plan.draft();
        let iterations = &self.object["iterations"];
        let repeats = !matches!(draft.computation, Computation::Mean {} | Computation::Describe(_));
        if !repeats {
            return match iterations.is_null() {
                true => Ok(()),
                false => Err(self.refused("it counts iterations, and its plan has none")),
            };
        }
        let [planned, run, spent] = ["planned", "run", "spent"].map(|key| iterations[key].as_u64());
        let (Some(planned), Some(run), Some(spent)) = (planned, run, spent) else {
            return Err(self.refused("it does not say how many iterations were planned, run and spent"));
        };
        let most = match draft.averages() {
            true => plan.rounds().into(),
            false => trained::planned(plan),
        };
        // Each that is in the result has cost this party; of gossip there are more rounds than
        // releases.
        let least = match draft.averages() {
            true => run.min(draft.releases()),
            // The others went on without it.
            false if self.is_resumed() => 0,
            false => run,
        };
        let whole = self.word("outcome") != "done" || run == planned;
        if planned == most && run <= planned && (least..=most).contains(&spent) && whole {
            return Ok(());
        }
        Err(self.refused(format!(
            "it says that {run} of {planned} iterations were run and {spent} have cost it, {} of a plan of {most}",
            match end {
                StatedEnd::Carried => "which is no end",
                StatedEnd::Withheld | StatedEnd::Aborted => "which no run comes to",
            }
        )))
    }

    /// The plan with the schedule that START drew, where it did, as the receipt names it.
    fn drawn<'a>(&self, plan: &'a Plan, unchecked: &mut Vec<String>) -> Result<Cow<'a, Plan>, Failure> {
        if !plan.draws_at_start() {
            return Ok(Cow::Borrowed(plan));
        }
        let draw = &self.object["draw"];
        let seed = draw["seed"].as_u64();
        let seed = seed.ok_or_else(|| {
            self.refused("it does not name the seed of the schedule that START drew (draw.seed)")
        })?;
        let basis = plan.calibration().claims.iter().find_map(|claim| claim.draw);
        if let Some(basis) = basis {
            if draw["most"] != basis.tries {
                return Err(self.refused(format!(
                    "its draw.most is not {}, the number of draws that the plan lets be tried",
                    basis.tries
                )));
            }
            let (stated, planned) = (draw["chance"].as_f64().unwrap_or(0.0), basis.chance_of_all());
            if stated < planned * (1.0 - ROUNDING) {
                return Err(self.refused(format!(
                    "its draw.chance is {stated:e}, and the {} draws that may be tried have one of {planned:e}",
                    basis.tries
                )));
            }
        }
        let (delta, chance) = (plan.draft().privacy.delta, draw["chance"].as_f64().unwrap_or(0.0));
        let least = delta.max(delta_of_noise(delta) + chance);
        if draw["delta"].as_f64().unwrap_or(0.0) < least * (1.0 - ROUNDING) {
            return Err(self.refused(format!(
                "its draw.delta is below {least:e}, which its draws come to"
            )));
        }
        unchecked.push(format!(
            "That START drew this schedule is {}'s word.",
            self.word("party")
        ));
        Ok(Cow::Owned(plan.with_draw(seed)))
    }

    /// μ of one release, by the plan: against every coalition of those whose finals are seen.
    fn loss_within(
        &self,
        plan: &Plan,
        stated: &StatedExecution<'_>,
        end: StatedEnd,
        unchecked: &mut Vec<String>,
    ) -> Result<f64, Failure> {
        let included = self.parties(plan, "included")?;
        let published = stated.published().clone();
        let sets: Vec<&BTreeSet<Party>> = match end {
            StatedEnd::Carried => self.sets_of(plan, &included, &published)?,
            // By contract no final is seen.
            _ if !published.is_empty() || !included.is_empty() => {
                return Err(self.refused("it says that it withheld, and that finals are seen or summed"));
            }
            _ => return self.loss_withheld(plan, stated),
        };
        let colluding = plan
            .draft()
            .privacy
            .colluding
            .min(published.len().saturating_sub(1));
        if stated.colluding() < colluding {
            return Err(self.refused(format!(
                "its execution has a coalition of {} of those whose finals are seen, the plan is about {colluding}",
                stated.colluding()
            )));
        }
        let mut mu = 0.0f64;
        for set in sets.into_iter().filter(|set| !set.is_empty()) {
            match stated.loss_of(set).map_err(|e: StatedError| self.refused(e))? {
                Some(loss) => mu = mu.max(loss),
                None => unchecked.push(
                    "That no other coalition learns more than the one that it names was not computed."
                        .to_owned(),
                ),
            }
        }
        Ok(mu)
    }

    /// Returns μ of one release of a run that gave this party no result. Its shares alone reveal
    /// something where their noise is Gaussian. A release of several that was spent may have been
    /// opened, which costs what it costs with everybody's data in it.
    fn loss_withheld(&self, plan: &Plan, stated: &StatedExecution<'_>) -> Result<f64, Failure> {
        let shares = withheld(plan, "").mu;
        if self.counted().is_none_or(|counted| counted == 0) {
            return Ok(shares);
        }
        let all = (0..plan.parties()).collect();
        let opened = stated.loss_of(&all).map_err(|e| self.refused(e))?;
        Ok(shares.max(opened.unwrap_or(0.0)))
    }

    /// The sets whose losses count: what is seen, and where finals are opened for a set or many
    /// times what is in the result.
    fn sets_of<'a>(
        &self,
        plan: &Plan,
        included: &'a BTreeSet<Party>,
        published: &'a BTreeSet<Party>,
    ) -> Result<Vec<&'a BTreeSet<Party>>, Failure> {
        let is_repeated = !self.object["iterations"].is_null();
        // The execution is of the release that cost most, which may be a later one than the last
        // that is in the result.
        let fits = included.is_subset(published) || (is_repeated && published.is_subset(included));
        if !fits || (published.is_empty() && !included.is_empty() && self.counted() != Some(0)) {
            return Err(
                self.refused("its execution's \"published\" lacks somebody whose data are in the result")
            );
        }
        Ok(match is_repeated || plan.draft().run.sealed {
            true => vec![published, included],
            false => vec![published],
        })
    }

    /// μ of one release that what the receipt says of itself cannot be below: with uniform noise or
    /// masks that of everybody's noise but the coalition's.
    fn loss_without_plan(&self, end: StatedEnd) -> Result<f64, Failure> {
        let execution = &self.object["execution"];
        let list = |key: &str| {
            let parties = execution[key].as_array().into_iter().flatten();
            parties.filter_map(Value::as_u64).collect::<BTreeSet<u64>>()
        };
        let (published, corrupted) = (list("published"), list("corrupted"));
        let included = self.names("included").len();
        let is_repeated = !self.object["iterations"].is_null();
        if end != StatedEnd::Carried || included == 0 || self.counted() == Some(0) {
            return Ok(0.0);
        }
        if published.is_empty() || (published.len() < included && !is_repeated) {
            return Err(
                self.refused("its execution's \"published\" lacks somebody whose data are in the result")
            );
        }
        let uniform = self.object["pairwise_std"].is_null() && self.object["correlated_std"].is_null();
        let std = self.number("independent_std").filter(|_| uniform);
        let among = published
            .len()
            .saturating_sub(corrupted.intersection(&published).count());
        let sensitivities = execution["sensitivity"].as_array().into_iter().flatten();
        let largest = sensitivities.filter_map(Value::as_f64).fold(0.0, f64::max);
        Ok(std.map_or(0.0, |std| largest / (std * (among.max(1) as f64).sqrt())))
    }

    /// μ of one release against the coalition that the execution names, by the code that `account`
    /// runs.
    fn loss_of_coalition(&self) -> Result<f64, Failure> {
        let object = &self.object;
        let text = object["execution"].to_string();
        let delta = self.number("delta").unwrap_or(f64::NAN);
        let independent_std = self.number("independent_std").unwrap_or(0.0);
        let edges = object["execution"]["edges"].is_array();
        let computed = match (edges, self.number("pairwise_std"), self.number("correlated_std")) {
            (true, Some(pairwise_std), _) => {
                ppsc::account(&text, pairwise_std, independent_std, 1.0, delta).map(|account| account.mu)
            }
            (true, None, _) => {
                ppsc::account_uniform(&text, independent_std, 1.0, delta).map(|account| account.mu)
            }
            (false, _, Some(correlated_std)) => {
                let noise = Noise {
                    independent_std,
                    correlated_std,
                };
                inca::inca(&text, noise, 1.0, delta).map(|losses| losses.mu)
            }
            (false, _, None) => inca::inca_uniform(&text, independent_std, 1.0, delta).map(|it| it.mu),
        };
        computed.map_err(|e| self.refused(format!("its execution cannot be accounted for: {e}")))
    }

    /// μ of the releases that have left, by the plan's noise; without a plan from that of all of
    /// them, which the receipt repeats.
    fn recompute_gossip(&self, plan: Option<&Plan>) -> Result<Recomputed, Failure> {
        let (object, iterations) = (&self.object, &self.object["iterations"]);
        let spent = iterations["spent"].as_u64();
        let Some(spent) = spent else {
            return Err(self.refused("it does not say how many releases have left"));
        };
        let mu = match plan {
            Some(plan) => gossiped::mu_of(plan, spent),
            None => {
                let claims = object["claims"].as_array().into_iter().flatten();
                let mut headline = claims.filter(|claim| claim["holds_as_headline"] == true);
                let claimed = headline.next().and_then(|claim| claim["mu"].as_f64());
                let (Some(claimed), Some(releases)) = (claimed, iterations["releases"].as_f64()) else {
                    return Err(self.refused("it does not say what all releases would cost"));
                };
                match (spent, object["gossip"]["protect"].as_str()) {
                    (0, _) => 0.0,
                    (_, Some("one")) => claimed,
                    _ => claimed * (spent as f64 / releases).sqrt(),
                }
            }
        };
        self.check_loss(mu, |mu| self.epsilon(mu))?;
        Ok(Recomputed {
            mu: Some(mu),
            unchecked: vec![format!(
                "How many of its releases have left is {}'s word.",
                self.word("party")
            )],
        })
    }

    /// Whether the standard error that it states was computed again. Refused if it states less.
    pub(super) fn check_error(&self, plan: Option<&Plan>) -> Result<bool, Failure> {
        let (Some(plan), Some(stated)) = (plan, self.number("standard_error")) else {
            return Ok(false);
        };
        let Some(least) = self.least_error(plan)? else {
            return Ok(false);
        };
        match stated >= least * (1.0 - 1e-6) {
            true => Ok(true),
            false => Err(self.refused(format!(
                "it states a standard error of {stated}, and the plan's noise comes to {least}"
            ))),
        }
    }

    /// Returns the error from the noise of those in the result. It is `None` where a final is
    /// missing, of which others' noise is left.
    fn least_error(&self, plan: &Plan) -> Result<Option<f64>, Failure> {
        if self.gossips() {
            return Ok(Some(gossiped::standard_error(plan)));
        }
        if plan.draft().sums_everybody() {
            let iterations = &self.object["iterations"];
            let departed = iterations["departed"].as_object().into_iter().flatten();
            let departed: Vec<u64> = departed.filter_map(|(_, since)| since.as_u64()).collect();
            let rejected = iterations["rejected"].as_array().into_iter().flatten();
            let unopened = iterations["unopened"].as_object().into_iter().flatten();
            let unopened = unopened.filter_map(|(round, _)| round.parse().ok());
            let lost: BTreeSet<u64> = rejected.filter_map(Value::as_u64).chain(unopened).collect();
            let run = iterations["run"]
                .as_u64()
                .unwrap_or(0)
                .min(trained::planned(plan));
            let rounds = (1..=run).filter(|round| !lost.contains(round));
            return Ok(Some(trained::stream_error(plan, rounds, &departed)));
        }
        let included = self.parties(plan, "included")?;
        let published = self.object["execution"]["published"]
            .as_array()
            .map_or(0, Vec::len);
        let whole = plan.draft().run.sealed || published == included.len();
        Ok((whole && !included.is_empty()).then(|| error_of_whole(plan, &included)))
    }

    /// Refuses a receipt that states a smaller loss than this, or a smaller ε than its own.
    fn check_loss(&self, mu: f64, epsilon_of: impl Fn(f64) -> f64) -> Result<(), Failure> {
        let stated = self.number("mu").unwrap_or(f64::INFINITY);
        if mu > stated * (1.0 + ROUNDING) {
            return Err(self.refused(format!(
                "it states μ = {stated}, and what it says has happened costs {mu}"
            )));
        }
        let epsilon = epsilon_of(stated);
        let said = self.number("epsilon").unwrap_or(f64::INFINITY);
        if epsilon > said * (1.0 + 1e-6) {
            return Err(self.refused(format!("it states ε = {said}, and its μ is ε = {epsilon}")));
        }
        Ok(())
    }
}
