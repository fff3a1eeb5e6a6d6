//! Webhooks against a server in the test, which answers as it is told.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::anew::Breaks;
use crate::engine::model::{Endpoint, EventKind, HeaderText, Secret, Webhook, WebhookUrl};
use crate::notify::courier::{Courier, Delivered, Tally};
use crate::notify::event::Event;
use crate::notify::testing;

/// Long enough for any machine.
const SOON: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
enum Say {
    Status(u16),
    After(u16, &'static str),
    /// With `Connection: close`.
    Last(u16),
    Nothing,
}

#[derive(Clone, Debug)]
struct Seen {
    at: Instant,
    path: String,
    headers: HeaderMap,
    json: serde_json::Value,
}

#[derive(Clone, Debug, Default)]
struct Book {
    plan: Arc<Mutex<VecDeque<Say>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<Mutex<usize>>,
}

/// Ends with the test.
struct Server {
    address: SocketAddr,
    book: Book,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Answers as `plan` says, afterwards with 200.
    async fn new(plan: &[Say]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let book = Book::default();
        book.plan.lock().unwrap().extend(plan.iter().cloned());
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, book.clone()));
        Self { address, book, _tasks: tasks }
    }

    async fn seen(&self, count: usize) -> Vec<Seen> {
        let wait = async {
            loop {
                let seen = self.book.seen.lock().unwrap().clone();
                if seen.len() >= count {
                    return seen;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, wait).await.unwrap()
    }

    fn webhook(&self) -> Webhook {
        let authority = self.address.to_string();
        let server = Endpoint { host: self.address.ip().to_string(), port: self.address.port() };
        Webhook {
            url: WebhookUrl { server, tls: None, authority, path: Secret("/hook?token=geheim".to_owned()) },
            headers: vec![],
            timeout: SOON,
            events: BTreeSet::from(EventKind::ALL),
        }
    }
}

async fn serve(listener: TcpListener, book: Book) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        *book.connections.lock().unwrap() += 1;
        let book = book.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| answer(book.clone(), request));
            let connection = hyper::server::conn::http1::Builder::new();
            let _ended = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(book: Book, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    assert_eq!(head.method, http::Method::POST);
    let json = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    let seen = Seen { at: Instant::now(), path: head.uri.to_string(), headers: head.headers, json };
    book.seen.lock().unwrap().push(seen);
    let next = book.plan.lock().unwrap().pop_front();
    let reply = Response::builder();
    let reply = match next.unwrap_or(Say::Status(200)) {
        Say::Status(status) => reply.status(status),
        Say::After(status, after) => reply.status(status).header("Retry-After", after),
        Say::Last(status) => reply.status(status).header("Connection", "close"),
        Say::Nothing => std::future::pending().await,
    };
    Ok(reply.body(Full::new(Bytes::from_static(b"thanks"))).unwrap())
}

fn event(sequence: u64) -> Arc<Event> {
    Arc::new(Event { sequence, ..testing::down() })
}

fn tell(courier: &Courier<Webhook>, sequences: impl IntoIterator<Item = u64>) {
    sequences.into_iter().for_each(|sequence| courier.tell(&event(sequence)));
}

fn courier(webhook: Webhook) -> Courier<Webhook> {
    Courier::spawn(&Handle::current(), webhook, Tally::default(), &Breaks::default())
}

