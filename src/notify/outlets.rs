//! Everybody who is told of events: each event once, to all.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify as Bell;
use tokio::task::JoinSet;

use super::courier::Delivered;
use super::couriers::Couriers;
use super::dispatcher::{Counters, Dispatcher, Limits, Notification};
use super::event::{Event, EventKind};
use super::fifo::Fifo;
use super::lines;
use super::standing::{self, Standing};
use crate::anew::Breaks;
use crate::engine::model::{Argv, Notify};

/// For the reader of a FIFO that is configured no longer.
const RETIREMENT: Duration = Duration::from_secs(1);
/// For a file system to make the FIFO.
const OPENING: Duration = Duration::from_secs(1);

/// Who hears of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// As the configuration says.
    Configured,
    /// Nobody: no script runs, no FIFO is opened, nothing is sent.
    Nobody,
}

/// Dropping it ends all that is under way.
#[derive(Debug)]
pub struct Outlets {
    audience: Audience,
    runtime: Handle,
    settings: Notify,
    breaks: Breaks,
    scripts: Dispatcher,
    couriers: Couriers,
    fifo: Option<Fifo>,
    /// Rings when how everything stands is wanted.
    asking: Arc<Bell>,
    /// Those of an earlier configuration that write their last.
    retired: JoinSet<()>,
}

impl Audience {
    /// What is left of `settings`.
    fn hears(self, settings: &Notify) -> Notify {
        let settings = settings.clone();
        match self {
            Self::Configured => settings,
            Self::Nobody => Notify {
                fifo: None,
                script: None,
                start: None,
                stop: None,
                mail: None,
                webhooks: Vec::new(),
                ..settings
            },
        }
    }
}

impl Outlets {
    /// All of them live on `runtime`, which needs time and I/O enabled. Scripts are run by `helper`,
    /// which is an lvsd.
    pub fn new(
        runtime: Handle,
        helper: PathBuf,
        settings: &Notify,
        audience: Audience,
        breaks: Breaks,
    ) -> Self {
        let scripts = Dispatcher::new(runtime.clone(), helper, Limits::default());
        let asking = Arc::new(Bell::new());
        let retired = JoinSet::new();
        let settings = audience.hears(settings);
        let couriers = Couriers::new(runtime.clone(), &settings, breaks.clone());
        let mut outlets =
            Self { audience, runtime, settings, breaks, scripts, couriers, fifo: None, asking, retired };
        outlets.open_fifo();
        outlets
    }

    /// What was told before goes its way as it was.
    pub fn configure(&mut self, settings: &Notify) {
        let settings = &self.audience.hears(settings);
        let before = std::mem::replace(&mut self.settings, settings.clone());
        self.couriers.configure(settings);
        while self.retired.try_join_next().is_some() {}
        if (&before.fifo, &before.script_user) != (&settings.fifo, &settings.script_user) {
            if let Some(fifo) = self.fifo.take() {
                self.retired.spawn_on(fifo.finish(RETIREMENT), &self.runtime);
            }
            self.open_fifo();
        }
    }

    fn open_fifo(&mut self) {
        let user = self.settings.script_user.clone();
        let start = |path| Fifo::start(&self.runtime, path, user, Arc::clone(&self.asking), &self.breaks);
        self.fifo = self.settings.fifo.clone().map(start);
    }

    /// Until whoever starts after this daemon finds the FIFO in its place. Takes no longer than a second.
    pub async fn opened(&self) {
        if let Some(fifo) = &self.fifo {
            fifo.opened(OPENING).await;
        }
    }

    /// Returns at once. `script`: what the event's own real or virtual server wants to run.
    pub fn tell(&mut self, event: Event, script: Option<&Argv>) {
        let own = match event.kind {
            EventKind::Started => self.settings.start.as_ref(),
            EventKind::Stopping => self.settings.stop.as_ref(),
            EventKind::VerdictsFrozen | EventKind::VerdictsThawed => None,
            EventKind::RealServerUp
            | EventKind::RealServerDown
            | EventKind::QuorumGained
            | EventKind::QuorumLost
            | EventKind::GuardBegan
            | EventKind::GuardEnded => script.filter(|_| self.audience == Audience::Configured),
        };
        let event = Arc::new(event);
        if let Some(fifo) = &self.fifo {
            fifo.tell(lines::line(&lines::words(&event)));
        }
        let for_every_event = self.settings.script.as_ref().map(|script| told_by_arguments(script, &event));
        for argv in own.cloned().into_iter().chain(for_every_event) {
            let (user, limit) = (self.settings.script_user.clone(), self.settings.script_timeout);
            self.scripts.dispatch(Notification { argv, user, limit, event: Arc::clone(&event) });
        }
        self.couriers.tell(&event);
    }

    /// Until somebody wants to be told how everything stands; then [`Self::show`] has to be called. Can be
    /// dropped and called again.
    pub async fn asked(&self) {
        self.asking.notified().await;
    }

    /// For [`Self::show`]: it would be needless.
    pub fn wants_state(&self) -> bool {
        self.fifo.as_ref().is_some_and(Fifo::wants_state)
    }

    /// How everything stands after the events so far.
    pub fn show(&self, standings: &[Standing]) {
        if let Some(fifo) = self.fifo.as_ref().filter(|fifo| fifo.wants_state()) {
            fifo.show(standing::all(standings));
        }
    }

    /// For [`Self::show_changes`]: it is not needless.
    pub fn is_followed(&self) -> bool {
        self.fifo.as_ref().is_some_and(Fifo::is_followed)
    }

    /// A reload has added and taken away some.
    pub fn show_changes(&self, before: &[Standing], after: &[Standing]) {
        if let Some(fifo) = self.fifo.as_ref().filter(|fifo| fifo.is_followed()) {
            standing::changes(before, after).into_iter().for_each(|line| fifo.tell(line));
        }
    }

    pub fn script_counters(&self) -> Counters {
        self.scripts.counters()
    }

    /// Lines that gave way because the FIFO's reader has stopped reading.
    pub fn dropped_lines(&self) -> u64 {
        self.fifo.as_ref().map_or(0, Fifo::dropped)
    }

    /// Events mailed, refused, dropped; tries that failed. Since the start, whatever the configuration was.
    pub fn mail_counters(&self) -> Delivered {
        self.couriers.mail_counters()
    }

    /// The same of all webhooks together.
    pub fn webhook_counters(&self) -> Delivered {
        self.couriers.webhook_counters()
    }

    /// Delivers what is under way, no longer than `limit`. Nothing is taken on afterwards.
    pub async fn finish(mut self, limit: Duration) {
        let fifo = async {
            if let Some(fifo) = self.fifo.take() {
                fifo.finish(limit).await;
            }
        };
        let retired = async { while self.retired.join_next().await.is_some() {} };
        // Those of before have their own limits, which began earlier.
        tokio::join!(self.scripts.finish(limit), self.couriers.finish(limit), fifo, retired);
    }
}

/// keepalived's words follow those of the configuration.
fn told_by_arguments(script: &Argv, event: &Event) -> Argv {
    let mut argv = script.clone();
    argv.arguments.extend(lines::words(event));
    argv
}
