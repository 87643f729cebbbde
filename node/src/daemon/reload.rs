//! SIGHUP: the configuration is read again while runs go on. Peers, policy and budgets may change;
//! what is bound to the process may not, and no budget goes down or away: what a run was promised
//! when it was taken stays true, and what was spent stays counted against something.

use std::sync::{Arc, PoisonError};

use undertone_protocol::messages::notice::Network;

use crate::daemon::config::Config;
use crate::daemon::config::data_sets::DataSet;
use crate::daemon::ledger::account::unit_name;
use crate::daemon::listening::{listening, relays, relays_others};
use crate::daemon::service::Service;
use crate::reporting::failure::Failure;

impl Service {
    /// Puts another configuration in force, for plans that come from now on; runs that were taken
    /// keep what they were checked against.
    ///
    /// # Errors
    /// It changes what only a restart can change, or lowers a budget (exit 2). Nothing has changed
    /// then.
    pub(super) async fn reload(&self, fresh: Config) -> Result<(), Failure> {
        check(&self.config(), &fresh)?;
        let (private, public) = (
            listening(&fresh, Network::Private),
            listening(&fresh, Network::Public),
        );
        self.hub()
            .relist(
                &private.peers,
                &public.peers,
                &relays(&fresh, &self.shared.keys.barred()),
            )
            .map_err(|e| Failure::usage(e.to_string()).field("peers"))?;
        self.hub().name_list(fresh.list_digest);
        self.shared.peers.relist(&fresh).await;
        *self.shared.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
        // Who is new may hold statements, and lack some.
        self.shared.keys_news.send_replace(());
        Ok(())
    }
}

/// Refuses what may not change while the daemon runs.
fn check(old: &Config, fresh: &Config) -> Result<(), Failure> {
    let same = [
        (
            "identity",
            old.identity.peer_id() == fresh.identity.peer_id() && old.identity_file == fresh.identity_file,
        ),
        ("state", old.state == fresh.state),
        ("data", old.data == fresh.data),
        ("output", old.output == fresh.output),
        ("listen.private", old.private == fresh.private),
        ("listen.public", old.public == fresh.public),
        ("peer.relay", relays_others(old) == relays_others(fresh)),
        ("api", old.api == fresh.api),
        ("policy.max_runs", old.max_runs == fresh.max_runs),
    ];
    if let Some((field, _)) = same.into_iter().find(|(_, same)| !same) {
        return Err(Failure::usage(format!("{field} has changed"))
            .field(field)
            .hint("restart the daemon to change it; peers, policy and budgets are read again on SIGHUP"));
    }
    old.data_sets.iter().try_for_each(|set| kept(set, fresh))
}

/// Refuses a data set that is gone, that has another file, or that may cost less.
fn kept(old: &DataSet, fresh: &Config) -> Result<(), Failure> {
    let name = format!("{} ({})", old.name, unit_name(old.unit));
    let refused = |what: &str| {
        Err(Failure::usage(format!("data set {name} {what}"))
            .field("data_set")
            .hint("a budget is only raised while the daemon runs; stop it to do anything else"))
    };
    match fresh.data_set(&old.name, old.unit) {
        None => refused("is gone"),
        Some(set) if set.file != old.file => refused("has another file"),
        Some(set) if set.epsilon < old.epsilon => refused("would have a smaller epsilon"),
        Some(set) if set.delta < old.delta => refused("would have a smaller delta"),
        Some(_) => Ok(()),
    }
}
