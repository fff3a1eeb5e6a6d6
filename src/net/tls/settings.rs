//! From a `tls` table to a client configuration: reads certificates and keys, once per setting.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::Client;
use super::verifier::{AcceptAny, Verified};
use crate::engine::model::{Tls, TlsVersion};
use crate::net::explain;

/// Why a `tls` table cannot be used. The text is whole: there is no chain of sources to print.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("read {what} from {}: {why}", path.display())]
    Read { what: &'static str, path: PathBuf, why: String },
    #[error("read certificates from {}: the file holds none", path.display())]
    Empty { path: PathBuf },
    #[error("trust the certificates of {}: {why}", path.display())]
    Ca { path: PathBuf, why: rustls::Error },
    #[error("load the system's trusted certificates: {why}")]
    System { why: String },
    #[error("use the certificate {} with the key {}: {why}", certificate.display(), key.display())]
    Client { certificate: PathBuf, key: PathBuf, why: rustls::Error },
    #[error("set up TLS: {why}")]
    Setup { why: String },
}

/// Client configurations by setting, and the system's roots, loaded when first needed.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    clients: HashMap<Tls, Client>,
    system: Option<Arc<RootCertStore>>,
}

impl Settings {
    pub(crate) fn client(&mut self, tls: &Tls) -> Result<Client, TlsError> {
        // The name is no part of the configuration: servers with names of their own share one.
        let setting = Tls { server_name: None, ..tls.clone() };
        if let Some(client) = self.clients.get(&setting) {
            return Ok(client.clone());
        }
        let client = Client(Arc::new(self.build(&setting)?));
        self.clients.insert(setting, client.clone());
        Ok(client)
    }

    fn build(&mut self, tls: &Tls) -> Result<ClientConfig, TlsError> {
        // Never the process-wide default provider, which may be absent.
        let provider = Arc::new(default_provider());
        let versions: &[_] = match tls.min_version {
            TlsVersion::Tls12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
            TlsVersion::Tls13 => &[&rustls::version::TLS13],
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| TlsError::Setup { why: error.to_string() })?
            .dangerous();
        let builder = if tls.verify {
            let verified = match &tls.ca {
                Some(path) => trusted(path, provider)?,
                None => Verified::new(Vec::new(), webpki(self.system_roots()?, provider)?),
            };
            builder.with_custom_certificate_verifier(Arc::new(verified))
        } else {
            builder.with_custom_certificate_verifier(Arc::new(AcceptAny::new(&provider)))
        };
        let mut config = match &tls.client {
            None => builder.with_no_client_auth(),
            Some(client) => {
                let chain = certificates(&client.certificate)?;
                let key = PrivateKeyDer::from_pem_file(&client.key)
                    .map_err(|error| read_error("a private key", &client.key, error))?;
                builder.with_client_auth_cert(chain, key).map_err(|why| TlsError::Client {
                    certificate: client.certificate.clone(),
                    key: client.key.clone(),
                    why,
                })?
            }
        };
        config.alpn_protocols = tls.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        // Every run makes a full handshake: a resumed one would not see a bad certificate.
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    fn system_roots(&mut self) -> Result<Arc<RootCertStore>, TlsError> {
        if let Some(roots) = &self.system {
            return Ok(Arc::clone(roots));
        }
        let loaded = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        // Some of a distribution's roots may be malformed; the others serve all the same.
        let (added, _) = roots.add_parsable_certificates(loaded.certs);
        if added == 0 {
            let why = match loaded.errors.first() {
                Some(error) => error.to_string(),
                None => "there are none (is ca-certificates installed?)".to_owned(),
            };
            return Err(TlsError::System { why });
        }
        let roots = Arc::new(roots);
        self.system = Some(Arc::clone(&roots));
        Ok(roots)
    }
}

fn trusted(path: &Path, provider: Arc<CryptoProvider>) -> Result<Verified, TlsError> {
    let pinned = certificates(path)?;
    let mut roots = RootCertStore::empty();
    for certificate in &pinned {
        roots.add(certificate.clone()).map_err(|why| TlsError::Ca { path: path.to_owned(), why })?;
    }
    Ok(Verified::new(pinned, webpki(Arc::new(roots), provider)?))
}

fn webpki(
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
    WebPkiServerVerifier::builder_with_provider(roots, provider)
        .build()
        .map_err(|error| TlsError::Setup { why: error.to_string() })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |error| read_error("certificates", path, error);
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(failed)?;
    if found.is_empty() { Err(TlsError::Empty { path: path.to_owned() }) } else { Ok(found) }
}

fn read_error(what: &'static str, path: &Path, error: pem::Error) -> TlsError {
    let why = match error {
        pem::Error::Io(error) => explain(&error),
        other => other.to_string(),
    };
    TlsError::Read { what, path: path.to_owned(), why }
}
