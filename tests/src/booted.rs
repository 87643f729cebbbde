//! A machine of its own for systemd: namespaces, and a copy of this machine's files that is
//! forgotten at the end.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// From the first process to a machine that runs, on a machine that does other things.
const BOOTED: Duration = Duration::from_secs(60);

/// Writes go to memory. It has this machine's files, `/srv` with what the test brings, this
/// machine's devices, and no network but its own loopback. The units are those that any machine
/// starts first.
const BOOT: &str = r#"
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mkdir -p "$1/upper/srv" "$1/upper/etc/systemd/system"
cp "$2"/* "$1/upper/srv/"
cat > "$1/upper/etc/systemd/system/booted.target" <<'UNIT'
[Unit]
Description=All that a test needs
Requires=basic.target
After=basic.target
AllowIsolate=yes
UNIT
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount --rbind /dev dev
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
mkdir sys/fs/cgroup/systemd
mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
ip link set lo up
# Not chroot: there no user namespace can be made, as the unit wants it.
pivot_root . mnt
cd /
umount --lazy mnt
exec env -i container=docker PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=booted.target
"#;

/// Looks whether a machine can be booted here; the reason if it cannot.
pub fn impossible() -> Option<&'static str> {
    let has = |path: &str| Path::new(path).exists();
    if !nix::unistd::geteuid().is_root() {
        return Some("not root");
    }
    if !has("/lib/systemd/systemd") {
        return Some("systemd is absent");
    }
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    (!is_there("unshare") || !is_there("nsenter")).then_some("util-linux is absent")
}

/// A machine that has booted. Dropping it ends all of its processes.
pub struct Machine {
    outer: Child,
    init: Pid,
    _place: tempfile::TempDir,
}

impl Machine {
    /// Boots one that has the files of a folder in `/srv`.
    pub fn boot(files: &Path) -> Self {
        let place = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("unshare");
        command
            .args(["--pid", "--fork", "--mount", "--uts", "--ipc", "--net"])
            .args(["--kill-child", "--propagation", "private"])
            .args(["bash", "-c", BOOT, "bash"])
            .arg(place.path())
            .arg(files)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut outer = command.spawn().expect("unshare is there");
        let begun = Instant::now();
        let children = format!("/proc/{0}/task/{0}/children", outer.id());
        let init = loop {
            let ended = outer.try_wait().expect("our child");
            let found = std::fs::read_to_string(&children).unwrap_or_default();
            if let Ok(pid) = found.trim().parse() {
                break Pid::from_raw(pid);
            }
            if ended.is_some() || begun.elapsed() > BOOTED {
                panic!("no machine: {}", said(&mut outer));
            }
        };
        let mut machine = Machine {
            outer,
            init,
            _place: place,
        };
        loop {
            let state = machine.run("systemctl is-system-running --wait");
            let state = String::from_utf8_lossy(&state.stdout).trim().to_owned();
            match &*state {
                "running" | "degraded" => return machine,
                _ if begun.elapsed() < BOOTED && machine.outer.try_wait().is_ok_and(|it| it.is_none()) => {}
                _ => panic!("not booted: {state:?} {}", said(&mut machine.outer)),
            }
        }
    }

    /// Runs a command line in it, as root.
    pub fn run(&self, line: &str) -> Output {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.init.to_string()])
            .args(["--mount", "--pid", "--uts", "--ipc", "--net", "--root", "--wd"])
            .args(["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"])
            .args(["sh", "-c", line]);
        command.output().expect("nsenter is there")
    }

    /// Runs a command line in it, which succeeds; all that it says.
    pub fn succeeds(&self, line: &str) -> String {
        let ended = self.run(line);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&ended.stdout) + &text(&ended.stderr);
        assert!(ended.status.success(), "{line}\n{said}");
        said
    }
}

/// All that a machine said before it ended.
fn said(outer: &mut Child) -> String {
    let _ = outer.kill();
    let mut text = String::new();
    let _ = outer
        .stderr
        .take()
        .map(|mut stderr| stderr.read_to_string(&mut text));
    text
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Its first process: the others end with it.
        let _ = kill(self.init, Signal::SIGKILL);
        let _ = self.outer.wait();
    }
}
