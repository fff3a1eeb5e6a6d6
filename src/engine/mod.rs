//! The pure core: decides, never acts.
//!
//! Owns every verdict, quorum and override. Reads no clock, opens no socket, knows no
//! runtime: time and results come in as arguments, commands and events go out as values.

pub mod model;
pub mod snapshot;
pub mod table;
pub mod time;
