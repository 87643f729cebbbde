//! Figures as a picture: bars of counts, cumulative curves, survival curves with bands, and
//! correlations, one panel each.

use std::path::Path;

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use undertone_protocol::describe::columns::Description;
use undertone_protocol::describe::figures::covariance::CovarianceFigures;
use undertone_protocol::describe::figures::groups::{AllFigures, ColumnFigures, GroupFigures};

use crate::party::figures_file::shown::{FigureUnit, lines};
use crate::party::figures_file::text::{ShownAs, told_groups};
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::output_file;

/// Writing into a string fails only if a picture makes no sense.
type PanelDrawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;
type PanelArea<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Colours of groups, told apart on paper, too.
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 90, 160),
    RGBColor(190, 70, 40),
    RGBColor(60, 140, 60),
    RGBColor(150, 100, 180),
    RGBColor(220, 150, 30),
    RGBColor(90, 90, 90),
];

/// Pixels of a panel, across and down.
const PANEL: (u32, u32) = (420, 280);

/// The most bars of a panel. Our choice: more cannot be read.
const MOST_BARS: usize = 40;

/// A part of the picture.
enum FigurePanel {
    /// Lines with bands, one for each group.
    Lines {
        title: String,
        y: &'static str,
        groups: Vec<(String, Vec<[f64; 4]>)>,
    },
    /// Bars with whiskers, one for each label and group.
    Bars {
        title: String,
        labels: Vec<String>,
        groups: Vec<(String, Vec<[f64; 3]>)>,
    },
    /// Correlations of columns.
    Matrix(CovarianceFigures),
}

/// Draws all figures that are curves, counts or correlations.
///
/// # Errors
/// There is nothing to draw, or the file cannot be written (exit 2).
pub(super) fn draw(
    (described, figures): (&Description, &AllFigures),
    shown: &ShownAs,
    path: &Path,
) -> Result<(), Failure> {
    if output_file::extension_of(path).as_deref() != Some("svg") {
        return Err(output_file::misnamed(path, "--plot", ("the picture", "svg")));
    }
    let panels = panels(described, figures, shown);
    if panels.is_empty() {
        return Err(
            Failure::usage("these figures have no counts, curves or correlations to draw")
                .field("--plot")
                .hint("ask for want = [\"quantiles\"], [\"survival\"] or [\"histogram\"] in the run file"),
        );
    }
    let mut svg = String::new();
    let internal = |e| Failure::new(Exit::Internal, format!("the picture cannot be drawn: {e}"));
    draw_all(&mut svg, &panels).map_err(internal)?;
    output_file::write_bytes(path, "--plot", svg.as_bytes())
}

fn panels(described: &Description, figures: &AllFigures, shown: &ShownAs) -> Vec<FigurePanel> {
    let (figures, _) = told_groups(figures);
    let statistics = figures.groups.first().map_or(0, |first| first.statistics.len());
    let of_columns = (0..statistics).filter_map(|at| panel(described, (&figures, at), shown));
    let told = figures
        .covariances
        .iter()
        .filter(|covariance| covariance.correlation.is_some());
    of_columns.chain(told.cloned().map(FigurePanel::Matrix)).collect()
}

/// The panel of the statistic at this place in every group; `None` where it is one number.
fn panel(
    described: &Description,
    (figures, at): (&AllFigures, usize),
    shown: &ShownAs,
) -> Option<FigurePanel> {
    let statistic = figures.groups.first()?.statistics.get(at)?;
    let title = statistic.column.clone();
    let edges = described.named(&title)?.edges_of(statistic.want);
    let name = |group: &GroupFigures| group.group.clone().unwrap_or_default();
    let lines = |curve: &dyn Fn(&ColumnFigures) -> Option<Vec<[f64; 4]>>| {
        let groups = figures.groups.iter();
        let curves = groups.filter_map(|group| Some((name(group), curve(&group.statistics[at].of)?)));
        curves.collect::<Vec<_>>()
    };
    match &statistic.of {
        ColumnFigures::Quantiles(_) => Some(FigurePanel::Lines {
            y: "share of rows below",
            groups: lines(&|of| cumulative(of, &edges)),
            title,
        }),
        ColumnFigures::Survival(_) => Some(FigurePanel::Lines {
            y: "share without an event",
            groups: lines(&|of| survival(of, shown.asked.z())),
            title,
        }),
        ColumnFigures::Counts(_) => {
            let mut labels = vec![];
            let mut groups = vec![];
            for group in &figures.groups {
                let bars;
                (labels, bars) = shares(described, (group, &title), shown).into_iter().unzip();
                groups.push((name(group), bars));
            }
            Some(FigurePanel::Bars {
                title,
                labels,
                groups,
            })
        }
        ColumnFigures::Mean(_) | ColumnFigures::Plain(_) => None,
    }
}

