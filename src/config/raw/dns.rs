//! `dns = { … }`: names, record types and response codes as people write them.

use std::net::IpAddr;

use toml::de::DeValue;

use super::keys::{Scope, unknown_key};
use super::{Field, Value};
use crate::config::context::Context;
use crate::config::text::{Wrong, closest, quote};
use crate::config::value;
use crate::engine::model::{CheckKind, Dns, DnsTransport};

/// RFC 1035 section 2.3.4: bytes in a label, and in a name with the lengths of its labels.
const LABEL: usize = 63;
const NAME: usize = 255;

/// What has a name; everything else is written as a number. Questions that are no lookup
/// (AXFR, OPT and the like) are left out on purpose.
const TYPES: [(&str, u16); 26] = [
    ("A", 1),
    ("NS", 2),
    ("CNAME", 5),
    ("SOA", 6),
    ("PTR", 12),
    ("HINFO", 13),
    ("MX", 15),
    ("TXT", 16),
    ("AAAA", 28),
    ("LOC", 29),
    ("SRV", 33),
    ("NAPTR", 35),
    ("CERT", 37),
    ("DNAME", 39),
    ("DS", 43),
    ("SSHFP", 44),
    ("RRSIG", 46),
    ("NSEC", 47),
    ("DNSKEY", 48),
    ("NSEC3", 50),
    ("NSEC3PARAM", 51),
    ("TLSA", 52),
    ("SVCB", 64),
    ("HTTPS", 65),
    ("ANY", 255),
    ("CAA", 257),
];

const RCODES: [&str; 11] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET",
    "NOTAUTH", "NOTZONE",
];

pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<CheckKind> {
    let section = value::table(cx, value, "write dns = {}")?;
    let (mut asked, mut record, mut rcodes) = (Field::Unset, Field::Unset, Field::Unset);
    let (mut expect, mut transport) = (Field::Unset, Field::Unset);
    for (key, value) in section.entries() {
        match key.name {
            "name" => asked = value.field(cx, |cx, v| value::parsed(cx, v, name)),
            "type" => record = value.field(cx, record_type),
            "rcode" => rcodes = value.field(cx, rcode_list),
            "expect" => expect = value.field(cx, answers),
            "transport" => {
                let words = [("udp", DnsTransport::Udp), ("tcp", DnsTransport::Tcp)];
                transport = value.field(cx, |cx, v| value::word(cx, v, &words));
            }
            _ => unknown_key(cx, Scope::Dns, key),
        }
    }
    Some(CheckKind::Dns(Dns {
        name: asked.sound()?.unwrap_or_else(|| ".".to_owned()),
        record_type: record.sound()?.unwrap_or(6),
        rcodes: rcodes.sound()?.unwrap_or_else(|| vec![0]),
        expect: expect.sound()?.unwrap_or_default(),
        transport: transport.sound()?.unwrap_or(DnsTransport::Udp),
    }))
}

/// Lower case, with its final dot.
fn name(text: &str) -> Result<String, Wrong> {
    if text == "." {
        return Ok(text.to_owned());
    }
    let labels = || text.strip_suffix('.').unwrap_or(text).split('.');
    if text.is_empty() || labels().any(str::is_empty) {
        return Err(Wrong::new(format!("{} has an empty label", quote(text)))
            .remedy("write a name as in \"www.example.org\", or \".\" for the root"));
    }
    if !text.bytes().all(|b| b.is_ascii_graphic() && b != b'\\') {
        return Err(Wrong::new(format!("{} has characters that no name in DNS has", quote(text)))
            .remedy("write letters, digits, hyphens and underscores; other scripts as xn--…"));
    }
    if let Some(label) = labels().find(|label| label.len() > LABEL) {
        return Err(Wrong::new(format!("{} has {} characters", quote(label), label.len()))
            .remedy(format!("write at most {LABEL} between two dots")));
    }
    let length: usize = labels().map(|label| label.len() + 1).sum::<usize>() + 1;
    if length > NAME {
        return Err(Wrong::new(format!("a name of {length} bytes is too long for DNS"))
            .remedy(format!("write at most {} characters", NAME - 2)));
    }
    Ok(format!("{}.", text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase()))
}

/// A name, `TYPE65`, or a number.
fn record_type(cx: &mut Context<'_>, value: Value<'_>) -> Option<u16> {
    if let DeValue::Integer(_) = value.node {
        return value::integer(cx, value, 1..=65_535);
    }
    value::parsed(cx, value, |text| {
        let upper = text.to_ascii_uppercase();
        if let Some((_, number)) = TYPES.iter().find(|(name, _)| *name == upper) {
            return Ok(*number);
        }
        // RFC 3597 section 5.
        let number = upper.strip_prefix("TYPE").and_then(|digits| digits.parse::<u16>().ok());
        if let Some(number) = number.filter(|number| *number != 0) {
            return Ok(number);
        }
        let remedy = match closest(&upper, TYPES.iter().map(|(name, _)| *name)) {
            Some(known) => format!("did you mean \"{known}\"? any type can be written as \"TYPE65\""),
            None => "write a type as in \"AAAA\", or its number as in \"TYPE65\"".to_owned(),
        };
        Err(Wrong::new(format!("{} is not a record type", quote(text))).remedy(remedy))
    })
}

fn rcode_list(cx: &mut Context<'_>, value: Value<'_>) -> Option<Vec<u8>> {
    let codes = value::one_or_more(cx, value, rcode)?;
    if codes.is_empty() {
        let why = Wrong::new("no code at all would be good");
        return value::wrong(cx, value, why.remedy("write rcode = [\"NOERROR\"], or remove the line"));
    }
    let mut codes: Vec<u8> = codes.into_iter().map(|code| code.value).collect();
    codes.sort_unstable();
    codes.dedup();
    Some(codes)
}

fn rcode(cx: &mut Context<'_>, value: Value<'_>) -> Option<u8> {
    if let DeValue::Integer(_) = value.node {
        return value::integer(cx, value, 0..=15);
    }
    value::parsed(cx, value, |text| {
        let upper = text.to_ascii_uppercase();
        let known = (0_u8..).zip(RCODES).find(|(_, name)| *name == upper);
        known.map(|(code, _)| code).ok_or_else(|| {
            let remedy = match closest(&upper, RCODES) {
                Some(known) => format!("did you mean \"{known}\"?"),
                None => "write a code as in \"NXDOMAIN\", or its number".to_owned(),
            };
            Wrong::new(format!("{} is not a response code", quote(text))).remedy(remedy)
        })
    })
}

fn answers(cx: &mut Context<'_>, value: Value<'_>) -> Option<Vec<String>> {
    let all = value::one_or_more(cx, value, |cx, v| {
        let text = value::line(cx, v)?;
        // One way to write each address.
        Some(text.parse::<IpAddr>().map_or(text, |address| address.to_string()))
    })?;
    Some(all.into_iter().map(|answer| answer.value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let long = "a".repeat(63);
        let longest = format!("{long}.{long}.{long}.{}", "b".repeat(61));
        assert_eq!(longest.len(), 253);
        let good = [".", "example.org", "Example.ORG.", "_sip._udp.example.org", &long, &longest];
        for text in good {
            let bare = text.strip_suffix('.').unwrap_or(text).to_lowercase();
            assert_eq!(name(text).ok(), Some(format!("{bare}.")), "{text}");
        }
        let too_long = format!("{longest}c");
        let bad =
            ["", "..", ".org", "a..b", "a.b..", "a b", "a\\.b", "bücher.example", &"a".repeat(64), &too_long];
        for text in bad {
            assert!(name(text).is_err(), "{text}");
        }
    }
}
