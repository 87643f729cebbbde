//! The receipt: what really happened, from the agreed logs alone, signed by the party. And the
//! mean, if there is one.

mod finals;
pub mod resumed;
pub mod signing;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use libp2p::identity::Keypair;
use serde_json::{Map, Value, json};
use undertone_accountant::bounds::static_draw::delta_of_noise;
use undertone_accountant::calibration::utility::Realised;
use undertone_accountant::gate::connected::kappa;
use undertone_accountant::gate::decision;
use undertone_accountant::gate::verdict::Audit;
use undertone_accountant::losses::gaussian;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::DrawBasis;
use undertone_protocol::publishing::result::Accuracy;
use undertone_protocol::run::outcome::{Ending, Outcome, SealedFinal};
use undertone_protocol::task::mean::Mean;
use undertone_protocol::topology::party::Party;

use crate::party::driver::Finish;
use crate::party::figures_file::{self, FiguresFile};
use crate::party::gossiped::Gossiped;
use crate::party::receipt::finals::{contradicts, error_of, missing_finals};
use crate::party::receipt::signing::signature;
use crate::party::sealing::{self, opened_for, opened_for_sentence};
use crate::party::trained::Trained;
use crate::planning::mechanism;
use crate::planning::utility::Utility;
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::output_file;

/// The account of a run as it turned out. No private value is in it.
#[derive(Clone, Debug)]
pub struct Account {
    ending: Ending,
    party: String,
    included: Vec<String>,
    /// The plan's other parties.
    without: Vec<String>,
    departed: Vec<String>,
    agreed: bool,
    audit: Option<Audit>,
    realised: Option<Realised>,
    contradicted: bool,
    /// Whether a final is missing where that leaves nothing.
    corrupted: bool,
    /// How exact the result is, where it is an average; none of any other.
    accuracy: Option<Accuracy>,
    weights: Map<String, Value>,
    sealed: Option<Unsealed>,
    trained: Option<Trained>,
    gossiped: Option<Gossiped>,
    /// Where START drew the schedule: how often this node has revealed its number for that.
    draws: u64,
    /// Whether the result is this party's alone. No receipt reveals even its hash, from which
    /// numbers of few bits could be found by trying them.
    is_own: bool,
    receipt: Value,
}

/// The fate of a sealed final, and of the others'.
#[derive(Clone, Debug)]
struct Unsealed {
    fate: SealedFinal,
    /// Names of those whom others opened, in order.
    opened_for: Vec<String>,
    /// The reason why there is no mean, if there is none.
    without_mean: String,
}

impl Account {
    /// The account of party `me`.
    pub fn of(plan: &Plan, me: Party, finish: &Finish) -> Result<Self, Failure> {
        let outcome = &finish.outcome;
        let plan = &*outcome.plan(plan);
        let fate = sealing::fate(plan, outcome);
        let mut audit = match fate {
            Some(fate) => sealing::audit(plan, finish, fate),
            None => audit(plan, finish),
        };
        let trained = outcome
            .training
            .as_ref()
            .map(|training| Trained::of(plan, training, &mut audit));
        let gossiped = Gossiped::of(plan, outcome);
        let missing = missing_finals(plan, outcome);
        let sealed = fate.map(|fate| Unsealed {
            fate,
            opened_for: opened_for(plan, outcome),
            without_mean: sealing::reason_without_mean(plan, outcome, fate),
        });
        if let Some(audit) = &mut audit {
            let opened = sealed.iter().flat_map(|sealed| &sealed.opened_for);
            let opened = opened.map(|party| opened_for_sentence(party));
            let fell_out = trained.as_ref().and_then(Trained::fell_out);
            let faults = missing.iter().cloned().chain(fell_out).chain(opened);
            audit.faults.extend(faults);
        }
        let mut realised = error_of(plan, finish)?;
        let contradicted = contradicts(plan, outcome, realised.as_ref());
        if let (true, Some(realised)) = (contradicted, &mut realised) {
            realised.usable = false;
        }
        let name = |&party: &Party| plan.draft().members[party].name.clone();
        let names = |parties: &BTreeSet<Party>| parties.iter().map(name).collect::<Vec<_>>();
        let mut departed = audit.as_ref().map_or(vec![], |audit| names(&audit.departed));
        departed.extend(gossiped.iter().flat_map(|gossiped| gossiped.departed.clone()));
        let weight =
            |(party, weight): (usize, &f64)| (plan.draft().members[party].name.clone(), json!(weight));
        let mut account = Account {
            ending: outcome.ending.clone(),
            party: plan.draft().members[me].name.clone(),
            included: names(&outcome.included),
            without: names(
                &(0..plan.parties())
                    .filter(|party| !outcome.included.contains(party))
                    .collect(),
            ),
            departed,
            agreed: outcome.agreed,
            accuracy: outcome.accuracy,
            weights: match (&realised, &gossiped) {
                (Some(realised), _) => realised.weights.iter().enumerate().map(weight).collect(),
                (None, Some(_)) => equal_weights(plan),
                (None, None) => Map::new(),
            },
            audit,
            realised,
            contradicted,
            corrupted: plan.lattice().ring().is_some() && outcome.sum.is_some() && !missing.is_empty(),
            sealed,
            trained,
            gossiped,
            draws: finish.draws,
            is_own: plan.reads_circles() || plan.draft().computation.recursion().is_some(),
            receipt: Value::Null,
        };
        account.write_down(plan)?;
        if let (Some(_), Some(sums)) = (plan.draft().computation.described(), account.mean(plan, outcome)) {
            let errors = (account.standard_error(), account.weight());
            account.receipt["describe"] = figures_file::receipt_member(plan, &sums, errors);
        }
        Ok(account)
    }

