//! A chart: its axes, its lines, its legend beside it, and its points as comma-separated values.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, DefaultFormatting, KeyPointHint, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Writing into a string fails only if a picture makes no sense.
pub(super) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// A part of a picture.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A named line of a chart.
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) color: RGBColor,
    pub(super) points: Vec<(f64, f64)>,
}

/// What stands beside the lines.
pub(super) struct Axes {
    pub(super) title: &'static str,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    /// Points that stand out, and what they are.
    pub(super) marks: (&'static str, Vec<(f64, f64)>),
}

pub(super) const OURS: RGBColor = RGBColor(0, 90, 160);

/// Ticks at most, of an axis that counts.
const TICKS: f64 = 10.0;
/// A letter's width in a legend, in pixels: those of most fonts of its size are narrower.
const LETTER: usize = 7;
/// From a legend's edge to its text, in pixels.
const KEY: i32 = 30;

/// An axis that counts: ticks at whole numbers, no more of them than can be read.
pub(super) struct Counting {
    numbers: RangedCoordf64,
    ticks: Vec<f64>,
}

/// The axis that counts from the first whole number to the last.
pub(super) fn whole(first: f64, last: f64) -> Counting {
    let last = last.max(first + 1.0);
    let mut steps = (0..).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)));
    let fits = |step: &f64| (last / step).floor() - (first / step).ceil() < TICKS;
    let step = steps.find(fits).unwrap_or(last);
    let (from, to) = ((first / step).ceil() as i64, (last / step).floor() as i64);
    Counting {
        numbers: (first..last).into(),
        ticks: (from..=to).map(|tick| tick as f64 * step).collect(),
    }
}

impl Ranged for Counting {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn range(&self) -> Range<f64> {
        self.numbers.range()
    }

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.numbers.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight().allow_light_points() {
            true => vec![],
            false => self.ticks.clone(),
        }
    }
}

/// What stands at a tick: as few digits as tell it.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as a chart asks for it")]
pub(super) fn tick(value: &f64) -> String {
    let digits = format!("{value:.3e}").parse::<f64>().unwrap_or(*value);
    match value.abs() {
        size if size == 0.0 || (1e-3..1e6).contains(&size) => digits.to_string(),
        _ => format!("{digits:e}"),
    }
}

/// The picture's two parts: for the chart, and beside it for a legend with these names.
pub(super) fn beside<'a>(
    area: &Area<'a>,
    names: impl Iterator<Item = impl AsRef<str>>,
) -> (Area<'a>, Area<'a>) {
    let longest = names.map(|name| name.as_ref().chars().count()).max().unwrap_or(0);
    let (width, _) = area.dim_in_pixel();
    let legend = (KEY as usize + LETTER * longest).min(width as usize / 2);
    area.split_horizontally(width as i32 - legend as i32)
}

/// Draws lines with their names beside them.
pub(super) fn chart<'a, X, Y>(area: &Area<'a>, axes: &Axes, x: X, y: Y, lines: &[Curve]) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let marked = Some(axes.marks.0).filter(|_| !axes.marks.1.is_empty());
    let names = lines.iter().map(|line| line.name.as_str()).chain(marked);
    let (left, right) = beside(area, names);
    let mut builder = ChartBuilder::on(&left);
    builder
        .caption(axes.title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(64);
    let mut chart = builder.build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_label_formatter(&tick)
        .y_label_formatter(&tick)
        .draw()?;
    for line in lines {
        let points = line.points.iter().copied();
        chart.draw_series(LineSeries::new(points, line.color.stroke_width(2)))?;
    }
    let (name, marks) = &axes.marks;
    chart.draw_series(marks.iter().map(|&mark| Circle::new(mark, 3, OURS.filled())))?;
    let mut row = 0;
    for line in lines {
        row = named(&right, row, &line.name, |y| {
            right.draw(&PathElement::new([(6, y), (24, y)], line.color.stroke_width(2)))
        })?;
    }
    if !marks.is_empty() {
        named(&right, row, name, |y| {
            right.draw(&Circle::new((15, y), 3, OURS.filled()))
        })?;
    }
    Ok(())
}

/// A row of a legend: its key, drawn at a height, and its name; then the next row's number.
pub(super) fn named(
    legend: &Area<'_>,
    row: i32,
    name: &str,
    key: impl FnOnce(i32) -> Drawn,
) -> Result<i32, DrawingAreaErrorKind<std::io::Error>> {
    let y = 48 + 18 * row;
    let middle = Pos::new(HPos::Left, VPos::Center);
    let style = ("sans-serif", 12).into_text_style(legend).pos(middle);
    key(y)?;
    legend.draw_text(name, &style, (KEY, y))?;
    Ok(row + 1)
}

/// Every point of a chart, a row each.
pub(super) fn rows<'a>(axes: &'a Axes, lines: &'a [Curve]) -> impl Iterator<Item = [String; 6]> + 'a {
    let marks = axes.marks.1.iter().map(|point| (axes.marks.0, point));
    let on_lines = lines
        .iter()
        .flat_map(|line| line.points.iter().map(|point| (&line.name[..], point)));
    on_lines.chain(marks).map(|(name, (x, y))| {
        [axes.title, name, axes.x, &x.to_string(), axes.y, &y.to_string()].map(String::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(first: f64, last: f64) -> Vec<f64> {
        use plotters::coord::ranged1d::BoldPoints;
        whole(first, last).key_points(BoldPoints(100))
    }

    #[test]
    fn a_tick_has_no_digit_too_many() {
        let shown = [0.0, 0.5, 2.0, 1e-4, 0.30000000000000004, 1.5e7, -0.01].map(|value| tick(&value));
        assert_eq!(shown, ["0", "0.5", "2", "1e-4", "0.3", "1.5e7", "-0.01"]);
    }

    #[test]
    fn an_axis_that_counts_has_whole_ticks_that_can_be_read() {
        assert_eq!(ticks(1.0, 4.0), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(ticks(1.0, 1.0), [1.0, 2.0]);
        assert_eq!(
            ticks(0.0, 19.0),
            [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0]
        );
        assert_eq!(ticks(1.0, 2000.0).last(), Some(&2000.0));
        for last in 1..3000 {
            let ticks = ticks(1.0, last.into());
            assert!((1..=10).contains(&ticks.len()), "{last}: {ticks:?}");
            assert!(ticks.iter().all(|tick| tick.fract() == 0.0));
        }
    }
}
