//! What mends it that a file may not be read: who reads it, and the commands that let them. A mistake of this kind
//! is not one of the text, so that no other text would be better.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Group, Uid, User, getegid, geteuid};

/// What the packages make, for who is no service itself.
const SERVICE: &str = "lvsd";
/// People have these numbers, services those below.
const PEOPLE: std::ops::Range<u32> = 1000..65_000;

/// Why a file is of no use, and what mends that if it is not another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unusable {
    pub(super) why: String,
    pub(super) remedy: Option<String>,
}

impl From<String> for Unusable {
    fn from(why: String) -> Self {
        Self { why, remedy: None }
    }
}

impl From<&str> for Unusable {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

impl Unusable {
    pub(super) fn unread(path: &Path, error: &io::Error) -> Self {
        let denied = error.kind() == ErrorKind::PermissionDenied;
        Self { why: error.to_string(), remedy: denied.then(|| remedy(path)) }
    }
}

pub(super) fn remedy(path: &Path) -> String {
    let (user, group) = (user(geteuid()), group(geteuid(), getegid()));
    match closed_folder(path) {
        Some(folder) => format!(
            "lvsd reads it as the user \"{user}\", who may not enter {folder}: let the service enter it, chgrp {group} \
             {folder}; chmod g+x {folder}, or keep the file in /etc/lvsd",
            folder = folder.display(),
        ),
        None => format!(
            "lvsd reads it as the user \"{user}\": let the service read it, chgrp {group} {path}; chmod 640 {path}",
            path = path.display(),
        ),
    }
}

fn user(number: Uid) -> String {
    let found = User::from_uid(number).ok().flatten();
    found.map_or_else(|| number.to_string(), |user| user.name)
}

/// That of the process; but what people try by hand, the service must read.
fn group(user: Uid, own: Gid) -> String {
    let service = || Group::from_name(SERVICE).ok().flatten();
    let of_service = PEOPLE.contains(&user.as_raw()).then(service).flatten();
    let found = of_service.or_else(|| Group::from_gid(own).ok().flatten());
    found.map_or_else(|| own.to_string(), |group| group.name)
}

/// The first folder on the way that may not be entered.
fn closed_folder(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let mut folders: Vec<&Path> = path.ancestors().skip(1).collect();
    folders.reverse();
    let is_closed = |folder: &&&Path| {
        let inside = fs::metadata(folder.join("."));
        inside.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    };
    folders.iter().find(is_closed).map(|folder| folder.to_path_buf())
}
