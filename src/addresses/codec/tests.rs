//! Datagrams as a 6.1 kernel sends them, and what is left of them when they are cut or changed.

use proptest::prelude::*;

use super::*;

/// Hexadecimal digits, blanks left out. The samples are of a machine with the least byte first.
fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|c| !c.is_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap()).collect()
}

const LOOPBACK_4: &str = "4c000000 1400 0200 07000000 3c230000 02 08 80 fe 01000000
    0800 0100 7f000001 0800 0200 7f000001 0700 0300 6c6f0000 0800 0800 80000000
    1400 0600 ffffffff ffffffff 16000000 16000000";
/// `ip address add 192.0.2.1 peer 192.0.2.2 dev …`
const PEER_4: &str = "38000000 1400 0200 07000000 3c230000 02 20 80 00 05000000
    0800 0100 c0000202 0800 0200 c0000201 0700 0300 6c6f0000 0800 0800 80020000";
const GLOBAL_6: &str = "48000000 1400 0200 07000000 3c230000 0a 40 82 00 04000000
    1400 0100 fd000000 00000000 00000000 00000002
    1400 0600 ffffffff ffffffff 16000000 16000000 0800 0800 82000000";
/// Index 2, `ifb0`, down; attributes after the name left out.
const LINK_DOWN: &str = "34000000 1000 0200 07000000 3c230000 00 00 0100 02000000 82000000 00000000
    0900 0300 69666230 00000000 0800 0d00 20000000";
const LINK_LOOPBACK: &str = "2c000000 1000 0200 07000000 3c230000 00 00 0403 01000000 49000100 00000000
    0700 0300 6c6f0000 0400 0100";
const DONE: &str = "14000000 0300 0200 07000000 3c230000 00000000";

fn only(hex: &str) -> Body {
    let found: Vec<_> = messages(&bytes(hex)).collect::<Result<_, _>>().unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap().body
}

fn found(address: &str, index: u32, prefix: u8, flags: u32) -> Body {
    let (address, flags) = (address.parse().unwrap(), AddressFlags::from_bits(flags));
    Body::Address(Found { address, index, prefix, flags })
}

#[test]
fn golden() {
    assert_eq!(only(LOOPBACK_4), found("127.0.0.1", 1, 8, 0x80));
    assert_eq!(only(PEER_4), found("192.0.2.1", 5, 32, 0x280), "our end, and all 32 bits of the flags");
    assert_eq!(only(GLOBAL_6), found("fd00::2", 4, 64, 0x82));
    let link = |index, name: &str, up, loopback| {
        Body::Interface(Interface { index, name: name.to_owned(), up, loopback })
    };
    assert_eq!(only(LINK_DOWN), link(2, "ifb0", false, false));
    assert_eq!(only(LINK_LOOPBACK), link(1, "lo", true, true));
    assert_eq!(only(DONE), Body::End(Ok(())));
    assert_eq!(only("14000000 0200 0000 07000000 00000000 ffffffff"), Body::End(Err(Errno::EPERM)));
    // The view of a bridge on its port, an event of another kind, and messages without content.
    assert_eq!(only(&LINK_DOWN.replace("00 00 0100", "07 00 0100")), Body::Other);
    assert_eq!(only("10000000 1500 0000 00000000 00000000"), Body::Other);
    assert_eq!(only("10000000 0100 0000 00000000 00000000"), Body::Other);
    assert_eq!(only("10000000 0400 0000 00000000 00000000"), Body::Overrun);
}

#[test]
fn usable_is_what_no_other_host_may_have() {
    let usable = [0x00, 0x80, 0x82, 0x200, 0x80 | 0x20];
    assert!(usable.into_iter().all(|bits| AddressFlags::from_bits(bits).is_usable()));
    let not = [0x40, 0x08, 0xc0, 0x48 | 0x80];
    assert!(!not.into_iter().any(|bits| AddressFlags::from_bits(bits).is_usable()));
}

#[test]
fn requests() {
    let addresses = bytes("18000000 1600 0103 05000000 00000000 0000000000000000");
    assert_eq!(dump_request(Subject::Addresses, 5), addresses);
    let links = bytes("20000000 1200 0103 06000000 00000000 00000000000000000000000000000000");
    assert_eq!(dump_request(Subject::Interfaces, 6), links);
}

#[test]
fn a_dump_that_something_got_between_says_so() {
    let interrupted = DONE.replace("0300 0200", "0300 1200");
    let found: Vec<_> = messages(&bytes(&interrupted)).collect::<Result<_, _>>().unwrap();
    assert!(found[0].interrupted);
    let found: Vec<_> = messages(&bytes(DONE)).collect::<Result<_, _>>().unwrap();
    assert!(!found[0].interrupted);
}

fn genuine() -> Vec<u8> {
    [LOOPBACK_4, PEER_4, GLOBAL_6, LINK_DOWN, LINK_LOOPBACK, DONE].map(bytes).concat()
}

#[test]
fn what_is_cut_off_is_an_error_or_less() {
    let whole = genuine();
    assert_eq!(messages(&whole).filter(Result::is_ok).count(), 6);
    for length in 0..whole.len() {
        assert!(messages(&whole[..length]).filter(Result::is_ok).count() < 6, "{length}");
    }
}

#[test]
fn lengths_that_lie_end_the_reading() {
    for length in [0_u32, 1, 15, 17, 100, u32::MAX] {
        let header = [&length.to_ne_bytes()[..], &bytes("1400 0000 07000000 00000000")].concat();
        assert_eq!(messages(&header).collect::<Vec<_>>(), [Err(Malformed::Message)], "{length}");
    }
    // An address without its header, without itself, and of a wrong length.
    for address in [
        "10000000 1400 0000 00000000 00000000",
        "18000000 1400 0000 00000000 00000000 02 08 80 fe 01000000",
        "20000000 1400 0000 00000000 00000000 02 08 80 fe 01000000 0600 0100 7f000000",
        "20000000 1400 0000 00000000 00000000 0a 08 80 fe 01000000 0800 0100 7f000001",
        "20000000 1400 0000 00000000 00000000 02 08 80 fe 01000000 ff00 0100 7f000001",
    ] {
        assert_eq!(messages(&bytes(address)).collect::<Vec<_>>(), [Err(Malformed::Address)], "{address}");
    }
}

proptest! {
    #[test]
    fn random_bytes(random in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _any = messages(&random).count();
    }

    /// Behind a genuine header, so that the bytes get further.
    #[test]
    fn random_payloads(kind in 0_u16..32, random in proptest::collection::vec(any::<u8>(), 0..400)) {
        let length = u32::try_from(HEADER + random.len()).unwrap();
        let header = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10]].concat();
        prop_assert!(messages(&[header, random].concat()).count() <= 1);
    }

    #[test]
    fn changed_bytes(changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..8)) {
        let mut datagram = genuine();
        for (at, byte) in changes {
            let at = at % datagram.len();
            datagram[at] = byte;
        }
        prop_assert!(messages(&datagram).count() <= datagram.len() / HEADER + 1);
    }
}
