//! What is checked: a process of its own, so that its processor time is not ours.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::Protocol;

/// The issuer's certificate, in the server's folder.
pub(crate) const AUTHORITY: &str = "authority.pem";
/// Stands at the end of the body.
pub(crate) const NEEDLE: &str = "all is well";

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    child: Child,
    /// The server ends when this closes.
    _life: Option<ChildStdin>,
    folder: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start(protocol: Protocol) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--serve", protocol.name()])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the server")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("its output")?).read_line(&mut line)?;
        let address = line.trim().parse().context("the server's address")?;
        Ok(Self { address, _life: child.stdin.take(), child, folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves until standard input closes.
pub(crate) fn serve(protocol: Protocol, folder: &Path) -> Result<()> {
    let tls = match protocol {
        Protocol::Https => Some(acceptor(folder)?),
        Protocol::Tcp | Protocol::Http => None,
    };
    super::runtime()?.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let listener = socket.listen(4096)?;
        println!("{}", listener.local_addr()?);
        let accepting = tokio::spawn(accept(listener, protocol, tls));
        // Nothing is ever written to it.
        let _ = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await;
        accepting.abort();
        Ok(())
    })
}

async fn accept(listener: TcpListener, protocol: Protocol, tls: Option<TlsAcceptor>) {
    loop {
        // A client that has gone already is no reason to end.
        let Ok((stream, _)) = listener.accept().await else { continue };
        match (protocol, &tls) {
            (Protocol::Tcp, _) => drop(stream),
            (_, None) => drop(tokio::spawn(answer(stream))),
            (_, Some(tls)) => {
                let handshake = tls.accept(stream);
                tokio::spawn(async move {
                    if let Ok(stream) = handshake.await {
                        answer(stream).await;
                    }
                });
            }
        }
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if !stream.read_buf(&mut request).await.is_ok_and(|read| read > 0) {
            return;
        }
    }
    let body = format!("{:<200}{NEEDLE}\n", "a page");
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: bench\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // The client closes as soon as it knows enough.
    let _ = stream.write_all((head + &body).as_bytes()).await;
    let _ = stream.flush().await;
    let _ = stream.read(&mut [0]).await;
}

/// With a certificate of an authority made for it.
fn acceptor(folder: &Path) -> Result<TlsAcceptor> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    std::fs::write(folder.join(AUTHORITY), params.self_signed(&key)?.pem())?;
    let issuer = Issuer::new(params, key);
    let own_key = KeyPair::generate()?;
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&own_key, &issuer)?;
    let private = PrivateKeyDer::try_from(own_key.serialize_der()).map_err(anyhow::Error::msg)?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![own.der().clone()], private)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
