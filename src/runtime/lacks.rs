//! What the daemon has to do without for the time being, since this host does not give it: a status shows it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

/// What is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lack {
    /// The address of `http` is taken, or not there.
    Http,
    /// `control_group` is no group, or may not be given.
    ControlGroup,
}

/// Clones are the same list.
#[derive(Clone, Debug, Default)]
pub(super) struct Lacks(Arc<watch::Sender<BTreeMap<Lack, String>>>);

impl Lacks {
    pub(super) fn begin(&self, lack: Lack, problem: String) {
        self.0.send_modify(|lacks| drop(lacks.insert(lack, problem)));
    }

    pub(super) fn end(&self, lack: Lack) {
        self.0.send_modify(|lacks| drop(lacks.remove(&lack)));
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.0.borrow().values().cloned().collect()
    }
}
