//! `virtual_server_group`: addresses, ranges, blocks and marks that one pool serves.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::model::Entry;
use super::reading::{Reading, address, unusable};
use super::tree::Statement;
use super::words::{self, Garbage, Read, shown};
use crate::engine::model::Family;

#[derive(Debug, Default)]
pub(super) struct Groups {
    known: BTreeMap<String, Vec<Entry>>,
    /// Those that were refused, so that whoever uses them is not told that they do not exist.
    pub(super) refused: BTreeMap<String, &'static str>,
}

impl Groups {
    pub(super) fn entries(&self, name: &str) -> Option<&[Entry]> {
        self.known.get(name).map(Vec::as_slice)
    }

    pub(super) fn read(&mut self, reading: &mut Reading<'_>, statement: &Statement) {
        let Some(name) = reading.word(statement) else { return };
        let entries: Vec<Entry> = statement.inner().iter().filter_map(|line| entry(reading, line)).collect();
        let families = |family| {
            entries.iter().any(|entry| match entry {
                Entry::Range { first, .. } => Family::of(*first) == family,
                Entry::Mark { family: of, .. } => *of == Some(family),
            })
        };
        let without = entries.iter().any(|entry| matches!(entry, Entry::Mark { family: None, .. }));
        let refusal = if entries.is_empty() {
            Some("the group has no entries")
        } else if families(Family::Ipv4) && families(Family::Ipv6) && without {
            Some("keepalived takes no group with both families and a mark that says none")
        } else {
            None
        };
        if let Some(why) = refusal {
            reading.notes.not_carried(statement.at, "virtual_server_group", why);
            self.refused.insert(name, why);
            return;
        }
        match self.known.entry(name) {
            Slot::Vacant(slot) => {
                slot.insert(entries);
            }
            Slot::Occupied(slot) => {
                let why = format!("there are two groups {}; the first one counts", shown(slot.key()));
                reading.notes.not_carried(statement.at, "virtual_server_group", why);
            }
        }
    }
}

fn entry(reading: &mut Reading<'_>, line: &Statement) -> Option<Entry> {
    let all = line.words();
    let mut words = all.iter().map(String::as_str);
    let first = words.next()?;
    let (second, third) = (words.next(), words.next());
    if first == "fwmark" {
        let mark = reading.number(line, 0, i64::from(u32::MAX), Garbage::Tolerated)?;
        let mark = u32::try_from(mark).ok()?;
        let family = match third {
            None => None,
            Some("inet") => Some(Family::Ipv4),
            Some("inet6") => Some(Family::Ipv6),
            Some(other) => {
                let why = format!("{} is no family; keepalived ignores the mark", shown(other));
                reading.notes.remark(line.at, "fwmark", why);
                return None;
            }
        };
        if mark == 0 {
            reading.notes.not_carried(line.at, "fwmark", "packets without a mark have mark 0");
            return None;
        }
        return Some(Entry::Mark { mark, family, at: line.at });
    }
    let port = reading.optional_port(line, second)?;
    let range = match range(first) {
        Read::Good(range) => Some(range),
        Read::Odd(range, why) => {
            reading.notes.remark(line.at, first, why);
            Some(range)
        }
        Read::Bad(why) => {
            reading.notes.not_carried(line.at, first, format!("{why}; keepalived skips it"));
            None
        }
    };
    let (first, last) = range?;
    if let Some(why) = unusable(first).or(unusable(last)) {
        reading.notes.not_carried(line.at, "address", format!("{first}: {why}"));
        return None;
    }
    Some(Entry::Range { first, last, port, at: line.at })
}

/// `IP`, `IP-N`, `IP-IP`, `IP/mask`.
pub(super) fn range(word: &str) -> Read<(IpAddr, IpAddr)> {
    let bad = |why: &str| Read::Bad(format!("{}: {why}", shown(word)));
    let Some(first) = address(word) else { return bad("no address") };
    if let Some((_, mask)) = word.split_once('/') {
        return match block(first, mask) {
            Some(range) => Read::Good(range),
            None => bad("the mask is wrong, or leaves bits of the address"),
        };
    }
    let Some((_, end)) = word.split_once('-') else { return Read::Good((first, first)) };
    let is_address = end.contains(if first.is_ipv4() { '.' } else { ':' });
    if is_address {
        return match end.parse::<IpAddr>() {
            Ok(last) if last.is_ipv4() == first.is_ipv4() && last >= first => Read::Good((first, last)),
            Ok(_) | Err(_) => bad("the end is wrong, or before the start"),
        };
    }
    let figures = end.find(|c: char| !c.is_digit(if first.is_ipv4() { 10 } else { 16 })).unwrap_or(end.len());
    let (figures, rest) = end.split_at(figures);
    let last = match first {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            figures.parse::<u8>().ok().map(|d| IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
        }
        IpAddr::V6(v6) => u16::from_str_radix(figures, 16)
            .ok()
            .map(|group| IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !0xffff | u128::from(group)))),
    };
    match last.filter(|last| *last > first) {
        Some(last) if rest.is_empty() => Read::Good((first, last)),
        Some(last) => Read::Odd((first, last), format!("keepalived does not look at {}", shown(rest))),
        None => bad("the end of the range is wrong, or not after its start"),
    }
}

fn block(first: IpAddr, mask: &str) -> Option<(IpAddr, IpAddr)> {
    let bits = if first.is_ipv4() { 32 } else { 128 };
    let words::Read::Good(mask) = words::number(mask, 1, bits, Garbage::Refused) else { return None };
    let hosts = u128::MAX.checked_shr(u32::try_from(128 - (bits - mask)).ok()?).unwrap_or(0);
    let start = match first {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let last = match first {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(start | hosts).ok()?)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(start | hosts)),
    };
    (start & hosts == 0).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let text = |word: &str| match range(word) {
            Read::Good((first, last)) | Read::Odd((first, last), _) => format!("{first} {last}"),
            Read::Bad(why) => why,
        };
        assert_eq!(text("192.0.2.1"), "192.0.2.1 192.0.2.1");
        assert_eq!(text("192.0.2.1-9"), "192.0.2.1 192.0.2.9");
        assert_eq!(text("192.0.2.1-9x"), "192.0.2.1 192.0.2.9");
        assert_eq!(text("192.0.2.200-192.0.3.4"), "192.0.2.200 192.0.3.4");
        assert_eq!(text("192.0.2.16/28"), "192.0.2.16 192.0.2.31");
        assert_eq!(text("192.0.2.1/32"), "192.0.2.1 192.0.2.1");
        assert_eq!(text("2001:db8::a-ff"), "2001:db8::a 2001:db8::ff");
        assert_eq!(text("2001:db8::/120"), "2001:db8:: 2001:db8::ff");
        assert_eq!(text("2001:db8::1/128"), "2001:db8::1 2001:db8::1");
        for bad in [
            "x",
            "192.0.2.9-1",
            "192.0.2.1-300",
            "192.0.2.1-",
            "192.0.2.1/28",
            "192.0.2.0/0",
            "192.0.2.0/33",
            "192.0.2.1-2001:db8::1",
            "2001:db8::1-fffff",
        ] {
            assert!(matches!(range(bad), Read::Bad(_)), "{bad}");
        }
    }
}
