//! What Linux 6.1 answered, byte by byte, and what other kernels leave out.

use super::super::reader::Attributes;
use super::*;

/// A service of `ipvsadm -A -t 192.0.2.10:80 -s wrr -p 300 -M 255.255.255.0`, the 0x2 of
/// "hashed" in its flags.
const SERVICE: &str = "
    01010000 54010100
    06000100 02000000
    06000200 06000000
    14000300 c000020a000000000000000000000000
    06000400 00500000
    08000600 77727200
    0c000700 03000000ffffffff
    08000800 2c010000
    08000900 ffffff00
    60000a00
        08000100 00000000 08000200 00000000 08000300 00000000
        0c000400 0000000000000000 04000b00 0c000500 0000000000000000
        08000600 00000000 08000700 00000000 08000800 00000000 08000900 00000000 08000a00 00000000
    a0000c00
        0c000100 0000000000000000 04000b00 0c000200 0000000000000000 04000b00
        0c000300 0000000000000000 04000b00 0c000400 0000000000000000 04000b00
        0c000500 0000000000000000 04000b00 0c000600 0000000000000000 04000b00
        0c000700 0000000000000000 04000b00 0c000800 0000000000000000 04000b00
        0c000900 0000000000000000 04000b00 0c000a00 0000000000000000";

/// A destination of `ipvsadm -a -f 5 -6 -r [2001:db8::1]:0 -i -w 1 --tun-type gue --tun-port 6080
/// --tun-csum`, with numbers put into its counters.
const DESTINATION_HEAD: &str = "
    14000100 20010db8000000000000000000000001
    06000200 00000000
    08000300 02000000
    08000400 01000000
    05000d00 01000000
    06000e00 17c00000
    06000f00 01000000
    08000500 00000000
    08000600 00000000
    08000700 0a000000
    08000800 0b000000
    08000900 0c000000
    06000b00 0a000000";
const STATS: &str = "
    64000a00
        08000100 01000000 08000200 02000000 08000300 03000000 04000b00
        0c000400 0400000000000000 04000b00 0c000500 0500000000000000
        08000600 00000000 08000700 00000000 08000800 00000000 08000900 00000000 08000a00 00000000";
const STATS64: &str = "
    a0000c00
        0c000100 0100000001000000 04000b00 0c000200 0200000002000000 04000b00
        0c000300 0300000003000000 04000b00 0c000400 0400000004000000 04000b00
        0c000500 0500000005000000 04000b00 0c000600 0000000000000000 04000b00
        0c000700 0000000000000000 04000b00 0c000800 0000000000000000 04000b00
        0c000900 0000000000000000 04000b00 0c000a00 0000000000000000";

/// A command's only attribute around `parts`.
fn nested(command_attribute: u8, parts: &[&str]) -> Vec<u8> {
    let inner: Vec<u8> = parts.iter().flat_map(|part| bytes(part)).collect();
    let mut message = bytes("01010000");
    message.extend(u16::try_from(inner.len() + 4).unwrap().to_ne_bytes());
    message.extend([command_attribute, 0]);
    message.extend(inner);
    message
}

