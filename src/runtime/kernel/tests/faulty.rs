//! A kernel in memory that fails on order, and remembers what it was asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use nix::errno::Errno;

use crate::engine::model::{Sync, SyncRole, Timeouts};
use crate::engine::table::ServiceId;
use crate::ipvs::{
    Dump, Info, Kernel, Loss, Memory, Observed, Operation, OperationError, Reason, RequestError,
};

/// Both sides of one table; clones share it.
#[derive(Clone, Debug, Default)]
pub(in crate::runtime) struct Faulty {
    pub(in crate::runtime) memory: Memory,
    shared: Arc<(Mutex<Faults>, Condvar)>,
}

/// What goes wrong, and what has been asked.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Faults {
    /// Refused without a change, so many times yet.
    pub(in crate::runtime) refused: BTreeMap<ServiceId, (Errno, usize)>,
    /// Operations that are carried out without an answer, so many batches yet.
    pub(in crate::runtime) unheard: usize,
    /// Nothing is carried out or answered.
    pub(in crate::runtime) mute: bool,
    pub(in crate::runtime) dumps_fail: bool,
    pub(in crate::runtime) settings_fail: bool,
    /// Of two sync daemons only the first one starts.
    pub(in crate::runtime) backup_fails: bool,
    /// Callers wait at these doors until they are opened.
    pub(in crate::runtime) shut: BTreeSet<Door>,
    /// Who waits there.
    waiting: BTreeSet<Door>,

    pub(in crate::runtime) batches: Vec<Vec<Operation>>,
    pub(in crate::runtime) dumps: usize,
    pub(in crate::runtime) settings: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::runtime) enum Door {
    /// Before a batch is looked at.
    Apply,
    /// After a dump has taken its picture, before it is handed over.
    Dump,
}

/// For a door to be reached or opened.
const DOORS: Duration = Duration::from_secs(30);

impl Faulty {
    pub(in crate::runtime) fn new(memory: Memory) -> Self {
        Self { memory, ..Self::default() }
    }

    pub(in crate::runtime) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.shared.0.lock().unwrap()
    }

    pub(in crate::runtime) fn shut(&self, door: Door) {
        self.faults().shut.insert(door);
    }

    pub(in crate::runtime) fn open(&self, door: Door) {
        self.faults().shut.remove(&door);
        self.shared.1.notify_all();
    }

    /// Waits until somebody waits at the door.
    pub(in crate::runtime) fn await_caller(&self, door: Door) {
        drop(self.wait(|faults| faults.waiting.contains(&door)));
    }

    /// All operations ever asked for, as ipvsadm would be told.
    pub(in crate::runtime) fn asked(&self) -> Vec<String> {
        self.faults().batches.iter().flatten().map(ToString::to_string).collect()
    }

    fn wait(&self, ready: impl Fn(&Faults) -> bool) -> MutexGuard<'_, Faults> {
        let (faults, timeout) =
            self.shared.1.wait_timeout_while(self.faults(), DOORS, |faults| !ready(faults)).unwrap();
        assert!(!timeout.timed_out(), "nobody came in time");
        faults
    }

    fn pass(&self, door: Door) {
        let mut faults = self.faults();
        if !faults.shut.contains(&door) {
            return;
        }
        faults.waiting.insert(door);
        drop(faults);
        self.shared.1.notify_all();
        self.wait(|faults| !faults.shut.contains(&door)).waiting.remove(&door);
    }

    fn setting(&self, request: &'static str) -> Result<(), RequestError> {
        let mut faults = self.faults();
        faults.settings += 1;
        let failure = RequestError { request, reason: Reason::Refused(Errno::EINVAL) };
        if faults.settings_fail { Err(failure) } else { Ok(()) }
    }
}

const fn lost() -> Reason {
    Reason::Unknown(Loss::Deadline(Duration::from_secs(5)))
}

impl Kernel for Faulty {
    fn apply(&mut self, operations: &[Operation]) -> Vec<Result<(), OperationError>> {
        self.pass(Door::Apply);
        let mut faults = self.faults();
        faults.batches.push(operations.to_vec());
        let error = |operation: &Operation, reason| OperationError { operation: operation.clone(), reason };
        if faults.mute {
            return operations.iter().map(|operation| Err(error(operation, lost()))).collect();
        }
        if faults.unheard > 0 {
            faults.unheard -= 1;
            self.memory.clone().apply(operations);
            return operations.iter().map(|operation| Err(error(operation, lost()))).collect();
        }
        let mut memory = self.memory.clone();
        let each = operations.iter().map(|operation| match faults.refused.get_mut(operation.service()) {
            Some((errno, left)) if *left > 0 => {
                *left -= 1;
                Err(error(operation, Reason::Refused(*errno)))
            }
            _ => memory.apply(std::slice::from_ref(operation)).remove(0),
        });
        each.collect()
    }

    fn timeouts(&mut self) -> Result<Timeouts, RequestError> {
        self.memory.timeouts()
    }

    fn set_timeouts(&mut self, timeouts: &Timeouts) -> Result<(), RequestError> {
        self.setting("set the ipvs timeouts")?;
        self.memory.set_timeouts(timeouts)
    }

    fn sync_daemons(&mut self) -> Result<Vec<Sync>, RequestError> {
        self.memory.sync_daemons()
    }

    fn start_sync(&mut self, sync: &Sync) -> Result<(), RequestError> {
        if self.faults().backup_fails && sync.role == SyncRole::Both {
            self.memory.start_sync(&Sync { role: SyncRole::Master, ..sync.clone() })?;
            let reason = Reason::Refused(Errno::ENODEV);
            return Err(RequestError { request: "start an ipvs sync daemon", reason });
        }
        self.memory.start_sync(sync)
    }

    fn stop_sync(&mut self, role: SyncRole) -> Result<(), RequestError> {
        self.memory.stop_sync(role)
    }

    fn info(&mut self) -> Result<Info, RequestError> {
        self.memory.info()
    }
}

impl Dump for Faulty {
    fn dump(&mut self) -> Result<Observed, RequestError> {
        let picture = self.memory.dump();
        self.pass(Door::Dump);
        let mut faults = self.faults();
        faults.dumps += 1;
        if faults.dumps_fail {
            return Err(RequestError { request: "dump the ipvs table", reason: lost() });
        }
        picture
    }
}
