//! The `smtp` check: greeting, EHLO or HELO, STARTTLS if wanted, and a polite end.
//!
//! keepalived knows replies of one line and HELO only, and calls a server that closes on QUIT
//! without an answer dead.

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing;
mod reply;

use std::time::Duration;

use super::connection::{End, Exchange, Wire};
use super::deadline::Deadline;
use super::fault::{Trouble, quoted};
use super::prepare::{Input, PrepareError, tls_name};
use super::socket::{self, Close, Connected, Nagle};
use super::tls;
use crate::engine::model::{Phase, Smtp, SmtpTls, Target};
use reply::{Malformed, Replies, Reply};

/// How long a server may take to answer QUIT: the verdict does not depend on it.
const FAREWELL: Duration = Duration::from_secs(1);

/// What is made once for all runs of an `smtp` check.
#[derive(Debug)]
pub(super) struct Plan {
    helo: Option<String>,
    security: Security,
}

#[derive(Debug)]
enum Security {
    None,
    Implicit(tls::Client, Option<tls::Name>),
    StartTls(tls::Client, Option<tls::Name>),
}

impl Plan {
    pub(super) fn new(smtp: &Smtp, input: &mut Input) -> Result<Self, PrepareError> {
        let security = match &smtp.tls {
            None => Security::None,
            Some(SmtpTls::Implicit(tls)) => Security::Implicit(input.client(tls)?, tls_name(tls, None)?),
            Some(SmtpTls::StartTls(tls)) => Security::StartTls(input.client(tls)?, tls_name(tls, None)?),
        };
        Ok(Self { helo: smtp.helo.clone(), security })
    }
}

pub(super) async fn probe(
    target: &Target,
    plan: &Plan,
    deadline: &mut Deadline<'_>,
) -> Result<String, Trouble> {
    let Connected { stream, reset } = socket::connect(target, Close::Reset, Nagle::Off, deadline).await?;
    let commands = Commands::new(plan.helo.as_deref(), &stream);
    let name = |name: &Option<tls::Name>| name.clone().unwrap_or_else(|| target.address.into());
    let mut secured_by = None;
    let (wire, broken) = match &plan.security {
        Security::Implicit(client, server) => {
            if let Some(error) = reset {
                return Err(Trouble::io(Phase::TlsHandshake, "", &error));
            }
            let secured = tls::handshake(stream, client, name(server), deadline).await?;
            secured_by = Some(secured.version);
            (secured.wire, None)
        }
        // What the server said before it closed is the better reason.
        Security::None | Security::StartTls(..) => (Wire::Plain(stream), reset),
    };
    let mut session = Session::new(Exchange::new(wire, &[], broken));
    let greeted = session.greeted(&commands, deadline).await;
    let greeting = session.judged(greeted, deadline).await?;
    if let Security::StartTls(client, server) = &plan.security {
        let ready = session.start_tls(&greeting, deadline).await;
        session.judged(ready, deadline).await?;
        let Wire::Plain(stream) = session.exchange.into_wire() else {
            return Err(Trouble::failure(Phase::Internal, "TLS within TLS"));
        };
        let secured = tls::handshake(stream, client, name(server), deadline).await?;
        secured_by = Some(secured.version);
        session = Session::new(Exchange::new(secured.wire, &[], None));
        // RFC 3207 section 4.2: all that was said before is forgotten.
        let again = session.hello(&commands, deadline).await;
        session.judged(again, deadline).await?;
    }
    session.quit(deadline).await;
    let secured_by = secured_by.map(|version| format!(", {version}")).unwrap_or_default();
    Ok(format!("{} {}{secured_by}", greeting.verb.name(), greeting.reply.code))
}

/// The lines that greet, made for one run.
struct Commands {
    ehlo: Vec<u8>,
    helo: Vec<u8>,
}

impl Commands {
    fn new(helo: Option<&str>, stream: &tokio::net::TcpStream) -> Self {
        let own = match (helo, stream.local_addr().map(|address| address.ip())) {
            (Some(name), _) => name.to_owned(),
            (None, Ok(std::net::IpAddr::V4(address))) => format!("[{address}]"),
            (None, Ok(std::net::IpAddr::V6(address))) => format!("[IPv6:{address}]"),
            (None, Err(_)) => "localhost".to_owned(),
        };
        let line = |verb: &str| format!("{verb} {own}\r\n").into_bytes();
        Self { ehlo: line("EHLO"), helo: line("HELO") }
    }
}

/// How the server let itself be greeted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Ehlo,
    Helo,
}

impl Verb {
    const fn name(self) -> &'static str {
        match self {
            Self::Ehlo => "EHLO",
            Self::Helo => "HELO",
        }
    }
}

#[derive(Debug)]
struct Hello {
    verb: Verb,
    reply: Reply,
}

struct Session<'a> {
    exchange: Exchange<'a>,
    replies: Replies,
    /// There is somebody who understands QUIT.
    talks: bool,
}

