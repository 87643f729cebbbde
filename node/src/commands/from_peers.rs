//! `undertone result PLAN.json --from-peers`: the result of a run that this party's `join` did not
//! see to its end, read from the other members: see [`reading_back`].

use std::io::Write;
use std::path::{Path, PathBuf};

use libp2p::identity::Keypair;
use serde_json::json;
use undertone_accountant::losses::charge::Charge;
use undertone_protocol::messages::revocation::Revocations;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;

use crate::daemon::policy;
use crate::network::config::{HubConfig, PeerAddress};
use crate::network::hub::Hub;
use crate::party::agreed_outcome::AgreedOutcome;
use crate::party::figures_file::FiguresFile;
use crate::party::identity::Identity;
use crate::party::model_file::ModelFile;
use crate::party::receipt::resumed::{ChargedAtRestart, receipt};
use crate::party::receipt::{self, signature_of};
use crate::party::spent::marks_of;
use crate::party::{input, part, reaching, reading_back};
use crate::planning::revoked::KnownKeys;
use crate::planning::{files, template};
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::output_file;
use crate::reporting::report::Report;
use crate::vector_file::formats;
use crate::vector_file::layout::{Dtype, Layout};

/// The files of a party whose result is read from the others.
#[derive(Debug)]
pub struct FromPeers<'a> {
    /// The plan that was joined.
    pub plan: &'a Path,
    /// The party's key.
    pub identity: &'a Path,
    /// Keys whose holders' word does not count.
    pub known: &'a KnownKeys,
    /// Where the mean goes.
    pub output: Option<&'a PathBuf>,
    /// Where the receipt goes; its signature beside it.
    pub receipt: Option<&'a PathBuf>,
}

/// Asks the members once, and writes what enough of them give alike.
///
/// # Errors
/// A bad file (exit 2); this identity is no member (exit 3), or has not spent the plan and can
/// still join it (exit 4); too few members give the same result (exit 6).
pub fn run(asked: &FromPeers<'_>) -> Result<Report, Failure> {
    let plan = files::load(asked.plan)?;
    let identity = Identity::load(asked.identity)?;
    let me = part::member(&plan, identity.peer_id()).map_err(|failure| failure.field("--identity"))?;
    let revoked = asked.known.revoked()?;
    let digest = plan.digest_hex();
    match marks_of(asked.identity, &identity.peer_id().to_string())?.check(&digest) {
        Err(failure) if failure.exit == Exit::PrivacyRefused => {}
        Err(failure) => return Err(failure),
        Ok(()) => {
            let message = "nothing of this party has left it for this plan, which it can still join";
            return Err(Failure::new(Exit::Aborted, message)
                .field("PLAN.json")
                .hint("take part with `undertone join`, if the others still wait"));
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Failure::usage(format!("no runtime can be started: {e}")))?;
    let outcome = runtime.block_on(async {
        let hub = Hub::start_asking(asking((&plan, &revoked), me, &identity.keypair))
            .await
            .map_err(|error| Failure::usage(error.to_string()))?;
        let outcome = reading_back::read(&hub, &plan, me).await;
        hub.shutdown().await;
        outcome.map_err(|why| {
            Failure::new(
                Exit::PrivacyRefused,
                format!("there is no result to read yet: {why}"),
            )
            .hint("members that run daemons keep results for each other: try again once more of them are up")
        })
    })?;
    write(asked, (&plan, me), &identity.keypair, &outcome)
}

/// A hub that listens nowhere, and knows all members but those whose keys are revoked.
fn asking((plan, revoked): (&Plan, &Revocations), me: Party, key: &Keypair) -> HubConfig {
    let mut config = reaching::hub_configuration(plan, me, key);
    let others = plan.draft().members.iter().enumerate();
    let others = others.filter(|(party, member)| *party != me && revoked.of(&member.id).is_none());
    config.private.peers = others
        .map(|(_, member)| PeerAddress {
            peer_id: member.id,
            addresses: reaching::parse_all(&member.contact.at),
        })
        .collect();
    for side in [&mut config.private, &mut config.public] {
        (side.listen, side.announced) = (vec![], false);
    }
    config.relays_others = false;
    config
}

/// Writes the mean as `join` does, and the receipt of a party that restarted.
fn write(
    asked: &FromPeers<'_>,
    (plan, me): (&Plan, Party),
    key: &Keypair,
    outcome: &AgreedOutcome,
) -> Result<Report, Failure> {
    let (record, mean) = (&outcome.record, &outcome.mean);
    let charge = policy::charge(plan, me);
    let plain = Layout::npy(plan.draft().data.shape.clone(), Dtype::F64);
    let beside = asked.plan.parent().unwrap_or(Path::new("."));
    let layout = match template::in_folder(plan, beside)? {
        Some(layout) => layout,
        None => input::layout_of_mean(plan, &plain),
    };
    let path = asked.output.map_or(Path::new("mean.npy"), PathBuf::as_path);
    let described = record
        .noise
        .and_then(|noise| FiguresFile::of(plan, mean, (noise, record.rows.unwrap_or(0.0)), &record.included));
    let model = ModelFile::of(plan, mean, epsilon(plan, charge), record.iterations);
    let write_to = |out: &mut dyn Write| match (&described, &model) {
        (Some(figures), _) => figures.write_to(path, out),
        (None, Some(model)) => model.write_to(path, out),
        (None, None) => formats::write_to(out, &layout.of_so_many(mean.len()), mean),
    };
    let unwritten = |e: &std::io::Error| output_file::unwritten(path, "--output", e);
    let sha256 = formats::sha256_of(|out| write_to(out)).map_err(|e| unwritten(&e))?;
    let iterations = match record.iterations {
        0 => 0,
        _ => plan.draft().protected_releases(),
    };
    let receipt = receipt(plan, me, record, ChargedAtRestart { charge, iterations }, &sha256);
    if asked.output.is_some() {
        output_file::write_whole(path, |out| write_to(out)).map_err(|e| unwritten(&e))?;
    }
    let mut text = format!(
        "{} of {} parties are in the result; {} of the others give it alike at least.\n",
        record.included.len(),
        plan.parties(),
        reading_back::witnesses(plan)
    );
    if let Some(path) = asked.output {
        text += &format!("The mean is in {}.\n", path.display());
    }
    if let Some(path) = asked.receipt {
        receipt::write(path, &receipt, key)?;
        let signature = signature_of(path);
        text += &format!(
            "The receipt is in {}, its signature in {}.\n",
            path.display(),
            signature.display()
        );
    }
    Ok(Report {
        json: json!({
            "digest": plan.digest_hex(),
            "outcome": receipt["outcome"],
            "reason": receipt["reason"],
            "included": record.included,
            "epsilon": receipt["epsilon"],
            "result_sha256": sha256,
            "output": asked.output,
            "receipt": asked.receipt,
            "exit_code": Exit::Degraded.code(),
        }),
        text,
        exit: Exit::Degraded.code(),
    })
}

/// ε of the charge at the plan's δ; none where nothing bounds it.
fn epsilon(plan: &Plan, charge: Charge) -> Option<f64> {
    let delta = plan.draft().privacy.delta;
    let epsilon = undertone_accountant::losses::gaussian::epsilon(delta, charge.mu()).ok()?;
    epsilon.is_finite().then_some(epsilon)
}
