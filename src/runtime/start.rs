//! From a file's name to a running supervisor, step by step, and back to an exit code.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use super::announce::Announcer;
use super::canaries::Canaries;
use super::checking::Checking;
use super::clock;
use super::counters::Counters;
use super::front::{Clients, Front, Received};
use super::kernel::{Backoff, Beginning, Writer};
use super::loading::{Loader, Ready};
use super::lock::Lock;
use super::opening::{Opened, open_memory, open_netlink};
use super::pems::PemFiles;
use super::planning::Planning;
use super::presence::{Ended, Surroundings};
use super::probes::Probes;
use super::readiness::Dependencies;
use super::readings;
use super::recent::Recent;
use super::recorder::Recorder;
use super::reloading::Reloading;
use super::requests::Ask;
use super::signals::Signals;
use super::state_file::{self, State, StateFile};
use super::supervisor::{Health, Inputs, Progress, Supervisor, TICK};
use super::target::Target;
use super::vips::Vips;
use super::watcher::Watcher;
use crate::control::{ExitCode, Reply};
use crate::engine::model::Config;
use crate::engine::{Engine, Readings};
use crate::health::Heartbeat;
use crate::ipvs::OpenError;
use crate::notify::Outlets;
use crate::process::helper;
use crate::telemetry::log::Log;
use crate::telemetry::systemd::ServiceManager;

/// For the log's reader to take the last lines.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Outcomes on their way to the supervisor; a task with one more waits.
const OUTCOMES: usize = 1024;
const REPORTS: usize = 1024;
/// Sets of files that have changed; their watcher waits with more.
const FILES: usize = 4;

/// `lvsd run`: everything until the process has nothing more to do.
pub fn run(path: &Path, target: Target) -> ExitCode {
    let (runtime, signals) = match listen_to_signals() {
        Ok(listening) => listening,
        Err(problem) => {
            complain(&format!("cannot handle signals: {problem}"));
            return ExitCode::Failed;
        }
    };
    let mut loader = Loader::default();
    let ready = match loader.load(path) {
        Ok(ready) => ready,
        Err(refusal) => {
            complain(&refusal.text());
            return ExitCode::Configuration;
        }
    };
    let log = match Log::start(&ready.config.daemon.log) {
        Ok(log) => Arc::new(log),
        Err(problem) => {
            complain(&format!("{}: log filter: {problem}", path.display()));
            return ExitCode::Configuration;
        }
    };
    let code = runtime.block_on(start(path.to_owned(), (ready, loader), target, Arc::clone(&log), signals));
    // A reload that still reads, or a name service that hangs, must not hold up the end.
    runtime.shutdown_background();
    // What the log's reader has not taken by then is lost.
    log.flush(LAST_WORDS);
    code
}

/// Before anything that takes time: a reload that is asked for while a large file is being read must
/// not end the process.
fn listen_to_signals() -> std::io::Result<(Runtime, Signals)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let signals = Signals::new()?;
    drop(entered);
    Ok((runtime, signals))
}

/// Where there is no log yet. Whether anybody reads it changes nothing.
fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

