//! The daemon as its users run it, judged on the kernel's table and on what clients see.

mod announce;
mod crash;
mod doctor;
mod drain;
mod drift;
mod failover;
mod gate;
mod hostile;
mod metrics;
mod notify;
mod orders;
pub(crate) mod process;
mod reload;
mod self_test;
mod sick;
mod start;
mod stop;
mod two_directors;

use crate::lab::net::{FOREIGN, add_foreign};

/// One HTTP-checked service with two servers, quick to judge.
const WEB: &str = r#"
[defaults]
delay_loop = "300ms"
delay_before_retry = "100ms"
timeout = "2s"

[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
scheduler = "wrr"
check = { http = { path = "/" } }
[[virtual_server.real_server]]
address = "198.51.100.11:80"
weight = 3
[[virtual_server.real_server]]
address = "198.51.100.12:80"
"#;

const WEB_SERVICE: &str = "-A -t 192.0.2.10:80 -s wrr";
const WEB_FIRST: &str = "-a -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 3";
const WEB_SECOND: &str = "-a -t 192.0.2.10:80 -r 198.51.100.12:80 -m -w 1";
/// What [`WEB`] is in the table while both servers are well.
const WEB_TABLE: [&str; 3] = [WEB_SERVICE, WEB_FIRST, WEB_SECOND];
const WEB_ADDRESS: &str = "192.0.2.10:80";
