//! Numbers with as many digits as their errors leave.

/// Numbers and errors below this are written with an exponent: zeros behind a point are hard to
/// count. Our choice.
const SMALL: f64 = 1e-6;

/// Decimals that are always enough: f64 has no more digits of a number that is not small.
const MOST_DECIMALS: f64 = 15.0;

/// The least p-value that is written as a number.
const LEAST_P: f64 = 0.001;

/// Decimals with which an error has two digits.
fn decimals_of(error: f64) -> usize {
    if !(error.is_finite() && error > 0.0) {
        return 1;
    }
    (1.0 - error.log10().floor()).clamp(0.0, MOST_DECIMALS) as usize
}

/// A number with the digits that this error leaves, none of which is rounded to nothing.
pub(super) fn number(value: f64, error: f64) -> String {
    let is_small = error > 0.0 && value.abs().max(error) < SMALL;
    match is_small && value != 0.0 {
        true => {
            let more = value.abs().log10().floor() - error.log10().floor();
            format!("{value:.*e}", (more + 1.0).clamp(0.0, MOST_DECIMALS) as usize)
        }
        false if is_small => "0".to_owned(),
        false => with_thousands(value, decimals_of(error)),
    }
}

/// A number and its error, both with the digits that the error leaves.
pub(super) fn with_error(value: f64, error: f64) -> String {
    format!("{} ± {}", number(value, error), number(error, error))
}

/// A number without an error, as short as it can be told from others near it.
pub(super) fn exact(value: f64) -> String {
    match value.fract() == 0.0 {
        true => with_thousands(value, 0),
        // Four digits.
        false => number(value, value.abs() / 1e2),
    }
}

/// A chance as a cell of a table, and behind "p" in a sentence.
pub fn p_value(p: f64) -> [String; 2] {
    match p < LEAST_P {
        true => [format!("< {LEAST_P}"), format!("p < {LEAST_P}")],
        false => [format!("{p:.3}"), format!("p = {p:.3}")],
    }
}

/// A number with its thousands apart.
pub(super) fn with_thousands(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text
        .split_once('.')
        .map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value < 0.0 && text.bytes().any(|b| (b'1'..=b'9').contains(&b)) {
        "-"
    } else {
        ""
    };
    match fraction {
        Some(fraction) => format!("{sign}{grouped}.{fraction}"),
        None => format!("{sign}{grouped}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bound, an error or a chance that is small is not shown as 0.
    #[test]
    fn small_numbers_keep_the_digits_that_their_errors_leave() {
        for (value, error, shown) in [
            (59.17, 0.42, "59.17"),
            (1980.2, 27.7, "1,980"),
            (0.0123, 0.0042, "0.0123"),
            (0.004_2, 0.004_2, "0.0042"),
            (0.000_031, 0.000_002, "0.0000310"),
            (3.14e-7, 2.0e-9, "3.140e-7"),
            (4.2e-12, 4.2e-12, "4.2e-12"),
            (-4.2e-12, 1.0e-11, "-4e-12"),
            (0.0, 1.0e-11, "0"),
            (0.5, 4.2e-12, "0.5000000000000"),
            (-0.001, 0.42, "0.00"),
            (12.0, 0.0, "12.0"),
        ] {
            assert_eq!(number(value, error), shown, "{value} ± {error}");
        }
        assert_eq!(with_error(2.0e-11, 4.2e-12), "2.00e-11 ± 4.2e-12");
        assert_eq!(exact(4000.0), "4,000");
        assert_eq!([exact(0.000_031_25), exact(0.1234)], ["0.00003125", "0.1234"]);
        assert_eq!(p_value(0.000_2), ["< 0.001", "p < 0.001"]);
        assert_eq!(p_value(0.012), ["0.012", "p = 0.012"]);
    }
}
