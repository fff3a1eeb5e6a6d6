//! What stood in the PEM files of the checks when they were read: the configuration names the files and stays the
//! same when one of them is replaced, which a reload must say all the same. Decides nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::config;
use crate::engine::model::{
    Check, CheckKind, ClientCertificate, Config, RealServer, SmtpTls, Tls, VirtualServer,
};

/// A digest of each file; `None` of one that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PemFiles(BTreeMap<PathBuf, Option<[u8; 32]>>);

impl PemFiles {
    /// Reads them: a disk may keep the caller waiting.
    pub(super) fn read(config: &Config) -> Self {
        let mut files = BTreeMap::new();
        for path in checks(config).flat_map(|(_, _, check)| named(check)) {
            if !files.contains_key(path) {
                let digest = config::read_pem(path).ok().map(|bytes| Sha256::digest(&bytes).into());
                files.insert(path.to_owned(), digest);
            }
        }
        Self(files)
    }

    /// A line for each file that is not what it was `before`, with the checks of `config` that it is read anew for.
    pub(super) fn renewed(&self, before: &Self, config: &Config) -> Vec<String> {
        let is_new = |(path, digest): &(&PathBuf, _)| before.0.get(*path).is_some_and(|old| old != *digest);
        let renewed = self.0.iter().filter(is_new).map(|(path, _)| {
            let mut users = checks(config).filter(|(_, _, check)| named(check).any(|named| named == path));
            let first = users.next().map(|(pool, server, check)| {
                format!("{} check of {} in {}", check.probe.kind.name(), server.id, pool.name)
            });
            let more = match users.count() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "{} has changed and is read anew, for the {}{more}",
                path.display(),
                first.unwrap_or_default()
            )
        });
        renewed.collect()
    }
}

/// Those that use TLS.
fn checks(config: &Config) -> impl Iterator<Item = (&VirtualServer, &RealServer, &Check)> {
    config.virtual_servers.iter().flat_map(|pool| {
        pool.real_servers.iter().flat_map(move |server| {
            let checks = server.checks.iter().filter(|check| tls(check).is_some());
            checks.map(move |check| (&**pool, &**server, &**check))
        })
    })
}

fn tls(check: &Check) -> Option<&Tls> {
    match &*check.probe.kind {
        CheckKind::Tcp(tcp) => tcp.tls.as_ref(),
        CheckKind::Http(http) => http.tls.as_ref(),
        CheckKind::Grpc(grpc) => grpc.tls.as_ref(),
        CheckKind::Smtp(smtp) => match smtp.tls.as_ref()? {
            SmtpTls::Implicit(tls) | SmtpTls::StartTls(tls) => Some(tls),
        },
        CheckKind::Dns(_)
        | CheckKind::Udp(_)
        | CheckKind::Ping(_)
        | CheckKind::Script(_)
        | CheckKind::File(_) => None,
    }
}

/// The files that a check names.
fn named(check: &Check) -> impl Iterator<Item = &Path> {
    let tls = tls(check);
    let client = tls.and_then(|tls| tls.client.as_ref());
    let client = client.into_iter().flat_map(|ClientCertificate { certificate, key }| [certificate, key]);
    tls.and_then(|tls| tls.ca.as_ref()).into_iter().chain(client).map(PathBuf::as_path)
}
