//! What fits a wanted reply.

use super::*;

fn plan(udp: Udp) -> Plan {
    Plan::new(&udp).unwrap()
}

#[test]
fn what_makes_a_reply_wanted() {
    assert!(plan(Udp::default()).wanted.is_none());
    let wanting = [
        Udp { require_reply: true, ..Udp::default() },
        Udp { reply: Some(ReplyPattern::Nibbles(vec![None, None])), ..Udp::default() },
        Udp { min_reply: Some(1), ..Udp::default() },
        Udp { max_reply: Some(1), ..Udp::default() },
    ];
    for udp in wanting {
        assert!(plan(udp.clone()).wanted.is_some(), "{udp:?}");
    }
}

#[test]
fn half_bytes() {
    let p1ng = [Some(7), Some(0), None, None, Some(6), Some(14), Some(6), Some(7)];
    for fits in ["ping", "pong", "p\0ng", "pingpong"] {
        assert!(begins_with(fits.as_bytes(), &p1ng), "{fits}");
    }
    for other in ["", "p", "pin", "nack", "Ping", " ping"] {
        assert!(!begins_with(other.as_bytes(), &p1ng), "{other}");
    }
}

#[test]
fn lengths() {
    let wanted = Wanted { pattern: None, at_least: Some(2), at_most: Some(4) };
    assert_eq!(wanted.mismatch(b"1").unwrap(), "the reply has 1 bytes, wanted at least 2");
    assert_eq!(wanted.mismatch(b"12"), None);
    assert_eq!(wanted.mismatch(b"1234"), None);
    assert_eq!(wanted.mismatch(b"12345").unwrap(), "the reply has 5 bytes, wanted at most 4");
    assert_eq!(Wanted::default().mismatch(b""), None);
}

#[test]
fn how_silence_is_told() {
    assert_eq!(silence(Duration::from_millis(203)), "no ICMP error within 0.2s");
    assert_eq!(silence(Duration::from_millis(5_099)), "no ICMP error within 5.0s");
}
