//! Replies to the `dns` check, for fuzzing.

use super::*;
use crate::checks::fuzzing::{alike, run, target};
use crate::net::fuzzing::{Cut, End};

/// Of the query that a reply must repeat.
const ID: u16 = 0x1234;
/// A, NS, SOA, MX, TXT, AAAA, SRV, HTTPS, ANY
const TYPES: [u16; 9] = [1, 2, 6, 15, 16, 28, 33, 65, 255];
/// What is looked for among answers: each kind of comparison.
const WANTED: [&str; 4] = ["192.0.2.1", "2001:db8::1", "www.example.org.", "v=spf1 -all"];

pub(crate) fn reply(says: &[u8]) {
    for record_type in TYPES {
        let Ok(question) = Question::new("example.org", record_type) else { continue };
        let first = question.read_reply(ID, says);
        let Ok(reply) = &first else { continue };
        assert!(reply.answers() <= says.len() / 11, "an answer has 11 bytes and more");
        for wanted in WANTED {
            assert_eq!(reply.has(wanted), reply.has(wanted));
        }
        assert!(reply.answers_as_text().chars().count() < 1000, "what is shown is bounded");
        let plan = Plan {
            question,
            rcodes: vec![0, 3],
            expect: WANTED.map(str::to_owned).to_vec(),
            transport: DnsTransport::Tcp,
        };
        let told = |result: Result<String, Trouble>| format!("{result:?}");
        assert_eq!(told(plan.judge(reply)), told(plan.judge(reply)));
        let framed = [&u16::try_from(says.len()).unwrap_or(u16::MAX).to_be_bytes(), says].concat();
        let _judged = alike(&framed, async |wire, deadline| over_wire(&plan, wire, deadline).await);
        return;
    }
    // As a stream, where the length may be anything.
    let Ok(question) = Question::new("example.org", 1) else { return };
    let plan = Plan { question, rcodes: vec![0], expect: Vec::new(), transport: DnsTransport::Tcp };
    let _judged =
        run(says, Cut::Uneven, End::Closed, async |wire, deadline| over_wire(&plan, wire, deadline).await);
}

async fn over_wire(plan: &Plan, wire: Wire, deadline: &mut Deadline<'_>) -> Result<String, Trouble> {
    assert_eq!(target().port, 80);
    let reply = hear(plan, ID, &mut Exchange::new(wire, b"", None), deadline).await?;
    plan.judge(&reply)
}
