//! TLS as a client: settings made ready, whom to talk to, and why it failed. The only module, with its
//! children, that builds what rustls needs.
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
use tokio_rustls::{Connect, TlsConnector};

pub(crate) use reason::{explain, explain_handshake};
pub(crate) use settings::Settings;
pub use settings::TlsError;

/// A TLS setting made ready: one client configuration is shared by all that have it.
#[derive(Clone, Debug)]
pub(crate) struct Client(Arc<ClientConfig>);

impl Client {
    /// The handshake, which is under way once it is polled. Without a deadline: that is the caller's.
    pub(crate) fn connect(&self, name: Name, stream: TcpStream) -> Connect<TcpStream> {
        TlsConnector::from(Arc::clone(&self.0)).connect(name.0, stream)
    }
}

/// Whom we want to talk to: sent as SNI unless it is an address, and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(ServerName<'static>);

impl Name {
    /// A host name or an address, in brackets or not; `None` if it is neither.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        ServerName::try_from(bare.to_owned()).ok().map(Self)
    }
}

impl From<IpAddr> for Name {
    fn from(address: IpAddr) -> Self {
        Self(ServerName::IpAddress(address.into()))
    }
}
