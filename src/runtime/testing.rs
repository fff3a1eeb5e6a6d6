//! Short names for table entries and configuration, for this module's tests.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use super::kernel::Ticket;
use crate::engine::model::{Config, Forwarding, Protocol, RealServer, Scheduler, VirtualServer};
use crate::engine::table::{Destination, DestinationId, Service, ServiceAttributes, ServiceId, Table};
use crate::engine::testing;

/// How long anything may take that should happen at once; no test measures speed with it.
pub(super) const SOON: Duration = Duration::from_secs(60);

pub(super) fn tcp(text: &str) -> ServiceId {
    let address: SocketAddr = text.parse().unwrap();
    ServiceId::Address { protocol: Protocol::Tcp, address: address.ip(), port: address.port() }
}

pub(super) fn destination(text: &str) -> DestinationId {
    let address: SocketAddr = text.parse().unwrap();
    DestinationId { address: address.ip(), port: address.port() }
}

pub(super) fn nat(weight: u32) -> Destination {
    Destination { forwarding: Forwarding::Nat, weight, upper_threshold: 0, lower_threshold: 0 }
}

pub(super) fn service(scheduler: &str, destinations: &[(&str, u32)]) -> Arc<Service> {
    let attributes = ServiceAttributes {
        scheduler: Scheduler::new(scheduler).unwrap(),
        flags: Default::default(),
        persistence: None,
        netmask: 32,
        persistence_engine: None,
    };
    let destinations = destinations.iter().map(|(id, weight)| (destination(id), nat(*weight)));
    Arc::new(Service { attributes, destinations: destinations.collect() })
}

pub(super) fn table<const N: usize>(services: [(ServiceId, Arc<Service>); N]) -> Table {
    Table { services: BTreeMap::from(services) }
}

/// A virtual server with one service and these real servers, all without checks.
pub(super) fn pool(name: &str, service: &str, servers: &[&str]) -> Arc<VirtualServer> {
    let real_servers = servers.iter().map(|address| real_server(address)).collect();
    Arc::new(VirtualServer { real_servers, ..testing::virtual_server(name, vec![tcp(service)]) })
}

pub(super) fn real_server(address: &str) -> Arc<RealServer> {
    Arc::new(testing::real_server(crate::control::protocol::parse_address(address).unwrap()))
}

pub(super) fn config(virtual_servers: Vec<Arc<VirtualServer>>) -> Config {
    Config { daemon: testing::daemon(), virtual_servers }
}

/// As the writer hands them out.
pub(super) fn tickets() -> impl Iterator<Item = Ticket> {
    std::iter::successors(Some(Ticket::default()), |ticket| Some(ticket.next())).skip(1)
}

/// Asks again and again until there is an answer.
pub(super) fn within<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + SOON;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "not within {SOON:?}: {what}");
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that pauses, between two looks at a condition")]
fn pause() {
    std::thread::sleep(Duration::from_millis(2));
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) level: tracing::Level,
    pub(super) message: String,
    pub(super) fields: BTreeMap<&'static str, String>,
}

/// What `run` logs. A line that is first reached while nobody listens is taken for one that nobody wants,
/// and a listener that comes at that moment misses it: so everything in these tests that logs what a test
/// reads runs in here, where somebody always listens.
pub(super) fn logged(run: impl FnOnce()) -> Vec<Line> {
    static LISTENER: OnceLock<tracing::Dispatch> = OnceLock::new();
    LISTENER.get_or_init(|| tracing::Dispatch::new(tracing_subscriber::registry()));
    let lines = Arc::new(Mutex::new(Vec::new()));
    let subscriber = tracing_subscriber::registry().with(Capture(Arc::clone(&lines)));
    tracing::subscriber::with_default(subscriber, run);
    std::mem::take(&mut lines.lock().unwrap())
}

struct Capture(Arc<Mutex<Vec<Line>>>);

impl<S: tracing::Subscriber> Layer<S> for Capture {
    fn on_event(&self, event: &tracing::Event<'_>, _context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.0.remove("message").unwrap_or_default();
        self.0.lock().unwrap().push(Line { level: *event.metadata().level(), message, fields: fields.0 });
    }
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}
