//! What the daemon tells about itself: log, service manager, HTTP.

pub mod http;
pub mod log;
pub mod metrics;
pub mod page;
pub mod repeats;
pub mod systemd;
