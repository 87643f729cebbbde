//! Simulated statistics of tables: how far each figure is from the true one, beside what is said of
//! its noise, and how often its interval holds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use undertone_accountant::calibration::utility::error_of_whole;
use undertone_protocol::clipping::contribution::Clipped;
use undertone_protocol::describe::figures::estimate::ReadingAs;
use undertone_protocol::describe::figures::groups::AllFigures;
use undertone_protocol::describe::released::ReleasedSum;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::defaults::Defaults;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::raw::RawRunFile;
use undertone_protocol::simulator::scenario::{Conditions, Report as Simulated};
use undertone_protocol::task::mean::Mean;
use undertone_protocol::topology::party::Party;

use crate::commands::local::described;
use crate::commands::local::parties::{LocalParty, count_records};
use crate::commands::simulate::numbered::{RunsAsked, check_kills};
use crate::measuring::trial::{Contributions, KillPhase, Trial};
use crate::party::figures_file::shown::lines;
use crate::planning::make;
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::report::Report;
use crate::reporting::table::{Table, number};
use crate::table_file::reading::{self, MostlyWords};

/// Tables that statistics are simulated of.
pub(super) struct SimulatedTables {
    /// The folder with a table for each party.
    pub(super) inputs: PathBuf,
    /// How many there must be.
    pub(super) parties: Option<usize>,
    /// The runs.
    pub(super) runs: RunsAsked,
    /// When parties are killed.
    pub(super) phase: KillPhase,
}

/// The parties' sums on the plan's lattice. They are private: there is no `Debug`.
struct SumsOfTables(Vec<LatticeVector>);

impl Contributions for SumsOfTables {
    fn contribution(&self, _: &Plan, party: Party, _: u32, _: &[f64]) -> LatticeVector {
        self.0[party].clone()
    }
}

/// A figure's errors over all runs.
#[derive(Default)]
struct FigureTotals {
    shown: u64,
    held: u64,
    squares: f64,
    noise: f64,
}

impl SimulatedTables {
    /// Simulates the runs.
    ///
    /// # Errors
    /// Tables or a run file that are none (exit 2, 7), or a plan that cannot be made.
    pub(super) fn run(self, place: &Path, raw: RawRunFile) -> Result<Report, Failure> {
        let tables = described::read(&self.inputs, self.parties, (&raw, place), MostlyWords::Refused)?;
        let refuse = |e| make::run_failure(place, &e);
        let mut run = raw.resolve(tables.len(), Defaults::Local).map_err(refuse)?;
        check_kills(self.runs.kills, tables.len())?;
        count_records(&mut run, &tables);
        let peers =
            Peers::simulated(tables.len()).map_err(|e| Failure::usage(e.to_string()).field("--inputs"))?;
        let plan = Arc::new(make::make(run, &peers, self.runs.seed)?);
        let sums = tables
            .iter()
            .map(|table| on_lattice(&plan, table))
            .collect::<Result<_, _>>()?;
        let trial = Trial::new(plan.clone(), SumsOfTables(sums));
        let (mut totals, mut without) = (BTreeMap::new(), 0u64);
        let mut order = vec![];
        self.runs.each(|seed, silent| {
            let faults = trial.kills(self.runs.kills, self.phase, seed, silent);
            let simulated = trial.simulate(Conditions::new(seed).with_faults(faults));
            match compared(&plan, &tables, &simulated)? {
                Some(pair) => add(&plan, pair, (&mut totals, &mut order)),
                None => without += 1,
            }
            Ok(())
        })?;
        Ok(self.report(&plan, (&totals, &order), without))
    }