    /// Makes the receipt, with what only some tasks and mechanisms have.
    fn write_down(&mut self, plan: &Plan) -> Result<(), Failure> {
        self.receipt = self.object(plan)?;
        if !plan.records_at_start().is_empty() && self.audit.is_some() {
            let counted = plan.records_at_start().iter();
            let named =
                counted.map(|(&party, &count)| (plan.draft().members[party].name.clone(), json!(count)));
            self.receipt["records"] = named.collect();
        }
        if let Some(trained) = &self.trained {
            trained.add_to(&mut self.receipt);
        }
        if let Some(gossiped) = &self.gossiped {
            gossiped.add_to(&mut self.receipt);
            gossiped.add_faults_to(&mut self.receipt);
        }
        Ok(())
    }

    /// How often this node has revealed its number for the draw, and how many draws there may be at
    /// most: no node knows how many there were, and whoever ends a START chooses from one more. The
    /// δ of the statement is the noise's and theirs.
    fn draw(&self, delta: f64, basis: DrawBasis) -> Value {
        let chance = basis.chance_of_all();
        let delta = delta.max((delta_of_noise(delta) + chance).next_up());
        json!({ "tries": self.draws, "most": basis.tries, "chance": chance, "delta": delta })
    }

    /// The weight of all that is in the result: rows, where rows are protected.
    fn weight(&self) -> f64 {
        self.realised
            .as_ref()
            .map_or(0.0, |realised| realised.total_weight)
    }

    /// The statistics that the result's sums come to; `None` of another plan.
    pub fn figures(&self, plan: &Plan, sums: &[f64]) -> Option<FiguresFile> {
        let noise = self.standard_error()?;
        FiguresFile::of(plan, sums, (noise, self.weight()), &self.included)
    }

    /// The name of the party whose account it is.
    pub fn party(&self) -> &str {
        &self.party
    }

    /// Names the result's file by its SHA-256, in lower-case hex, unless the result is this party's
    /// alone.
    pub fn name_result(&mut self, sha256: Option<String>) {
        self.receipt["result_sha256"] = json!(sha256.filter(|_| !self.is_own));
    }

    /// Whether the result is this party's alone.
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    /// Whether a mean was written.
    pub fn finished(&self) -> bool {
        let ended = matches!(self.ending, Ending::Done | Ending::Degraded);
        if let Some(gossiped) = &self.gossiped {
            return ended && gossiped.has_estimate;
        }
        ended
            && match &self.trained {
                Some(trained) => trained.has_model,
                None => self.realised.as_ref().is_some_and(|r| r.usable),
            }
    }

    /// Names whose finals were summed.
    pub fn included(&self) -> &[String] {
        &self.included
    }

    /// Names of those who departed.
    pub fn departed(&self) -> &[String] {
        &self.departed
    }

    /// Names of those of them whose own word did not come, and whom others opened, in order.
    pub fn opened_for(&self) -> &[String] {
        let of_circles = self.gossiped.iter().find_map(|it| it.opened_for.as_deref());
        let sealed = self.sealed.as_ref().map(|it| &it.opened_for[..]);
        sealed.or(of_circles).unwrap_or_default()
    }

    /// Whether this node knows that nobody opens its sealed final: the run has cost it nothing.
    pub fn stays_closed(&self) -> bool {
        let fate = self.sealed.as_ref().map(|sealed| sealed.fate);
        fate == Some(SealedFinal::Closed)
    }

