//! `udp` and `ping` checks against a peer in another name space: well, and ill in the ways that only a network
//! of several machines knows.
//!
//! Each test has addresses of its own: what a host's limit on ICMP errors leaves for a check is
//! remembered by address.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use lvsd::checks::{Preparer, run};
use lvsd::engine::model::{CheckKind, Ping, ReplyPattern, Source, Target, Udp, Verdict};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::lab::net::{Network, Space};

/// More than the three seconds that the kernel takes to find that a host is gone.
const PATIENT: Duration = Duration::from_secs(10);
/// For what will be silent for ever.
const SHORT: Duration = Duration::from_millis(1500);
const PORT: u16 = 5000;

/// `.NUMBER` and `::NUMBER` in the real servers' network.
fn server(network: &Network, number: u8) -> (IpAddr, IpAddr) {
    let v4 = format!("198.51.100.{number}");
    let v6 = format!("2001:db8:2::{number}");
    network.servers.ip(&format!("addr add {v4}/24 dev eth0\naddr add {v6}/64 dev eth0 nodad"));
    (v4.parse().expect("an address"), v6.parse().expect("an address"))
}

fn target(address: IpAddr) -> Target {
    Target { address, port: PORT, source: None }
}

/// No wish about the source.
const ANY: Source = Source { ip: None, port: None, interface: None, fwmark: None };

fn from(source: Source, address: IpAddr) -> Target {
    Target { source: Some(Arc::new(source)), ..target(address) }
}

/// Runs one check in the director's name space.
fn check(space: &Space, target: &Target, kind: CheckKind, limit: Duration) -> String {
    space.run(|| here(target, kind, limit))
}

fn here(target: &Target, kind: CheckKind, limit: Duration) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let prepared = Preparer::new().prepare(&Arc::new(kind)).expect("a good check");
    match runtime.block_on(run(target, &prepared, limit)).verdict {
        Verdict::Success { detail, .. } => format!("up: {detail}"),
        Verdict::Failure(fault) => format!("down: {fault}"),
        Verdict::LocalError(fault) => format!("local: {fault}"),
    }
}

/// A question whose answer is wanted.
fn ask() -> CheckKind {
    let reply = ReplyPattern::Nibbles(b"pong".iter().flat_map(|b| [Some(b >> 4), Some(b & 0x0f)]).collect());
    CheckKind::Udp(Udp {
        payload: b"ping".to_vec(),
        reply: Some(reply),
        require_reply: true,
        min_reply: None,
        max_reply: Some(40),
    })
}

/// A datagram after which silence is success.
fn knock() -> CheckKind {
    CheckKind::Udp(Udp {
        payload: b"hello".to_vec(),
        reply: None,
        require_reply: false,
        min_reply: None,
        max_reply: None,
    })
}

fn ping() -> CheckKind {
    CheckKind::Ping(Ping { size: 56 })
}

/// Answers each datagram to `at` with what `reply` makes of its sender, until the test ends.
fn answer(space: &Space, at: IpAddr, reply: impl Fn(&UdpSocket, SocketAddr) + Send + 'static) {
    let socket = space.run(|| UdpSocket::bind((at, PORT)).expect("its port is free"));
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((_, sender)) = socket.recv_from(&mut buffer) {
            reply(&socket, sender);
        }
    });
}

/// Answers with these bytes.
fn say(space: &Space, at: IpAddr, bytes: &'static [u8]) {
    answer(space, at, move |socket, sender| {
        socket.send_to(bytes, sender).expect("the way back is there");
    });
}

/// Lets everybody open unprivileged ICMP sockets, or nobody.
fn allow_pings(space: &Space, range: &str) {
    space.run(|| std::fs::write("/proc/sys/net/ipv4/ping_group_range", range).expect("root may"));
}

const EVERYBODY: &str = "0 2147483647";
const NOBODY: &str = "1 0";

#[test]
fn udp_with_a_wanted_reply() {
    let network = Network::new();
    let director = &network.director;
    let asked = |address, limit| check(director, &target(address), ask(), limit);
    let (v4, v6) = server(&network, 21);
    for address in [v4, v6] {
        say(&network.servers, address, b"pong!");
        assert_eq!(asked(address, PATIENT), "up: reply of 5 bytes, as wanted", "{address}");
    }
    let (v4, v6) = server(&network, 22);
    for address in [v4, v6] {
        let said = asked(address, PATIENT);
        assert_eq!(said, "down: reply: connection refused (ECONNREFUSED)", "{address}: a closed port");
    }
    for address in ["198.51.100.99", "2001:db8:2::99"].map(|text| text.parse().expect("an address")) {
        let said = asked(address, PATIENT);
        assert_eq!(said, "down: reply: no route to host (EHOSTUNREACH)", "{address}: nobody there");
    }
    let (v4, v6) = server(&network, 23);
    say(&network.servers, v4, b"nope");
    say(&network.servers, v6, b"pong, and far more than anybody wants to hear");
    assert_eq!(asked(v4, PATIENT), "down: reply: the reply is not the one wanted: \"nope\"");
    let said = asked(v6, PATIENT);
    assert!(
        said.starts_with("down: reply: the reply has 45 bytes, wanted at most 40: \"pong, and"),
        "{said}"
    );
}

