//! Numbers with as many digits as their errors leave.

/// Decimals with which an error has two digits.
pub(super) fn decimals_of(error: f64) -> usize {
    if !(error.is_finite() && error > 0.0) {
        return 1;
    }
    (1.0 - error.log10().floor()).clamp(0.0, 9.0) as usize
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
