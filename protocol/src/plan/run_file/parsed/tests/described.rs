//! `task = "describe"`: defaults, and what is refused with its field and its repair.

use super::*;
use crate::describe::columns::{DescribedColumn, Description, RowCount, Want};
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

/// Keys of a column that is none, and the key that is named.
const NO_COLUMNS: [(&str, &str); 32] = [
    ("low = 5\nhigh = 5", "low"),
    ("low = -inf\nhigh = 5", "low"),
    ("low = nan\nhigh = 5", "low"),
    ("low = 0", "low"),
    ("", "low"),
    ("low = 0\nhigh = 1\nwant = [\"quantiles\"]\nbins = 1", "bins"),
    ("low = 0\nhigh = 1\nwant = [\"quantiles\"]\nbins = 4097", "bins"),
    (
        "low = 0\nhigh = 9000\nwhole = true\nwant = [\"quantiles\"]",
        "bins",
    ),
    ("edges = [0, 2, 1]\nwant = [\"histogram\"]", "edges"),
    ("low = 1\nedges = [0, 2, 3]\nwant = [\"histogram\"]", "edges"),
    ("low = 0.5\nhigh = 9\nwhole = true", "whole"),
    ("categories = [\"a\", \"a\"]", "categories"),
    ("categories = [1, \"1.0\"]", "categories"),
    ("categories = [\"a\", \"NA\"]", "categories"),
    ("categories = []", "categories"),
    ("categories = [\"a\"]\nlow = 1", "categories"),
    ("low = 0\nhigh = 1\nwant = [\"mean\", \"mean\"]", "want"),
    ("low = 0\nhigh = 1\nwant = [\"counts\"]", "want"),
    ("categories = [\"a\"]\nwant = [\"mean\"]", "want"),
    ("low = 0\nhigh = 1\nwant = [\"survival\"]", "event"),
    ("low = 0\nhigh = 1\nevent = \"died\"", "event"),
    ("low = 0\nhigh = 1\nshare = 0", "share"),
    ("low = 0\nhigh = 1\nshare = 1001", "share"),
    ("low = 0\nhigh = 1\nshare = nan", "share"),
    ("low = 5\nhigh = 1", "low"),
    ("low = 0\nhigh = inf", "low"),
    ("edges = [0, 1, inf]\nwant = [\"histogram\"]", "edges"),
    ("edges = [0, 1, 2]\nbins = 2\nwant = [\"histogram\"]", "edges"),
    (
        "low = 0\nhigh = 9\nwhole = true\nbins = 9\nwant = [\"quantiles\"]",
        "whole",
    ),
    ("low = 0\nhigh = 1\nwant = [\"survival\"]\nevent = \"x\"", "event"),
    ("low = 0\nhigh = 1\nwant = [\"survival\"]\nevent = \"\"", "event"),
    ("categories = [\"a\"]\nevent = \"died\"", "event"),
];

#[test]
fn what_is_no_column_is_refused_with_its_field() {
    for (keys, field) in NO_COLUMNS {
        let lines = format!("[[describe.column]]\nname = \"x\"\n{keys}\n");
        let error = of(&lines).expect_err(&lines);
        let field = format!("describe.column.0.{field}");
        assert_eq!(error.field(), Some(field.as_str()), "{error}\n{lines}");
    }
}

/// A million categories are described, one more is refused, and the fault names how many there are.
#[test]
fn a_million_categories_are_the_most() {
    let of = |count: usize| {
        let texts: Vec<String> = (0..count).map(|at| at.to_string()).collect();
        DescribedColumn {
            name: "x".to_owned(),
            categories: Some(texts),
            want: vec![Want::Counts],
            share: 1.0,
            ..DescribedColumn::default()
        }
    };
    let described = |count: usize| Description {
        column: vec![of(count)],
        ..Description::default()
    };
    assert_eq!(described(1_000_000).check(), Ok(()));
    let (field, fault) = described(1_000_001).check().expect_err("one more");
    assert_eq!(field, "describe.column.0.categories");
    assert!(fault.to_string().contains("1000001 categories"), "{fault}");
    assert!(fault.fix().contains("1000000"), "{}", fault.fix());
}

/// Run files whose columns do not go together, or that are of another task, and the key that is
/// named.
fn no_descriptions() -> Vec<(String, &'static str)> {
    let covariance = |names: &str| format!("[[describe.covariance]]\ncolumns = [{names}]\n");
    let many = |of: fn(usize) -> String| (0..501).map(of).collect::<Vec<_>>();
    let columns = many(|at| format!("[[describe.column]]\nname = \"c{at}\"\nlow = 0\nhigh = 1\nwant = []\n"));
    let names = many(|at| format!("\"c{at}\"")).join(", ");
    let too_many = columns.concat() + &covariance(&names);
    vec![
        (format!("{AGE}{AGE}"), "describe.column.1.name"),
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
            format!("[describe]\ngroup_by = \"arm\"\n{ARM}{AGE}[[describe.table]]\ncolumns = [\"arm\"]\n"),
            "describe.table.0",
        ),
        (
            format!("{AGE}[[describe.table]]\ncolumns = [\"age\", \"arm\"]\n"),
            "describe.table.0",
        ),
        (
            AGE.to_owned() + &covariance("\"age\""),
            "describe.covariance.0.columns",
        ),
        (
            AGE.to_owned() + &covariance("\"age\", \"age\""),
            "describe.covariance.0.columns",
        ),
        (
            format!("{AGE}{ARM}[[describe.covariance]]\ncolumns = [\"age\", \"arm\"]\n"),
            "describe.covariance.0",
        ),
        (too_many, "describe.covariance.0.columns"),
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
            format!("{ARM}[[describe.table]]\ncolumns = [\"arm\", \"arm\"]\n"),
            "describe.table.0.columns",
        ),
        (
            format!("{ARM}[[describe.table]]\ncolumns = [\"arm\"]\nshare = 0\n"),
            "describe.table.0.share",
        ),
        (format!("[data]\nshape = [3]\n{AGE}"), "data.shape"),
        (format!("[data]\ncolumns = [\"age\"]\n{AGE}"), "data.columns"),
        (
            format!("[data]\nclip = {{ kind = \"l2\", radius = 1.0 }}\n{AGE}"),
            "data.clip",
        ),
        (format!("[data]\nresult = \"mean\"\n{AGE}"), "data.result"),
        (
            format!("{AGE}[run]\ndissemination = \"consensus\"\n"),
            "run.dissemination",
        ),
    ]
}

#[test]
fn what_is_no_description_is_refused_with_its_field() {
    for (lines, field) in no_descriptions() {
        let error = of(&lines).expect_err(&lines);
        assert_eq!(error.field(), Some(field), "{error}\n{lines}");
    }
}

/// A product of categories that no plan has, with the block that is largest.
#[test]
fn too_many_coordinates_are_refused_with_the_largest_block() {
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