#[test]
fn a_reply_from_another_address_is_none() {
    let network = Network::new();
    let (asked, other) = (server(&network, 24), server(&network, 25));
    for (asked, other) in [(asked.0, other.0), (asked.1, other.1)] {
        let stranger = network.servers.run(|| UdpSocket::bind((other, PORT)).expect("its port is free"));
        answer(&network.servers, asked, move |_, sender| {
            stranger.send_to(b"pong", sender).expect("the way back is there");
        });
        let said = check(&network.director, &target(asked), ask(), SHORT);
        assert_eq!(said, "down: reply: timed out after 1.5s without a reply", "{asked}");
    }
}

/// The peer gets what is sent, and nothing of what it says finds the way back.
#[test]
fn what_is_dropped_without_a_word() {
    let network = Network::new();
    let director = &network.director;
    allow_pings(director, EVERYBODY);
    let (v4, v6) = server(&network, 26);
    say(&network.servers, v4, b"pong");
    network.servers.ip("route add blackhole 198.51.100.254/32\nroute add blackhole 2001:db8:2::254/128");
    for address in [v4, v6] {
        let said = |kind| check(director, &target(address), kind, SHORT);
        assert_eq!(said(ping()), "down: reply: timed out after 1.5s", "{address}");
        assert_eq!(
            said(knock()),
            "down: reply: timed out after 1.5s (of the ping before the datagram)",
            "{address}"
        );
    }
    // The closed port's ICMP error is dropped as well.
    let said = check(director, &target(v6), ask(), SHORT);
    assert_eq!(said, "down: reply: timed out after 1.5s without a reply");
}

#[test]
fn udp_where_silence_is_success() {
    let network = Network::new();
    let director = &network.director;
    allow_pings(director, EVERYBODY);
    let knocked = |address, limit| check(director, &target(address), knock(), limit);
    let (v4, v6) = server(&network, 27);
    for address in [v4, v6] {
        answer(&network.servers, address, |_, _| {});
        let said = knocked(address, PATIENT);
        assert!(said.starts_with("up: no ICMP error within "), "{address}: {said}");
    }
    let (v4, v6) = server(&network, 28);
    for address in [v4, v6] {
        let said = knocked(address, PATIENT);
        assert_eq!(said, "down: reply: connection refused (ECONNREFUSED)", "{address}: a closed port");
    }
    let gone = "198.51.100.98".parse().expect("an address");
    let said = knocked(gone, PATIENT);
    assert_eq!(
        said, "down: reply: no route to host (EHOSTUNREACH) (of the ping before the datagram)",
        "nobody there"
    );
}

#[test]
fn ping_of_hosts_that_are_well_and_ill() {
    let network = Network::new();
    let director = &network.director;
    allow_pings(director, EVERYBODY);
    let pinged = |address: IpAddr, limit| check(director, &target(address), ping(), limit);
    let (v4, v6) = server(&network, 29);
    for address in [v4, v6] {
        assert_eq!(pinged(address, PATIENT), "up: echo reply", "{address}");
    }
    for address in ["198.51.100.97", "2001:db8:2::97"].map(|text| text.parse().expect("an address")) {
        let said = pinged(address, PATIENT);
        assert_eq!(said, "down: reply: no route to host (EHOSTUNREACH)", "{address}: nobody there");
    }
    // Told by a route of our own, and by nobody.
    director.ip("route add unreachable 203.0.113.1/32\nroute add prohibit 203.0.113.2/32");
    let said = pinged("203.0.113.1".parse().expect("an address"), PATIENT);
    assert_eq!(said, "down: connect: no route to host (EHOSTUNREACH)");
    let said = pinged("203.0.113.2".parse().expect("an address"), PATIENT);
    assert_eq!(said, "down: connect: permission denied (EACCES)");
    network.servers.run(|| {
        for sysctl in ["ipv4/icmp_echo_ignore_all", "ipv6/icmp/echo_ignore_all"] {
            std::fs::write(format!("/proc/sys/net/{sysctl}"), "1").expect("root may");
        }
    });
    for address in [v4, v6] {
        assert_eq!(pinged(address, SHORT), "down: reply: timed out after 1.5s", "{address}");
    }
}

/// Runs a check without CAP_NET_RAW, which root otherwise has.
fn without_net_raw(space: &Space, target: &Target, kind: CheckKind) -> String {
    space.run(|| {
        let mut sets = capabilities(None).expect("own capabilities");
        sets.effective.remove(CapabilitySet::NET_RAW);
        sets.permitted.remove(CapabilitySet::NET_RAW);
        set_capabilities(None, sets).expect("giving one up is free");
        here(target, kind, PATIENT)
    })
}

