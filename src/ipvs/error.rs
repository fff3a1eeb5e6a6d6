//! What can go wrong between us and the kernel's table, in words an operator can act on.
//!
//! The kernel answers with bare errno values, no text; the words here say what each means for
//! the operation at hand. Logs nothing, retries nothing.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use nix::errno::Errno;

use super::codec::Malformed;
use super::operation::Operation;
use crate::engine::model::Family;
use crate::engine::table::{DestinationId, ServiceId};

/// One operation that was not, or may not have been, carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationError {
    pub operation: Operation,
    pub reason: Reason,
}

impl OperationError {
    pub const fn service(&self) -> &ServiceId {
        self.operation.service()
    }

    pub const fn destination(&self) -> Option<&DestinationId> {
        self.operation.destination()
    }

    /// The kernel's answer; `None` if there was none.
    pub const fn errno(&self) -> Option<Errno> {
        match self.reason {
            Reason::Refused(errno) => Some(errno),
            Reason::Unknown(_) => None,
        }
    }

    /// Is the table other than we thought, or unknown now? Only a dump can tell what it is.
    pub const fn calls_for_dump(&self) -> bool {
        match (&self.reason, &self.operation) {
            (Reason::Unknown(_), _) => true,
            // The scheduler or the persistence engine is missing: an absent service is ESRCH.
            (
                Reason::Refused(Errno::ENOENT),
                Operation::AddService { .. } | Operation::EditService { .. },
            ) => false,
            (Reason::Refused(errno), _) => {
                matches!(errno, Errno::ENOENT | Errno::ESRCH | Errno::EEXIST)
            }
        }
    }

    /// Did it fail because somebody else has done it already?
    pub const fn is_done_already(&self) -> bool {
        match (&self.operation, &self.reason) {
            (Operation::RemoveService { .. }, Reason::Refused(Errno::ESRCH)) => true,
            (Operation::RemoveDestination { .. }, Reason::Refused(Errno::ENOENT)) => true,
            (_, Reason::Refused(_) | Reason::Unknown(_)) => false,
        }
    }
}

/// `add destination 198.51.100.11:80 to tcp 192.0.2.10:80: no such virtual service (ESRCH)`
impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, service) = (self.operation.name(), self.service());
        match &self.operation {
            Operation::AddService { .. }
            | Operation::EditService { .. }
            | Operation::RemoveService { .. } => {
                write!(f, "{name} {service}: ")?;
            }
            Operation::AddDestination { destination, .. } => {
                write!(f, "{name} {destination} to {service}: ")?;
            }
            Operation::EditDestination { destination, .. } => {
                write!(f, "{name} {destination} of {service}: ")?;
            }
            Operation::RemoveDestination { destination, .. } => {
                write!(f, "{name} {destination} from {service}: ")?;
            }
        }
        match &self.reason {
            Reason::Refused(errno) => write!(f, "{} ({errno:?})", meaning(&self.operation, *errno)),
            Reason::Unknown(loss) => loss.fmt(f),
        }
    }
}

impl std::error::Error for OperationError {}

/// A request other than a change of the table failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{request}: {reason}")]
pub struct RequestError {
    /// What was asked for: `dump the ipvs table`
    pub request: &'static str,
    pub reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The kernel answered with this error and changed nothing.
    #[error("{} ({_0:?})", generic(*_0))]
    Refused(Errno),
    /// No answer that can be relied on: the request may have been carried out or not.
    #[error(transparent)]
    Unknown(#[from] Loss),
}

/// How an answer got lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    #[error("no answer from the kernel within {0:?}, result unknown")]
    Deadline(Duration),
    #[error("answers lost for want of socket buffer (ENOBUFS), result unknown")]
    Overrun,
    #[error("netlink socket: {} ({_0:?}), result unknown", generic(*_0))]
    Socket(Errno),
    #[error("answer not understood: {0}, result unknown")]
    Malformed(#[from] Malformed),
    #[error("the table kept changing while it was read")]
    Interrupted,
    #[error("ip_vs was unloaded or reloaded meanwhile, result unknown")]
    ModuleGone,
}

/// Why there is no IPVS to talk to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("this kernel has no ip_vs: the module is neither built in nor loaded (modprobe ip_vs)")]
    ModuleMissing,
    #[error("not permitted to use ip_vs: CAP_NET_ADMIN is missing")]
    NotPermitted,
    #[error("open a generic netlink socket: {} ({_0:?})", generic(*_0))]
    Socket(Errno),
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// What `errno` means as an answer to `operation`.
fn meaning(operation: &Operation, errno: Errno) -> Cow<'static, str> {
    use Operation::{AddDestination, AddService, EditDestination, EditService, RemoveDestination};
    match (operation, errno) {
        (AddService { attributes, .. } | EditService { attributes, .. }, Errno::ENOENT) => {
            let scheduler = &attributes.scheduler;
            match &attributes.persistence_engine {
                None => format!("the kernel has no scheduler {scheduler}").into(),
                Some(engine) => {
                    format!("the kernel has no scheduler {scheduler} or no persistence engine {engine}").into()
                }
            }
        }
        (AddService { .. } | AddDestination { .. }, Errno::EEXIST) => "it exists already".into(),
        (AddService { .. }, Errno::ESRCH) => generic(errno),
        (_, Errno::ESRCH) => "no such virtual service".into(),
        (EditDestination { .. } | RemoveDestination { .. }, Errno::ENOENT) => "no such destination".into(),
        (AddDestination { .. } | EditDestination { .. }, Errno::ERANGE) => {
            "weight above 2147483647, or lower threshold above the upper one".into()
        }
        (AddService { attributes, .. } | EditService { attributes, .. }, Errno::EINVAL)
            if attributes.scheduler.as_str() == "mh" =>
        {
            "values that the kernel does not take; mh holds at most 4093 destinations".into()
        }
        (AddDestination { .. } | EditDestination { .. }, Errno::EINVAL) => {
            "values that the kernel does not take: not a unicast address, another address family than the \
             service's without a tunnel or beside a sync daemon, or more destinations than the scheduler holds"
                .into()
        }
        (_, Errno::EAFNOSUPPORT) if is_ipv6(operation) => "this kernel has no ip_vs for IPv6".into(),
        _ => generic(errno),
    }
}

