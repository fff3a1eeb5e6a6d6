//! What the cases work on: configurations as text, engines, tables. The same in every run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use lvsd::config::{self, Kept, Sources};
use lvsd::engine::memory::Memory;
use lvsd::engine::model::{Config, Fault, Forwarding, Outcome, Phase, Protocol, Verdict, WeightChange};
use lvsd::engine::table::{Destination, DestinationId, Service, ServiceId, Table};
use lvsd::engine::{Command, Engine, ProbeId, Readings, Time};

pub(crate) const START: Time = Time::from_nanos(1_000_000_000);

/// `services` × `servers`, as people write it.
pub(crate) fn text(services: u32, servers: u32) -> String {
    let mut text = String::from("[defaults]\ncheck = { tcp = {} }\ndelay_loop = \"5s\"\nretry = 0\n");
    for n in 0..services {
        // Writing to a string does not fail.
        let _ = write!(text, "\n[[virtual_server]]\naddress = \"{}:80\"\n", Ipv4Addr::from(0xac10_0000 + n));
        for m in 0..servers {
            let address = server(n * servers + m);
            let _ = write!(
                text,
                "\n[[virtual_server.real_server]]\naddress = \"{address}:8080\"\nweight = {}\n",
                m % 7 + 1
            );
        }
    }
    text
}

fn server(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 + n)
}

pub(crate) fn sources(text: &str) -> Sources {
    Sources::from_text("lvsd.toml", Path::new("/"), text)
}

pub(crate) fn load(sources: &Sources) -> Result<Config> {
    let loaded = config::load(sources).map_err(|mistakes| anyhow!(mistakes.lines().join("\n")))?;
    Ok(loaded.config)
}

/// After a reading that left `kept`: what that one leaves as well.
pub(crate) fn load_after(sources: &Sources, kept: &Kept) -> Result<(Config, Kept)> {
    let after = config::load_after(sources, kept).map_err(|mistakes| anyhow!(mistakes.lines().join("\n")))?;
    Ok((after.loaded.config, after.kept))
}

/// An engine whose every check runs and has not ended.
pub(crate) fn started(config: &Config) -> (Engine, Vec<ProbeId>) {
    let mut engine = Engine::start(config, &Memory::default(), &Table::default(), &Readings::new(), START);
    // Beyond the spread of first runs.
    let now = START + Duration::from_secs(60);
    engine.handle_timeout(now);
    let mut ids = Vec::new();
    while let Some(command) = engine.next_command() {
        if let Command::Start { id, .. } = command {
            ids.push(id);
        }
    }
    (engine, ids)
}

/// An engine whose servers are all up and whose table has been handed out, with all checks running again.
pub(crate) fn settled(config: &Config) -> (Engine, Vec<ProbeId>) {
    let (mut engine, ids) = started(config);
    let now = START + Duration::from_secs(61);
    let good = good();
    ids.iter().for_each(|id| engine.handle_outcome(*id, &good, now));
    drop(engine.take_table_changes());
    engine.handle_timeout(START + Duration::from_secs(120));
    while engine.next_event().is_some() || engine.next_command().is_some() {}
    (engine, ids)
}

pub(crate) fn good() -> Outcome {
    let verdict = Verdict::Success { detail: "connected".to_owned(), weight: WeightChange::None };
    Outcome { verdict, latency: Duration::from_micros(250) }
}

pub(crate) fn bad() -> Outcome {
    let fault = Fault { phase: Phase::Connect, reason: "connection refused".to_owned() };
    Outcome { verdict: Verdict::Failure(fault), latency: Duration::from_micros(250) }
}

/// The table of a configuration with every server up.
pub(crate) fn table(services: u32, servers: u32) -> Result<Table> {
    Ok(settled(&load(&sources(&text(services, servers)))?).0.table())
}

pub(crate) fn owned(table: &Table) -> BTreeSet<ServiceId> {
    table.services.keys().copied().collect()
}

/// The same table with every second destination of another weight, nothing of it shared with the first.
pub(crate) fn with_other_weights(table: &Table) -> Table {
    let mut other = Table::default();
    for (id, service) in &table.services {
        let mut service: Service = (**service).clone();
        for destination in service.destinations.values_mut().step_by(2) {
            destination.weight += 1;
        }
        other.services.insert(*id, Arc::new(service));
    }
    other
}

/// Equal, and nothing of it shared.
pub(crate) fn copied(table: &Table) -> Table {
    let copy = |(id, service): (&ServiceId, &Arc<Service>)| (*id, Arc::new((**service).clone()));
    Table { services: table.services.iter().map(copy).collect() }
}

/// One service whose destinations are all another's.
pub(crate) fn one_service(first: u32, count: u32, attributes_of: &Table) -> Result<Table> {
    let (_, model) = attributes_of.services.first_key_value().context("a table with a service")?;
    let id =
        ServiceId::Address { protocol: Protocol::Tcp, address: Ipv4Addr::new(192, 0, 2, 1).into(), port: 80 };
    let record =
        Destination { forwarding: Forwarding::Nat, weight: 1, upper_threshold: 0, lower_threshold: 0 };
    let destinations: BTreeMap<_, _> = (first..first + count)
        .map(|n| (DestinationId { address: server(n).into(), port: 8080 }, record))
        .collect();
    let service = Service { attributes: model.attributes.clone(), destinations };
    Ok(Table { services: BTreeMap::from([(id, Arc::new(service))]) })
}
