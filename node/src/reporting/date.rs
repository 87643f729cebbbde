//! Moments as people read them.

/// A moment in milliseconds since 1970 as "2026-03-01 09:30 UTC".
pub fn utc(ms: u64) -> String {
    let minutes = ms / 60_000;
    let (year, month, day) = civil(minutes / 1440);
    let (hour, minute) = (minutes / 60 % 24, minutes % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// Year, month and day of a day that is counted from 1970-01-01, by eras of 400 years that begin on
/// a first of March, so that a leap day is the last of its year.
pub fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        // From `date -u -d @SECONDS`.
        for (seconds, said) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_772_357_400, "2026-03-01 09:30 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(utc(seconds * 1000), said);
        }
    }
}
