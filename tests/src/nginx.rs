//! Debian's nginx with one site, for a test.

use std::path::Path;

/// The configuration of an nginx that has this site and writes to this folder: the site in the
/// frame that Debian puts around it.
pub fn framed(site: &str, folder: &Path) -> String {
    let folder = folder.display();
    // Debian's user, if anybody may choose: it reaches no more than it would there.
    let user = if nix::unistd::geteuid().is_root() {
        "user www-data;\n"
    } else {
        ""
    };
    format!(
        "{user}daemon off;\npid {folder}/nginx.pid;\nerror_log stderr;\nevents {{}}\n\
         http {{\naccess_log off;\nclient_body_temp_path {folder};\nproxy_temp_path {folder};\n\
         fastcgi_temp_path {folder};\nuwsgi_temp_path {folder};\nscgi_temp_path {folder};\n{site}}}\n"
    )
}