#[test]
fn ping_by_group_by_capability_and_by_neither() {
    let network = Network::new();
    let director = &network.director;
    for address in <[IpAddr; 2]>::from(server(&network, 30)) {
        let target = target(address);
        allow_pings(director, EVERYBODY);
        assert_eq!(without_net_raw(director, &target, ping()), "up: echo reply", "{address}: by its group");
        allow_pings(director, NOBODY);
        assert_eq!(check(director, &target, ping(), PATIENT), "up: echo reply", "{address}: by capability");
        assert_eq!(
            without_net_raw(director, &target, ping()),
            "local: socket: open an ICMP socket: neither the sysctl net.ipv4.ping_group_range (with a range that \
             has lvsd's group) nor CAP_NET_RAW (see /usr/share/doc/lvsd/examples/ping.conf) permits it: permission denied (EACCES)",
            "{address}"
        );
        // Without the ping, ICMP errors decide alone.
        let said = without_net_raw(director, &target, knock());
        assert_eq!(said, "down: reply: connection refused (ECONNREFUSED)", "{address}");
    }
}

#[test]
fn source_address_and_device() {
    let network = Network::new();
    let director = &network.director;
    director.ip("addr add 198.51.100.253/24 dev back\naddr add 2001:db8:2::253/64 dev back nodad");
    allow_pings(director, EVERYBODY);
    let own = ["198.51.100.253", "2001:db8:2::253"].map(|text| text.parse::<IpAddr>().expect("an address"));
    let strange = ["192.0.2.77", "2001:db8:1::77"].map(|text| text.parse::<IpAddr>().expect("an address"));
    for ((address, own), strange) in
        <[IpAddr; 2]>::from(server(&network, 31)).into_iter().zip(own).zip(strange)
    {
        answer(&network.servers, address, move |socket, sender| {
            let reply: &[u8] = if sender == SocketAddr::new(own, 5001) { b"pong" } else { b"who are you?" };
            socket.send_to(reply, sender).expect("the way back is there");
        });
        let plain = target(address);
        let said = check(director, &plain, ask(), PATIENT);
        assert_eq!(said, "down: reply: the reply is not the one wanted: \"who are you?\"", "{address}");
        let bound = from(Source { ip: Some(own), port: Some(5001), ..ANY }, address);
        assert_eq!(check(director, &bound, ask(), PATIENT), "up: reply of 4 bytes, as wanted", "{address}");
        let bound = from(Source { ip: Some(own), ..ANY }, address);
        assert_eq!(check(director, &bound, ping(), PATIENT), "up: echo reply", "{address}");
        let bound = from(Source { ip: Some(strange), ..ANY }, address);
        for kind in [ask(), ping()] {
            let said = check(director, &bound, kind, PATIENT);
            assert!(said.starts_with("local: socket: ") && said.ends_with("(EADDRNOTAVAIL)"), "{said}");
        }
        let on = |device: &str| from(Source { interface: Some(device.to_owned()), ..ANY }, address);
        assert_eq!(check(director, &on("back"), ping(), PATIENT), "up: echo reply", "{address}");
        for kind in [ask(), ping()] {
            let said = check(director, &on("nowhere"), kind, PATIENT);
            assert!(said.starts_with("local: socket: ") && said.ends_with("(ENODEV)"), "{said}");
        }
        for kind in [ask(), ping()] {
            let said = check(director, &on("front"), kind, PATIENT);
            assert!(said.starts_with("down: "), "{address}: there is no such host on that side: {said}");
        }
    }
}

/// The only route to the servers is in a table that the mark leads to.
#[test]
fn the_mark_is_on_the_packet() {
    let network = Network::new();
    let director = &network.director;
    allow_pings(director, EVERYBODY);
    let addresses = <[IpAddr; 2]>::from(server(&network, 32));
    for (address, (family, net)) in
        addresses.iter().zip([("-4", "198.51.100.0/24"), ("-6", "2001:db8:2::/64")])
    {
        for line in [
            format!("route add {net} dev back table 100"),
            format!("rule add to {address} fwmark 7 table 100 priority 100"),
            format!("route add unreachable {address} table 101"),
            format!("rule add to {address} table 101 priority 101"),
        ] {
            director.output("ip", &format!("{family} {line}"));
        }
    }
    for address in addresses {
        say(&network.servers, address, b"pong");
        for (kind, good) in [(ask(), "up: reply of 4 bytes, as wanted"), (ping(), "up: echo reply")] {
            let marked = |fwmark| from(Source { fwmark, ..ANY }, address);
            let said = |mark| check(director, &marked(mark), kind.clone(), PATIENT);
            assert_eq!(said(Some(7)), good, "{address}");
            for other in [None, Some(8)] {
                let said = said(other);
                assert!(said.starts_with("down: connect: "), "{address}, mark {other:?}: {said}");
            }
        }
    }
}
