//! `task = "describe"`: defaults, and what is refused with its field and its repair.

use super::*;
use crate::describe::columns::{RowCount, Want};
use crate::plan::run_file::records::RecordCounts;

fn of(lines: &str) -> Result<RunFile, RunFileError> {
    RunFile::parse(&format!("task = \"describe\"\nname = \"t\"\n{lines}"), 4)
}

const AGE: &str = "[[describe.column]]\nname = \"age\"\nlow = 18\nhigh = 100\n";
const ARM: &str = "[[describe.column]]\nname = \"arm\"\ncategories = [\"old\", \"new\"]\n";

#[test]
fn gaps_are_filled() {
    let run = of(&format!(
        "[describe]\ngroup_by = \"arm\"\n{ARM}{AGE}[[describe.column]]\nname = \"sex\"\ncategories = [1, true]\n"
    ));
    // Two categories that are equal as numbers are one.
    assert!(run.is_err());
    let lines = format!(
        "[describe]\ngroup_by = \"arm\"\n{ARM}{AGE}[[describe.column]]\nname = \"sex\"\ncategories = [1, 2.5, \"x\"]\n\
         [[describe.table]]\ncolumns = [\"sex\", \"arm\"]\n"
    );
    let run = of(&lines).unwrap_or_else(|error| panic!("{error}"));
    let described = &run.computation.described().expect("described").describe;
    assert_eq!(described.column[0].want, [], "the column of groups");
    assert_eq!(described.column[1].want, [Want::Mean]);
    assert_eq!(described.column[2].want, [Want::Counts]);
    assert_eq!(
        described.column[2].categories.as_deref().unwrap_or_default(),
        ["1", "2.5", "x"]
    );
    assert_eq!(
        (described.count, described.table[0].share),
        (RowCount::Public, 1.0)
    );
    assert_eq!(run.data.shape, [4 * (1 + 3 + 5) + 20]);
    assert!(run.run.sealed && run.data.unit == Unit::Record);
}

