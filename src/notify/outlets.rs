//! Everybody who is told of events: each event once, to all.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::courier::Delivered;
use super::couriers::Couriers;
use super::dispatcher::{Dispatcher, Limits, Notification};
use super::event::{Event, EventKind};
use crate::engine::model::{Argv, Notify};

/// Dropping it ends all that is under way.
#[derive(Debug)]
pub struct Outlets {
    settings: Notify,
    scripts: Dispatcher,
    couriers: Couriers,
}

impl Outlets {
    /// All of them live on `runtime`, which needs time and I/O enabled.
    pub fn new(runtime: Handle, settings: &Notify) -> Self {
        let limits = Limits { time: settings.script_timeout, ..Limits::default() };
        let couriers = Couriers::new(runtime.clone(), settings);
        Self { settings: settings.clone(), scripts: Dispatcher::new(runtime, limits), couriers }
    }

    /// What was told before goes its way as it was.
    pub fn configure(&mut self, settings: &Notify) {
        self.settings = settings.clone();
        self.couriers.configure(settings);
    }

    /// Returns at once. `script`: what the event's own real or virtual server wants to run.
    pub fn tell(&mut self, event: Event, script: Option<&Argv>) {
        let own = match event.kind {
            EventKind::Started => self.settings.start.as_ref(),
            EventKind::Stopping => self.settings.stop.as_ref(),
            EventKind::RealServerUp
            | EventKind::RealServerDown
            | EventKind::QuorumGained
            | EventKind::QuorumLost => script,
        };
        let event = Arc::new(event);
        for argv in own.into_iter().chain(&self.settings.script) {
            self.scripts.dispatch(Notification { argv: argv.clone(), event: Arc::clone(&event) });
        }
        self.couriers.tell(&event);
    }

    /// Delivers what is under way, no longer than `limit`. Nothing is taken on afterwards.
    pub async fn finish(self, limit: Duration) {
        tokio::join!(self.scripts.finish(limit), self.couriers.finish(limit));
    }

    /// Events mailed, refused, dropped; tries that failed.
    pub fn mail_counters(&self) -> Delivered {
        self.couriers.mail_counters()
    }

    /// The same of each webhook, in the order of the configuration, by `scheme://server`.
    pub fn webhook_counters(&self) -> Vec<(String, Delivered)> {
        self.couriers.webhook_counters()
    }
}
