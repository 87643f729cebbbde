//! Pictures as SVG: what a quote says, and how a simulation turned out.

use std::path::Path;

use plotters::prelude::*;
use undertone_accountant::account::gossip::distribution::Distribution;
use undertone_accountant::guarantee::forecast::{self, AtEpsilon};
use undertone_accountant::papers::figure::Chart;
use undertone_protocol::plan::checked::Plan;

mod axes;

use crate::planning::plot::axes::{Axes, Curve, Drawn, OURS, beside, chart, named, rows, tick, whole};
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::output_file::{self, OutputFile};
use crate::reporting::table::Table;

const CENTRAL: RGBColor = RGBColor(60, 140, 60);
const LOCAL: RGBColor = RGBColor(190, 70, 40);

/// Colours of lines of equal rank, told apart on paper, too.
const COLORS: [RGBColor; 9] = [
    LOCAL,
    RGBColor(150, 100, 180),
    OURS,
    RGBColor(90, 170, 220),
    CENTRAL,
    RGBColor(120, 120, 120),
    RGBColor(220, 150, 30),
    RGBColor(200, 80, 140),
    RGBColor(20, 20, 20),
];

/// Looks at the places of a picture and of its points, before it is computed.
///
/// # Errors
/// The name is not that of an SVG, or one of the two cannot be written (exit 2).
pub fn check(path: &Path) -> Result<(), Failure> {
    if output_file::extension_of(path).as_deref() != Some("svg") {
        return Err(output_file::misnamed(path, "--plot", ("the picture", "svg")));
    }
    for place in [path, &path.with_extension("csv")] {
        OutputFile::of_flag(place, "--plot")?;
    }
    Ok(())
}

/// Error against ε, and against how many parties are gone for good; the points stand beside the
/// picture in a file of its name that ends in .csv.
pub fn quote(plan: &Plan, path: &Path) -> Result<(), Failure> {
    let curve = forecast::curve(plan).map_err(|e| internal(&e))?;
    let panels = [at_each_epsilon(plan, &curve), with_departures(plan)];
    let mut svg = String::new();
    draw_quote(&mut svg, plan, &panels).map_err(|e| internal(&e))?;
    write(path, &svg)?;
    write_points(path, &panels)
}

/// Lines with what stands beside them.
type Panel = (Axes, Vec<Curve>);

/// The error that each ε costs, between what a trusted server and local noise would have.
fn at_each_epsilon(plan: &Plan, curve: &[AtEpsilon]) -> Panel {
    let of = |name: &str, color, value: fn(&AtEpsilon) -> f64| Curve {
        name: name.into(),
        color,
        points: curve.iter().map(|at| (at.epsilon, value(at))).collect(),
    };
    let lines = vec![
        of("local noise", LOCAL, |at| at.local),
        of("this plan", OURS, |at| at.standard_error),
        of("trusted server", CENTRAL, |at| at.central),
    ];
    let target = (
        plan.draft().privacy.epsilon,
        plan.calibration().predicted.standard_error,
    );
    let axes = Axes {
        title: "Error against epsilon",
        x: "epsilon",
        y: "standard error per coordinate",
        marks: ("this plan's epsilon", vec![target]),
    };
    (axes, lines)
}

/// Plans with fewer parties than this plot departures as a number of parties; larger ones plot a
/// percentage.
const COUNTED: usize = 20;

/// What the error becomes when parties leave for good.
fn with_departures(plan: &Plan) -> Panel {
    let counted = plan.parties() < COUNTED;
    let mut points: Vec<(f64, f64)> = forecast::departures(plan)
        .iter()
        .filter_map(|departures| {
            let share = if counted {
                departures.parties
            } else {
                departures.percent
            };
            Some((share as f64, departures.standard_error?))
        })
        .collect();
    points.dedup();
    let lines = vec![Curve {
        name: "this plan".into(),
        color: OURS,
        points: points.clone(),
    }];
    let axes = Axes {
        title: "Error with parties gone for good",
        x: match counted {
            true => "parties gone",
            false => "percent of the parties gone",
        },
        y: "standard error per coordinate",
        marks: ("computed", points),
    };
    (axes, lines)
}

