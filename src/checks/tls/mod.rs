//! The TLS handshake of a check. The only module, with its children, that knows rustls.
//!
//! Children: `settings` reads files and makes a client configuration, `verifier` judges
//! certificates, `reason` words what went wrong.

mod reason;
mod settings;
mod verifier;

use std::net::IpAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::connection::Wire;
use super::deadline::Deadline;
use super::fault::Trouble;
use crate::engine::model::Phase;

pub(super) use reason::explain;
pub(super) use settings::Settings;
pub use settings::TlsError;

/// A TLS setting made ready: one client configuration is shared by all checks with that setting.
#[derive(Clone, Debug)]
pub(super) struct Client(Arc<ClientConfig>);

/// Whom a check wants to talk to: sent as SNI unless it is an address, and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(ServerName<'static>);

impl Name {
    /// A host name or an address, in brackets or not; `None` if it is neither.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        ServerName::try_from(bare.to_owned()).ok().map(Self)
    }
}

impl From<IpAddr> for Name {
    fn from(address: IpAddr) -> Self {
        Self(ServerName::IpAddress(address.into()))
    }
}

/// What a handshake agreed on.
#[derive(Debug)]
pub(super) struct Secured {
    pub(super) wire: Wire,
    pub(super) version: &'static str,
    pub(super) alpn: Option<Vec<u8>>,
}

pub(super) async fn handshake(
    stream: TcpStream,
    client: &Client,
    name: Name,
    deadline: &mut Deadline<'_>,
) -> Result<Secured, Trouble> {
    // On the heap: it is some kilobytes, and most checks have no TLS.
    let connecting = Box::pin(TlsConnector::from(Arc::clone(&client.0)).connect(name.0, stream));
    let stream = match deadline.race(connecting).await {
        None => return Err(Trouble::timed_out(Phase::TlsHandshake, deadline)),
        Some(Err(error)) => return Err(reason::handshake(&error)),
        Some(Ok(stream)) => stream,
    };
    let (_, session) = stream.get_ref();
    let version = match session.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_3) => "TLS 1.3",
        Some(rustls::ProtocolVersion::TLSv1_2) => "TLS 1.2",
        Some(_) | None => "TLS",
    };
    let alpn = session.alpn_protocol().map(<[u8]>::to_vec);
    Ok(Secured { wire: Wire::Tls(Box::new(stream)), version, alpn })
}
