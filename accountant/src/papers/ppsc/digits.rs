//! PPSC's Figure 8: a classifier of handwritten digits by Algorithm 4.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use undertone_protocol::model::auc::area_under_curve;
use undertone_protocol::model::descent::StepLength;
use undertone_protocol::model::local_step::{LocalStep, PrivateRows};
use undertone_protocol::model::loss::Loss;
use undertone_protocol::model::ordered::dot;
use undertone_protocol::model::projection::{ModelSet, Projection};

use crate::papers::error::PaperError;
use crate::papers::figure::{Cell, Chart, Column, Figure, Table, curves};
use crate::papers::given::{Digits, Given};
use crate::parallel::in_parallel;

/// The cycle's nodes.
const PARTIES: usize = 10;
/// Outer iterations.
const OUTER: u64 = 3000;
/// The level that the paper's curves end at.
const IN_PAPER: f64 = 0.85;
/// The share of the digits that is trained on, as a fraction: the paper has six sevenths.
const TRAINED: [usize; 2] = [6, 10];
/// Iterations that the table shows.
const SHOWN: [u64; 6] = [10, 100, 500, 1000, 1500, 3000];
/// How near to its end a curve is called steady.
const STEADY: f64 = 0.005;
/// Every so many iterations the model is judged.
const JUDGED: u64 = 10;

/// The rule by which a digit is a positive one: the paper does not say.
type Positive = fn(u8) -> bool;

const LABELS: [(&str, Positive); 4] = [
    ("even", |digit| digit.is_multiple_of(2)),
    ("5 or more", |digit| digit >= 5),
    ("8", |digit| digit == 8),
    ("0", |digit| digit == 0),
];

/// The curve of one labelling: the area under the curve by iterations.
#[derive(Serialize)]
struct Labelling {
    positive: &'static str,
    /// At the iterations that are shown.
    auc: [(u64, Option<f64>); SHOWN.len()],
    end: f64,
    /// The iteration from which on it stays near its end.
    steady_from: Option<u64>,
    paper: f64,
    ratio: f64,
    #[serde(skip)]
    points: Vec<(u64, f64)>,
}

impl Labelling {
    fn of(positive: &'static str, points: Vec<(u64, f64)>) -> Self {
        let at = |iteration| points.iter().find(|(at, _)| *at == iteration);
        let end = points.last().map_or(f64::NAN, |(_, auc)| *auc);
        let off = |(_, auc): &&(u64, f64)| (auc - end).abs() > STEADY;
        let last_off = points.iter().rev().find(off).map_or(0, |(at, _)| *at);
        let steady = points.iter().find(|(at, _)| *at > last_off);
        Labelling {
            positive,
            auc: SHOWN.map(|iteration| (iteration, at(iteration).map(|(_, auc)| *auc))),
            end,
            steady_from: steady.map(|(at, _)| *at),
            paper: IN_PAPER,
            ratio: end / IN_PAPER,
            points,
        }
    }

    fn shown(&self, place: usize) -> Cell {
        Cell::perhaps(self.auc[place].1.map(|auc| format!("{auc:.3}")))
    }
}

/// Figure 8, with the digits that are given.
pub(crate) fn figure_8(given: &Given<'_>) -> Result<Figure, PaperError> {
    let data = given.digits.ok_or(PaperError::NoDigits)?;
    let trained = data.pictures.len() * TRAINED[0] / TRAINED[1] / PARTIES * PARTIES;
    if trained == 0 {
        return Err(PaperError::FewDigits);
    }
    let ball = ModelSet::Ball { radius: 1.0 };
    // A ball of radius 1 has a projection in every dimension that pictures have.
    let ball = ball.projection(data.pixels).expect("a ball");
    let (judged, all) = (AtomicU64::new(0), OUTER / JUDGED * LABELS.len() as u64);
    let heard = || {
        let done = judged.fetch_add(1, Ordering::Relaxed) + 1;
        (given.watch)("figure 8", Some((done, all)));
    };
    let labelling = |place: usize| {
        let (label, positive) = LABELS[place];
        Some(Labelling::of(
            label,
            curve(data, (trained, positive), &ball, &heard),
        ))
    };
    Ok(figure(&in_parallel(LABELS.len(), labelling), trained))
}

