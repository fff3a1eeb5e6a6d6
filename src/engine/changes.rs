//! The wanted table as it is handed out: only what is not as it was handed out before.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::table::{Service, ServiceId, Table};
use super::{Engine, desired};

impl Engine {
    /// The services whose wanted entry is not what it was at the last call; `None` for those that are
    /// not wanted, or no more. The first call returns them all.
    pub fn take_table_changes(&mut self) -> Vec<(ServiceId, Option<Arc<Service>>)> {
        let mut changes = Vec::new();
        for pool in std::mem::take(&mut self.dirty).into_iter().filter_map(|index| self.pools.get(index)) {
            for id in &pool.config.services {
                let wanted = desired::service(pool, id);
                if self.table.get(id).is_none_or(|old| old.as_deref() != wanted.as_ref()) {
                    let wanted = wanted.map(Arc::new);
                    self.table.insert(*id, wanted.clone());
                    changes.push((*id, wanted));
                }
            }
        }
        if std::mem::take(&mut self.all_dirty) {
            let wanted: BTreeSet<ServiceId> = self.services().collect();
            let gone: Vec<ServiceId> = self.table.keys().filter(|id| !wanted.contains(id)).copied().collect();
            for id in gone {
                self.table.remove(&id);
                changes.push((id, None));
            }
        }
        changes
    }

    /// The whole table as last handed out by [`Engine::take_table_changes`].
    pub fn table(&self) -> Table {
        let active = |(id, service): (&ServiceId, &Option<Arc<Service>>)| Some((*id, service.clone()?));
        Table { services: self.table.iter().filter_map(active).collect() }
    }
}
