//! What we ask for, byte by byte.

use neli::FromBytes;
use neli::attr::Attribute;
use neli::consts::genl::{Cmd, NlAttrType};
use neli::genl::Genlmsghdr;
use neli::nl::{NlPayload, Nlmsghdr};

use super::super::wire::{Command, CommandAttr, DestAttr, ServiceAttr};
use super::*;

/// A request's bytes after the netlink header, which is checked here.
fn payload(encode: impl FnOnce(&mut Vec<u8>, Header)) -> Vec<u8> {
    // Something before it: lengths and padding must not depend on where a message begins.
    let mut buffer = vec![0xaa; 8];
    encode(&mut buffer, HEADER);
    let message = &buffer[8..];
    let length = u32::try_from(message.len()).unwrap().to_ne_bytes();
    assert_eq!(message[..16], [&length[..], &bytes("1c00 0100 07000000 00000000")].concat());
    assert_eq!(message.len() % 4, 0);
    message[16..].to_vec()
}

fn operation(operation: &Operation) -> Vec<u8> {
    payload(|buffer, header| request::operation(buffer, header, operation))
}

#[test]
fn a_service_is_asked_for_as_ipvsadm_asks() {
    // ipvsadm -A -t 192.0.2.10:80 -s wrr -p 300 -M 255.255.255.0
    let persistent = ServiceAttributes { persistence: Some(300), netmask: 24, ..attributes("wrr") };
    let add = Operation::AddService { service: tcp("192.0.2.10:80"), attributes: persistent };
    assert_eq!(
        operation(&add),
        bytes(
            "01010000 54000180
             06000100 02000000
             06000200 06000000
             14000300 c000020a000000000000000000000000
             06000400 00500000
             08000600 77727200
             0c000700 01000000ffffffff
             08000800 2c010000
             08000900 ffffff00"
        )
    );
    // ipvsadm -A -f 5 -6 -s rr
    let full = ServiceAttributes { netmask: 128, ..attributes("rr") };
    let add = Operation::AddService { service: fwmark(5, Family::Ipv6), attributes: full };
    assert_eq!(
        operation(&add),
        bytes(
            "01010000 38000180
             06000100 0a000000
             08000500 05000000
             07000600 72720000
             0c000700 00000000ffffffff
             08000800 00000000
             08000900 80000000"
        )
    );
}

#[test]
fn flags_and_engine_are_part_of_a_service() {
    let all = ServiceFlags::ONE_PACKET.with(ServiceFlags::SCHEDULER_1).with(ServiceFlags::SCHEDULER_3);
    let attributes = ServiceAttributes {
        flags: all,
        persistence: Some(1),
        netmask: 0,
        persistence_engine: Some("sip".to_owned()),
        ..attributes("sh")
    };
    let service = ServiceId::Address {
        protocol: Protocol::Sctp,
        address: "2001:db8::1".parse().unwrap(),
        port: 0x1234,
    };
    assert_eq!(
        operation(&Operation::EditService { service, attributes }),
        bytes(
            "02010000 5c000180
             06000100 0a000000
             06000200 84000000
             14000300 20010db8000000000000000000000001
             06000400 12340000
             07000600 73680000
             08000b00 73697000
             0c000700 2d000000ffffffff
             08000800 01000000
             08000900 00000000"
        )
    );
}

#[test]
fn a_destination_is_asked_for_with_the_values_that_ipvsadm_sends() {
    // ipvsadm -a -t 192.0.2.10:80 -r 198.51.100.11:8080 -m -w 7 -x 100 -y 90, less what it sends
    // besides: the whole service, of which the kernel reads the key, and a tunnel of zeros.
    let record = Destination { upper_threshold: 100, lower_threshold: 90, ..nat(7) };
    let service = tcp("192.0.2.10:80");
    let add = Operation::AddDestination { service, destination: destination("198.51.100.11:8080"), record };
    assert_eq!(
        operation(&add),
        bytes(
            "05010000 30000180
             06000100 02000000
             06000200 06000000
             14000300 c000020a000000000000000000000000
             06000400 00500000
             48000280
             06000b00 02000000
             14000100 c633640b000000000000000000000000
             06000200 1f900000
             08000300 00000000
             08000400 07000000
             08000500 64000000
             08000600 5a000000"
        )
    );
    // ipvsadm -a -f 5 -6 -r [2001:db8::1]:0 -i -w 1 --tun-type gue --tun-port 6080 --tun-csum
    let tunnel = Tunnel::Gue { port: 6080, checksum: TunnelChecksum::Csum };
    let add = Operation::AddDestination {
        service: fwmark(5, Family::Ipv6),
        destination: destination("[2001:db8::1]:0"),
        record: Destination { forwarding: Forwarding::Tun(tunnel), ..nat(1) },
    };
    assert_eq!(
        operation(&add),
        bytes(
            "05010000 14000180
             06000100 0a000000
             08000500 05000000
             60000280
             06000b00 0a000000
             14000100 20010db8000000000000000000000001
             06000200 00000000
             08000300 02000000
             08000400 01000000
             08000500 00000000
             08000600 00000000
             05000d00 01000000
             06000e00 17c00000
             06000f00 01000000"
        )
    );
}

