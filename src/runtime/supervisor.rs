//! The loop that owns the engine. Takes one input after the other, hands it to the engine, and carries
//! out what the engine says. Everything that may wait, for a disk, a netlink answer, a back end or a
//! client, waits elsewhere and comes back as an input.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tracing::{debug, info, warn};

use super::announce::Announcer;
use super::canaries::Canaries;
use super::checking::Checking;
use super::clock;
use super::counters::Counters;
use super::failures::{self, Told};
use super::kernel::{Report, Settings, Ticket, Writer};
use super::lacks::Lacks;
use super::loading::{Ready, Refusal};
use super::pems::PemFiles;
use super::pictures::Look;
use super::planning::{Planned, Planning};
use super::presence::Surroundings;
use super::probes::{Ended, Probes};
use super::readings;
use super::recent::Recent;
use super::recorder::{Held, News, Recorder, tell_of_record};
use super::reloading::{Reloading, Wish};
use super::requests::{Ask, Writing};
use super::scraping::Scrape;
use super::signals::{Signal, Signals};
use super::target::Target;
use super::trial::Trial;
use super::vips::{self, Vips};
use super::watcher::{Files, Watcher};
use crate::control::ExitCode;
use crate::engine::model::{Config, OnStop};
use crate::engine::self_test::{self, Canary};
use crate::engine::snapshot::{KernelCounters, NotInForce};
use crate::engine::{Engine, Time};
use crate::health::{Aggregator, Heartbeat};
use crate::telemetry::log::Log;
use crate::telemetry::systemd::ServiceManager;

/// The loop turns at least this often, to show that it lives.
pub(super) const TICK: Duration = self_test::TURN;
/// Outcomes taken in between two looks at everything else.
const OUTCOMES: usize = 256;

/// Everything that the loop owns.
pub(super) struct Supervisor {
    pub(super) config_path: PathBuf,
    pub(super) config: Arc<Config>,
    pub(super) engine: Engine,
    pub(super) probes: Probes,
    pub(super) canaries: Canaries,
    pub(super) watcher: Watcher,
    pub(super) surroundings: Surroundings,
    pub(super) writer: Writer,
    pub(super) recorder: Recorder,
    pub(super) vips: Vips,
    pub(super) announcer: Announcer,
    pub(super) manager: ServiceManager,
    pub(super) log: Arc<Log>,
    pub(super) health: Health,
    pub(super) reloading: Reloading,
    pub(super) planning: Planning,
    pub(super) checking: Checking,
    pub(super) trial: Option<Trial>,
    /// The file, if what runs is another.
    pub(super) not_in_force: Option<NotInForce>,
    /// Of the files of the configuration in force.
    pub(super) digest: String,
    pub(super) pems: PemFiles,
    /// As set by an operator, until the next reload.
    pub(super) log_filter: Option<String>,
    pub(super) counters: Counters,
    pub(super) recent: Recent,
    pub(super) lacks: Lacks,
    pub(super) inputs: Inputs,
    pub(super) progress: Progress,
    pub(super) target: Target,
    /// Instead of `on_stop`; of this run only.
    pub(super) next_stop: Option<OnStop>,
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
    pub(super) outcomes: mpsc::Receiver<Ended>,
    /// Files of checks that may have changed.
    pub(super) files: mpsc::Receiver<Files>,
    pub(super) reports: mpsc::Receiver<Report>,
    pub(super) asks: mpsc::Receiver<Ask>,
    pub(super) scrapes: mpsc::Receiver<Scrape>,
    pub(super) looks: mpsc::Receiver<Look>,
}

/// How far the kernel's table has come.
pub(super) struct Progress {
    /// Everything asked of the writer so far.
    pub(super) asked: Ticket,
    /// The first table has been written.
    pub(super) synced: bool,
    /// As last told to the service manager.
    status: String,
    /// What the kernel was last told to be set to.
    settings: Settings,
    pub(super) told: Told,
    pub(super) counters: KernelCounters,
    pub(super) writing: Writing,
    next_tick: Time,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            asked: Ticket::default(),
            synced: false,
            status: String::new(),
            settings: Settings::default(),
            told: Told::new(),
            counters: KernelCounters::default(),
            writing: Writing::default(),
            next_tick: Time::ZERO,
        }
    }
}

