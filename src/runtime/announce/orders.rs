//! The operator's orders, and how they end, as log lines.

use tracing::{info, warn};

use super::Names;
use crate::control::duration;
use crate::engine::snapshot::OrderNote;
use crate::engine::{LostOrder, OrderChange, Server, Time};

pub(super) fn given(of: &Server, change: OrderChange, note: &OrderNote) {
    let Names { virtual_server, real_server } = Names::of(of);
    let (order, by, why) = (order_name(change), note.by.as_str(), reason(note));
    info!(virtual_server, real_server, by, "{real_server} in {virtual_server}: {order} by {by} ({why})");
}

/// Its time is over.
pub(super) fn ended(of: &Server, given: OrderChange, note: &OrderNote, now: Time) {
    let Names { virtual_server, real_server } = Names::of(of);
    let (given, by, why) = (given_name(given), note.by.as_str(), reason(note));
    let lasted = duration::display(note.until.unwrap_or(now).since(note.since));
    info!(
        virtual_server,
        real_server, by, "{real_server} in {virtual_server}: {given} by {by} ({why}) ended after {lasted}"
    );
}

/// Nobody takes it over. Nothing that the operator ordered: a warning.
pub(super) fn lost(lost: &LostOrder) {
    let (virtual_server, real_server) = (lost.virtual_server.as_str(), lost.real_server.to_string());
    let by = lost.note.by.as_str();
    warn!(virtual_server, real_server, by, "the order is not taken over: {}", lost_order(lost));
}

/// A reload that went back has brought its real server back.
pub(super) fn restored(of: &Server, given: OrderChange, note: &OrderNote) {
    let Names { virtual_server, real_server } = Names::of(of);
    let (given, by, why) = (given_name(given), note.by.as_str(), reason(note));
    info!(
        virtual_server,
        real_server, by, "{real_server} in {virtual_server}: {given} by {by} ({why}) stands again"
    );
}

/// `drain of 198.51.100.11:80 in web by alice (disk): …`
pub(in crate::runtime) fn lost_order(lost: &LostOrder) -> String {
    let LostOrder { virtual_server, real_server, given, note } = lost;
    let (given, by) = (given_name(*given), &note.by);
    if virtual_server.is_empty() {
        return format!(
            "{given} of {real_server} by {by}: no virtual server with a service of then has this real server"
        );
    }
    let why = reason(note);
    format!(
        "{given} of {real_server} in {virtual_server} by {by} ({why}): no virtual server with a service or the name \
         of {virtual_server} has this real server"
    )
}

fn reason(note: &OrderNote) -> &str {
    note.reason.as_deref().unwrap_or("no reason given")
}

/// What has been done to the server.
pub(in crate::runtime) fn order_name(change: OrderChange) -> String {
    match change {
        OrderChange::Drain => "drained".to_owned(),
        OrderChange::Disable => "disabled".to_owned(),
        OrderChange::Enable => "enabled".to_owned(),
        OrderChange::Weight(weight) => format!("weight set to {weight}"),
        OrderChange::WeightAuto => "weight back to the configured one".to_owned(),
    }
}

/// The order itself.
pub(in crate::runtime) fn given_name(change: OrderChange) -> String {
    match change {
        OrderChange::Drain => "drain".to_owned(),
        OrderChange::Disable => "disable".to_owned(),
        OrderChange::Enable => "enable".to_owned(),
        OrderChange::Weight(weight) => format!("weight {weight}"),
        OrderChange::WeightAuto => "weight auto".to_owned(),
    }
}