/// Algorithm 4 on one labelling. What gossip shuffles is the same in the mean, to the bit, so that
/// the curve is the one of every ε; averaging is exact, as the paper's 1,400 rounds are to 1e-6.
fn curve(
    data: &Digits,
    (trained, positive): (usize, Positive),
    ball: &Projection,
    heard: &impl Fn(),
) -> Vec<(u64, f64)> {
    let each = trained / PARTIES;
    let step = |party: usize| {
        let of_party = party * each..(party + 1) * each;
        let targets = data.digits[of_party.clone()].iter();
        let rows = PrivateRows {
            features: data.pictures[of_party].to_vec(),
            targets: targets.map(|&digit| f64::from(positive(digit))).collect(),
        };
        let first = 1.0;
        LocalStep::of_loss(
            rows,
            (Loss::Logistic, 0.0),
            StepLength::Inverse { first },
            ball.clone(),
        )
    };
    let steps: Vec<LocalStep> = (0..PARTIES).map(step).collect();
    let mut mean = vec![0.0; data.pixels];
    let mut points = Vec::new();
    for iteration in 1..=OUTER + 1 {
        let mut sum = vec![0.0; data.pixels];
        for step in &steps {
            let mut state = mean.clone();
            step.apply(iteration, &mut state);
            sum.iter_mut().zip(&state).for_each(|(s, x)| *s += x);
        }
        mean = sum.into_iter().map(|s| s / PARTIES as f64).collect();
        // The first step makes the states that iteration 1 begins with.
        let done = iteration - 1;
        if done > 0 && (done.is_multiple_of(JUDGED) || SHOWN.contains(&done)) {
            let held_out = data.pictures[trained..].iter().zip(&data.digits[trained..]);
            let scored = held_out.map(|(row, &digit)| (dot(row, &mean), positive(digit)));
            points.push((done, area_under_curve(scored).unwrap_or(f64::NAN)));
        }
        if done > 0 && done.is_multiple_of(JUDGED) {
            heard();
        }
    }
    points
}

fn figure(labellings: &[Labelling], trained: usize) -> Figure {
    const COLUMNS: [Column<Labelling>; 10] = [
        ("positive", |row| Cell::text(row.positive)),
        ("l = 10", |row| row.shown(0)),
        ("l = 100", |row| row.shown(1)),
        ("l = 500", |row| row.shown(2)),
        ("l = 1000", |row| row.shown(3)),
        ("l = 1500", |row| row.shown(4)),
        ("l = 3000", |row| row.shown(5)),
        ("steady from", |row| Cell::perhaps(row.steady_from)),
        ("paper", |row| Cell::text(row.paper)),
        ("ratio", |row| Cell::text(format!("{:.3}", row.ratio))),
    ];
    let line = |row: &Labelling| {
        let name = format!("positive: {}", row.positive);
        let points = row.points.clone().into_iter();
        points.map(move |(at, auc)| (name.clone(), at as f64, auc))
    };
    let in_paper = [1500.0, OUTER as f64].map(|at| ("the paper, from 1,500 on".into(), at, IN_PAPER));
    Figure {
        title: format!(
            "PPSC, Figure 8: area under the curve by outer iterations l of Algorithm 4, logistic loss on the \
             unit ball, {PARTIES} parties of {} digits",
            trained / PARTIES
        ),
        table: Table::of(labellings, &COLUMNS),
        notes: vec![
            "One curve for ε = 0.001, 0.01 and 0.1 alike: noise of gossip cancels in the mean, as the paper \
             says too."
                .into(),
            "The paper trains on MNIST's 60,000 training digits; here six tenths of the test digits are \
             trained on, and the rest judges."
                .into(),
            "Which digits are positive, the scale of pixels, and λ are not in the paper: here they are as the \
             first column says, from 0 to 1, and 0. The level of 0.85 depends on them, its being reached late and \
             held is the paper's."
                .into(),
        ],
        chart: Some(Chart {
            title: "Area under the curve on digits held out",
            x: "outer iterations",
            y: "area under the curve",
            logarithmic: false,
            counted: true,
            curves: curves(labellings.iter().flat_map(line).chain(in_paper)),
        }),
    }
}
