//! `ping = { … }`.

use super::keys::{Scope, unknown_key};
use super::{Field, Value};
use crate::config::context::Context;
use crate::config::value;
use crate::engine::model::{CheckKind, Ping};

/// As much as ping(8) sends.
const SIZE: u16 = 56;

pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<CheckKind> {
    let section = value::table(cx, value, "write ping = {}")?;
    let mut size = Field::Unset;
    for (key, value) in section.entries() {
        match key.name {
            // The largest IPv4 packet, less the headers of IP and ICMP.
            "size" => size = value.field(cx, |cx, v| value::integer(cx, v, 0..=65_507)),
            _ => unknown_key(cx, Scope::Ping, key),
        }
    }
    Some(CheckKind::Ping(Ping { size: size.sound()?.unwrap_or(SIZE) }))
}
