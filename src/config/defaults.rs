//! Every value that the configuration has when a file says nothing, in one place.
//!
//! `config/lvsd.toml` shows the same values; a test compares the two.

use std::time::Duration;

pub const CONFIG_FILE: &str = "/etc/lvsd/lvsd.toml";
pub const CONTROL_SOCKET: &str = "/run/lvsd/control.sock";
pub const STATE_FILE: &str = "/var/lib/lvsd/state.json";
pub const LOG: &str = "info";
pub const DRIFT_INTERVAL: Duration = Duration::from_secs(10);
pub const MAX_LATENESS: Duration = Duration::from_secs(5);
/// Percent.
pub const LOCAL_ERRORS: u8 = 50;
pub const CANARY_INTERVAL: Duration = Duration::from_secs(1);
pub const CANARY_TIMEOUT: Duration = Duration::from_secs(2);
pub const SCRIPT_TIMEOUT: Duration = Duration::from_secs(30);
pub const MAIL_TIMEOUT: Duration = Duration::from_secs(30);
pub const MAIL_INTERVAL: Duration = Duration::from_secs(60);
pub const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);

pub const SCHEDULER: &str = "wlc";
pub const WEIGHT: u32 = 1;
pub const QUORUM: u32 = 1;
pub const HYSTERESIS: u32 = 0;

pub const DELAY_LOOP: Duration = Duration::from_secs(6);
pub const TIMEOUT: Duration = Duration::from_secs(5);
pub const RETRY: u32 = 1;
pub const DELAY_BEFORE_RETRY: Duration = Duration::from_secs(1);
pub const RISE: u32 = 1;
/// `warmup` is this or one `delay_loop`, whichever is shorter.
pub const WARMUP: Duration = Duration::from_secs(1);

pub const HTTP_METHOD: &str = "GET";
pub const HTTP_STATUS: (u16, u16) = (200, 299);
pub const HTTP_MAX_BODY: u64 = 1 << 20;

pub const FILE_WEIGHT: i32 = 1;
