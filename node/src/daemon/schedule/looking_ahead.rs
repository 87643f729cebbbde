//! Looking ahead: what the next run of each schedule costs, and whether the budget pays for it.

use undertone_protocol::plan::scheduled::{OccurrenceId, Scheduled};

use crate::daemon::config::Config;
use crate::daemon::config::schedules::Schedule;
use crate::daemon::contribution::totals;
use crate::daemon::ledger::account::Protected;
use crate::daemon::policy;
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::schedule::forecasts::Forecast;
use crate::daemon::service::Service;
use crate::party::part;
use crate::reporting::failure::Failure;

impl Service {
    /// Computes what runs of the schedules cost, where that is not known.
    pub(super) async fn look_ahead(&self) {
        let config = self.config();
        self.shared.schedules.keep(&config);
        for index in 0..config.schedules.len() {
            let schedule = &config.schedules[index];
            if self.shared.schedules.forecast(&config, schedule).is_some() {
                continue;
            }
            let own = config.clone();
            let computed = self
                .check(move || Ok(forecast(&own, &own.schedules[index])?))
                .await;
            match computed {
                Ok(forecast) => {
                    self.shared.schedules.foresee(&schedule.name, forecast);
                }
                Err(refusal) => {
                    tracing::error!(schedule = schedule.name, "no plan can be made of it: {refusal}");
                }
            }
        }
    }

    /// How many more runs of a schedule the budget pays for, 1,000 at most; `None` where that is
    /// not known, or nothing limits it.
    pub(in crate::daemon) fn runs_paid_for(
        &self,
        config: &Config,
        schedule: &Schedule,
        besides: Option<&str>,
    ) -> Option<u64> {
        let Forecast {
            protected, charge, ..
        } = self.shared.schedules.forecast(config, schedule)?;
        let totals = totals(config, &protected);
        self.shared
            .ledger()
            .pays_for(&protected, charge, &totals, besides)
    }

    /// Refuses what the budget would not pay for; what is set aside for the run `besides`, which it
    /// would take the place of, counts as free.
    pub(super) fn can_pay(&self, schedule: &Schedule, besides: Option<&str>) -> Result<(), Refusal> {
        match self.runs_paid_for(&self.config(), schedule, besides) {
            Some(0) => Err(Refusal::new(
                Kind::Budget,
                format!(
                    "the budget of data set {:?} does not pay for another run",
                    schedule.data_set
                ),
            )
            .field("data_set")),
            _ => Ok(()),
        }
    }
}

fn forecast(config: &Config, schedule: &Schedule) -> Result<Forecast, Failure> {
    let some = Scheduled {
        occurrence: OccurrenceId([0; 32]),
        attempt: 0,
    };
    let plan = schedule.terms(&config.peers).forecast(None, some)?;
    let me = part::member(&plan, config.identity.peer_id())?;
    Ok(Forecast {
        of: [config.list_digest, schedule.run_digest],
        charge: policy::charge(&plan, me),
        protected: Protected {
            data_set: schedule.data_set.clone(),
            unit: schedule.unit,
            adjacency: plan.draft().data.adjacency,
        },
        epsilon: plan.epsilon_claimed(),
    })
}
