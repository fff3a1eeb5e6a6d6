//! The page as the listener serves it: its headers, its hashes, and what it may not do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tokio::sync::oneshot;

use super::*;
use crate::engine::snapshot::HappenedKind;
use crate::telemetry::http::{Closed, Limits, bind, serve};

/// What shows nothing but this.
struct Fixed;

impl Document for Fixed {
    fn whole(&self) -> Result<String, Broken> {
        Ok(r#"{"version":1}"#.to_owned())
    }

    fn text(&self) -> String {
        "all is well".to_owned()
    }

    fn changes(&self, _: &Self) -> Result<Change, Broken> {
        Ok(Change::Nothing)
    }
}

struct Server {
    address: std::net::SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl Server {
    fn start(limits: Limits) -> Self {
        let (listener, address) = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let page = Page::new(Arc::new(|| Box::pin(async { Some(Fixed) })));
            let routes = page.routes(Routes::new());
            let shutdown = async { drop(stopped.await) };
            runtime.block_on(serve(listener, routes, limits, Closed::default(), shutdown)).unwrap();
        });
        Self { address, _stop: stop }
    }

    fn connect(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    fn ask(&self, method: &str, path: &str) -> (String, String) {
        let mut stream =
            self.connect(&format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_lowercase(), body.to_owned())
    }

    /// A viewer, once the first event has come.
    fn view(&self) -> TcpStream {
        let mut stream = self.connect("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut text = String::new();
        while !text.contains("event: whole") {
            let mut bytes = [0; 4096];
            let length = stream.read(&mut bytes).unwrap();
            assert_ne!(length, 0, "{text}");
            text += std::str::from_utf8(&bytes[..length]).unwrap();
        }
        stream
    }
}

#[test]
fn the_page_is_one_file_whose_policy_allows_nothing_else() {
    let server = Server::start(Limits::default());
    let (head, body) = server.ask("GET", "/");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    for header in [
        "content-type: text/html; charset=utf-8",
        "x-frame-options: deny",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
        "cross-origin-opener-policy: same-origin",
    ] {
        assert!(head.contains(header), "{header}: {head}");
    }
    let policy = policy();
    assert!(head.contains(&policy.to_lowercase()), "{head}");
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    // What stands between the tags is what the hashes are of.
    let between = |from: &str, to: &str| body.split_once(from).unwrap().1.split_once(to).unwrap().0;
    for text in [between("<style>", "</style>"), between("<script>", "</script>")] {
        let hash = BASE64_STANDARD.encode(Sha256::digest(text.as_bytes()));
        assert!(policy.contains(&hash), "{text}");
    }
    assert!(!body.contains(CSS_HERE) && !body.contains(JS_HERE));
    assert_eq!((body.matches("<style").count(), body.matches("<script").count()), (1, 1));
}

#[test]
fn nothing_is_fetched_from_elsewhere_and_text_is_never_markup() {
    for (file, text) in [("page.html", HTML), ("page.css", CSS), ("page.js", JS)] {
        for word in ["http:", "https:", "//cdn", "@import", "url(", "src=\"/"] {
            assert!(!text.contains(word), "{file} has {word}");
        }
    }
    for word in
        ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "DOMParser"]
    {
        assert!(!JS.contains(word), "page.js has {word}");
    }
    for word in ["style=", "onclick=", "onload=", "onerror=", "javascript:"] {
        assert!(!HTML.contains(word), "the policy forbids {word}");
    }
}

/// Of every kind that the daemon can tell the page has a word and a sign, and of no other.
#[test]
fn whatever_happens_has_words_on_the_page() {
    let kinds = JS.split_once("const KINDS = {").unwrap().1.split_once("};").unwrap().0;
    let mut shown: Vec<&str> =
        kinds.lines().filter_map(|line| Some(line.trim().split_once(": [")?.0)).collect();
    let mut told: Vec<&str> = HappenedKind::ALL.iter().map(|kind| kind.name()).collect();
    shown.sort_unstable();
    told.sort_unstable();
    assert_eq!(shown, told);
    // A sign before each word: colour alone says nothing.
    for entry in kinds.lines().filter_map(|line| line.split_once("\", \"")) {
        let first = entry.1.chars().next().unwrap();
        assert!(!first.is_alphanumeric(), "{}", entry.1);
    }
}

#[test]
fn what_is_shown_can_be_had_without_the_page() {
    let server = Server::start(Limits::default());
    let (head, body) = server.ask("GET", "/status.json");
    assert!(head.contains("content-type: application/json") && head.contains("no-store"), "{head}");
    assert_eq!(body, r#"{"version":1}"#);
    let (head, body) = server.ask("GET", "/status.txt");
    assert!(head.contains("x-frame-options: sameorigin"), "{head}");
    assert_eq!(body, "all is well\n");
    for path in ["/", "/status.json", "/status.txt", "/events"] {
        let (head, body) = server.ask("HEAD", path);
        assert!(head.starts_with("http/1.1 200") && body.is_empty(), "{path}: {head}");
        let (head, _) = server.ask("POST", path);
        assert!(head.starts_with("http/1.1 405"), "{path}: {head}");
    }
}

#[test]
fn viewers_and_others_do_not_push_each_other_out() {
    let limits = Limits { connections: 4, streams: 6, ..Limits::default() };
    let server = Server::start(limits);
    let mut viewers: Vec<_> = (0..6).map(|_| server.view()).collect();
    // One too many is told so, and may come again.
    let (head, _) = server.ask("GET", "/events");
    assert!(head.starts_with("http/1.1 503") && head.contains("retry-after: 10"), "{head}");
    // Others still get their answers, and however many they are no viewer goes.
    let idle: Vec<_> = (0..30).map(|_| server.connect("")).collect();
    assert_eq!(server.ask("GET", "/status.txt").1, "all is well\n");
    for viewer in &mut viewers {
        viewer.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let kind = viewer.read(&mut [0; 64]).expect_err("nothing new, and not the end").kind();
        assert!(matches!(kind, std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{kind}");
    }
    drop((idle, viewers.pop()));
    // A place is free again, at the latest once the listener has noticed.
    let found = (0..1000).any(|_| {
        std::thread::park_timeout(Duration::from_millis(10));
        let mut head = [0; 12];
        let mut stream = server.connect("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.read_exact(&mut head).is_ok() && &head == b"HTTP/1.1 200"
    });
    assert!(found);
}

#[test]
fn a_viewer_ends_with_its_own_limit_and_not_with_that_of_others() {
    let limits = Limits {
        lifetime: Duration::from_millis(100),
        stream: Duration::from_millis(1500),
        ..Limits::default()
    };
    let server = Server::start(limits);
    let mut viewer = server.view();
    viewer.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let kind = viewer.read(&mut [0; 64]).expect_err("not the end").kind();
    assert!(matches!(kind, std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{kind}");
    viewer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The end of it, politely or not.
    assert!(matches!(viewer.read(&mut [0; 64]), Ok(0) | Err(_)));
}
