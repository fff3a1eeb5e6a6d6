//! The loop that owns the engine. Takes one input after the other, hands it to the engine, and carries
//! out what the engine says. Everything that may wait, for a disk, a netlink answer, a back end or a
//! client, waits elsewhere and comes back as an input.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tracing::{debug, error, info, warn};

use super::announce::Announcer;
use super::clock;
use super::kernel::{Report, Settings, Stop, Ticket, Writer};
use super::loading::{Ready, Refusal};
use super::planning::{Planned, Planning};
use super::probes::Probes;
use super::readings;
use super::recorder::{Held, News, Recorder};
use super::reloading::Reloading;
use super::requests::Ask;
use super::signals::{Signal, Signals};
use super::watcher::{Files, Watcher};
use crate::engine::model::{Config, Drift, OnStop, Outcome};
use crate::engine::snapshot::KernelCounters;
use crate::engine::table::ServiceId;
use crate::engine::{Command, Engine, ProbeId, Time};
use crate::health::{Aggregator, Heartbeat};
use crate::telemetry::log::Log;
use crate::telemetry::repeats::{HOURLY, Repeat, Repeats};
use crate::telemetry::systemd::ServiceManager;

/// The loop turns at least this often, to show that it lives.
pub(super) const TICK: Duration = Duration::from_secs(1);
/// Outcomes taken in between two looks at everything else.
const OUTCOMES: usize = 256;
/// For the kernel's table to be withdrawn at stop. 10,000 destinations take well under a second.
const WITHDRAWAL: Duration = Duration::from_secs(30);
/// For scripts that still run at stop, and for the state file's last write.
const FAREWELL: Duration = Duration::from_secs(5);
/// Conditions whose repeats are counted.
const REPEATS: usize = 1000;

/// Everything that the loop owns.
pub(super) struct Supervisor {
    pub(super) config_path: PathBuf,
    pub(super) config: Arc<Config>,
    pub(super) engine: Engine,
    pub(super) probes: Probes,
    pub(super) watcher: Watcher,
    pub(super) writer: Writer,
    pub(super) recorder: Recorder,
    pub(super) announcer: Announcer,
    pub(super) manager: ServiceManager,
    pub(super) log: Arc<Log>,
    pub(super) health: Health,
    pub(super) reloading: Reloading,
    pub(super) planning: Planning,
    pub(super) inputs: Inputs,
    pub(super) progress: Progress,
}

/// What readiness and liveness are told.
pub(super) struct Health {
    pub(super) aggregator: Arc<Aggregator>,
    pub(super) heartbeat: Heartbeat,
    pub(super) vitals: Arc<super::readiness::Vitals>,
}

/// Where inputs come from.
pub(super) struct Inputs {
    pub(super) signals: Signals,
    pub(super) outcomes: mpsc::Receiver<(ProbeId, Outcome)>,
    /// Files of checks that may have changed.
    pub(super) files: mpsc::Receiver<Files>,
    pub(super) reports: mpsc::Receiver<Report>,
    pub(super) asks: mpsc::Receiver<Ask>,
}

/// How far the kernel's table has come.
pub(super) struct Progress {
    /// Everything asked of the writer so far.
    asked: Ticket,
    /// The first table has been written.
    synced: bool,
    /// As last told to the service manager.
    status: String,
    /// What the kernel was last told to be set to.
    settings: Settings,
    repeats: Repeats<String>,
    pub(super) counters: KernelCounters,
    next_tick: Time,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            asked: Ticket::default(),
            synced: false,
            status: String::new(),
            settings: Settings::default(),
            repeats: Repeats::new(HOURLY, REPEATS),
            counters: KernelCounters::default(),
            next_tick: Time::ZERO,
        }
    }
}

enum Input {
    Outcomes(Vec<(ProbeId, Outcome)>),
    Files(Files),
    Report(Report),
    Ask(Ask),
    Loaded(Result<Ready, Refusal>),
    Planned(Planned),
    Saved(std::io::Result<()>),
    Signal(Signal),
    Timeout,
}

impl Supervisor {
    /// Until a signal ends it.
    pub(super) async fn run(mut self) {
        self.settle_settings();
        self.turn();
        loop {
            let stop = match self.next_input().await {
                Input::Signal(signal) => self.handle_signal(signal),
                input => {
                    self.handle(input);
                    false
                }
            };
            if stop {
                return self.stop().await;
            }
            self.turn();
        }
    }

