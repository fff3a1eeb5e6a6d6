//! The front thread: HTTP and the control socket, on a runtime of their own. However busy clients
//! keep it, checks run on another thread. If it breaks off it is begun anew, with the same sockets.

use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, watch};
use tracing::{debug, error, warn};

use super::announce;
use super::lacks::{Lack, Lacks};
use super::pictures::{self, LOOKS, Look};
use super::readiness::Dependencies;
use super::requests::Ask;
use super::scraping::{SCRAPES, Scrape, Scraper};
use super::start::chain;
use super::target::Target;
use crate::anew::{Breaks, Part, Watch, caught};
use crate::control::server::{self, Limits as ControlLimits, Refused};
use crate::control::socket::{self, SocketError, SocketFile};
use crate::control::whereabouts::{self, Left};
use crate::engine::model::{Config, ControlAccess};
use crate::telemetry::http::{self, Closed, Limits, Routes};
use crate::telemetry::log::Log;
use crate::telemetry::metrics::Exporter;
use crate::telemetry::page::Page;

/// Requests of clients on their way to the supervisor.
const ASKS: usize = 64;
/// Before a listener that could not be had is tried again.
const BIND_PAUSE: Duration = Duration::from_secs(2);

/// How clients reach the supervisor, and what else is shown of the daemon.
pub(super) struct Clients {
    asks: mpsc::Sender<Ask>,
    scrapes: mpsc::Sender<Scrape>,
    looks: mpsc::Sender<Look>,
    lacks: Lacks,
    log: Arc<Log>,
}

/// The supervisor's ends.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) asks: mpsc::Receiver<Ask>,
    pub(super) scrapes: mpsc::Receiver<Scrape>,
    pub(super) looks: mpsc::Receiver<Look>,
    pub(super) lacks: Lacks,
}

impl Clients {
    pub(super) fn new(log: Arc<Log>) -> (Self, Received) {
        let (asks, asked) = mpsc::channel(ASKS);
        let (scrapes, scraped) = mpsc::channel(SCRAPES);
        let (looks, looked) = mpsc::channel(LOOKS);
        let lacks = Lacks::default();
        let received = Received { asks: asked, scrapes: scraped, looks: looked, lacks: lacks.clone() };
        (Self { asks, scrapes, looks, lacks, log }, received)
    }
}

/// What it serves: whatever a run of it takes is made anew from this.
struct Listeners {
    http: Option<std::net::TcpListener>,
    /// To be listened on as soon as it can be had.
    unbound: Option<SocketAddr>,
    routes: Box<dyn Fn() -> Routes + Send>,
    control: Option<UnixListener>,
    /// What is taken away with it: the socket's file, and the word of where it is.
    _files: Option<(Option<Left>, SocketFile)>,
    asks: mpsc::Sender<Ask>,
    lacks: Lacks,
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
    /// Listens from the first moment of the start. A port that is taken, or a group that is not there, keeps nobody
    /// from checking: it is said, and the port tried again. A dry run does without what it may not have.
    pub(super) fn open(
        path: &Path,
        config: &Config,
        target: Target,
        dependencies: &Arc<Dependencies>,
        clients: Clients,
    ) -> Result<Self, String> {
        let Clients { asks, scrapes, looks, lacks, log } = clients;
        let breaks = log.breaks().clone();
        let (closed, refused) = (Closed::default(), Refused::default());
        let scraper = Scraper {
            scrapes,
            dependencies: Arc::clone(dependencies),
            lost: Arc::new(move || log.lost()),
            refused: refused.clone(),
            closed: closed.clone(),
            breaks: breaks.clone(),
            started: SystemTime::now(),
        };
        let aggregator = Arc::clone(&dependencies.aggregator);
        let routes = move || {
            let metrics = Exporter::new(scraper.clone().into_source());
            let page = Page::new(pictures::source(looks.clone()));
            page.routes(Routes::new())
                .with("/healthz", aggregator.live_handler())
                .with("/readyz", aggregator.ready_handler())
                .with("/metrics", metrics.handler())
        };
        let (http, unbound) = listen(target, config.daemon.http, &lacks);
        let control = optional(
            target,
            open_socket(&config.daemon.control_socket, &config.daemon.control, &lacks).map_err(chain),
        )?;
        let (control, files) =
            control.map(|(listener, file)| (listener, (leave_word(path, file.path()), file))).unzip();
        let routes = Box::new(routes);
        let listeners =
            Listeners { http, unbound, routes, control, _files: files, asks, lacks, closed, refused };
        Self::spawn(listeners, &breaks).map_err(|e| format!("cannot start the front thread: {e}"))
    }

    fn spawn(mut listeners: Listeners, breaks: &Breaks) -> std::io::Result<Self> {
        let (stop, stopping) = watch::channel(false);
        let mut watch = Watch::over(Part::Front, breaks);
        let thread = std::thread::Builder::new()
            .name("front".to_owned())
            // One that breaks at its end has ended.
            .spawn(
                move || while watch.breaks_here(|| run(&mut listeners, &stopping)) && !*stopping.borrow() {},
            )?;
        Ok(Self { stop, thread })
    }

