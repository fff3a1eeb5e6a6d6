//! Events of the engine as log lines and notifications: one line for each change of state, at the
//! level an operator would choose; failed tries at debug; repeats counted, not printed.

mod frozen;
pub(super) mod gate;
pub(super) mod guard;
mod orders;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use tracing::{debug, error, info, warn};

pub(super) use orders::{given_name, lost_order, order_name};

use super::history::History;
use crate::control::happening::What;
use crate::control::stream::Feeds;
use crate::engine::model::{self, Argv, Check, Fault, Notify, Phase};
use crate::engine::{Cause, Event, News, QuorumEvent, QuorumKind, Server, SorryAction, Time, VirtualServer};
use crate::notify::{self, EventKind, Outlets, Quorum, Standing, State};
use crate::telemetry::repeats::{HOURLY, Repeat, Repeats};

/// Objects whose repeats are counted at most.
const REPEATS: usize = 10_000;

#[derive(Debug)]
pub(super) struct Announcer {
    /// The daemon's name.
    pub(super) name: String,
    /// Runs of checks that ended in a panic.
    pub(super) broken_checks: u64,
    /// Events so far.
    sequence: u64,
    outlets: Outlets,
    pub(super) history: History,
    /// Clients that follow what happens.
    pub(super) feeds: Feeds,
    /// By virtual server, real server and what it was.
    local_errors: Repeats<(String, String, String)>,
}

impl Announcer {
    pub(super) fn new(name: String, outlets: Outlets) -> Self {
        let local_errors = Repeats::new(HOURLY, REPEATS);
        let history = History::default();
        Self { name, broken_checks: 0, sequence: 0, outlets, history, feeds: Feeds::default(), local_errors }
    }

    /// A new configuration is in force.
    pub(super) fn configure(&mut self, name: String, notify: &Notify) {
        self.name = name;
        self.outlets.configure(notify);
    }

    pub(super) fn announce(&mut self, event: Event, now: Time) {
        if let Some(happening) = self.history.note(&event, now) {
            self.feeds.tell(&happening);
        }
        match event {
            Event::RealServer { of, alive, news, cause } => self.real_server(&of, alive, news, &cause),
            Event::Weight { of, from, to, cause } => {
                let Names { virtual_server, real_server } = Names::of(&of);
                let reason = reason(&cause);
                info!(
                    virtual_server,
                    real_server, reason, "{real_server} in {virtual_server}: weight {from} → {to}: {reason}"
                );
            }
            Event::Quorum { virtual_server, quorum } => self.quorum(&virtual_server, &quorum),
            Event::Failure { of, check, fault, .. } | Event::SetAside { of, check, fault }
                if fault.phase == Phase::Internal =>
            {
                self.broken_checks += 1;
                let Names { virtual_server, real_server } = Names::of(&of);
                let kind = check.probe.kind.name();
                error!(
                    virtual_server,
                    real_server,
                    check = kind,
                    "{real_server} in {virtual_server}: the {kind} check itself broke: {fault}"
                );
            }
            Event::Failure { of, check, transition, fault } => {
                let Names { virtual_server, real_server } = Names::of(&of);
                let (kind, tries) = (check.probe.kind.name(), check.timing.retry.saturating_add(1));
                debug!(
                    virtual_server,
                    real_server,
                    check = kind,
                    phase = fault.phase.name(),
                    "{real_server} in {virtual_server}: {kind} check failed, try {} of {tries}: {fault}",
                    transition.retries.min(tries),
                );
            }
            Event::SetAside { of, check, fault } => frozen::set_aside(&of, &check, &fault),
            Event::Frozen { symptom, reason, first } => self.frozen(symptom, &reason, first),
            Event::Thawed { lasted, set_aside } => self.thawed(lasted, set_aside),
            Event::Gate { virtual_server, active, services } => {
                gate::tell(&virtual_server, active, &services)
            }
            Event::Guard { virtual_server, guard, kept, min_alive, max_down_rate } => {
                self.guard(&virtual_server, guard, &kept, (min_alive, max_down_rate));
            }
            Event::LocalError { of, check, fault } => self.local_error(&of, &check, &fault, now),
            Event::Order { of, change, note } => orders::given(&of, change, &note),
            Event::OrderEnded { of, given, note } => orders::ended(&of, given, &note, now),
            Event::OrderLost(lost) => orders::lost(&lost),
            Event::OrderRestored { of, given, note } => orders::restored(&of, given, &note),
        }
    }