/// The shares of a column's categories or bins in a group, each with its interval.
fn shares(
    described: &Description,
    (group, column): (&GroupFigures, &str),
    shown: &ShownAs,
) -> Vec<(String, [f64; 3])> {
    let lines = lines(described, group, &shown.asked).into_iter();
    let own = lines.filter(|line| line.column == column && line.unit == FigureUnit::Share);
    let cells = own.map(|line| {
        let figure = line.figure;
        let bar = figure.map_or([0.0; 3], |figure| [figure.value, figure.low, figure.high]);
        (line.statistic, bar)
    });
    let told = cells.filter(|(label, _)| label != "missing");
    told.take(MOST_BARS).collect()
}

fn cumulative(of: &ColumnFigures, edges: &[f64]) -> Option<Vec<[f64; 4]>> {
    let ColumnFigures::Quantiles(quantiles) = of else {
        return None;
    };
    let all = quantiles.cumulative.last().copied().filter(|all| *all > 0.0)?;
    let points = edges.iter().zip(&quantiles.cumulative);
    Some(
        points
            .map(|(&edge, count)| [edge, count / all, count / all, count / all])
            .collect(),
    )
}

fn survival(of: &ColumnFigures, z: f64) -> Option<Vec<[f64; 4]>> {
    let ColumnFigures::Survival(survival) = of else {
        return None;
    };
    let point = |share: f64, noise: f64| [share, (share - z * noise).max(0.0), (share + z * noise).min(1.0)];
    let points = survival.curve.iter().map(|at| {
        let [share, low, high] = point(at.survival, at.noise);
        [at.to, share, low, high]
    });
    Some(std::iter::once([0.0, 1.0, 1.0, 1.0]).chain(points).collect())
}

fn draw_all(svg: &mut String, panels: &[FigurePanel]) -> PanelDrawn {
    let across = panels.len().min(3);
    let down = panels.len().div_ceil(across);
    let size = (PANEL.0 * across as u32, PANEL.1 * down as u32);
    let area = SVGBackend::with_string(svg, size).into_drawing_area();
    area.fill(&WHITE)?;
    for (panel, area) in panels.iter().zip(area.split_evenly((down, across))) {
        match panel {
            FigurePanel::Lines { title, y, groups } => draw_lines(&area, (title, y), groups)?,
            FigurePanel::Bars {
                title,
                labels,
                groups,
            } => draw_bars(&area, (title, labels), groups)?,
            FigurePanel::Matrix(covariance) => draw_matrix(&area, covariance)?,
        }
    }
    area.present()
}

fn color(at: usize) -> RGBColor {
    COLORS[at % COLORS.len()]
}

fn draw_lines(
    area: &PanelArea<'_>,
    (title, y): (&str, &str),
    groups: &[(String, Vec<[f64; 4]>)],
) -> PanelDrawn {
    let all = || groups.iter().flat_map(|(_, points)| points);
    let low = all().map(|point| point[0]).fold(f64::INFINITY, f64::min);
    let high = all().map(|point| point[0]).fold(f64::NEG_INFINITY, f64::max);
    if low >= high {
        return Ok(());
    }
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(title, ("sans-serif", 14))
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(44);
    let mut chart = builder.build_cartesian_2d(low..high, 0.0..1.0)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .y_desc(y)
        .draw()?;
    for (at, (name, points)) in groups.iter().enumerate() {
        let above = points.iter().map(|point| (point[0], point[3]));
        let below = points.iter().rev().map(|point| (point[0], point[2]));
        let band: Vec<(f64, f64)> = above.chain(below).collect();
        chart.draw_series([Polygon::new(band, color(at).mix(0.2))])?;
        let line = LineSeries::new(
            points.iter().map(|point| (point[0], point[1])),
            color(at).stroke_width(2),
        );
        let series = chart.draw_series(line)?;
        if !name.is_empty() {
            series
                .label(name.as_str())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], color(at).stroke_width(2)));
        }
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .draw()
}

