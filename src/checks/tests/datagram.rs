//! The `udp`, `dns` and `ping` checks against small servers on loopback, good and bad.

use tokio::net::UdpSocket;

use super::*;
use crate::engine::model::{Dns, DnsTransport, Ping, ReplyPattern, Udp};

/// Answers each datagram with what `answer` makes of it; nothing is silence.
async fn serve_udp(answer: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_535];
        while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
            for reply in answer(&buffer[..length]) {
                let _client_may_be_gone = socket.send_to(&reply, client).await;
            }
        }
    });
    address
}

async fn closed_port() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

async fn check_udp(address: SocketAddr, udp: Udp, timeout: Duration) -> Outcome {
    check(&target(address), CheckKind::Udp(udp), timeout).await
}

fn wanting(text: &str) -> Udp {
    let nibbles = text.bytes().flat_map(|byte| [Some(byte >> 4), Some(byte & 0x0f)]).collect();
    Udp { payload: b"ping".to_vec(), reply: Some(ReplyPattern::Nibbles(nibbles)), ..Udp::default() }
}

#[tokio::test]
async fn a_wanted_reply() {
    let echo = serve_udp(|bytes| vec![bytes.to_vec()]).await;
    assert_up(&check_udp(echo, wanting("pi"), PATIENT).await, "reply of 4 bytes, as wanted");
    let outcome = check_udp(echo, wanting("pong"), PATIENT).await;
    assert_down(&outcome, Phase::Reply, "the reply is not the one wanted: \"ping\"");
    let short = Udp { max_reply: Some(3), ..wanting("pi") };
    let outcome = check_udp(echo, short, PATIENT).await;
    assert_down(&outcome, Phase::Reply, "the reply has 4 bytes, wanted at most 3: \"ping\"");
    let long = Udp { min_reply: Some(5), ..wanting("pi") };
    let outcome = check_udp(echo, long, PATIENT).await;
    assert_down(&outcome, Phase::Reply, "the reply has 4 bytes, wanted at least 5: \"ping\"");
    let any = Udp { require_reply: true, ..Udp::default() };
    assert_up(&check_udp(echo, any, PATIENT).await, "reply of 0 bytes, as wanted");
}

#[tokio::test]
async fn a_wanted_reply_that_does_not_come() {
    let mute = serve_udp(|_| Vec::new()).await;
    let outcome = check_udp(mute, wanting("x"), SHORT).await;
    assert_down(&outcome, Phase::Reply, "timed out after 200ms without a reply");
    let outcome = check_udp(closed_port().await, wanting("x"), PATIENT).await;
    assert_down(&outcome, Phase::Reply, "connection refused (ECONNREFUSED)");
}

#[tokio::test]
async fn a_datagram_of_the_largest_size() {
    let large = serve_udp(|_| vec![vec![b'x'; 65_507]]).await;
    let udp = Udp { min_reply: Some(65_507), ..wanting("x") };
    assert_up(&check_udp(large, udp, PATIENT).await, "reply of 65507 bytes, as wanted");
}

/// Where this host permits no ping, ICMP errors alone decide, in both directions.
#[tokio::test]
async fn without_a_wanted_reply() {
    let timeout = Duration::from_secs(1);
    let echo = serve_udp(|bytes| vec![bytes.to_vec()]).await;
    let payload = Udp { payload: b"abc".to_vec(), ..Udp::default() };
    assert_up(&check_udp(echo, payload, timeout).await, "reply of 3 bytes");
    let outcome = check_udp(closed_port().await, Udp::default(), timeout).await;
    assert_down(&outcome, Phase::Reply, "connection refused (ECONNREFUSED)");
    let mute = serve_udp(|_| Vec::new()).await;
    let outcome = check_udp(mute, Udp::default(), timeout).await;
    let Verdict::Success { detail, .. } = &outcome.verdict else { panic!("{outcome:?}") };
    assert!(detail.starts_with("no ICMP error within "), "{detail}");
}

#[tokio::test]
async fn a_source_address_and_a_device() {
    let echo = serve_udp(|bytes| vec![bytes.to_vec()]).await;
    let any = || CheckKind::Udp(Udp { require_reply: true, ..Udp::default() });
    let bound = from(echo, Source { ip: Some("127.0.0.9".parse().unwrap()), ..Source::default() });
    assert_up(&check(&bound, any(), PATIENT).await, "reply of 0 bytes, as wanted");
    let ours = [any(), CheckKind::Dns(soa()), CheckKind::Udp(Udp::default())];
    for kind in ours {
        let bound = from(echo, Source { interface: Some("nosuchif0".to_owned()), ..Source::default() });
        let outcome = check(&bound, kind, PATIENT).await;
        let Verdict::LocalError(fault) = &outcome.verdict else { panic!("{outcome:?}") };
        assert_eq!(fault.phase, Phase::Source, "{fault}");
    }
}

/// Up where this host permits it; else our own fault, and never the server's.
#[tokio::test]
async fn a_ping() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        for size in [0, 56, 9000] {
            let target = target(address.parse().unwrap());
            let outcome = check(&target, CheckKind::Ping(Ping { size }), PATIENT).await;
            match &outcome.verdict {
                Verdict::Success { detail, .. } => assert_eq!(detail, "echo reply"),
                Verdict::LocalError(fault) => assert!(fault.reason.contains("CAP_NET_RAW"), "{fault}"),
                Verdict::Failure(fault) => panic!("{address}, {size} bytes: {fault}"),
            }
        }
    }
}

