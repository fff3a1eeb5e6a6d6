//! What the daemon tells about itself: log, service manager, HTTP.

pub mod http;
