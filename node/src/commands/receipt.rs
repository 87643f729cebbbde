//! `undertone receipt`: what a signed receipt states, checked, in sentences.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use libp2p::identity::PublicKey;
use serde_json::{Value, json};
use undertone_accountant::account::{inca, ppsc};
use undertone_accountant::losses::loss::Noise;
use undertone_accountant::losses::{gaussian, releases};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::{self, Peers};

use crate::party::receipt::signed_bytes;
use crate::planning::{files, make, mechanism, quote};
use crate::telling::failure::{Exit, Failure};
use crate::telling::report::{Report, lower_first};
use crate::telling::table::{at_most, number};

/// How far a stated loss may be below the recomputed one: what two machines' arithmetic may differ
/// by, and more.
const ROUNDING: f64 = 1e-9;

/// Flags of `receipt`.
#[derive(Args, Debug)]
pub struct ReceiptArgs {
    /// The receipt; its signature is beside it, in FILE.sig
    #[arg(value_name = "FILE")]
    receipt: PathBuf,
    /// The plan of its run: the receipt must be of this very file, and signed by one of its members
    #[arg(long, value_name = "PLAN.json")]
    plan: Option<PathBuf>,
    /// A peer list that has the key of whoever signed it
    #[arg(long, value_name = "PEERS.toml")]
    peers: Option<PathBuf>,
}

/// A receipt as it lies there.
struct Stated {
    place: String,
    text: String,
    object: Value,
}

/// Why a receipt is not believed.
fn refused(place: &str, what: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::PlanRefused, format!("{place}: {what}")).field(place)
}

/// Checks a receipt, and says what it says.
pub fn run(arguments: &ReceiptArgs) -> Result<Report, Failure> {
    let stated = Stated::read(&arguments.receipt)?;
    let plan = arguments.plan.as_deref().map(files::load).transpose()?;
    let keys = stated.keys(plan.as_ref(), arguments.peers.as_deref())?;
    for key in &keys {
        stated.check_signature(&arguments.receipt, key)?;
    }
    if let Some(plan) = &plan {
        stated.check_plan(plan)?;
    }
    let mu = stated.recompute()?;
    let sentences = stated.sentences(plan.as_ref(), !keys.is_empty());
    let (signature, of_plan) = (!keys.is_empty(), plan.is_some());
    let mut text = String::new();
    for sentence in &sentences {
        text += &format!("{sentence}\n\n");
    }
    let checked = |yes: bool, what: &str| match yes {
        true => format!("{what}: checked"),
        false => format!("{what}: NOT CHECKED"),
    };
    text += &format!(
        "{}; {}; {}.\n",
        checked(signature, "signature (--plan or --peers)"),
        checked(of_plan, "plan (--plan)"),
        match mu {
            Some(mu) => format!("loss: computed again, μ = {}", at_most(mu)),
            None => "loss: nothing left this node, and nothing to compute".to_owned(),
        }
    );
    let object = json!({
        "party": stated.object["party"],
        "digest": stated.object["digest"],
        "outcome": stated.object["outcome"],
        "signature_checked": signature,
        "plan_checked": of_plan,
        "mu": stated.object["mu"],
        "mu_recomputed": mu,
        "epsilon": stated.object["epsilon"],
        "delta": stated.object["delta"],
        "sentences": sentences,
        "exit_code": 0,
    });
    Ok(Report::done(object, text))
}

impl Stated {
    fn read(path: &Path) -> Result<Self, Failure> {
        let (place, text) = (path.display().to_string(), files::read_text(path, "FILE")?);
        let object: Value = serde_json::from_str(&text).map_err(|e| {
            refused(&place, format!("no receipt: {e}")).hint("give the receipt.json of a run")
        })?;
        let is_one = object["version"] == 1
            && ["digest", "party", "outcome"]
                .iter()
                .all(|key| object[key].is_string());
        if !is_one {
            let hint = match object.get("mechanism") {
                Some(_) => "this is a plan: `undertone verify` reads it",
                None => "give the receipt.json of a run",
            };
            return Err(refused(&place, "no receipt of this version").hint(hint));
        }
        Ok(Stated { place, text, object })
    }

    fn word(&self, key: &str) -> &str {
        self.object[key].as_str().unwrap_or_default()
    }

    fn refused(&self, what: impl std::fmt::Display) -> Failure {
        refused(&self.place, what)
    }

    /// The keys that the party has by the plan and by the peer list.
    fn keys(&self, plan: Option<&Plan>, list: Option<&Path>) -> Result<Vec<PublicKey>, Failure> {
        let party = self.word("party");
        let mut keys = Vec::new();
        if let Some(plan) = plan {
            let member = plan.draft().members.iter().find(|member| member.name == party);
            let absent = || self.refused(format!("{party:?} is no member of the plan"));
            keys.push(member.ok_or_else(absent)?.public_key());
        }
        if let Some(path) = list {
            let list = Peers::parse(&files::read_text(path, "--peers")?)
                .map_err(|e| make::peers_failure(path, &e))?;
            let peer = list.as_slice().iter().find(|peer| peer.name == party);
            let absent = || self.refused(format!("{party:?} is not in the peer list"));
            keys.extend(peers::public_key(&peer.ok_or_else(absent)?.id));
        }
        Ok(keys)
    }

