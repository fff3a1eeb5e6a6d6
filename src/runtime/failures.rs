//! What goes wrong with the kernel's table, for the log and for clients, in few lines: a condition is
//! told when it begins, then hourly with a count, and anew when it comes back after its end.

use std::collections::BTreeSet;

use tracing::{error, info, warn};

use crate::engine::Time;
use crate::engine::table::ServiceId;
use crate::ipvs::{OperationError, Reason, RequestError};
use crate::telemetry::repeats::{HOURLY, Repeat, Repeats};

/// Conditions of each kind whose repeats are counted.
const REPEATS: usize = 1000;
/// Lines about one round or one look. A flush of a large table is thousands of repairs.
const LINES: usize = 20;

/// What has been told, and is not over.
pub(super) struct Told {
    /// Until everything is written.
    operations: Repeats<String>,
    /// Until a dump is answered: dumps, time-outs and sync daemons.
    requests: Repeats<String>,
    /// What a hand at ipvsadm did. Apart: however much of it there is, failures are told.
    drift: Repeats<String>,
    /// The same for those who follow events, and for what is remembered of each server: somebody who does it again at
    /// each look must not drive out all else.
    drift_events: Repeats<String>,
}

impl Told {
    pub(super) fn new() -> Self {
        let repeats = || Repeats::new(HOURLY, REPEATS);
        Self { operations: repeats(), requests: repeats(), drift: repeats(), drift_events: repeats() }
    }

    /// `failures` are the [`lines`] of a round.
    pub(super) fn tell_operations(&mut self, failures: &[String], now: Time) {
        let (each, more) = failures.split_at(failures.len().min(LINES));
        each.iter().for_each(|failure| tell(&mut self.operations, failure.clone(), now));
        if !more.is_empty() {
            let text = "more changes of the kernel's table fail than are told one by one";
            tell(&mut self.operations, text.to_owned(), now);
        }
    }

    /// `found`, and to which services; `does` says what becomes of it.
    pub(super) fn tell_drift(&mut self, does: &str, found: &[(&ServiceId, String)], now: Time) {
        let (each, more) = found.split_at(found.len().min(LINES));
        for (service, what) in each {
            if let Repeat::Tell { .. } = self.drift.observe(what.clone(), now) {
                let service = service.to_string();
                warn!(service, "the kernel's table is not as it was left, {does}: {what}");
            }
        }
        if !more.is_empty() {
            warn!("the kernel's table is not as it was left, {does}: {} changes more", more.len());
        }
    }

    /// Is this to be told now? How often it was not, since it was told last.
    pub(super) fn tells_drift_event(&mut self, text: &str, now: Time) -> Option<u64> {
        match self.drift_events.observe(text.to_owned(), now) {
            Repeat::Tell { unsaid } => Some(unsaid),
            Repeat::Count => None,
        }
    }

    /// All is written that was wanted.
    pub(super) fn note_settled(&mut self) {
        self.operations.retain(|_| false);
    }

    pub(super) fn tell_request(&mut self, failure: &RequestError, now: Time) {
        tell(&mut self.requests, failure.to_string(), now);
    }

    pub(super) fn note_recovered(&mut self) {
        self.requests.retain(|_| false);
        info!("netlink answers again");
    }
}

fn tell(told: &mut Repeats<String>, text: String, now: Time) {
    match told.observe(text.clone(), now) {
        Repeat::Tell { unsaid: 0 } => error!("{text}"),
        Repeat::Tell { unsaid } => error!("{text} ({unsaid} times more since it was last said)"),
        Repeat::Count => {}
    }
}

/// Of each service the first refusal: what is refused after it, such as the servers of a service that
/// could not be made, says nothing more. Lost answers have one cause, and one line.
pub(super) fn lines(failed: &[OperationError]) -> Vec<String> {
    let is_lost = |error: &&OperationError| matches!(error.reason, Reason::Unknown(_));
    let (lost, refused): (Vec<_>, Vec<_>) = failed.iter().partition(is_lost);
    let mut seen = BTreeSet::new();
    let mut lines: Vec<String> =
        refused.into_iter().filter(|error| seen.insert(error.service())).map(ToString::to_string).collect();
    if let [first, more @ ..] = lost.as_slice() {
        let rest = if more.is_empty() { String::new() } else { format!(", and {} more", more.len()) };
        lines.push(format!("{first}{rest}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nix::errno::Errno;

    use super::*;
    use crate::ipvs::{Loss, Operation};
    use crate::runtime::testing::{destination, logged, nat, service, tcp};

    fn add(id: &str, at: &str, reason: Reason) -> OperationError {
        let operation =
            Operation::AddDestination { service: tcp(id), destination: destination(at), record: nat(1) };
        OperationError { operation, reason }
    }

    #[test]
    fn a_service_that_cannot_be_made_is_one_line() {
        let (web, other) = ("192.0.2.10:80", "192.0.2.11:80");
        let attributes = service("wrrr", &[]).attributes.clone();
        let operation = Operation::AddService { service: tcp(web), attributes };
        let refused = OperationError { operation, reason: Reason::Refused(Errno::ENOENT) };
        let failed = [
            refused,
            add(web, "198.51.100.11:80", Reason::Refused(Errno::ESRCH)),
            add(other, "198.51.100.11:80", Reason::Refused(Errno::EEXIST)),
            add(web, "198.51.100.12:80", Reason::Refused(Errno::ESRCH)),
        ];
        let wanted = [
            "add service tcp 192.0.2.10:80: the kernel has no scheduler wrrr (ENOENT)",
            "add destination 198.51.100.11:80 to tcp 192.0.2.11:80: it exists already (EEXIST)",
        ];
        assert_eq!(lines(&failed), wanted);
        assert_eq!(lines(&[]), Vec::<String>::new());
    }

    #[test]
    fn a_kernel_that_does_not_answer_is_one_line() {
        let lost = || Reason::Unknown(Loss::Deadline(Duration::from_secs(5)));
        let failed: Vec<_> =
            (10..90).map(|n| add(&format!("192.0.2.{n}:80"), "198.51.100.11:80", lost())).collect();
        let first = "add destination 198.51.100.11:80 to tcp 192.0.2.10:80: \
                     no answer from the kernel within 5s, result unknown";
        assert_eq!(lines(&failed), [format!("{first}, and 79 more")]);
        assert_eq!(lines(&failed[..1]), [first]);
    }

    #[test]
    fn what_comes_back_after_its_end_is_told_again() {
        let now = Time::from_nanos(1);
        let failures = ["refused".to_owned()];
        let failure = RequestError { request: "dump", reason: Reason::Refused(Errno::EIO) };
        let mut told = Told::new();
        let mut round = || {
            logged(|| {
                told.tell_operations(&failures, now);
                told.tell_request(&failure, now);
            })
            .len()
        };
        assert_eq!((round(), round()), (2, 0));
        assert_eq!(logged(|| told.note_settled()).len(), 0);
        assert_eq!(logged(|| told.tell_operations(&failures, now)).len(), 1);
        assert_eq!(logged(|| told.tell_request(&failure, now)).len(), 0, "netlink is as it was");
        assert_eq!(logged(|| told.note_recovered()).len(), 1);
        assert_eq!(logged(|| told.tell_request(&failure, now)).len(), 1);
    }
}
