//! Time-outs of a cluster on one machine, from what there is to do: many parties share its cores.
//!
//! The defaults of the run file are for few parties and short vectors, for which nothing changes.

use std::num::NonZeroUsize;

use undertone_protocol::plan::run_file::raw::RawRunSettings;

/// The time of a core for each pair of parties, in milliseconds. It was measured with 50 to 200
/// parties of 1,000 coordinates each, from START to the result.
const PAIR_MS: f64 = 1.0;
/// The additional time for each coordinate of each pair, in milliseconds: measured with 30 parties
/// of a million coordinates.
const COORDINATE_MS: f64 = 55e-6;
/// The time to start the nodes and connect, for each pair, in milliseconds: measured with the runs
/// of `PAIR_MS`.
const JOIN_MS: f64 = 1.5;
/// A deadline is so many times what it all takes on an idle machine. Our choice.
const MARGIN: f64 = 4.0;

/// The default of `run.join_ms` in a cluster.
const LEAST_JOIN_MS: u64 = 10_000;

/// Sets the time-outs that nobody has set, where the defaults are too short for so many parties and
/// coordinates on so many cores. Whoever is not up yet is waited for to the end, which is the
/// default of `run.grace_ms`: this command has started all of them, and a machine with other work
/// may take seconds to start one.
pub(super) fn stretch(run: &mut RawRunSettings, parties: usize, dimension: usize, cores: usize) {
    let pairs = (parties * parties) as f64;
    let each = |ms: f64| MARGIN * pairs * ms / cores.max(1) as f64;
    let work = each(PAIR_MS + COORDINATE_MS * dimension as f64);
    let atleast = |field: &mut Option<u64>, default: u64, ms: f64| {
        if field.is_none() && ms > default as f64 {
            *field = Some(ms as u64);
        }
    };
    atleast(&mut run.join_ms, LEAST_JOIN_MS, each(JOIN_MS) + work);
    atleast(&mut run.settle_ms, 2000, work);
    // A round has one share of each party, where all else has one vector of each pair.
    let share = MARGIN * parties as f64 * COORDINATE_MS * dimension as f64 / cores.max(1) as f64;
    atleast(&mut run.round_ms, 1000, each(PAIR_MS) / 8.0 + share);
}

/// The cores of this machine.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

#[cfg(test)]
mod tests {
    use undertone_protocol::plan::defaults::Defaults;
    use undertone_protocol::plan::run_file::raw::RawRunFile;

    use super::*;

    fn stretched(parties: usize, dimension: usize, cores: usize) -> [Option<u64>; 3] {
        let mut run = RawRunSettings::default();
        stretch(&mut run, parties, dimension, cores);
        [run.join_ms, run.round_ms, run.settle_ms]
    }

    #[test]
    fn few_parties_keep_the_defaults_and_many_have_time() {
        assert_eq!(stretched(8, 1000, 2), [None; 3]);
        assert_eq!(stretched(20, 1000, 2), [None; 3]);
        let [join, round, settle] = stretched(100, 1000, 2).map(|ms| ms.expect("stretched"));
        assert!(
            join > 40_000 && round > 2000 && settle > 15_000,
            "{join} {round} {settle}"
        );
        assert!(stretched(100, 1000, 64)[2] < Some(settle), "many cores are fast");
        let [_, _, long] = stretched(30, 1_000_000, 2);
        assert!(long > Some(60_000), "{long:?}");
        let mut run = RawRunSettings {
            settle_ms: Some(7),
            ..RawRunSettings::default()
        };
        stretch(&mut run, 100, 1000, 2);
        assert_eq!(run.settle_ms, Some(7), "what was asked for stays");
    }

    #[test]
    fn who_is_started_late_is_waited_for_as_long_as_anybody() {
        let times = |join_ms, grace_ms, parties| {
            let mut raw = RawRunFile::parse("[data]\nshape = [1000]\n").expect("a run file");
            (raw.run.join_ms, raw.run.grace_ms) = (join_ms, grace_ms);
            stretch(&mut raw.run, parties, 1000, 2);
            let run = raw.resolve(parties, Defaults::Local).expect("a run file").run;
            (run.join_ms, run.grace_ms)
        };
        assert_eq!(times(None, None, 8), (LEAST_JOIN_MS, LEAST_JOIN_MS));
        assert_eq!(times(Some(60_000), None, 8), (60_000, 60_000));
        assert_eq!(
            times(None, Some(5), 8),
            (LEAST_JOIN_MS, 5),
            "what was asked for stays"
        );
        let (join, grace) = times(None, None, 100);
        assert!(grace > 40_000 && join == grace, "{grace}");
    }
}
