//! `undertone simulate --paper`: numbers that a paper prints, ours, and the ratio.

mod computed;
mod departing;
pub(crate) mod draws;
mod equations;
mod inca;
mod ppsc;
mod without_roll_back;

use std::path::Path;

use clap::ValueEnum;
use serde_json::json;

use crate::measuring::paper::computed::Computed;
use crate::measuring::paper::draws::Draws;
use crate::telling::failure::Failure;
use crate::telling::progress::Progress;
use crate::telling::report::Report;

/// A figure or table of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Paper {
    /// INCA: mean squared error over the number of honest parties, and that of other mechanisms
    IncaFigure1,
    /// INCA: rounds until the conditions of Theorem 4.5 hold, by parties and share of colluders
    IncaFigure2,
    /// INCA: mean squared error over the share of parties that depart, and that of others
    IncaFigure3,
    /// INCA: that of its protocol without roll-back, by rounds and receivers
    IncaFigure3a,
    /// INCA: share of runs in which they hold, by rounds and receivers
    IncaFigure5,
    /// PPSC: iterations until every state has changed with probability ρ
    PpscTable2,
    /// PPSC: rounds of plain averaging on the 10-cycle to reach accuracy ν
    PpscTable3,
    /// PPSC: rounds of averaging in each outer iteration of linear equations to reach accuracy ν
    PpscTable5,
    /// PPSC: probability that every state changes in every outer iteration
    PpscTable6,
    /// All of these
    All,
}

impl Paper {
    /// Whether it rests on draws.
    pub fn is_drawn(self) -> bool {
        use Paper::{All, IncaFigure2, IncaFigure3a, IncaFigure5};
        matches!(self, IncaFigure2 | IncaFigure3a | IncaFigure5 | All)
    }

    fn compute(self, draws: Draws, progress: &mut Progress) -> Result<Vec<Computed>, Failure> {
        Ok(match self {
            Paper::IncaFigure1 => vec![inca::figure_1()?],
            Paper::IncaFigure2 => vec![inca::figure_2(draws, progress)],
            Paper::IncaFigure3 => vec![departing::figure_3()?],
            Paper::IncaFigure3a => vec![without_roll_back::figure_3a(draws, progress)?],
            Paper::IncaFigure5 => vec![inca::figure_5(draws, progress)],
            Paper::PpscTable2 => vec![ppsc::table_2()],
            Paper::PpscTable3 => vec![ppsc::table_3()],
            Paper::PpscTable5 => vec![equations::table_5()],
            Paper::PpscTable6 => vec![equations::table_6()],
            Paper::All => {
                let all = Paper::value_variants()
                    .iter()
                    .filter(|paper| **paper != Paper::All);
                let each = all.map(|paper| paper.compute(draws, progress));
                let each: Vec<Vec<Computed>> = each.collect::<Result<_, _>>()?;
                each.into_iter().flatten().collect()
            }
        })
    }
}

/// Computes a figure or table, or all; with a folder it writes each as CSV, and figures as SVG.
pub(crate) fn report(paper: Paper, draws: Draws, out: Option<&Path>) -> Result<Report, Failure> {
    let mut progress = Progress::start();
    let all = paper.compute(draws, &mut progress);
    progress.end();
    let all = all?;
    let mut text: String = all.iter().map(Computed::text).collect::<Vec<_>>().join("\n");
    let mut written = Vec::new();
    if let Some(folder) = out {
        for computed in &all {
            written.extend(computed.write(folder)?);
        }
        text += &format!("\nIn {}: {}\n", folder.display(), written.join(", "));
    }
    let mut json = match &all[..] {
        [one] => one.json(),
        many => {
            let objects: Vec<_> = many.iter().map(Computed::json).collect();
            json!({"paper": "all", "papers": objects, "exit_code": 0})
        }
    };
    if out.is_some() {
        json["files"] = json!(written);
    }
    Ok(Report::done(json, text))
}
