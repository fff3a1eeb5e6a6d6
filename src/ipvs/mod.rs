//! The kernel's IPVS table: read, compared, changed.
//!
//! ```text
//!                Dump::dump ──► Observed { table, counters }
//!                                    │
//!  desired table ──► plan ◄──────────┘
//!                      │
//!                      └──► [Operation] ──► Kernel::apply ──► one result for each
//! ```
//!
//! - [`Operation`] is a change as a value, printed in ipvsadm's terms.
//! - [`plan()`] compares two tables and orders the changes; pure.
//! - [`Kernel`] changes things, [`Dump`] looks. [`Netlink`] and [`Dumper`] are the kernel's, each
//!   with a socket of its own, so that a dump never delays a write; [`Memory`] is both, for dry
//!   runs and tests, and refuses what the kernel refuses.
//! - `codec` turns both ways between values and bytes; pure. `transport` sends them in batches.
//!
//! Everything here blocks, with a deadline: it is for threads, not for tokio's tasks, and for
//! threads of the network name space in which the handles were opened.
//!
//! A result is success, [`Reason::Refused`] with the kernel's errno, or [`Reason::Unknown`] when
//! an answer was lost: then, and wherever [`OperationError::calls_for_dump`] says so, a fresh dump
//! tells what the table is. Nothing is retried here but a dump, nothing is logged, and no service
//! is written that was not named: whose it is, the caller knows.
//!
//! Facts about the kernel that shape this module, each with a test in `tests/kernel/ipvs`:
//!
//! - Errors are bare errno values. ENOENT is an unknown scheduler, an absent destination, or a
//!   family that is gone; the words depend on the operation.
//! - Errors are answered unasked, except EINTR, which is not answered at all.
//! - A dump of the destinations of an absent service is an empty success.
//! - Without an address up in the name space every destination is refused with EINVAL.
//! - Asking for the family loads ip_vs, where the kernel may load modules by itself.
//! - Traffic counters are brought up to date every second or two, connection counts at once.

pub mod bytes;
mod codec;
mod error;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
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
