//! `lb_kind` with `tunnel`, and which families it can bring together.

use super::Lowering;
use super::services::Services;
use crate::config::context::{At, Context, Field};
use crate::config::diagnostics::{Finding, Place};
use crate::config::raw::{ForwardingOptions, LbKind, TunnelKind, TunnelOptions};
use crate::engine::model::{Family, Forwarding, RealServerId, Tunnel, TunnelChecksum};

/// `own` is what the table says itself, `outer` what stands around it.
pub(super) fn lower(cx: &mut Context<'_>, own: &ForwardingOptions, outer: &ForwardingOptions) -> Forwarding {
    let merged = own.or(outer);
    match merged.kind() {
        LbKind::Tun => Forwarding::Tun(match merged.tunnel.get() {
            Some(tunnel) => lower_tunnel(cx, tunnel),
            None => Tunnel::Ipip,
        }),
        kind => {
            // An inherited one is for those inside that are tunnels.
            if let Some(tunnel) = own.tunnel.get()
                && !merged.lb_kind.is_broken()
            {
                without_tun(cx, tunnel.place);
            }
            if kind == LbKind::Dr { Forwarding::Dr } else { Forwarding::Nat }
        }
    }
}

pub(super) fn without_tun(cx: &mut Context<'_>, tunnel: Place) {
    let finding = Finding::error(tunnel, "`tunnel` needs lb_kind = \"tun\"");
    cx.push(finding.remedy("write lb_kind = \"tun\" beside it, or remove it"));
}

fn lower_tunnel(cx: &mut Context<'_>, tunnel: &At<TunnelOptions>) -> Tunnel {
    let TunnelOptions { kind, port, checksum } = &tunnel.value;
    let checksum_at = checksum.get().filter(|checksum| checksum.value != TunnelChecksum::None);
    let checksum = checksum.value_or(TunnelChecksum::None);
    let mut refuse = |place: Option<Place>, message: &str, remedy: &str| {
        if let Some(place) = place {
            cx.push(Finding::error(place, message).remedy(remedy));
        }
    };
    match kind.value_or(TunnelKind::Ipip) {
        TunnelKind::Ipip => {
            if !kind.is_broken() {
                refuse(port.place(), "an ipip tunnel has no port", "remove it, or write type = \"gue\"");
                let message = "an ipip tunnel has no checksum";
                refuse(
                    checksum_at.map(|at| at.place),
                    message,
                    "remove it, or write type = \"gue\" or \"gre\"",
                );
            }
            Tunnel::Ipip
        }
        TunnelKind::Gue => {
            if port.is_unset() {
                refuse(Some(tunnel.place), "a gue tunnel needs a port", "write port = 6080");
            }
            Tunnel::Gue { port: port.value_or(0), checksum }
        }
        TunnelKind::Gre => {
            refuse(port.place(), "a gre tunnel has no port", "remove it, or write type = \"gue\"");
            // The kernel looks at the plain checksum only when it builds a GRE header.
            let remcsum = checksum_at.filter(|at| at.value == TunnelChecksum::Remcsum);
            let message = "a gre tunnel has no remote checksum";
            refuse(remcsum.map(|at| at.place), message, "write checksum = \"csum\" or \"none\"");
            Tunnel::Gre { checksum }
        }
    }
}

/// Only a tunnel can carry the packets of one family to a server of the other.
pub(super) fn judge_family(
    cx: &mut Context<'_>,
    all: &Lowering<'_>,
    services: &Services,
    server: &At<RealServerId>,
    forwarding: Forwarding,
    lb_kind: &Field<LbKind>,
) {
    if lb_kind.is_broken() {
        return;
    }
    let family = Family::of(server.value.address);
    let Some(other) = services.other_than(family) else { return };
    let mixed = format!("{} is {family}, but the service {other} is {}", server.value, other.family());
    match (forwarding, all.sync) {
        (Forwarding::Nat | Forwarding::Dr | Forwarding::Local, _) => {
            let remedy = format!(
                "put the {} service in a virtual server of its own, or write lb_kind = \"tun\" for this server",
                other.family()
            );
            cx.push(Finding::error(server.place, mixed).remedy(remedy));
        }
        // The kernel refuses such a server while the sync daemon runs, and the other way round.
        (Forwarding::Tun(_), Some(sync)) => {
            let finding = Finding::error(server.place, format!("{mixed}, which excludes the sync daemon"));
            let finding = finding.label(sync, "the sync daemon is configured here");
            cx.push(
                finding.remedy("remove [daemon.sync], or give the server an address of the service's family"),
            );
        }
        (Forwarding::Tun(_), None) => {}
    }
}
