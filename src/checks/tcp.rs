//! The `tcp` check: connect, shake hands if TLS is wanted, send and expect, or hold a dialogue.

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing;

use super::connection::{Exchange, Wire};
use super::deadline::Deadline;
use super::expect::Wanted;
use super::fault::Trouble;
use super::prepare::{Input, PrepareError, tls_name};
use super::socket::{self, Close, Connected, Nagle};
use super::tls;
use crate::engine::model::{Phase, Target, Tcp};

/// What is made once for all runs of a `tcp` check.
#[derive(Debug)]
pub(super) struct Plan {
    talk: Talk,
    tls: Option<(tls::Client, Option<tls::Name>)>,
}

#[derive(Debug)]
enum Talk {
    /// What is sent first, and what must come in answer to it or unasked.
    Once {
        send: Vec<u8>,
        expect: Option<Wanted>,
    },
    Dialogue(Vec<Step>),
}

/// What must come, then what is sent.
#[derive(Debug)]
struct Step {
    expect: Option<Wanted>,
    send: Vec<u8>,
}

impl Plan {
    pub(super) fn new(tcp: &Tcp, input: &mut Input) -> Result<Self, PrepareError> {
        let step = |expect: &Option<_>, send: &Option<Vec<u8>>| {
            let expect = expect.as_ref().map(Wanted::new).transpose()?;
            Ok::<_, PrepareError>(Step { expect, send: send.clone().unwrap_or_default() })
        };
        let talk = if tcp.dialogue.is_empty() {
            let Step { expect, send } = step(&tcp.expect, &tcp.send)?;
            Talk::Once { send, expect }
        } else {
            let steps = tcp.dialogue.iter().map(|exchange| step(&exchange.expect, &exchange.send));
            Talk::Dialogue(steps.collect::<Result<_, _>>()?)
        };
        let tls = match &tcp.tls {
            None => None,
            Some(setting) => Some((input.client(setting)?, tls_name(setting, None)?)),
        };
        Ok(Self { talk, tls })
    }
}

impl Talk {
    /// Does anything that the server says matter?
    fn listens(&self) -> bool {
        match self {
            Self::Once { expect, .. } => expect.is_some(),
            Self::Dialogue(steps) => steps.iter().any(|step| step.expect.is_some()),
        }
    }

    /// Does nobody say anything?
    fn is_silent(&self) -> bool {
        matches!(self, Self::Once { send, expect: None } if send.is_empty())
    }

    /// Is the last thing something that we say?
    fn ends_with_sending(&self) -> bool {
        match self {
            Self::Once { send, expect } => expect.is_none() && !send.is_empty(),
            Self::Dialogue(steps) => steps.last().is_some_and(|step| !step.send.is_empty()),
        }
    }
}

pub(super) async fn probe(
    target: &Target,
    plan: &Plan,
    deadline: &mut Deadline<'_>,
) -> Result<String, Trouble> {
    if plan.tls.is_none() && plan.talk.is_silent() {
        socket::reach(target, deadline).await?;
        return Ok(String::from("connected"));
    }
    // Nobody waits for an answer: a reset could take the bytes away before they are read.
    let close = if plan.talk.ends_with_sending() { Close::Orderly } else { Close::Reset };
    let several = matches!(plan.talk, Talk::Dialogue(_));
    let nagle = if plan.tls.is_some() || several { Nagle::Off } else { Nagle::On };
    let Connected { stream, reset } = socket::connect(target, close, nagle, deadline).await?;
    let mut detail = String::from("connected");
    let mut broken = None;
    let wire = match &plan.tls {
        Some((client, name)) => {
            if let Some(error) = reset {
                return Err(Trouble::io(Phase::TlsHandshake, "", &error));
            }
            let name = name.clone().unwrap_or_else(|| target.address.into());
            let secured = tls::handshake(stream, client, name, deadline).await?;
            detail = format!("connected, {}", secured.version);
            secured.wire
        }
        None => {
            match reset {
                // What the server sent before it closed may be what is expected.
                Some(error) if plan.talk.listens() => broken = Some(error),
                Some(error) => return Err(Trouble::io(Phase::Connect, "", &error)),
                None => {}
            }
            Wire::Plain(stream)
        }
    };
    match &plan.talk {
        Talk::Once { send, expect } => {
            let mut exchange = Exchange::new(wire, send, broken);
            match expect {
                Some(wanted) => {
                    wanted.find(&mut Vec::new(), &mut exchange, deadline).await?;
                    detail.push_str(", reply as expected");
                }
                None => send_all(&mut exchange, deadline).await?,
            }
        }
        Talk::Dialogue(steps) => {
            dialogue(&mut Exchange::new(wire, &[], broken), steps, deadline).await?;
            detail.push_str(", dialogue as expected");
        }
    }
    Ok(detail)
}

async fn dialogue<'p>(
    exchange: &mut Exchange<'p>,
    steps: &'p [Step],
    deadline: &mut Deadline<'_>,
) -> Result<(), Trouble> {
    let mut reply = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        let in_step = |trouble: Trouble| trouble.within(&format!("step {} of {}", i + 1, steps.len()));
        if let Some(wanted) = &step.expect {
            wanted.find(&mut reply, exchange, deadline).await.map_err(in_step)?;
        }
        if !step.send.is_empty() {
            // The server may have answered before it had read everything.
            send_all(exchange, deadline).await.map_err(in_step)?;
            exchange.say(&step.send);
        }
    }
    match steps.last() {
        Some(last) if !last.send.is_empty() => match send_all(exchange, deadline).await {
            // All that was asked for has come: a server that closes at once is not at fault.
            Err(Trouble::Failure(_)) if steps.iter().any(|step| step.expect.is_some()) => Ok(()),
            sent => sent,
        },
        _ => Ok(()),
    }
}

async fn send_all(exchange: &mut Exchange<'_>, deadline: &mut Deadline<'_>) -> Result<(), Trouble> {
    let sent = exchange.send(deadline).await;
    sent.map_err(|end| end.into_trouble(Phase::Request, "connection closed", deadline))
}