fn draw_quote(svg: &mut String, plan: &Plan, panels: &[Panel; 2]) -> Drawn {
    let root = SVGBackend::with_string(svg, (1200, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(610);
    let [(axes, lines), (departure_axes, departures)] = panels;
    let (low, high) = extent(lines);
    let epsilons = || lines[0].points.iter().map(|point| point.0);
    let (first, last) = (
        epsilons().next().unwrap_or(0.1),
        epsilons().next_back().unwrap_or(10.0),
    );
    chart(
        &left,
        axes,
        (first..last).log_scale(),
        (low / 1.3..high * 1.3).log_scale(),
        lines,
    )?;
    let most = departures[0].points.last().map_or(1.0, |point| point.0);
    let most = if plan.parties() < COUNTED { most } else { 20.0 };
    chart(
        &right,
        departure_axes,
        whole(0.0, most),
        0.0..extent(departures).1 * 1.2,
        departures,
    )?;
    root.present()?;
    Ok(())
}

/// The error of each run beside the accounted one and what others would reach; the points stand
/// beside the picture in a file of its name that ends in .csv.
pub fn simulation(runs: &[f64], accounted: f64, plan: &Plan, path: &Path) -> Result<(), Failure> {
    let last = runs.len().max(2) as f64;
    let predicted = &plan.calibration().predicted;
    let level = |name: &str, color, error: f64| Curve {
        name: name.into(),
        color,
        points: vec![(1.0, error), (last, error)],
    };
    let lines = vec![
        level("local noise", LOCAL, predicted.local),
        level("accounted", OURS, accounted),
        level("trusted server", CENTRAL, predicted.central),
    ];
    let marks = runs
        .iter()
        .enumerate()
        .map(|(run, &error)| (run as f64 + 1.0, error));
    let axes = Axes {
        title: "Error of each run",
        x: "run",
        y: "root mean square over coordinates",
        marks: ("a run", marks.collect()),
    };
    let panel = (axes, lines);
    let mut svg = String::new();
    draw_simulation(&mut svg, &panel, last).map_err(|e| internal(&e))?;
    write(path, &svg)?;
    write_points(path, &[panel])
}

fn draw_simulation(svg: &mut String, (axes, lines): &Panel, last: f64) -> Drawn {
    let root = SVGBackend::with_string(svg, (960, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let marks = axes.marks.1.iter().map(|mark| mark.1);
    let high = marks.fold(extent(lines).1, f64::max);
    chart(&root, axes, whole(1.0, last), 0.0..high * 1.1, lines)?;
    root.present()?;
    Ok(())
}

/// Draws a chart.
pub fn figure(chart: &Chart, path: &Path) -> Result<(), Failure> {
    let mut svg = String::new();
    draw_figure(&mut svg, chart).map_err(|e| internal(&e))?;
    write(path, &svg)
}

fn draw_figure(svg: &mut String, figure: &Chart) -> Drawn {
    let root = SVGBackend::with_string(svg, (960, 460)).into_drawing_area();
    root.fill(&WHITE)?;
    let points = || figure.curves.iter().flat_map(|line| line.points.iter().copied());
    let least = |of: fn((f64, f64)) -> f64| points().map(of).fold(f64::INFINITY, f64::min);
    let most = |of: fn((f64, f64)) -> f64| points().map(of).fold(f64::MIN_POSITIVE, f64::max);
    let (left, right) = (least(|point| point.0), most(|point| point.0));
    let (low, high) = (least(|point| point.1), most(|point| point.1));
    let lines: Vec<Curve> = figure
        .curves
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
        marks: ("", vec![]),
    };
    let right = if right > left { right } else { left + 1.0 };
    let (logarithmic, linear) = ((low / 2.0..high * 2.0).log_scale(), 0.0..high * 1.1);
    match (figure.counted, figure.logarithmic) {
        (true, true) => chart(&root, &axes, whole(left, right), logarithmic, &lines)?,
        (true, false) => chart(&root, &axes, whole(left, right), linear, &lines)?,
        (false, true) => chart(&root, &axes, left..right, logarithmic, &lines)?,
        (false, false) => chart(&root, &axes, left..right, linear, &lines)?,
    }
    root.present()?;
    Ok(())
}

/// How many pairs of nodes have which upper value, both on logarithmic axes; the bars stand beside
/// the picture in a file of its name that ends in .csv.
pub fn pairs(found: &Distribution, path: &Path) -> Result<(), Failure> {
    let mut svg = String::new();
    draw_pairs(&mut svg, found).map_err(|e| internal(&e))?;
    write(path, &svg)?;
    let mut table = Table::with_headings(["from", "to", "pairs"]);
    for (low, high, pairs) in &found.histogram {
        table.row([low.to_string(), high.to_string(), pairs.to_string()]);
    }
    write_beside(path, &table)
}

fn draw_pairs(svg: &mut String, found: &Distribution) -> Drawn {
    let root = SVGBackend::with_string(svg, (1200, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let (rounds, central) = (found.rounds as f64, found.rounds as f64 / found.nodes as f64);
    // Where it would lie if everything were hidden but the sum, or nothing.
    let levels = [
        (
            "T/n: the sum alone, as a trusted server gives it",
            CENTRAL,
            central,
        ),
        ("T: nothing is hidden", LOCAL, rounds),
    ];
    let (area, legend) = beside(&root, levels.iter().map(|level| level.0));
    let first = found.histogram.first().map_or(central, |bin| bin.0);
    let most = found.histogram.iter().map(|bin| bin.2).max().unwrap_or(1) as f64;
    let (left, right) = (first.min(central) / 1.5, rounds * 1.5);
    let mut builder = ChartBuilder::on(&area);
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
    // Logarithmic both ways: sensitivities and numbers of pairs span many orders.
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT)
        .x_desc("squared sensitivity, upper bound")
        .y_desc("pairs")
        .x_label_formatter(&tick)
        .y_label_formatter(&tick)
        .draw()?;
    // The distribution over pairs.
    let bars = found
        .histogram
        .iter()
        .map(|&(low, high, pairs)| Rectangle::new([(low, 0.5), (high, pairs as f64)], OURS.filled()));
    chart.draw_series(bars)?;
    let mut row = named(&legend, 0, "pairs", |y| {
        legend.draw(&Rectangle::new([(6, y - 5), (24, y + 5)], OURS.filled()))
    })?;
    for (name, color, at) in levels {
        let line = LineSeries::new([(at, 0.5), (at, most * 3.0)], color.stroke_width(2));
        chart.draw_series(line)?;
        row = named(&legend, row, name, |y| {
            legend.draw(&PathElement::new([(6, y), (24, y)], color.stroke_width(2)))
        })?;
    }
    drop(chart);
    root.present()?;
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
    output_file::write_bytes(path, "--plot", svg.as_bytes())
}

/// Writes the points of these charts beside their picture.
fn write_points(path: &Path, panels: &[Panel]) -> Result<(), Failure> {
    let mut table = Table::with_headings(["chart", "line", "across", "x", "up", "y"]);
    for (axes, lines) in panels {
        for row in rows(axes, lines) {
            table.row(row);
        }
    }
    write_beside(path, &table)
}

/// Writes a table beside a picture: a file of its name that ends in .csv.
fn write_beside(path: &Path, table: &Table) -> Result<(), Failure> {
    write(&path.with_extension("csv"), &table.csv())
}

fn internal(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Internal, format!("the picture was not drawn: {error}"))
}
