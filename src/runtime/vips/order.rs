//! When an address may come: after the table that serves it. It goes at once, unless it comes elsewhere: then
//! when it may come there. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::engine::announcements::VirtualAddress;
use crate::runtime::kernel::Ticket;

#[derive(Debug, Default)]
pub(super) struct Order {
    admitted: BTreeSet<VirtualAddress>,
    /// With what the table's writer must have done before; unset while some of that waits for the record.
    waiting: BTreeMap<VirtualAddress, Option<Ticket>>,
}

/// How far the table has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// Covers all that was asked of the writer; `None` while some of it waits for the record.
    pub(super) asked: Option<Ticket>,
    pub(super) written: Ticket,
}

impl Order {
    /// `is_served`: is there a service of this address in the table as it should be, once the writer has
    /// tried? `may_come`: and is it on record?
    pub(super) fn update<'a>(
        &mut self,
        wanted: impl Iterator<Item = &'a VirtualAddress>,
        progress: Progress,
        may_come: impl Fn(&VirtualAddress) -> bool,
        is_served: impl Fn(&VirtualAddress) -> bool,
    ) {
        let (mut admitted, mut waiting) = (BTreeSet::new(), BTreeMap::new());
        for at in wanted {
            let ticket = match (self.admitted.contains(at), self.waiting.get(at)) {
                (true, _) => {
                    admitted.insert(at.clone());
                    continue;
                }
                (false, Some(Some(ticket))) => Some(*ticket),
                (false, Some(None) | None) => progress.asked,
            };
            if ticket.is_some_and(|ticket| progress.written >= ticket) && may_come(at) {
                admitted.insert(at.clone());
            } else {
                waiting.insert(at.clone(), ticket);
            }
        }
        // Where it was it stays until it may come where it is wanted now.
        let on_its_way = |ticket: &Option<Ticket>, at| {
            ticket.is_none_or(|ticket| progress.written < ticket) || is_served(at)
        };
        let coming: BTreeSet<IpAddr> =
            waiting.iter().filter(|(at, ticket)| on_its_way(ticket, at)).map(|(at, _)| at.address).collect();
        let old = std::mem::take(&mut self.admitted);
        let wanted_at: BTreeSet<IpAddr> = admitted.iter().map(|at| at.address).collect();
        let moves = |at: &VirtualAddress| coming.contains(&at.address) && !wanted_at.contains(&at.address);
        admitted.extend(old.into_iter().filter(moves));
        (self.admitted, self.waiting) = (admitted, waiting);
    }

    pub(super) fn admitted(&self) -> &BTreeSet<VirtualAddress> {
        &self.admitted
    }

    /// Neither to come yet nor to go: an earlier run may have left it there.
    pub(super) fn is_waiting_for(&self, at: &VirtualAddress) -> bool {
        self.waiting.contains_key(at)
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(address: &str) -> VirtualAddress {
        VirtualAddress { interface: "lvs0".into(), address: address.parse().unwrap() }
    }

    #[test]
    fn an_address_comes_after_its_table_and_goes_at_once() {
        let ticket = Ticket::for_tests;
        let (web, dns) = (on("192.0.2.10"), on("192.0.2.11"));
        let mut order = Order::default();
        let mut turn =
            |wanted: &[&VirtualAddress], asked: Option<u64>, written, refused: &[&VirtualAddress]| {
                let progress = Progress { asked: asked.map(ticket), written: ticket(written) };
                let served = |at: &VirtualAddress| !refused.contains(&at);
                order.update(wanted.iter().copied(), progress, served, served);
                let text = |set: Vec<&VirtualAddress>| {
                    set.iter().map(|at| at.address.to_string()).collect::<Vec<_>>().join(" ")
                };
                (text(order.admitted.iter().collect()), text(order.waiting.keys().collect()))
            };
        let shown = |(admitted, waiting): (&str, &str)| (admitted.to_owned(), waiting.to_owned());
        assert_eq!(turn(&[&web], None, 0, &[]), shown(("", "192.0.2.10")), "held for the record");
        assert_eq!(turn(&[&web], Some(2), 1, &[]), shown(("", "192.0.2.10")), "on its way");
        assert_eq!(turn(&[&web], Some(9), 2, &[&web]), shown(("", "192.0.2.10")), "refused");
        assert_eq!(turn(&[&web], Some(9), 2, &[]), shown(("192.0.2.10", "")), "what came later is no matter");
        assert_eq!(turn(&[&web, &dns], Some(10), 9, &[&web]), shown(("192.0.2.10", "192.0.2.11")));
        assert_eq!(turn(&[&dns], Some(10), 9, &[]), shown(("", "192.0.2.11")), "gone at once");
        assert_eq!(turn(&[&web, &dns], Some(11), 10, &[]), shown(("192.0.2.11", "192.0.2.10")), "anew");
        assert_eq!(turn(&[], Some(11), 11, &[]), shown(("", "")));
    }

    /// Another interface by a reload.
    #[test]
    fn an_address_that_moves_stays_until_it_may_come() {
        let old = on("192.0.2.10");
        let new = VirtualAddress { interface: "lvs1".into(), ..old.clone() };
        let mut order = Order::default();
        let mut turn = |at: &VirtualAddress, asked, written, recorded: bool, served: bool| {
            let progress =
                Progress { asked: Some(Ticket::for_tests(asked)), written: Ticket::for_tests(written) };
            order.update([at].into_iter(), progress, |_| recorded && served, |_| served);
            order.admitted.iter().map(|at| at.interface.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(turn(&old, 1, 1, true, true), ["lvs0"]);
        assert_eq!(turn(&new, 2, 1, true, true), ["lvs0"], "the table is not written");
        assert_eq!(turn(&new, 2, 2, false, true), ["lvs0"], "it is not on record");
        assert_eq!(turn(&new, 2, 2, true, true), ["lvs1"]);
        assert_eq!(turn(&old, 3, 2, true, true), ["lvs1"], "and back");
        assert_eq!(turn(&old, 3, 3, false, false), [""; 0], "nothing serves it");
    }
}
