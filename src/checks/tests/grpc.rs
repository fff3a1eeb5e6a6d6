//! The `grpc` check against HTTP/2 servers that answer well and badly, and against none.

use ::http::{HeaderMap, Response};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::pki::{Identity, Pki, params, plain, serve_tls, with_versions};
use super::*;
use crate::engine::model::{Grpc, Tls};

/// How a server answers.
#[derive(Clone, Default)]
struct Answer {
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
    /// `None`: the headers are all.
    body: Option<Vec<u8>>,
    trailers: Option<Vec<(&'static str, &'static str)>>,
}

/// The usual one, with this status of the service and this grpc-status.
fn answer(serving: u8, status: &'static str) -> Answer {
    Answer {
        status: 200,
        headers: vec![("content-type", "application/grpc+proto")],
        body: Some(vec![0, 0, 0, 0, 2, 8, serving]),
        trailers: Some(vec![("grpc-status", status)]),
    }
}

fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

/// Answers calls and gives what was asked, as `METHOD URI te content-type: bytes`.
async fn session(stream: impl AsyncRead + AsyncWrite + Unpin, answer: Answer, seen: Seen) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, mut reply))) = connection.accept().await {
        let (head, mut body) = request.into_parts();
        let (answer, seen) = (answer.clone(), seen.clone());
        tokio::spawn(async move {
            let asked = body.data().await.unwrap().unwrap();
            let header = |name| head.headers[name].to_str().unwrap().to_owned();
            let line = format!("{} {} {} {}", head.method, head.uri, header("te"), header("content-type"));
            seen.send((line, asked.to_vec())).unwrap();
            let mut response = Response::new(());
            *response.status_mut() = answer.status.try_into().unwrap();
            *response.headers_mut() = map(&answer.headers);
            let Ok(mut stream) = reply.send_response(response, answer.body.is_none()) else { return };
            if let Some(body) = answer.body {
                let _client_may_be_gone = stream.send_data(Bytes::from(body), answer.trailers.is_none());
                if let Some(trailers) = answer.trailers {
                    let _client_may_be_gone = stream.send_trailers(map(&trailers));
                }
            }
        });
    }
}

type Seen = tokio::sync::mpsc::UnboundedSender<(String, Vec<u8>)>;

async fn serve_grpc(answer: Answer) -> (SocketAddr, tokio::sync::mpsc::UnboundedReceiver<(String, Vec<u8>)>) {
    let (seen, asked) = tokio::sync::mpsc::unbounded_channel();
    let address = serve(move |stream| session(stream, answer.clone(), seen.clone())).await;
    (address, asked)
}

async fn check_grpc(address: SocketAddr, service: &str, tls: Option<Tls>, timeout: Duration) -> Outcome {
    check(&target(address), CheckKind::Grpc(Grpc { service: service.to_owned(), tls }), timeout).await
}

#[tokio::test]
async fn a_server_that_serves() {
    let (address, mut asked) = serve_grpc(answer(1, "0")).await;
    assert_up(&check_grpc(address, "shop.Cart", None, PATIENT).await, "SERVING");
    let (line, bytes) = asked.recv().await.unwrap();
    let uri = format!("POST http://{address}/grpc.health.v1.Health/Check trailers application/grpc");
    assert_eq!((line, bytes.as_slice()), (uri, b"\0\0\0\0\x0b\x0a\x09shop.Cart".as_slice()));
}

#[tokio::test]
async fn answers_that_are_failures() {
    let kind = vec![("content-type", "application/grpc")];
    let only = |headers: &[(&'static str, &'static str)]| Answer {
        status: 200,
        headers: [kind.as_slice(), headers].concat(),
        body: None,
        trailers: None,
    };
    let with = |body: Vec<u8>| Answer { body: Some(body), ..answer(1, "0") };
    let cases = [
        (answer(2, "0"), Phase::Status, "service \"a\" is NOT_SERVING, wanted SERVING"),
        (answer(0, "0"), Phase::Status, "service \"a\" is UNKNOWN, wanted SERVING"),
        (answer(3, "0"), Phase::Status, "service \"a\" is SERVICE_UNKNOWN, wanted SERVING"),
        (answer(7, "0"), Phase::Status, "service \"a\" is status 7, which is not known, wanted SERVING"),
        (answer(1, "14"), Phase::Status, "grpc-status 14 (UNAVAILABLE)"),
        (
            only(&[("grpc-status", "5"), ("grpc-message", "unknown%20service")]),
            Phase::Status,
            "grpc-status 5 (NOT_FOUND): the server does not know this service, \"unknown service\"",
        ),
        (only(&[("grpc-status", "0")]), Phase::Status, "the answer has no grpc-status behind it"),
        (
            Answer { trailers: None, ..answer(1, "0") },
            Phase::Status,
            "the answer has no grpc-status behind it",
        ),
        (Answer { status: 503, ..answer(1, "0") }, Phase::Status, "HTTP status 503, wanted 200"),
        (
            Answer { headers: vec![("content-type", "text/html")], ..answer(1, "0") },
            Phase::Status,
            "the answer is \"text/html\", wanted application/grpc",
        ),
        (
            Answer { headers: vec![("content-type", "application/grpc-web")], ..answer(1, "0") },
            Phase::Status,
            "the answer is \"application/grpc-web\", wanted application/grpc",
        ),
        (with(vec![0, 0, 0, 0, 9, 8, 1]), Phase::Body, "the message is cut short"),
        (with(vec![1, 0, 0, 0, 2, 8, 1]), Phase::Body, "the message is compressed, which was not agreed on"),
        (with(vec![0, 0, 0, 0, 1, 0xff]), Phase::Body, "the message is no HealthCheckResponse"),
        (with(vec![0; 5000]), Phase::Body, "the answer is longer than 4096 bytes"),
    ];
    for (answer, phase, reason) in cases {
        let (address, _asked) = serve_grpc(answer).await;
        assert_down(&check_grpc(address, "a", None, PATIENT).await, phase, reason);
    }
    let (address, _asked) = serve_grpc(answer(2, "0")).await;
    let outcome = check_grpc(address, "", None, PATIENT).await;
    assert_down(&outcome, Phase::Status, "the server is NOT_SERVING, wanted SERVING");
}

