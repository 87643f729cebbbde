//! A receipt as it lies there: read, its signature, and what it repeats of its plan.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libp2p::identity::PublicKey;
use serde_json::{Value, json};
use undertone_protocol::plan::checked::{Plan, RecordsAtStart};
use undertone_protocol::plan::peers::{self, Peers};
use undertone_protocol::plan::run_file::records::Records;
use undertone_protocol::topology::party::Party;

use crate::daemon::receipts;
use crate::party::figures_file::FiguresFile;
use crate::party::receipt::signature_of;
use crate::party::receipt::signing::signed_bytes;
use crate::planning::{files, make, mechanism};
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::input_file;
use crate::vector_file::formats;

/// Bytes of a signature's file: 64 in base64, and a line's end.
const LONGEST_SIGNATURE: u64 = 1 << 10;

/// A receipt as it lies there.
pub(super) struct Stated {
    place: String,
    pub(super) text: String,
    /// The line of its signature, or why it cannot be read.
    pub(super) signature: Result<String, String>,
    pub(super) object: Value,
}

/// How a run ended, as a receipt states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatedEnd {
    /// Done or degraded: others may hold a result that this party's value is in.
    Carried,
    /// This party withheld.
    Withheld,
    /// Nothing left this party.
    Aborted,
}

/// Between how two machines compute what sampling adds, from an ε that went through decimals.
const SAMPLING_ROUNDING: f64 = 1e-6;