    async fn next_input(&mut self) -> Input {
        let now = clock::now();
        let wake = [self.engine.poll_timeout(), self.recorder.poll_timeout(), Some(self.progress.next_tick)];
        let delay = wake.into_iter().flatten().min().map_or(TICK, |at| at.since(now));
        let mut outcomes = Vec::new();
        tokio::select! {
            biased;
            signal = self.inputs.signals.next() => Input::Signal(signal),
            Some(report) = self.inputs.reports.recv() => Input::Report(report),
            loaded = self.reloading.loaded() => Input::Loaded(loaded),
            result = self.recorder.answered() => Input::Saved(result),
            Some(files) = self.inputs.files.recv() => Input::Files(files),
            planned = self.planning.planned() => Input::Planned(planned),
            Some(ask) = self.inputs.asks.recv() => Input::Ask(ask),
            _ = self.inputs.outcomes.recv_many(&mut outcomes, OUTCOMES) => Input::Outcomes(outcomes),
            () = tokio::time::sleep(delay) => Input::Timeout,
        }
    }

    fn handle(&mut self, input: Input) {
        let now = clock::now();
        match input {
            Input::Outcomes(outcomes) => {
                for (id, outcome) in outcomes {
                    self.probes.ended(id);
                    self.engine.handle_outcome(id, &outcome, now);
                }
            }
            Input::Files(files) => self.engine.handle_wakeup(|probe| readings::reads(probe, &files), now),
            Input::Report(report) => self.handle_report(report, now),
            Input::Ask(ask) => self.handle_ask(ask, now),
            Input::Loaded(Ok(ready)) => self.handle_loaded(ready, now),
            Input::Loaded(Err(refusal)) => self.handle_refusal(&refusal),
            Input::Planned(planned) => self.handle_planned(planned),
            Input::Saved(result) => {
                let (held, news) = self.recorder.handle_answer(result);
                self.pass_on(held, news);
            }
            Input::Signal(_) | Input::Timeout => {}
        }
    }

    /// True: it is time to stop.
    fn handle_signal(&mut self, signal: Signal) -> bool {
        match signal {
            Signal::Stop => return true,
            Signal::Reload => self.begin_reload(None),
            Signal::Status => info!("{}", super::requests::summary(&self.engine)),
        }
        false
    }

    /// Carries out what the engine has decided, and shows that the loop lives.
    fn turn(&mut self) {
        let now = clock::now();
        self.engine.handle_timeout(now);
        while let Some(command) = self.engine.next_command() {
            match command {
                Command::Start { id, check } => self.probes.start(id, check),
                Command::Cancel { id } => self.probes.cancel(id),
            }
        }
        while let Some(event) = self.engine.next_event() {
            self.announcer.announce(event, now);
        }
        let changes = self.engine.take_table_changes();
        if !changes.is_empty() {
            let free = self.recorder.admit(changes);
            if !free.is_empty() {
                self.progress.asked = self.writer.want(free);
            }
        }
        if self.engine.take_memory_changed() {
            self.recorder.note_change();
        }
        let (held, news) = self.recorder.turn(&self.engine, now);
        self.pass_on(held, news);
        self.conclude_reload();
        self.tick(now);
    }

    fn tick(&mut self, now: Time) {
        self.health.heartbeat.beat();
        self.health.vitals.note_lateness(self.engine.lateness(now));
        if now < self.progress.next_tick {
            return;
        }
        let pace = self.manager.watchdog_interval().map_or(TICK, |interval| TICK.min(interval / 3));
        self.progress.next_tick = now + pace;
        self.tell_status();
        self.manager.watchdog();
        self.manager.flush();
        self.recorder.renew(now);
    }

    /// The human line of `systemctl status`, when it is another.
    fn tell_status(&mut self) {
        if !self.progress.synced || !self.manager.is_present() {
            return;
        }
        let text = super::requests::summary(&self.engine);
        if text != self.progress.status {
            self.manager.status(&text);
            self.progress.status = text;
        }
    }

    /// What waited for the record goes to the kernel.
    fn pass_on(&mut self, held: Held, news: Option<News>) {
        if !held.changes.is_empty() {
            self.progress.asked = self.writer.want(held.changes);
        }
        if let Some(settings) = held.settings {
            self.progress.asked = self.writer.set(settings);
        }
        let path = self.config.daemon.state_file.display();
        match news {
            Some(News::Failing(error)) => {
                error!(
                    "cannot write state file {path}: {error}; a restart will not know the verdicts of now"
                );
            }
            Some(News::Stuck) => error!("state file {path} is not written: the disk does not answer"),
            Some(News::Recovered) => info!("state file {path} can be written again"),
            None => {}
        }
    }

    // -- the kernel ---------------------------------------------------------------------------

