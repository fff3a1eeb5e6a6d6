//! The front thread: HTTP and the control socket, on a runtime of their own. However busy clients
//! keep it, checks run on another thread.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::SystemTime;

use tokio::sync::{mpsc, watch};
use tracing::{debug, warn};

use super::announce;
use super::pictures::{self, LOOKS, Look};
use super::readiness::Dependencies;
use super::requests::Ask;
use super::scraping::{SCRAPES, Scrape, Scraper};
use super::start::chain;
use super::target::Target;
use crate::control::server::{self, Limits as ControlLimits, Refused};
use crate::control::socket::{self, SocketFile};
use crate::control::whereabouts::{self, Left};
use crate::engine::model::Config;
use crate::telemetry::http::{self, Closed, Limits, Routes};
use crate::telemetry::log::Log;
use crate::telemetry::metrics::Exporter;
use crate::telemetry::page::Page;

/// Requests of clients on their way to the supervisor.
const ASKS: usize = 64;

/// How clients reach the supervisor, and what else is shown of the daemon.
pub(super) struct Clients {
    asks: mpsc::Sender<Ask>,
    scrapes: mpsc::Sender<Scrape>,
    looks: mpsc::Sender<Look>,
    log: Arc<Log>,
}

/// The supervisor's ends.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) asks: mpsc::Receiver<Ask>,
    pub(super) scrapes: mpsc::Receiver<Scrape>,
    pub(super) looks: mpsc::Receiver<Look>,
}

impl Clients {
    pub(super) fn new(log: Arc<Log>) -> (Self, Received) {
        let (asks, asked) = mpsc::channel(ASKS);
        let (scrapes, scraped) = mpsc::channel(SCRAPES);
        let (looks, looked) = mpsc::channel(LOOKS);
        (Self { asks, scrapes, looks, log }, Received { asks: asked, scrapes: scraped, looks: looked })
    }
}

/// What it serves.
struct Listeners {
    http: Option<(std::net::TcpListener, Routes)>,
    control: Option<(UnixListener, SocketFile, Option<Left>)>,
    /// What they turned away.
    closed: Closed,
    refused: Refused,
}

/// Ends when dropped; [`Front::join`] waits for it.
#[derive(Debug)]
pub(super) struct Front {
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Front {
    /// Listens from the first moment of the start. A dry run does without what it may not have.
    pub(super) fn open(
        path: &Path,
        config: &Config,
        target: Target,
        dependencies: &Arc<Dependencies>,
        clients: Clients,
    ) -> Result<Self, String> {
        let Clients { asks, scrapes, looks, log } = clients;
        let (closed, refused) = (Closed::default(), Refused::default());
        let scraper = Scraper {
            scrapes,
            dependencies: Arc::clone(dependencies),
            lost: Arc::new(move || log.lost()),
            refused: refused.clone(),
            closed: closed.clone(),
            started: SystemTime::now(),
        };
        let aggregator = &dependencies.aggregator;
        let routes = || {
            let metrics = Exporter::new(scraper.into_source());
            let page = Page::new(pictures::source(looks));
            page.routes(Routes::new())
                .with("/healthz", aggregator.live_handler())
                .with("/readyz", aggregator.ready_handler())
                .with("/metrics", metrics.handler())
        };
        let bound = config.daemon.http.map(http::bind).transpose().map_err(chain);
        let http = optional(target, bound)?.flatten().map(|(listener, address)| {
            announce::listening("health", address);
            (listener, routes())
        });
        let control = optional(
            target,
            socket::bind(&config.daemon.control_socket, &config.daemon.control).map_err(chain),
        )?;
        let control = control.map(|(listener, file)| {
            let left = leave_word(path, file.path());
            (listener, file, left)
        });
        let listeners = Listeners { http, control, closed, refused };
        Self::spawn(listeners, asks).map_err(|e| format!("cannot start the front thread: {e}"))
    }

    fn spawn(listeners: Listeners, asks: mpsc::Sender<Ask>) -> std::io::Result<Self> {
        let (stop, stopping) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new()
            .name("front".to_owned())
            .spawn(move || runtime.block_on(serve(listeners, asks, stopping)))?;
        Ok(Self { stop, thread })
    }

    /// Answers that are under way are finished first, within the limits of each server.
    pub(super) fn join(self) {
        self.stop.send_replace(true);
        // A panic in there has been printed by its hook.
        let _ = self.thread.join();
    }
}

/// For clients that read an edited file. A daemon without a runtime directory does without.
fn leave_word(config: &Path, socket: &Path) -> Option<Left> {
    let directory = whereabouts::directory();
    whereabouts::leave(&directory, config, socket).unwrap_or_else(|error| {
        debug!(%error, "no link to the control socket in {}", directory.display());
        None
    })
}

fn optional<T>(target: Target, result: Result<T, String>) -> Result<Option<T>, String> {
    match (target, result) {
        (_, Ok(value)) => Ok(Some(value)),
        (Target::Kernel, Err(problem)) => Err(problem),
        (Target::Memory(_), Err(problem)) => {
            warn!("{problem}: done without in a dry run");
            Ok(None)
        }
    }
}

async fn serve(listeners: Listeners, asks: mpsc::Sender<Ask>, stopping: watch::Receiver<bool>) {
    let stop = |mut stopping: watch::Receiver<bool>| async move {
        // The sender is dropped only with the daemon: that is a stop as well.
        let _ = stopping.wait_for(|stop| *stop).await;
    };
    let http = async {
        if let Some((listener, routes)) = listeners.http
            && let Err(error) =
                http::serve(listener, routes, Limits::default(), listeners.closed, stop(stopping.clone()))
                    .await
        {
            warn!("HTTP listener: {error}");
        }
    };
    let control = async {
        if let Some((listener, file, left)) = listeners.control {
            let limits = ControlLimits::default();
            let stop = stop(stopping.clone());
            if let Err(error) = server::serve(listener, asks, limits, listeners.refused, stop).await {
                warn!("control socket: {error}");
            }
            drop((left, file));
        }
    };
    tokio::join!(http, control);
}
