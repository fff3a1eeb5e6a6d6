//! The files of `file` checks: which they are, and their first reading, which counts before the table
//! of a start or a reload is made.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::presence;
use super::probes::PreparedKinds;
use super::watcher::Files;
use crate::checks;
use crate::engine::model::{Check, CheckKind, Config, Probe};
use crate::engine::{Identity, Readings};

fn file_checks(config: &Config) -> impl Iterator<Item = &Arc<Check>> {
    let servers = config.virtual_servers.iter().flat_map(|v| &v.real_servers);
    servers.flat_map(|s| &s.checks).filter(|check| matches!(*check.probe.kind, CheckKind::File(_)))
}

/// Those that are to be watched: of checks and of gates.
pub(super) fn files(config: &Config) -> Files {
    let path = |check: &Arc<Check>| match &*check.probe.kind {
        CheckKind::File(file) => Some(file.path.clone()),
        CheckKind::Tcp(_)
        | CheckKind::Http(_)
        | CheckKind::Dns(_)
        | CheckKind::Smtp(_)
        | CheckKind::Udp(_)
        | CheckKind::Ping(_)
        | CheckKind::Script(_)
        | CheckKind::Grpc(_) => None,
    };
    file_checks(config).filter_map(path).chain(presence::files(config)).collect()
}

/// Does this probe read one of these files?
pub(super) fn reads(probe: &Probe, files: &Files) -> bool {
    matches!(&*probe.kind, CheckKind::File(file) if files.contains(&file.path))
}

/// Reads every file once, whoever asks for it. Takes no longer than the longest time-out of a check.
pub(super) async fn take(config: &Config, kinds: &PreparedKinds) -> Readings {
    if !kinds.are_any(|kind| matches!(kind, CheckKind::File(_))) {
        return Readings::new();
    }
    let mut asked: HashMap<&Arc<CheckKind>, (Duration, Vec<&Probe>)> = HashMap::new();
    for check in file_checks(config) {
        let (timeout, probes) = asked.entry(&check.probe.kind).or_default();
        *timeout = check.timing.timeout.max(*timeout);
        probes.push(&check.probe);
    }
    let mut reading = JoinSet::new();
    for (kind, (timeout, probes)) in asked {
        let (Some(prepared), Some(first)) = (kinds.of(kind), probes.first()) else { continue };
        let target = first.target.clone();
        let identities: Vec<Identity> = probes.iter().map(|probe| Identity::of(probe)).collect();
        reading.spawn(async move { (checks::run(&target, &prepared, timeout).await, identities) });
    }
    let mut readings = Readings::new();
    for (outcome, identities) in reading.join_all().await {
        readings.outcomes.extend(identities.into_iter().map(|identity| (identity, outcome.clone())));
    }
    readings
}
