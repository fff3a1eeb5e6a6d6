//! Acts: runs the checks, writes the kernel's table, listens to clients and signals.
//!
//! [`supervisor`](self) owns the engine and is the only one to call it. Everything that may wait has a
//! task or a thread of its own and talks to the supervisor by messages:
//!
//! ```text
//!  signals ─────────────┐                         ┌──► probes: a task for each check in flight
//!  front thread ────────┤                         ├──► kernel: writer thread, reader thread
//!   (HTTP, control)     ├──► supervisor (engine) ─┼──► state-file thread
//!  loading (blocking) ──┤                         ├──► notifications: a task for each object
//!  outcomes, reports ───┘                         └──► log thread
//! ```

mod announce;
mod canaries;
mod checking;
mod clock;
mod cost;
mod counters;
mod drift;
mod failures;
mod front;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod history;
mod in_force;
mod inquiries;
mod kernel;
mod lacks;
mod loading;
mod lock;
mod opening;
mod pems;
mod pictures;
mod planning;
mod presence;
mod probes;
mod readiness;
mod readings;
mod recent;
mod recorder;
mod reloading;
mod remembered;
mod requests;
mod scraping;
mod signals;
mod start;
mod state_file;
mod stop;
mod supervisor;
mod target;
#[cfg(test)]
mod testing;
mod trial;
mod vips;
mod watcher;

pub use start::run;
pub use target::Target;