#[test]
fn a_removal_names_its_destination_only() {
    let removal = Operation::RemoveDestination {
        service: tcp("192.0.2.10:80"),
        destination: destination("198.51.100.11:8080"),
    };
    assert_eq!(
        operation(&removal),
        bytes(
            "07010000 30000180
             06000100 02000000
             06000200 06000000
             14000300 c000020a000000000000000000000000
             06000400 00500000
             28000280
             06000b00 02000000
             14000100 c633640b000000000000000000000000
             06000200 1f900000"
        )
    );
    assert_eq!(
        operation(&Operation::RemoveService { service: fwmark(5, Family::Ipv4) }),
        bytes("03010000 14000180 06000100 02000000 08000500 05000000")
    );
}

#[test]
fn dumps_are_asked_for_as_ipvsadm_asks() {
    assert_eq!(payload(request::services), bytes("04010000"));
    let service = tcp("192.0.2.10:80");
    assert_eq!(
        payload(|buffer, header| request::destinations(buffer, header, &service)),
        bytes(
            "08010000 30000180
             06000100 02000000
             06000200 06000000
             14000300 c000020a000000000000000000000000
             06000400 00500000"
        )
    );
}

#[test]
fn settings_are_asked_for_as_ipvsadm_asks() {
    // ipvsadm --set 900 120 300
    let seconds = std::num::NonZeroU32::new;
    let timeouts = Timeouts { tcp: seconds(900), tcp_fin: seconds(120), udp: seconds(300) };
    assert_eq!(
        payload(|buffer, header| request::set_timeouts(buffer, header, &timeouts)),
        bytes("0c010000 08000400 84030000 08000500 78000000 08000600 2c010000")
    );
    let only_udp = Timeouts { udp: seconds(300), ..Timeouts::default() };
    assert_eq!(
        payload(|buffer, header| request::set_timeouts(buffer, header, &only_udp)),
        bytes("0c010000 08000600 2c010000")
    );
    assert_eq!(payload(request::info), bytes("0f010000"));
    assert_eq!(payload(request::timeouts), bytes("0d010000"));
    assert_eq!(
        payload(|buffer, header| request::family(buffer, header, "IPVS")),
        bytes("03010000 09000200 4950565300 000000")
    );
}

#[test]
fn a_sync_daemon_is_asked_for_by_its_role() {
    let sync = Sync {
        role: SyncRole::Both,
        interface: "eth0".to_owned(),
        id: 7,
        max_length: Some(1400),
        group: Some("ff02::81".parse().unwrap()),
        port: Some(9000),
        ttl: Some(3),
    };
    assert_eq!(
        payload(|buffer, header| request::start_daemon(buffer, header, request::DaemonRole::Backup, &sync)),
        bytes(
            "09010000 4c000380
             08000100 02000000
             09000200 6574683000 000000
             08000300 07000000
             06000400 78050000
             14000600 ff020000000000000000000000000081
             06000700 28230000
             05000800 03000000"
        )
    );
    assert_eq!(
        payload(|buffer, header| request::stop_daemon(buffer, header, request::DaemonRole::Master)),
        bytes("0a010000 0c000380 08000100 01000000")
    );
}

impl Cmd for Command {}
impl NlAttrType for CommandAttr {}
impl NlAttrType for ServiceAttr {}
impl NlAttrType for DestAttr {}

/// A second implementation of netlink reads the same values out of our bytes.
#[test]
fn neli_reads_what_we_write() {
    let record = Destination { upper_threshold: 9, ..nat(5) };
    let service = tcp("192.0.2.10:80");
    let edit = Operation::EditDestination { service, destination: destination("198.51.100.11:81"), record };
    let mut buffer = Vec::new();
    request::operation(&mut buffer, HEADER, &edit);
    let message = Nlmsghdr::<u16, Genlmsghdr<Command, CommandAttr>>::from_bytes(&mut std::io::Cursor::new(
        buffer.as_slice(),
    ))
    .unwrap();
    assert_eq!((*message.nl_type(), *message.nl_seq(), *message.nl_flags()), (0x1c, 7, NlmF::REQUEST));
    let NlPayload::Payload(generic) = message.nl_payload() else { panic!("{message:?}") };
    assert_eq!((*generic.cmd(), *generic.version()), (Command::SetDest, 1));
    let attributes = generic.attrs().get_attr_handle();
    let service = attributes.get_nested_attributes::<ServiceAttr>(CommandAttr::Service).unwrap();
    let port: [u8; 2] =
        service.get_attribute(ServiceAttr::Port).unwrap().payload().as_ref().try_into().unwrap();
    assert_eq!(u16::from_be_bytes(port), 80);
    let dest = attributes.get_nested_attributes::<DestAttr>(CommandAttr::Dest).unwrap();
    assert_eq!(dest.get_attr_payload_as::<u32>(DestAttr::Weight).unwrap(), 5);
    assert_eq!(dest.get_attr_payload_as::<u32>(DestAttr::UThresh).unwrap(), 9);
    assert_eq!(dest.get_attr_payload_as::<u16>(DestAttr::AddrFamily).unwrap(), 2);
    assert_eq!(dest.get_attrs().iter().count(), 7);
}
