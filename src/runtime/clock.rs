//! The one place that reads the clock for the engine.

use nix::time::{ClockId, clock_gettime};

use crate::engine::Time;

/// The machine's time since boot. It goes on through a restart of the daemon and a suspend of the
/// machine, and no step of the wall clock moves it.
pub(super) fn now() -> Time {
    // CLOCK_BOOTTIME exists on every kernel that IPVS's netlink interface does.
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap_or_else(|_| nix::sys::time::TimeSpec::new(0, 0));
    let (seconds, nanos) = (now.tv_sec().unsigned_abs(), now.tv_nsec().unsigned_abs());
    Time::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// Tells one boot of the machine from another: times of different boots cannot be compared.
pub(super) fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_the_machines_and_never_goes_back() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let seconds: f64 = uptime.split_whitespace().next().unwrap().parse().unwrap();
        let mut before = now();
        let off = std::time::Duration::from_nanos(before.as_nanos()).as_secs_f64() - seconds;
        // The file has hundredths, and was read a moment ago.
        assert!((-0.02..60.0).contains(&off), "{off} s off");
        for _ in 0..1000 {
            let after = now();
            assert!(after >= before);
            before = after;
        }
    }

    #[test]
    fn a_boot_has_one_name() {
        let id = boot_id();
        assert_eq!(id.len(), 36, "{id:?}");
        assert!(id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-'));
        assert_eq!(boot_id(), id);
    }
}
