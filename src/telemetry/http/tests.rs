//! The listener against raw sockets: what it answers, and what a rude client cannot do to it.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::*;

/// A listener on a thread of its own with a current_thread runtime, as the daemon runs it.
struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(routes: Routes, limits: Limits) -> Self {
        let (listener, address) = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let shutdown = async { drop(stopped.await) };
            runtime.block_on(serve(listener, routes, limits, Closed::default(), shutdown)).unwrap();
        });
        Self { address, stop: Some(stop), thread: Some(thread) }
    }

    fn connect(&self) -> std::net::TcpStream {
        let stream = std::net::TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends `request`, closes its side, and returns all that came back.
    fn ask(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        read_all(&mut stream)
    }

    fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Until the other side closes, politely or not.
fn read_all(stream: &mut std::net::TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => String::from_utf8(bytes).unwrap(),
    }
}

fn says(body: &'static str) -> Handler<Answer> {
    Arc::new(move |_| Box::pin(async move { text(StatusCode::OK, body) }))
}

fn never() -> Handler<Answer> {
    Arc::new(|_| Box::pin(std::future::pending()))
}

fn quick() -> Limits {
    Limits { head: Duration::from_millis(200), answer: Duration::from_millis(200), ..Limits::default() }
}

/// Says that it has ten bytes, and has five.
struct CutOff(bool);

impl Body for CutOff {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, &'static str>>> {
        let first = std::mem::take(&mut self.0);
        let frame = hyper::body::Frame::data(Bytes::from_static(b"12345"));
        std::task::Poll::Ready(Some(if first { Ok(frame) } else { Err("cut off") }))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        hyper::body::SizeHint::with_exact(10)
    }
}

