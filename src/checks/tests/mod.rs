//! The probes against real sockets on loopback: small servers that behave well and badly.

mod datagram;
mod dialogue;
mod grpc;
mod http;
mod http_endings;
mod pki;
mod smtp;
mod socket;
mod tcp;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{Preparer, run};
use crate::engine::model::{
    CheckKind, Fault, Http, HttpVersion, Outcome, Phase, Source, StatusSet, Target, Tcp, Url, Verdict,
    WeightChange,
};

/// For checks that are to end by themselves.
const PATIENT: Duration = Duration::from_secs(20);
/// For checks that are to be ended.
const SHORT: Duration = Duration::from_millis(200);

/// A server on a port of its own, one task per connection, until the test's runtime ends.
async fn serve<F, S>(session: S) -> SocketAddr
where
    S: Fn(TcpStream) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    serve_on("127.0.0.1:0", session).await
}

async fn serve_on<F, S>(address: &str, session: S) -> SocketAddr
where
    S: Fn(TcpStream) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(session(stream));
        }
    });
    address
}

/// Reads a request up to the end of its head.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.unwrap_or(0) == 1 {
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).unwrap()
}

/// Answers each request with these bytes and closes.
async fn serve_reply(reply: impl Into<Vec<u8>>) -> SocketAddr {
    let reply: Arc<[u8]> = reply.into().into();
    serve(move |mut stream| {
        let reply = Arc::clone(&reply);
        async move {
            read_request(&mut stream).await;
            let _client_may_be_gone = stream.write_all(&reply).await;
        }
    })
    .await
}

fn target(address: SocketAddr) -> Target {
    Target { address: address.ip(), port: address.port(), source: None }
}

fn from(address: SocketAddr, source: Source) -> Target {
    Target { source: Some(Arc::new(source)), ..target(address) }
}

fn get(path: &str) -> Http {
    Http {
        urls: vec![url(path)],
        method: "GET".to_owned(),
        version: HttpVersion::Http11,
        virtualhost: None,
        headers: Vec::new(),
        request_body: None,
        max_body: 1 << 20,
        tls: None,
        follow_redirects: false,
    }
}

fn url(path: &str) -> Url {
    Url {
        path: path.to_owned(),
        virtualhost: None,
        status: StatusSet::new([(200, 299)]),
        body: None,
        digest: None,
    }
}

async fn check(target: &Target, kind: CheckKind, timeout: Duration) -> Outcome {
    let prepared = Preparer::new().prepare(&Arc::new(kind)).unwrap();
    run(target, &prepared, timeout).await
}

async fn check_tcp(address: SocketAddr, tcp: Tcp, timeout: Duration) -> Outcome {
    check(&target(address), CheckKind::Tcp(tcp), timeout).await
}

async fn check_http(address: SocketAddr, http: Http, timeout: Duration) -> Outcome {
    check(&target(address), CheckKind::Http(http), timeout).await
}

#[track_caller]
fn assert_up(outcome: &Outcome, wanted: &str) {
    let success = Verdict::Success { detail: wanted.to_owned(), weight: WeightChange::None };
    assert_eq!(outcome.verdict, success);
    assert!(outcome.latency > Duration::ZERO);
}

#[track_caller]
fn assert_down(outcome: &Outcome, phase: Phase, reason: &str) {
    assert_eq!(outcome.verdict, Verdict::Failure(Fault { phase, reason: reason.to_owned() }));
}

/// The reason of a failure in this phase.
#[track_caller]
fn down_in(outcome: &Outcome, wanted: Phase) -> &str {
    match &outcome.verdict {
        Verdict::Failure(Fault { phase, reason }) if *phase == wanted => reason,
        other => panic!("wanted a failure in {wanted:?}, got {other:?}"),
    }
}

#[test]
fn probes_may_move_between_threads() {
    fn is_shared<T: Send + Sync>() {}
    fn is_sent(_: impl Send) {}
    is_shared::<Preparer>();
    is_shared::<super::Prepared>();
    let prepared = Preparer::new().prepare(&Arc::new(CheckKind::Tcp(Tcp::default()))).unwrap();
    let target = target("127.0.0.1:1".parse().unwrap());
    is_sent(run(&target, &prepared, PATIENT));
}

#[test]
fn a_run_is_small() {
    // Thousands may wait for mute servers at once.
    let prepared = Preparer::new().prepare(&Arc::new(CheckKind::Http(get("/")))).unwrap();
    let target = target("127.0.0.1:1".parse().unwrap());
    let size = size_of_val(&run(&target, &prepared, PATIENT));
    assert!(size <= 1536, "{size} bytes");
}
