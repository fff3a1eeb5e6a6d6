//! `lb_kind` and `tunnel`: how packets get to a server.

use super::Field;
use super::keys::{Scope, unknown_key};
use crate::config::context::{Context, Key, Value};
use crate::config::value;
use crate::engine::model::TunnelChecksum;

#[derive(Clone, Debug, Default)]
pub(in crate::config) struct ForwardingOptions {
    pub(in crate::config) lb_kind: Field<LbKind>,
    pub(in crate::config) tunnel: Field<TunnelOptions>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum LbKind {
    Nat,
    Dr,
    Tun,
}

#[derive(Clone, Debug, Default)]
pub(in crate::config) struct TunnelOptions {
    pub(in crate::config) kind: Field<TunnelKind>,
    pub(in crate::config) port: Field<u16>,
    pub(in crate::config) checksum: Field<TunnelChecksum>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum TunnelKind {
    Ipip,
    Gue,
    Gre,
}

impl ForwardingOptions {
    /// `false` if it is neither of the two.
    pub(super) fn read_key(&mut self, cx: &mut Context<'_>, key: Key<'_>, value: Value<'_>) -> bool {
        match key.name {
            "lb_kind" => {
                let words = [("nat", LbKind::Nat), ("dr", LbKind::Dr), ("tun", LbKind::Tun)];
                self.lb_kind = value.field(cx, |cx, v| value::word(cx, v, &words));
            }
            "tunnel" => self.tunnel = value.field(cx, tunnel),
            _ => return false,
        }
        true
    }

    #[must_use]
    pub(in crate::config) fn or(&self, outer: &Self) -> Self {
        Self { lb_kind: self.lb_kind.or(&outer.lb_kind), tunnel: self.tunnel.or(&outer.tunnel) }
    }

    /// The method itself, if it is known.
    pub(in crate::config) fn kind(&self) -> LbKind {
        self.lb_kind.value_or(LbKind::Nat)
    }
}

fn tunnel(cx: &mut Context<'_>, value: Value<'_>) -> Option<TunnelOptions> {
    let remedy = "write tunnel = { type = \"gue\", port = 6080 }";
    let section = value::table(cx, value, remedy)?;
    let mut tunnel = TunnelOptions::default();
    for (key, value) in section.entries() {
        match key.name {
            "type" => {
                let words = [("ipip", TunnelKind::Ipip), ("gue", TunnelKind::Gue), ("gre", TunnelKind::Gre)];
                tunnel.kind = value.field(cx, |cx, v| value::word(cx, v, &words));
            }
            "port" => tunnel.port = value.field(cx, value::port),
            "checksum" => {
                let words = [
                    ("none", TunnelChecksum::None),
                    ("csum", TunnelChecksum::Csum),
                    ("remcsum", TunnelChecksum::Remcsum),
                ];
                tunnel.checksum = value.field(cx, |cx, v| value::word(cx, v, &words));
            }
            _ => unknown_key(cx, Scope::Tunnel, key),
        }
    }
    Some(tunnel)
}
