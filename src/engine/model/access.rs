//! Who may talk to the daemon, and how much a reload may take away.

use std::fmt;

/// The control socket's group and permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlAccess {
    /// A name or a number; unset: the daemon's own.
    pub group: Option<String>,
    /// Permission bits, 0 to 0o777. To write is to talk.
    pub mode: u32,
}

impl Default for ControlAccess {
    fn default() -> Self {
        Self { group: None, mode: 0o660 }
    }
}

/// The most that a reload may take away without being forced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxRemoved {
    /// Percent of what there is.
    Share(u8),
    Count(u32),
}

impl MaxRemoved {
    /// May `removed` of `all` go?
    pub fn allows(self, removed: usize, all: usize) -> bool {
        match self {
            Self::Share(percent) => removed as u128 * 100 <= all as u128 * u128::from(percent),
            Self::Count(count) => removed as u128 <= u128::from(count),
        }
    }
}

/// `25%`, `3`
impl fmt::Display for MaxRemoved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(percent) => write!(f, "{percent}%"),
            Self::Count(count) => write!(f, "{count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_exact_and_a_count_is_a_count() {
        let quarter = MaxRemoved::Share(25);
        for (removed, all, allowed) in
            [(0, 0, true), (1, 4, true), (1, 3, false), (25_000, 100_000, true), (25_001, 100_000, false)]
        {
            assert_eq!(quarter.allows(removed, all), allowed, "{removed} of {all}");
        }
        assert!(MaxRemoved::Count(3).allows(3, 3) && !MaxRemoved::Count(3).allows(4, 1000));
        assert!(MaxRemoved::Share(0).allows(0, 5) && !MaxRemoved::Share(0).allows(1, 5));
    }
}
