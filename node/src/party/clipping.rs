//! Reports to a party's owner on clipping, and means of raw rows.

use undertone_protocol::clipping::range::ClippingReport;
use undertone_protocol::plan::run_file::settings::{Clip, Data, Unit};

use crate::reporting::table::number;

/// Says in a sentence, for the owner, what clipping did; none where everything was within the
/// range.
pub fn sentence(report: &ClippingReport, data: &Data) -> Option<String> {
    let ClippingReport {
        changed, of, scaled, ..
    } = *report;
    let what = match (data.unit, &data.clip) {
        (_, Clip::Described { .. }) => return None,
        _ if changed == 0 => return None,
        (Unit::Party, Clip::L2 { .. }) => format!("your vector was scaled by {}", number(scaled)),
        (Unit::Party, Clip::Box { .. }) => "your vector was moved into its bounds".to_owned(),
        (Unit::Party, Clip::Tensors { .. }) => {
            format!(
                "tensors of yours were scaled, the longest for its radius by {}",
                number(scaled)
            )
        }
        (Unit::Record, Clip::L2 { .. } | Clip::Tensors { .. }) => format!(
            "{} of {} rows clipped, the longest scaled by {}",
            grouped(changed),
            grouped(of),
            number(scaled)
        ),
        (Unit::Record, Clip::Box { .. }) => {
            format!("{} of {} rows clipped", grouped(changed), grouped(of))
        }
    };
    Some(format!(
        "{what} (data.clip); the error that is stated is the noise's only and does not know of it"
    ))
}

/// A count with its thousands apart.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).expect("digits"))
        .collect();
    groups.join(",")
}

/// The mean of rows of `dimension` coordinates each, of which there is at least one.
pub fn mean_of_rows(values: &[f64], dimension: usize) -> Vec<f64> {
    let mut mean = vec![0.0; dimension];
    // Divided first: no sum of finite numbers may overflow.
    let share = dimension as f64 / values.len() as f64;
    values
        .chunks(dimension)
        .for_each(|row| mean.iter_mut().zip(row).for_each(|(m, v)| *m += v * share));
    mean
}

#[cfg(test)]
mod tests {
    use undertone_protocol::plan::run_file::parsed::RunFile;

    use super::*;

    fn said(data: &str, changed: usize) -> Option<String> {
        let run = RunFile::parse(&format!("name = \"t\"\n[data]\n{data}\n"), 4);
        let report = ClippingReport {
            changed,
            replaced: 0,
            of: 12_000,
            scaled: 0.25,
        };
        sentence(&report, &run.unwrap_or_else(|e| panic!("{e}")).data)
    }

    #[test]
    fn an_owner_learns_what_clipping_changed_and_nothing_else() {
        let boxed = "shape = [2]\nclip = { kind = \"box\", low = 0, high = 1 }";
        let tensors = "tensors = { a = [2] }\nclip = { kind = \"tensors\", radius = { a = 1.0 } }";
        let records = "\nunit = \"record\"";
        let ball = "shape = [2]\nclip = { kind = \"l2\", radius = 1.0 }";
        for (data, words) in [
            ("shape = [2]".to_owned(), "your vector was scaled by 0.250"),
            (boxed.to_owned(), "your vector was moved into its bounds"),
            (tensors.to_owned(), "the longest for its radius by 0.250"),
            (
                format!("{ball}{records}"),
                "1,234 of 12,000 rows clipped, the longest scaled by 0.250",
            ),
            (
                format!("{boxed}{records}"),
                "1,234 of 12,000 rows clipped (data.clip)",
            ),
        ] {
            let reported = said(&data, 1234).unwrap_or_else(|| panic!("{data}"));
            assert!(
                reported.starts_with(words) || reported.contains(words),
                "{reported}"
            );
            assert!(reported.contains("the noise's only"), "{reported}");
            assert_eq!(said(&data, 0), None);
        }
    }

    #[test]
    fn a_mean_of_rows_is_theirs_and_does_not_overflow() {
        assert_eq!(mean_of_rows(&[1.0, 2.0, 3.0, 6.0], 2), [2.0, 4.0]);
        assert_eq!(mean_of_rows(&[f64::MAX, f64::MAX], 1), [f64::MAX]);
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}
