//! Bytes of the generic netlink family IPVS: requests out, answers in. Pure: no socket, no state.
//!
//! The numbers are enums of neli, the layout is `linux/ip_vs.h`. Requests and answers are written
//! and read here instead of by neli's builders, for which every attribute is three allocations
//! (twelve times the cost of a request) and which panic on some truncated error messages; the
//! tests hold our bytes against neli's reading of them and against those of ipvsadm.

mod reader;
pub(super) mod reply;
pub(super) mod request;
pub(super) mod wire;
mod writer;

#[cfg(test)]
mod tests;

pub(super) use reader::{Attributes, Body, Messages};
pub(super) use writer::Header;

/// An answer that is not what the kernel's headers say it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("a message that does not fit its datagram")]
    Message,
    #[error("an attribute that does not fit what holds it")]
    Attribute,
    #[error("{0} of a wrong size")]
    Size(&'static str),
    #[error("no {0}")]
    Missing(&'static str),
}
