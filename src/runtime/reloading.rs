//! A reload from request to report: read and validated away from this thread, applied by the engine,
//! over when the kernel has it. Requests that come meanwhile make one more reload: the last file wins.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tracing::{error, info, warn};

use super::announce::lost_order;
use super::counters::Reloaded;
use super::in_force::NextStart;
use super::kernel::Ticket;
use super::loading::{Loader, Ready, Refusal};
use super::readings;
use super::supervisor::{Answer, Supervisor};
use super::trial::Known;
use crate::control::{ExitCode, Reply, counted};
use crate::engine::Time;
use crate::engine::model::{Config, Daemon};
use crate::engine::reload::{Plan, Removed};
use crate::engine::snapshot::HappenedKind;

/// Action lines in the log. More say nothing that `lvsd plan` would not say better beforehand.
const LINES: usize = 200;

/// What a note begins with that is a warning of its own. Others have it behind their place.
const WARNING: &str = "warning: ";

/// For the addresses that are announced, once the kernel's table is written: a router may wait for neither.
const SETTLING: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Reloading {
    loader: Loader,
    loading: Option<Loading>,
    /// Asked for while one was under way.
    next: Option<Wish>,
    applying: Option<Applying>,
}

#[derive(Debug)]
struct Loading {
    task: JoinHandle<Result<(Ready, Loader), Refusal>>,
    wish: Wish,
}

/// What is wanted of a reload, by all who asked for it together.
#[derive(Debug, Default)]
pub(super) struct Wish {
    pub(super) answers: Vec<Answer>,
    pub(super) confirm: Option<Duration>,
    pub(super) force: Force,
}

/// Whether a reload may take away more than `max_removed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Force {
    #[default]
    No,
    Yes,
    /// A trial that has failed: nothing keeps it from going back, and nothing new is tried.
    Back,
}

impl Wish {
    /// They read the same file: what one of them allows holds for it.
    fn join(&mut self, other: Self) {
        self.answers.extend(other.answers);
        self.confirm = other.confirm.or(self.confirm);
        if other.force == Force::Yes {
            self.force = Force::Yes;
        }
    }
}

/// The engine has it, the kernel not yet.
#[derive(Debug)]
struct Applying {
    answers: Vec<Answer>,
    summary: String,
    /// What the operator should hear of although it is no mistake.
    notes: Vec<String>,
    /// What the writer must have done; unset while some of it waits for the record.
    ticket: Option<Ticket>,
    /// The addresses that are announced are waited for no longer.
    until: Option<Time>,
}

impl Reloading {
    /// `loader`: what has read the configuration that is in force.
    pub(super) fn new(loader: Loader) -> Self {
        Self { loader, loading: None, next: None, applying: None }
    }

    /// The configuration that is being read, when it has been.
    pub(super) async fn loaded(&mut self) -> Result<Ready, Refusal> {
        let Some(loading) = &mut self.loading else { return std::future::pending().await };
        let loaded = (&mut loading.task).await;
        let loaded = loaded.unwrap_or_else(|panicked| Err(Refusal::Broken(panicked.to_string())));
        let (ready, loader) = loaded?;
        self.loader = loader;
        Ok(ready)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.loading.is_some() || self.applying.is_some()
    }

    fn begin(&mut self, path: PathBuf, wish: Wish) {
        let task = tokio::spawn(self.loader.clone().load_and_read(path));
        self.loading = Some(Loading { task, wish });
    }

    fn take_wish(&mut self) -> Wish {
        self.loading.take().map(|loading| loading.wish).unwrap_or_default()
    }
}

impl Applying {
    /// Has the writer, who got as far as `written`, seen to all of it?
    fn is_written(&self, written: Ticket) -> bool {
        self.ticket.is_some_and(|wanted| wanted <= written)
    }
}

impl Supervisor {
    /// SIGHUP, or `lvsd reload` with an answer to give.
    pub(super) fn begin_reload(&mut self, wish: Wish) {
        if self.reloading.is_busy() {
            self.reloading.next.get_or_insert_default().join(wish);
            return;
        }
        self.load(wish);
    }

    /// From a trial to what was in force before it. Nothing is under way.
    pub(super) fn go_back(&mut self, good: Known) {
        if self.progress.synced {
            self.manager.reloading();
        }
        let loader = self.reloading.loader.clone();
        let task = tokio::spawn(async { Ok((good.ready().await?, loader)) });
        self.reloading.loading = Some(Loading { task, wish: Wish { force: Force::Back, ..Wish::default() } });
    }

    /// The service manager hears of reloads only after the start: before, READY would end the start, and
    /// that is for the first table to do.
    fn load(&mut self, wish: Wish) {
        if self.progress.synced {
            self.manager.reloading();
        }
        self.reloading.begin(self.config_path.clone(), wish);
    }

