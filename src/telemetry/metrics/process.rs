//! The daemon's own use of the machine, from the kernel's files about it.

use std::fs;
use std::time::Duration;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};

/// What could be read; a machine without some of it shows less.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Process {
    pub(super) cpu: Option<f64>,
    /// Bytes.
    pub(super) resident: Option<u64>,
    pub(super) virtual_memory: Option<u64>,
    pub(super) open_fds: Option<u64>,
    pub(super) max_fds: Option<u64>,
    pub(super) threads: Option<u64>,
}

impl Process {
    /// Reads small files of memory: some tens of microseconds, more with many descriptors.
    pub(super) fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let kilobytes = |key| field(&status, key).and_then(|kb| kb.checked_mul(1024));
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
        let seconds = |time: nix::sys::time::TimeVal| {
            let whole = Duration::from_secs(u64::try_from(time.tv_sec()).unwrap_or(0));
            (whole + Duration::from_micros(u64::try_from(time.tv_usec()).unwrap_or(0))).as_secs_f64()
        };
        Self {
            cpu: usage.map(|usage| seconds(usage.user_time()) + seconds(usage.system_time())),
            resident: kilobytes("VmRSS:"),
            virtual_memory: kilobytes("VmSize:"),
            // One of them is the folder that is being read.
            open_fds: fs::read_dir("/proc/self/fd").ok().map(|fds| (fds.count() as u64).saturating_sub(1)),
            max_fds: getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft),
            threads: field(&status, "Threads:"),
        }
    }
}

fn field(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_threads_and_descriptors() {
        let process = Process::read();
        assert!(process.resident > Some(1 << 20) && process.virtual_memory >= process.resident);
        assert!(process.threads >= Some(1) && process.open_fds >= Some(3));
        assert!(process.max_fds >= process.open_fds);
        assert!(process.cpu > Some(0.0));
    }

    #[test]
    fn a_field_is_its_first_number() {
        let status = "Name:\tlvsd\nVmRSS:\t   12 kB\nThreads:\t5\n";
        assert_eq!(
            (field(status, "VmRSS:"), field(status, "Threads:"), field(status, "VmSize:")),
            (Some(12), Some(5), None)
        );
    }
}
