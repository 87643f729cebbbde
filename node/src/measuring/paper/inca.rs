//! INCA's figures.

use serde_json::json;
use undertone_accountant::account::baselines::{Formula, MUFFLIATO_PRINTED, PRINTED};
use undertone_accountant::account::conditions::{Exchanges, Watched};
use undertone_accountant::losses::gaussian::GaussianError;

use crate::measuring::paper::computed::Computed;
use crate::measuring::paper::draws::Draws;
use crate::planning::plot::{Chart, ChartLine};
use crate::telling::failure::{Exit, Failure};
use crate::telling::progress::Progress;
use crate::telling::table::{Table, number};

/// Figure 1: mean squared error over n_H.
pub(super) fn figure_1() -> Result<Computed, Failure> {
    let parties = PRINTED.parties;
    let mut table = Table::with_headings(["mechanism", "n_H", "the paper's formula", "exact", "ratio"]);
    let mut rows = Vec::new();
    let mut add = |mechanism: &str, honest: Option<usize>, found: Formula| {
        let ratio = found.exact / found.paper;
        table.row([
            mechanism.into(),
            honest.map_or(String::new(), |honest| honest.to_string()),
            format!("{:.4e}", found.paper),
            format!("{:.4e}", found.exact),
            format!("{ratio:.3}"),
        ]);
        rows.push(json!({
            "mechanism": mechanism, "honest": honest, "paper": found.paper, "ours": found.exact, "ratio": ratio,
        }));
    };
    let all = |formula: Result<Formula, _>| formula.map_err(refuse);
    let (central, local) = (all(PRINTED.central())?, all(PRINTED.local())?);
    add("central", None, central);
    let honest: Vec<usize> = (0..=7)
        .map(|tenth| parties - (parties * tenth + 5) / 10)
        .collect();
    let mut of_inca = Vec::new();
    for &honest in &honest {
        let found = all(PRINTED.correlated(honest))?;
        add(
            "INCA; secure aggregation with distributed noise",
            Some(honest),
            found,
        );
        of_inca.push((honest as f64, found));
    }
    let muffliato = PRINTED.muffliato();
    add("Muffliato, hypercube", None, muffliato);
    add("local", None, local);
    Ok(Computed {
        name: "inca-figure1",
        title: format!(
            "INCA, Figure 1: mean squared error of a mean of {parties} numbers from 0 to 1, ε = {}, δ = {:e}",
            PRINTED.epsilon, PRINTED.delta
        ),
        rows,
        table,
        notes: vec![
            "The paper's formulas have c² = 2 ln(1.25/δ); exact is the Gaussian trade-off, which needs less \
             noise."
                .into(),
            format!(
                "Muffliato is printed as {MUFFLIATO_PRINTED}: that has the second largest eigenvalue of the \
                 gossip matrix where the method needs the spectral gap (T = 8, not 17). Its loss is the mean \
                 over all observers, with nobody colluding: a weaker adversary than any other's here."
            ),
            "GOPA and CorDP-DME have INCA's error while nobody departs (see inca-figure3).".into(),
        ],
        chart: Some(chart_1(&of_inca)?),
    })
}

/// Figure 1's curves: `of_inca` has the errors by the number of honest parties.
fn chart_1(of_inca: &[(f64, Formula)]) -> Result<Chart, Failure> {
    let ends = [of_inca.last(), of_inca.first()].map(|end| end.map_or(0.0, |found| found.0));
    let level = |name: &str, value: f64| ChartLine {
        name: name.into(),
        points: ends.map(|at| (at, value)).to_vec(),
    };
    let curve = |name: &str, error: fn(&Formula) -> f64| ChartLine {
        name: name.into(),
        points: of_inca
            .iter()
            .map(|(honest, found)| (*honest, error(found)))
            .collect(),
    };
    Ok(Chart {
        title: "Mean squared error, n = 1,024, ε = 0.1, δ = 1e-5",
        x: "honest parties",
        y: "mean squared error",
        logarithmic: true,
        counted: true,
        lines: vec![
            level("local noise", PRINTED.local().map_err(refuse)?.exact),
            level("Muffliato", PRINTED.muffliato().exact),
            curve("INCA", |found| found.exact),
            curve("INCA, the paper's noise", |found| found.paper),
            level("trusted server", PRINTED.central().map_err(refuse)?.exact),
        ],
    })
}

fn refuse(error: GaussianError) -> Failure {
    Failure::new(Exit::Internal, error.to_string())
}

/// Runs for each point of Figure 2; the paper has 10⁵.
const RUNS_OF_FIGURE_2: u64 = 10_000;
/// Runs for each point of Figure 2 with several receivers, whose ranks take longer.
const RUNS_OF_RANKS: u64 = 200;
/// Runs for each point of Figure 5: the paper's.
const RUNS_OF_FIGURE_5: u64 = 100;

/// The least number of rounds after which the conditions held in every run; none if they did not.
fn least_rounds(counts: &[u64]) -> Option<usize> {
    let last = counts.iter().rposition(|&count| count > 0)?;
    Some(last).filter(|&last| last + 1 < counts.len())
}

