//! The `dns` check: one question over UDP or TCP, its response code, and the answers that must be there.

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing;
mod message;

use super::connection::{Exchange, Wire};
use super::datagram::{Datagram, unforeseeable};
use super::deadline::Deadline;
use super::fault::Trouble;
use super::icmp_budget::{Charge, budget};
use super::prepare::PrepareError;
use super::socket::{self, Close, Nagle};
use crate::engine::model::{Dns, DnsTransport, Phase, Target};
use message::{Question, Reply};

/// What is made once for all runs of a `dns` check.
#[derive(Debug)]
pub(super) struct Plan {
    question: Question,
    rcodes: Vec<u8>,
    expect: Vec<String>,
    transport: DnsTransport,
}

impl Plan {
    pub(super) fn new(dns: &Dns) -> Result<Self, PrepareError> {
        let question = Question::new(&dns.name, dns.record_type)
            .map_err(|why| PrepareError::DnsName { name: dns.name.clone(), why })?;
        let expect = dns.expect.clone();
        Ok(Self { question, rcodes: dns.rcodes.clone(), expect, transport: dns.transport })
    }
}

pub(super) async fn probe(
    target: &Target,
    plan: &Plan,
    deadline: &mut Deadline<'_>,
) -> Result<String, Trouble> {
    let id = unforeseeable();
    let query = plan
        .question
        .query(id)
        .map_err(|why| Trouble::failure(Phase::Request, format!("write the question: {why}")))?;
    let reply = match plan.transport {
        DnsTransport::Udp => over_udp(target, plan, id, &query, deadline).await?,
        DnsTransport::Tcp => over_tcp(target, plan, id, &query, deadline).await?,
    };
    plan.judge(&reply)
}

impl Plan {
    fn judge(&self, reply: &Reply) -> Result<String, Trouble> {
        if !self.rcodes.contains(&reply.rcode) {
            let wanted: Vec<String> = self.rcodes.iter().map(|code| message::rcode_name(*code)).collect();
            let found = message::rcode_name(reply.rcode);
            return Err(Trouble::failure(Phase::Status, format!("{found}, wanted {}", wanted.join(" or "))));
        }
        for wanted in &self.expect {
            if reply.has(wanted) {
                continue;
            }
            // RFC 2181 section 9: what a truncated reply does have is not to be used.
            let why = if reply.truncated {
                format!("the reply is truncated and lacks {wanted:?}; use transport = \"tcp\"")
            } else {
                format!("{wanted:?} is not among the answers ({})", reply.answers_as_text())
            };
            return Err(Trouble::failure(Phase::Body, why));
        }
        let truncated = if reply.truncated { ", truncated" } else { "" };
        Ok(format!("{}, {} answers{truncated}", message::rcode_name(reply.rcode), reply.answers()))
    }
}

/// Datagrams that do not answer the question may be late or forged: they are passed over.
async fn over_udp(
    target: &Target,
    plan: &Plan,
    id: u16,
    query: &[u8],
    deadline: &mut Deadline<'_>,
) -> Result<Reply, Trouble> {
    let datagram = Datagram::udp(target)?;
    datagram.send(query).map_err(|error| Trouble::io(Phase::Request, "", &error))?;
    let mut passed_over = None;
    loop {
        match datagram.receive(deadline).await {
            None => {
                let trouble = Trouble::timed_out(Phase::Reply, deadline);
                return Err(match passed_over {
                    Some(why) => trouble.with(&format!("; the last of the replies passed over: {why}")),
                    None => trouble,
                });
            }
            Some(Err(error)) => {
                if error.kind() == std::io::ErrorKind::ConnectionRefused {
                    let now = std::time::Instant::now();
                    budget().refused(target.address, target.port, Charge::None, now);
                }
                return Err(Trouble::io(Phase::Reply, "", &error));
            }
            Some(Ok(bytes)) => match plan.question.read_reply(id, &bytes) {
                Ok(reply) => return Ok(reply),
                Err(why) => passed_over = Some(why),
            },
        }
    }
}

/// RFC 1035 section 4.2.2: two bytes of length before each message.
async fn over_tcp(
    target: &Target,
    plan: &Plan,
    id: u16,
    query: &[u8],
    deadline: &mut Deadline<'_>,
) -> Result<Reply, Trouble> {
    let connected = socket::connect(target, Close::Reset, Nagle::On, deadline).await?;
    let length = u16::try_from(query.len()).unwrap_or(u16::MAX);
    let request = [&length.to_be_bytes(), query].concat();
    let mut exchange = Exchange::new(Wire::Plain(connected.stream), &request, connected.reset);
    hear(plan, id, &mut exchange, deadline).await
}

async fn hear(
    plan: &Plan,
    id: u16,
    exchange: &mut Exchange<'_>,
    deadline: &mut Deadline<'_>,
) -> Result<Reply, Trouble> {
    let mut received = Vec::new();
    loop {
        let progress = exchange
            .receive(deadline, |bytes| {
                received.extend_from_slice(bytes);
                complete(&received).map(|message| plan.question.read_reply(id, message))
            })
            .await;
        match progress {
            Ok(None) => {}
            Ok(Some(Ok(reply))) => return Ok(reply),
            Ok(Some(Err(why))) => return Err(Trouble::failure(Phase::Reply, why)),
            Err(end) => {
                return Err(end.into_trouble(
                    exchange.phase(),
                    "connection closed before the end of the reply",
                    deadline,
                ));
            }
        }
    }
}

/// The message, once all of it is there.
fn complete(received: &[u8]) -> Option<&[u8]> {
    let (length, rest) = received.split_first_chunk::<2>()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}