    fn report(
        &self,
        plan: &Plan,
        (totals, order): (&BTreeMap<FigureName, FigureTotals>, &[FigureName]),
        without: u64,
    ) -> Report {
        let mut table = Table::with_headings(["group", "column", "statistic", "± found", "± said", "held"]);
        let mut object = vec![];
        for name in order {
            let (group, column, statistic) = name;
            let of = &totals[name];
            let shown = of.shown.max(1) as f64;
            let (found, said) = ((of.squares / shown).sqrt(), of.noise / shown);
            let held = of.held as f64 / shown;
            table.row([
                group.clone(),
                column.clone(),
                statistic.clone(),
                number(found),
                if said > 0.0 {
                    number(said)
                } else {
                    "interval".to_owned()
                },
                format!("{:.0} % of {}", 100.0 * held, of.shown),
            ]);
            object.push(json!({
                "group": group,
                "column": column,
                "statistic": statistic,
                "error": found,
                "noise": said,
                "shown": of.shown,
                "held": held,
            }));
        }
        let mut text = self.runs.title(plan, "runs");
        text += &table.render();
        text += "  Intervals of 95 %; those of quantiles end at the edges of bins, and hold more often.\n";
        if without > 0 {
            text += &format!("  {without} runs ended without a result.\n");
        }
        let object = json!({
            "runs": self.runs.count,
            "without_result": without,
            "statistics": object,
            "exit_code": 0,
        });
        Report::done(object, text)
    }
}

/// The group, column and statistic of a figure.
type FigureName = (String, String, String);

fn on_lattice(plan: &Plan, table: &LocalParty) -> Result<LatticeVector, Failure> {
    let settings = plan.draft().computation.described();
    let described = settings.map(|settings| &settings.describe);
    let described = described.ok_or_else(|| Failure::new(Exit::Internal, "the plan describes nothing"))?;
    let read = reading::read(
        &table.input,
        described,
        (plan.lattice().value_step(), MostlyWords::Taken),
    )?;
    let sum = Clipped::of_table(plan, read.cells);
    let sum = sum.ok_or_else(|| Failure::new(Exit::Internal, "the table was read for another plan"))?;
    Ok(sum.into_vector())
}

/// The figures of a run's first node with a result, and the true ones.
fn compared(
    plan: &Plan,
    tables: &[LocalParty],
    simulated: &Simulated,
) -> Result<Option<(AllFigures, AllFigures)>, Failure> {
    let mut outcomes = simulated.outcomes.iter().flatten();
    let Some((outcome, sum)) = outcomes.find_map(|outcome| Some((outcome, outcome.sum.as_ref()?))) else {
        return Ok(None);
    };
    let Some(settings) = plan.draft().computation.described() else {
        return Ok(None);
    };
    let rows: f64 = outcome.included.iter().map(|&party| plan.weight(party)).sum();
    let mut exact = vec![0.0; plan.draft().dimension()];
    for &party in &outcome.included {
        let own = &tables[party].vector.values;
        exact.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
    }
    let reading = ReadingAs::default();
    let figures = |sums: Vec<f64>, noise: f64| {
        let released = ReleasedSum::of(settings.describe.clone(), sums, noise, Some(rows));
        let released = released.map_err(|_| Failure::new(Exit::Internal, "a sum of another length"))?;
        Ok::<_, Failure>(released.figures(&reading))
    };
    let found = figures(Mean::of_sum(plan, sum), error_of_whole(plan, &outcome.included))?;
    Ok(Some((found, figures(exact, 0.0)?)))
}

/// Adds a run's figures.
fn add(
    plan: &Plan,
    (found, truth): (AllFigures, AllFigures),
    (totals, order): (&mut BTreeMap<FigureName, FigureTotals>, &mut Vec<FigureName>),
) {
    let Some(settings) = plan.draft().computation.described() else {
        return;
    };
    let reading = ReadingAs::default();
    for (found, truth) in found.groups.iter().zip(&truth.groups) {
        let group = found.group.clone().unwrap_or_default();
        let [found, truth] = [found, truth].map(|group| lines(&settings.describe, group, &reading));
        for (found, truth) in found.into_iter().zip(truth) {
            let (Some(figure), Some(truth)) = (&found.figure, truth.true_value()) else {
                continue;
            };
            let name = (group.clone(), found.column.clone(), found.name());
            if !totals.contains_key(&name) {
                order.push(name.clone());
            }
            let of: &mut FigureTotals = totals.entry(name).or_default();
            of.shown += 1;
            let error = figure.raw.unwrap_or(figure.value) - truth;
            // A time that is never reached is no number of months away.
            of.squares += if error.is_finite() { error * error } else { 0.0 };
            of.noise += figure.noise.unwrap_or(0.0);
            of.held += u64::from(figure.holds(truth));
        }
    }
}
