//! One check of one real server: its target, its timing, and a kind that is shared.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::Lowering;
use super::pool::Outer;
use crate::config::context::{At, Context};
use crate::config::defaults;
use crate::config::diagnostics::{Finding, Place};
use crate::config::raw::{self, CommonOptions};
use crate::engine::model::{
    Check, CheckKind, Family, Few, Mode, OnLocalError, Probe, RealServerId, Source, Target, Timing,
};

/// Whom the check is for, and what stands around it.
pub(super) struct Server<'x> {
    pub(super) id: &'x At<RealServerId>,
    /// The server's options with those further out.
    pub(super) common: &'x CommonOptions,
    pub(super) host: Option<&'x str>,
    pub(super) outer: &'x Outer<'x>,
}

pub(super) fn lower_all(
    cx: &mut Context<'_>,
    all: &mut Lowering<'_>,
    server: &Server<'_>,
    refs: &[At<&raw::Check>],
) -> Few<Arc<Check>> {
    let mut checks = Few::with_capacity(refs.len());
    let mut places: HashMap<Probe, Place> = HashMap::new();
    for reference in refs {
        let Some(check) = lower(cx, all, server, reference.value) else { continue };
        // The probe is what a check is known by across a reload.
        let first = if refs.len() > 1 { places.insert(check.probe.clone(), reference.place) } else { None };
        if let Some(first) = first {
            let finding = Finding::error(reference.place, "the same check of the same target is there twice");
            cx.push(finding.label(first, "first here").remedy("keep one of the two"));
        }
        checks.push(check);
    }
    checks
}

fn lower(
    cx: &mut Context<'_>,
    all: &mut Lowering<'_>,
    server: &Server<'_>,
    raw: &raw::Check,
) -> Option<Arc<Check>> {
    let common = raw.common.or(server.common);
    let kind = with_host(cx, all, raw.kind.as_ref()?, server.host);
    let port = port(cx, server, &common, &kind)?;
    let address = common.connect_ip.clone().sound()?.unwrap_or(server.id.value.address);
    judge_source(cx, server, &common, address);
    let source = Source {
        ip: common.bind_ip.clone().sound()?,
        port: common.bind_port.clone().sound()?,
        interface: common.bind_if.clone().sound()?,
        // 0 is what a socket has anyway.
        fwmark: raw.fwmark.clone().sound()?.filter(|mark| *mark != 0),
    };
    let target = Target {
        address,
        port,
        source: Some(source).filter(|source| *source != Source::default()).map(Arc::new),
    };
    Some(Arc::new(Check {
        probe: Probe { target, kind },
        timing: shared_timing(all, &common),
        alpha: common.alpha.value_or(false),
        mode: common.mode.value_or(Mode::Enforce),
        on_local_error: common.on_local_error.value_or(OnLocalError::Ignore),
    }))
}

fn shared_timing(all: &mut Lowering<'_>, common: &CommonOptions) -> Arc<Timing> {
    let timing = timing(common);
    match all.timings.get(&timing) {
        Some(known) => Arc::clone(known),
        None => {
            let new = Arc::new(timing);
            all.timings.insert(Arc::clone(&new));
            new
        }
    }
}

fn timing(common: &CommonOptions) -> Timing {
    let delay_loop = common.delay_loop.value_or(defaults::DELAY_LOOP);
    Timing {
        delay_loop,
        timeout: common.timeout.value_or(defaults::TIMEOUT),
        retry: common.retry.value_or(defaults::RETRY),
        delay_before_retry: common.delay_before_retry.value_or(defaults::DELAY_BEFORE_RETRY),
        rise: common.rise.value_or(defaults::RISE),
        warmup: common.warmup.value_or(delay_loop.min(defaults::WARMUP)),
    }
}

/// The virtual host of the server, where the check names none.
fn with_host(
    cx: &mut Context<'_>,
    all: &mut Lowering<'_>,
    kind: &Arc<CheckKind>,
    host: Option<&str>,
) -> Arc<CheckKind> {
    match (&**kind, host) {
        (CheckKind::Http(http), Some(host)) if http.virtualhost.is_none() => {
            let key = (Arc::as_ptr(kind).addr(), host.to_owned());
            let filled = all.with_host.entry(key).or_insert_with(|| {
                let mut http = http.clone();
                http.virtualhost = Some(host.to_owned());
                cx.intern(CheckKind::Http(http))
            });
            Arc::clone(filled)
        }
        (
            CheckKind::Http(_)
            | CheckKind::Tcp(_)
            | CheckKind::Dns(_)
            | CheckKind::Smtp(_)
            | CheckKind::Udp(_)
            | CheckKind::Ping(_)
            | CheckKind::Script(_)
            | CheckKind::File(_)
            | CheckKind::Grpc(_),
            _,
        ) => Arc::clone(kind),
    }
}

/// `None`: there is none, which is reported.
fn port(cx: &mut Context<'_>, server: &Server<'_>, common: &CommonOptions, kind: &CheckKind) -> Option<u16> {
    let id = server.id.value;
    let port = common.connect_port.clone().sound()?.or(id.port).or(server.outer.services.first_port);
    if matches!(kind, CheckKind::Script(_)) {
        // In its environment, if there is one.
        return Some(port.unwrap_or(0));
    }
    if !kind.needs_port() {
        return Some(0);
    }
    if port.is_none() && server.outer.services.complete {
        let message = format!("the {} check of {id} has no port to connect to", kind.name());
        let finding = Finding::error(server.id.place, message);
        cx.push(finding.remedy("write connect_port = 80, or the server's address with a port"));
    }
    port
}

/// A socket has one family.
fn judge_source(cx: &mut Context<'_>, server: &Server<'_>, common: &CommonOptions, target: IpAddr) {
    let Some(bind_ip) = common.bind_ip.get() else { return };
    let (source, wanted) = (Family::of(bind_ip.value), Family::of(target));
    if source != wanted {
        let message = format!("the source address {} is {source}, but a target is {wanted}", bind_ip.value);
        let place = common.connect_ip.place().unwrap_or(server.id.place);
        let finding = Finding::error(bind_ip.place, message).label(place, "the target");
        cx.push(finding.remedy(format!("write an {wanted} address of this host")));
    }
}
