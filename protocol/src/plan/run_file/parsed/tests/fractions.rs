//! Fractions as a run file writes them.

use crate::plan::run_file::fraction::Fraction;

#[test]
fn fractions_are_exact() {
    let fraction = |text: &str| text.parse::<Fraction>().ok().map(|f| f.to_string());
    for (text, shown) in [
        ("1/3", "1/3"),
        ("-2/4", "-1/2"),
        ("0.25", "1/4"),
        ("-0.5", "-1/2"),
        ("7", "7"),
        ("-0", "0"),
        (" 1 / 2 ", "1/2"),
        ("0/5", "0"),
    ] {
        assert_eq!(fraction(text).as_deref(), Some(shown), "{text}");
    }
    for bad in [
        "",
        "-",
        "1/",
        "/2",
        "1/0",
        "1/-2",
        "--1",
        "1e3",
        ".5",
        "5.",
        "0x1",
        "1/2/3",
        "+1",
        "nan",
        "999999999999999999999",
        "1.00000000000000000001",
        "１",
    ] {
        assert_eq!(fraction(bad), None, "{bad}");
    }
}
