//! The unit with which systemd runs a daemon as its user.

use std::env;
use std::path::{Path, PathBuf};

use crate::reporting::failure::Failure;

/// The place of the unit among the user's own.
pub(super) fn place() -> Result<PathBuf, Failure> {
    let folder = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let settings = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
    let settings = settings.ok_or_else(|| {
        Failure::usage("there is no folder for units of systemd")
            .field("--service")
            .hint("set HOME or XDG_CONFIG_HOME")
    })?;
    Ok(settings.join("systemd/user/undertone.service"))
}

/// The unit's text, for this program with this configuration.
pub(super) fn text(node: &Path) -> Result<String, Failure> {
    let unusable =
        |what: &str| Failure::usage(format!("{what} cannot be written into a unit")).field("--service");
    let program = env::current_exe().map_err(|_| unusable("this program's path"))?;
    let node = node
        .canonicalize()
        .map_err(|_| unusable("the configuration's path"))?;
    let quoted = |path: &Path| {
        path.to_str()
            .and_then(quoted)
            .ok_or_else(|| unusable(&format!("{path:?}")))
    };
    Ok(format!(
        "# Written by `undertone setup`.\n\
         [Unit]\n\
         Description=Undertone: private means with no server\n\n\
         [Service]\n\
         ExecStart={} node --config {}\n\
         ExecReload=/bin/kill -HUP $MAINPID\n\
         # Exit 2 is a configuration that only its operator can repair.\n\
         Restart=on-failure\n\
         RestartSec=5\n\
         RestartPreventExitStatus=2\n\
         TimeoutStopSec=15\n\
         UMask=0077\n\n\
         [Install]\n\
         WantedBy=default.target\n",
        quoted(&program)?,
        quoted(&node)?
    ))
}

/// A path as systemd reads it back; `None` if it has characters that break a line.
fn quoted(path: &str) -> Option<String> {
    if path.chars().any(char::is_control) {
        return None;
    }
    let escaped = path.replace('\\', "\\\\").replace('"', "\\\"");
    Some(format!("\"{}\"", escaped.replace('%', "%%").replace('$', "$$")))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn paths_come_back_from_systemd_as_they_were() {
        assert_eq!(quoted("/a b/50%").as_deref(), Some("\"/a b/50%%\""));
        assert_eq!(quoted("/a\"$x").as_deref(), Some("\"/a\\\"$$x\""));
        assert_eq!(quoted("/a\nb"), None);
    }
}
