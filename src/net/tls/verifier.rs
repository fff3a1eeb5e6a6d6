//! Who is believed to be the server that was asked for.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// The rules of webpki, and one more: a server's own certificate may stand in `ca`.
#[derive(Debug)]
pub(super) struct Verified {
    pinned: Vec<CertificateDer<'static>>,
    webpki: Arc<WebPkiServerVerifier>,
}

impl Verified {
    pub(super) fn new(pinned: Vec<CertificateDer<'static>>, webpki: Arc<WebPkiServerVerifier>) -> Self {
        Self { pinned, webpki }
    }
}

impl ServerCertVerifier for Verified {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let result =
            self.webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match result {
            // `openssl req -x509` makes self-signed certificates that are also those of an
            // authority. webpki refuses these from a server, after it has checked their dates.
            Err(Error::InvalidCertificate(CertificateError::Other(other)))
                if is_authority(&other) && self.pinned.iter().any(|pinned| pinned == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

/// The certificate is one that may issue others.
pub(super) fn is_authority(error: &rustls::OtherError) -> bool {
    // rustls does not say it otherwise, and webpki's own type is not ours to depend on.
    error.to_string() == "CaUsedAsEndEntity"
}

/// `verify = false`: whatever the server shows, expired, self-signed, of X.509 version 1 or with
/// a short key. The handshake's signature is not checked either, for it could not be with
/// certificates that webpki cannot read.
#[derive(Debug)]
pub(super) struct AcceptAny(Vec<SignatureScheme>);

impl AcceptAny {
    pub(super) fn new(provider: &CryptoProvider) -> Self {
        let mut schemes = provider.signature_verification_algorithms.supported_schemes();
        // What ring cannot verify need not be verified: let old servers sign as they can.
        for scheme in [
            SignatureScheme::ECDSA_NISTP521_SHA512,
            SignatureScheme::ED448,
            SignatureScheme::RSA_PKCS1_SHA1,
            SignatureScheme::ECDSA_SHA1_Legacy,
        ] {
            if !schemes.contains(&scheme) {
                schemes.push(scheme);
            }
        }
        Self(schemes)
    }
}

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}