async fn start(
    path: PathBuf,
    (ready, loader): (Ready, Loader),
    target: Target,
    log: Arc<Log>,
    mut signals: Signals,
) -> ExitCode {
    let Ready { config, warnings, kinds, digest, pems, readings: _ } = ready;
    let dry = match target {
        Target::Kernel => "",
        Target::Memory(_) => ", a dry run: the kernel's table is neither read nor written",
    };
    info!("lvsd {} starts with {}{dry}", env!("CARGO_PKG_VERSION"), path.display());
    warnings.lines().iter().for_each(|line| warn!("{line}"));
    super::probes::raise_descriptor_limit();
    let lock = match target {
        Target::Kernel => match Lock::take() {
            Ok(lock) => Some(lock),
            Err(problem) => return fail(&problem.to_string()),
        },
        // Touches nothing that a daemon manages, and must not keep one from it.
        Target::Memory(_) => None,
    };
    let dependencies = Arc::new(Dependencies::new());
    let (clients, mut received) = Clients::new(Arc::clone(&log));
    let front = match Front::open(&path, &config, target, &dependencies, clients) {
        Ok(front) => front,
        Err(problem) => return fail(&problem),
    };
    dependencies.install_config();
    let mut waiting =
        Waiting { signals: &mut signals, asked: &mut received.asks, heartbeat: &dependencies.heartbeat };
    let opened = match open_kernel(target, &mut waiting).await {
        Ok(opened) => opened,
        Err(code) => {
            front.join();
            return code;
        }
    };
    // Not before: the kernel's table may have taken a while to come.
    let surroundings = match read_surroundings(&config, &log, &mut waiting).await {
        Ok(surroundings) => surroundings,
        Err(code) => {
            front.join();
            return code;
        }
    };
    let handle = tokio::runtime::Handle::current();
    let notify = &config.daemon.notify;
    let outlets = Outlets::new(handle, helper::path(), notify, target.audience(), log.breaks().clone());
    let (readings, ()) = tokio::join!(readings::take(&config, &kinds), outlets.opened());
    let beginning = Setup {
        path,
        config,
        kinds,
        digest,
        pems,
        loader,
        readings,
        surroundings,
        outlets,
        target,
        log,
        signals,
        received,
    };
    let code = match supervisor(beginning, opened, &dependencies) {
        // A task, so that what else is ready has its turn before the loop's next: the runtime polls the future that
        // it was started with before all tasks, and with more due than can be run, none would come to its end.
        Ok(supervisor) => match tokio::spawn(supervisor.run()).await {
            Ok(code) => code,
            // Nobody cancels it.
            Err(broken) => std::panic::resume_unwind(broken.into_panic()),
        },
        Err(problem) => fail(&problem),
    };
    front.join();
    drop(lock);
    code
}

fn fail(problem: &str) -> ExitCode {
    error!("{problem}");
    ExitCode::Failed
}

/// In mails, events and metrics.
pub(super) fn daemon_name(config: &Config) -> String {
    let host = || nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
    config.daemon.name.clone().or_else(|| host().ok()).unwrap_or_else(|| "lvsd".to_owned())
}

/// An error with its causes, on one line.
pub(super) fn chain(error: impl std::error::Error + Send + Sync + 'static) -> String {
    format!("{:#}", anyhow::Error::new(error))
}

/// Waits for ip_vs with back-off: a module that comes late is no reason to be restarted over and over.
/// A missing privilege does not come by waiting.
async fn open_kernel(target: Target, waiting: &mut Waiting<'_>) -> Result<Opened, ExitCode> {
    let mut backoff = Backoff::new();
    let mut said = None;
    loop {
        let mut opening = tokio::task::spawn_blocking(move || match target {
            Target::Kernel => open_netlink(),
            Target::Memory(_) => open_memory(),
        });
        let opened = tokio::select! {
            opened = &mut opening => opened,
            () = waiting.wait("opening the kernel's table") => return Err(ExitCode::Done),
        };
        let problem = match opened {
            Ok(Ok(opened)) => return Ok(opened),
            Ok(Err(OpenError::NotPermitted)) => {
                error!("{}", OpenError::NotPermitted);
                return Err(ExitCode::NotAllowed);
            }
            Ok(Err(problem)) => problem.to_string(),
            Err(panicked) => panicked.to_string(),
        };
        if said.as_ref() != Some(&problem) {
            error!("{problem}; trying again until it works");
        }
        let reason = said.insert(problem);
        tokio::select! {
            () = tokio::time::sleep(backoff.next()) => {}
            () = waiting.wait(reason) => return Err(ExitCode::Done),
        }
    }
}

/// What gates ask for, before the first table. Addresses that cannot be read are waited for as an absent
/// kernel is: nothing is written, and nothing taken out, in a role that nobody knows.
async fn read_surroundings(
    config: &Config,
    log: &Log,
    waiting: &mut Waiting<'_>,
) -> Result<Surroundings, ExitCode> {
    let mut surroundings = Surroundings::begin(config, log.breaks().clone())
        .map_err(|problem| fail(&format!("cannot follow this host's addresses: {problem}")))?;
    tokio::select! {
        known = surroundings.known() => match known {
            Ok(()) => Ok(surroundings),
            Err(Ended) => Err(fail("the thread that follows this host's addresses broke off")),
        },
        () = waiting.wait("reading this host's addresses, which active_when asks for") => Err(ExitCode::Done),
    }
}

/// What goes on while the kernel's table is not there yet: the process lives and says so.
struct Waiting<'a> {
    signals: &'a mut Signals,
    asked: &'a mut mpsc::Receiver<Ask>,
    heartbeat: &'a Heartbeat,
}

