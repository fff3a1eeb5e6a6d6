//! What makes two checks the same across a reload, a restart and virtual servers.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::model::Probe;

/// A check's kind, target and demands in 128 bits. Weight, timing, thresholds, names and
/// notifications are no part of it: a check that is only asked more often keeps its verdict.
///
/// Stable between runs of one build. Another build may number things differently; then the
/// verdicts of the state file match nothing and the kernel's table is believed instead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(u128);

impl Identity {
    pub fn of(probe: &Probe) -> Self {
        let mut hasher = Fnv128(Fnv128::OFFSET);
        probe.hash(&mut hasher);
        Self(hasher.0)
    }

    /// Reads what `Display` wrote.
    pub fn parse(text: &str) -> Option<Self> {
        u128::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// FNV-1a with 128 bits: no seed, so that two runs agree (std's hasher promises no such thing).
struct Fnv128(u128);

impl Fnv128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
}

impl Hasher for Fnv128 {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(Self::PRIME);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the trait wants half of it")]
    fn finish(&self) -> u64 {
        self.0 as u64
    }
}