    /// The file cannot come into force: nothing changes.
    pub(super) fn handle_refusal(&mut self, refusal: &Refusal, now: Time) {
        let Wish { answers, force, .. } = self.reloading.take_wish();
        refusal.lines().iter().for_each(|line| error!("{line}"));
        if force == Force::Back {
            error!("going back has failed: what is on trial stays in force, and going back is tried again");
            return self.end_reload("going back to the configuration before the trial failed, trying again");
        }
        let mistakes = counted(refusal.count(), "mistake");
        error!("reload refused: {mistakes}, the running configuration stays");
        let start = if refusal.is_of_the_file() { NextStart::Fails } else { NextStart::Unsaid };
        self.note_refused(&mistakes, start, now);
        let reply = Reply::new(ExitCode::Configuration, refusal.text());
        answer_all(answers, &reply);
        self.end_reload("reload refused, the configuration before it is in force");
    }

    /// The file is good: the engine switches to it.
    pub(super) fn handle_loaded(&mut self, ready: Ready, now: Time) {
        let Wish { answers, confirm, force } = self.reloading.take_wish();
        let over = if force == Force::Back { self.trial.take() } else { None };
        if force == Force::Back && over.is_none() {
            // Confirmed at the last moment.
            let status = self.summary();
            return self.end_reload(&status);
        }
        let Ready { config, warnings, kinds, digest, pems, mut readings } = ready;
        // Comparing both takes as long as switching does.
        if force == Force::No
            && self.config.daemon.max_removed.is_some()
            && let Some(refusal) =
                too_much(&self.config, &self.engine.plan_reload(&config, &readings.presence))
        {
            return self.refuse_losses(answers, &refusal, now);
        }
        if force != Force::Back {
            self.not_in_force = None;
        }
        let mut notes = warnings.lines();
        let before = std::mem::replace(&mut self.config, Arc::clone(&config));
        let kinds_before = self.probes.replace_kinds(kinds);
        let digest_before = std::mem::replace(&mut self.digest, digest.clone());
        // On the way back nothing is read: the checks are what they were made of before.
        let renewed = if force == Force::Back { Vec::new() } else { pems.renewed(&self.pems, &config) };
        let pems_before = std::mem::replace(&mut self.pems, pems);
        if force != Force::Back {
            let (config, kinds, digest) = (Arc::clone(&before), kinds_before, digest_before);
            let known = Known { config, kinds, digest, pems: pems_before };
            notes.extend(self.try_out(confirm, known, now));
        }
        self.announcer.configure(super::start::daemon_name(&config), &config.daemon.notify);
        self.counters.handle_reload(&config, digest);
        let standings = self.announcer.before_reload(self.engine.virtual_servers());
        readings.presence = self.surroundings.adopt(&config, readings.presence);
        let plan = self.engine.handle_reload(&config, &readings, now);
        self.note_lost_orders(&plan.lost_orders);
        if let Some(trial) = over {
            self.note_way_back(&trial, now);
        }
        self.announcer.announce_reload(standings.as_deref(), self.engine.virtual_servers());
        let pools = (before.virtual_servers.as_slice(), self.engine.virtual_servers());
        self.announcer.note_reload(&plan, pools, now);
        self.writer.keep(self.engine.services().collect());
        self.watcher.watch(readings::files(&config));
        notes.extend(losses(&before, &config));
        notes.extend(restart_needs(&before.daemon, &config.daemon));
        // The level of the line is that word.
        notes.iter().for_each(|note| warn!("{}", note.strip_prefix(WARNING).unwrap_or(note)));
        // Events, which are logged as such.
        notes.extend(ended_orders(&plan));
        log_plan(&plan);
        renewed.iter().for_each(|line| info!("reload: {line}"));
        notes.extend(renewed);
        self.probes.warn_if_crowded(self.engine.probe_count());
        self.adopt_daemon_changes(&before.daemon);
        self.settle_settings();
        let summary = summary(&plan);
        self.recent.note_daemon(HappenedKind::Reload, &*summary, now);
        self.reloading.applying = Some(Applying { answers, summary, notes, ticket: None, until: None });
    }

    /// Ends a reload once the kernel has all of it, or has refused what it has not: also what it had refused
    /// before, since it lacks what the file says all the same. Called at each turn.
    pub(super) fn conclude_reload(&mut self) {
        let Some(applying) = &mut self.reloading.applying else { return };
        if applying.ticket.is_none() && !self.recorder.is_holding() {
            // An empty wish marks the place: whatever the reload changed was asked for before it.
            applying.ticket = Some(self.writer.want(vec![]));
        }
        if !applying.is_written(self.progress.writing.written()) {
            return;
        }
        // Addresses come after the table.
        let now = super::clock::now();
        let until = *applying.until.get_or_insert(now + SETTLING);
        if !self.vips.is_done() && now < until {
            return;
        }
        let open = self.vips.open();
        let Some(Applying { answers, summary, notes, .. }) = self.reloading.applying.take() else {
            return;
        };
        let open = open.iter().map(|line| format!("{WARNING}not as it should be: {line}"));
        let notes: Vec<String> = notes.into_iter().chain(open).collect();
        let notes: String = notes.iter().map(|note| format!("{note}\n")).collect();
        let shortfalls = self.progress.writing.shortfalls();
        let reply = if shortfalls.is_empty() {
            self.counters.note_reloaded(Reloaded::Done);
            Reply::done(format!("{notes}reload complete: {summary}"))
        } else {
            self.counters.note_reloaded(Reloaded::Incomplete);
            let open = counted(self.progress.writing.held().len(), "service");
            warn!("reload applied, but the kernel refused some of it: {open} not settled");
            let list = shortfalls.join("\n");
            Reply::failed(format!(
                "{notes}reload applied, but the kernel refused some of it:\n{list}\n{summary}"
            ))
        };
        answer_all(answers, &reply);
        let status = self.summary();
        self.end_reload(&status);
    }

