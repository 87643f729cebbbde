//! The chaos soak: runs of every mechanism with faults and liars, by seed.
//!
//! `soak simulated [--runs N] [--from SEED] [--mechanism NAME] [--fault NAME] [--json]` prints a
//! table; `soak simulated --seed SEED` shows one run.

use std::io::Write;
use std::process::ExitCode;

use undertone_tests::soak::fault::FAULTS;
use undertone_tests::soak::mechanism::MECHANISMS;
use undertone_tests::soak::simulated::{self, Trials};
use undertone_tests::soak::summary::Summary;

/// Options of the command line.
#[derive(Debug, Default)]
struct Options {
    runs: u64,
    from: u64,
    seed: Option<u64>,
    mechanism: Option<String>,
    fault: Option<String>,
    json: bool,
}

const USAGE: &str = "usage: soak simulated [--runs N] [--from SEED] [--seed SEED] \
                     [--mechanism NAME] [--fault NAME] [--json]";

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        runs: 300,
        ..Options::default()
    };
    if words.next().as_deref() != Some("simulated") {
        return Err(USAGE.to_owned());
    }
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{word}: {text} is no number"));
        match word.as_str() {
            "--runs" => options.runs = number(value()?)?,
            "--from" => options.from = number(value()?)?,
            "--seed" => options.seed = Some(number(value()?)?),
            "--mechanism" => options.mechanism = Some(value()?),
            "--fault" => options.fault = Some(value()?),
            "--json" => options.json = true,
            _ => return Err(USAGE.to_owned()),
        }
    }
    let unknown = |wanted: &Option<String>, names: Vec<&str>| {
        let wanted = wanted.as_deref()?;
        (!names.contains(&wanted)).then(|| format!("there is no {wanted}: {}", names.join(", ")))
    };
    let mechanisms = MECHANISMS.iter().map(|it| it.name).collect();
    let faults = FAULTS.iter().map(|(_, name)| *name).collect();
    let unknown = unknown(&options.mechanism, mechanisms).or_else(|| unknown(&options.fault, faults));
    unknown.map_or(Ok(options), Err)
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let mut trials = Trials::default();
    if let Some(seed) = options.seed {
        return show(&mut trials, seed);
    }
    let summary = soak(&mut trials, &options);
    let text = match options.json {
        true => format!("{:#}\n", summary.json()),
        false => summary.table(),
    };
    let written = std::io::stdout().write_all(text.as_bytes());
    match written.is_ok() && summary.violations().next().is_none() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn show(trials: &mut Trials, seed: u64) -> ExitCode {
    let Some((mechanism, kind)) = simulated::cell(seed) else {
        eprintln!("seed {seed} is no run: this mechanism has no room for that fault");
        return ExitCode::from(2);
    };
    let trial = trials.of(mechanism);
    let run = simulated::run(trial, kind, seed);
    println!("{}\n{}", mechanism.name, simulated::reported(trial, &run));
    ExitCode::SUCCESS
}

fn soak(trials: &mut Trials, options: &Options) -> Summary {
    let mut summary = Summary::default();
    let is_wanted = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|it| it == name);
    let cells = (options.from..).map(|seed| (seed, simulated::cell(seed)));
    let cells = cells.filter_map(|(seed, cell)| Some((seed, cell?)));
    let wanted = cells.filter(|(_, (mechanism, kind))| {
        is_wanted(&options.mechanism, mechanism.name) && is_wanted(&options.fault, kind.name())
    });
    for (done, (seed, (mechanism, kind))) in wanted.take(options.runs as usize).enumerate() {
        let trial = trials.of(mechanism);
        summary.add(simulated::row(trial, kind, seed));
        if done % 10 == 9 {
            eprint!("\r{} runs, {} survivors without", done + 1, summary.without());
        }
    }
    eprintln!();
    summary
}
