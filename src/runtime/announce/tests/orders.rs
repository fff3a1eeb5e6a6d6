//! Orders, and each of their ends.

use super::*;
use crate::engine::LostOrder;

#[test]
fn weights_and_orders_are_information() {
    let order = |change, reason| Event::Order { of: server(), change, note: note("alice", reason) };
    let ended = |given, reason| {
        let given_for =
            |note: OrderNote| OrderNote { until: Some(note.since + Duration::from_secs(5)), ..note };
        Event::OrderEnded { of: server(), given, note: given_for(note("alice", reason)) }
    };
    let by = [("virtual_server", "web"), ("real_server", SERVER), ("by", "alice")];
    let said =
        |what: &str, why: &str| line(Level::INFO, &format!("{SERVER} in web: {what} by alice ({why})"), &by);
    assert_eq!(
        announced(vec![
            Event::Weight { of: server(), from: 3, to: 7, cause: Cause::Operator },
            order(OrderChange::Drain, Some("disk full")),
            order(OrderChange::Disable, None),
            order(OrderChange::Enable, None),
            order(OrderChange::Weight(0), None),
            order(OrderChange::WeightAuto, None),
            ended(OrderChange::Drain, Some("disk full")),
            ended(OrderChange::Weight(7), None),
        ]),
        [
            line(
                Level::INFO,
                &format!("{SERVER} in web: weight 3 → 7: by the operator's order"),
                &[("virtual_server", "web"), ("real_server", SERVER), ("reason", "by the operator's order")]
            ),
            said("drained", "disk full"),
            said("disabled", "no reason given"),
            said("enabled", "no reason given"),
            said("weight set to 0", "no reason given"),
            said("weight back to the configured one", "no reason given"),
            line(Level::INFO, &format!("{SERVER} in web: drain by alice (disk full) ended after 5s"), &by),
            line(
                Level::INFO,
                &format!("{SERVER} in web: weight 7 by alice (no reason given) ended after 5s"),
                &by
            ),
        ]
    );
}

#[test]
fn orders_that_nobody_takes_over_are_warnings_and_their_return_is_information() {
    let given = OrderChange::Drain;
    let lost = |name: &str, reason| {
        let (virtual_server, real_server) = (name.to_owned(), server().real_server.id);
        Event::OrderLost(LostOrder { virtual_server, real_server, given, note: note("alice", reason) })
    };
    let by = |name| [("virtual_server", name), ("real_server", SERVER), ("by", "alice")];
    let of = "no virtual server with a service";
    let said = announced(vec![
        lost("web", Some("disk full")),
        lost("", None),
        Event::OrderRestored { of: server(), given, note: note("alice", Some("disk full")) },
    ]);
    let why = format!("{of} or the name of web has this real server");
    let known = format!("the order is not taken over: drain of {SERVER} in web by alice (disk full): {why}");
    let why = format!("{of} of then has this real server");
    let nameless = format!("the order is not taken over: drain of {SERVER} by alice: {why}");
    let back = format!("{SERVER} in web: drain by alice (disk full) stands again");
    let wanted = [
        line(Level::WARN, &known, &by("web")),
        line(Level::WARN, &nameless, &by("")),
        line(Level::INFO, &back, &by("web")),
    ];
    assert_eq!(said, wanted);
}
