//! Other programs, run for whatever reason: who may decide what runs ([`trust`]), as whom
//! ([`helper`]), and that nothing of it stays behind ([`Group`]).
//!
//! Knows neither checks nor notifications, keeps no state, decides nothing about the result.

mod group;
pub mod helper;
mod running;
pub mod trust;

pub use group::Group;
pub use running::{Ended, Leftovers, Order, Refused, Running, SpawnError};
pub use trust::Trusted;
