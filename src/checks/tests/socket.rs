//! Connecting: options of the socket, whose fault an error is, the deadline.

use super::*;
use std::net::IpAddr;

fn local_error(outcome: &Outcome) -> &Fault {
    match &outcome.verdict {
        Verdict::LocalError(fault) => fault,
        other => panic!("wanted a local error, got {other:?}"),
    }
}

async fn connect(target: &Target) -> Outcome {
    check(target, CheckKind::Tcp(Tcp::default()), PATIENT).await
}

/// A server, and the addresses that connections to it came from.
async fn peers() -> (SocketAddr, tokio::sync::mpsc::Receiver<SocketAddr>) {
    let (seen, peers) = tokio::sync::mpsc::channel(8);
    let address = serve(move |stream| {
        let seen = seen.clone();
        async move {
            if let Ok(peer) = stream.peer_addr() {
                seen.send(peer).await.unwrap();
            }
        }
    })
    .await;
    (address, peers)
}

/// A free port of 127.0.0.3.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.3:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn the_source_is_the_one_configured() {
    // Closed by the server only after the peer has been read: a check resets at once.
    let (address, mut peers) = peers().await;
    let hold = Tcp { expect: Some(crate::engine::model::Expect::Bytes(b"never".to_vec())), ..Tcp::default() };
    let from = |ip: Option<&str>, port| {
        from(address, Source { ip: ip.map(|it| it.parse().unwrap()), port, ..Source::default() })
    };
    let held = async |target: Target| check(&target, CheckKind::Tcp(hold.clone()), PATIENT).await;

    let _closed = held(from(Some("127.0.0.2"), None)).await;
    assert_eq!(peers.recv().await.unwrap().ip(), "127.0.0.2".parse::<IpAddr>().unwrap());
    let port = free_port();
    // Twice: no port may be left behind in TIME_WAIT.
    for _ in 0..2 {
        let _closed = held(from(Some("127.0.0.3"), Some(port))).await;
        assert_eq!(peers.recv().await.unwrap(), SocketAddr::new("127.0.0.3".parse().unwrap(), port));
    }
    let port = free_port();
    let _closed = held(from(None, Some(port))).await;
    assert_eq!(peers.recv().await.unwrap().port(), port);
}

#[tokio::test]
async fn an_address_that_is_not_ours_is_our_fault() {
    let address = serve(|_| async {}).await;
    let source = Source { ip: Some("192.0.2.77".parse().unwrap()), ..Source::default() };
    let bound = from(address, source.clone());
    let fault = Fault {
        phase: Phase::Source,
        reason: "bind to 192.0.2.77: cannot assign requested address (EADDRNOTAVAIL)".to_owned(),
    };
    assert_eq!(local_error(&connect(&bound).await), &fault);

    let bound = from(address, Source { port: Some(9), ..source });
    assert!(local_error(&connect(&bound).await).reason.starts_with("bind to 192.0.2.77:9: "));

    let other_family = from(address, Source { ip: Some("::1".parse().unwrap()), ..Source::default() });
    assert_eq!(local_error(&connect(&other_family).await).phase, Phase::Source);
}

#[tokio::test]
async fn a_port_in_use_is_our_fault() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let address = serve(|_| async {}).await;
    let source = Source { ip: Some("127.0.0.1".parse().unwrap()), port: Some(port), ..Source::default() };
    let bound = from(address, source);
    let reason = format!("bind to 127.0.0.1:{port}: address already in use (EADDRINUSE)");
    assert_eq!(local_error(&connect(&bound).await).reason, reason);
}

#[tokio::test]
async fn an_interface_that_is_not_there_is_our_fault() {
    let address = serve(|_| async {}).await;
    let bound = from(address, Source { interface: Some("nosuchif0".to_owned()), ..Source::default() });
    let reason = "bind to interface nosuchif0: no such device (ENODEV)";
    assert_eq!(local_error(&connect(&bound).await).reason, reason);
    let bound = from(address, Source { interface: Some("lo".to_owned()), ..Source::default() });
    assert_up(&connect(&bound).await, "connected");
}

#[tokio::test]
async fn a_mark_is_set_or_not_allowed() {
    let address = serve(|_| async {}).await;
    let marked = from(address, Source { fwmark: Some(7), ..Source::default() });
    let outcome = connect(&marked).await;
    // CAP_NET_ADMIN is bit 12 of the effective capabilities.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    if u64::from_str_radix(effective.trim(), 16).unwrap() & (1 << 12) == 0 {
        let reason = "set SO_MARK to 7: operation not permitted (EPERM)";
        assert_eq!(local_error(&outcome).reason, reason);
    } else {
        assert_up(&outcome, "connected");
    }
}

/// A listener that never accepts, its backlog full: the kernel drops what comes.
fn black_hole() -> (socket2::Socket, Vec<std::net::TcpStream>, SocketAddr) {
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    listener.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let wait = Duration::from_millis(100);
    let mut waiting = Vec::new();
    for _ in 0..64 {
        match std::net::TcpStream::connect_timeout(&address, wait) {
            Ok(stream) => waiting.push(stream),
            Err(_) => return (listener, waiting, address),
        }
    }
    panic!("the backlog never fills");
}

#[tokio::test]
async fn a_black_hole_costs_the_timeout() {
    let (_listener, _waiting, address) = black_hole();
    let outcome = check_tcp(address, Tcp::default(), SHORT).await;
    assert_down(&outcome, Phase::Connect, "timed out after 200ms");
    assert!(outcome.latency >= SHORT, "{:?}", outcome.latency);
    let outcome = check_http(address, get("/"), SHORT).await;
    assert_down(&outcome, Phase::Connect, "timed out after 200ms");
}

#[tokio::test]
async fn a_timeout_beyond_all_clocks_is_none() {
    let address = serve(|_| async {}).await;
    assert_up(&check_tcp(address, Tcp::default(), Duration::MAX).await, "connected");
}

#[tokio::test]
async fn checks_leave_no_port_behind() {
    let address = serve(|stream| async move {
        tokio::time::sleep(PATIENT).await;
        drop(stream);
    })
    .await;
    let prepared = Preparer::new().prepare(&Arc::new(CheckKind::Tcp(Tcp::default()))).unwrap();
    for _ in 0..50 {
        assert_up(&run(&target(address), &prepared, PATIENT).await, "connected");
    }
    // Remote address and state 06, TIME_WAIT, of the lines about our server.
    let server = format!("0100007F:{:04X} 06", address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let left = table.lines().filter(|line| line.contains(&server)).count();
    assert_eq!(left, 0, "{table}");
}
