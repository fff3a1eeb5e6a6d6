//! One mail over one connection: TLS, login, envelope, text.

#[cfg(feature = "fuzzing")]
pub(in crate::notify) mod fuzzing;

use std::error::Error as _;
use std::net::IpAddr;
use std::time::Duration;
use std::{io, str};

use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Ehlo, Mail as MailFrom, Rcpt, Starttls};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::Response;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::letter::Letter;
use super::replies::Replies;
use crate::engine::model::{Login, Mail, SmtpTls};
use crate::net::explain;
use crate::notify::secret::Reader;
use crate::notify::wire::{self, Security, Wire};

/// Bytes that a mail server may send in one session. lettre parses a reply anew with each line of it, so that a
/// long one of short lines costs the square of its length, on the thread of the supervisor.
const MAX_REPLIES: usize = 16 * 1024;
/// Bytes of a reply that a log line quotes.
const MAX_QUOTED: usize = 200;
/// For the farewell, which changes nothing any more.
const FAREWELL: Duration = Duration::from_secs(1);
/// Said to lettre, which waits for a greeting: after STARTTLS there is no second one (RFC 3207 section 4.2).
const GREETED: &[u8] = b"220 greeted\r\n";

/// What is kept from one mail to the next.
#[derive(Debug, Default)]
pub(super) struct Session {
    security: Security,
    passwords: Reader,
}

/// What became of a mail that the server listened to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// The number of recipients that it was taken for.
    taken: usize,
    pub(super) not_taken: Vec<NotTaken>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotTaken {
    pub(super) to: String,
    pub(super) why: String,
    pub(super) when: When,
}

/// Will it be taken?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// RFC 5321 section 4.2.1: a reply 4xx, of a greylist or a full mailbox.
    Later,
    Never,
}

impl Sent {
    /// A mail that nobody has was not sent.
    pub(super) fn by_somebody(self) -> Result<Self, String> {
        match self.taken {
            0 => Err(self.not_taken.into_iter().map(|one| one.why).collect::<Vec<_>>().join("; ")),
            _ => Ok(self),
        }
    }
}

impl Session {
    /// `to`: those of the mail's recipients who are still to get it.
    pub(super) async fn deliver(
        &mut self,
        mail: &Mail,
        letter: &Letter,
        to: &[String],
    ) -> Result<Sent, String> {
        match timeout(mail.timeout, self.attempt(mail, letter, to)).await {
            Ok(result) => result,
            Err(_) => {
                self.security.forget();
                Err(format!("timed out after {:?}", mail.timeout))
            }
        }
    }

    async fn attempt(&mut self, mail: &Mail, letter: &Letter, to: &[String]) -> Result<Sent, String> {
        // First, so that nobody is called in vain.
        let credentials = match &mail.login {
            Some(login) => Some(self.credentials(login).await?),
            None => None,
        };
        let mailboxes = Mailboxes::parse(mail, to)?;
        let message = compose(&mailboxes, letter)?;
        talk(self.connect(mail).await?, credentials.as_ref(), &mailboxes, &message).await
    }

    async fn credentials(&mut self, login: &Login) -> Result<Credentials, String> {
        let password = self.passwords.read(&login.password_file).await?;
        Ok(Credentials::new(login.user.clone(), password))
    }

    async fn connect(&mut self, mail: &Mail) -> Result<Wire, String> {
        let mut stream = wire::connect(&mail.server, mail.timeout).await?;
        let host = mail.server.host.as_str();
        match &mail.tls {
            None => Ok(Wire::plain(stream, MAX_REPLIES)),
            Some(SmtpTls::Implicit(tls)) => {
                let stream = self.security.secure(stream, tls, host).await?;
                Ok(Wire::encrypted(stream, MAX_REPLIES))
            }
            Some(SmtpTls::StartTls(tls)) => {
                start_tls(&mut stream).await.map_err(|why| format!("STARTTLS: {why}"))?;
                let stream = self.security.secure(stream, tls, host).await?;
                Ok(Wire::encrypted(stream, MAX_REPLIES).beginning_with(GREETED))
            }
        }
    }
}

/// From the greeting to the farewell.
async fn talk(
    wire: Wire,
    credentials: Option<&Credentials>,
    mailboxes: &Mailboxes,
    message: &[u8],
) -> Result<Sent, String> {
    let own = own_name(&wire);
    let mut smtp = AsyncSmtpConnection::connect_with_transport(Box::new(Replies::of(wire)), &own)
        .await
        .map_err(|error| words("greeting", &error))?;
    if let Some(credentials) = credentials {
        smtp.auth(&[Mechanism::Plain, Mechanism::Login], credentials)
            .await
            .map_err(|error| words("login", &error))?;
    }
    let sent = send(&mut smtp, mailboxes, message).await;
    // Whether it says goodbye changes nothing.
    let _ = timeout(FAREWELL, smtp.quit()).await;
    sent
}

/// lettre's own STARTTLS would bring its own TLS settings, with other rules than those of checks.
async fn start_tls(stream: &mut impl Stream) -> Result<(), String> {
    let own = own_name(stream);
    reply(stream).await?;
    let hello = command(stream, &Ehlo::new(own).to_string()).await?;
    let keyword = |line: &str| line.split_whitespace().next().map(str::to_ascii_uppercase);
    // Not lettre's reading: see [`super::replies`].
    if !hello.message().any(|line| keyword(line).as_deref() == Some("STARTTLS")) {
        return Err("the server does not offer it".to_owned());
    }
    command(stream, &Starttls.to_string()).await?;
    Ok(())
}

async fn command(stream: &mut impl Stream, line: &str) -> Result<Response, String> {
    stream.write_all(line.as_bytes()).await.map_err(|error| explain(&error))?;
    reply(stream).await
}

