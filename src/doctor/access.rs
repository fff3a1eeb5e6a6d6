//! What a user may read and run, by owner, group and mode of a file and of the folders before it. An access
//! list (ACL) is not looked at: the findings say so.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::facts::{Bar, Barred, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, Holder, Privileges, Purpose};
use super::reading::Host;
use crate::engine::model::{CheckKind, Config};

const READ: u32 = 0o4;
const RUN: u32 = 0o1;

/// Whose access is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    user: u32,
    groups: BTreeSet<u32>,
    reads_all: bool,
    overrides: bool,
}

/// Of what the configuration consists of and names, what the daemon could not use.
pub(super) fn barred(
    host: &Host<'_>,
    privileges: &Privileges,
    config: &Config,
    files: &BTreeSet<PathBuf>,
) -> Vec<Barred> {
    let Some(user) = privileges.user else { return Vec::new() };
    let daemon = Identity {
        user,
        groups: privileges.groups.clone(),
        reads_all: privileges.has(CAP_DAC_OVERRIDE) || privileges.has(CAP_DAC_READ_SEARCH),
        overrides: privileges.has(CAP_DAC_OVERRIDE),
    };
    let mut found = Vec::new();
    // Who asks has read them.
    if privileges.holder != Holder::Caller {
        for path in files {
            // What is missing, loading has complained of.
            if let Some(bar) = daemon.bar(host, path, READ).filter(|bar| *bar != Bar::Missing) {
                let user = privileges.user_name.clone();
                found.push(Barred { path: path.clone(), user, bar, purpose: Purpose::Configuration });
            }
        }
    }
    for (path, user, purpose) in programs(config) {
        let other = user.filter(|user| *user != privileges.user_name);
        let identity = match other.map(|name| of_name(host, name)) {
            None => Some(daemon.clone()),
            Some(identity) => identity,
        };
        let Some(bar) = identity.and_then(|identity| identity.bar(host, &path, RUN)) else { continue };
        let user = other.unwrap_or(&privileges.user_name).to_owned();
        let barred = Barred { path, user, bar, purpose };
        if !found.iter().any(|known| says_the_same(known, &barred)) {
            found.push(barred);
        }
    }
    found
}

/// What is not there is so for every user.
fn says_the_same(one: &Barred, other: &Barred) -> bool {
    let of_all = match other.bar {
        Bar::Missing | Bar::NotAFile => true,
        Bar::Closed { .. } => one.user == other.user,
    };
    of_all && (&one.path, &one.bar, one.purpose) == (&other.path, &other.bar, other.purpose)
}

/// Each once, with the user that it runs as.
fn programs(config: &Config) -> BTreeSet<(PathBuf, Option<&str>, Purpose)> {
    let notify = &config.daemon.notify;
    let mut told: Vec<_> = [&notify.script, &notify.start, &notify.stop].into_iter().flatten().collect();
    let mut found = BTreeSet::new();
    for pool in &config.virtual_servers {
        told.extend([&pool.quorum_up, &pool.quorum_down].into_iter().flatten());
        for server in &pool.real_servers {
            told.extend([&server.notify_up, &server.notify_down].into_iter().flatten().map(AsRef::as_ref));
            for check in &server.checks {
                if let CheckKind::Script(script) = check.probe.kind.as_ref() {
                    found.insert((script.argv.program.clone(), script.user.as_deref(), Purpose::Check));
                }
            }
        }
    }
    let user = notify.script_user.as_deref();
    found.extend(told.into_iter().map(|argv| (argv.program.clone(), user, Purpose::Notification)));
    found
}

/// `None` where this host's own files do not know the name: a name service may.
fn of_name(host: &Host<'_>, name: &str) -> Option<Identity> {
    let (user, group) = account(host, name)?;
    let groups = groups(host, name).chain([group]).collect();
    Some(Identity { user, groups, reads_all: user == 0, overrides: user == 0 })
}

/// The numbers of a user and of its first group.
pub(super) fn account(host: &Host<'_>, name: &str) -> Option<(u32, u32)> {
    let passwd = host.text("etc/passwd");
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let of = |at: usize| fields.get(at)?.parse().ok();
        (*fields.first()? == name || *fields.get(2)? == name).then(|| Some((of(2)?, of(3)?))).flatten()
    })
}

pub(super) fn user_name(host: &Host<'_>, number: u32) -> Option<String> {
    name_of(&host.text("etc/passwd"), number)
}

pub(super) fn group_name(host: &Host<'_>, number: u32) -> Option<String> {
    name_of(&host.text("etc/group"), number)
}

/// Both files have the name first and the number third.
fn name_of(file: &str, number: u32) -> Option<String> {
    let number = number.to_string();
    let mut fields = file.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = fields.find(|fields| fields.get(2) == Some(&number.as_str()))?;
    found.first().map(|&name| name.to_owned())
}

/// That name the user among their members.
pub(super) fn groups(host: &Host<'_>, user: &str) -> impl Iterator<Item = u32> {
    let number = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_member = fields.get(3)?.split(',').any(|member| member == user);
        is_member.then(|| fields.get(2)?.parse().ok()).flatten()
    };
    host.text("etc/group").lines().filter_map(number).collect::<Vec<u32>>().into_iter()
}

pub(super) fn group_number(host: &Host<'_>, group: &str) -> Option<u32> {
    let number = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        (*fields.first()? == group || *fields.get(2)? == group).then(|| fields.get(2)?.parse().ok()).flatten()
    };
    host.text("etc/group").lines().find_map(number)
}

impl Identity {
    fn bar(&self, host: &Host<'_>, path: &Path, wanted: u32) -> Option<Bar> {
        let closed = |at: &Path| Some(Bar::Closed { at: at.to_owned() });
        let real = match fs::canonicalize(host.path(path)) {
            Ok(real) => real,
            Err(error) if error.kind() == ErrorKind::NotFound => return Some(Bar::Missing),
            // Who asks may not look either.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return closed(path),
            Err(_) => return None,
        };
        let root = fs::canonicalize(host.path("/")).ok()?;
        let inside = real.strip_prefix(&root).ok()?;
        let (mut whole, mut shown) = (root, PathBuf::from("/"));
        for part in inside.components() {
            whole.push(part);
            shown.push(part);
            let found = fs::metadata(&whole).ok()?;
            let is_last = whole == real;
            if is_last && !found.is_file() {
                return (wanted == RUN).then_some(Bar::NotAFile);
            }
            if !self.may(&found, if is_last { wanted } else { RUN }) {
                return closed(&shown);
            }
        }
        None
    }

    fn may(&self, found: &Metadata, wanted: u32) -> bool {
        let mode = found.mode();
        // Nobody runs a file that is nobody's to run.
        let all = match wanted {
            READ => self.reads_all,
            _ if found.is_dir() => self.reads_all,
            _ => self.overrides && mode & 0o111 != 0,
        };
        let class = if found.uid() == self.user {
            mode >> 6
        } else if self.groups.contains(&found.gid()) {
            mode >> 3
        } else {
            mode
        };
        all || class & wanted != 0
    }
}