fn soa() -> Dns {
    Dns {
        name: ".".to_owned(),
        record_type: 6,
        rcodes: vec![0],
        expect: Vec::new(),
        transport: DnsTransport::Udp,
    }
}

async fn check_dns(address: SocketAddr, dns: Dns, timeout: Duration) -> Outcome {
    check(&target(address), CheckKind::Dns(dns), timeout).await
}

/// The query as a reply without answers, with these flags and this code.
fn answered(query: &[u8], flags: u8, rcode: u8) -> Vec<u8> {
    let mut reply = query.to_vec();
    reply[2] |= 0x80 | flags;
    reply[3] = 0x80 | rcode;
    reply
}

#[tokio::test]
async fn response_codes() {
    let good = serve_udp(|query| vec![answered(query, 0, 0)]).await;
    assert_up(&check_dns(good, soa(), PATIENT).await, "NOERROR, 0 answers");
    let failing = serve_udp(|query| vec![answered(query, 0, 2)]).await;
    let outcome = check_dns(failing, soa(), PATIENT).await;
    assert_down(&outcome, Phase::Status, "SERVFAIL, wanted NOERROR");
    let either = Dns { rcodes: vec![2, 3], ..soa() };
    assert_up(&check_dns(failing, either.clone(), PATIENT).await, "SERVFAIL, 0 answers");
    let outcome = check_dns(good, either, PATIENT).await;
    assert_down(&outcome, Phase::Status, "NOERROR, wanted SERVFAIL or NXDOMAIN");
}

#[tokio::test]
async fn truncated_replies() {
    let truncated = serve_udp(|query| vec![answered(query, 2, 0)]).await;
    assert_up(&check_dns(truncated, soa(), PATIENT).await, "NOERROR, 0 answers, truncated");
    let dns = Dns { expect: vec!["192.0.2.1".to_owned()], ..soa() };
    let outcome = check_dns(truncated, dns, PATIENT).await;
    let reason = "the reply is truncated and lacks \"192.0.2.1\"; use transport = \"tcp\"";
    assert_down(&outcome, Phase::Body, reason);
}

#[tokio::test]
async fn an_answer_that_is_missing() {
    let empty = serve_udp(|query| vec![answered(query, 0, 0)]).await;
    let dns = Dns { expect: vec!["192.0.2.1".to_owned()], ..soa() };
    let outcome = check_dns(empty, dns, PATIENT).await;
    assert_down(&outcome, Phase::Body, "\"192.0.2.1\" is not among the answers (there are none)");
}

#[tokio::test]
async fn replies_to_other_queries_are_passed_over() {
    let noisy = serve_udp(|query| {
        let mut other = answered(query, 0, 2);
        other[0] ^= 0xff;
        vec![b"nonsense".to_vec(), Vec::new(), query.to_vec(), other, answered(query, 0, 0)]
    })
    .await;
    assert_up(&check_dns(noisy, soa(), PATIENT).await, "NOERROR, 0 answers");
    let wrong = serve_udp(|query| {
        let mut other = answered(query, 0, 0);
        other[1] ^= 0xff;
        vec![other]
    })
    .await;
    let outcome = check_dns(wrong, soa(), SHORT).await;
    let reason =
        "timed out after 200ms; the last of the replies passed over: the id is not that of the query";
    assert_down(&outcome, Phase::Reply, reason);
}

#[tokio::test]
async fn nobody_answers_dns() {
    let mute = serve_udp(|_| Vec::new()).await;
    assert_down(&check_dns(mute, soa(), SHORT).await, Phase::Reply, "timed out after 200ms");
    let outcome = check_dns(closed_port().await, soa(), PATIENT).await;
    assert_down(&outcome, Phase::Reply, "connection refused (ECONNREFUSED)");
}

/// Answers over TCP with what `answer` makes of the query, byte by byte.
async fn serve_dns_tcp(answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> SocketAddr {
    let answer = Arc::new(answer);
    serve(move |mut stream| {
        let answer = Arc::clone(&answer);
        async move {
            let length = stream.read_u16().await.unwrap();
            let mut query = vec![0; usize::from(length)];
            stream.read_exact(&mut query).await.unwrap();
            for byte in answer(&query) {
                stream.write_all(&[byte]).await.unwrap();
            }
        }
    })
    .await
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&u16::try_from(message.len()).unwrap().to_be_bytes(), message].concat()
}

#[tokio::test]
async fn over_tcp() {
    let dns = Dns { transport: DnsTransport::Tcp, ..soa() };
    let good = serve_dns_tcp(|query| framed(&answered(query, 0, 0))).await;
    assert_up(&check_dns(good, dns.clone(), PATIENT).await, "NOERROR, 0 answers");
    let short = serve_dns_tcp(|query| framed(&answered(query, 0, 0))[..10].to_vec()).await;
    let outcome = check_dns(short, dns.clone(), PATIENT).await;
    assert_down(&outcome, Phase::Reply, "connection closed before the end of the reply");
    let other = serve_dns_tcp(|query| framed(&answered(&[&[0, 0], &query[2..]].concat(), 0, 0))).await;
    let outcome = check_dns(other, dns.clone(), PATIENT).await;
    assert_down(&outcome, Phase::Reply, "the id is not that of the query");
    let nonsense = serve_dns_tcp(|_| framed(b"nonsense")).await;
    let outcome = check_dns(nonsense, dns, PATIENT).await;
    assert!(down_in(&outcome, Phase::Reply).starts_with("not a DNS message"), "{outcome:?}");
}