    /// Answers that are under way are finished first, within the limits of each server.
    pub(super) fn join(self) {
        self.stop.send_replace(true);
        self.thread.thread().unpark();
        // It catches what panics in there.
        let _ = self.thread.join();
    }
}

/// For clients that read an edited file. A daemon without a runtime directory does without.
fn leave_word(config: &Path, socket: &Path) -> Option<Left> {
    let directory = whereabouts::directory();
    whereabouts::leave(&directory, config, socket).unwrap_or_else(|error| {
        debug!("no word of the control socket in {}: {error}", directory.display());
        None
    })
}

/// At once; or the address that is to be tried again. A dry run leaves it to the daemon that may come for it.
fn listen(
    target: Target,
    address: Option<SocketAddr>,
    lacks: &Lacks,
) -> (Option<std::net::TcpListener>, Option<SocketAddr>) {
    let Some(wanted) = address else { return (None, None) };
    match (target, http::bind(wanted).map_err(chain)) {
        (_, Ok((listener, address))) => {
            announce::listening("health", address);
            (Some(listener), None)
        }
        (Target::Kernel, Err(problem)) => {
            error!("{problem}: no health, no metrics and no status page until it can be had; checks go on");
            lacks.begin(Lack::Http, format!("NO HTTP: {problem}; tried again until it works"));
            (None, Some(wanted))
        }
        (Target::Memory(_), Err(problem)) => {
            warn!("{problem}: done without in a dry run");
            (None, None)
        }
    }
}

/// `None`: stopped before it could be had.
async fn listen_later(
    wanted: SocketAddr,
    lacks: &Lacks,
    stopping: &watch::Receiver<bool>,
) -> Option<std::net::TcpListener> {
    let mut stopping = stopping.clone();
    loop {
        tokio::select! {
            () = tokio::time::sleep(BIND_PAUSE) => {}
            _ = stopping.wait_for(|stop| *stop) => return None,
        }
        if let Ok((listener, address)) = http::bind(wanted) {
            lacks.end(Lack::Http);
            announce::listening("health", address);
            return Some(listener);
        }
    }
}

/// Without the group that it should have, if that cannot be given: the daemon's own may use it then, as by default.
fn open_socket(
    path: &Path,
    access: &ControlAccess,
    lacks: &Lacks,
) -> Result<(UnixListener, SocketFile), SocketError> {
    let bound = socket::bind(path, access);
    let Err(problem @ SocketError::Group { .. }) = bound else { return bound };
    let problem = chain(problem);
    error!("{problem}: it keeps the daemon's own group; mend control_group and restart");
    lacks.begin(Lack::ControlGroup, format!("NOT control_group: {problem}; it keeps the daemon's own group"));
    socket::bind(path, &ControlAccess { group: None, ..access.clone() })
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

/// Until it is stopped. What clients had asked for when it broke is gone; those who wait to be let in wait on.
fn run(listeners: &mut Listeners, stopping: &watch::Receiver<bool>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let ended = runtime.block_on(caught(serve(listeners, stopping)));
    // A name service that hangs must not hold it up.
    runtime.shutdown_background();
    ended.flatten()
}

async fn serve(listeners: &mut Listeners, stopping: &watch::Receiver<bool>) -> Result<(), String> {
    let Listeners { http, unbound, routes, control, _files, asks, lacks, closed, refused } = listeners;
    let http = async {
        if let (None, Some(wanted)) = (&http, *unbound) {
            *http = listen_later(wanted, lacks, stopping).await;
        }
        let Some(listener) = http.as_ref().map(std::net::TcpListener::try_clone).transpose()? else {
            return Ok(());
        };
        http::serve(listener, routes(), Limits::default(), closed.clone(), end(http, stopping)).await
    };
    let control = async {
        let Some(listener) = control.as_ref().map(UnixListener::try_clone).transpose()? else {
            return Ok(());
        };
        let limits = ControlLimits::default();
        server::serve(listener, asks.clone(), limits, refused.clone(), end(control, stopping)).await
    };
    tokio::try_join!(named("HTTP listener", http), named("control socket", control)).map(drop)
}

async fn named(what: &str, serving: impl Future<Output = std::io::Result<()>>) -> Result<(), String> {
    serving.await.map_err(|error| format!("{what}: {error}"))
}

/// Waits to be stopped. Nobody is let in after that.
async fn end<L>(listener: &mut Option<L>, stopping: &watch::Receiver<bool>) {
    // The sender is dropped only with the daemon: that is a stop as well.
    let _ = stopping.clone().wait_for(|stop| *stop).await;
    *listener = None;
}

#[cfg(test)]
mod tests;
