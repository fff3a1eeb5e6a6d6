//! Files and programs that the configuration names, the user that may not use them, and users and groups that it
//! names itself.

use std::collections::BTreeSet;

use super::super::facts::{Bar, CAP_SETGID, CAP_SETUID, Purpose};
use super::super::{Lasting, facts::Barred};
use super::{Case, Finding, Level, servers, some};
use crate::engine::model::{Check, CheckKind, Mode, VirtualServer};

pub(super) fn examine(case: &Case<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = case.facts.barred.iter().map(|barred| finding(case, barred)).collect();
    found.extend(control_group(case));
    found.extend(other_users(case));
    found
}

/// What `lvsd check` warns of: mistakes of the file that only a host shows.
pub(super) fn examine_named(case: &Case<'_>) -> Vec<Finding> {
    let named = case.facts.barred.iter().filter(|barred| barred.purpose != Purpose::Configuration);
    let mut found: Vec<Finding> = named.map(|barred| finding(case, barred)).collect();
    found.extend(control_group(case));
    found
}

fn finding(case: &Case<'_>, barred: &Barred) -> Finding {
    let Barred { path, user, bar, purpose } = barred;
    let file = path.display();
    let (rule, does) = match purpose {
        Purpose::Configuration => ("unreadable", "read"),
        Purpose::Check | Purpose::Notification => ("program", "run"),
    };
    let found = match bar {
        Bar::Missing => format!("there is no program {file}"),
        Bar::NotAFile => format!("{file} is no program"),
        Bar::Closed { at } if at == path => format!("the user {user:?} may not {does} {file}"),
        Bar::Closed { at } => format!("the user {user:?} may not {does} {file}: {} is closed", at.display()),
    };
    let (concerned, decides) = match purpose {
        Purpose::Check => {
            let decides = |check: &Check| check.mode != Mode::Observe && is_of(case, barred, check);
            let any = |wanted: &dyn Fn(&Check) -> bool| {
                case.names(|pool| servers(pool).flat_map(|server| &server.checks).any(|check| wanted(check)))
            };
            (any(&|check| is_of(case, barred, check)), !any(&decides).is_empty())
        }
        Purpose::Configuration | Purpose::Notification => (Vec::new(), true),
    };
    let why = match purpose {
        Purpose::Configuration => {
            "a daemon that runs goes on with what it has read, but every reload is refused and the next start fails: \
             nobody checks any more then. By owner, group and mode; an ACL may say otherwise"
        }
        Purpose::Check if decides => "each run of its check is a failure, and takes its servers out",
        Purpose::Check => {
            "each run of its check is a failure, which says nothing of its servers (mode = \"observe\")"
        }
        Purpose::Notification => "nobody is told: the notification fails each time",
    };
    let finding =
        Finding::new(Level::Fault, rule, found, format!("ls -l {file}")).because(why).concerns(concerned);
    let Bar::Closed { at } = bar else { return finding };
    let group = &case.facts.privileges.group_name;
    let group = if group.is_empty() { "lvsd" } else { group };
    let at_file = at == path;
    match purpose {
        Purpose::Configuration if at_file => {
            finding.run(format!("chgrp {group} {file}")).run(format!("chmod 640 {file}"))
        }
        Purpose::Check | Purpose::Notification if at_file => finding.run(format!("chmod 755 {file}")),
        Purpose::Configuration | Purpose::Check | Purpose::Notification => finding
            .run(format!("namei -l {file}   # shows the folder that is closed; better keep it elsewhere")),
    }
}

/// Does this check run the program, and if it matters who does, as that user?
fn is_of(case: &Case<'_>, barred: &Barred, check: &Check) -> bool {
    let CheckKind::Script(script) = check.probe.kind.as_ref() else { return false };
    let user = script.user.as_ref().unwrap_or(&case.facts.privileges.user_name);
    let by_all = match barred.bar {
        Bar::Missing | Bar::NotAFile => true,
        Bar::Closed { .. } => *user == barred.user,
    };
    by_all && script.argv.program == barred.path
}

fn control_group(case: &Case<'_>) -> Option<Finding> {
    let group = case.facts.missing_group.as_ref()?;
    let why = "the control socket keeps the daemon's own group: those who should use it may not";
    let found = format!("there is no group {group:?}, which control_group names");
    let finding = Finding::new(Level::Fault, "control_group", found, format!("getent group {group}"));
    Some(finding.because(why).run(format!("groupadd --system {group}")))
}

/// A script that is to run as somebody else, by a daemon that cannot become anybody else.
fn other_users(case: &Case<'_>) -> Option<Finding> {
    let privileges = &case.facts.privileges;
    let own = &privileges.user_name;
    if own.is_empty() || privileges.has(CAP_SETUID) && privileges.has(CAP_SETGID) {
        return None;
    }
    let is_other = |user: &Option<String>| user.as_ref().is_some_and(|user| user != own);
    let checked = |pool: &VirtualServer| {
        let checks = servers(pool).flat_map(|server| &server.checks);
        checks.map(|check| check.probe.kind.as_ref()).any(|kind| match kind {
            CheckKind::Script(script) => is_other(&script.user),
            _ => false,
        })
    };
    let names = case.names(checked);
    let notify = &case.config.daemon.notify;
    let (told, mut users) = (is_other(&notify.script_user), BTreeSet::new());
    users.extend(notify.script_user.clone().filter(|_| told));
    for check in case.pools().flat_map(servers).flat_map(|server| &server.checks) {
        if let CheckKind::Script(script) = check.probe.kind.as_ref() {
            users.extend(script.user.clone().filter(|user| user != own));
        }
    }
    if users.is_empty() {
        return None;
    }
    let users: Vec<String> = users.into_iter().collect();
    let found = format!("the daemon runs as {own:?}, and cannot run scripts as {}", some(&users));
    let why = match (names.is_empty(), told) {
        (false, true) => "these checks never run, and leave their servers up; no notification is sent",
        (false, false) => "these checks never run, and leave their servers up",
        (true, _) => "no notification is sent",
    };
    let why = format!(
        "{why}. Leave `user` and script_user out, so that scripts run as {own:?}. Or let the daemon change users as \
         below: scripts without another user inherit that, and could become root"
    );
    let finding = Finding::new(Level::Fault, "script_user", found, super::host::holder(case).1);
    let mut finding =
        finding.because(why).concerns(names).run("systemctl daemon-reload && systemctl restart lvsd");
    let file = "/etc/systemd/system/lvsd.service.d/users.conf";
    let lines = [
        "[Service]",
        "CapabilityBoundingSet=CAP_SETUID CAP_SETGID",
        "AmbientCapabilities=CAP_SETUID CAP_SETGID",
        "SystemCallFilter=@setuid",
    ];
    finding.remedy.lasting.extend(lines.map(|line| Lasting { file, line: line.to_owned() }));
    Some(finding)
}
