//! Bytes of the generic netlink family IPVS: requests out, answers in. Pure.
//!
//! A message is a netlink header, a generic netlink header and attributes; the numbers are those
//! of `linux/ip_vs.h`.

/// An answer that is not what the kernel's headers say it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("a message header or length that does not fit its datagram")]
    Message,
    #[error("an attribute longer than what holds it")]
    Attribute,
    #[error("{0} of a wrong size")]
    Size(&'static str),
    #[error("no {0}")]
    Missing(&'static str),
}