enum Input {
    Outcomes(Vec<Ended>),
    Canary(Canary),
    Files(Files),
    /// Addresses or files that gates ask for.
    Presence,
    Report(Report),
    Addresses(vips::Report),
    Ask(Ask),
    Scrape(Scrape),
    Look(Look),
    Loaded(Result<Ready, Refusal>),
    Planned(Box<Planned>),
    Saved(std::io::Result<()>),
    Signal(Signal),
    /// Somebody wants to be told how everything stands.
    Listener,
    /// A thread that the table or the addresses depend on has ended by itself.
    Broken,
    Timeout,
}

/// Why the loop ends.
enum End {
    Asked,
    Broken,
}

impl Supervisor {
    /// Until a signal ends it, or a thread breaks that the table depends on.
    pub(super) async fn run(mut self) -> ExitCode {
        self.settle_settings();
        let mut now = clock::now();
        self.turn(now);
        // A table without services needs no change, but an answer too.
        self.progress.asked = self.writer.want(vec![]);
        loop {
            let input = self.next_input(now).await;
            // Twice a turn: where the clock is a system call, reading it for each step would cost as much as
            // a check.
            let began = clock::now();
            self.engine.handle_turn(began);
            match self.handle(input, began) {
                ControlFlow::Continue(()) => self.turn(began),
                ControlFlow::Break(End::Asked) => return self.stop().await,
                ControlFlow::Break(End::Broken) => return self.abandon().await,
            }
            now = clock::now();
            self.counters.note_turn(now.since(began));
        }
    }

    async fn next_input(&mut self, now: Time) -> Input {
        let wake = [
            self.engine.poll_timeout(),
            self.recorder.poll_timeout(),
            self.checking.poll_timeout(),
            self.trial.as_ref().map(Trial::until),
            Some(self.progress.next_tick),
        ];
        let mut delay = wake.into_iter().flatten().min().map_or(TICK, |at| at.since(now));
        if self.engine.has_commands() {
            // First the runs that have begun.
            tokio::task::yield_now().await;
            delay = Duration::ZERO;
        }
        let mut outcomes = Vec::new();
        tokio::select! {
            biased;
            signal = self.inputs.signals.next() => Input::Signal(signal),
            report = self.inputs.reports.recv() => report.map_or(Input::Broken, Input::Report),
            report = self.vips.report() => report.map_or(Input::Broken, Input::Addresses),
            loaded = self.reloading.loaded() => Input::Loaded(loaded),
            result = self.recorder.answered() => Input::Saved(result),
            Some(files) = self.inputs.files.recv() => Input::Files(files),
            planned = self.planning.planned() => Input::Planned(Box::new(planned)),
            () = self.announcer.asked() => Input::Listener,
            changed = self.surroundings.changed() => changed.map_or(Input::Broken, |()| Input::Presence),
            // Before the outcomes: it says what to think of them.
            canary = self.canaries.round() => Input::Canary(canary),
            _ = self.inputs.outcomes.recv_many(&mut outcomes, OUTCOMES) => Input::Outcomes(outcomes),
            // After the outcomes: clients that never stop asking hold up nothing but each other.
            Some(ask) = self.inputs.asks.recv() => Input::Ask(ask),
            Some(scrape) = self.inputs.scrapes.recv() => Input::Scrape(scrape),
            Some(look) = self.inputs.looks.recv() => Input::Look(look),
            () = tokio::time::sleep(delay) => Input::Timeout,
        }
    }

    fn handle(&mut self, input: Input, now: Time) -> ControlFlow<End> {
        match input {
            Input::Outcomes(outcomes) => self.handle_outcomes(outcomes, now),
            Input::Canary(canary) => self.engine.handle_canary(&canary, now),
            Input::Files(files) => {
                self.surroundings.note_changes(&files, now);
                self.engine.handle_wakeup(|probe| readings::reads(probe, &files), now);
            }
            Input::Presence => self.engine.handle_presence(&self.surroundings.presence(), now),
            Input::Report(report) => self.handle_report(report, now),
            Input::Addresses(report) => self.handle_addresses(report, now),
            Input::Ask(ask) => self.handle_ask(ask, now),
            Input::Scrape(scrape) => self.answer_scrape(scrape),
            Input::Look(look) => self.answer_look(look, now),
            Input::Loaded(Ok(ready)) => self.handle_loaded(ready, now),
            Input::Loaded(Err(refusal)) => self.handle_refusal(&refusal, now),
            Input::Planned(planned) => self.handle_planned(*planned),
            Input::Saved(result) => {
                self.counters.note_saved(&result);
                let (held, news) = self.recorder.handle_answer(result, now);
                self.pass_on(held, news);
            }
            Input::Signal(Signal::Stop) => return ControlFlow::Break(End::Asked),
            Input::Signal(Signal::Reload) => self.begin_reload(Wish::default()),
            Input::Signal(Signal::Status) => info!("{}", self.summary()),
            Input::Listener => self.announcer.show(self.engine.virtual_servers()),
            Input::Broken => return ControlFlow::Break(End::Broken),
            Input::Timeout => {}
        }
        ControlFlow::Continue(())
    }