fn is_ipv6(operation: &Operation) -> bool {
    operation.service().family() == Family::Ipv6
        || operation.destination().is_some_and(|d| Family::of(d.address) == Family::Ipv6)
}

/// The system's text, as the tail of a message.
fn generic(errno: Errno) -> Cow<'static, str> {
    match errno {
        Errno::EPERM => "not permitted, CAP_NET_ADMIN is missing".into(),
        other => other.desc().to_lowercase().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipvs::testing::{attributes, destination, nat, tcp};

    #[test]
    fn an_errno_is_worded_for_its_operation() {
        let service = tcp("192.0.2.10:80");
        let id = destination("198.51.100.11:80");
        let record = nat(1);
        let mut with_engine = attributes("wrr");
        with_engine.persistence_engine = Some("sip".to_owned());
        let add_service = |attributes| Operation::AddService { service, attributes };
        let add = Operation::AddDestination { service, destination: id, record };
        let edit = Operation::EditDestination { service, destination: id, record };
        let remove = Operation::RemoveDestination { service, destination: id };
        for (operation, errno, text) in [
            (
                add_service(attributes("wrrr")),
                Errno::ENOENT,
                "add service tcp 192.0.2.10:80: the kernel has no scheduler wrrr (ENOENT)",
            ),
            (
                add_service(with_engine),
                Errno::ENOENT,
                "add service tcp 192.0.2.10:80: the kernel has no scheduler wrr or no persistence engine sip (ENOENT)",
            ),
            (
                add_service(attributes("rr")),
                Errno::EEXIST,
                "add service tcp 192.0.2.10:80: it exists already (EEXIST)",
            ),
            (
                Operation::RemoveService { service },
                Errno::ESRCH,
                "remove service tcp 192.0.2.10:80: no such virtual service (ESRCH)",
            ),
            (
                add.clone(),
                Errno::ESRCH,
                "add destination 198.51.100.11:80 to tcp 192.0.2.10:80: no such virtual service (ESRCH)",
            ),
            (
                edit,
                Errno::ENOENT,
                "edit destination 198.51.100.11:80 of tcp 192.0.2.10:80: no such destination (ENOENT)",
            ),
            (
                remove,
                Errno::EPERM,
                "remove destination 198.51.100.11:80 from tcp 192.0.2.10:80: not permitted, CAP_NET_ADMIN is missing (EPERM)",
            ),
            (
                add,
                Errno::ENOMEM,
                "add destination 198.51.100.11:80 to tcp 192.0.2.10:80: out of memory (ENOMEM)",
            ),
        ] {
            let error = OperationError { operation, reason: Reason::Refused(errno) };
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn a_lost_answer_says_so_and_calls_for_a_dump() {
        let error = OperationError {
            operation: Operation::RemoveService { service: tcp("192.0.2.10:80") },
            reason: Loss::Overrun.into(),
        };
        assert!(error.calls_for_dump());
        assert_eq!(error.errno(), None);
        assert_eq!(
            error.to_string(),
            "remove service tcp 192.0.2.10:80: answers lost for want of socket buffer (ENOBUFS), result unknown"
        );
    }
}
