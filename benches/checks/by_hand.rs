//! The other side: the least that the same takes. TCP by blocking system calls; HTTP by a hand-written GET
//! and httparse on tokio's socket; HTTPS by the same over rustls with its own verifier.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::libc::linger;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, connect, setsockopt, socket, sockopt};
use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use socket2::{Domain, Socket, Type};
use std::os::fd::AsRawFd;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::{AT_ONCE, Protocol, server};

const REQUEST: &[u8] =
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: */*\r\nConnection: close\r\n\r\n";

pub(crate) struct Side {
    runtime: Runtime,
    protocol: Protocol,
    address: SocketAddr,
    tls: Option<TlsConnector>,
}

impl Side {
    pub(crate) fn new(protocol: Protocol, address: SocketAddr, folder: &Path) -> Result<Self> {
        super::ensure_loopback(address)?;
        let tls = match protocol {
            Protocol::Https => Some(connector(folder)?),
            Protocol::Tcp | Protocol::Http => None,
        };
        Ok(Self { runtime: super::runtime()?, protocol, address, tls })
    }

    pub(crate) fn run(&mut self, count: usize) -> Result<()> {
        if self.protocol == Protocol::Tcp {
            return (0..count).try_for_each(|_| tcp(self.address));
        }
        self.runtime.block_on(async {
            let mut workers = JoinSet::new();
            for worker in 0..AT_ONCE {
                let (address, tls, share) = (self.address, self.tls.clone(), super::share(count, worker));
                workers.spawn(async move {
                    for _ in 0..share {
                        get(address, tls.as_ref()).await?;
                    }
                    anyhow::Ok(())
                });
            }
            while let Some(ended) = workers.join_next().await {
                ended??;
            }
            Ok(())
        })
    }
}

/// Closed with a reset, as checks are: no port stays in TIME_WAIT.
fn tcp(address: SocketAddr) -> Result<()> {
    let SocketAddr::V4(address) = address else { bail!("{address} is not IPv4") };
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::Linger, &linger { l_onoff: 1, l_linger: 0 })?;
    connect(socket.as_raw_fd(), &SockaddrIn::from(address)).context("connect")
}

async fn get(address: SocketAddr, tls: Option<&TlsConnector>) -> Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None)?;
    socket.set_linger(Some(Duration::ZERO))?;
    if tls.is_some() {
        socket.set_tcp_nodelay(true)?;
    }
    let stream: TcpStream = TcpSocket::from_std_stream(socket.into()).connect(address).await?;
    match tls {
        None => exchange(stream).await,
        Some(tls) => {
            let name = ServerName::IpAddress(IpAddr::from([127, 0, 0, 1]).into());
            exchange(tls.connect(name, stream).await.context("shake hands")?).await
        }
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<()> {
    stream.write_all(REQUEST).await?;
    let mut buffer = [0_u8; 16 * 1024];
    let mut filled = 0;
    loop {
        let room = buffer.get_mut(filled..).unwrap_or_default();
        let read = stream.read(room).await?;
        ensure!(read > 0, "the server closed");
        filled += read;
        let bytes = buffer.get(..filled).unwrap_or_default();
        let mut fields = [httparse::EMPTY_HEADER; 16];
        let mut reply = httparse::Response::new(&mut fields);
        let httparse::Status::Complete(head) = reply.parse(bytes)? else { continue };
        ensure!(reply.code == Some(200), "status {:?}", reply.code);
        let body = bytes.get(head..).unwrap_or_default();
        if memchr::memmem::find(body, server::NEEDLE.as_bytes()).is_some() {
            return Ok(());
        }
    }
}

fn connector(folder: &Path) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join(server::AUTHORITY))?)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(TlsConnector::from(Arc::new(config)))
}