impl Waiting<'_> {
    /// Until a signal to stop comes. Clients are told what is waited for.
    async fn wait(&mut self, reason: &str) {
        loop {
            self.heartbeat.beat();
            tokio::select! {
                () = self.signals.stop() => return,
                Some(ask) = self.asked.recv() => {
                    // A client that went away wants no answer.
                    let text = format!("lvsd is still starting: {reason}");
                    let _ = ask.reply.send(Reply::new(ExitCode::Unreachable, text));
                }
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }
}

struct Setup {
    path: PathBuf,
    config: Arc<Config>,
    kinds: super::probes::PreparedKinds,
    digest: String,
    pems: PemFiles,
    loader: Loader,
    readings: Readings,
    surroundings: Surroundings,
    outlets: Outlets,
    target: Target,
    log: Arc<Log>,
    signals: Signals,
    received: Received,
}

/// Puts everything together: what the last run left, what the kernel holds, and so the engine.
fn supervisor(setup: Setup, opened: Opened, dependencies: &Dependencies) -> Result<Supervisor, String> {
    let Setup {
        path,
        config,
        kinds,
        digest,
        pems,
        loader,
        mut readings,
        mut surroundings,
        outlets,
        target,
        log,
        signals,
        received,
    } = setup;
    readings.presence = surroundings.presence();
    let (daemon, breaks) = (&config.daemon, log.breaks().clone());
    let now = clock::now();
    let left_behind = match target {
        Target::Kernel => read_state(&daemon.state_file, now),
        Target::Memory(_) => State::default(),
    };
    let engine = Engine::start(&config, &left_behind.memory, &opened.observed.table, &readings, now);
    let file = match target {
        Target::Kernel => Some(StateFile::spawn(daemon.state_file.clone(), &breaks).map_err(chain)?),
        Target::Memory(_) => None,
    };
    let (reports, reported) = mpsc::channel(REPORTS);
    let beginning = Beginning {
        observed: opened.observed,
        owned: left_behind.owned.clone(),
        drift: daemon.drift,
        drift_interval: daemon.drift_interval,
    };
    let mut writer = Writer::spawn(opened.kernel, opened.dump, beginning, reports).map_err(chain)?;
    writer.keep(engine.services().collect());
    dependencies.install_kernel(writer.answers());
    dependencies.install_vitals();
    let vips = match target {
        Target::Kernel => Vips::spawn(breaks.clone()).map_err(chain)?,
        Target::Memory(_) => Vips::none(),
    };
    let (outcomes, outcome) = mpsc::channel(OUTCOMES);
    let (changed_files, files) = mpsc::channel(FILES);
    let mut watcher = Watcher::new(changed_files, breaks.clone());
    watcher.watch(readings::files(&config));
    let probes = Probes::new(kinds, outcomes);
    probes.warn_if_crowded(engine.probe_count());
    Ok(Supervisor {
        config_path: path,
        engine,
        probes,
        canaries: Canaries::new(&config.daemon.self_test, &breaks),
        watcher,
        surroundings,
        writer,
        vips,
        recorder: Recorder::new(file, &left_behind, opened.timeouts),
        announcer: Announcer::new(daemon_name(&config), outlets),
        manager: ServiceManager::from_env(),
        log,
        health: Health {
            aggregator: Arc::clone(&dependencies.aggregator),
            heartbeat: dependencies.heartbeat.clone(),
            vitals: Arc::clone(&dependencies.vitals),
        },
        reloading: Reloading::new(loader),
        planning: Planning::default(),
        checking: Checking::default(),
        trial: None,
        not_in_force: None,
        log_filter: None,
        counters: Counters::new(&config, digest.clone()),
        digest,
        pems,
        recent: Recent::default(),
        lacks: received.lacks,
        inputs: Inputs {
            signals,
            outcomes: outcome,
            files,
            reports: reported,
            asks: received.asks,
            scrapes: received.scrapes,
            looks: received.looks,
        },
        progress: Progress::new(),
        target,
        next_stop: None,
        config,
    })
}

/// A state file that cannot be used costs a start its memory, never the start.
fn read_state(path: &Path, now: crate::engine::Time) -> State {
    match state_file::read(path, now) {
        Ok(Some(state)) => state,
        Ok(None) => State::default(),
        Err(problem) => {
            error!("{problem}; starting from the kernel's table alone");
            State::default()
        }
    }
}
