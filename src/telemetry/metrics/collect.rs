//! From a picture to families and samples, in the catalogue's order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::catalogue as list;
use super::encode::Families;
use super::kernel;
use super::picture::{Around, DaemonPicture, LastReload, Picture};
use super::process::Process;
use crate::engine::figures::{CheckFigures, PoolFigures, ServerFigures};
use crate::engine::model::{Mode, RealServerId};
use crate::engine::snapshot::Order;
use crate::engine::table::ServiceId;
use crate::telemetry::metrics::picture::PoolTotals;

/// One page's content.
#[derive(Debug)]
pub(super) struct Page {
    picture: Picture,
    process: Process,
}

impl Page {
    pub(super) fn new(picture: Picture) -> Self {
        Self { picture, process: Process::read() }
    }
}

impl Collector for Page {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families(encoder);
        let Picture { daemon, kernel, around } = &self.picture;
        let daemon = daemon.as_ref();
        let named: Vec<Named<'_>> = daemon.iter().flat_map(|d| &d.figures.pools).map(Named::new).collect();
        about_lvsd(&mut families, daemon, around)?;
        configuration(&mut families, daemon)?;
        quorums(&mut families, daemon, &named)?;
        servers(&mut families, daemon, &named)?;
        checks(&mut families, daemon, &named, around)?;
        let pools = named.iter().map(|pool| &*pool.figures.config).collect::<Vec<_>>();
        kernel::show(&mut families, &pools, kernel.as_ref())?;
        gates(&mut families, daemon)?;
        families.number(&list::DUMP_TIME, around.dumped.and_then(super::seconds_since_1970))?;
        writes(&mut families, daemon)?;
        clients(&mut families, daemon, around)?;
        process(&mut families, &self.process, daemon, around)
    }
}

/// A pool with the names of its servers, each made once for all families.
struct Named<'a> {
    figures: &'a PoolFigures,
    name: &'a str,
    servers: Vec<String>,
    sorry: Option<String>,
}

impl<'a> Named<'a> {
    fn new(figures: &'a PoolFigures) -> Self {
        let config = &figures.config;
        let sorry = config.sorry_server.as_ref();
        let sorry = sorry.map(|sorry| RealServerId { address: sorry.address, port: sorry.port }.to_string());
        let servers = config.real_servers.iter().map(|server| server.id.to_string()).collect();
        Self { figures, name: &config.name, servers, sorry }
    }

    fn servers(&self) -> impl Iterator<Item = (&str, &ServerFigures)> {
        self.servers.iter().map(String::as_str).zip(&self.figures.servers)
    }

    /// Server, label, mode and verdict of each check.
    fn checks(&self) -> impl Iterator<Item = (&str, String, Mode, &CheckFigures)> {
        let servers = self.servers.iter().map(String::as_str).zip(&self.figures.config.real_servers);
        let checks = servers.flat_map(|(name, server)| {
            let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
            server.checks.iter().map(move |check| {
                let kind = check.probe.kind.name();
                let count = seen.entry(kind).or_insert(0);
                *count += 1;
                let label = if *count == 1 { kind.to_owned() } else { format!("{kind}_{count}") };
                (name, label, check.mode)
            })
        });
        checks.zip(&self.figures.checks).map(|((name, label, mode), figures)| (name, label, mode, figures))
    }
}

type Daemon<'a> = Option<&'a DaemonPicture>;

fn about_lvsd(families: &mut Families<'_>, daemon: Daemon<'_>, around: &Around) -> fmt::Result {
    families.numbers(&list::BUILD_INFO, [([env!("CARGO_PKG_VERSION")], true)])?;
    families.numbers(&list::DAEMON_INFO, daemon.map(|d| ([d.name.as_str(), d.table], true)))?;
    let dependencies = around.dependencies.iter().map(|(name, up)| ([name.as_str()], *up));
    families.numbers(&list::DEPENDENCY_UP, dependencies)?;
    families.number(&list::SUPERVISOR_SILENCE, Some(around.silence.as_secs_f64()))?;
    families.histograms(&list::SUPERVISOR_TURN, daemon.map(|d| ([], &d.totals.turns)))?;
    families.number(&list::SCRAPE, daemon.map(|d| d.made_in.as_secs_f64()))
}

fn configuration(families: &mut Families<'_>, daemon: Daemon<'_>) -> fmt::Result {
    let reloads = daemon.map(|d| &d.totals.reloads);
    families.numbers(&list::CONFIG_INFO, reloads.map(|r| ([r.digest.as_str()], true)))?;
    let results = reloads
        .into_iter()
        .flat_map(|r| [(["done"], r.done), (["incomplete"], r.incomplete), (["refused"], r.refused)]);
    families.numbers(&list::RELOADS, results)?;
    families.number(&list::RELOAD_OK, reloads.map(|r| r.last_ok == LastReload::Successful))?;
    families.number(&list::RELOAD_TIME, reloads.and_then(|r| super::seconds_since_1970(r.loaded)))
}

