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
    /// run.toml, which says what is computed; the same patients in a trial in `trial`, and
    /// table-1.toml; one that exists is never written into
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
    let [tables, trial] = ["tables", "trial"].map(|name| folder.join(name));
    std::fs::create_dir(&folder)
        .and_then(|()| std::fs::create_dir(&tables))
        .and_then(|()| std::fs::create_dir(&trial))
        .map_err(refused)?;
    let parties = demonstration::parties(hospitals.into(), seed, &tables)?;
    let run = folder.join("run.toml");
    std::fs::write(&run, demonstration::run_file()).map_err(refused)?;
    let table_1 = folder.join("table-1.toml");
    std::fs::write(&table_1, demonstration::table_1()).map_err(refused)?;
    for (hospital, party) in parties.iter().enumerate() {
        demonstration::write_trial(hospital, seed, &trial.join(format!("{}.csv", party.name)))?;
    }
    let names: Vec<&str> = parties.iter().map(|party| party.name.as_str()).collect();
    let shown = |path: &std::path::Path| path.display().to_string();
    let [tables, run, trial, table_1] = [&tables, &run, &trial, &table_1].map(|path| shown(path));
    let text = format!(
        "{hospitals} hospitals with {} made-up patients each: {tables}/{{{}}}.csv\n\
         What is computed of them, and each column's public bounds: {run}\n\n\
         All of them on this machine:  undertone local --inputs {tables} --run {run}\n\n\
         The same patients in a trial of two arms, and its Table 1 with a survival curve:\n\
         undertone local --inputs {trial} --run {table_1}\n",
        demonstration::PATIENTS,
        names.join(",")
    );
    let object = serde_json::json!({
        "tables": tables,
        "run": run,
        "trial": trial,
        "table_1": table_1,
        "hospitals": names,
        "records": demonstration::PATIENTS,
        "exit_code": 0,
    });
    Ok(Report::done(object, text))
}
