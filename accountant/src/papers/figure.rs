//! The one shape of all figures and tables: rows, each number of them spelt once, and curves.

use serde::Serialize;
use serde_json::Value;

/// A figure or table of a paper, computed again.
#[derive(Debug, Clone)]
pub struct Figure {
    /// The subject, and the setting.
    pub title: String,
    /// Its numbers.
    pub table: Table,
    /// Notes for a reader, a sentence or two each.
    pub notes: Vec<String>,
    /// Its curves; a table of a paper has none.
    pub chart: Option<Chart>,
}

/// A heading, and what stands under it in each row.
pub type Column<R> = (&'static str, fn(&R) -> Cell);

/// Rows of cells, and the same rows as objects.
#[derive(Debug, Clone)]
pub struct Table {
    /// The headings of the columns.
    pub headings: Vec<&'static str>,
    /// A list of cells a row.
    pub cells: Vec<Vec<Cell>>,
    /// An object a row: all its fields, more than the columns show.
    pub objects: Vec<Value>,
}

/// An entry of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// This, as it stands.
    Text(String),
    /// Four significant digits.
    Number(f64),
}

impl Cell {
    /// A cell that shows this as it stands.
    pub fn text(shown: impl ToString) -> Self {
        Cell::Text(shown.to_string())
    }

    /// A cell that is empty where there is nothing.
    pub fn perhaps(shown: Option<impl ToString>) -> Self {
        Cell::Text(shown.map_or(String::new(), |shown| shown.to_string()))
    }
}

impl Table {
    /// These rows, each through these columns.
    pub fn of<R: Serialize>(rows: &[R], columns: &[Column<R>]) -> Self {
        let cells = |row| columns.iter().map(|(_, cell)| cell(row)).collect();
        // Rows are structs of numbers and names: nothing in them has no JSON.
        let object = |row| serde_json::to_value(row).expect("numbers and names");
        Table {
            headings: columns.iter().map(|(heading, _)| *heading).collect(),
            cells: rows.iter().map(cells).collect(),
            objects: rows.iter().map(object).collect(),
        }
    }
}

/// A picture with a line for each of several things that are compared.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The subject of the plot.
    pub title: &'static str,
    /// The label of the horizontal axis.
    pub x: &'static str,
    /// The label of the vertical axis.
    pub y: &'static str,
    /// Whether what is across is counted: its ticks are whole numbers.
    pub counted: bool,
    /// Whether what is up is on a logarithmic axis.
    pub logarithmic: bool,
    /// The curves that are compared.
    pub curves: Vec<Curve>,
}

/// A named line of a [`Chart`].
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The name of the curve's subject.
    pub name: String,
    /// Its points, across and up.
    pub points: Vec<(f64, f64)>,
}

/// The curves that points belong to by their names, in the order in which these come first.
pub fn curves(points: impl IntoIterator<Item = (String, f64, f64)>) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for (name, x, y) in points {
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push((x, y)),
            None => curves.push(Curve {
                name,
                points: vec![(x, y)],
            }),
        }
    }
    curves
}

/// A number of a paper and ours.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Compared {
    /// The number that the paper prints, or its formula gives.
    pub paper: f64,
    /// The number that is computed here.
    pub ours: f64,
    /// Our number over the paper's.
    pub ratio: f64,
}

impl Compared {
    /// These two, and their ratio.
    pub fn new(paper: f64, ours: f64) -> Self {
        let ratio = ours / paper;
        Compared { paper, ours, ratio }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cells_and_objects_and_points_fall_to_curves_by_name() {
        let rows = [Compared::new(4.0, 1.0), Compared::new(0.5, 1.0)];
        let table = Table::of(
            &rows,
            &[
                ("ours", |row| Cell::Number(row.ours)),
                ("half", |row| {
                    Cell::perhaps((row.ratio > 1.0).then_some(row.paper))
                }),
            ],
        );
        assert_eq!(table.headings, ["ours", "half"]);
        let cell = |text: &str| Cell::Text(text.into());
        let one = || Cell::Number(1.0);
        assert_eq!(table.cells, [[one(), cell("")], [one(), cell("0.5")]]);
        let object = serde_json::json!({"paper": 4.0, "ours": 1.0, "ratio": 0.25});
        assert_eq!(table.objects[0], object);
        let points = [("b", 1.0), ("a", 2.0), ("b", 3.0)].map(|(name, x)| (name.into(), x, 0.0));
        let curves = curves(points);
        assert_eq!((&*curves[0].name, &*curves[1].name), ("b", "a"));
        assert_eq!(curves[0].points, [(1.0, 0.0), (3.0, 0.0)]);
    }
}
