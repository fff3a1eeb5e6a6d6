//! What can be made once for all runs of a check: patterns, requests, TLS settings.
//!
//! Reads certificate files; must not be called where a slow disk would hold up checks.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use regex::bytes::{Regex, RegexBuilder};

use super::script::Scripts;
use super::{dns, file, grpc, http, ping, script, smtp, tcp, tls, udp};
use crate::engine::model::{CheckKind, Pattern, Tls};

/// Why a check cannot be run at all. The text is whole: there is no chain of sources to print.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    #[error("use \"{name}\" as the name of the server in TLS: it is neither a host name nor an address")]
    Name { name: String },
    #[error("use \"{name}\" as a name in DNS: {why}")]
    DnsName { name: String, why: String },
    #[error("compile the pattern \"{pattern}\": {why}")]
    Pattern { pattern: String, why: regex::Error },
}

/// A check made ready, shared by all targets that it is run against.
pub struct Prepared {
    plan: Plan,
}

#[derive(Debug)]
pub(super) enum Plan {
    Tcp(tcp::Plan),
    Http(http::Plan),
    Smtp(smtp::Plan),
    Grpc(grpc::Plan),
    Dns(dns::Plan),
    Udp(udp::Plan),
    Ping(ping::Plan),
    Script(script::Plan),
    File(file::Plan),
}

impl Prepared {
    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.plan {
            Plan::Tcp(_) => "Prepared(tcp)",
            Plan::Http(_) => "Prepared(http)",
            Plan::Smtp(_) => "Prepared(smtp)",
            Plan::Grpc(_) => "Prepared(grpc)",
            Plan::Dns(_) => "Prepared(dns)",
            Plan::Udp(_) => "Prepared(udp)",
            Plan::Ping(_) => "Prepared(ping)",
            Plan::Script(_) => "Prepared(script)",
            Plan::File(_) => "Prepared(file)",
        })
    }
}

/// Prepares the checks of one configuration; equal ones once. A new one per load, so that
/// certificates renewed on disk are read again.
#[derive(Debug, Default)]
pub struct Preparer {
    // A mutex: called from whatever thread loads the configuration, never across an await.
    state: Mutex<State>,
    scripts: Scripts,
}

#[derive(Debug, Default)]
struct State {
    prepared: HashMap<Arc<CheckKind>, Arc<Prepared>>,
    input: Input,
}

impl Preparer {
    pub fn new() -> Self {
        Self::default()
    }

    /// Its scripts are of the same number as those of earlier configurations.
    pub fn with_scripts(scripts: Scripts) -> Self {
        Self { scripts, ..Self::default() }
    }

    /// Blocks on reading files the first time that a TLS setting is seen.
    pub fn prepare(&self, kind: &Arc<CheckKind>) -> Result<Arc<Prepared>, PrepareError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = state.prepared.get(kind) {
            return Ok(Arc::clone(prepared));
        }
        let plan = match kind.as_ref() {
            CheckKind::Tcp(tcp) => Plan::Tcp(tcp::Plan::new(tcp, &mut state.input)?),
            CheckKind::Http(http) => Plan::Http(http::Plan::new(http, &mut state.input)?),
            CheckKind::Smtp(smtp) => Plan::Smtp(smtp::Plan::new(smtp, &mut state.input)?),
            CheckKind::Grpc(grpc) => Plan::Grpc(grpc::Plan::new(grpc, &mut state.input)?),
            CheckKind::Dns(dns) => Plan::Dns(dns::Plan::new(dns)?),
            CheckKind::Udp(udp) => Plan::Udp(udp::Plan::new(udp)?),
            CheckKind::Ping(ping) => Plan::Ping(ping::Plan::new(ping)),
            CheckKind::Script(script) => Plan::Script(script::Plan::new(script, &self.scripts)),
            CheckKind::File(file) => Plan::File(file::Plan::new(file)),
        };
        let prepared = Arc::new(Prepared { plan });
        state.prepared.insert(Arc::clone(kind), Arc::clone(&prepared));
        Ok(prepared)
    }
}

/// What plans are made from, beside the configuration.
#[derive(Debug, Default)]
pub(super) struct Input {
    tls: tls::Settings,
}

impl Input {
    pub(super) fn client(&mut self, setting: &Tls) -> Result<tls::Client, PrepareError> {
        Ok(self.tls.client(setting)?)
    }
}

/// The name to ask for and to verify: the setting's own, else the virtual host's; `None` for
/// the target's address.
pub(super) fn tls_name(setting: &Tls, virtual_host: Option<&str>) -> Result<Option<tls::Name>, PrepareError> {
    if let Some(name) = &setting.server_name {
        return tls::Name::parse(name).map(Some).ok_or_else(|| PrepareError::Name { name: name.clone() });
    }
    let Some(name) = virtual_host else { return Ok(None) };
    match tls::Name::parse(name) {
        // A Host header may be anything; only verification cannot do without a name.
        None if setting.verify => Err(PrepareError::Name { name: name.to_owned() }),
        parsed => Ok(parsed),
    }
}

pub(super) fn compile(pattern: &Pattern) -> Result<Regex, PrepareError> {
    RegexBuilder::new(pattern.as_str())
        .size_limit(Pattern::SIZE_LIMIT)
        .build()
        .map_err(|why| PrepareError::Pattern { pattern: pattern.as_str().to_owned(), why })
}