impl<'a> Session<'a> {
    fn new(exchange: Exchange<'a>) -> Self {
        Self { exchange, replies: Replies::default(), talks: true }
    }

    async fn greeted(
        &mut self,
        commands: &'a Commands,
        deadline: &mut Deadline<'_>,
    ) -> Result<Hello, Trouble> {
        let greeting = self.reply("greeting", deadline).await?;
        wanted("greeting", &greeting, 220)?;
        self.hello(commands, deadline).await
    }

    async fn hello(&mut self, commands: &'a Commands, deadline: &mut Deadline<'_>) -> Result<Hello, Trouble> {
        let reply = self.command("EHLO", &commands.ehlo, deadline).await?;
        // RFC 5321 section 3.2: a server that does not know EHLO is greeted by HELO.
        if !(500..=504).contains(&reply.code) {
            return wanted("EHLO", &reply, 250).map(|()| Hello { verb: Verb::Ehlo, reply });
        }
        let reply = self.command("HELO", &commands.helo, deadline).await?;
        wanted("HELO", &reply, 250).map(|()| Hello { verb: Verb::Helo, reply })
    }

    async fn start_tls(&mut self, hello: &Hello, deadline: &mut Deadline<'_>) -> Result<(), Trouble> {
        let refused =
            |reason: &str| Err(Trouble::failure(Phase::TlsHandshake, format!("STARTTLS: {reason}")));
        if hello.verb == Verb::Helo {
            return refused("not possible, for the server does not know EHLO");
        }
        if !hello.reply.offers("STARTTLS") {
            return refused("the server does not offer it");
        }
        let reply = self.command("STARTTLS", b"STARTTLS\r\n", deadline).await?;
        wanted("STARTTLS", &reply, 220)?;
        // Whoever can put bytes in front of the handshake speaks for the server.
        if self.replies.is_empty() { Ok(()) } else { refused("more came in plain text behind the reply") }
    }

    async fn command(
        &mut self,
        step: &str,
        line: &'a [u8],
        deadline: &mut Deadline<'_>,
    ) -> Result<Reply, Trouble> {
        // Commands are short: the one before has been answered, so it has been sent.
        self.exchange.say(line);
        self.reply(step, deadline).await
    }

    async fn reply(&mut self, step: &str, deadline: &mut Deadline<'_>) -> Result<Reply, Trouble> {
        let mut next = self.replies.poll_reply();
        loop {
            match next {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {}
                Err(why) => {
                    self.talks = false;
                    return Err(Trouble::failure(Phase::Reply, format!("{step}: {}", words(&why))));
                }
            }
            let Self { exchange, replies, .. } = self;
            let take = |bytes: &[u8]| replies.push(bytes).and_then(|()| replies.poll_reply());
            next = match exchange.receive(deadline, take).await {
                Ok(next) => next,
                Err(end) => {
                    self.talks = false;
                    return Err(self.ended(step, end, deadline));
                }
            };
        }
    }

    fn ended(&self, step: &str, end: End, deadline: &Deadline<'_>) -> Trouble {
        let trouble = end.into_trouble(self.exchange.phase(), "connection closed", deadline).within(step);
        let read = self.replies.unfinished();
        if read.is_empty() { trouble } else { trouble.with(&format!(" (read {})", quoted(&read))) }
    }

    /// RFC 5321 section 3.1 and 4.1.1.10: a client says QUIT, also to a server that refuses.
    async fn judged<T>(
        &mut self,
        result: Result<T, Trouble>,
        deadline: &mut Deadline<'_>,
    ) -> Result<T, Trouble> {
        if result.is_err() {
            self.quit(deadline).await;
        }
        result
    }

    /// Whatever comes of it: the verdict is known.
    async fn quit(&mut self, deadline: &mut Deadline<'_>) {
        if !self.talks {
            return;
        }
        self.exchange.say(b"QUIT\r\n");
        self.replies = Replies::default();
        // On the heap, since a run that only waits should be small.
        let goodbye = Box::pin(self.reply("QUIT", deadline));
        let _answered_closed_or_late = tokio::time::timeout(FAREWELL, goodbye).await;
    }
}

fn wanted(step: &str, reply: &Reply, code: u16) -> Result<(), Trouble> {
    if reply.code == code {
        return Ok(());
    }
    let reason = format!("{step}: the server said {}, wanted {code}", quoted(&reply.shown()));
    Err(Trouble::failure(Phase::Status, reason))
}

fn words(malformed: &Malformed) -> String {
    match malformed {
        Malformed::Line(line) => format!("{} is no SMTP reply", quoted(line)),
        Malformed::Codes(first, second) => format!("one reply has two codes, {first} and {second}"),
        Malformed::LongLine => "a line of the reply is too long".to_owned(),
        Malformed::ManyLines => "the reply has too many lines".to_owned(),
        Malformed::Ahead => "the server sends more than it is asked for".to_owned(),
    }
}
