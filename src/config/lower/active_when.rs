//! `active_when` of one virtual server: the rule between it and the services.

use super::services::Services;
use crate::config::context::Context;
use crate::config::diagnostics::Finding;
use crate::config::raw::{self, PoolOptions};
use crate::engine::model::{ActiveWhen, AddressGate, Whose};

pub(super) fn lower(
    cx: &mut Context<'_>,
    raw: &raw::VirtualServer<'_>,
    pool: &PoolOptions,
    services: &Services,
) -> Option<ActiveWhen> {
    let gate = pool.active_when.get()?;
    let condition = gate.value.clone()?;
    let own = matches!(&condition, ActiveWhen::Address(AddressGate { whose: Whose::Own, .. }));
    let marks = raw.fwmark.place().filter(|_| own && services.complete);
    if let Some(marks) = marks {
        let finding = Finding::error(gate.place, "a firewall mark has no address that could be present");
        let remedy =
            "write the address whose presence counts, as active_when = { address_present = \"192.0.2.10\" }";
        cx.push(finding.label(marks, "the mark of this virtual server").remedy(remedy));
        return None;
    }
    Some(condition)
}