    fn check_signature(&self, path: &Path, key: &PublicKey) -> Result<(), Failure> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".sig");
        let beside = PathBuf::from(beside);
        let written = std::fs::read_to_string(&beside)
            .map_err(|e| self.refused(format!("its signature {} cannot be read: {e}", beside.display())))?;
        let party = self.word("party");
        let good = STANDARD
            .decode(written.trim_end_matches('\n'))
            .is_ok_and(|signature| key.verify(&signed_bytes(&self.text), &signature));
        if good {
            return Ok(());
        }
        Err(self.refused(format!("{party}'s key has not signed this")).hint(
            "ask for the receipt again, with its .sig: one of the two was changed, or another key signed it",
        ))
    }

    /// What a receipt repeats of its plan is the plan's.
    fn check_plan(&self, plan: &Plan) -> Result<(), Failure> {
        let calibration = plan.calibration();
        let repeated = [
            ("digest", json!(plan.digest_hex())),
            ("delta", json!(plan.draft().privacy.delta)),
            ("epsilon_claimed", json!(plan.epsilon_claimed())),
            ("independent_std", json!(mechanism::independent_std(plan))),
            ("correlated_std", json!(mechanism::correlated_std(plan))),
            ("pairwise_std", json!(mechanism::pairwise_std(plan))),
            ("unit", json!(plan.draft().data.unit)),
            ("adjacency", json!(plan.draft().data.adjacency)),
            ("claims", json!(calibration.claims)),
        ];
        for (key, planned) in repeated {
            if self.object[key] != planned {
                return Err(self.refused(format!("its {key} is not the plan's")));
            }
        }
        // A smaller coalition than the plan is about would have learned less.
        let corrupted = self.object["execution"]["corrupted"]
            .as_array()
            .map_or(0, Vec::len);
        if !self.object["execution"].is_null() && corrupted < plan.draft().privacy.colluding {
            return Err(self.refused(format!(
                "its execution has a coalition of {corrupted}, the plan is about {}",
                plan.draft().privacy.colluding
            )));
        }
        let sensitivities: Vec<f64> = (0..plan.parties())
            .map(|party| plan.draft().sensitivity(party))
            .collect();
        let execution = &self.object["execution"];
        if !execution.is_null() && execution["sensitivity"] != json!(sensitivities) {
            return Err(self.refused("the sensitivities of its execution are not the plan's"));
        }
        Ok(())
    }

    /// μ of the execution by the code that `account` runs; none where nothing left the node.
    /// Refused if the receipt states less.
    fn recompute(&self) -> Result<Option<f64>, Failure> {
        let object = &self.object;
        if object["gossip"].is_object() {
            return self.recompute_gossip();
        }
        if object["execution"].is_null() {
            let nothing = object["outcome"] == "aborted" && object["included"] == json!([]);
            return match nothing || object["mu"].is_null() {
                true => Ok(None),
                false => Err(self.refused("it states a loss and no execution that it follows from")),
            };
        }
        let text = object["execution"].to_string();
        let std = |key: &str| object[key].as_f64();
        let delta = std("delta").unwrap_or(f64::NAN);
        let independent_std = std("independent_std").unwrap_or(0.0);
        let edges = object["execution"]["edges"].is_array();
        let computed = match (edges, std("pairwise_std"), std("correlated_std")) {
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
        let mu = computed.map_err(|e| self.refused(format!("its execution cannot be accounted for: {e}")))?;
        // An execution is one iteration's, where there are more.
        let mu = match object["iterations"]["spent"].as_u64() {
            // Where one release of a stream may change, no two count.
            Some(spent) if object["protect"] == "one" => releases::together(mu, spent.min(1)),
            Some(spent) => releases::together(mu, spent),
            None => mu,
        };
        self.check_loss(mu).map(Some)
    }

    /// μ of the releases that have left, from that of all of them, which the plan claims.
    fn recompute_gossip(&self) -> Result<Option<f64>, Failure> {
        let (object, iterations) = (&self.object, &self.object["iterations"]);
        let claims = object["claims"].as_array().into_iter().flatten();
        let mut headline = claims.filter(|claim| claim["holds_as_headline"] == true);
        let claimed = headline.next().and_then(|claim| claim["mu"].as_f64());
        let counts = (iterations["spent"].as_f64(), iterations["releases"].as_f64());
        let (Some(claimed), (Some(spent), Some(releases))) = (claimed, counts) else {
            return Err(self.refused("it does not say how many releases have left, and what all would cost"));
        };
        let mu = match (spent, object["gossip"]["protect"].as_str()) {
            (0.0, _) => 0.0,
            (_, Some("one")) => claimed,
            _ => claimed * (spent / releases).sqrt(),
        };
        self.check_loss(mu).map(Some)
    }

    /// Refuses a receipt that states a smaller loss than this, or a smaller ε than its own.
    fn check_loss(&self, mu: f64) -> Result<f64, Failure> {
        let object = &self.object;
        let std = |key: &str| object[key].as_f64();
        let delta = std("delta").unwrap_or(f64::NAN);
        let unbounded = object["unbounded"] == true;
        let stated = std("mu").unwrap_or(if unbounded { f64::INFINITY } else { 0.0 });
        if mu > stated * (1.0 + ROUNDING) {
            return Err(self.refused(format!(
                "it states μ = {stated}, and what it says has happened costs {mu}"
            )));
        }
        let epsilon = gaussian::epsilon(delta, stated).unwrap_or(f64::INFINITY);
        let said = std("epsilon").unwrap_or(if unbounded { f64::INFINITY } else { 0.0 });
        if epsilon > said * (1.0 + 1e-6) {
            return Err(self.refused(format!("it states ε = {said}, and its μ is ε = {epsilon}")));
        }
        Ok(mu)
    }
}

