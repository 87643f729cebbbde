//! Pictures as SVG: what a quote says, and how a simulation turned out.

use std::path::Path;

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use undertone_accountant::account::gossip::distribution::Distribution;
use undertone_accountant::calibration::outlook::{self, AtEpsilon, Gone};
use undertone_protocol::plan::checked::Plan;

use crate::telling::failure::{Exit, Failure};

/// Writing into a string fails only if a picture makes no sense.
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// A named line of a chart.
struct Curve {
    name: String,
    color: RGBColor,
    points: Vec<(f64, f64)>,
}

const OURS: RGBColor = RGBColor(0, 90, 160);
const CENTRAL: RGBColor = RGBColor(60, 140, 60);
const LOCAL: RGBColor = RGBColor(190, 70, 40);

/// Colours of lines of equal rank, told apart on paper, too.
const COLORS: [RGBColor; 6] = [
    LOCAL,
    RGBColor(150, 100, 180),
    OURS,
    RGBColor(90, 170, 220),
    CENTRAL,
    RGBColor(120, 120, 120),
];

/// Error against ε, and against the share of the parties that are gone for good.
pub fn quote(plan: &Plan, path: &Path) -> Result<(), Failure> {
    let curve = outlook::curve(plan).map_err(|e| internal(&e))?;
    let gone = outlook::gone(plan);
    let mut svg = String::new();
    draw_quote(&mut svg, plan, &curve, &gone).map_err(|e| internal(&e))?;
    write(path, &svg)
}

