//! `max_down_rate = { servers = 10, per = "1m" }`.

use std::num::NonZeroU32;
use std::time::Duration;

use super::keys::{Scope, unknown_key};
use super::{Field, Value};
use crate::config::context::Context;
use crate::config::diagnostics::Finding;
use crate::config::value;
use crate::engine::model::DownRate;

const REMEDY: &str = "write max_down_rate = { servers = 10, per = \"1m\" }";
/// Beyond any check's period: what is shorter limits nothing.
const MINIMUM: Duration = Duration::from_secs(1);

pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<DownRate> {
    let section = value::table(cx, value, REMEDY)?;
    let (mut servers, mut per) = (Field::Unset, Field::Unset);
    for (key, value) in section.entries() {
        match key.name {
            "servers" => servers = value.field(cx, value::positive),
            "per" => per = value.field(cx, |cx, v| value::duration(cx, v, MINIMUM)),
            _ => unknown_key(cx, Scope::MaxDownRate, key),
        }
    }
    for (name, is_missing) in [("servers", servers.is_unset()), ("per", per.is_unset())] {
        if is_missing {
            let finding = Finding::error(section.place, format!("`max_down_rate` needs `{name}`"));
            cx.push(finding.remedy(REMEDY));
        }
    }
    Some(DownRate { servers: NonZeroU32::new(servers.value()?)?, per: per.value()? })
}