/// The least number of rounds after which the conditions held in half of the runs.
fn rounds_of_half(counts: &[u64], runs: u64) -> Option<usize> {
    let mut held = 0;
    counts.iter().position(|count| {
        held += count;
        2 * held >= runs
    })
}

/// Figure 2: the least T.
pub(super) fn figure_2(draws: Draws, progress: &mut Progress) -> Computed {
    const SHARES: [f64; 6] = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5];
    let runs = draws.runs.unwrap_or(RUNS_OF_FIGURE_2);
    let mut table = Table::with_headings(["n", "k", "corrupted", "runs", "least T", "T of half of the runs"]);
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for (parties, fanout) in [(100, 1), (500, 1), (1000, 1), (5000, 1), (100, 2), (100, 3)] {
        let runs = if fanout == 1 {
            runs
        } else {
            runs.min(RUNS_OF_RANKS)
        };
        let mut points = Vec::new();
        for share in SHARES {
            progress.show(&format!(
                "{parties} parties, {fanout} receivers, {share} corrupted"
            ));
            let corrupted = (share * parties as f64).round() as usize;
            let exchanges = Exchanges {
                parties,
                fanout,
                afresh: true,
                seen: Watched::Corrupted(corrupted),
            };
            let counts = exchanges.first_rounds(runs, draws.seed);
            let least = least_rounds(&counts);
            let half = rounds_of_half(&counts, runs);
            table.row([
                parties.to_string(),
                fanout.to_string(),
                share.to_string(),
                runs.to_string(),
                least.map_or("more than 63".into(), |least| least.to_string()),
                half.map_or(String::new(), |half| half.to_string()),
            ]);
            rows.push(json!({
                "parties": parties, "fanout": fanout, "corrupted": share, "runs": runs, "rounds": least,
                "rounds_of_half": half,
            }));
            points.extend(least.map(|least| (share, least as f64)));
        }
        let name = match fanout {
            1 => format!("n = {parties}"),
            _ => format!("n = {parties}, k = {fanout}"),
        };
        lines.push(ChartLine { name, points });
    }
    Computed {
        name: "inca-figure2",
        title: "INCA, Figure 2: the least number of rounds after which Theorem 4.5's conditions held in every \
                run (at each round each party sends to k others that it has not sent to before)"
            .into(),
        rows,
        table,
        notes: vec![
            "The paper prints no numbers but that 5,000 parties of whom half are corrupted take slightly more \
             than 15 rounds, of 10⁵ runs (--runs 100000); more runs find rarer draws."
                .into(),
            "Permutations, in which everybody receives as well, take fewer, and of these the chance is a closed \
             sum: `undertone account static`."
                .into(),
            format!("With several receivers {RUNS_OF_RANKS} runs at most: each takes ranks, not pieces."),
        ],
        chart: Some(Chart {
            title: "Rounds until Theorem 4.5's conditions held in every run",
            x: "share of corrupted parties",
            y: "rounds T",
            logarithmic: false,
            counted: false,
            lines,
        }),
    }
}

/// Figure 5: success by rounds.
pub(super) fn figure_5(draws: Draws, progress: &mut Progress) -> Computed {
    const PARTIES: usize = 100;
    let runs = draws.runs.unwrap_or(RUNS_OF_FIGURE_5);
    let mut table = Table::with_headings(["adversary", "k", "T", "messages a party", "success"]);
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for (adversary, seen) in [
        ("half of the states observed", Watched::HalfOfStates),
        ("30 % corrupted", Watched::Corrupted(30)),
    ] {
        for fanout in 1..=5 {
            progress.show(&format!("{adversary}, {fanout} receivers"));
            let exchanges = Exchanges {
                parties: PARTIES,
                fanout,
                afresh: false,
                seen,
            };
            let counts = exchanges.first_rounds(runs, draws.seed);
            let mut points = Vec::new();
            for rounds in [2, 4, 6, 8, 10] {
                let held: u64 = counts[..=rounds].iter().sum();
                let share = held as f64 / runs as f64;
                table.row([
                    adversary.into(),
                    fanout.to_string(),
                    rounds.to_string(),
                    (fanout * rounds).to_string(),
                    number(share),
                ]);
                rows.push(json!({
                    "adversary": adversary, "fanout": fanout, "rounds": rounds, "messages": fanout * rounds,
                    "runs": runs, "success": share,
                }));
                points.push((rounds as f64, share));
            }
            if seen != Watched::HalfOfStates {
                lines.push(ChartLine {
                    name: format!("k = {fanout}"),
                    points,
                });
            }
        }
    }
    Computed {
        name: "inca-figure5",
        title: format!(
            "INCA, Figure 5: in which share of {runs} runs Theorem 4.5's conditions hold, n = {PARTIES}"
        ),
        rows,
        table,
        notes: vec![
            "The paper prints no numbers of this figure; what it says of it holds here: observed states are \
             outrun by more receivers, corrupted parties by fewer."
                .into(),
        ],
        chart: Some(Chart {
            title: "Success with 30 of 100 parties corrupted",
            x: "rounds T",
            y: "share of runs",
            logarithmic: false,
            counted: true,
            lines,
        }),
    }
}
