use undertone_protocol::describe::cells::RowCell;
use undertone_protocol::describe::figures::estimate::ReadingAs;
use undertone_protocol::describe::released::ReleasedSum;
use undertone_protocol::describe::row::RowEncoder;
use undertone_protocol::plan::computation::describe::RawDescription;

use super::*;

const DESCRIBED: &str = "group_by = \"arm\"\n\
                         [[column]]\nname = \"arm\"\ncategories = [\"old\", \"new\"]\n\
                         [[column]]\nname = \"age\"\nlow = 0\nhigh = 100\nbins = 20\nwant = [\"mean\", \"quantiles\"]\n\
                         [[column]]\nname = \"sex\"\ncategories = [\"f\", \"m\"]\n\
                         [[column]]\nname = \"months\"\nlow = 0\nhigh = 12\nbins = 6\nwant = [\"survival\"]\n\
                         event = \"died\"\n\
                         [[column]]\nname = \"weight\"\nlow = 30\nhigh = 130\nwant = []\n\
                         [[covariance]]\ncolumns = [\"age\", \"weight\"]\n";

const MEANS: &str = "[[column]]\nname = \"age\"\nlow = 0\nhigh = 100\n";

/// Figures of 600 made-up rows, half of them of each arm.
fn figures(text: &str) -> (Description, AllFigures) {
    let raw: RawDescription = toml::from_str(text).expect("a description");
    let described = raw.complete().expect("complete");
    let mut encoder = RowEncoder::of(&described);
    let mut sums = vec![0.0; encoder.layout().coordinates];
    for row in 0..600usize {
        let (age, arm) = (20.0 + (row * 7 % 60) as f64, ["old", "new"][row % 2]);
        let cell = |name: &&str| match *name {
            "arm" => RowCell::Text(arm),
            "age" => RowCell::Number(age),
            "sex" => RowCell::Text(["f", "m"][row / 2 % 2]),
            "months" => RowCell::Number((row % 12) as f64 + 0.5),
            "died" => RowCell::Number(f64::from(u8::from(row % 5 == 0))),
            _ => RowCell::Number(40.0 + age),
        };
        let cells: Vec<RowCell<'_>> = described.names().iter().map(cell).collect();
        let vector = encoder.vector(&cells);
        sums.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value);
    }
    let released = ReleasedSum::of(described.clone(), sums, 5.0, Some(600.0)).expect("as long");
    (described, released.figures(&ReadingAs::default()))
}

fn is_within([low, value, high]: [f64; 3]) -> bool {
    low <= value && value <= high
}

/// Each panel has what its statistic says, one line or bar for each group that has enough rows.
#[test]
fn panels_are_curves_bars_and_correlations_with_their_intervals() {
    let (described, figures) = figures(DESCRIBED);
    let panels = panels(&described, &figures, &ShownAs::default());
    let [age, sex, months, together] = &panels[..] else {
        panic!("{} panels", panels.len())
    };
    let lines = |panel: &FigurePanel, name: &str| match panel {
        FigurePanel::Lines { title, groups, .. } if title == name => groups.clone(),
        _ => panic!("no lines of {name}"),
    };
    let names = |groups: &[(String, Vec<[f64; 4]>)]| -> Vec<String> {
        groups.iter().map(|(name, _)| name.clone()).collect()
    };
    let curves = lines(age, "age");
    assert_eq!(names(&curves), ["old", "new"], "other and missing are nobody");
    for (_, points) in &curves {
        assert!(points.is_sorted_by(|a, b| a[0] < b[0] && a[1] <= b[1]));
        assert_eq!(points.last().map(|point| point[1]), Some(1.0));
    }
    let curves = lines(months, "months");
    assert_eq!(names(&curves), ["old", "new"]);
    for (_, points) in &curves {
        assert_eq!(points[0], [0.0, 1.0, 1.0, 1.0]);
        assert!(
            points.is_sorted_by(|a, b| a[1] >= b[1]),
            "nobody comes back: {points:?}"
        );
        assert!(
            points
                .iter()
                .all(|point| is_within([point[2], point[1], point[3]]))
        );
        assert!(
            points.last().is_some_and(|point| point[3] - point[2] > 0.0),
            "a band"
        );
    }
    let FigurePanel::Bars {
        title,
        labels,
        groups,
    } = sex
    else {
        panic!("no bars")
    };
    assert_eq!((title.as_str(), groups.len()), ("sex", 2));
    assert_eq!(labels[..], ["f", "m", "other"]);
    for (_, bars) in groups {
        assert!((bars[0][0] - 0.5).abs() < 0.2 && bars.iter().all(|bar| is_within([bar[1], bar[0], bar[2]])));
    }
    let FigurePanel::Matrix(covariance) = together else {
        panic!("no correlations")
    };
    assert_eq!(covariance.columns, ["age", "weight"]);
}

/// A picture is one SVG with a caption for each panel, a band for each curve, a legend, and
/// correlations as numbers; none of its places is no number.
#[test]
fn pictures_have_a_panel_for_each_statistic() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("figures.svg");
    let (described, all) = figures(DESCRIBED);
    draw((&described, &all), &ShownAs::default(), &path).unwrap_or_else(|e| panic!("{e}"));
    let svg = std::fs::read_to_string(&path).expect("written");
    assert!(
        svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
        "{svg}"
    );
    for words in [
        "age",
        "sex",
        "months",
        "correlations",
        "share of rows below",
        "share of rows",
        "share without an event",
        "old",
        "new",
        "weight",
        "1.00",
    ] {
        assert!(svg.contains(words), "{words}");
    }
    assert_eq!(svg.matches("<polygon").count(), 4, "a band for each curve");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    let panels = ["width=\"1260\"", "height=\"560\""];
    assert!(
        panels.iter().all(|size| svg.contains(size)),
        "three across, two down"
    );
}

#[test]
fn nothing_to_draw_and_other_formats_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |text: &str, name: &str, words: &str| {
        let (described, all) = figures(text);
        let path = folder.path().join(name);
        let failure = draw((&described, &all), &ShownAs::default(), &path).expect_err(words);
        assert!(failure.to_string().contains(words), "{failure}");
        assert!(!path.exists());
    };
    refused(MEANS, "f.svg", "to draw");
    refused(DESCRIBED, "f.png", "svg");
}