/// A whole reply. What a stranger may have put behind it in clear text is dropped with it, not taken for the
/// server's word after the handshake.
async fn reply(stream: &mut impl Stream) -> Result<Response, String> {
    let mut bytes = Vec::new();
    loop {
        if bytes.len() > MAX_REPLIES {
            return Err("the server sends without end".to_owned());
        }
        if stream.read_buf(&mut bytes).await.map_err(|error| explain(&error))? == 0 {
            return Err("connection closed by the server".to_owned());
        }
        if !is_whole(&bytes) {
            continue;
        }
        let text = str::from_utf8(&bytes).map_err(|_| "the reply is no text".to_owned())?;
        let response: Response = text.parse().map_err(|_| format!("the server said \"{}\"", quoted(text)))?;
        return match response.is_positive() {
            true => Ok(response),
            false => Err(format!("the server said \"{}\"", quoted(text))),
        };
    }
}

/// Ends with a line `250 …`: a line `250-…` is followed by another.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(lines) = bytes.strip_suffix(b"\n") else { return false };
    let last = lines.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    last.get(3) != Some(&b'-')
}

#[derive(Debug)]
struct Mailboxes {
    from: Mailbox,
    /// Named in the mail.
    to: Vec<Mailbox>,
    /// Those of them who get it now, as they are configured.
    now: Vec<(String, Mailbox)>,
}

impl Mailboxes {
    fn parse(mail: &Mail, now: &[String]) -> Result<Self, String> {
        let parse =
            |text: &String| text.parse::<Mailbox>().map_err(|why| format!("{text} is not an address: {why}"));
        let now = now.iter().map(|to| Ok((to.clone(), parse(to)?)));
        Ok(Self {
            from: parse(&mail.from)?,
            to: mail.to.iter().map(parse).collect::<Result<_, _>>()?,
            now: now.collect::<Result<_, String>>()?,
        })
    }
}

fn compose(mailboxes: &Mailboxes, letter: &Letter) -> Result<Vec<u8>, String> {
    let domain = mailboxes.from.email.domain();
    let id = format!("<lvsd.{}.{:016x}@{domain}>", std::process::id(), fastrand::u64(..));
    // RFC 3834: no holiday notices in answer.
    let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
    let mut builder = Message::builder()
        .from(mailboxes.from.clone())
        .subject(letter.subject.clone())
        .message_id(Some(id))
        .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()));
    for to in &mailboxes.to {
        builder = builder.to(to.clone());
    }
    let message = builder.body(letter.body.clone()).map_err(|error| format!("write the mail: {error}"))?;
    Ok(message.formatted())
}

/// One recipient's refusal is not that of the others.
async fn send(smtp: &mut AsyncSmtpConnection, mailboxes: &Mailboxes, message: &[u8]) -> Result<Sent, String> {
    let from = MailFrom::new(Some(mailboxes.from.email.clone()), vec![]);
    smtp.command(from).await.map_err(|error| words("MAIL FROM", &error))?;
    let (mut taken, mut not_taken) = (0, Vec::new());
    for (to, mailbox) in &mailboxes.now {
        match smtp.command(Rcpt::new(mailbox.email.clone(), vec![])).await {
            Ok(_) => taken += 1,
            Err(error) if error.status().is_some() => not_taken.push(NotTaken {
                to: to.clone(),
                why: words(&format!("RCPT TO:<{}>", mailbox.email), &error),
                when: if error.is_transient() { When::Later } else { When::Never },
            }),
            Err(error) => return Err(words("RCPT TO", &error)),
        }
    }
    if taken == 0 {
        return Ok(Sent { taken, not_taken });
    }
    smtp.command(Data).await.map_err(|error| words("DATA", &error))?;
    smtp.message(message).await.map_err(|error| words("the mail's text", &error))?;
    Ok(Sent { taken, not_taken })
}

/// `RCPT TO:<a@example.org>: the server said "550 no such user"`
fn words(step: &str, error: &lettre::transport::smtp::Error) -> String {
    let said = error.source().map(ToString::to_string).unwrap_or_default();
    if let Some(code) = error.status() {
        return format!("{step}: the server said \"{code} {}\"", quoted(&said));
    }
    match error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
        Some(error) => format!("{step}: {}", explain(error)),
        None if said.is_empty() => format!("{step}: {error}"),
        None => format!("{step}: {}", quoted(&said)),
    }
}

fn quoted(text: &str) -> String {
    let cut = text.get(..text.floor_char_boundary(MAX_QUOTED)).unwrap_or_default();
    cut.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// RFC 5321 section 4.1.4: a name with a domain, else the address.
fn own_name(wire: &impl Local) -> ClientId {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let full = name.filter(|name| {
        name.contains('.') && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-')
    });
    match (full, wire.local()) {
        (Some(name), _) => ClientId::Domain(name),
        (None, Some(IpAddr::V4(address))) => ClientId::Ipv4(address),
        (None, Some(IpAddr::V6(address))) => match address.to_ipv4_mapped() {
            Some(address) => ClientId::Ipv4(address),
            None => ClientId::Ipv6(address),
        },
        (None, None) => ClientId::default(),
    }
}

/// What is read and written before TLS.
trait Stream: Local + AsyncRead + AsyncWrite + Unpin {}

impl<S: Local + AsyncRead + AsyncWrite + Unpin> Stream for S {}

trait Local {
    fn local(&self) -> Option<IpAddr>;
}

impl Local for Wire {
    fn local(&self) -> Option<IpAddr> {
        self.local_addr().ok().map(|address| address.ip())
    }
}

impl Local for TcpStream {
    fn local(&self) -> Option<IpAddr> {
        self.local_addr().ok().map(|address| address.ip())
    }
}
