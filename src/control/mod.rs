//! The control socket: its protocol, its server and client, and the command line in front of it.
//!
//! Turns words into requests and answers into words. What a request does is decided elsewhere.

pub mod cli;
pub mod client;
pub mod duration;
mod exit;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
pub mod happening;
pub mod manual;
mod peer;
pub mod protocol;
pub mod server;
pub mod socket;
pub mod status;
pub mod stream;
mod text;
mod wall;
pub mod whereabouts;
pub mod why;

pub(crate) use crate::shown::clean;
pub use exit::ExitCode;
pub use peer::Peer;
pub use protocol::Reply;

/// `1 real server`, `2 real servers`
pub fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