fn with_attributes<T>(payload: &[u8], f: impl FnOnce(Attributes<'_>) -> T) -> T {
    let datagram = datagram(payload);
    let mut messages = Messages::new(&datagram);
    let message = messages.next().unwrap().unwrap();
    assert_eq!((message.sequence, messages.next()), (7, None));
    let Body::Family { attributes } = message.body else { panic!("{message:?}") };
    f(attributes)
}

fn service(payload: &[u8]) -> Result<Option<(ServiceId, ServiceAttributes)>, Malformed> {
    with_attributes(payload, reply::service)
}

fn destination_of(parts: &[&str], family: Family) -> Result<Option<reply::DestinationEntry>, Malformed> {
    with_attributes(&nested(2, parts), |attributes| reply::destination(attributes, family))
}

#[test]
fn a_service_is_read() {
    let read = service(&bytes(SERVICE)).unwrap();
    let persistent = ServiceAttributes { persistence: Some(300), netmask: 24, ..attributes("wrr") };
    assert_eq!(read, Some((tcp("192.0.2.10:80"), persistent)));
    let by_mark = "06000100 0a000000 08000500 05000000 07000600 72720000
        0c000700 0e000000ffffffff 08000800 00000000 08000900 80000000 08000b00 73697000";
    let (id, read) = service(&nested(1, &[by_mark])).unwrap().unwrap();
    assert_eq!(id, fwmark(5, Family::Ipv6));
    let flags = ServiceFlags::ONE_PACKET.with(ServiceFlags::SCHEDULER_1);
    let engine = Some("sip".to_owned());
    let expected = ServiceAttributes { flags, netmask: 128, persistence_engine: engine, ..attributes("rr") };
    assert_eq!(read, expected);
}

#[test]
fn a_services_totals_are_read_as_a_destinations_are() {
    let read = |payload: &[u8]| with_attributes(payload, reply::service_counters);
    assert_eq!(read(&bytes(SERVICE)), Ok(Counters::default()));
    let wide = |low: u64| low << 32 | low;
    let counters = read(&nested(1, &[STATS64, STATS])).unwrap();
    assert_eq!((counters.connections, counters.packets_in, counters.bytes_out), (wide(1), wide(2), wide(5)));
    assert_eq!(read(&nested(1, &[STATS, STATS64])), Ok(counters));
    let old = read(&nested(1, &[STATS])).unwrap();
    assert_eq!((old.connections, old.packets_out, old.bytes_in), (1, 3, 4));
    assert_eq!(read(&nested(1, &[])), Ok(Counters::default()), "a kernel that counts nothing");
    assert_eq!(read(&nested(2, &[STATS])), Err(Malformed::Missing("service")));
}

#[test]
fn foreign_shapes_are_no_errors() {
    let key = |protocol: &str| {
        format!(
            "06000100 02000000 06000200 {protocol}0000 14000300 c000020a000000000000000000000000
             06000400 00500000"
        )
    };
    let rest = "08000600 77727200 0c000700 03000000ffffffff 08000800 2c010000";
    let mask = |mask: &str| format!("08000900 {mask}");
    let read = |protocol: &str, netmask: &str| service(&nested(1, &[&key(protocol), rest, &mask(netmask)]));
    // AH is no protocol of ours; a family of 7 is none of ours; mark 0 is no mark.
    assert_eq!(read("3300", "ffffff00"), Ok(None));
    assert_eq!(service(&nested(1, &["06000100 07000000"])), Ok(None));
    assert_eq!(service(&nested(1, &["06000100 02000000 08000500 00000000", rest])), Ok(None));
    // A mask with holes is unlike any prefix.
    let netmask = |text: &str| read("0600", text).unwrap().unwrap().1.netmask;
    assert_eq!(netmask("ff00ff00"), 255);
    assert_eq!([netmask("00000000"), netmask("80000000"), netmask("ffffffff")], [0, 1, 32]);
    // A name that is no scheduler's.
    let odd = "09000600 612e622000 000000 0c000700 03000000ffffffff";
    assert_eq!(service(&nested(1, &[&key("0600"), odd])), Ok(None));
}

#[test]
fn a_destination_is_read_with_its_counters() {
    let entry = destination_of(&[DESTINATION_HEAD, STATS, STATS64], Family::Ipv4).unwrap().unwrap();
    assert_eq!(entry.id, destination("[2001:db8::1]:0"));
    let tunnel = Tunnel::Gue { port: 6080, checksum: TunnelChecksum::Csum };
    assert_eq!(entry.record, Destination { forwarding: Forwarding::Tun(tunnel), ..nat(1) });
    let wide = |low: u64| low << 32 | low;
    assert_eq!(
        entry.counters,
        Counters {
            active: 10,
            inactive: 11,
            persistent: 12,
            connections: wide(1),
            packets_in: wide(2),
            packets_out: wide(3),
            bytes_in: wide(4),
            bytes_out: wide(5),
        }
    );
    // In either order, and on a kernel before 4.1 that has 32 bits for some.
    let turned = destination_of(&[STATS64, DESTINATION_HEAD, STATS], Family::Ipv4).unwrap().unwrap();
    assert_eq!(turned, entry);
    let old = destination_of(&[DESTINATION_HEAD, STATS], Family::Ipv4).unwrap().unwrap().counters;
    assert_eq!((old.connections, old.packets_out, old.bytes_out), (1, 3, 5));
}

#[test]
fn a_destination_without_family_has_its_services() {
    let v4 = "14000100 c633640b000000000000000000000000 06000200 1f900000 08000300 00000000
        08000400 07000000 08000500 64000000 08000600 5a000000";
    let entry = destination_of(&[v4], Family::Ipv4).unwrap().unwrap();
    assert_eq!(entry.id, destination("198.51.100.11:8080"));
    assert_eq!(entry.record, Destination { upper_threshold: 100, lower_threshold: 90, ..nat(7) });
    assert_eq!(destination_of(&[v4, "06000b00 07000000"], Family::Ipv4), Ok(None));
}

#[test]
fn ways_of_forwarding_without_a_name_read_as_local() {
    let read = |method: &str, tunnel: &str| {
        let head = "14000100 c633640b000000000000000000000000 06000200 1f900000";
        let method = format!("08000300 {method}000000");
        destination_of(&[head, &method, tunnel], Family::Ipv4).unwrap().unwrap().record.forwarding
    };
    // Bits above the method are flags of connections.
    for (method, forwarding) in
        [("00", Forwarding::Nat), ("03", Forwarding::Dr), ("01", Forwarding::Local), ("a0", Forwarding::Nat)]
    {
        assert_eq!(read(method, ""), forwarding);
    }
    assert_eq!(read("02", ""), Forwarding::Tun(Tunnel::Ipip));
    let gre = Tunnel::Gre { checksum: TunnelChecksum::None };
    assert_eq!(read("02", "05000d00 02000000"), Forwarding::Tun(gre));
    for (method, tunnel) in [("04", ""), ("02", "05000d00 09000000"), ("02", "06000f00 03000000")] {
        assert_eq!(read(method, tunnel), Forwarding::Local);
    }
}

#[test]
fn settings_are_read() {
    let read = |payload: &str| with_attributes(&bytes(payload), reply::info);
    let info = read("0e010000 08000100 01020100 08000200 00100000").unwrap();
    assert_eq!((info.version, info.connection_table_size), ((1, 2, 1), 4096));
    assert_eq!(read("0e010000 08000100 01020100"), Err(Malformed::Missing("table size")));
    let read = |payload: &str| with_attributes(&bytes(payload), reply::timeouts);
    let seconds = std::num::NonZeroU32::new;
    assert_eq!(
        read("0d010000 08000400 84030000 08000500 78000000 08000600 2c010000"),
        Ok(Timeouts { tcp: seconds(900), tcp_fin: seconds(120), udp: seconds(300) })
    );
    assert_eq!(read("0d010000 08000400 84030000"), Err(Malformed::Missing("timeout")));
    let family = |payload: &str| with_attributes(&bytes(payload), reply::family);
    assert_eq!(family("01020000 09000200 4950565300 000000 06000100 1c000000"), Ok(0x1c));
    assert_eq!(family("01020000"), Err(Malformed::Missing("family number")));
}

#[test]
fn a_sync_daemon_is_read() {
    let daemon = |parts: &[&str]| with_attributes(&nested(3, parts), reply::daemon);
    let common = "09000200 6574683000 000000 08000300 07000000";
    let options = "06000400 78050000 08000500 e0000051 06000700 90220000 05000800 01000000";
    let sync = Sync {
        role: SyncRole::Backup,
        interface: "eth0".to_owned(),
        id: 7,
        max_length: Some(1400),
        group: Some("224.0.0.81".parse().unwrap()),
        port: Some(8848),
        ttl: Some(1),
    };
    assert_eq!(daemon(&["08000100 02000000", common, options]), Ok(Some(sync.clone())));
    let group6 = "14000600 ff020000000000000000000000000081";
    let six = Sync { group: Some("ff02::81".parse().unwrap()), role: SyncRole::Master, ..sync };
    assert_eq!(daemon(&["08000100 01000000", common, options, group6]), Ok(Some(six)));
    assert_eq!(daemon(&["08000100 07000000", common]), Ok(None));
}

#[test]
fn acknowledgements_errors_and_ends_are_told_apart() {
    let message = |kind: &str, payload: &str| {
        let payload = bytes(payload);
        let mut message = u32::try_from(payload.len() + 16).unwrap().to_ne_bytes().to_vec();
        message.extend(bytes(&format!("{kind} 0200 07000000 00000000")));
        message.extend(payload);
        message
    };
    let ack = message("0200", "00000000 14000000 1c000500 07000000 00000000");
    let refused = message("0200", "feffffff 14000000 1c000500 07000000 00000000");
    let done = message("0300", "00000000");
    let failed = message("0300", "ffffffff");
    let old_done = message("0300", "");
    let overrun = message("0400", "");
    let all = [ack, refused, done, failed, old_done, overrun].concat();
    let bodies: Vec<Body<'_>> = Messages::new(&all).map(|message| message.unwrap().body).collect();
    assert_eq!(
        bodies,
        [
            Body::Ack(Ok(())),
            Body::Ack(Err(Errno::ENOENT)),
            Body::Done(Ok(())),
            Body::Done(Err(Errno::EPERM)),
            Body::Done(Ok(())),
            Body::Overrun,
        ]
    );
    let mut changed = datagram(&bytes("01010000"));
    changed[6] = 0x10;
    assert!(Messages::new(&changed).next().unwrap().unwrap().interrupted);
}
