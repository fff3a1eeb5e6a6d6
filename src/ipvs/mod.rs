//! The kernel's IPVS table: read, compared, changed.

mod codec;
mod error;
mod handle;
mod memory;
mod module;
mod netlink;
mod operation;
mod plan;
#[cfg(test)]
mod testing;
mod transport;

pub use codec::Malformed;
pub use error::{Loss, OpenError, OperationError, Reason, RequestError};
pub use handle::{Dump, Info, Kernel, Observed, sync_is_running};
pub use memory::Memory;
pub use module::{LoadError, load_module};
pub use netlink::{Dumper, Netlink};
pub use operation::Operation;
pub use plan::{plan, plan_services};
pub use transport::Options;