fn draw_bars(
    area: &PanelArea<'_>,
    (title, labels): (&str, &[String]),
    groups: &[(String, Vec<[f64; 3]>)],
) -> PanelDrawn {
    let most = groups
        .iter()
        .flat_map(|(_, bars)| bars)
        .map(|bar| bar[2])
        .fold(0.0, f64::max);
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(title, ("sans-serif", 14))
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(44);
    let mut chart = builder.build_cartesian_2d(0.0..labels.len().max(1) as f64, 0.0..most.max(0.01))?;
    let label = |x: &f64| {
        labels
            .get(*x as usize)
            .filter(|_| x.fract() == 0.0)
            .cloned()
            .unwrap_or_default()
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&label)
        .x_labels(labels.len() + 1)
        .y_desc("share of rows")
        .draw()?;
    let width = 0.8 / groups.len().max(1) as f64;
    for (at, (name, bars)) in groups.iter().enumerate() {
        let from = |bar: usize| bar as f64 + 0.1 + width * at as f64;
        let boxes = bars.iter().enumerate().map(|(bar, value)| {
            Rectangle::new(
                [(from(bar), 0.0), (from(bar) + 0.9 * width, value[0])],
                color(at).mix(0.6).filled(),
            )
        });
        let series = chart.draw_series(boxes)?;
        if !name.is_empty() {
            series.label(name.as_str()).legend(move |(x, y)| {
                Rectangle::new([(x, y - 4), (x + 12, y + 4)], color(at).mix(0.6).filled())
            });
        }
        let whiskers = bars.iter().enumerate().map(|(bar, value)| {
            let middle = from(bar) + 0.45 * width;
            PathElement::new([(middle, value[1].max(0.0)), (middle, value[2])], BLACK)
        });
        chart.draw_series(whiskers)?;
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .draw()
}

fn draw_matrix(area: &PanelArea<'_>, covariance: &CovarianceFigures) -> PanelDrawn {
    let d = covariance.columns.len();
    let mut builder = ChartBuilder::on(area);
    builder
        .caption("correlations", ("sans-serif", 14))
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(90);
    let mut chart = builder.build_cartesian_2d(0.0..d as f64, 0.0..d as f64)?;
    let name = |at: &f64| {
        covariance
            .columns
            .get(*at as usize)
            .filter(|_| at.fract() == 0.0)
            .cloned()
            .unwrap_or_default()
    };
    let from_below = |at: &f64| name(&(d as f64 - 1.0 - at));
    chart
        .configure_mesh()
        .disable_mesh()
        .x_label_formatter(&name)
        .y_label_formatter(&from_below)
        .x_labels(d + 1)
        .y_labels(d + 1)
        .draw()?;
    let rows = covariance.correlation.iter().flatten().enumerate();
    for (i, row) in rows {
        let cells = row.iter().enumerate().map(|(j, correlation)| {
            let shade = match correlation {
                Some(value) if *value >= 0.0 => color(0).mix(value.abs()),
                Some(value) => color(1).mix(value.abs()),
                None => BLACK.mix(0.08),
            };
            let (x, y) = (j as f64, (d - 1 - i) as f64);
            Rectangle::new([(x, y), (x + 1.0, y + 1.0)], shade.filled())
        });
        chart.draw_series(cells)?;
        let texts = row
            .iter()
            .enumerate()
            .filter(|_| d <= 12)
            .map(|(j, correlation)| {
                let text = correlation.map_or("–".to_owned(), |value| format!("{value:.2}"));
                Text::new(
                    text,
                    (j as f64 + 0.3, (d - 1 - i) as f64 + 0.55),
                    ("sans-serif", 11),
                )
            });
        chart.draw_series(texts)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
