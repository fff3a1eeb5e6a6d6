//! Answers to the `grpc` check, for fuzzing: HTTP/2 of the server, and the message alone.

use super::*;
use crate::checks::fuzzing::{endless, run, target};
use crate::net::fuzzing::{Cut, End};

pub(crate) fn reply(says: &[u8]) {
    assert_eq!(message::reply(says), message::reply(says));
    let plan =
        Plan { request: message::request("web").into(), service: "web".to_owned(), host: None, tls: None };
    for (says, cut, end) in [
        (says, Cut::Whole, End::Closed),
        (says, Cut::Uneven, End::Reset),
        (&endless(says), Cut::Whole, End::Closed),
    ] {
        let _judged = run(says, cut, end, async |wire, deadline| {
            let request = request(&target(), &plan)?;
            let mut step = Step::Request;
            // It may wait for h2, which is asked together with the deadline.
            let Some(result) = deadline.race(call(wire, request, &plan, &mut step)).await else {
                return Err(timed_out(step, deadline.limit()));
            };
            result.map(Health::name)
        });
    }
}