    /// Where finals are sealed: ε of what is opened of this node's value, as far as it knows. None
    /// where it does not know.
    fn epsilon_opened(&self) -> Option<f64> {
        match self.sealed.as_ref()?.fate {
            SealedFinal::Unknown => None,
            SealedFinal::Closed | SealedFinal::Opened => self.epsilon(),
        }
    }

    /// Whether enough members signed that set; `None` of an average, of which each node has another
    /// one.
    pub fn agreed(&self) -> Option<bool> {
        self.accuracy.is_none().then_some(self.agreed)
    }

    /// By how much an average is off if nobody lied; `None` of any other result.
    pub fn accuracy(&self) -> Option<Accuracy> {
        self.accuracy
    }

    /// One of "done", "degraded", "aborted", "withheld".
    pub fn outcome(&self) -> &'static str {
        match self.ending {
            Ending::Done if self.finished() => "done",
            Ending::Done | Ending::Degraded => "degraded",
            Ending::Aborted { .. } => "aborted",
            Ending::Spent { .. } | Ending::Withheld { .. } => "withheld",
        }
    }

    /// Returns the reason why there is no mean, or one of lower quality.
    pub fn reason(&self) -> Option<String> {
        if let Some(gossiped) = &self.gossiped {
            return gossiped.reason.clone();
        }
        if let Some(trained) = &self.trained {
            return trained.reason.clone();
        }
        if let Some(sealed) = self.sealed.as_ref().filter(|_| !self.finished()) {
            return Some(sealed.without_mean.clone());
        }
        let reason = match &self.ending {
            Ending::Aborted { reason } | Ending::Spent { reason } | Ending::Withheld { reason } => {
                reason.as_str()
            }
            Ending::Done | Ending::Degraded => {
                if self.contradicted {
                    "no mean was written: the finals' weights are not what the agreed logs say, \
                     so that somebody's final is a lie"
                } else if self.corrupted {
                    "no mean was written: a final is missing, and without it uniform noise leaves nothing"
                } else if !self.finished() {
                    "no mean was written: what is left carries too little weight, \
                     or more noise than local noise has"
                } else if !self.without.is_empty() {
                    return Some(self.who_is_missing());
                } else if self.agreed() == Some(false) {
                    "not everybody is known to hold this mean: some may have left with another one, or without"
                } else {
                    return None;
                }
            }
        };
        Some(reason.to_owned())
    }

    fn who_is_missing(&self) -> String {
        const NAMED: usize = 10;
        let (others, all) = (self.without.len(), self.without.len() + self.included.len());
        let mut names = self.without[..others.min(NAMED)].join(", ");
        if others > NAMED {
            names += &format!(" and {} more", others - NAMED);
        }
        format!(
            "the mean is of {} of {all} parties, without {names}; \
             if these were up, raise run.round_ms and run.settle_ms",
            self.included.len()
        )
    }

    /// ε as it turned out: 0 if this start of the run aborted; None if an earlier start's receipt
    /// says it, or if it is unbounded.
    pub fn epsilon(&self) -> Option<f64> {
        let gossiped = self.gossiped.as_ref().map(|gossiped| gossiped.epsilon);
        let epsilon = gossiped.or_else(|| self.lost(|audit| audit.epsilon));
        epsilon.filter(|e| e.is_finite())
    }

    /// μ as it turned out: 0 if this start of the run aborted; None if an earlier start's receipt
    /// says it.
    pub fn mu(&self) -> Option<f64> {
        let gossiped = self.gossiped.as_ref().map(|gossiped| gossiped.mu);
        gossiped.or_else(|| self.lost(|audit| audit.mu))
    }

    /// Returns the most that sampling the noise adds to δ: 0 where nothing private left, `None`
    /// where there is no ε.
    fn sampling_delta(&self, plan: &Plan) -> Option<f64> {
        match self.ending {
            Ending::Aborted { .. } => Some(0.0),
            _ => self.epsilon().map(|epsilon| plan.sampling_delta(epsilon)),
        }
    }

    fn lost(&self, of: impl Fn(&Audit) -> f64) -> Option<f64> {
        match self.ending {
            Ending::Aborted { .. } => Some(0.0),
            _ => self.audit.as_ref().map(of),
        }
    }

    /// Whether the loss as it turned out is infinite.
    pub fn unbounded(&self) -> bool {
        self.audit
            .as_ref()
            .is_some_and(|audit| audit.epsilon.is_infinite())
    }

    /// The standard error of the result's noise, per coordinate; of means in sequence that of the
    /// last one. None where nothing bounds it.
    pub fn standard_error(&self) -> Option<f64> {
        if let Some(gossiped) = &self.gossiped {
            return gossiped.standard_error;
        }
        if let Some(stream) = self.trained.as_ref().and_then(|trained| trained.stream) {
            return Some(stream.standard_error).filter(|_| self.finished());
        }
        // Of a model nobody knows it.
        self.realised
            .as_ref()
            .filter(|_| !self.trained.as_ref().is_some_and(Trained::fits_model))
            .map(|r| r.standard_error)
            .filter(|e| e.is_finite())
    }

    /// The utility of the result in a sentence; `None` where its noise is not known.
    pub fn utility(&self) -> Option<&str> {
        self.receipt["utility"]["sentence"].as_str()
    }

    /// The result is Σ bᵢxᵢ + noise: bᵢ by name.
    pub fn weights(&self) -> &Map<String, Value> {
        &self.weights
    }

    /// Returns the exit code of the process.
    pub fn exit(&self) -> Exit {
        match self.ending {
            Ending::Done if self.finished() => Exit::Done,
            Ending::Done | Ending::Degraded => Exit::Degraded,
            Ending::Aborted { .. } => Exit::Aborted,
            Ending::Spent { .. } | Ending::Withheld { .. } => Exit::PrivacyRefused,
        }
    }

    /// Iterations of a training that are in its model; 0 of any other task.
    pub fn iterations_run(&self) -> u64 {
        let run = self
            .iterations()
            .and_then(|iterations| iterations["run"].as_u64());
        run.unwrap_or(0)
    }

    /// Iterations of a training that have cost this node; none of any other task.
    pub fn iterations_spent(&self) -> Option<u64> {
        self.iterations()?["spent"].as_u64()
    }

    /// How far a training came; none of any other task.
    pub fn iterations(&self) -> Option<&Value> {
        let gossiped = self.gossiped.as_ref().map(|gossiped| &gossiped.rounds);
        gossiped.or(self.trained.as_ref().map(|trained| &trained.iterations))
    }

    /// Adds the entries of gossip to a final object: that nothing is agreed on, and how far a
    /// node's estimate can be from the mean.
    pub fn add_gossip_to(&self, object: &mut Value) {
        if let Some(gossiped) = &self.gossiped {
            gossiped.add_to(object);
        }
    }

    /// The mean, per coordinate and in the data's unit; of a training its model.
    pub fn mean(&self, plan: &Plan, outcome: &Outcome) -> Option<Vec<f64>> {
        if let Some(gossip) = &outcome.gossip {
            return Some(gossip.estimates.clone()).filter(|_| self.finished());
        }
        if let Some(training) = &outcome.training {
            return training.result.clone().filter(|_| self.finished());
        }
        let sum = outcome.sum.as_ref().filter(|_| self.finished())?;
        Some(Mean::of_sum(plan, sum))
    }

    fn object(&self, plan: &Plan) -> Result<Value, Failure> {
        let calibration = plan.calibration();
        let unwritten = |e: serde_json::Error| {
            Failure::new(Exit::Internal, format!("the receipt cannot be written: {e}"))
        };
        // An execution is one release's.
        let recursion = plan.draft().computation.recursion();
        let audit = self.audit.as_ref().filter(|_| recursion.is_none());
        let execution = audit.map(|audit| serde_json::to_value(&audit.execution));
        let mut execution = execution.transpose().map_err(unwritten)?;
        // By contract. Where the others published without this node, μ has their finals all the
        // same: it is not below the execution's.
        if let (Ending::Withheld { .. }, Some(execution)) = (&self.ending, &mut execution) {
            execution["published"] = json!([]);
        }
        let mut receipt = json!({
            "version": 1,
            "digest": plan.digest_hex(),
            "party": self.party,
            "outcome": self.outcome(),
            "reason": self.reason(),
            "included": self.included,
            "agreed": self.agreed(),
            "epsilon": self.epsilon(),
            "epsilon_claimed": plan.epsilon_claimed(),
            "epsilon_searched": plan.epsilon_searched(),
            "delta": plan.draft().privacy.delta,
            "sampling_delta": self.sampling_delta(plan),
            "unit": plan.draft().data.unit,
            "adjacency": plan.draft().data.adjacency,
            "mu": self.mu().map_or(Value::Null, finite),
            "standard_error": self.standard_error(),
            "utility": self.standard_error().map(|error| Utility::with_error(plan, error).json()),
            "independent_std": mechanism::independent_std(plan),
            "correlated_std": mechanism::correlated_std(plan),
            "pairwise_std": mechanism::pairwise_std(plan),
            "revealed": mechanism::revealed(plan),
            "total_weight": self.realised.as_ref().map_or(0.0, |r| r.total_weight),
            "lost_weight": self.realised.as_ref().map_or(0.0, |r| r.lost_weight),
            "weights": self.weights,
            "claims": calibration.claims,
            "result_sha256": Value::Null,
            "faults": self.audit.as_ref().map_or(vec![], |audit| audit.faults.clone()),
            "departed": self.departed,
            "execution": execution,
        });
        if let Some(audit) = &self.audit
            && let Some(among) = audit.among
        {
            receipt["connectivity"] = json!({ "kappa": kappa(audit), "among": among });
        }
        let mut claims = plan.calibration().claims.iter();
        if let Some(basis) = claims.find_map(|claim| claim.draw) {
            receipt["draw"] = self.draw(plan.draft().privacy.delta, basis);
            receipt["draw"]["seed"] = json!(plan.seed_at_start());
        }
        if let Some(sealed) = &self.sealed {
            receipt["opened_for"] = json!(sealed.opened_for);
            receipt["epsilon_opened"] = json!(self.epsilon_opened());
        }
        if plan.terms().is_some() {
            receipt["accuracy"] = json!(self.accuracy.map(|accuracy| accuracy.apart));
            receipt["accuracy_of_mean"] = json!(self.accuracy.map(|accuracy| accuracy.standard_errors));
        }
        // What an earlier start of a spent plan has cost is not known here.
        let unknown = matches!(self.ending, Ending::Spent { .. });
        if unknown || self.audit.as_ref().is_some_and(|audit| audit.mu.is_infinite()) {
            receipt["unbounded"] = true.into();
        }
        if let Some(mu) = self.audit.as_ref().and_then(|audit| audit.same_sum_mu) {
            receipt["same_sum_mu"] = finite(mu);
            receipt["same_sum_epsilon"] =
                gaussian::epsilon(plan.draft().privacy.delta, mu).map_or(Value::Null, finite);
        }
        Ok(receipt)
    }

    /// Writes the receipt and, beside it, its signature. Both appear whole, or neither does.
    pub fn write(&self, path: &Path, key: &Keypair) -> Result<(), Failure> {
        write(path, &self.receipt, key)
    }
}

