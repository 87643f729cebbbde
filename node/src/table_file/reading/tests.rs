mod speed;

use undertone_protocol::plan::computation::describe::RawDescription;

use super::*;
use crate::reporting::failure::Exit;

const DESCRIBED: &str = "[[column]]\nname = \"age (years)\"\nlow = 0\nhigh = 100\n\
                         [[column]]\nname = \"arm\"\ncategories = [\"old\", \"new\"]\n";

fn described() -> Description {
    let raw: RawDescription = toml::from_str(DESCRIBED).expect("a description");
    raw.complete().expect("complete")
}

fn read_text(name: &str, text: &str) -> Result<TableSum, Failure> {
    read_as(name, text, MostlyWords::Refused)
}

fn read_as(name: &str, text: &str, words: MostlyWords) -> Result<TableSum, Failure> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("written");
    read(&path, &described(), (2f64.powi(-20), words))
}

fn refused(name: &str, text: &str, words: &str) {
    let failure = read_text(name, text).err().unwrap_or_else(|| panic!("{text}"));
    assert_eq!(failure.exit, Exit::InputUnusable, "{failure}");
    assert!(failure.message.contains(words), "{failure}");
    assert!(!failure.to_string().contains("61"), "no value: {failure}");
}

#[test]
fn a_refusal_of_words_names_a_flag_only_where_there_is_one() {
    const WORDS: &str = "arm,age (years)\nold,many\nnew,few\n";
    let hint = |words| {
        let refused = read_as("a.csv", WORDS, words).err().expect("refused");
        refused.hint.expect("a hint")
    };
    assert!(hint(MostlyWords::RefusedUnlessAsked).contains("--anyway"));
    let of_daemons = hint(MostlyWords::Refused);
    assert!(
        !of_daemons.contains("--") && of_daemons.contains("leave them empty"),
        "{of_daemons}"
    );
    assert!(read_as("a.csv", WORDS, MostlyWords::Taken).is_ok());
    assert!(
        read_text("a.csv", "arm,age (years)\nold,\nnew,\n").is_ok(),
        "as it says"
    );
}

#[test]
fn cells_are_found_by_name_and_nothing_in_them_is_an_error() {
    let csv = "other,arm,age (years)\nx,old,61\ny, new ,NA\nz,elsewhere,x?\n,,1e400\n\"a,b\",old,+140\n";
    let json = r#"[{"age (years)": 61, "arm": "old", "other": [1]}, {"arm": "new", "age (years)": null},
        {"arm": "elsewhere", "age (years)": "x?"}, {"age (years)": "1e400"}, {"arm": "old", "age (years)": 140}]"#;
    let (one, two) = (read_text("a.csv", csv), read_text("a.json", json));
    let (one, two) = (one.map_err(|e| e.to_string()), two.map_err(|e| e.to_string()));
    let (one, two) = (
        one.unwrap_or_else(|e| panic!("{e}")),
        two.unwrap_or_else(|e| panic!("{e}")),
    );
    assert_eq!((one.rows, two.rows), (5, 5));
    assert!(
        one.cells == two.cells,
        "a sum does not depend on the file's kind, nor on the order of columns"
    );
    let said: Vec<String> = one
        .found
        .iter()
        .filter_map(|found| found.sentence(one.rows))
        .collect();
    assert_eq!(
        said[0],
        "age (years): of 5 cells 1 missing; 2 no number, and so missing; 1 outside of [0, 100], and counted as the nearest bound"
    );
    assert_eq!(
        said[1],
        "arm: of 5 cells 1 missing; 1 no declared category, and counted as other"
    );
}

/// Python's `json` writes NaN, and other programs numbers beyond f64: the cells are missing, as the
/// texts are.
#[test]
fn bare_words_for_numbers_of_json_are_missing_cells() {
    let table = |cells: [&str; 4]| {
        let row = |cell: &str| format!("{{\"age (years)\": {cell}, \"arm\": \"old\"}}");
        let text = format!("[{}, {}]", cells.map(row).join(", "), row("61"));
        read_text("a.json", &text).unwrap_or_else(|e| panic!("{e}"))
    };
    let bare = table(["1e400", "NaN", "-Infinity", "44"]);
    let texts = table(["\"1e400\"", "\"NaN\"", "\"-Infinity\"", "44"]);
    assert!(bare.cells == texts.cells && bare.rows == 5);
    let counts = bare.found[0].counts;
    assert_eq!((counts.missing + counts.no_number, counts.clipped), (3, 0));
}

#[test]
fn tables_of_another_shape_are_refused_before_anything_is_said() {
    refused(
        "a.csv",
        "age,arm\n61,old\n",
        "no column is called \"age (years)\"",
    );
    refused(
        "a.csv",
        "arm,arm,age (years)\nold,new,61\n",
        "two columns are called \"arm\"",
    );
    refused(
        "a.csv",
        "arm,age (years)\nold,61\nold\n",
        "row 2 (line 3) has 1 columns",
    );
    refused("a.csv", "arm;age (years)\nold;61\n", "semicolons");
    refused("a.csv", "arm,age (years)\nold,\"61,5\"\n", "decimal comma");
    refused(
        "a.csv",
        "arm,age (years)\nold,many\nnew,few\nnew,61\n",
        "most cells of column \"age (years)\"",
    );
    refused("a.csv", "", "no rows");
    refused(
        "a.json",
        "[{\"arm\": \"old\"}]",
        "no column is called \"age (years)\"",
    );
    refused("a.json", "{\"arm\": \"old\"}", "no list of objects");
    refused("a.json", "[[61]]", "no list of objects");
    refused("a.npy", "x", "of a .csv with a row of names");
}
