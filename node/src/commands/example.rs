//! `undertone example`: the demonstration's hospitals as files, to try the other commands with.

use std::path::PathBuf;

use clap::Args;

use crate::commands::local::demonstration;
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// Flags of `example`.
#[derive(Args, Debug)]
pub struct ExampleArgs {
    /// The folder to make: NAME.csv for each hospital in its folder `tables`, and beside that
    /// run.toml, which says what is computed; one that exists is never written into
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// How many hospitals there are
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(3..=1000))]
    hospitals: u16,
    /// Other patients for another number
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

/// Writes the tables and the run file.
pub fn run(arguments: ExampleArgs) -> Result<Report, Failure> {
    let ExampleArgs {
        folder,
        hospitals,
        seed,
    } = arguments;
    let refused = |e: std::io::Error| {
        Failure::storage(&e, format!("{}: cannot be made: {e}", folder.display()))
            .field("DIR")
            .hint("name a folder that does not exist yet, in one that you can write to")
    };
    let tables = folder.join("tables");
    std::fs::create_dir(&folder)
        .and_then(|()| std::fs::create_dir(&tables))
        .map_err(refused)?;
    let parties = demonstration::parties(hospitals.into(), seed, &tables)?;
    let run = folder.join("run.toml");
    std::fs::write(&run, demonstration::run_file()).map_err(refused)?;
    let names: Vec<&str> = parties.iter().map(|party| party.name.as_str()).collect();
    let (tables, run) = (tables.display().to_string(), run.display().to_string());
    let text = format!(
        "{hospitals} hospitals with {} made-up patients each: {tables}/{{{}}}.csv\n\
         What is computed of them, and each column's public bounds: {run}\n\n\
         All of them on this machine:  undertone local --inputs {tables} --run {run}\n",
        demonstration::PATIENTS,
        names.join(",")
    );
    let object = serde_json::json!({
        "tables": tables,
        "run": run,
        "hospitals": names,
        "records": demonstration::PATIENTS,
        "exit_code": 0,
    });
    Ok(Report::done(object, text))
}
