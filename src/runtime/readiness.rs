//! What readiness asks: netlink, the configuration, the first table, the checks, the self-test. The supervisor
//! leaves its vitals here; the front thread reads them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
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
    frozen: AtomicBool,
    /// The kernel has refused all that could serve.
    barred: AtomicBool,
}

impl Vitals {
    pub(super) fn note_first_sync(&self) {
        self.first_sync.store(true, Ordering::Relaxed);
    }

    pub(super) fn note_barred(&self, barred: bool) {
        self.barred.store(barred, Ordering::Relaxed);
    }

    pub(super) fn is_barred(&self) -> bool {
        self.barred.load(Ordering::Relaxed)
    }

    pub(super) fn note_frozen(&self, frozen: bool) {
        self.frozen.store(frozen, Ordering::Relaxed);
    }

    pub(super) fn lateness(&self) -> Duration {
        Duration::from_millis(self.lateness_ms.load(Ordering::Relaxed))
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
    self_test: Slot,
    /// For those who ask when it last answered.
    answers: OnceLock<Answers>,
    /// What each readiness check said last. A mutex and no message: any task may evaluate, and it is held
    /// for an insertion.
    results: Arc<Mutex<BTreeMap<String, bool>>>,
    pub(super) aggregator: Arc<Aggregator>,
    pub(super) heartbeat: Heartbeat,
    pub(super) vitals: Arc<Vitals>,
}

impl Dependencies {
    pub(super) fn new() -> Self {
        let [ipvs, config, first_sync, probes, self_test] = std::array::from_fn(|_| Slot::new());
        let checkers = vec![
            ipvs.checker("ipvs"),
            config.checker("config"),
            first_sync.checker("first-sync"),
            probes.checker("probes"),
            self_test.checker("self-test"),
        ];
        let heartbeat = Heartbeat::new(HEARTBEAT);
        let heart = heartbeat.clone();
        let results: Arc<Mutex<BTreeMap<String, bool>>> = Arc::default();
        let mirror = Arc::clone(&results);
        let aggregator = Aggregator::new(checkers)
            .with_liveness(move || heart.is_alive())
            .with_result_observer(move |name, result| {
                let mut mirror = mirror.lock().unwrap_or_else(PoisonError::into_inner);
                mirror.insert(name.to_owned(), result.is_ok());
            });
        let (aggregator, vitals, answers) = (Arc::new(aggregator), Arc::default(), OnceLock::new());
        Self { ipvs, config, first_sync, probes, self_test, answers, results, aggregator, heartbeat, vitals }
    }

    /// By name, as of the last evaluation.
    pub(super) fn results(&self) -> Vec<(String, bool)> {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.iter().map(|(name, up)| (name.clone(), *up)).collect()
    }

    pub(super) fn answers(&self) -> Option<Answers> {
        self.answers.get().cloned()
    }

    /// A valid configuration is in force. It stays so: a bad one never replaces it.
    pub(super) fn install_config(&self) {
        install(&self.config, || Ok(()));
    }

    pub(super) fn install_kernel(&self, answers: Answers) {
        // Installed once, by the start.
        let _ = self.answers.set(answers.clone());
        install(&self.ipvs, move || match answers.age() {
            (Some(age), limit) if age <= limit => Ok(()),
            (Some(age), _) => Err(format!("netlink has not answered for {age:?}").into()),
            (None, _) => Err("netlink has never answered".into()),
        });
    }

    pub(super) fn install_vitals(&self) {
        let vitals = Arc::clone(&self.vitals);
        install(&self.first_sync, move || {
            // Whoever follows readiness would send clients to a table that has nothing for them.
            match (vitals.first_sync.load(Ordering::Relaxed), vitals.is_barred()) {
                (false, _) => Err("the first table is not written yet".into()),
                (true, true) => Err("the kernel has refused every service that could serve".into()),
                (true, false) => Ok(()),
            }
        });
        let vitals = Arc::clone(&self.vitals);
        install(&self.probes, move || {
            let late = vitals.lateness();
            if late <= OVERDUE { Ok(()) } else { Err(format!("a check is {late:?} late").into()) }
        });
        let vitals = Arc::clone(&self.vitals);
        install(&self.self_test, move || {
            let frozen = vitals.frozen.load(Ordering::Relaxed);
            if frozen { Err("this host seems to be sick, verdicts are frozen".into()) } else { Ok(()) }
        });
    }
}

fn install(slot: &Slot, check: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static) {
    // Each slot is installed once, by the start.
    let _ = slot.install(move || std::future::ready(check()));
}

#[cfg(test)]
mod tests;
