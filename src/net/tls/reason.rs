//! Words for what a TLS connection failed of.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

use crate::net::{date, uncapitalised};

/// Why a handshake failed if TLS is it, or if there was none; `None` for errors of the socket below.
pub(crate) fn explain_handshake(error: &io::Error) -> Option<String> {
    if inner(error).is_none() && error.kind() == io::ErrorKind::UnexpectedEof {
        return Some("connection closed during the handshake".to_owned());
    }
    explain(error)
}

/// The reason if TLS is it; `None` for errors of the socket below.
pub(crate) fn explain(error: &io::Error) -> Option<String> {
    inner(error).map(words)
}

fn inner(error: &io::Error) -> Option<&Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

fn words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => certificate(error),
        Error::AlertReceived(alert) => format!("the server refused: alert {}", alert_name(*alert)),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => "the reply is not TLS".to_owned(),
        Error::PeerIncompatible(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig) => {
            "the server's TLS version is lower than min_version".to_owned()
        }
        other => uncapitalised(&other.to_string()),
    }
}

fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("certificate expired on {}", date(not_after.as_secs()))
        }
        CertificateError::Expired => "certificate expired".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("certificate is not valid before {}", date(not_before.as_secs()))
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let mut reason = format!("certificate is not valid for name \"{}\"", expected.to_str());
            if !presented.is_empty() {
                reason.push_str(&format!(" (valid for {})", names(presented)));
            }
            reason
        }
        CertificateError::UnknownIssuer => "certificate has an unknown issuer".to_owned(),
        CertificateError::BadEncoding => "certificate cannot be read".to_owned(),
        CertificateError::Other(other) if super::verifier::is_authority(other) => {
            "certificate is one of an authority, self-signed perhaps, and does not stand in ca".to_owned()
        }
        CertificateError::Other(other) => {
            format!("certificate is not acceptable: {}", spaced(&other.to_string()))
        }
        other => format!("certificate is not acceptable: {other}"),
    }
}

/// At most four, for a certificate can carry hundreds.
fn names(presented: &[String]) -> String {
    let mut text = presented.iter().take(4).map(|name| plain(name)).collect::<Vec<_>>().join(", ");
    if presented.len() > 4 {
        text.push_str(&format!(" and {} more", presented.len() - 4));
    }
    text
}

/// webpki's `DnsName("a.example")` and `IpAddress(192.0.2.1)`, as an operator would write them.
fn plain(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"')
}

/// `HandshakeFailure` → `handshake failure`
fn alert_name(alert: AlertDescription) -> String {
    spaced(&format!("{alert:?}"))
}

fn spaced(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 8);
    for (i, c) in name.chars().enumerate() {
        if c.is_ascii_uppercase() && i > 0 && !text.ends_with(' ') {
            text.push(' ');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}
