//! The table as lines of a scenario file, both ways: `V wlc persistent 60 {A/1, B/0 dr max 9 min 3}`.
//! tcp, rr and nat go without saying.

use std::collections::BTreeMap;
use std::sync::Arc;

use lvsd::engine::model::{Family, Forwarding, Protocol, Scheduler, Tunnel};
use lvsd::engine::table::{
    Destination, DestinationId, Service, ServiceAttributes, ServiceFlags, ServiceId, Table,
};

use crate::names;

pub(crate) fn write(table: &Table) -> Vec<String> {
    table.services.iter().map(|(id, service)| write_service(id, service)).collect()
}

pub(crate) fn service_name(id: &ServiceId) -> String {
    match id {
        ServiceId::Address { protocol: Protocol::Tcp, address, port } => names::write(*address, Some(*port)),
        ServiceId::Address { protocol, address, port } => {
            format!("{protocol} {}", names::write(*address, Some(*port)))
        }
        ServiceId::Mark { family: Family::Ipv4, mark } => format!("fwmark {mark}"),
        ServiceId::Mark { family: Family::Ipv6, mark } => format!("fwmark {mark} ipv6"),
    }
}

fn write_service(id: &ServiceId, service: &Service) -> String {
    let ServiceAttributes { scheduler, flags, persistence, netmask: _, persistence_engine: _ } =
        &service.attributes;
    let mut line = service_name(id);
    if scheduler.as_str() != "rr" {
        line += &format!(" {scheduler}");
    }
    for (flag, name) in [
        (ServiceFlags::ONE_PACKET, "ops"),
        (ServiceFlags::SCHEDULER_1, "flag-1"),
        (ServiceFlags::SCHEDULER_2, "flag-2"),
        (ServiceFlags::SCHEDULER_3, "flag-3"),
    ] {
        if flags.contains(flag) {
            line += &format!(" {name}");
        }
    }
    if let Some(seconds) = persistence {
        line += &format!(" persistent {seconds}");
    }
    let destinations: Vec<String> =
        service.destinations.iter().map(|(id, destination)| write_destination(id, destination)).collect();
    format!("{line} {{{}}}", destinations.join(", "))
}

fn write_destination(id: &DestinationId, destination: &Destination) -> String {
    let Destination { forwarding, weight, upper_threshold, lower_threshold } = destination;
    let mut text = format!("{}/{weight}", names::write(id.address, Some(id.port)));
    text += match forwarding {
        Forwarding::Nat => "",
        Forwarding::Dr => " dr",
        Forwarding::Tun(_) => " tun",
        Forwarding::Local => " local",
    };
    if *upper_threshold > 0 {
        text += &format!(" max {upper_threshold}");
    }
    if *lower_threshold > 0 {
        text += &format!(" min {lower_threshold}");
    }
    text
}

/// Reads a table that a start finds; only what such tables need.
pub(crate) fn read(lines: &[String]) -> Table {
    let services = lines.iter().map(|line| {
        let (head, rest) = line.split_once(" {").unwrap_or_else(|| panic!("no table line: {line}"));
        let (address, port) = names::read(head);
        let id = ServiceId::Address { protocol: Protocol::Tcp, address, port: port.unwrap_or(0) };
        let inside = rest.strip_suffix('}').unwrap_or_else(|| panic!("no table line: {line}"));
        let destinations: BTreeMap<_, _> =
            inside.split(", ").filter(|d| !d.is_empty()).map(read_destination).collect();
        let attributes = ServiceAttributes {
            scheduler: Scheduler::new("rr").unwrap(),
            flags: ServiceFlags::default(),
            persistence: None,
            netmask: 32,
            persistence_engine: None,
        };
        (id, Arc::new(Service { attributes, destinations }))
    });
    Table { services: services.collect() }
}

fn read_destination(text: &str) -> (DestinationId, Destination) {
    let (name, rest) = text.split_once('/').unwrap_or_else(|| panic!("no destination: {text}"));
    let (weight, method) = rest.split_once(' ').unwrap_or((rest, "nat"));
    let (address, port) = names::read(name);
    let forwarding = match method {
        "nat" => Forwarding::Nat,
        "dr" => Forwarding::Dr,
        "tun" => Forwarding::Tun(Tunnel::Ipip),
        other => panic!("no such method: {other}"),
    };
    let destination =
        Destination { forwarding, weight: weight.parse().unwrap(), upper_threshold: 0, lower_threshold: 0 };
    (DestinationId { address, port: port.unwrap_or(0) }, destination)
}

/// `V` (is there), `V empty`, `V serving`, `V A` (has it), `V A>0`, `V A=3`.
pub(crate) fn holds(predicate: &str, table: &Table) -> bool {
    let (service, rest) = predicate.split_once(' ').unwrap_or((predicate, ""));
    let Some((_, service)) = table.services.iter().find(|(id, _)| service_name(id) == service) else {
        return false;
    };
    let weight_of = |name: &str| {
        let (address, port) = names::read(name);
        let found =
            service.destinations.iter().find(|(id, _)| id.address == address && Some(id.port) == port);
        found.map(|(_, destination)| destination.weight)
    };
    match rest {
        "" => true,
        "empty" => service.destinations.is_empty(),
        "serving" => service.is_serving(),
        _ => match (rest.split_once('='), rest.split_once('>')) {
            (Some((name, weight)), _) => weight_of(name) == Some(weight.parse().unwrap()),
            (None, Some((name, weight))) => weight_of(name).is_some_and(|w| w > weight.parse().unwrap()),
            (None, None) => weight_of(rest).is_some(),
        },
    }
}
