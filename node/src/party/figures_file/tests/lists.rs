//! Statistics of more numbers than a screen has lines.

use undertone_protocol::describe::cells::RowCell;
use undertone_protocol::describe::row::RowEncoder;

use super::intervals::{described, figures};
use crate::party::figures_file::text::{ShownAs, text};

/// The table of rows with these numbers of a column each, with noise of one row in every count.
fn table(text_of: &str, rows: &[f64], shown: &ShownAs) -> String {
    let described = described(text_of);
    let mut encoder = RowEncoder::of(&described);
    let mut sums = vec![0.0; encoder.layout().coordinates];
    for &row in rows {
        let vector = encoder.vector(&[RowCell::Number(row)]);
        sums.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value);
    }
    let noise = RowEncoder::of(&described).layout().blocks[0].scale;
    // Noise as it could be: 2.5 of its standard deviations in two places, none elsewhere.
    for at in [5, 30] {
        sums[at] += 2.5 * noise;
    }
    let figures = figures(&described, &sums, (noise, rows.len() as f64));
    text(&described, &figures, shown)
}

/// The labels of a table's lines, without the number of rows.
fn labels(text: &str) -> Vec<String> {
    let lines = text.lines().take_while(|line| !line.is_empty());
    let told = lines.map(|line| {
        line.trim_start()
            .trim_start_matches("code")
            .trim_start()
            .to_owned()
    });
    let first = told.filter_map(|line| Some(line.split_once("  ")?.0.trim().to_owned()));
    first
        .filter(|label| label != "rows" && !label.starts_with("by "))
        .collect()
}

fn categories(count: usize) -> String {
    let each: Vec<String> = (0..count).map(|at| at.to_string()).collect();
    format!(
        "[[column]]\nname = \"code\"\ncategories = [{}]\n",
        each.join(", ")
    )
}

fn repeated(of: &[(f64, usize)]) -> Vec<f64> {
    of.iter()
        .flat_map(|&(number, times)| std::iter::repeat_n(number, times))
        .collect()
}

#[test]
fn of_sixty_categories_those_that_noise_does_not_explain_are_shown_largest_first() {
    let rows = repeated(&[(14.0, 52), (15.0, 61), (17.0, 30), (18.0, 33), (40.0, 900)]);
    let all = table(&categories(60), &rows, &ShownAs::default());
    assert_eq!(labels(&all), ["40", "15", "14", "18", "17"], "{all}");
    let top = ShownAs {
        top: 2,
        ..ShownAs::default()
    };
    let two = table(&categories(60), &rows, &top);
    assert_eq!(labels(&two), ["40", "15"], "{two}");
    // Of 40, with the other ones, all are shown that noise does not explain, in the file's order.
    let few = table(
        &categories(39),
        &repeated(&[(9.0, 52), (2.0, 30)]),
        &ShownAs::default(),
    );
    assert!(few.find(" 2 ") < few.find(" 9 "), "{few}");
}

#[test]
fn magnitudes_are_shown_where_noise_does_not_explain_them_and_at_most_as_many_as_asked_for() {
    const ANY: &str = "[[column]]\nname = \"code\"\nwant = [\"magnitude\"]\n";
    let rows = repeated(&[(1.5, 40), (3.0, 90), (5.0, 60), (-9.0, 20)]);
    let all = table(ANY, &rows, &ShownAs::default());
    assert_eq!(labels(&all), ["2^1", "2^2", "2^0", "−2^3"], "{all}");
    let top = ShownAs {
        top: 1,
        ..ShownAs::default()
    };
    assert_eq!(labels(&table(ANY, &rows, &top)), ["2^1"]);
}

#[test]
fn a_columns_histogram_is_shown_whole_beside_its_magnitudes() {
    const BOTH: &str =
        "[[column]]\nname = \"code\"\nlow = 0\nhigh = 8\nwant = [\"histogram\", \"magnitude\"]\nbins = 8\n";
    let rows = repeated(&[(0.5, 50), (1.5, 40), (2.5, 30), (3.5, 35), (4.5, 45), (6.5, 60)]);
    let top = ShownAs {
        top: 3,
        ..ShownAs::default()
    };
    let all = table(BOTH, &rows, &top);
    for bin in ["0 to 1", "1 to 2", "2 to 3", "3 to 4", "4 to 5", "6 to 7"] {
        assert!(all.contains(bin), "{bin}\n{all}");
    }
    let magnitudes = labels(&all).into_iter().filter(|label| label.starts_with("2^"));
    assert_eq!(magnitudes.collect::<Vec<_>>(), ["2^2", "2^1", "2^-1"], "{all}");
}