    fn real_server(&mut self, of: &Server, alive: bool, news: News, cause: &Cause) {
        let Names { virtual_server, real_server } = Names::of(of);
        let (reason, check) = (reason(cause), check_name(cause));
        let word = match (alive, news) {
            (true, News::Changed) => "up",
            (true, News::First) => "up at its first check",
            (false, News::Changed) => "down",
            (false, News::First) => "down at its first check",
        };
        if alive {
            info!(
                virtual_server,
                real_server,
                check,
                state = "up",
                reason,
                "{real_server} in {virtual_server}: {word}: {reason}"
            );
        } else {
            warn!(
                virtual_server,
                real_server,
                check,
                state = "down",
                reason,
                "{real_server} in {virtual_server}: {word}: {reason}"
            );
        }
        self.publish(of_server(&of.virtual_server, &of.real_server, alive, Some(reason)));
    }

    fn quorum(&mut self, of: &Arc<model::VirtualServer>, quorum: &QuorumEvent) {
        let virtual_server = of.name.as_str();
        let sorry = match quorum.sorry_action {
            SorryAction::None => "",
            SorryAction::Install => ", the sorry server takes over",
            SorryAction::Remove => ", the sorry server steps back",
        };
        let (weight, threshold) = (quorum.weight, quorum.threshold);
        match quorum.kind {
            QuorumKind::NoChange => {}
            QuorumKind::Gained => {
                info!(
                    virtual_server,
                    quorum = "up",
                    "{virtual_server}: quorum gained, weight {weight} of {threshold}{sorry}"
                );
                self.publish(of_quorum(of, true, Some(Quorum { weight, threshold })));
            }
            QuorumKind::Lost => {
                warn!(
                    virtual_server,
                    quorum = "down",
                    "{virtual_server}: quorum lost, weight {weight} of {threshold}{sorry}"
                );
                self.publish(of_quorum(of, false, Some(Quorum { weight, threshold })));
            }
        }
    }

    fn local_error(&mut self, of: &Server, check: &Check, fault: &Fault, now: Time) {
        let Names { virtual_server, real_server } = Names::of(of);
        let kind = check.probe.kind.name();
        let key = (virtual_server.to_owned(), real_server.clone(), fault.to_string());
        let before = match self.local_errors.observe(key, now) {
            Repeat::Tell { unsaid: 0 } => String::new(),
            Repeat::Tell { unsaid } => format!(" ({unsaid} times more since it was last said)"),
            Repeat::Count => return,
        };
        warn!(
            virtual_server,
            real_server,
            check = kind,
            "{real_server} in {virtual_server}: {kind} check could not be run, its verdict stays: {fault}{before}",
        );
    }

    /// Until somebody wants to be told how everything stands. Can be dropped and called again.
    pub(super) async fn asked(&self) {
        self.outlets.asked().await;
    }

    /// To be called when no event is on its way, so that each comes after what it changes.
    pub(super) fn show(&self, pools: &[VirtualServer]) {
        if self.outlets.wants_state() {
            self.outlets.show(&standings(pools));
        }
    }

    /// For [`Self::announce_reload`]: how everything stands before it, if somebody has to hear of the reload.
    pub(super) fn before_reload(&self, pools: &[VirtualServer]) -> Option<Vec<Standing>> {
        self.outlets.is_followed().then(|| standings(pools))
    }

    pub(super) fn announce_reload(&self, before: Option<&[Standing]>, pools: &[VirtualServer]) {
        if let Some(before) = before {
            self.outlets.show_changes(before, &standings(pools));
        }
    }

    /// The first table has been written.
    pub(super) fn announce_start(&mut self) {
        self.note_daemon(What::Started);
        self.publish(of_daemon(EventKind::Started));
    }

