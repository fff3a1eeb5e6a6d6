//! `[daemon]` with its defaults.

use std::path::PathBuf;

use crate::config::context::Context;
use crate::config::defaults;
use crate::config::diagnostics::Finding;
use crate::config::raw;
use crate::engine::model::{
    ControlAccess, Daemon, Drift, Notify, OnStop, SelfTest, Sync, SyncRole, Timeouts,
};

pub(super) fn lower(cx: &mut Context<'_>, raw: &raw::Daemon) -> Daemon {
    Daemon {
        name: raw.name.value(),
        control_socket: raw.control_socket.value_or(PathBuf::from(defaults::CONTROL_SOCKET)),
        control: ControlAccess { group: raw.control_group.value(), mode: lower_mode(cx, raw) },
        max_removed: raw.max_removed.value(),
        max_down_rate: raw.max_down_rate.value(),
        state_file: raw.state_file.value_or(PathBuf::from(defaults::STATE_FILE)),
        http: raw.http.value(),
        on_stop: raw.on_stop.value_or(OnStop::Withdraw),
        drift: raw.drift.value_or(Drift::Repair),
        drift_interval: raw.drift_interval.value_or(defaults::DRIFT_INTERVAL),
        log: raw.log.value_or(defaults::LOG.to_owned()),
        timeouts: Timeouts {
            tcp: raw.timeouts.tcp.value(),
            tcp_fin: raw.timeouts.tcp_fin.value(),
            udp: raw.timeouts.udp.value(),
        },
        sync: raw.sync.get().and_then(|sync| lower_sync(cx, &sync.value)),
        notify: lower_notify(cx, raw),
        self_test: lower_self_test(cx, &raw.self_test),
    }
}

fn lower_self_test(cx: &mut Context<'_>, raw: &raw::SelfTest) -> SelfTest {
    let canary = raw.canary.value_or(Vec::new());
    let pace = raw.canary_interval.get().or(raw.canary_timeout.get());
    if let (true, Some(pace)) = (raw.canary.is_unset(), pace) {
        let finding = Finding::warning(pace.place, "there is no canary to ask");
        cx.push(finding.remedy("write canary = [\"192.0.2.1:22\"], or leave this out"));
    }
    SelfTest {
        max_lateness: raw.max_lateness.value_or(Some(defaults::MAX_LATENESS)),
        local_errors: raw.local_errors.value_or(Some(defaults::LOCAL_ERRORS)),
        canary,
        canary_interval: raw.canary_interval.value_or(defaults::CANARY_INTERVAL),
        canary_timeout: raw.canary_timeout.value_or(defaults::CANARY_TIMEOUT),
    }
}

fn lower_notify(cx: &mut Context<'_>, daemon: &raw::Daemon) -> Notify {
    let raw = &daemon.notify;
    Notify {
        fifo: lower_fifo(cx, daemon),
        script: raw.script.value(),
        script_user: raw.script_user.value(),
        script_timeout: raw.script_timeout.value_or(defaults::SCRIPT_TIMEOUT),
        start: raw.start.value(),
        mail: raw.mail.value(),
        webhooks: raw.webhook.value_or(Vec::new()),
        stop: raw.stop.value(),
    }
}

/// A path of its own: whatever has the name of the FIFO must be one.
fn lower_fifo(cx: &mut Context<'_>, daemon: &raw::Daemon) -> Option<PathBuf> {
    let fifo = daemon.notify.fifo.get()?;
    let others = [
        ("control_socket", daemon.control_socket.value_or(PathBuf::from(defaults::CONTROL_SOCKET))),
        ("state_file", daemon.state_file.value_or(PathBuf::from(defaults::STATE_FILE))),
    ];
    if let Some((other, _)) = others.iter().find(|(_, path)| *path == fifo.value) {
        let finding = Finding::error(fifo.place, format!("`fifo` is also the path of `{other}`"));
        cx.push(finding.remedy("write a path of its own, as in \"/run/lvsd/events\""));
    }
    Some(fifo.value.clone())
}

/// Whoever may write to the socket may give orders.
fn lower_mode(cx: &mut Context<'_>, raw: &raw::Daemon) -> u32 {
    const OTHERS: u32 = 0o002;
    let Some(mode) = raw.control_mode.get() else { return ControlAccess::default().mode };
    if mode.value & OTHERS != 0 {
        let message = "`control_mode` lets every user of this host drain servers and reload";
        let remedy = "write \"0660\", and the group of the operators as control_group";
        cx.push(Finding::warning(mode.place, message).remedy(remedy));
    }
    mode.value
}

fn lower_sync(cx: &mut Context<'_>, raw: &raw::Sync) -> Option<Sync> {
    if raw.interface.is_unset() {
        let finding = Finding::error(raw.place, "the sync daemon needs an interface");
        cx.push(finding.remedy("write interface = \"eth0\", the device that reaches the other director"));
    }
    Some(Sync {
        role: raw.state.value_or(SyncRole::Both),
        interface: raw.interface.value()?,
        id: raw.id.value_or(0),
        max_length: raw.max_length.value(),
        group: raw.group.value(),
        port: raw.port.value(),
        ttl: raw.ttl.value(),
    })
}