/// Writes a receipt and, beside it, its signature. Both appear whole, or neither does.
pub fn write(path: &Path, receipt: &Value, key: &Keypair) -> Result<(), Failure> {
    let text = format!("{receipt:#}\n");
    let signed = signature(&text, key)? + "\n";
    write_signed(path, "--receipt", [&text, &signed])
}

/// The weights of the mean that gossip's estimates are near to.
fn equal_weights(plan: &Plan) -> Map<String, Value> {
    let equal = 1.0 / plan.parties() as f64;
    let members = plan.draft().members.iter();
    members
        .map(|member| (member.name.clone(), json!(equal)))
        .collect()
}

/// The number; null where it is infinite.
fn finite(number: f64) -> Value {
    if number.is_finite() {
        json!(number)
    } else {
        Value::Null
    }
}

/// Writes a receipt's text and, beside it, its signature. Both appear whole, or neither does.
///
/// # Errors
/// Those of [`output_file::unwritten`].
pub fn write_signed(path: &Path, flag: &str, [text, signed]: [&str; 2]) -> Result<(), Failure> {
    let beside = signature_of(path);
    let begin = |path: &Path, text: &str| output_file::written(path, |out| out.write_all(text.as_bytes()));
    begin(path, text)
        .and_then(|receipt| output_file::finish_all([begin(&beside, signed)?, receipt]))
        .map_err(|e| output_file::unwritten(path, flag, &e))
}

/// Where the signature of a receipt in this file goes.
pub fn signature_of(path: &Path) -> PathBuf {
    output_file::with_suffix(path, ".sig")
}

/// Returns the loss of the run, where finals are not sealed. It is `None` if nothing private has
/// left, and never if anything may have.
fn audit(plan: &Plan, finish: &Finish) -> Option<Audit> {
    match &finish.outcome.ending {
        Ending::Aborted { .. } | Ending::Spent { .. } => None,
        _ if plan.draft().averages() => None,
        _ if plan.draft().computation.recursion().is_some() => Some(Audit {
            same_sum_mu: None,
            faults: vec![],
            departed: BTreeSet::new(),
            ..decision::without_verdict(plan, "")
        }),
        Ending::Done | Ending::Degraded => finish.gate.as_ref().map(|gate| gate.audit.clone()),
        Ending::Withheld { reason } => Some(match &finish.gate {
            Some(gate) => gate.audit.clone(),
            None => decision::without_verdict(plan, reason),
        }),
    }
}

#[cfg(test)]
mod tests;