fn draw_quote(svg: &mut String, plan: &Plan, curve: &[AtEpsilon], gone: &[Gone]) -> Drawn {
    let root = SVGBackend::with_string(svg, (960, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(500);
    // Left: the error that each ε costs, between what a trusted server and local noise would have.
    let of =
        |value: fn(&AtEpsilon) -> f64| curve.iter().map(|at| (at.epsilon, value(at))).collect::<Vec<_>>();
    let lines = [
        Curve {
            name: "local noise".into(),
            color: LOCAL,
            points: of(|at| at.local),
        },
        Curve {
            name: "this plan".into(),
            color: OURS,
            points: of(|at| at.standard_error),
        },
        Curve {
            name: "trusted server".into(),
            color: CENTRAL,
            points: of(|at| at.central),
        },
    ];
    let (low, high) = extent(&lines);
    let (first, last) = (
        curve.first().map_or(0.1, |at| at.epsilon),
        curve.last().map_or(10.0, |at| at.epsilon),
    );
    let target = (
        plan.draft().privacy.epsilon,
        plan.calibration().predicted.standard_error,
    );
    let axes = Axes {
        title: "Error against epsilon",
        x: "epsilon",
        y: "standard error per coordinate",
        marks: vec![target],
        legend: Legend::Right,
    };
    chart(
        &left,
        &axes,
        (first..last).log_scale(),
        (low / 1.3..high * 1.3).log_scale(),
        &lines,
    )?;
    // Right: what the error becomes when parties leave for good.
    let points: Vec<(f64, f64)> = gone
        .iter()
        .filter_map(|gone| Some((gone.percent as f64, gone.standard_error?)))
        .collect();
    let lines = [Curve {
        name: "this plan".into(),
        color: OURS,
        points: points.clone(),
    }];
    let axes = Axes {
        title: "Error with parties gone for good",
        x: "percent of the parties",
        y: "",
        marks: points,
        legend: Legend::Right,
    };
    chart(&right, &axes, 0.0..20.0, 0.0..extent(&lines).1 * 1.2, &lines)?;
    root.present()?;
    Ok(())
}

/// The error of each run beside the accounted one and what others would reach.
pub fn simulation(runs: &[f64], accounted: f64, plan: &Plan, path: &Path) -> Result<(), Failure> {
    let mut svg = String::new();
    draw_simulation(&mut svg, runs, accounted, plan).map_err(|e| internal(&e))?;
    write(path, &svg)
}

fn draw_simulation(svg: &mut String, runs: &[f64], accounted: f64, plan: &Plan) -> Drawn {
    let root = SVGBackend::with_string(svg, (960, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let last = runs.len().max(2) as f64;
    let predicted = &plan.calibration().predicted;
    let level = |name: &str, color, error: f64| Curve {
        name: name.into(),
        color,
        points: vec![(1.0, error), (last, error)],
    };
    let lines = [
        level("local noise", LOCAL, predicted.local),
        level("accounted", OURS, accounted),
        level("trusted server", CENTRAL, predicted.central),
    ];
    let marks: Vec<(f64, f64)> = runs
        .iter()
        .enumerate()
        .map(|(run, &error)| (run as f64 + 1.0, error))
        .collect();
    let high = marks.iter().map(|mark| mark.1).fold(extent(&lines).1, f64::max);
    let axes = Axes {
        title: "Error of each run",
        x: "run",
        y: "root mean square over coordinates",
        marks,
        legend: Legend::Right,
    };
    chart(&root, &axes, 1.0..last, 0.0..high * 1.1, &lines)?;
    root.present()?;
    Ok(())
}

/// A figure with a line for each of several things that are compared.
pub struct Chart {
    /// What it shows.
    pub title: &'static str,
    /// What is across.
    pub x: &'static str,
    /// What is up.
    pub y: &'static str,
    /// Where the legend stands, out of the lines' way.
    pub legend: Legend,
    /// Whether what is up is on a logarithmic axis.
    pub logarithmic: bool,
    /// What is compared.
    pub lines: Vec<ChartLine>,
}

/// Where a chart's legend stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Legend {
    /// On the right, in the middle.
    Right,
    /// On the left, at the top.
    TopLeft,
    /// On the right, at the bottom.
    BottomRight,
}

/// A named line of a [`Chart`].
pub struct ChartLine {
    /// What it is of.
    pub name: String,
    /// Its points, across and up.
    pub points: Vec<(f64, f64)>,
}

/// Draws a chart.
pub fn figure(chart: &Chart, path: &Path) -> Result<(), Failure> {
    let mut svg = String::new();
    draw_figure(&mut svg, chart).map_err(|e| internal(&e))?;
    write(path, &svg)
}

fn draw_figure(svg: &mut String, figure: &Chart) -> Drawn {
    let root = SVGBackend::with_string(svg, (720, 460)).into_drawing_area();
    root.fill(&WHITE)?;
    let points = || figure.lines.iter().flat_map(|line| line.points.iter().copied());
    let least = |of: fn((f64, f64)) -> f64| points().map(of).fold(f64::INFINITY, f64::min);
    let most = |of: fn((f64, f64)) -> f64| points().map(of).fold(f64::MIN_POSITIVE, f64::max);
    let (left, right) = (least(|point| point.0), most(|point| point.0));
    let (low, high) = (least(|point| point.1), most(|point| point.1));
    let lines: Vec<Curve> = figure
        .lines
        .iter()
        .enumerate()
        .map(|(index, line)| Curve {
            name: line.name.clone(),
            color: COLORS[index % COLORS.len()],
            points: line.points.clone(),
        })
        .collect();
    let axes = Axes {
        title: figure.title,
        x: figure.x,
        y: figure.y,
        marks: vec![],
        legend: figure.legend,
    };
    let right = if right > left { right } else { left + 1.0 };
    if figure.logarithmic {
        chart(
            &root,
            &axes,
            left..right,
            (low / 2.0..high * 2.0).log_scale(),
            &lines,
        )?;
    } else {
        chart(&root, &axes, left..right, 0.0..high * 1.1, &lines)?;
    }
    root.present()?;
    Ok(())
}

/// How many pairs of nodes have which upper value, both on logarithmic axes.
pub fn pairs(found: &Distribution, path: &Path) -> Result<(), Failure> {
    let mut svg = String::new();
    draw_pairs(&mut svg, found).map_err(|e| internal(&e))?;
    write(path, &svg)
}

fn draw_pairs(svg: &mut String, found: &Distribution) -> Drawn {
    let root = SVGBackend::with_string(svg, (960, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let (rounds, central) = (found.rounds as f64, found.rounds as f64 / found.nodes as f64);
    let first = found.histogram.first().map_or(central, |bin| bin.0);
    let most = found.histogram.iter().map(|bin| bin.2).max().unwrap_or(1) as f64;
    let (left, right) = (first.min(central) / 1.5, rounds * 1.5);
    let mut builder = ChartBuilder::on(&root);
    let title = format!(
        "What one node learns of another: {} pairs, {} nodes, T = {}",
        found.pairs, found.nodes, found.rounds
    );
    builder
        .caption(title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(64);
    let mut chart = builder.build_cartesian_2d((left..right).log_scale(), (0.5..most * 3.0).log_scale())?;
    let short = |value: &f64| crate::telling::table::number(*value);
    // Logarithmic both ways: sensitivities and numbers of pairs span many orders.
    let mut mesh = chart.configure_mesh();
    mesh.x_desc("squared sensitivity, upper bound")
        .y_desc("pairs")
        .x_label_formatter(&short)
        .y_label_formatter(&short)
        .draw()?;
    // The distribution over pairs.
    let bars = found
        .histogram
        .iter()
        .map(|&(low, high, pairs)| Rectangle::new([(low, 0.5), (high, pairs as f64)], OURS.filled()));
    chart
        .draw_series(bars)?
        .label("pairs")
        .legend(|(x, y)| Rectangle::new([(x, y - 5), (x + 18, y + 5)], OURS.filled()));
    // Where it would lie if everything were hidden but the sum, or nothing.
    let levels = [
        (
            "T/n: the sum alone, as a trusted server gives it",
            CENTRAL,
            central,
        ),
        ("T: nothing is hidden", LOCAL, rounds),
    ];
    for (name, color, at) in levels {
        let line = LineSeries::new([(at, 0.5), (at, most * 3.0)], color.stroke_width(2));
        let series = chart.draw_series(line)?;
        series
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    drop(chart);
    root.present()?;
    Ok(())
}

struct Axes {
    title: &'static str,
    x: &'static str,
    y: &'static str,
    /// Points that stand out.
    marks: Vec<(f64, f64)>,
    legend: Legend,
}

fn chart<X, Y>(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    axes: &Axes,
    x: X,
    y: Y,
    lines: &[Curve],
) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(axes.title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(64);
    let mut chart = builder.build_cartesian_2d(x, y)?;
    let short = |value: &f64| crate::telling::table::number(*value);
    chart
        .configure_mesh()
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_label_formatter(&short)
        .y_label_formatter(&short)
        .draw()?;
    for line in lines {
        let color = line.color;
        let series = chart.draw_series(LineSeries::new(
            line.points.iter().copied(),
            color.stroke_width(2),
        ))?;
        series
            .label(line.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    chart.draw_series(axes.marks.iter().map(|&mark| Circle::new(mark, 3, OURS.filled())))?;
    chart
        .configure_series_labels()
        .position(match axes.legend {
            Legend::Right => SeriesLabelPosition::MiddleRight,
            Legend::TopLeft => SeriesLabelPosition::UpperLeft,
            Legend::BottomRight => SeriesLabelPosition::LowerRight,
        })
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    Ok(())
}

/// The smallest and the largest value; 0 to 1 where there is none.
fn extent(lines: &[Curve]) -> (f64, f64) {
    let values = || {
        lines
            .iter()
            .flat_map(|line| line.points.iter().map(|point| point.1))
    };
    match values().next() {
        Some(_) => (
            values().fold(f64::INFINITY, f64::min),
            values().fold(0.0, f64::max),
        ),
        None => (0.0, 1.0),
    }
}

fn write(path: &Path, svg: &str) -> Result<(), Failure> {
    std::fs::write(path, svg).map_err(|e| {
        Failure::usage(format!("{}: cannot be written: {e}", path.display()))
            .field("--plot")
            .hint("choose a folder that exists and that you can write to")
    })
}

fn internal(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Internal, format!("the picture was not drawn: {error}"))
}
