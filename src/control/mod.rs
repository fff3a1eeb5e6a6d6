//! The control socket: its protocol, its server and client, and the command line in front of it.
//!
//! Turns words into requests and answers into words. What a request does is decided elsewhere.

pub mod cli;
pub mod duration;
mod exit;
pub mod protocol;

pub use exit::ExitCode;