    /// With `omega` the down notifications run at stop, for what is up then.
    pub(super) fn announce_stop(&mut self, pools: &[VirtualServer]) {
        self.show(pools);
        for pool in pools.iter().filter(|pool| pool.config().omega) {
            for server in pool.real_servers().iter().filter(|s| s.is_alive()) {
                self.publish(of_server(pool.config(), server.config(), false, None));
            }
            if pool.is_quorum_up() {
                self.publish(of_quorum(pool.config(), false, None));
            }
        }
        self.note_daemon(What::Stopping);
        self.publish(of_daemon(EventKind::Stopping));
    }

    /// The one way to everybody who is told of events.
    fn publish(&mut self, news: ToTell<'_>) {
        self.sequence += 1;
        let event = notify::Event {
            sequence: self.sequence,
            at: SystemTime::now(),
            kind: news.kind,
            daemon: self.name.clone(),
            virtual_server: news.virtual_server.cloned(),
            real_server: news.real_server.map(|server| server.id),
            reason: news.reason,
            quorum: news.quorum,
        };
        self.outlets.tell(event, news.script);
    }

    pub(super) fn outlets(&self) -> &Outlets {
        &self.outlets
    }

    pub(super) fn into_outlets(self) -> Outlets {
        self.outlets
    }
}

/// What makes an event of the notifications, beside what all have.
struct ToTell<'a> {
    kind: EventKind,
    /// Of the object's own.
    script: Option<&'a Argv>,
    virtual_server: Option<&'a Arc<model::VirtualServer>>,
    real_server: Option<&'a model::RealServer>,
    reason: Option<String>,
    quorum: Option<Quorum>,
}

fn of_server<'a>(
    pool: &'a Arc<model::VirtualServer>,
    server: &'a model::RealServer,
    alive: bool,
    reason: Option<String>,
) -> ToTell<'a> {
    let (kind, script) = if alive {
        (EventKind::RealServerUp, server.notify_up.as_deref())
    } else {
        (EventKind::RealServerDown, server.notify_down.as_deref())
    };
    let (virtual_server, real_server) = (Some(pool), Some(server));
    ToTell { kind, script, virtual_server, real_server, reason, quorum: None }
}

fn of_quorum(pool: &Arc<model::VirtualServer>, up: bool, quorum: Option<Quorum>) -> ToTell<'_> {
    let (kind, script) = if up {
        (EventKind::QuorumGained, &pool.quorum_up)
    } else {
        (EventKind::QuorumLost, &pool.quorum_down)
    };
    let virtual_server = Some(pool);
    ToTell { kind, script: script.as_ref(), virtual_server, real_server: None, reason: None, quorum }
}

const fn of_daemon(kind: EventKind) -> ToTell<'static> {
    ToTell { kind, script: None, virtual_server: None, real_server: None, reason: None, quorum: None }
}

fn standings(pools: &[VirtualServer]) -> Vec<Standing> {
    let state = |up| if up { State::Up } else { State::Down };
    let servers = |pool: &VirtualServer| {
        pool.real_servers().iter().map(|server| (server.id(), state(server.is_alive()))).collect()
    };
    let standing = |pool: &VirtualServer| Standing {
        virtual_server: Arc::clone(pool.config()),
        quorum: state(pool.is_quorum_up()),
        real_servers: servers(pool),
    };
    pools.iter().map(standing).collect()
}

struct Names<'a> {
    virtual_server: &'a str,
    real_server: String,
}

impl<'a> Names<'a> {
    fn of(server: &'a Server) -> Self {
        Self {
            virtual_server: server.virtual_server.name.as_str(),
            real_server: server.real_server.id.to_string(),
        }
    }
}

pub(super) fn reason(cause: &Cause) -> String {
    match cause {
        Cause::Check { kind, detail, evidence: _ } => format!("{kind} check: {detail}"),
        Cause::Operator => "by the operator's order".to_owned(),
        Cause::OrderEnded => "the time of the operator's order is over".to_owned(),
        Cause::Reload => "by the reload".to_owned(),
    }
}

fn check_name(cause: &Cause) -> Option<&'static str> {
    match cause {
        Cause::Check { kind, .. } => Some(kind),
        Cause::Operator | Cause::OrderEnded | Cause::Reload => None,
    }
}

/// For logs: where a listener listens.
pub(super) fn listening(what: &str, address: SocketAddr) {
    info!("{what} on http://{address}");
}

#[cfg(test)]
mod tests;