    fn end_reload(&mut self, status: &str) {
        self.manager.status(status);
        if self.progress.synced {
            self.manager.ready();
        }
        if let Some(wish) = self.reloading.next.take() {
            self.load(wish);
        }
    }

    /// The file is good, but takes away more than it may.
    fn refuse_losses(&mut self, answers: Vec<Answer>, refusal: &str, now: Time) {
        error!("reload refused: {refusal}; the running configuration stays");
        self.note_refused(refusal, NextStart::TakesIt, now);
        answer_all(answers, &Reply::failed(format!("reload refused: {refusal}")));
        self.end_reload("reload refused, the configuration before it is in force");
    }

    /// What takes effect at once.
    fn adopt_daemon_changes(&mut self, before: &Daemon) {
        let after = Arc::clone(&self.config);
        let after = &after.daemon;
        self.writer.set_drift(after.drift, after.drift_interval);
        self.canaries.configure(&after.self_test);
        // What an operator has set ends here.
        if (before.log != after.log || self.log_filter.take().is_some())
            && let Err(error) = self.log.set_filter(&after.log)
        {
            warn!("log filter {:?} is not understood: {error}", after.log);
        }
    }
}

/// Settings that only a restart can change.
pub(super) fn restart_needs(before: &Daemon, after: &Daemon) -> Vec<String> {
    let fixed = [
        ("control_socket", before.control_socket == after.control_socket),
        ("control_group", before.control.group == after.control.group),
        ("control_mode", before.control.mode == after.control.mode),
        ("state_file", before.state_file == after.state_file),
        ("http", before.http == after.http),
    ];
    let changed = fixed.iter().filter(|(_, same)| !same);
    changed.map(|(key, _)| format!("{WARNING}daemon.{key} takes effect at the next restart")).collect()
}

/// The limit is that of the running configuration: a file that lost half of itself may have lost the limit
/// as well.
pub(super) fn too_much(running: &Config, plan: &Plan) -> Option<String> {
    let limit = running.daemon.max_removed?;
    let Removed { servers, of_servers, services, of_services } = plan.removed;
    let exceeds = |removed, of| !limit.allows(removed, of);
    (exceeds(servers, of_servers) || exceeds(services, of_services)).then(|| {
        format!(
            "it takes away {servers} of {} and {services} of {}, more than max_removed = {limit} allows; if that \
             is meant: lvsd reload --force",
            counted(of_servers, "real server"),
            counted(of_services, "service"),
        )
    })
}

/// A file without virtual servers is legal, and more often the wrong file.
pub(super) fn losses(before: &Config, after: &Config) -> Option<String> {
    let gone = before.virtual_servers.len();
    (gone > 0 && after.virtual_servers.is_empty())
        .then(|| format!("{WARNING}the new configuration has no virtual servers: all that there were ({gone}) are taken out of service"))
}

/// The orders that nobody takes over.
pub(super) fn ended_orders(plan: &Plan) -> impl Iterator<Item = String> {
    plan.lost_orders.iter().map(|lost| format!("{WARNING}the order is not taken over: {}", lost_order(lost)))
}

fn log_plan(plan: &Plan) {
    info!("reload: {}", summary(plan));
    for action in plan.actions.iter().take(LINES) {
        let real_server = action.real_server.map(|id| id.to_string());
        info!(
            virtual_server = action.virtual_server,
            real_server,
            reason = action.reason,
            "reload: {action}"
        );
    }
    if plan.actions.len() > LINES {
        info!("reload: {} more actions", plan.actions.len() - LINES);
    }
}

/// `3 removed, 1 edited, 2 added, 40 real servers carried over`
fn summary(plan: &Plan) -> String {
    use crate::engine::reload::ActionKind as Kind;
    let count = |kinds: &[Kind]| plan.actions.iter().filter(|a| kinds.contains(&a.kind)).count();
    let removed = count(&[Kind::RemoveVirtualServer, Kind::RemoveRealServer, Kind::RemoveSorryServer]);
    let edited = count(&[Kind::EditVirtualServer, Kind::EditRealServer, Kind::SetSorryServer]);
    let added = count(&[Kind::AddVirtualServer, Kind::AddRealServer]);
    let carried = plan.carried.real_servers();
    let carried = counted(carried, "real server");
    format!("{removed} removed, {edited} edited, {added} added, {carried} carried over")
}

fn answer_all(answers: Vec<Answer>, reply: &Reply) {
    for answer in answers {
        // A client that went away wants no answer.
        let _ = answer.send(reply.clone());
    }
}

#[cfg(test)]
mod tests;
