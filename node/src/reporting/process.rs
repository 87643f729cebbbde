//! The resources that this process has used so far, where the system reports them, and its limits.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
#[cfg(target_os = "linux")]
use procfs::process::{ProcState, Process};

/// The largest resident memory so far, in bytes; `None` where the system does not report it.
#[cfg(target_os = "linux")]
pub fn peak_memory_bytes() -> Option<u64> {
    let kilobytes = Process::myself().ok()?.status().ok()?.vmhwm?;
    Some(kilobytes * 1024)
}

/// Resident memory now, in bytes; `None` where the system does not report it.
#[cfg(target_os = "linux")]
pub fn resident_bytes() -> Option<u64> {
    let kilobytes = Process::myself().ok()?.status().ok()?.vmrss?;
    Some(kilobytes * 1024)
}

/// Open file descriptors; `None` where the system does not report it.
#[cfg(target_os = "linux")]
pub fn open_files() -> Option<u64> {
    u64::try_from(Process::myself().ok()?.fd_count().ok()?).ok()
}

/// Processor seconds, user and system; `None` where the system does not report it.
#[cfg(target_os = "linux")]
pub fn cpu_s() -> Option<f64> {
    let stat = Process::myself().ok()?.stat().ok()?;
    Some((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
}

/// Whether another process is stopped, by SIGSTOP or a terminal; false where the system does not
/// report it.
#[cfg(target_os = "linux")]
pub fn is_stopped(pid: u32) -> bool {
    let state = |pid| Process::new(pid).ok()?.stat().ok()?.state().ok();
    i32::try_from(pid).ok().and_then(state) == Some(ProcState::Stopped)
}

/// Whether another process is stopped, by SIGSTOP or a terminal; false where the system does not
/// report it.
#[cfg(not(target_os = "linux"))]
pub fn is_stopped(_: u32) -> bool {
    false
}

/// The largest resident memory so far, in bytes; `None` where the system does not report it.
#[cfg(not(target_os = "linux"))]
pub fn peak_memory_bytes() -> Option<u64> {
    None
}

/// Resident memory now, in bytes; `None` where the system does not report it.
#[cfg(not(target_os = "linux"))]
pub fn resident_bytes() -> Option<u64> {
    None
}

/// Open file descriptors; `None` where the system does not report it.
#[cfg(not(target_os = "linux"))]
pub fn open_files() -> Option<u64> {
    None
}

/// Processor seconds, user and system; `None` where the system does not report it.
#[cfg(not(target_os = "linux"))]
pub fn cpu_s() -> Option<f64> {
    None
}

/// Has the system let this process open more files, up to `most`, as far as it does; returns how
/// many it may open now. What it started earlier is not concerned.
pub fn allow_open_files(most: u64) -> u64 {
    let Ok((now, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return most;
    };
    let wanted = most.min(hard);
    if now < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok() {
        return wanted;
    }
    now
}

/// Has the system write no core of this process, which would have the party's data and keys in it.
/// The limit is one byte, not none: at none Linux still hands a core to a program that collects
/// them; at one byte it does not (core(5)).
pub fn write_no_cores() {
    if let Err(error) = setrlimit(Resource::RLIMIT_CORE, 1, 1) {
        tracing::warn!(%error, "the system may write a core of this process, with its keys, if it crashes");
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn no_core_is_written_once_it_is_forbidden() {
        use nix::sys::resource::{Resource, getrlimit};
        super::write_no_cores();
        assert_eq!(getrlimit(Resource::RLIMIT_CORE), Ok((1, 1)));
    }

    #[test]
    fn linux_tells() {
        assert!(super::peak_memory_bytes().unwrap() > 1 << 20);
        assert!(super::cpu_s().unwrap() >= 0.0);
    }
}
