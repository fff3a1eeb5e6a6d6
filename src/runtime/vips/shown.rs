//! The announcements in a status: what is there, and why not what is not.

use std::collections::{BTreeMap, BTreeSet};

use super::Vips;
use super::tell::without;
use crate::engine::announcements::{Holders, VirtualAddress};
use crate::engine::snapshot::{AnnouncementStatus, Snapshot};
use crate::engine::table::ServiceId;
use crate::telemetry::metrics::AddressPicture;

impl Vips {
    /// Says of the addresses of each virtual server whether they are announced; of none that the
    /// configuration does not announce.
    pub(in crate::runtime) fn show(&self, snapshot: &mut Snapshot) {
        if self.announcements.addresses.is_empty() {
            return;
        }
        let by_address: BTreeMap<_, _> =
            self.announcements.addresses.keys().map(|at| (at.address, at)).collect();
        for virtual_server in &mut snapshot.virtual_servers {
            let mut seen = BTreeSet::new();
            for service in &virtual_server.services {
                let ServiceId::Address { address, .. } = service else { continue };
                if let Some(at) = by_address.get(address).filter(|_| seen.insert(*address)) {
                    virtual_server.announcements.push(self.status(at));
                }
            }
        }
    }

    /// For metrics.
    pub(in crate::runtime) fn pictures(&self) -> Vec<AddressPicture> {
        let picture = |(at, holders): (&VirtualAddress, &Holders)| AddressPicture {
            at: at.clone(),
            wanted: holders.is_held(),
            announced: self.keeper.as_ref().map(|_| self.standing.there.contains(at)),
        };
        self.announcements.addresses.iter().map(picture).collect()
    }

    fn status(&self, at: &VirtualAddress) -> AnnouncementStatus {
        let announced = self.standing.there.contains(at);
        let holders = self.announcements.addresses.get(at);
        let wanted = holders.is_some_and(|holders| holders.is_held());
        let problem = match (wanted, announced) {
            (true, true) => None,
            (false, false) => holders.map(without),
            (false, true) => {
                Some(self.failures.get(at).cloned().unwrap_or_else(|| "on its way out".to_owned()))
            }
            (true, false) => Some(self.why_not(at)),
        };
        AnnouncementStatus {
            address: at.address,
            interface: at.interface.to_string(),
            announced,
            wanted,
            problem,
        }
    }

    fn why_not(&self, at: &VirtualAddress) -> String {
        if self.keeper.is_none() {
            return "a dry run announces nothing".to_owned();
        }
        if let Some(obstacle) = self.standing.obstacles.get(&at.interface) {
            return obstacle.describe(&at.interface);
        }
        if let Some(failure) = self.failures.get(at) {
            return failure.clone();
        }
        if self.order.is_waiting_for(at) {
            return "waits until the kernel has its services".to_owned();
        }
        "on its way".to_owned()
    }
}
