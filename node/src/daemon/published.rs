//! The folder where operators see the results of runs.

use std::io;
use std::path::Path;

use crate::daemon::mean_file::MeanFile;
use crate::daemon::runs::Run;
use crate::daemon::shared::Shared;
use crate::reporting::failure::Failure;
use crate::reporting::output_file;

/// Copies a run's results to where the operator wants to see them.
///
/// # Errors
/// That folder cannot be written.
pub(super) fn hand_out(shared: &Shared, run: &Run, mean: Option<&MeanFile>) -> Result<(), Failure> {
    let Some(output) = &shared.config().output else {
        return Ok(());
    };
    let place = output.join(&run.status().digest);
    let name = mean.map(|mean| mean.name.as_str());
    let files = name.into_iter().chain(["receipt.json", "receipt.json.sig"]);
    publish(run.folder(), &place, files).map_err(|e| {
        Failure::storage(&e, format!("{}: cannot be written: {e}", place.display())).field("output")
    })
}

/// Copies files in this order, each whole or not at all, for others to read.
fn publish<'a>(from: &Path, to: &Path, files: impl Iterator<Item = &'a str>) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(to)?;
    for name in files {
        let (bytes, place) = (std::fs::read(from.join(name))?, to.join(name));
        let is_new = !place.exists();
        output_file::write_whole(&place, |out| out.write_all(&bytes))?;
        if is_new {
            // Whatever the daemon's umask is.
            std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o644))?;
        }
    }
    Ok(())
}