    /// Carries out what the engine has decided, and shows that the loop lives.
    fn turn(&mut self, now: Time) {
        if now >= self.progress.next_tick {
            self.health.vitals.note_lateness(self.engine.lateness(now));
        }
        self.engine.handle_timeout(now);
        // Traffic first: what is told of a change, and the next checks, come while it is written.
        self.write_changes();
        self.health.vitals.note_frozen(self.engine.is_frozen());
        let now = self.begin_runs(now);
        while let Some(event) = self.engine.next_event() {
            self.counters.note_event(&event);
            self.canaries.note_event(&event);
            self.recent.note(&event, now);
            self.announcer.announce(event, now);
        }
        self.settle_addresses();
        if self.engine.take_memory_changed() {
            self.recorder.note_change();
        }
        let (held, news) = self.recorder.turn(&self.engine, now);
        self.pass_on(held, news);
        self.counters.note_asked(self.progress.asked, now);
        self.conclude_reload();
        self.conclude_checks(now);
        self.end_trial(now);
        self.tick(now);
    }

    pub(super) fn write_changes(&mut self) {
        let changes = self.engine.take_table_changes();
        if !changes.is_empty() {
            let free = self.recorder.admit(changes);
            if !free.is_empty() {
                self.progress.asked = self.writer.want(free);
            }
        }
    }

    fn tick(&mut self, now: Time) {
        self.health.heartbeat.beat();
        if now < self.progress.next_tick {
            return;
        }
        let pace = self.manager.watchdog_interval().map_or(TICK, |interval| TICK.min(interval / 3));
        self.progress.next_tick = now + pace;
        self.tell_status();
        self.manager.watchdog();
        self.manager.flush();
        self.recorder.renew(now);
        self.surroundings.tick(now);
    }

    /// The human line of `systemctl status`, when it is another.
    fn tell_status(&mut self) {
        if !self.progress.synced || !self.manager.is_present() {
            return;
        }
        let text = self.summary();
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
        tell_of_record(&self.config.daemon.state_file, news);
    }

    // -- the kernel ---------------------------------------------------------------------------

    fn handle_report(&mut self, report: Report, now: Time) {
        match report {
            Report::Written { ticket, operations, failed, settled, open, held, barred } => {
                self.health.vitals.note_barred(barred);
                self.progress.writing.note(ticket, &failed, open, held);
                self.counters.note_written(ticket, failed.len(), now);
                self.progress.counters.operations += operations as u64;
                self.progress.counters.failures += failed.len() as u64;
                if operations > 0 {
                    debug!(operations, failed = failed.len(), "wrote to the kernel");
                }
                let failures = failures::lines(&failed);
                self.progress.told.tell_operations(&failures, now);
                if settled {
                    self.progress.told.note_settled();
                }
                let all = ticket >= self.progress.asked && !self.recorder.is_holding();
                if all && settled {
                    self.recorder.forget_others(self.engine.services());
                }
                if all && !self.progress.synced {
                    self.first_sync(failed.len());
                }
            }
            Report::Drifted(drifted) => self.handle_drifted(&drifted, now),
            Report::Surprised(errors) => self.handle_surprise(errors, now),
            Report::Failed(error) => {
                self.counters.note_request_error();
                self.progress.told.tell_request(&error, now);
            }
            Report::Recovered => self.progress.told.note_recovered(),
        }
    }

    fn first_sync(&mut self, failed: usize) {
        self.progress.synced = true;
        self.health.vitals.note_first_sync();
        let text = self.summary();
        self.manager.status(&text);
        self.manager.ready();
        if failed == 0 {
            info!("ready: {text}");
        } else {
            warn!("ready, but {failed} changes of the kernel's table failed and are tried again: {text}");
        }
        self.announcer.announce_start();
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
}

/// Answers one question of a client; the supervisor may put it off until a reload is applied.
pub(super) type Answer = oneshot::Sender<crate::control::Reply>;