impl Stated {
    /// Who says this and of what; who is in the mean; what can be learned; what that rests on; how
    /// exact the mean is.
    fn sentences(&self, plan: Option<&Plan>, signed: bool) -> [String; 5] {
        let by = if signed {
            "signed by its key"
        } else {
            "if it signed this"
        };
        let (party, outcome) = (self.word("party"), self.word("outcome"));
        let run = plan.map_or_else(
            || format!("the run of plan {}", &self.word("digest")),
            |plan| format!("the run {:?} (plan {})", plan.draft().name, plan.digest_hex()),
        );
        let how = match outcome {
            "done" => "it was carried through",
            "degraded" => "it ended with less than was planned",
            "aborted" => "it never began",
            _ => "this node gave nothing of its own to be read",
        };
        [
            format!("{party} says of {run}, {by}: {how} ({outcome})."),
            self.who(),
            self.learned(),
            self.rests_on(plan),
            self.exactness(),
        ]
    }

    /// Whether each node has estimates of its own.
    fn gossips(&self) -> bool {
        self.object["gossip"].is_object()
    }

    /// Whether everybody reads one sum a round.
    fn streams(&self) -> bool {
        self.object["protect"].is_string()
    }

    fn names(&self, key: &str) -> Vec<&str> {
        let names = self.object[key].as_array().into_iter().flatten();
        names.filter_map(Value::as_str).collect()
    }

    fn who(&self) -> String {
        let (included, departed) = (self.names("included"), self.names("departed"));
        let left = match &departed[..] {
            [] => "nobody left".to_owned(),
            names => format!("{} left, or could not be heard", names.join(", ")),
        };
        match &included[..] {
            [] => format!("Nobody's data are in a mean here; {left}."),
            names => {
                let what = match (self.gossips(), self.object["iterations"].is_null()) {
                    (true, _) => "estimates",
                    _ if self.streams() => "sums",
                    (false, true) => "mean",
                    (false, false) => "model",
                };
                format!("In the {what} are the data of {}; {left}.", names.join(", "))
            }
        }
    }

    fn learned(&self) -> String {
        let whose = match self.word("unit") {
            "record" => "any one row of anybody's table",
            _ => "any one party's data",
        };
        let delta = self.object["delta"].as_f64().unwrap_or_default();
        match self.object["epsilon"].as_f64() {
            Some(0.0) => format!("The run tells nobody anything of {whose}."),
            Some(epsilon) => format!(
                "Another value in the place of {whose} would make nothing that can be seen more than {} times \
                 as likely or unlikely (ε = {}), but for a chance of {delta:e} (δ).",
                number(epsilon.exp()),
                at_most(epsilon)
            ),
            None => format!("What the run tells of {whose} has no bound: ε is not stated."),
        }
    }

    fn rests_on(&self, plan: Option<&Plan>) -> String {
        if let Some(plan) = plan {
            return format!("That is for {}.", lower_first(&quote::threat(plan)));
        }
        let claims = self.object["claims"].as_array().into_iter().flatten();
        let headline = claims.filter(|claim| claim["holds_as_headline"] == true);
        let size = headline
            .filter_map(|claim| claim["size"].as_u64())
            .max()
            .unwrap_or(0);
        format!(
            "That is for coalitions of up to {size} that follow the protocol and pool all they see; --plan says \
             more."
        )
    }

    fn exactness(&self) -> String {
        let iterations = &self.object["iterations"];
        if let (Some(run), Some(planned)) = (iterations["run"].as_u64(), iterations["planned"].as_u64()) {
            let reason = self.object["reason"].as_str();
            let why = reason.map_or(String::new(), |reason| format!(": {reason}"));
            return match self.gossips() {
                true => format!("The estimates are this party's own, after {run} of {planned} rounds{why}."),
                false if self.streams() => {
                    format!("The sums are everybody's, the means of {run} of {planned} rounds{why}.")
                }
                false => format!("The model is of {run} of {planned} iterations{why}."),
            };
        }
        match self.object["worth"]["sentence"].as_str() {
            Some(sentence) => format!("{sentence}."),
            None => match self.object["reason"].as_str() {
                Some(reason) => format!("There is no mean: {reason}."),
                None => "There is no mean.".to_owned(),
            },
        }
    }
}