/// Where nobody says how many rows there are, a bound is a capacity.
#[test]
fn a_private_count_has_capacities() {
    let run = of(&format!(
        "[data]\nrecords = {{ at_most = 500 }}\n[describe]\ncount = \"private\"\n{AGE}"
    ));
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(run.data.records, Some(RecordCounts::exactly(500)));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of refusals, one a row")]
fn what_is_no_description_is_refused_with_its_field() {
    let column = |lines: &str| format!("[[describe.column]]\nname = \"x\"\n{lines}\n");
    let many: Vec<String> = (0..501)
        .map(|at| format!("[[describe.column]]\nname = \"c{at}\"\nlow = 0\nhigh = 1\nwant = []\n"))
        .collect();
    let names: Vec<String> = (0..501).map(|at| format!("\"c{at}\"")).collect();
    let cases = [
        (column("low = 5\nhigh = 5"), "describe.column.0.low"),
        (column("low = -inf\nhigh = 5"), "describe.column.0.low"),
        (column("low = nan\nhigh = 5"), "describe.column.0.low"),
        (column("low = 0"), "describe.column.0.low"),
        (column(""), "describe.column.0.low"),
        (
            column("low = 0\nhigh = 1\nwant = [\"quantiles\"]\nbins = 1"),
            "describe.column.0.bins",
        ),
        (
            column("low = 0\nhigh = 1\nwant = [\"quantiles\"]\nbins = 4097"),
            "describe.column.0.bins",
        ),
        (
            column("low = 0\nhigh = 9000\nwhole = true\nwant = [\"quantiles\"]"),
            "describe.column.0.bins",
        ),
        (
            column("edges = [0, 2, 1]\nwant = [\"histogram\"]"),
            "describe.column.0.edges",
        ),
        (
            column("low = 1\nedges = [0, 2, 3]\nwant = [\"histogram\"]"),
            "describe.column.0.edges",
        ),
        (
            column("low = 0.5\nhigh = 9\nwhole = true"),
            "describe.column.0.whole",
        ),
        (
            column("categories = [\"a\", \"a\"]"),
            "describe.column.0.categories",
        ),
        (
            column("categories = [1, \"1.0\"]"),
            "describe.column.0.categories",
        ),
        (
            column("categories = [\"a\", \"NA\"]"),
            "describe.column.0.categories",
        ),
        (column("categories = []"), "describe.column.0.categories"),
        (
            column("categories = [\"a\"]\nlow = 1"),
            "describe.column.0.categories",
        ),
        (format!("{AGE}{AGE}"), "describe.column.1.name"),
        (
            column("low = 0\nhigh = 1\nwant = [\"mean\", \"mean\"]"),
            "describe.column.0.want",
        ),
        (
            column("low = 0\nhigh = 1\nwant = [\"counts\"]"),
            "describe.column.0.want",
        ),
        (
            column("categories = [\"a\"]\nwant = [\"mean\"]"),
            "describe.column.0.want",
        ),
        (
            format!("[describe]\ngroup_by = \"age\"\n{AGE}"),
            "describe.group_by",
        ),
        (
            format!("[describe]\ngroup_by = \"sex\"\n{AGE}"),
            "describe.group_by",
        ),
        (
            format!("[describe]\ngroup_by = \"arm\"\n{ARM}want = [\"counts\"]\n{AGE}"),
            "describe.column.0.want",
        ),
        (
            column("low = 0\nhigh = 1\nwant = [\"survival\"]"),
            "describe.column.0.event",
        ),
        (
            column("low = 0\nhigh = 1\nevent = \"died\""),
            "describe.column.0.event",
        ),
        (
            format!("[describe]\ngroup_by = \"arm\"\n{ARM}{AGE}[[describe.table]]\ncolumns = [\"arm\"]\n"),
            "describe.table.0",
        ),
        (
            format!("{AGE}[[describe.table]]\ncolumns = [\"age\", \"arm\"]\n"),
            "describe.table.0",
        ),
        (
            format!("{AGE}[[describe.covariance]]\ncolumns = [\"age\"]\n"),
            "describe.covariance.0.columns",
        ),
        (
            format!("{AGE}[[describe.covariance]]\ncolumns = [\"age\", \"age\"]\n"),
            "describe.covariance.0.columns",
        ),
        (
            format!("{AGE}{ARM}[[describe.covariance]]\ncolumns = [\"age\", \"arm\"]\n"),
            "describe.covariance.0",
        ),
        (
            format!(
                "{}[[describe.covariance]]\ncolumns = [{}]\n",
                many.concat(),
                names.join(", ")
            ),
            "describe.covariance.0.columns",
        ),
        (column("low = 0\nhigh = 1\nshare = 0"), "describe.column.0.share"),
        (
            column("low = 0\nhigh = 1\nshare = 1001"),
            "describe.column.0.share",
        ),
        (String::new(), "describe"),
        (format!("{AGE}[model]\nloss = \"squared\"\n"), "model"),
        (format!("[data]\nunit = \"party\"\n{AGE}"), "data.unit"),
        (format!("[data]\nreleases = 3\n{AGE}"), "data.releases"),
        (format!("[data]\ntensors = {{ a = [2] }}\n{AGE}"), "data.tensors"),
        (
            format!("{AGE}[mechanism]\nindependent_noise = \"none\"\n"),
            "mechanism.independent_noise",
        ),
        (format!("{AGE}[mechanism]\nkind = \"ppsc\"\n"), "mechanism.kind"),
        (
            format!("{AGE}[run]\ndissemination = \"consensus\"\n"),
            "run.dissemination",
        ),
    ];
    for (lines, field) in cases {
        let error = of(&lines).expect_err(&lines);
        assert_eq!(error.field(), Some(field), "{error}\n{lines}");
    }
    // A product of categories that no plan has, with the block that is largest.
    let wide: Vec<String> = (0..8)
        .map(|at| {
            let categories: Vec<String> = (0..98).map(|k| format!("{k}")).collect();
            format!(
                "[[describe.column]]\nname = \"c{at}\"\ncategories = [{}]\nwant = []\n",
                categories.join(", ")
            )
        })
        .collect();
    let lines = format!(
        "{}[[describe.table]]\ncolumns = [\"c0\", \"c1\", \"c2\", \"c3\", \"c4\"]\n",
        wide.concat()
    );
    let error = of(&lines).expect_err("too wide").to_string();
    assert!(
        error.contains("10000000000 coordinates") && error.contains("table"),
        "{error}"
    );
}

/// Unknown keys are refused by name, those of other tasks with where they belong.
#[test]
fn keys_of_statistics_belong_to_statistics() {
    let unknown = of(&format!("{AGE}lower = 3\n")).expect_err("unknown").to_string();
    assert!(unknown.contains("lower"), "{unknown}");
    let text = format!("name = \"t\"\n[data]\nshape = [2]\n{AGE}");
    let foreign = RunFile::parse(&text, 4).expect_err("foreign").to_string();
    assert!(foreign.contains("belongs to task = \"describe\""), "{foreign}");
}