impl Stated {
    /// Reads the receipt in a file of its own, with its signature beside it.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let (place, text) = (path.display().to_string(), files::read_text(path, "FILE")?);
        let beside = signature_of(path);
        let signature = input_file::read(&beside, LONGEST_SIGNATURE)
            .and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
        let signature =
            signature.map_err(|e| format!("its signature {} cannot be read: {e}", beside.display()));
        Stated::of(place, text, signature)
    }

    /// Reads the receipt of one run out of a daemon's file of receipts.
    pub(super) fn read_of(path: &Path, digest: &str) -> Result<Self, Failure> {
        let place = path.display();
        let found = receipts::find(path, digest);
        let found = found
            .map_err(|e| Failure::usage(format!("{place}: cannot be read: {e}")).field("FILE"))?
            .ok_or_else(|| {
                Failure::usage(format!("{place}: it has no sound receipt of run {digest}"))
                    .field("--of")
                    .hint(
                        "give the file `receipts` of the daemon's state folder and all 64 digits of the plan's digest; \
                         a run that keep_days has not deleted yet has its receipt in runs/DIGEST/receipt.json",
                    )
            })?;
        Stated::of(
            format!("{place}, run {digest}"),
            found.receipt,
            Ok(found.signature),
        )
    }

    fn of(place: String, text: String, signature: Result<String, String>) -> Result<Self, Failure> {
        let object = serde_json::from_str(&text).map_err(|e| {
            refused(&place, format!("no receipt: {e}")).hint("give the receipt.json of a run")
        })?;
        let stated = Stated {
            place,
            text,
            signature,
            object,
        };
        let object = &stated.object;
        let is_one = object["version"] == 1
            && ["digest", "party", "outcome"]
                .iter()
                .all(|key| object[key].is_string());
        if !is_one {
            let hint = match object.get("mechanism") {
                Some(_) => "this is a plan: `undertone verify` reads it",
                None => "give the receipt.json of a run",
            };
            return Err(stated.refused("no receipt of this version").hint(hint));
        }
        stated.end()?;
        stated.check_result()?;
        Ok(stated)
    }

    pub(super) fn refused(&self, what: impl std::fmt::Display) -> Failure {
        refused(&self.place, what)
    }

    pub(super) fn word(&self, key: &str) -> &str {
        self.object[key].as_str().unwrap_or_default()
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        self.object[key].as_f64()
    }

    pub(super) fn names(&self, key: &str) -> Vec<&str> {
        let names = self.object[key].as_array().into_iter().flatten();
        names.filter_map(Value::as_str).collect()
    }

    /// How it says that its run ended.
    pub(super) fn end(&self) -> Result<StatedEnd, Failure> {
        match self.word("outcome") {
            "done" | "degraded" => Ok(StatedEnd::Carried),
            "withheld" => Ok(StatedEnd::Withheld),
            "aborted" => Ok(StatedEnd::Aborted),
            other => Err(self.refused(format!("{other:?} is no outcome of a run"))),
        }
    }

    /// Whether its party restarted in the middle of the run, and read the result from others.
    pub(super) fn is_resumed(&self) -> bool {
        self.object["resumed"] == true
    }

    /// Whether each node has estimates of its own.
    pub(super) fn gossips(&self) -> bool {
        self.object["gossip"].is_object()
    }

    /// Whether everybody reads one sum a round.
    pub(super) fn streams(&self) -> bool {
        self.object["protect"].is_string()
    }

    /// The parties of a list of names, each of which the plan has once.
    pub(super) fn parties(&self, plan: &Plan, key: &str) -> Result<BTreeSet<Party>, Failure> {
        let listed = self.object[key].as_array();
        let listed = listed.ok_or_else(|| self.refused(format!("its {key} is no list of names")))?;
        let mut parties = BTreeSet::new();
        for name in listed {
            let members = &plan.draft().members;
            let party = members.iter().position(|member| *name == *member.name);
            let party = party.ok_or_else(|| {
                self.refused(format!("its {key} names {name}, who is no member of the plan"))
            })?;
            if !parties.insert(party) {
                return Err(self.refused(format!("its {key} names {name} twice")));
            }
        }
        Ok(parties)
    }

    /// The keys that the party has by the plan and by the peer list.
    pub(super) fn keys(&self, plan: Option<&Plan>, list: Option<&Path>) -> Result<Vec<PublicKey>, Failure> {
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

    pub(super) fn check_signature(&self, key: &PublicKey) -> Result<(), Failure> {
        let written = self.signature.as_ref().map_err(|why| self.refused(why))?;
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

    /// A result is named by a hash, or by none at all; where nothing was carried through there is
    /// none.
    fn check_result(&self) -> Result<(), Failure> {
        let named = self.result_sha256();
        let is_hash =
            |hash: &str| hash.len() == 64 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        match self.object.get("result_sha256") {
            Some(Value::Null) => Ok(()),
            Some(Value::String(hash)) if is_hash(hash) && self.end()? == StatedEnd::Carried => Ok(()),
            _ => Err(self.refused(format!(
                "its result_sha256 is {}: expected 64 hexadecimal digits, or null where there is no result",
                named.unwrap_or("missing")
            ))),
        }
    }

    fn result_sha256(&self) -> Option<&str> {
        self.object["result_sha256"].as_str()
    }

    /// Refuses a file that is not the result that the receipt names.
    pub(super) fn check_mean(&self, path: &Path) -> Result<(), Failure> {
        let found = formats::sha256_of_file(path).map_err(|e| {
            Failure::usage(format!("{}: cannot be read: {e}", path.display()))
                .field("--mean")
                .hint("name the file of a mean that exists and that you can read")
        })?;
        let Some(named) = self.result_sha256() else {
            return Err(self.refused("it names no result that a file could be").field("--mean").hint(
                "leave --mean out: there was no result, or it is its party's alone, as of gossip over neighbours",
            ));
        };
        if found == named {
            return Ok(());
        }
        Err(self
            .refused(format!(
                "{} is not its result: the file's SHA-256 is {found}, the receipt says {named}",
                path.display()
            ))
            .field("--mean")
            .hint("ask for the mean again, in the format in which this party wrote it: the hash is of that file's bytes"))
    }

    /// Refuses statistics of other sums than the receipt states.
    pub(super) fn check_figures(&self, path: &Path) -> Result<(), Failure> {
        let figures = FiguresFile::read(path)?;
        let stated = &self.object["describe"];
        let refused = |what: String, hint: &str| Err(self.refused(what).field("--figures").hint(hint));
        let Some(named) = stated["sums_sha256"].as_str() else {
            return refused(
                "it states no statistics".into(),
                "leave --figures out: the receipt is of another task, or there was no result",
            );
        };
        let place = path.display();
        let found = figures.sums_sha256();
        if found != named {
            return refused(
                format!("{place} has other sums: their SHA-256 is {found}, the receipt says {named}"),
                "ask for the figures again: the sums are the same at all nodes",
            );
        }
        // What follows from sums also follows from these.
        let same = stated["noise"].as_f64() == Some(figures.noise)
            && stated["rows"].as_f64() == figures.rows
            && self.word("digest") == figures.digest;
        match same {
            true => Ok(()),
            false => refused(
                format!("{place} has these sums with another noise, number of rows or plan"),
                "ask for the figures again: somebody has changed the file",
            ),
        }
    }

    /// Refuses a receipt whose facts about its plan are not the plan's.
    fn check_plan(&self, plan: &Plan) -> Result<(), Failure> {
        let draft = plan.draft();
        let repeated = [
            ("digest", json!(plan.digest_hex())),
            ("delta", json!(draft.privacy.delta)),
            ("epsilon_claimed", json!(plan.epsilon_claimed())),
            ("independent_std", json!(mechanism::independent_std(plan))),
            ("correlated_std", json!(mechanism::correlated_std(plan))),
            ("pairwise_std", json!(mechanism::pairwise_std(plan))),
            ("unit", json!(draft.data.unit)),
            ("adjacency", json!(draft.data.adjacency)),
            ("claims", json!(plan.calibration().claims)),
        ];
        for (key, planned) in repeated {
            if self.object[key] != planned {
                return Err(self.refused(format!("its {key} is not the plan's")));
            }
        }
        self.check_delta(plan)?;
        // What decides how the loss is computed.
        let protect = draft.sums_everybody().then_some(draft.computation.protect());
        let gossip = draft.sums().filter(|_| draft.averages());
        let gossip = gossip.map(|sums| json!({ "sums": sums, "protect": draft.computation.protect() }));
        let planned = [("protect", json!(protect)), ("gossip", json!(gossip))];
        for (key, planned) in planned {
            if self.object[key] != planned
                && !(self.end()? != StatedEnd::Carried && self.object[key].is_null())
            {
                return Err(self.refused(format!("its {key} is not the plan's")));
            }
        }
        let (included, departed) = (self.parties(plan, "included")?, self.parties(plan, "departed")?);
        let is_gossip = draft.averages();
        if self.word("outcome") == "done" && !is_gossip && included.len() < plan.parties() {
            return Err(
                self.refused("it is done only with everybody's data in the result, and lacks somebody's")
            );
        }
        match included.intersection(&departed).next() {
            Some(&party) if !is_gossip && draft.releases() == 1 => Err(self.refused(format!(
                "it says that {} departed, and that its data are in the result",
                draft.members[party].name
            ))),
            _ => Ok(()),
        }
    }

    /// The plan with the numbers of records that START fixed, where it has bounds: one within its
    /// bound of each party in the result.
    ///
    /// # Errors
    /// The receipt repeats something of its plan wrongly, or has a number that the plan does not
    /// allow.
    pub(super) fn plan_as_run(&self, plan: &Plan) -> Result<Plan, Failure> {
        self.check_plan(plan)?;
        let mut known = RecordsAtStart::new();
        for (name, count) in self.object["records"].as_object().into_iter().flatten() {
            let members = &plan.draft().members;
            let party = members.iter().position(|member| member.name == *name);
            let bound = party.and_then(|party| Some((party, members[party].records?)));
            match (bound, count.as_u64().and_then(|count| u32::try_from(count).ok())) {
                (Some((party, bound @ Records::AtMost(_))), Some(count)) if bound.admits(count.into()) => {
                    known.insert(party, count);
                }
                _ => {
                    return Err(self.refused(format!(
                        "its records say {count} of {name}, which the plan does not allow"
                    )));
                }
            }
        }
        let is_lacking = |party: &Party| {
            let bounded = matches!(plan.draft().members[*party].records, Some(Records::AtMost(_)));
            bounded && !known.contains_key(party)
        };
        match self.parties(plan, "included")?.into_iter().find(is_lacking) {
            Some(party) => Err(self.refused(format!(
                "it does not say how many records of {} are in the result (records)",
                plan.draft().members[party].name
            ))),
            None => Ok(plan.with_records(&known)),
        }
    }

    /// The parts of δ beside the plan's own: a draw only where the plan has one, and no less for
    /// sampling than the noise of the plan adds at the loss that is stated.
    fn check_delta(&self, plan: &Plan) -> Result<(), Failure> {
        let mut claims = plan.calibration().claims.iter();
        if !self.object["draw"].is_null() && !claims.any(|claim| claim.draw.is_some()) {
            return Err(self.refused("it has a draw, and the plan draws nothing"));
        }
        let Some(epsilon) = self.number("epsilon").filter(|epsilon| *epsilon > 0.0) else {
            return Ok(());
        };
        let least = plan.sampling_delta(epsilon);
        let stated = self.number("sampling_delta").unwrap_or(-1.0);
        if stated < least * (1.0 - SAMPLING_ROUNDING) {
            return Err(self.refused(format!(
                "its sampling_delta is below {least:e}, which the plan's noise adds at its epsilon"
            )));
        }
        Ok(())
    }
}

/// Returns the failure for a receipt that is not believed.
fn refused(place: &str, what: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::PlanRefused, format!("{place}: {what}")).field(place)
}
