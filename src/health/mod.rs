//! Is the process alive, and is it ready to do its job: two questions with two answers.
//!
//! Readiness is an aggregate of named checks, each with a deadline of its own, so that a
//! dependency that hangs makes us "not ready" and nothing more. Liveness asks the process alone:
//! if a dependency's blip could fail it, the supervisor above us would answer every blip with a
//! storm of restarts. What each check asks is the business of whoever wires them together; this
//! module opens no socket and knows no dependency by name.

mod aggregator;
mod checker;
mod handlers;
mod heartbeat;
mod slot;

pub use aggregator::{Aggregator, DEFAULT_TIMEOUT};
pub use checker::{BoxError, CheckFailure, CheckFuture, Checker};
pub use handlers::Handler;
pub use heartbeat::Heartbeat;
pub use slot::{AlreadyInstalled, DependencyNotWired, Slot};
