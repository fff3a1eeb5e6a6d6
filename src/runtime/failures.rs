//! What a round's failures come to, for the log and for clients, in few lines. Pure.

use std::collections::BTreeSet;

use crate::ipvs::{OperationError, Reason};

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
    use crate::runtime::testing::{destination, nat, service, tcp};

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
}