/// What is cut off must not pass for all there is.
#[test]
fn a_body_that_fails_ends_the_connection() {
    let handler: Handler<CutOff> = Arc::new(|_| Box::pin(async { Response::new(CutOff(true)) }));
    let server = Server::start(Routes::new().with("/cut", handler).with("/ok", says("ok")), quick());
    let answer = server.ask("GET /cut HTTP/1.1\r\nHost: x\r\n\r\nGET /ok HTTP/1.1\r\nHost: x\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    assert!(body.len() < 10 && "12345".starts_with(body), "{answer}");
    assert!(head.is_empty() || head.to_lowercase().contains("content-length: 10"), "{answer}");
    assert!(server.ask("GET /ok HTTP/1.0\r\n\r\n").ends_with("\r\n\r\nok"));
}

#[test]
fn routes_methods_and_bodies() {
    let server = Server::start(Routes::new().with("/healthz", says("ok")).with("/hang", never()), quick());
    let cases = [
        ("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "200", "ok"),
        ("GET /healthz?verbose=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "200", "ok"),
        ("GET http://x/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "200", "ok"),
        ("GET /healthz HTTP/1.0\r\n\r\n", "200", "ok"),
        ("HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "200", ""),
        ("GET /healthz/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "404", "not found\n"),
        ("POST /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "404", "not found\n"),
        ("POST /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "405", "method not allowed\n"),
        (
            "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
            "413",
            "no request body, please\n",
        ),
        (
            "GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
            "413",
            "no request body, please\n",
        ),
        ("GET /hang HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "503", "no answer in time\n"),
        ("junk\r\n\r\n", "400", ""),
    ];
    for (request, status, body) in cases {
        let answer = server.ask(request);
        let (head, got) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{request:?}: {answer:?}"));
        assert_eq!(head.split(' ').nth(1), Some(status), "{request:?}: {answer:?}");
        assert_eq!(got, body, "{request:?}");
        if status == "405" {
            assert!(head.to_lowercase().contains("\r\nallow: get, head"), "{head:?}");
        }
        if request.starts_with("HEAD") {
            assert!(head.to_lowercase().contains("content-length: 2"), "{head:?}");
        }
    }
}

#[test]
fn a_connection_serves_several_requests_in_order() {
    let server = Server::start(Routes::new().with("/a", says("A")).with("/b", says("B")), quick());
    let answer = server
        .ask("GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\nConnection: close\r\n\r\n");
    let bodies: Vec<&str> = answer.split("\r\n\r\n").skip(1).map(|rest| rest.get(..1).unwrap()).collect();
    assert_eq!(bodies, ["A", "B", "A"], "{answer:?}");
}

#[test]
fn a_slow_head_and_an_idle_connection_are_cut_off() {
    let server = Server::start(Routes::new().with("/healthz", says("ok")), quick());
    // A byte now and then does not extend the deadline; a bound of steps, not of time.
    let mut slow = server.connect();
    let cut_off = (0..1000).any(|_| {
        let sent = slow.write_all(b"x");
        slow.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut byte = [0; 64];
        match slow.read(&mut byte) {
            Ok(length) => length == 0,
            Err(error) => {
                sent.is_err() || !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
            }
        }
    });
    assert!(cut_off);
    let mut idle = server.connect();
    assert_eq!(read_all(&mut idle), "");
}

#[test]
fn an_endless_head_is_refused() {
    let server = Server::start(Routes::new().with("/healthz", says("ok")), Limits::default());
    for filler in ["X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n", "y"] {
        let mut stream = server.connect();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nA: ").unwrap();
        let accepted = (0..100_000).take_while(|_| stream.write_all(filler.as_bytes()).is_ok()).count();
        drop(stream.shutdown(Shutdown::Write));
        let answer = read_all(&mut stream);
        assert!(accepted < 100_000, "{accepted}");
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer:?}");
    }
}

#[test]
fn the_oldest_connection_makes_room_for_a_new_one() {
    let limits = Limits { connections: 4, ..Limits::default() };
    let server = Server::start(Routes::new().with("/healthz", says("ok")), limits);
    let mut squatters: Vec<_> = (0..20).map(|_| server.connect()).collect();
    assert!(server.ask("GET /healthz HTTP/1.0\r\n\r\n").ends_with("ok"));
    // At most the newest three can still be there.
    for squatter in &mut squatters[..17] {
        assert_eq!(read_all(squatter), "");
    }
}

#[test]
fn a_client_that_does_not_read_ends_with_its_lifetime() {
    let big: &'static str = Box::leak("z".repeat(8 << 20).into_boxed_str());
    let limits = Limits {
        lifetime: Duration::from_millis(300),
        stop: Duration::from_millis(100),
        ..Limits::default()
    };
    let server = Server::start(Routes::new().with("/big", says(big)), limits);
    let mut deaf = server.connect();
    deaf.write_all(b"GET /big HTTP/1.1\r\n\r\n").unwrap();
    // Not reading, wait for the reset that follows when the server gives up on us.
    let gone = (0..1000).any(|_| {
        std::thread::park_timeout(Duration::from_millis(10));
        deaf.take_error().unwrap().is_some() || deaf.write_all(b"\r\n").is_err()
    });
    assert!(gone);
}

#[test]
fn stopping_lets_an_answer_finish_and_refuses_new_connections() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let slow: Handler<Answer> = Arc::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Box::pin(async {
            sleep(Duration::from_millis(300)).await;
            text(StatusCode::OK, "done")
        })
    });
    let mut server = Server::start(Routes::new().with("/slow", slow), Limits::default());
    let mut idle = server.connect();
    let mut stream = server.connect();
    stream.write_all(b"GET /slow HTTP/1.1\r\n\r\n").unwrap();
    let began = (0..1000).any(|_| {
        std::thread::park_timeout(Duration::from_millis(10));
        asked.load(Ordering::SeqCst) == 1
    });
    assert!(began);
    server.stop();
    assert!(read_all(&mut stream).ends_with("done"));
    assert_eq!(read_all(&mut idle), "");
    assert!(std::net::TcpStream::connect(server.address).is_err());
}

#[test]
fn a_handler_that_panics_costs_its_connection_only() {
    let broken: Handler<Answer> = Arc::new(|_| panic!("on purpose"));
    let server = Server::start(Routes::new().with("/broken", broken).with("/healthz", says("ok")), quick());
    assert_eq!(server.ask("GET /broken HTTP/1.1\r\n\r\n"), "");
    assert!(server.ask("GET /healthz HTTP/1.0\r\n\r\n").ends_with("ok"));
}

#[test]
fn an_address_in_use_is_named() {
    let (_held, address) = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let error = bind(address).unwrap_err();
    assert_eq!(error.to_string(), format!("listening for HTTP on {address}"));
    assert_eq!(error.source.kind(), ErrorKind::AddrInUse);
}
