//! Telling others about a change of state: scripts.
//!
//! In order per object, bounded in number and time, and never in the way of the supervisor:
//! [`Dispatcher::dispatch`] does nothing but put a notification into a queue. What is worth a
//! notification is decided elsewhere. A FIFO, mail and webhooks are siblings of `script` behind
//! the same dispatcher once they come.

mod dispatcher;
mod event;
mod script;

pub use dispatcher::{Counters, Dispatcher, Finished, Limits};
pub use event::{Event, EventKind, Notification};
