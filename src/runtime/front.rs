//! The front thread: HTTP and the control socket, on a runtime of their own. However busy clients
//! keep it, checks run on another thread.

use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, watch};
use tracing::warn;

use super::requests::Ask;
use crate::control::server::Limits as ControlLimits;
use crate::control::socket::SocketFile;
use crate::telemetry::http::{self, Limits, Routes};

/// What it serves.
pub(super) struct Listeners {
    pub(super) http: Option<(std::net::TcpListener, Routes)>,
    pub(super) control: Option<(UnixListener, SocketFile)>,
}

/// Ends when dropped; [`Front::join`] waits for it.
#[derive(Debug)]
pub(super) struct Front {
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Front {
    pub(super) fn spawn(listeners: Listeners, asks: mpsc::Sender<Ask>) -> std::io::Result<Self> {
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

async fn serve(listeners: Listeners, asks: mpsc::Sender<Ask>, stopping: watch::Receiver<bool>) {
    let stop = |mut stopping: watch::Receiver<bool>| async move {
        // The sender is dropped only with the daemon: that is a stop as well.
        let _ = stopping.wait_for(|stop| *stop).await;
    };
    let http = async {
        if let Some((listener, routes)) = listeners.http
            && let Err(error) = http::serve(listener, routes, Limits::default(), stop(stopping.clone())).await
        {
            warn!("HTTP listener: {error}");
        }
    };
    let control = async {
        if let Some((listener, file)) = listeners.control {
            let limits = ControlLimits::default();
            if let Err(error) =
                crate::control::server::serve(listener, asks, limits, stop(stopping.clone())).await
            {
                warn!("control socket: {error}");
            }
            drop(file);
        }
    };
    tokio::join!(http, control);
}
