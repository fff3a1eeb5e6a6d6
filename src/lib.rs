//! lvsd: health checks for the real servers behind Linux Virtual Server, and the kernel's
//! IPVS table kept right. ARCHITECTURE.md has the map.

pub mod addresses;
pub mod anew;
pub mod checks;
pub mod config;
pub mod control;
pub mod doctor;
pub mod engine;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod health;
pub mod ipvs;
pub mod net;
pub mod notify;
pub mod process;
pub mod runtime;
mod shown;
pub mod telemetry;

/// Of this version, for the manual pages.
pub const RELEASED: &str = "2026-11-30";
