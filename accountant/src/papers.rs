//! Figures and tables of the papers, computed again: one file a figure, or a few that share their
//! setting. Each is a [`Figure`]: numbers that a paper prints, ours, and what is to be known.

pub mod error;
pub mod figure;
pub mod given;
mod inca;
mod kk;
pub mod ppsc;

use crate::papers::error::PaperError;
use crate::papers::figure::Figure;
use crate::papers::given::Given;

/// How much of a figure or table rests on draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draws {
    /// Nothing: no seed, no runs.
    Nothing,
    /// Its graphs or pairs, once.
    Once,
    /// Several runs for each point.
    Runs,
}

/// A figure or table that can be computed again.
#[derive(Debug)]
pub struct Paper {
    /// Its name: paper and number.
    pub name: &'static str,
    /// A line that says what the figure shows.
    pub about: &'static str,
    /// How much of it is drawn.
    pub drawn: Draws,
    /// Whether it needs data that are not this program's.
    pub needs_data: bool,
    compute: fn(&Given<'_>) -> Result<Figure, PaperError>,
}

impl Paper {
    /// Computes it.
    ///
    /// # Errors
    /// The data that it needs are missing or not what they should be; nothing else that is given
    /// here fails.
    pub fn compute(&self, given: &Given<'_>) -> Result<Figure, PaperError> {
        (self.compute)(given)
    }
}

const fn paper(
    name: &'static str,
    drawn: Draws,
    about: &'static str,
    compute: fn(&Given<'_>) -> Result<Figure, PaperError>,
) -> Paper {
    Paper {
        name,
        about,
        drawn,
        needs_data: false,
        compute,
    }
}

/// All of them.
pub static PAPERS: [Paper; 14] = [
    paper(
        "inca-figure1",
        Draws::Nothing,
        "INCA: mean squared error over the number of honest parties, and that of other mechanisms",
        inca::errors::figure_1,
    ),
    paper(
        "inca-figure2",
        Draws::Runs,
        "INCA: rounds until the conditions of Theorem 4.5 hold, by parties and share of colluders",
        inca::conditions::figure_2,
    ),
    paper(
        "inca-figure3",
        Draws::Nothing,
        "INCA: mean squared error over the share of parties that depart, and that of others",
        inca::departing::figure_3,
    ),
    paper(
        "inca-figure3a",
        Draws::Runs,
        "INCA: that of its protocol without roll-back, by rounds and receivers",
        inca::without_roll_back::figure_3a,
    ),
    paper(
        "inca-figure5",
        Draws::Runs,
        "INCA: share of runs in which they hold, by rounds and receivers",
        inca::conditions::figure_5,
    ),
    paper(
        "ppsc-table2",
        Draws::Nothing,
        "PPSC: iterations until every state has changed with probability ρ",
        ppsc::averaging::figure_of_table_2,
    ),
    paper(
        "ppsc-table3",
        Draws::Nothing,
        "PPSC: rounds of plain averaging on the 10-cycle to reach accuracy ν",
        ppsc::averaging::figure_of_table_3,
    ),
    paper(
        "ppsc-table5",
        Draws::Nothing,
        "PPSC: rounds of averaging in each outer iteration of linear equations to reach accuracy ν",
        ppsc::equations::figure_of_table_5,
    ),
    paper(
        "ppsc-table6",
        Draws::Nothing,
        "PPSC: probability that every state changes in every outer iteration",
        ppsc::equations::figure_of_table_6,
    ),
    Paper {
        needs_data: true,
        ..paper(
            "ppsc-figure8",
            Draws::Nothing,
            "PPSC: a classifier's area under the curve by iterations of Algorithm 4, on --data's digits",
            ppsc::digits::figure_8,
        )
    },
    paper(
        "kk-fig1",
        Draws::Once,
        "KK, newest version: squared sensitivity of a pair of nodes over the number of rounds",
        kk::pairs::figure_1,
    ),
    paper(
        "kk-fig2",
        Draws::Once,
        "KK, newest version: the upper bound on it",
        kk::pairs::figure_2,
    ),
    paper(
        "kk-first-fig1",
        Draws::Once,
        "KK, first version: that with secure sums; with --data on the Facebook graph, too",
        kk::pairs::first_figure_1,
    ),
    paper(
        "kk-first-fig2",
        Draws::Once,
        "KK, first version: mean ε of adaptive contributions by the number of rounds",
        kk::epsilon::first_figure_2,
    ),
];
