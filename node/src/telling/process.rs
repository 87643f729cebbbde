//! What this process has used so far, where the system tells, and how much it may use.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The largest resident memory so far, in bytes; None where there is no /proc.
pub fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Resident memory now, in bytes; None where there is no /proc.
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Open file descriptors; None where there is no /proc.
pub fn open_files() -> Option<u64> {
    // One of them is that of the listing itself.
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as u64)
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

/// Processor seconds, user and system; None where there is no /proc.
pub fn cpu_s() -> Option<f64> {
    /// Clock ticks a second: a constant of Linux's interface (USER_HZ) on every architecture that
    /// Rust's standard library runs on.
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The command's name, in parentheses, may hold spaces; user and system time are fields 14
    // and 15.
    let (_, rest) = stat.rsplit_once(')')?;
    let ticks = |index: usize| rest.split_whitespace().nth(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn linux_tells() {
        assert!(super::peak_memory_bytes().unwrap() > 1 << 20);
        assert!(super::cpu_s().unwrap() >= 0.0);
    }
}
