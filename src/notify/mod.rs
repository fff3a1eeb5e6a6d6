//! Telling others about a change of state.
//!
//! In order per object, bounded in number and time, and never in the way of the supervisor:
//! [`Outlets::tell`] does nothing but put an event into queues. What is worth an event is decided
//! elsewhere.

mod dispatcher;
mod event;
mod fifo;
mod lines;
mod outlets;
mod script;
mod standing;
#[cfg(test)]
mod testing;

pub use dispatcher::{Counters, Dispatcher, Finished, Limits, Notification};
pub use event::{Event, EventKind, Quorum};
pub use lines::State;
pub use outlets::Outlets;
pub use standing::Standing;