async fn counts(tally: &Tally, wanted: Delivered) {
    while tally.counters() != wanted {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Sequence and dropped count.
fn told(seen: &[Seen]) -> Vec<(u64, u64)> {
    let number = |seen: &Seen, field: &str| seen.json[field].as_u64().unwrap();
    seen.iter().map(|seen| (number(seen, "sequence"), number(seen, "dropped"))).collect()
}

#[tokio::test]
async fn events_come_in_order_over_one_connection() {
    let server = Server::new(&[]).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "abc\n").unwrap();
    let mut webhook = server.webhook();
    webhook.headers = vec![
        ("Authorization".to_owned(), HeaderText::File { path, prefix: "Bearer ".to_owned() }),
        ("X-Site".to_owned(), HeaderText::Written(Secret("north".to_owned()))),
    ];
    let courier = courier(webhook);
    tell(&courier, 1..=20);
    assert_eq!(courier.finish(SOON).await, 0);
    let seen = server.seen(20).await;
    assert_eq!(told(&seen), (1..=20).map(|n| (n, 0)).collect::<Vec<_>>());
    assert_eq!(*server.book.connections.lock().unwrap(), 1);
    assert_eq!(seen[0].path, "/hook?token=geheim");
    let header = |name: &str| seen[0].headers[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "application/json");
    assert_eq!(header("host"), server.address.to_string());
    assert_eq!(header("authorization"), "Bearer abc");
    assert_eq!(header("x-site"), "north");
    assert!(header("user-agent").starts_with("lvsd/"));
}

#[tokio::test]
async fn a_connection_that_the_server_closes_is_opened_anew() {
    let server = Server::new(&[Say::Last(200), Say::Last(200), Say::Last(204)]).await;
    let courier = courier(server.webhook());
    tell(&courier, 1..=3);
    let seen = server.seen(3).await;
    assert_eq!(told(&seen), [(1, 0), (2, 0), (3, 0)]);
    assert_eq!(courier.finish(SOON).await, 0);
    assert_eq!(*server.book.connections.lock().unwrap(), 3);
}

#[tokio::test]
async fn what_a_server_cannot_take_now_comes_again_and_keeps_its_place() {
    let plan = [Say::Status(503), Say::After(429, "1"), Say::Status(200)];
    let server = Server::new(&plan).await;
    let tally = Tally::default();
    let courier = Courier::spawn(&Handle::current(), server.webhook(), tally.clone(), &Breaks::default());
    tell(&courier, 1..=2);
    let seen = server.seen(4).await;
    assert_eq!(told(&seen), [(1, 0), (1, 0), (1, 0), (2, 0)]);
    let waited = seen[2].at - seen[1].at;
    assert!(waited >= Duration::from_secs(1), "Retry-After: {waited:?}");
    let counted = Delivered { delivered: 2, refused: 0, failed: 2, dropped: 0 };
    counts(&tally, counted).await;
}

#[tokio::test]
async fn what_a_server_refuses_for_good_does_not_hold_up_the_rest() {
    let server = Server::new(&[Say::Status(400), Say::Status(302), Say::Status(401)]).await;
    let tally = Tally::default();
    let courier = Courier::spawn(&Handle::current(), server.webhook(), tally.clone(), &Breaks::default());
    tell(&courier, 1..=4);
    assert_eq!(told(&server.seen(4).await), [(1, 0), (2, 0), (3, 0), (4, 0)]);
    let counted = Delivered { delivered: 1, refused: 3, failed: 0, dropped: 0 };
    counts(&tally, counted).await;
}

#[tokio::test]
async fn the_oldest_give_way_while_a_server_hangs_and_the_next_says_how_many() {
    let server = Server::new(&[Say::Nothing]).await;
    let webhook = Webhook { timeout: Duration::from_millis(300), ..server.webhook() };
    let tally = Tally::default();
    let courier = Courier::with_limit(&Handle::current(), webhook, tally.clone(), &Breaks::default(), 3);
    tell(&courier, [1]);
    server.seen(1).await;
    tell(&courier, 2..=6);
    assert_eq!(told(&server.seen(4).await), [(1, 0), (4, 3), (5, 0), (6, 0)]);
    let counted = Delivered { delivered: 3, refused: 0, failed: 1, dropped: 3 };
    counts(&tally, counted).await;
}

#[tokio::test]
async fn what_gave_way_before_the_first_try_is_told_with_it() {
    let server = Server::new(&[]).await;
    let tally = Tally::default();
    let courier =
        Courier::with_limit(&Handle::current(), server.webhook(), tally.clone(), &Breaks::default(), 2);
    // Before the task runs at all: two of these give way.
    tell(&courier, 1..=4);
    assert_eq!(told(&server.seen(2).await), [(3, 2), (4, 0)]);
    assert_eq!(courier.finish(SOON).await, 0);
    assert_eq!(tally.counters(), Delivered { delivered: 2, dropped: 2, ..Delivered::default() });
}

#[tokio::test]
async fn a_hanging_server_delays_the_end_no_longer_than_it_may() {
    let server = Server::new(&[Say::Nothing]).await;
    let courier = courier(server.webhook());
    tell(&courier, 1..=3);
    server.seen(1).await;
    // Were it not bounded, this would last as long as the webhook's own time.
    assert_eq!(courier.finish(Duration::from_millis(200)).await, 3);
}

#[tokio::test]
async fn the_end_waits_for_no_back_off() {
    // An hour, if it were followed.
    let server = Server::new(&[Say::After(503, "3600")]).await;
    let courier = courier(server.webhook());
    tell(&courier, 1..=2);
    server.seen(1).await;
    assert_eq!(courier.finish(SOON).await, 0);
    assert_eq!(told(&server.seen(3).await), [(1, 0), (1, 0), (2, 0)]);
}

#[tokio::test]
async fn new_settings_count_at_once_for_what_waits() {
    let (old, new) = (Server::new(&[Say::After(503, "3600")]).await, Server::new(&[]).await);
    let tally = Tally::default();
    let courier = Courier::spawn(&Handle::current(), old.webhook(), tally.clone(), &Breaks::default());
    tell(&courier, [1]);
    old.seen(1).await;
    while tally.counters().failed == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    courier.change(new.webhook());
    assert_eq!(told(&new.seen(1).await), [(1, 0)]);
}

#[tokio::test]
async fn only_the_events_that_are_asked_for() {
    let server = Server::new(&[]).await;
    let webhook = Webhook { events: BTreeSet::from([EventKind::Stopping]), ..server.webhook() };
    let courier = courier(webhook);
    tell(&courier, [1]);
    let stopping = Event { sequence: 2, kind: EventKind::Stopping, ..testing::down() };
    courier.tell(&Arc::new(stopping));
    assert_eq!(courier.finish(SOON).await, 0);
    assert_eq!(told(&server.seen(1).await), [(2, 0)]);
}

#[test]
fn secrets_are_not_in_what_is_printed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(Server::new(&[]));
    let mut webhook = server.webhook();
    webhook.headers = vec![("X-Token".to_owned(), HeaderText::Written(Secret("geheim".to_owned())))];
    let printed = format!("{webhook:?} {}", webhook.url);
    assert!(!printed.contains("geheim"), "{printed}");
}
