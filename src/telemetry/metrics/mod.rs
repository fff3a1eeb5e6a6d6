//! `/metrics`: what the daemon knows of itself as numbers, for Prometheus.
//!
//! Counts nothing and asks nobody: the runtime hands over a [`Picture`] of one moment, made with as
//! little of the supervisor's time as possible. [`Exporter`] turns it into text on a thread that may
//! take its time, once a second at most, however many clients ask.

mod catalogue;
mod collect;
mod encode;
mod exporter;
mod histogram;
mod kernel;
mod picture;
mod process;

pub use catalogue::{ALL, Kind, Metric, markdown};
pub use exporter::{Exporter, Source};
pub use histogram::Histogram;
pub use picture::{
    AddressPicture, Around, CheckTotals, DaemonPicture, KernelPicture, LastReload, Notified, Picture,
    PoolTotals, Reloads, Totals, Writes,
};

use std::time::SystemTime;

fn seconds_since_1970(time: SystemTime) -> Option<f64> {
    time.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs_f64())
}

#[cfg(test)]
mod tests;
