//! What a test needs to put lvsd, back ends and a client on a kernel with IPVS.
//!
//! Builds networks, starts programs and reads results with `ipvsadm` and from the wire; judges
//! nothing and knows nothing of how lvsd works inside.

pub(crate) mod backend;
pub(crate) mod bird;
pub(crate) mod capture;
pub(crate) mod client;
pub(crate) mod net;
pub(crate) mod wait;
