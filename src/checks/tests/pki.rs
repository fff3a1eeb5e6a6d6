//! A certificate authority of the tests' own, and TLS servers with its certificates.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ResolvesServerCertUsingSni, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::*;
use crate::engine::model::{ClientCertificate, Tls, TlsVersion};

pub(super) struct Pki {
    directory: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

pub(super) struct Identity {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) pem: String,
}

pub(super) fn params(names: &[&str]) -> CertificateParams {
    CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap()
}

impl Pki {
    pub(super) fn new() -> Self {
        let mut params = params(&[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let root = certificate.der().clone();
        let pki = Self { directory: tempfile::tempdir().unwrap(), issuer: Issuer::new(params, key), root };
        pki.write("ca.pem", &certificate.pem());
        pki
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(super) fn issue(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity::new(certificate, &key)
    }

    /// For these names, valid.
    pub(super) fn server(&self, names: &[&str]) -> Arc<ServerConfig> {
        plain(self.issue(&params(names)))
    }

    /// A server that wants a certificate of this authority from its clients.
    pub(super) fn demanding_server(&self, names: &[&str]) -> Arc<ServerConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        let provider = Arc::new(default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .unwrap();
        let identity = self.issue(&params(names));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![identity.certificate], identity.key)
            .unwrap();
        Arc::new(config)
    }

    /// A client certificate of this authority, on disk.
    pub(super) fn client(&self) -> ClientCertificate {
        let mut params = params(&["client.example"]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        ClientCertificate {
            certificate: self.write("client.pem", &certificate.pem()),
            key: self.write("client.key", &key.serialize_pem()),
        }
    }

    /// Has a certificate for each of these names and refuses who asks for none of them.
    pub(super) fn server_by_name(&self, names: &[&str]) -> Arc<ServerConfig> {
        let mut by_name = ResolvesServerCertUsingSni::new();
        for name in names {
            let identity = self.issue(&params(&[name]));
            let key = rustls::crypto::ring::sign::any_supported_type(&identity.key).unwrap();
            by_name.add(name, CertifiedKey::new(vec![identity.certificate], key)).unwrap();
        }
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(by_name));
        Arc::new(config)
    }

    /// What a check trusts this authority with.
    pub(super) fn tls(&self) -> Tls {
        Tls { ca: Some(self.path("ca.pem")), ..tls() }
    }
}

impl Identity {
    fn new(certificate: rcgen::Certificate, key: &KeyPair) -> Self {
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Self { pem: certificate.pem(), certificate: certificate.der().clone(), key }
    }

    pub(super) fn self_signed(params: &CertificateParams) -> Self {
        let key = KeyPair::generate().unwrap();
        Self::new(params.self_signed(&key).unwrap(), &key)
    }
}

/// The default setting.
pub(super) fn tls() -> Tls {
    Tls {
        verify: true,
        ca: None,
        server_name: None,
        client: None,
        min_version: TlsVersion::Tls12,
        alpn: Vec::new(),
    }
}

pub(super) fn plain(identity: Identity) -> Arc<ServerConfig> {
    Arc::new(with_versions(identity, rustls::ALL_VERSIONS))
}

pub(super) fn with_versions(
    identity: Identity,
    versions: &[&'static SupportedProtocolVersion],
) -> ServerConfig {
    ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate], identity.key)
        .unwrap()
}

/// Serves sessions whose handshake succeeds.
pub(super) async fn serve_tls<F, S>(config: Arc<ServerConfig>, session: S) -> SocketAddr
where
    S: Fn(TlsStream<TcpStream>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let acceptor = TlsAcceptor::from(config);
    serve(move |stream| {
        let (acceptor, session) = (acceptor.clone(), session.clone());
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                session(stream).await;
            }
        }
    })
    .await
}

/// Answers each request with its SNI and its Host, and closes as it should.
pub(super) async fn serve_https(config: Arc<ServerConfig>) -> SocketAddr {
    serve_tls(config, |mut stream| async move {
        let mut request = vec![0; 4096];
        let Ok(read) = stream.read(&mut request).await else { return };
        let request = String::from_utf8_lossy(&request[..read]).into_owned();
        let host =
            request.split("Host: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap_or_default();
        let name = stream.get_ref().1.server_name().unwrap_or("none").to_owned();
        let reply = format!("HTTP/1.1 200 OK\r\n\r\nsni {name} host {host}.");
        let _client_may_be_gone = stream.write_all(reply.as_bytes()).await;
        let _client_may_be_gone = stream.shutdown().await;
    })
    .await
}
