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
