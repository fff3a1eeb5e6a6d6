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
pub struct Identity([u64; 2]);

impl Identity {
    pub fn of(probe: &Probe) -> Self {
        let mut hasher = Fnv128(Fnv128::OFFSET);
        probe.hash(&mut hasher);
        Self::from_bits(hasher.0)
    }

    /// Reads what `Display` wrote.
    pub fn parse(text: &str) -> Option<Self> {
        u128::from_str_radix(text, 16).ok().map(Self::from_bits)
    }

    /// In two halves, the higher one first: a whole would make all that holds it a multiple of 16 bytes.
    #[expect(clippy::cast_possible_truncation, reason = "half by half")]
    const fn from_bits(bits: u128) -> Self {
        Self([(bits >> 64) as u64, bits as u64])
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [high, low] = self.0;
        write!(f, "{high:016x}{low:016x}")
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

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use super::*;
    use crate::engine::model::{CheckKind, Expect, Source, Target, Tcp};

    fn probe() -> Probe {
        let target = Target { address: IpAddr::V4(Ipv4Addr::new(198, 51, 100, 11)), port: 80, source: None };
        Probe { target, kind: Arc::new(CheckKind::Tcp(Tcp::default())) }
    }

    #[test]
    fn every_part_of_the_question_counts() {
        let tcp = |tcp| Arc::new(CheckKind::Tcp(tcp));
        let with = |change: &dyn Fn(&mut Probe)| {
            let mut probe = probe();
            change(&mut probe);
            probe
        };
        let from = |source: Source| with(&|p| p.target.source = Some(Arc::new(source.clone())));
        let variants = [
            probe(),
            with(&|p| p.target.address = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 12))),
            with(&|p| p.target.port = 81),
            from(Source { ip: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), ..Source::default() }),
            from(Source { port: Some(80), ..Source::default() }),
            from(Source { interface: Some("eth0".to_owned()), ..Source::default() }),
            from(Source { fwmark: Some(80), ..Source::default() }),
            with(&|p| p.kind = tcp(Tcp { send: Some(b"x".to_vec()), ..Tcp::default() })),
            with(&|p| p.kind = tcp(Tcp { expect: Some(Expect::Bytes(b"x".to_vec())), ..Tcp::default() })),
            with(&|p| {
                let (send, expect) = (Some(b"x".to_vec()), Some(Expect::Bytes(Vec::new())));
                p.kind = tcp(Tcp { send, expect, ..Tcp::default() });
            }),
        ];
        let identities: std::collections::BTreeSet<Identity> = variants.iter().map(Identity::of).collect();
        assert_eq!(identities.len(), variants.len());
    }

    #[test]
    fn equal_questions_have_equal_identities_wherever_they_were_written() {
        assert_eq!(Identity::of(&probe()), Identity::of(&probe().clone()));
    }

    #[test]
    fn the_state_file_gives_back_what_was_written() {
        let identity = Identity::of(&probe());
        assert_eq!(Identity::parse(&identity.to_string()), Some(identity));
        assert_eq!(identity.to_string().len(), 32);
        assert_eq!(Identity::parse("no identity"), None);
        assert_eq!(Identity::parse(""), None);
        assert_eq!(Identity::parse("1ffffffffffffffffffffffffffffffff"), None);
    }

    #[test]
    fn two_runs_of_a_build_agree() {
        // FNV-1a of "a" with 128 bits, from its authors' test vectors.
        let mut hasher = Fnv128(Fnv128::OFFSET);
        hasher.write(b"a");
        assert_eq!(Identity::from_bits(hasher.0).to_string(), "d228cb696f1a8caf78912b704e4a8964");
    }
}
