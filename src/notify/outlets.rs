//! Everybody who is told of events: each event once, to all.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::dispatcher::{Dispatcher, Limits, Notification};
use super::event::{Event, EventKind};
use super::lines;
use crate::engine::model::{Argv, Notify};

/// Dropping it ends all that is under way.
#[derive(Debug)]
pub struct Outlets {
    settings: Notify,
    scripts: Dispatcher,
}

impl Outlets {
    /// All of them live on `runtime`, which needs time and I/O enabled.
    /// Scripts are run by `helper`, which is an lvsd.
    pub fn new(runtime: Handle, helper: PathBuf, settings: &Notify) -> Self {
        Self { settings: settings.clone(), scripts: Dispatcher::new(runtime, helper, Limits::default()) }
    }

    /// What was told before goes its way as it was.
    pub fn configure(&mut self, settings: &Notify) {
        self.settings = settings.clone();
    }

    /// Returns at once. `script`: what the event's own real or virtual server wants to run.
    pub fn tell(&self, event: Event, script: Option<&Argv>) {
        let own = match event.kind {
            EventKind::Started => self.settings.start.as_ref(),
            EventKind::Stopping => self.settings.stop.as_ref(),
            EventKind::RealServerUp
            | EventKind::RealServerDown
            | EventKind::QuorumGained
            | EventKind::QuorumLost => script,
        };
        let event = Arc::new(event);
        let for_every_event = self.settings.script.as_ref().map(|script| told_by_arguments(script, &event));
        for argv in own.cloned().into_iter().chain(for_every_event) {
            let (user, limit) = (self.settings.script_user.clone(), self.settings.script_timeout);
            self.scripts.dispatch(Notification { argv, user, limit, event: Arc::clone(&event) });
        }
    }

    /// Delivers what is under way, no longer than `limit`. Nothing is taken on afterwards.
    pub async fn finish(self, limit: Duration) {
        self.scripts.finish(limit).await;
    }
}

/// keepalived's words follow those of the configuration.
fn told_by_arguments(script: &Argv, event: &Event) -> Argv {
    let mut argv = script.clone();
    argv.arguments.extend(lines::words(event));
    argv
}
