//! Truncated, mutated and random answers: values or errors, never a panic, never a loop.

use super::*;

/// Reads everything that can be read in every way that it can be read.
fn read_all(datagram: &[u8]) -> usize {
    let mut read = 0;
    for message in Messages::new(datagram) {
        let Ok(message) = message else { continue };
        read += 1;
        if let Body::Family { attributes } = message.body {
            let results = [
                reply::service(attributes).is_ok(),
                reply::destination(attributes, Family::Ipv4).is_ok(),
                reply::destination(attributes, Family::Ipv6).is_ok(),
                reply::daemon(attributes).is_ok(),
                reply::timeouts(attributes).is_ok(),
                reply::info(attributes).is_ok(),
                reply::family(attributes).is_ok(),
            ];
            read += results.into_iter().filter(|good| *good).count();
        }
    }
    read
}

/// A service, a destination and the end of a dump in one datagram.
fn genuine() -> Vec<u8> {
    let service = bytes(
        "01010000 54000100 06000100 02000000 06000200 06000000
         14000300 c000020a000000000000000000000000 06000400 00500000 08000600 77727200
         0c000700 03000000ffffffff 08000800 2c010000 08000900 ffffff00",
    );
    let destination = bytes(
        "05010000 60000200 14000100 20010db8000000000000000000000001 06000200 00000000
         08000300 02000000 08000400 01000000 05000d00 01000000 06000e00 17c00000 06000f00 01000000
         06000b00 0a000000 10000c00 0c000100 0100000000000000",
    );
    let done = bytes("14000000 03000200 07000000 00000000 00000000");
    [datagram(&service), datagram(&destination), done].concat()
}

#[test]
fn what_is_cut_off_is_an_error_or_less() {
    let whole = genuine();
    // Three messages; one reads as a service, the other as a destination of either family.
    assert_eq!(read_all(&whole), 3 + 1 + 2);
    for length in 0..whole.len() {
        assert!(read_all(&whole[..length]) < 6, "{length}");
    }
}

#[test]
fn lengths_that_lie_end_the_reading() {
    let header = |length: u32| [&length.to_ne_bytes()[..], &bytes("1c00 0000 07000000 00000000")].concat();
    for length in [0, 1, 15, 17, 100, u32::MAX] {
        assert_eq!(Messages::new(&header(length)).collect::<Vec<_>>(), [Err(Malformed::Message)], "{length}");
    }
    // A family message without the family's header.
    assert_eq!(Messages::new(&header(16)).collect::<Vec<_>>(), [Err(Malformed::Message)]);
    for attribute in ["0000 0100", "0300 0100", "0900 0100 00000000", "ffff 0100", "0400"] {
        let message = datagram(&[bytes("01010000"), bytes(attribute)].concat());
        let Body::Family { attributes } = Messages::new(&message).next().unwrap().unwrap().body else {
            panic!()
        };
        assert_eq!(reply::service(attributes), Err(Malformed::Attribute), "{attribute}");
    }
}

#[test]
fn wrong_sizes_are_named() {
    let message = datagram(&bytes("0e010000 06000100 01020000 08000200 00100000"));
    let Body::Family { attributes } = Messages::new(&message).next().unwrap().unwrap().body else { panic!() };
    let error = reply::info(attributes).unwrap_err();
    assert_eq!((error, error.to_string().as_str()), (Malformed::Size("version"), "version of a wrong size"));
}

proptest! {
    #[test]
    fn any_bytes_can_be_read(datagram in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(read_all(&datagram) <= 8 * (datagram.len() / 16 + 1));
    }

    #[test]
    fn genuine_bytes_with_changes_can_be_read(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut datagram = genuine();
        for (place, byte) in changes {
            let place = place.index(datagram.len());
            datagram[place] = byte;
        }
        prop_assert!(read_all(&datagram) <= 8 * (datagram.len() / 16 + 1));
    }

    /// What is asked for comes back as itself: the kernel's answers have the same attributes.
    #[test]
    fn a_destination_survives_the_way(
        weight in 0..=i32::MAX as u32,
        upper in any::<u32>(),
        lower in any::<u32>(),
        address in any::<std::net::IpAddr>(),
        port in any::<u16>(),
        forwarding in crate::ipvs::testing::forwardings(),
    ) {
        let id = crate::engine::table::DestinationId { address, port };
        let record = Destination { forwarding, weight, upper_threshold: upper, lower_threshold: lower };
        let service = tcp("192.0.2.10:80");
        let mut buffer = Vec::new();
        let add = Operation::AddDestination { service, destination: id, record };
        request::operation(&mut buffer, HEADER, &add);
        let message = Messages::new(&buffer).next().unwrap().unwrap();
        let Body::Family { attributes } = message.body else { panic!() };
        let entry = reply::destination(attributes, Family::Ipv4).unwrap().unwrap();
        prop_assert_eq!((entry.id, entry.record, entry.counters), (id, record, Counters::default()));
    }

    #[test]
    fn a_service_survives_the_way(
        (service, attributes) in crate::ipvs::testing::services(),
    ) {
        let mut buffer = Vec::new();
        let edit = Operation::EditService { service, attributes: attributes.clone() };
        request::operation(&mut buffer, HEADER, &edit);
        let message = Messages::new(&buffer).next().unwrap().unwrap();
        let Body::Family { attributes: answer } = message.body else { panic!() };
        prop_assert_eq!(reply::service(answer), Ok(Some((service, attributes))));
    }
}

#[test]
fn a_scheduler_name_of_full_length_fits() {
    let mut buffer = Vec::new();
    let scheduler = Scheduler::new("abcdefghijklmno").unwrap();
    let attributes = ServiceAttributes { scheduler, ..attributes("rr") };
    let service = tcp("192.0.2.10:80");
    request::operation(
        &mut buffer,
        HEADER,
        &Operation::AddService { service, attributes: attributes.clone() },
    );
    let Body::Family { attributes: answer } = Messages::new(&buffer).next().unwrap().unwrap().body else {
        panic!()
    };
    assert_eq!(reply::service(answer), Ok(Some((service, attributes))));
}
