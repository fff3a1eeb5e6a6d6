//! Telling others about a change of state.
//!
//! In order per object, bounded in number and time, and never in the way of the supervisor:
//! [`Outlets::tell`] does nothing but put an event into queues. What is worth an event is decided
//! elsewhere.

mod backoff;
mod courier;
mod couriers;
mod dispatcher;
mod event;
mod fifo;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod lines;
mod mail;
mod outlets;
mod script;
mod secret;
mod standing;
#[cfg(test)]
mod testing;
mod webhook;
mod wire;

pub use courier::Delivered;
pub use dispatcher::{Counters, Dispatcher, Finished, Limits, Notification};
pub use event::{Event, EventKind, Quorum};
pub use lines::State;
pub use outlets::{Audience, Outlets};
pub use standing::Standing;
