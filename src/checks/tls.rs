//! The TLS handshake of a check.

use std::io;

use tokio::net::TcpStream;

use super::connection::Wire;
use super::deadline::Deadline;
use super::fault::Trouble;
use crate::engine::model::Phase;

pub use crate::net::tls::TlsError;
pub(super) use crate::net::tls::{Client, Name, Settings, explain, explain_handshake};

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
    let connecting = Box::pin(client.connect(name, stream));
    let stream = match deadline.race(connecting).await {
        None => return Err(Trouble::timed_out(Phase::TlsHandshake, deadline)),
        Some(Err(error)) => return Err(failed(&error)),
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

fn failed(error: &io::Error) -> Trouble {
    match explain_handshake(error) {
        Some(reason) => Trouble::failure(Phase::TlsHandshake, reason),
        None => Trouble::io(Phase::TlsHandshake, "", error),
    }
}