#[tokio::test]
async fn servers_without_http2() {
    let cases: [(&[u8], Phase); 3] = [
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", Phase::Reply),
        (b"220 mx ESMTP\r\n", Phase::Reply),
        (b"", Phase::Reply),
    ];
    for (reply, phase) in cases {
        let address = serve(move |mut stream| async move {
            let _client_may_be_gone = stream.write_all(reply).await;
        })
        .await;
        down_in(&check_grpc(address, "", None, PATIENT).await, phase);
    }
    let mute = serve(|stream| async move {
        tokio::time::sleep(PATIENT).await;
        drop(stream);
    })
    .await;
    let outcome = check_grpc(mute, "", None, SHORT).await;
    assert_down(&outcome, Phase::Reply, "timed out after 200ms; no answer to the call");
    // Frames that ask for answers, without an end.
    let pings = serve(|mut stream| async move {
        stream.write_all(b"\0\0\0\x04\0\0\0\0\0").await.unwrap();
        let (mut read, mut write) = stream.split();
        let read = async { while read.read(&mut [0; 4096]).await.unwrap_or(0) > 0 {} };
        let ping = async { while write.write_all(b"\0\0\x08\x06\0\0\0\0\0PINGPING").await.is_ok() {} };
        tokio::join!(read, ping);
    })
    .await;
    let outcome = check_grpc(pings, "", None, SHORT).await;
    assert_down(&outcome, Phase::Reply, "timed out after 200ms; no answer to the call");
}

#[tokio::test]
async fn an_answer_that_does_not_end() {
    let endless = serve(|stream| async move {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let (_, mut reply) = connection.accept().await.unwrap().unwrap();
        let response = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
        let mut stream = reply.send_response(response, false).unwrap();
        stream.send_data(Bytes::from_static(&[0, 0, 0, 0, 2, 8, 1]), false).unwrap();
        while connection.accept().await.is_some() {}
    })
    .await;
    let outcome = check_grpc(endless, "", None, SHORT).await;
    assert_down(&outcome, Phase::Body, "timed out after 200ms; the answer did not end");
}

#[tokio::test]
async fn over_tls() {
    let pki = Pki::new();
    let h2 = || Some(Tls { alpn: vec!["h2".to_owned()], ..pki.tls() });
    let identity = || -> Identity { pki.issue(&params(&["127.0.0.1"])) };
    let mut config = with_versions(identity(), rustls::ALL_VERSIONS);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (seen, mut asked) = tokio::sync::mpsc::unbounded_channel();
    let address =
        serve_tls(Arc::new(config), move |stream| session(stream, answer(1, "0"), seen.clone())).await;
    assert_up(&check_grpc(address, "", h2(), PATIENT).await, "SERVING, TLS 1.3");
    let (line, _) = asked.recv().await.unwrap();
    assert!(line.starts_with(&format!("POST https://{address}/grpc.health.v1.Health/Check ")), "{line}");

    let by_number = Some(Tls { server_name: Some("::1".to_owned()), verify: false, ..h2().unwrap() });
    assert_up(&check_grpc(address, "", by_number, PATIENT).await, "SERVING, TLS 1.3");
    let (line, _) = asked.recv().await.unwrap();
    assert!(line.starts_with("POST https://[::1]/grpc.health.v1.Health/Check "), "{line}");

    let (seen, _asked) = tokio::sync::mpsc::unbounded_channel();
    let no_alpn =
        serve_tls(plain(identity()), move |stream| session(stream, answer(1, "0"), seen.clone())).await;
    let outcome = check_grpc(no_alpn, "", h2(), PATIENT).await;
    let reason = "the server did not choose h2 by ALPN, so it has no gRPC here";
    assert_down(&outcome, Phase::TlsHandshake, reason);
}
