//! What readiness asks: netlink, the configuration, the first table, the checks. The supervisor
//! leaves its vitals here; the front thread reads them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::kernel::Answers;
use crate::health::{Aggregator, BoxError, Heartbeat, Slot};

/// The loop turns every second; longer silence than this is a standstill.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// A check that waits longer than this to be started is overdue.
const OVERDUE: Duration = Duration::from_secs(2);

/// Numbers that the supervisor keeps up to date and others read.
#[derive(Debug, Default)]
pub(super) struct Vitals {
    first_sync: AtomicBool,
    lateness_ms: AtomicU64,
}

impl Vitals {
    pub(super) fn note_first_sync(&self) {
        self.first_sync.store(true, Ordering::Relaxed);
    }

    pub(super) fn note_lateness(&self, lateness: Duration) {
        let millis = u64::try_from(lateness.as_millis()).unwrap_or(u64::MAX);
        self.lateness_ms.store(millis, Ordering::Relaxed);
    }
}

/// The named dependencies, in the order in which failures are told. All but the listener itself come
/// later than the listener: until they are installed they are not ready.
#[derive(Debug)]
pub(super) struct Dependencies {
    ipvs: Slot,
    config: Slot,
    first_sync: Slot,
    probes: Slot,
    pub(super) aggregator: Arc<Aggregator>,
    pub(super) heartbeat: Heartbeat,
    pub(super) vitals: Arc<Vitals>,
}

impl Dependencies {
    pub(super) fn new() -> Self {
        let (ipvs, config, first_sync, probes) = (Slot::new(), Slot::new(), Slot::new(), Slot::new());
        let checkers = vec![
            ipvs.checker("ipvs"),
            config.checker("config"),
            first_sync.checker("first-sync"),
            probes.checker("probes"),
        ];
        let heartbeat = Heartbeat::new(HEARTBEAT);
        let heart = heartbeat.clone();
        let aggregator = Aggregator::new(checkers).with_liveness(move || heart.is_alive());
        let vitals = Arc::default();
        Self { ipvs, config, first_sync, probes, aggregator: Arc::new(aggregator), heartbeat, vitals }
    }

    /// A valid configuration is in force. It stays so: a bad one never replaces it.
    pub(super) fn install_config(&self) {
        install(&self.config, || Ok(()));
    }

    pub(super) fn install_kernel(&self, answers: Answers) {
        install(&self.ipvs, move || match answers.age() {
            (Some(age), limit) if age <= limit => Ok(()),
            (Some(age), _) => Err(format!("netlink has not answered for {age:?}").into()),
            (None, _) => Err("netlink has never answered".into()),
        });
    }

    pub(super) fn install_vitals(&self) {
        let vitals = Arc::clone(&self.vitals);
        install(&self.first_sync, move || {
            let synced = vitals.first_sync.load(Ordering::Relaxed);
            if synced { Ok(()) } else { Err("the first table is not written yet".into()) }
        });
        let vitals = Arc::clone(&self.vitals);
        install(&self.probes, move || {
            let late = Duration::from_millis(vitals.lateness_ms.load(Ordering::Relaxed));
            if late <= OVERDUE { Ok(()) } else { Err(format!("a check is {late:?} late").into()) }
        });
    }
}

fn install(slot: &Slot, check: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static) {
    // Each slot is installed once, by the start.
    let _ = slot.install(move || std::future::ready(check()));
}

#[cfg(test)]
mod tests;
