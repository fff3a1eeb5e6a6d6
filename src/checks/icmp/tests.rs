//! Echo packets, good and hostile, and real pings over loopback.

use proptest::prelude::*;

use super::*;

fn echo(form: Form) -> Echo {
    Echo { form, id: 0x1234, sequence: 0x5678, size: 5 }
}

const V4: Form = Form { raw: false, v6: false };
const V6: Form = Form { raw: false, v6: true };
const RAW4: Form = Form { raw: true, v6: false };
const RAW6: Form = Form { raw: true, v6: true };

/// As the peer answers: another type, the rest the same.
fn reply(echo: &Echo) -> Vec<u8> {
    let mut packet = echo.request();
    packet[0] = if echo.form.v6 { 129 } else { 0 };
    if echo.form.raw && !echo.form.v6 {
        // Six words of header: one of them an option.
        let mut whole = vec![0x46];
        whole.resize(24, 0xee);
        whole.append(&mut packet);
        return whole;
    }
    packet
}

#[test]
fn a_request_on_the_wire() {
    let data = [0x56, 0x79, 0x54, 0x7b, 0x52];
    let head = [8, 0, 0x92, 0x5e, 0x12, 0x34, 0x56, 0x78];
    assert_eq!(echo(V4).request(), [&head[..], &data].concat());
    // A receiver sums everything and finds all ones.
    assert_eq!(checksum(&echo(V4).request()), 0);
    let head = [128, 0, 0, 0, 0x12, 0x34, 0x56, 0x78];
    assert_eq!(echo(V6).request(), [&head[..], &data].concat());
    assert_eq!(Echo { size: 65_507, ..echo(V4) }.request().len(), 65_515);
}

#[test]
fn only_its_own_reply_counts() {
    for form in [V4, V6, RAW4, RAW6] {
        let echo = echo(form);
        let good = reply(&echo);
        let start = good.len() - 13;
        assert_eq!(echo.compare(&good), Heard::Reply, "{form:?}");
        // Type, code, identifier, sequence number: another's.
        for at in [0, 1, 4, 5, 6, 7] {
            let mut other = good.clone();
            other[start + at] ^= 0xff;
            assert_eq!(echo.compare(&other), Heard::Other, "{form:?}, byte {at}");
        }
        let mut altered = good.clone();
        altered[start + 10] ^= 1;
        assert_eq!(echo.compare(&altered), Heard::Altered, "{form:?}");
        assert_eq!(echo.compare(&good[..good.len() - 1]), Heard::Altered, "{form:?}");
        assert_eq!(echo.compare(&[&good[..], &[0]].concat()), Heard::Altered, "{form:?}");
        // Our own request, which a raw socket hears on loopback.
        let mut own = good.clone();
        own[start] = if form.v6 { 128 } else { 8 };
        assert_eq!(echo.compare(&own), Heard::Other, "{form:?}");
    }
}

#[test]
fn checksums() {
    assert_eq!(checksum(&[]), 0xffff);
    assert_eq!(checksum(&[0xff, 0xff, 0xff, 0xff, 1]), 0xfeff);
    // The example of RFC 1071 section 3.
    assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
}

proptest! {
    #[test]
    fn hostile_packets(packet in proptest::collection::vec(any::<u8>(), 0..128)) {
        for form in [V4, V6, RAW4, RAW6] {
            prop_assert_ne!(echo(form).compare(&packet), Heard::Reply);
        }
    }
}

#[test]
fn what_is_not_permitted_is_ours_and_says_what_to_do() {
    let Trouble::Local(fault) = Trouble::from(PingTrouble::NotPermitted) else { panic!("not ours") };
    for word in ["net.ipv4.ping_group_range", "CAP_NET_RAW", "/usr/share/doc/lvsd/examples/ping.conf"] {
        assert!(fault.reason.contains(word), "{fault}");
    }
    for errno in [Errno::EACCES, Errno::EPERM, Errno::EPROTONOSUPPORT] {
        assert!(is_refusal(&io::Error::from_raw_os_error(errno as i32)));
    }
    assert!(!is_refusal(&io::Error::from_raw_os_error(Errno::EMFILE as i32)));
}
