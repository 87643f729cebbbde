//! Names that people would mix up in a list that they read.

/// The name as eyes take it: without `-`, and with one sign for o and 0, for i, l and 1, for m and
/// rn, and for w and vv.
fn seen(name: &str) -> String {
    let sign = |sign| match sign {
        'o' => '0',
        'i' | 'l' => '1',
        other => other,
    };
    let name: String = name.chars().filter(|sign| *sign != '-').map(sign).collect();
    name.replace("rn", "m").replace("vv", "w")
}

/// Whether people would take one name for the other.
pub(super) fn look_alike(one: &str, other: &str) -> bool {
    seen(one) == seen(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_signs_that_look_alike_are_found() {
        for (one, other, alike) in [
            ("bob", "bob", true),
            ("bob", "b0b", true),
            ("bob", "b-ob", true),
            ("lab-1", "labi", true),
            ("lill", "1i-l1", true),
            ("barn", "bam", true),
            ("r-n", "m", true),
            ("vvard", "ward", true),
            ("bob", "bod", false),
            ("lab-1", "lab-2", false),
            ("a", "aa", false),
        ] {
            assert_eq!(look_alike(one, other), alike, "{one} {other}");
        }
    }
}
