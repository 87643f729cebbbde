//! PPSC's Figure 8: a classifier of handwritten digits by Algorithm 4.

use std::sync::mpsc::{Sender, channel};

use serde_json::json;
use undertone_protocol::model::auc::area_under_curve;
use undertone_protocol::model::descent::StepLength;
use undertone_protocol::model::local_step::{LocalStep, PrivateRows};
use undertone_protocol::model::loss::Loss;
use undertone_protocol::model::ordered::dot;
use undertone_protocol::model::projection::{ModelSet, Projection};

use crate::measuring::paper::computed::Computed;
use crate::measuring::paper::handwriting::Handwriting;
use crate::planning::plot::{Chart, ChartLine};
use crate::telling::failure::{Exit, Failure};
use crate::telling::progress::Progress;
use crate::telling::table::Table;

/// The cycle's nodes.
const PARTIES: usize = 10;
/// Outer iterations.
const OUTER: u64 = 3000;
/// The level that the paper's curves end at.
const PRINTED: f64 = 0.85;
/// The share of the digits that is trained on, as a fraction: the paper has six sevenths.
const TRAINED: [usize; 2] = [6, 10];
/// Iterations that the table shows.
const SHOWN: [u64; 6] = [10, 100, 500, 1000, 1500, 3000];
/// How near to its end a curve is called steady.
const STEADY: f64 = 0.005;
/// Every so many iterations the model is judged.
const JUDGED: u64 = 10;

/// What makes a digit a positive one: the paper does not say.
type Positive = fn(u8) -> bool;

const LABELS: [(&str, Positive); 4] = [
    ("even", |digit| digit.is_multiple_of(2)),
    ("5 or more", |digit| digit >= 5),
    ("8", |digit| digit == 8),
    ("0", |digit| digit == 0),
];

/// The curve of one labelling: iterations, and the area under the curve.
struct Labelling {
    label: &'static str,
    points: Vec<(u64, f64)>,
}

impl Labelling {
    fn at(&self, iteration: u64) -> Option<f64> {
        let found = self.points.iter().find(|(at, _)| *at == iteration);
        found.map(|(_, auc)| *auc)
    }

    fn end(&self) -> f64 {
        self.points.last().map_or(f64::NAN, |(_, auc)| *auc)
    }

    /// From which iteration on it stays near its end.
    fn steady_from(&self) -> Option<u64> {
        let off = |(_, auc): &&(u64, f64)| (auc - self.end()).abs() > STEADY;
        let last_off = self.points.iter().rev().find(off).map_or(0, |(at, _)| *at);
        let steady = self.points.iter().find(|(at, _)| *at > last_off);
        steady.map(|(at, _)| *at)
    }
}

/// Figure 8, with the digits of a folder.
pub(super) fn figure_8(data: &Handwriting, progress: &mut Progress) -> Result<Computed, Failure> {
    let trained = data.pictures.len() * TRAINED[0] / TRAINED[1] / PARTIES * PARTIES;
    if trained == 0 {
        return Err(Failure::usage("fewer digits than parties to give them to").field("--data"));
    }
    let ball = ModelSet::Ball { radius: 1.0 };
    let ball = ball
        .projection(data.pixels)
        .map_err(|e| Failure::new(Exit::Internal, e.to_string()))?;
    let (told, heard) = channel();
    let curves = std::thread::scope(|scope| {
        let threads = LABELS.map(|(label, positive)| {
            let (told, ball) = (told.clone(), ball.clone());
            scope.spawn(move || Labelling {
                label,
                points: curve(data, (trained, positive), &ball, &told),
            })
        });
        drop(told);
        let all = OUTER / JUDGED * LABELS.len() as u64;
        for (done, ()) in (1..).zip(heard) {
            progress.count("figure 8", done as u64, all);
        }
        threads.map(|thread| thread.join())
    });
    let mut found = Vec::new();
    for curve in curves {
        found.push(curve.map_err(|_| Failure::new(Exit::Internal, "a thread has failed"))?);
    }
    Ok(computed(&found, trained))
}

/// Algorithm 4 on one labelling. What gossip shuffles is the same in the mean, to the bit, so that
/// the curve is the one of every ε; averaging is exact, as the paper's 1,400 rounds are to 1e-6.
fn curve(
    data: &Handwriting,
    (trained, positive): (usize, Positive),
    ball: &Projection,
    told: &Sender<()>,
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
            // Whoever listens is gone only if all of this is.
            let _ = told.send(());
        }
    }
    points
}

fn computed(curves: &[Labelling], trained: usize) -> Computed {
    let shown = SHOWN.map(|iteration| format!("l = {iteration}"));
    let [a, b, c, d, e, f] = shown.each_ref().map(String::as_str);
    let mut table = Table::with_headings(["positive", a, b, c, d, e, f, "steady from", "printed", "ratio"]);
    let mut rows = Vec::new();
    for curve in curves {
        let at = SHOWN.map(|iteration| curve.at(iteration));
        let [a, b, c, d, e, f] = at.map(|auc| auc.map_or(String::new(), |auc| format!("{auc:.3}")));
        let (steady, ratio) = (curve.steady_from(), curve.end() / PRINTED);
        let steady_cell = steady.map_or(String::new(), |at| at.to_string());
        let (label, printed, ratio_cell) = (curve.label.into(), PRINTED.to_string(), format!("{ratio:.3}"));
        table.row([label, a, b, c, d, e, f, steady_cell, printed, ratio_cell]);
        let points: Vec<_> = SHOWN.iter().zip(at).collect();
        rows.push(json!({
            "positive": curve.label, "auc": points, "end": curve.end(), "steady_from": steady,
            "paper": PRINTED, "ratio": ratio,
        }));
    }
    let line = |curve: &Labelling| ChartLine {
        name: format!("positive: {}", curve.label),
        points: curve.points.iter().map(|&(at, auc)| (at as f64, auc)).collect(),
    };
    let printed = ChartLine {
        name: "printed, from 1,500 on".into(),
        points: vec![(1500.0, PRINTED), (OUTER as f64, PRINTED)],
    };
    Computed {
        name: "ppsc-figure8",
        title: format!(
            "PPSC, Figure 8: area under the curve by outer iterations l of Algorithm 4, logistic loss on the \
             unit ball, {PARTIES} parties of {} digits",
            trained / PARTIES
        ),
        rows,
        table,
        notes: vec![
            "One curve for ε = 0.001, 0.01 and 0.1 alike: noise of gossip cancels in the mean, as the paper \
             says too."
                .into(),
            "The paper trains on MNIST's 60,000 training digits; here six tenths of the test digits are \
             trained on, and the rest judges."
                .into(),
            "Which digits are positive, the scale of pixels, and λ are not printed: here they are as the \
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
            lines: curves.iter().map(line).chain([printed]).collect(),
        }),
    }
}
