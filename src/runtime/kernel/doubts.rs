//! Failures that may only mean that somebody else has changed the table: they are left to a second
//! look before they count. Pure.
//!
//! An operation that fails because an entry is there or is not, or whose answer was lost, says first of
//! all that the table is not as we thought. The dump that follows shows what it is, and the plan made
//! from that dump as a rule goes through. What fails again after it is a failure.

use std::collections::BTreeSet;

use crate::engine::table::ServiceId;
use crate::ipvs::OperationError;

#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// Waits for a dump.
    waiting: Vec<OperationError>,
    /// Services that have had their second look and are not settled since.
    looked_at: BTreeSet<ServiceId>,
}

impl Doubts {
    /// Takes the failures that a dump may explain; returns those that count.
    pub(super) fn sort_out(&mut self, failed: Vec<OperationError>) -> Vec<OperationError> {
        // What follows on a failure that no dump explains fails because of it.
        let certain: BTreeSet<ServiceId> =
            failed.iter().filter(|error| !error.calls_for_dump()).map(|error| *error.service()).collect();
        let may_be_explained = |error: &OperationError| {
            !certain.contains(error.service()) && !self.looked_at.contains(error.service())
        };
        let (doubtful, certain): (Vec<_>, Vec<_>) = failed.into_iter().partition(may_be_explained);
        self.waiting.extend(doubtful);
        certain
    }

    /// A dump has come that does not show the services that are `unseen`. Returns what it explains.
    pub(super) fn explain(&mut self, unseen: impl Fn(&ServiceId) -> bool) -> Vec<OperationError> {
        let (waiting, explained) =
            std::mem::take(&mut self.waiting).into_iter().partition(|error| unseen(error.service()));
        self.waiting = waiting;
        self.looked_at.extend(explained.iter().map(|error: &OperationError| *error.service()));
        explained
    }

    /// No dump can be had: everything that waits for one counts.
    pub(super) fn give_up(&mut self) -> Vec<OperationError> {
        std::mem::take(&mut self.waiting)
    }

    /// Services that are settled may be doubted anew.
    pub(super) fn forget(&mut self, is_settled: impl Fn(&ServiceId) -> bool) {
        self.looked_at.retain(|id| !is_settled(id));
    }

    /// Services that a dump has to show before anything more is tried.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &ServiceId> {
        self.waiting.iter().map(OperationError::service)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;
    use crate::ipvs::{Operation, Reason};
    use crate::runtime::testing::tcp;

    fn refused(service: &str, errno: Errno) -> OperationError {
        let operation = Operation::RemoveService { service: tcp(service) };
        OperationError { operation, reason: Reason::Refused(errno) }
    }

    #[test]
    fn what_no_dump_can_explain_counts_at_once() {
        let mut doubts = Doubts::default();
        let invalid = refused("192.0.2.10:80", Errno::EINVAL);
        let absent = refused("192.0.2.11:80", Errno::ENOENT);
        assert_eq!(doubts.sort_out(vec![invalid.clone(), absent.clone()]), [invalid]);
        assert_eq!(doubts.waiting().collect::<Vec<_>>(), [&tcp("192.0.2.11:80")]);
        assert_eq!(doubts.give_up(), [absent]);
        assert!(doubts.is_empty());
    }

    #[test]
    fn what_follows_on_a_failure_that_counts_counts_as_well() {
        let mut doubts = Doubts::default();
        let of_ours = [refused("192.0.2.10:80", Errno::EINVAL), refused("192.0.2.10:80", Errno::ESRCH)];
        let other = refused("192.0.2.11:80", Errno::ESRCH);
        let failed = vec![of_ours[0].clone(), of_ours[1].clone(), other];
        assert_eq!(doubts.sort_out(failed), of_ours);
        assert_eq!(doubts.waiting().collect::<Vec<_>>(), [&tcp("192.0.2.11:80")]);
    }

    #[test]
    fn a_second_failure_after_the_look_counts_until_the_service_is_settled() {
        let mut doubts = Doubts::default();
        let absent = refused("192.0.2.10:80", Errno::ESRCH);
        // Two of one service in one go are one doubt.
        assert_eq!(doubts.sort_out(vec![absent.clone(), absent.clone()]), []);
        assert_eq!(doubts.explain(|_| true), [], "a dump from before the failure");
        assert!(!doubts.is_empty());
        assert_eq!(doubts.explain(|_| false), [absent.clone(), absent.clone()]);
        assert!(doubts.is_empty());
        doubts.forget(|_| false);
        assert_eq!(doubts.sort_out(vec![absent.clone()]), std::slice::from_ref(&absent));
        doubts.forget(|_| true);
        assert_eq!(doubts.sort_out(vec![absent]), []);
    }
}
