//! `undertone simulate --paper`: numbers that a paper prints, ours, and the ratio.

mod classification;
mod computed;
mod departing;
pub(crate) mod draws;
mod equations;
mod handwriting;
mod inca;
mod kk;
mod ppsc;
mod without_roll_back;

use std::path::Path;

use clap::ValueEnum;
use serde_json::json;

use crate::measuring::paper::computed::Computed;
use crate::measuring::paper::draws::Grounds;
use crate::measuring::paper::handwriting::Handwriting;
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
    /// PPSC: a classifier's area under the curve by iterations of Algorithm 4, on --data's digits
    PpscFigure8,
    /// KK, newest version: squared sensitivity of a pair of nodes over the number of rounds
    KkFig1,
    /// KK, newest version: the upper bound on it
    KkFig2,
    /// KK, first version: that with secure sums; with --data on the Facebook graph, too
    KkFirstFig1,
    /// KK, first version: mean ε of adaptive contributions by the number of rounds
    KkFirstFig2,
    /// All of these, and those of --data only with it
    All,
}

impl Paper {
    /// Whether each point is of several runs.
    pub fn has_runs(self) -> bool {
        use Paper::{All, IncaFigure2, IncaFigure3a, IncaFigure5};
        matches!(self, IncaFigure2 | IncaFigure3a | IncaFigure5 | All)
    }

    /// Whether it rests on draws.
    pub fn is_drawn(self) -> bool {
        use Paper::{KkFig1, KkFig2, KkFirstFig1, KkFirstFig2};
        self.has_runs() || matches!(self, KkFig1 | KkFig2 | KkFirstFig1 | KkFirstFig2)
    }

    /// Whether it needs data that are not this program's.
    pub fn needs_data(self) -> bool {
        self == Paper::PpscFigure8
    }

    fn compute(self, given: &Grounds<'_>, progress: &mut Progress) -> Result<Vec<Computed>, Failure> {
        let draws = given.draws;
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
            Paper::PpscFigure8 => {
                let folder = given.data.ok_or_else(|| {
                    Failure::usage("this figure needs MNIST's test digits")
                        .field("--data")
                        .hint("give the folder with t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte")
                })?;
                vec![classification::figure_8(&Handwriting::read(folder)?, progress)?]
            }
            Paper::KkFig1 => vec![kk::figure_1(draws, progress)?],
            Paper::KkFig2 => vec![kk::figure_2(draws, progress)?],
            Paper::KkFirstFig1 => vec![kk::first_figure_1(given, progress)?],
            Paper::KkFirstFig2 => vec![kk::first_figure_2(draws, progress)?],
            Paper::All => {
                let possible = |paper: &&Paper| given.data.is_some() || !paper.needs_data();
                let all = Paper::value_variants()
                    .iter()
                    .filter(|paper| **paper != Paper::All)
                    .filter(possible);
                let each = all.map(|paper| paper.compute(given, progress));
                let each: Vec<Vec<Computed>> = each.collect::<Result<_, _>>()?;
                each.into_iter().flatten().collect()
            }
        })
    }
}

/// Computes a figure or table, or all; with a folder it writes each as CSV, and figures as SVG.
pub(crate) fn report(paper: Paper, given: &Grounds<'_>, out: Option<&Path>) -> Result<Report, Failure> {
    let mut progress = Progress::start();
    let all = paper.compute(given, &mut progress);
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
