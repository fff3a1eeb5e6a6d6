//! When the director itself is taken for the sick one.

use std::net::SocketAddr;
use std::time::Duration;

/// `[daemon.self_test]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfTest {
    /// Of the loop that decides everything; unset: it is not looked at.
    pub max_lateness: Option<Duration>,
    /// 1 to 100 percent of the newest results; unset: they are not looked at.
    pub local_errors: Option<u8>,
    /// One of these at least must answer; with none nobody is asked.
    pub canary: Vec<SocketAddr>,
    /// From the start of one round to the start of the next.
    pub canary_interval: Duration,
    pub canary_timeout: Duration,
}

impl SelfTest {
    /// Nothing is looked at.
    pub const fn off() -> Self {
        let second = Duration::from_secs(1);
        Self {
            max_lateness: None,
            local_errors: None,
            canary: Vec::new(),
            canary_interval: second,
            canary_timeout: second,
        }
    }
}
