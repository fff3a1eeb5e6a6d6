//! A number, or a share of all there are.

use std::fmt;

/// How many of all there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Portion {
    /// Percent of what there is.
    Share(u8),
    Count(u32),
}

impl Portion {
    /// This many of `all`: a share is rounded up, a number stands as it is.
    pub fn of(self, all: usize) -> usize {
        match self {
            Self::Share(percent) => (all * usize::from(percent)).div_ceil(100),
            Self::Count(count) => usize::try_from(count).unwrap_or(usize::MAX),
        }
    }

    /// May `removed` of `all` go?
    pub fn allows(self, removed: usize, all: usize) -> bool {
        match self {
            Self::Share(percent) => removed as u128 * 100 <= all as u128 * u128::from(percent),
            Self::Count(count) => removed as u128 <= u128::from(count),
        }
    }
}

/// `25%`, `3`
impl fmt::Display for Portion {
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
        let quarter = Portion::Share(25);
        for (removed, all, allowed) in
            [(0, 0, true), (1, 4, true), (1, 3, false), (25_000, 100_000, true), (25_001, 100_000, false)]
        {
            assert_eq!(quarter.allows(removed, all), allowed, "{removed} of {all}");
        }
        assert!(Portion::Count(3).allows(3, 3) && !Portion::Count(3).allows(4, 1000));
        for (percent, all, wanted) in [(50, 4, 2), (50, 5, 3), (1, 1, 1), (0, 9, 0), (100, 3, 3), (50, 0, 0)]
        {
            assert_eq!(Portion::Share(percent).of(all), wanted, "{percent}% of {all}");
        }
        assert_eq!(Portion::Count(2).of(1), 2);
        assert!(Portion::Share(0).allows(0, 5) && !Portion::Share(0).allows(1, 5));
    }
}
