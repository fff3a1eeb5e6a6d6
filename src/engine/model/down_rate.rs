//! How fast verdicts may take servers out of the table.

use std::num::NonZeroU32;
use std::time::Duration;

/// At most so many real servers in any time of this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownRate {
    pub servers: NonZeroU32,
    pub per: Duration,
}

impl DownRate {
    pub fn count(&self) -> usize {
        usize::try_from(self.servers.get()).unwrap_or(usize::MAX)
    }
}