fn quorums(families: &mut Families<'_>, daemon: Daemon<'_>, pools: &[Named<'_>]) -> fmt::Result {
    let quorums = || pools.iter().map(|pool| ([pool.name], pool.figures.quorum));
    families.numbers(&list::QUORUM_UP, quorums().map(|(name, quorum)| (name, quorum.up)))?;
    families.numbers(&list::QUORUM_WEIGHT, quorums().map(|(name, quorum)| (name, quorum.weight)))?;
    families.numbers(&list::QUORUM_THRESHOLD, quorums().map(|(name, quorum)| (name, quorum.threshold)))?;
    let transitions = totals(daemon).map(|pool| ([pool.name.as_str()], pool.quorum_transitions));
    families.numbers(&list::QUORUM_TRANSITIONS, transitions)?;
    let sorry =
        pools.iter().filter_map(|pool| Some(([pool.name, pool.sorry.as_deref()?], pool.figures.sorry)));
    families.numbers(&list::SORRY_ACTIVE, sorry)
}

fn totals<'a>(daemon: Daemon<'a>) -> impl Iterator<Item = &'a PoolTotals> {
    daemon.into_iter().flat_map(|d| &d.totals.pools).map(|pool| &**pool)
}

fn servers(families: &mut Families<'_>, daemon: Daemon<'_>, pools: &[Named<'_>]) -> fmt::Result {
    let servers = || {
        pools.iter().flat_map(|pool| pool.servers().map(move |(name, server)| ([pool.name, name], server)))
    };
    families.numbers(&list::SERVER_UP, servers().map(|(names, server)| (names, server.alive)))?;
    families.numbers(&list::SERVER_KEPT, servers().map(|(names, server)| (names, server.kept.is_some())))?;
    let configured = pools.iter().flat_map(|pool| {
        let weights = pool.figures.config.real_servers.iter().map(|server| server.weight);
        pool.servers.iter().zip(weights).map(|(name, weight)| ([pool.name, name], weight))
    });
    families.numbers(&list::SERVER_WEIGHT_CONFIGURED, configured)?;
    families
        .numbers(&list::SERVER_WEIGHT, servers().map(|(names, server)| (names, server.effective_weight)))?;
    // Servers that have not changed are shown too: a first change is to be seen as one.
    let transitions = pools.iter().zip(totals(daemon)).flat_map(|(pool, totals)| {
        let ids = pool.figures.config.real_servers.iter().map(|server| server.id);
        pool.servers
            .iter()
            .zip(ids)
            .map(|(name, id)| ([pool.name, name], totals.server_transitions.get(&id).copied().unwrap_or(0)))
    });
    families.numbers(&list::SERVER_TRANSITIONS, transitions)?;
    let overrides = servers().flat_map(|([pool, name], server)| {
        let order = server.order.map(|order| match order {
            Order::Drain => ([pool, name, "drain"], 1),
            Order::Disable => ([pool, name, "disable"], 1),
        });
        let weight = server.operator_weight.map(|weight| ([pool, name, "weight"], weight));
        [order, weight].into_iter().flatten()
    });
    families.numbers(&list::SERVER_OVERRIDE, overrides)
}

fn checks(
    families: &mut Families<'_>,
    daemon: Daemon<'_>,
    pools: &[Named<'_>],
    around: &Around,
) -> fmt::Result {
    let labels: Vec<_> = pools
        .iter()
        .flat_map(|pool| {
            pool.checks().map(move |(server, label, mode, check)| (pool.name, server, label, mode, check))
        })
        .collect();
    let verdicts = labels.iter().map(|(pool, server, label, mode, check)| {
        let mode = match mode {
            Mode::Enforce => "enforce",
            Mode::Observe => "observe",
        };
        ([pool, server, label.as_str(), mode], check.up)
    });
    families.numbers(&list::CHECK_UP, verdicts)?;
    let kinds = || {
        totals(daemon)
            .flat_map(|pool| pool.checks.iter().map(move |(kind, check)| (&*pool.name, *kind, check)))
    };
    let runs = kinds().flat_map(|(pool, kind, check)| {
        [
            ([pool, kind, "success"], check.successes),
            ([pool, kind, "failure"], check.failures),
            ([pool, kind, "local_error"], check.local_errors),
        ]
    });
    families.numbers(&list::CHECK_RUNS, runs)?;
    let durations = kinds().map(|(pool, kind, check)| ([pool, kind], &check.duration));
    families.histograms(&list::CHECK_DURATION, durations)?;
    families.histograms(&list::CHECK_LATENESS, daemon.map(|d| ([], &d.totals.lateness)))?;
    families.number(&list::CHECK_OVERDUE, Some(around.overdue.as_secs_f64()))?;
    families.number(&list::CHECKS, daemon.map(|d| d.figures.probes as u64))?;
    families.number(&list::CHECKS_RUNNING, daemon.map(|d| d.running as u64))?;
    families.number(&list::CHECK_SLOTS, daemon.map(|d| d.slots as u64))?;
    self_test(families, daemon)?;
    families.number(&list::CHECKS_BROKEN, daemon.map(|d| d.broken_checks))
}

fn self_test(families: &mut Families<'_>, daemon: Daemon<'_>) -> fmt::Result {
    families.number(&list::VERDICTS_FROZEN, daemon.map(|d| d.self_test.frozen))?;
    let symptoms = daemon.into_iter().flat_map(|d| d.self_test.symptoms);
    families.numbers(&list::SELF_TEST_SYMPTOMS, symptoms.map(|(symptom, count)| ([symptom], count)))?;
    families.number(&list::RESULTS_SET_ASIDE, daemon.map(|d| d.self_test.set_aside))
}

/// What keeps services and their addresses away.
fn gates(families: &mut Families<'_>, daemon: Daemon<'_>) -> fmt::Result {
    let pools = || daemon.into_iter().flat_map(|d| &d.figures.pools);
    let services: Vec<_> = pools()
        .flat_map(|pool| {
            let inactive: BTreeSet<&ServiceId> = pool.inactive.iter().collect();
            let name = pool.config.name.as_str();
            let ids = pool.config.services.iter();
            ids.map(move |id| (name, id.to_string(), !inactive.contains(id)))
        })
        .collect();
    let active = services.iter().map(|(pool, service, active)| ([*pool, service.as_str()], *active));
    families.numbers(&list::SERVICE_ACTIVE, active)?;
    let addresses: Vec<_> = daemon
        .into_iter()
        .flat_map(|d| &d.addresses)
        .map(|one| (one.at.address.to_string(), &*one.at.interface, one))
        .collect();
    let wanted = addresses.iter().map(|(address, interface, one)| ([address, *interface], one.wanted));
    families.numbers(&list::ADDRESS_WANTED, wanted)?;
    let announced = addresses
        .iter()
        .filter_map(|(address, interface, one)| Some(([address.as_str(), *interface], one.announced?)));
    families.numbers(&list::ADDRESS_ANNOUNCED, announced)
}

fn writes(families: &mut Families<'_>, daemon: Daemon<'_>) -> fmt::Result {
    families.number(&list::OPERATIONS, daemon.map(|d| d.kernel.operations))?;
    families.number(&list::OPERATION_ERRORS, daemon.map(|d| d.kernel.failures))?;
    families.number(&list::REQUEST_ERRORS, daemon.map(|d| d.totals.request_errors))?;
    families.histograms(&list::WRITE_LATENCY, daemon.map(|d| ([], &d.totals.writes)))?;
    families.number(&list::DRIFT, daemon.map(|d| d.kernel.drift))
}

fn clients(families: &mut Families<'_>, daemon: Daemon<'_>, around: &Around) -> fmt::Result {
    let notified = daemon.into_iter().flat_map(|d| &d.notifications);
    families.numbers(&list::NOTIFICATIONS, notified.map(|n| ([n.channel.as_str(), n.result], n.count)))?;
    let state_file = daemon.map(|d| d.totals.state_file);
    let written = state_file.into_iter().flat_map(|w| [(["written"], w.written), (["failed"], w.failed)]);
    families.numbers(&list::STATE_WRITES, written)?;
    families.number(&list::CONTROL_REFUSED, Some(around.control_refused))?;
    families.number(&list::HTTP_CLOSED, Some(around.http_closed))?;
    families.numbers(&list::BROKEN, around.broken.iter().map(|(part, count)| ([*part], *count)))?;
    families.number(&list::LOG_LOST, Some(around.log_lost))
}

fn process(
    families: &mut Families<'_>,
    process: &Process,
    daemon: Daemon<'_>,
    around: &Around,
) -> fmt::Result {
    families.number(&list::CPU, process.cpu)?;
    families.number(&list::RESIDENT, process.resident)?;
    families.number(&list::VIRTUAL, process.virtual_memory)?;
    families.number(&list::OPEN_FDS, process.open_fds)?;
    families.number(&list::MAX_FDS, process.max_fds)?;
    families.number(&list::THREADS, process.threads)?;
    let checks = daemon.map(|d| (["checks"], d.tasks as u64));
    families.numbers(&list::TASKS, checks.into_iter().chain([(["front"], around.tasks as u64)]))?;
    families.number(&list::START_TIME, around.started.and_then(super::seconds_since_1970))
}
