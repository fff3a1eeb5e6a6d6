//! Who is told of events over the network: a mail server, web servers.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::{EventKind, SmtpTls, Tls};

/// `[daemon.notify.mail]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    pub server: Endpoint,
    /// `lvsd <lvsd@example.org>` or the address alone.
    pub from: String,
    /// At least one, written like `from`.
    pub to: Vec<String>,
    pub tls: Option<SmtpTls>,
    pub login: Option<Login>,
    /// Of one mail, from the look-up of the server's name to its last reply.
    pub timeout: Duration,
    /// From one mail to the next; what happens meanwhile is told together.
    pub min_interval: Duration,
    pub events: BTreeSet<EventKind>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    /// Read anew for each mail.
    pub password_file: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// A name or an address, the latter without brackets.
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// `[[daemon.notify.webhook]]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    pub url: WebhookUrl,
    /// In the order of their names.
    pub headers: Vec<(String, HeaderText)>,
    /// Of one request, from the look-up of the server's name to the end of its reply.
    pub timeout: Duration,
    pub events: BTreeSet<EventKind>,
}

/// Shows in logs where it leads, without its path: for some services that is the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookUrl {
    pub server: Endpoint,
    /// `https`
    pub tls: Option<Tls>,
    /// The `Host` header: the port only where it is not the scheme's own.
    pub authority: String,
    pub path: Secret,
}

impl fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderText {
    Written(Secret),
    /// Read anew for each request; `prefix` is put in front of what the file holds.
    File {
        path: PathBuf,
        prefix: String,
    },
}

/// A text that stands in no log.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
