//! One real server of a pool.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::pool::Outer;
use super::{Lowering, checks, forwarding};
use crate::config::context::{At, Context, Section};
use crate::config::defaults;
use crate::config::diagnostics::{Finding, Place};
use crate::config::raw;
use crate::engine::model::{CheckKind, RealServer, RealServerId};

/// A server and what the rules of its pool need.
pub(super) struct Lowered {
    pub(super) server: RealServer,
    /// Where its address stands.
    pub(super) place: Place,
    /// Nobody said anything about checks, here or further out.
    pub(super) check_unset: bool,
    pub(super) inhibit: Option<Place>,
    /// Its weight is not known, or can change by itself.
    pub(super) weight_varies: bool,
}

/// `None`: it has no usable address, which is reported.
pub(super) fn lower(
    cx: &mut Context<'_>,
    all: &mut Lowering<'_>,
    outer: &Outer<'_>,
    section: Section<'_>,
) -> Option<Lowered> {
    let raw = raw::RealServer::read(cx, section);
    if raw.address.is_unset() {
        let finding = Finding::error(raw.place, "a real server needs an address");
        cx.push(finding.remedy("write address = \"198.51.100.11:80\""));
    }
    let common = raw.common.or(outer.common);
    let alpha = common.alpha.value_or(false);
    let inhibit = raw.inhibit_on_failure.or(&outer.pool.inhibit_on_failure);
    let forwarding = forwarding::lower(cx, &raw.forwarding, &outer.pool.forwarding);
    let (upper_threshold, lower_threshold) = thresholds(cx, &raw);
    let own_checks = all.resolve(cx, &raw.check);
    let refs = if raw.check.is_unset() { outer.checks } else { &own_checks };
    let id = *raw.address.get()?;
    let lb_kind = raw.forwarding.lb_kind.or(&outer.pool.forwarding.lb_kind);
    forwarding::judge_family(cx, all, outer.services, &id, forwarding, &lb_kind);
    let host = raw.virtualhost.or(&outer.pool.virtualhost).value();
    let server = checks::Server { id: &id, common: &common, host: host.as_deref(), outer };
    let checks = checks::lower_all(cx, all, &server, refs);
    Some(Lowered {
        place: id.place,
        check_unset: raw.check.is_unset() && outer.pool.check.is_unset(),
        inhibit: inhibit.get().filter(|inhibit| inhibit.value).map(|inhibit| inhibit.place),
        weight_varies: raw.weight.is_broken()
            || refs.iter().any(|check| moves_weight(check.value.kind.as_ref())),
        server: RealServer {
            id: id.value,
            weight: raw.weight.value_or(defaults::WEIGHT),
            forwarding,
            upper_threshold,
            lower_threshold,
            inhibit_on_failure: inhibit.value_or(false),
            alpha,
            notify_up: raw.notify_up.value().map(Arc::new),
            notify_down: raw.notify_down.value().map(Arc::new),
            checks,
        },
    })
}

fn moves_weight(kind: Option<&Arc<CheckKind>>) -> bool {
    kind.is_none_or(|kind| kind.moves_weight())
}

/// 0 is "no limit", as in the kernel. It refuses a lower limit above the upper one (ERANGE).
fn thresholds(cx: &mut Context<'_>, raw: &raw::RealServer) -> (Option<NonZeroU32>, Option<NonZeroU32>) {
    let upper = raw.upper_threshold.value().and_then(NonZeroU32::new);
    let lower = raw.lower_threshold.value().and_then(NonZeroU32::new);
    if let (Some(lower), Some(place)) = (lower, raw.lower_threshold.place())
        && !raw.upper_threshold.is_broken()
    {
        match (upper, raw.upper_threshold.place()) {
            (Some(upper), Some(upper_place)) if lower > upper => {
                let message = format!("a lower threshold of {lower} is above the upper threshold of {upper}");
                let finding = Finding::error(place, message).label(upper_place, "the upper threshold");
                cx.push(finding.remedy(format!("write at most {upper}")));
            }
            (Some(_), _) => {}
            (None, _) => {
                let finding = Finding::error(place, "`lower_threshold` needs `upper_threshold`");
                cx.push(finding.remedy(format!("write upper_threshold = {lower} or more, or remove it")));
            }
        }
    }
    (upper, lower)
}

/// What makes servers of one pool the same, or the same to the kernel.
#[derive(Default)]
pub(super) struct Identities {
    by_id: std::collections::HashMap<RealServerId, Place>,
    /// Servers that have each service's own port in the kernel, by address.
    at_service_port: std::collections::HashMap<std::net::IpAddr, (Place, SentTo)>,
    /// NAT servers with a port of their own that is one of the services' ports.
    at_same_port: std::collections::HashMap<std::net::IpAddr, Place>,
}

/// Why a server has the service's port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SentTo {
    /// NAT, with no port written.
    NoPort,
    /// DR and tunnels cannot change ports, whatever is written.
    AnyPort,
}

impl Identities {
    /// Constant time: pools can have tens of thousands of servers.
    pub(super) fn judge(&mut self, cx: &mut Context<'_>, outer: &Outer<'_>, lowered: &Lowered) {
        let id = lowered.server.id;
        let place = lowered.place;
        if let Some(first) = self.by_id.get(&id) {
            let finding = Finding::error(place, format!("the real server {id} is in this pool twice"));
            cx.push(finding.label(*first, "first here").remedy("keep one of the two"));
            return;
        }
        self.by_id.insert(id, place);
        let sent_to = match lowered.server.forwarding {
            crate::engine::model::Forwarding::Dr | crate::engine::model::Forwarding::Tun(_) => {
                SentTo::AnyPort
            }
            crate::engine::model::Forwarding::Nat | crate::engine::model::Forwarding::Local => {
                match id.port {
                    Some(port) if outer.ports.contains(&port) => {
                        self.at_same_port.entry(id.address).or_insert(place);
                        if let Some((first, _)) = self.at_service_port.get(&id.address) {
                            same_destination(cx, &At { value: id, place }, *first);
                        }
                        return;
                    }
                    Some(_) => return,
                    None => SentTo::NoPort,
                }
            }
        };
        if let Some(first) = self.at_same_port.get(&id.address) {
            same_destination(cx, &At { value: id, place }, *first);
        }
        match self.at_service_port.get(&id.address) {
            Some((first, SentTo::AnyPort)) if sent_to == SentTo::AnyPort => {
                let message = format!(
                    "{} has another port than before, but direct routing and tunnels keep the service's",
                    id.address
                );
                let finding = Finding::warning(place, message).label(*first, "the same destination");
                cx.push(finding.remedy("keep one of the two, or write lb_kind = \"nat\""));
            }
            Some((first, _)) => same_destination(cx, &At { value: id, place }, *first),
            None => {
                self.at_service_port.insert(id.address, (place, sent_to));
            }
        }
    }
}

fn same_destination(cx: &mut Context<'_>, server: &At<RealServerId>, first: Place) {
    let message = format!("{} is a destination that this pool has already", server.value);
    let finding =
        Finding::error(server.place, message).label(first, "the same address at the service's port");
    cx.push(finding.remedy("keep one of the two"));
}
