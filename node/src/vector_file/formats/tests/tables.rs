//! Tables of other kinds, and first rows that may be names.

use super::*;

#[test]
fn a_table_of_another_kind_says_how_it_becomes_one_of_commas() {
    for (text, what, hint) in [
        ("age\tbmi\n20\t30\n", "tabs separate", "sep='\\t'"),
        ("20\t30\n40\t50\n", "tabs separate", "tab"),
        ("20,5\t30,5\n", "numbers between tabs", "tab"),
        ("age|bmi\n20|30\n", "bars (|) separate", "sep='|'"),
        ("20|30\n", "bars (|) separate", "sep='|'"),
        ("age;bmi\n20,5;30\n", "semicolons separate", "decimal=','"),
        ("20,5;30\n", "numbers between semicolons", "decimal=','"),
        ("1.0e+00 2.0e+00\n", "spaces separate", "delimiter=','"),
        ("x y\n1 2\n", "numbers between spaces", "delimiter=','"),
        ("# a,b\n1,2\n", "a comment", "comments=''"),
        ("sep=,\na,b\n1,2\n", "for a spreadsheet", "leave that line out"),
        (
            "age,pay\n\"1,234\",\"2,345\"\n",
            "may separate thousands",
            "thousands=','",
        ),
        ("pay\n\"1,234.50\"\n", "thousands are separated", "thousands=','"),
        ("x\n3,14\n2,71\n", "ragged", "3.14"),
        ("a,b,\n1,2,\n", "column 3 has no name", "end with a comma"),
        ("1,2,\n3,4,\n", "column 3 is empty", "end with a comma"),
        ("a,b\n1,2,\n", "ragged", "end with a comma"),
        ("a,b\n0,1,2\n", "ragged", "row.names=FALSE"),
        (",age\n0,5\n", "column 1 has no name", "index=False"),
        (
            "\"\",\"age\"\n\"1\",5\n",
            "column 1 has no name",
            "row.names=FALSE",
        ),
        ("Unnamed: 0,age\n0,5\n", "column 1 has no name", "index=False"),
        ("a,,c\n1,2,3\n", "column 2 has no name", "give it a name"),
        (
            "a,b,a\n1,2,3\n",
            "columns 1 and 3 have the same name",
            "of its own",
        ),
        ("a,b\x1b[31m\n1,2\n", "control characters", "short name"),
        ("a\n5 %\n", "unit", "plain number"),
        ("a,b\n1,NA\n", "missing value", "fill the cell"),
        (
            "age,2019\n20,30\n",
            "row 1 (line 1), column 1 is not a number",
            "if the row is of names",
        ),
    ] {
        let failure = read_as("csv", text.as_bytes()).expect_err(text);
        let reported = failure.hint.unwrap_or_default();
        assert!(failure.message.contains(what), "{text:?}: {}", failure.message);
        assert!(
            reported.contains(hint) && !reported.contains("drop that row"),
            "{text:?}: {reported}"
        );
    }
}

/// Reads a table of which a plan has these names and this count of numbers.
fn read_planned(text: &str, columns: &[&str], numbers: Option<usize>) -> Result<VectorFile, Failure> {
    let folder = folder();
    let path = folder.path().join("x.csv");
    std::fs::write(&path, text).unwrap();
    let columns: Vec<String> = columns.iter().map(|&name| name.to_owned()).collect();
    let columns = (!columns.is_empty()).then_some(&columns[..]);
    crate::vector_file::formats::read_as(&path, Expected { columns, numbers })
}

#[test]
fn a_header_of_numbers_is_one_where_the_plan_says_so_and_else_asked_about() {
    let shape = |read: Result<VectorFile, Failure>| read.unwrap().layout;
    let years = "2019,2020\n1,2\n3,4\n";
    assert_eq!(shape(read_planned(years, &[], None)), csv(&[3, 2], None));
    assert_eq!(
        shape(read_planned(years, &["2019", "2020"], None)),
        csv(&[2, 2], Some(&["2019", "2020"]))
    );
    // In another order, or without one of them: names all the same, for others to compare.
    for (text, names) in [
        ("2020,2019\n1,2\n", &["2020", "2019"][..]),
        ("2020\n1\n", &["2020"]),
    ] {
        assert_eq!(
            shape(read_planned(text, &["2019", "2020"], None)),
            csv(&[1, names.len()], Some(names))
        );
    }
    assert_eq!(
        shape(read_planned("age,2019\n1,2\n", &["age", "2019"], None)),
        csv(&[1, 2], Some(&["age", "2019"]))
    );
    // Rows that only resemble them are data.
    for text in ["2019,2019\n1,2\n", "2019,2021\n1,2\n", "2019.0,2020\n1,2\n"] {
        assert_eq!(
            shape(read_planned(text, &["2019", "2020"], None)),
            csv(&[2, 2], None)
        );
    }
    for (text, columns) in [("0,1\n5,6\n", 2), ("0\n5\n6\n", 1), ("0,1,2\n5,6,7\n5,6,7\n", 3)] {
        let failure = read_planned(text, &[], None).unwrap_err();
        assert!(
            failure.hint.is_some_and(|hint| hint.contains("header=False")),
            "{text:?}"
        );
        let rows = text.lines().count();
        let numbers = Some(rows * columns);
        assert_eq!(
            shape(read_planned(text, &[], numbers)),
            csv(&[rows, columns], None)
        );
        read_planned(text, &[], Some((rows - 1) * columns)).unwrap_err();
        let names: Vec<String> = (0..columns).map(|column| column.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(
            shape(read_planned(text, &names, None)),
            csv(&[rows - 1, columns], Some(&names))
        );
    }
    // One row is no header; neither are numbers as no column is numbered.
    for text in ["0,1\n", "0.0,1.0\n2,3\n", "1,0\n2,3\n", "1,2\n3,4\n"] {
        shape(read_planned(text, &[], None));
    }
    // Names that alone stand in quotation marks, as those programs write them that quote words.
    assert_eq!(
        shape(read_planned("\"0\",\"1\"\r\n5,6\r\n", &[], None)),
        csv(&[1, 2], Some(&["0", "1"]))
    );
    assert_eq!(
        shape(read_planned("\"5\",\"6\"\n\"7\",8\n", &[], None)),
        csv(&[2, 2], None)
    );
    comes_back("csv", &csv(&[3, 2], Some(&["2019", "2020"])), &SIX);
    comes_back("csv", &csv(&[2, 3], Some(&["0", "1", "2"])), &SIX);
}