    fn handle_report(&mut self, report: Report, now: Time) {
        match report {
            Report::Written { ticket, operations, failed, settled } => {
                self.progress.counters.operations += operations as u64;
                self.progress.counters.failures += failed.len() as u64;
                if operations > 0 {
                    debug!(operations, failed = failed.len(), "wrote to the kernel");
                }
                for failure in &failed {
                    self.tell_repeatedly(&failure.to_string(), now);
                }
                let all = ticket >= self.progress.asked && !self.recorder.is_holding();
                if all && settled {
                    let services: BTreeSet<ServiceId> = self.engine.services().collect();
                    self.recorder.forget_others(&services);
                }
                if all && !self.progress.synced {
                    self.first_sync(failed.len());
                }
                self.reloading.note_written(ticket, &failed);
            }
            Report::Drifted(drifted) => {
                self.progress.counters.drift += drifted.repairs.len() as u64;
                let does =
                    if self.config.daemon.drift == Drift::Repair { "repairing" } else { "left as it is" };
                for repair in &drifted.repairs {
                    let service = repair.service().to_string();
                    let key = format!("drift {repair}");
                    if let Repeat::Tell { .. } = self.progress.repeats.observe(key, now) {
                        warn!(service, "the kernel's table is not as it was left, {does}: {repair}");
                    }
                }
            }
            Report::Failed(error) => self.tell_repeatedly(&error.to_string(), now),
            Report::Recovered => info!("netlink answers again"),
        }
    }

    fn first_sync(&mut self, failed: usize) {
        self.progress.synced = true;
        self.health.vitals.note_first_sync();
        let text = super::requests::summary(&self.engine);
        self.manager.status(&text);
        self.manager.ready();
        if failed == 0 {
            info!("ready: {text}");
        } else {
            warn!("ready, but {failed} changes of the kernel's table failed and are tried again: {text}");
        }
    }

    /// At error the first time, then hourly with a count.
    fn tell_repeatedly(&mut self, text: &str, now: Time) {
        match self.progress.repeats.observe(text.to_owned(), now) {
            Repeat::Tell { unsaid: 0 } => error!("{text}"),
            Repeat::Tell { unsaid } => error!("{text} ({unsaid} times more since it was last said)"),
            Repeat::Count => {}
        }
    }

    /// Hands the time-outs and sync daemons of the configuration to the kernel, once the original
    /// time-outs are on record.
    pub(super) fn settle_settings(&mut self) {
        let daemon = &self.config.daemon;
        let timeouts = self.recorder.timeouts(&daemon.timeouts);
        let settings = Settings { timeouts, sync: daemon.sync.clone() };
        if settings != self.progress.settings {
            self.progress.settings = settings.clone();
            self.recorder.hold_settings(settings);
        }
    }

    // -- the end ------------------------------------------------------------------------------

    async fn stop(mut self) {
        info!("stopping");
        self.health.aggregator.set_shutting_down();
        self.manager.stopping();
        self.probes.cancel_all();
        for pool in self.engine.virtual_servers().iter().filter(|pool| pool.config().omega) {
            self.announcer.announce_stop(pool);
        }
        let mut state = self.recorder.state(&self.engine, clock::now());
        let stop = match self.config.daemon.on_stop {
            OnStop::Keep => Stop::Keep,
            OnStop::Withdraw => Stop::Withdraw(self.recorder.timeouts_before_us()),
        };
        let withdrawn = self.withdraw(stop).await;
        if self.config.daemon.on_stop == OnStop::Withdraw && withdrawn {
            state.owned.clear();
            state.original_timeouts = None;
        }
        state.memory.saved_at = Some(clock::now());
        self.recorder.finish(state, FAREWELL).await;
        // A dump that hangs ends with the process.
        let threads = tokio::task::spawn_blocking(move || self.writer.join());
        let _ = tokio::time::timeout(FAREWELL, threads).await;
        self.announcer.into_notifications().finish(FAREWELL).await;
        info!("stopped");
    }

    /// Waits until the writer has done its last; was all of it carried out?
    async fn withdraw(&mut self, stop: Stop) -> bool {
        let last = self.writer.stop(stop);
        let reports = &mut self.inputs.reports;
        let written = async {
            let (mut gone, mut failed_otherwise) = (false, false);
            while let Some(report) = reports.recv().await {
                match report {
                    Report::Written { ticket, failed, settled, .. } if ticket >= last => {
                        failed.iter().for_each(|failure| error!("{failure}"));
                        gone = settled;
                    }
                    Report::Failed(error) => {
                        error!("{error}");
                        failed_otherwise = true;
                    }
                    Report::Written { .. } | Report::Drifted(_) | Report::Recovered => {}
                }
            }
            gone && !failed_otherwise
        };
        match tokio::time::timeout(WITHDRAWAL, written).await {
            Ok(all) => all,
            Err(_) => {
                error!("the kernel's table is not withdrawn: netlink has not answered for {WITHDRAWAL:?}");
                false
            }
        }
    }
}

/// Answers one question of a client; the supervisor may put it off until a reload is applied.
pub(super) type Answer = oneshot::Sender<crate::control::Reply>;
