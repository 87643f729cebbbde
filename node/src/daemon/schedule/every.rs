//! The times at which a schedule is due: UTC, so that no summer time doubles or skips one.

use std::fmt;
use std::str::FromStr;

use crate::reporting::date::civil;

const DAY_S: u64 = 86_400;

/// Days of the week, the first that of 1970-01-01 less three.
const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// The last day of a month that every month has.
const LAST_DAY: u64 = 28;

/// Days from any one to the next of a month's days, at most.
const MONTH: u64 = 31;

/// "daily 03:00", "Mon 03:00" or "1st 03:00": a time of day, on which days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Every {
    days: Days,
    /// Minutes since midnight.
    minute: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Days {
    All,
    /// One day of the week, from 0 for Monday.
    Weekday(u64),
    /// One day of the month, from 1.
    OfMonth(u64),
}

/// Text that is no such time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{found:?} is no time of a schedule; write \"daily 03:00\", \"Mon 03:00\" (Mon to Sun) or \"1st 03:00\" (1st to 28th), in UTC"
)]
pub struct NotEvery {
    found: String,
}

impl FromStr for Every {
    type Err = NotEvery;

    fn from_str(text: &str) -> Result<Self, NotEvery> {
        parse(text).ok_or_else(|| NotEvery {
            found: text.chars().take(32).collect(),
        })
    }
}

fn parse(text: &str) -> Option<Every> {
    let (days, time) = text.split_once(' ')?;
    let (hour, minute) = time.split_once(':')?;
    let number = |digits: &str, below: u64| {
        let two = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number: u64 = digits.parse().ok().filter(|_| two)?;
        (number < below).then_some(number)
    };
    let minute = 60 * number(hour, 24)? + number(minute, 60)?;
    let days = match WEEKDAYS.iter().position(|day| *day == days) {
        Some(day) => Days::Weekday(day as u64),
        None if days == "daily" => Days::All,
        None => Days::OfMonth((1..=LAST_DAY).find(|day| ordinal(*day) == days)?),
    };
    Some(Every { days, minute })
}

/// "1st", "2nd", "3rd", "4th", …
fn ordinal(day: u64) -> String {
    let ending = match day {
        1 | 21 => "st",
        2 | 22 => "nd",
        3 | 23 => "rd",
        _ => "th",
    };
    format!("{day}{ending}")
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.days {
            Days::All => f.write_str("daily")?,
            Days::Weekday(day) => f.write_str(WEEKDAYS[day as usize])?,
            Days::OfMonth(day) => f.write_str(&ordinal(day))?,
        }
        write!(f, " {:02}:{:02}", self.minute / 60, self.minute % 60)
    }
}

impl Every {
    /// Returns the last time, in seconds since 1970, that is due at `now_s` or before; `None`
    /// within the first month of 1970.
    pub fn last(&self, now_s: u64) -> Option<u64> {
        let today = now_s / DAY_S;
        let days = (0..=MONTH).filter_map(|back| today.checked_sub(back));
        let mut due = days.filter_map(|day| self.on(day));
        due.find(|due| *due <= now_s)
    }

    /// Returns the first time, in seconds since 1970, that is due after `now_s`.
    pub fn next(&self, now_s: u64) -> u64 {
        let today = now_s / DAY_S;
        let mut due = (0..=MONTH).filter_map(|on| self.on(today + on));
        // Within any 32 days there is each day of the month and of the week.
        due.find(|due| *due > now_s).unwrap_or(u64::MAX)
    }

    /// The due time of a day since 1970, if it has one.
    fn on(&self, day: u64) -> Option<u64> {
        let falls = match self.days {
            Days::All => true,
            Days::Weekday(weekday) => (day + 3) % 7 == weekday,
            Days::OfMonth(of_month) => civil(day).2 == of_month,
        };
        falls.then(|| day * DAY_S + 60 * self.minute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reporting::date::utc;

    fn every(text: &str) -> Every {
        text.parse().expect(text)
    }

    #[test]
    fn times_are_read_and_printed_and_others_refused() {
        for text in [
            "daily 00:00",
            "Mon 03:00",
            "Sun 23:59",
            "1st 06:30",
            "2nd 00:00",
            "23rd 12:00",
            "28th 01:02",
        ] {
            assert_eq!(every(text).to_string(), text);
        }
        for wrong in [
            "",
            "daily",
            "daily 24:00",
            "daily 3:00",
            "daily 03:60",
            "mon 03:00",
            "Monday 03:00",
            "1 03:00",
            "1th 03:00",
            "29th 03:00",
            "0th 03:00",
            "Mon  03:00",
            "Mon 03:00 UTC",
            "Mon +3:00",
            "Mon 03:0é",
        ] {
            let refused = wrong.parse::<Every>().expect_err(wrong).to_string();
            assert!(refused.contains("\"Mon 03:00\""), "{refused}");
        }
    }

    #[test]
    fn due_times_are_those_of_the_calendar() {
        // 2026-11-27 is a Friday: `date -u -d 2026-11-27 +%a`. Seconds: `date -u -d … +%s`.
        let now = 1_795_737_600; // 2026-11-27 00:00
        for (text, last, next) in [
            ("daily 00:00", "2026-11-27 00:00 UTC", "2026-11-28 00:00 UTC"),
            ("daily 03:00", "2026-11-26 03:00 UTC", "2026-11-27 03:00 UTC"),
            ("Fri 00:00", "2026-11-27 00:00 UTC", "2026-12-04 00:00 UTC"),
            ("Fri 00:01", "2026-11-20 00:01 UTC", "2026-11-27 00:01 UTC"),
            ("Mon 03:00", "2026-11-23 03:00 UTC", "2026-11-30 03:00 UTC"),
            ("1st 06:30", "2026-11-01 06:30 UTC", "2026-12-01 06:30 UTC"),
            ("28th 06:30", "2026-10-28 06:30 UTC", "2026-11-28 06:30 UTC"),
        ] {
            let every = every(text);
            assert_eq!(
                every.last(now).map(|due| utc(1000 * due)).as_deref(),
                Some(last),
                "{text}"
            );
            assert_eq!(utc(1000 * every.next(now)), next, "{text}");
        }
        // Over a leap day, and in the first days of all.
        let february = 1_835_308_800; // 2028-02-28 00:00
        assert_eq!(
            utc(1000 * every("1st 00:00").next(february)),
            "2028-03-01 00:00 UTC"
        );
        assert_eq!(every("Mon 03:00").last(0), None);
    }

    #[test]
    fn due_times_follow_one_another_without_gap_for_years() {
        for (text, least, most) in [("daily 12:00", 1, 1), ("Wed 12:00", 7, 7), ("15th 12:00", 28, 31)] {
            let (every, mut due) = (every(text), 1_700_000_000);
            for _ in 0..200 {
                let next = every.next(due);
                assert_eq!(
                    (every.last(next), every.last(next - 1)),
                    (Some(next), every.last(due)),
                    "{text}"
                );
                let days = (next - every.last(due).expect("after 1970")) / DAY_S;
                assert!((least..=most).contains(&days), "{text}: {days}");
                due = next;
            }
        }
        assert_eq!(every("daily 00:00").next(u64::MAX - DAY_S * 40) % DAY_S, 0);
    }
}
