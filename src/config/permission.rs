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
        Self::unread_by(geteuid(), path, error)
    }

    fn unread_by(user: Uid, path: &Path, error: &io::Error) -> Self {
        let is_service = !user.is_root() && !PEOPLE.contains(&user.as_raw());
        let remedy = match error.kind() {
            ErrorKind::PermissionDenied => Some(remedy(path)),
            // Others may see it: a folder of the service's own is in the place of theirs.
            ErrorKind::NotFound if is_service => {
                hidden(path).filter(|(_, how)| *how == Hides::Replaced).map(unseen)
            }
            _ => None,
        };
        Self { why: error.to_string(), remedy }
    }
}

pub(super) fn remedy(path: &Path) -> String {
    if let Some(hidden) = hidden(path) {
        return unseen(hidden);
    }
    let (user, group) = (user(geteuid()), group(geteuid(), getegid()));
    match closed_folder(path) {
        // No door for a service.
        Some(folder) if folder == Path::new("/") => format!(
            "lvsd reads it as the user \"{user}\", who may not enter {folder}, as every other program must: ls -ld \
             {folder}",
            folder = folder.display(),
        ),
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

/// How the unit keeps the service from a folder, whatever owner and mode say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hides {
    /// ProtectHome=
    Closed,
    /// PrivateTmp=: there is another one in its place.
    Replaced,
}

/// Folders of people, and of everybody: to let a service in would open what is others'.
const HIDDEN: [(&str, Hides); 5] = [
    ("/root", Hides::Closed),
    ("/home", Hides::Closed),
    ("/run/user", Hides::Closed),
    ("/tmp", Hides::Replaced),
    ("/var/tmp", Hides::Replaced),
];

fn hidden(path: &Path) -> Option<(&'static str, Hides)> {
    let path = std::path::absolute(path).ok()?;
    HIDDEN.into_iter().find(|(folder, _)| path.starts_with(folder))
}

fn unseen((folder, how): (&'static str, Hides)) -> String {
    match how {
        Hides::Closed => {
            format!("the service does not see {folder} (ProtectHome=): keep the file in /etc/lvsd")
        }
        Hides::Replaced => {
            format!("the service has a {folder} of its own (PrivateTmp=): keep the file in /etc/lvsd")
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing that would open a folder of people, or of everybody, to a service that does not see it anyway.
    #[test]
    fn folders_that_the_service_does_not_see_are_not_to_be_opened() {
        for (path, folder, setting) in [
            ("/root/client.key", "/root", "ProtectHome="),
            ("/home/client.key", "/home", "ProtectHome="),
            ("/run/user/1000/client.key", "/run/user", "ProtectHome="),
            ("/tmp/client.key", "/tmp", "PrivateTmp="),
            ("/var/tmp/keys/client.key", "/var/tmp", "PrivateTmp="),
        ] {
            let denied = Unusable::unread(Path::new(path), &ErrorKind::PermissionDenied.into());
            let said = denied.remedy.expect("one");
            assert!(said.contains(&format!(" {folder} ")) && said.contains(setting), "{said}");
            assert!(
                said.contains("/etc/lvsd") && !said.contains("chgrp") && !said.contains("chmod"),
                "{said}"
            );
            // What is not there in a /tmp of its own, an administrator sees in the other one.
            let missing =
                |user| Unusable::unread_by(Uid::from_raw(user), Path::new(path), &ErrorKind::NotFound.into());
            assert_eq!(missing(999).remedy, (setting == "PrivateTmp=").then_some(said), "{path}");
            assert_eq!((missing(0).remedy, missing(1000).remedy), (None, None), "{path}");
        }
        for path in
            ["/etc/lvsd/client.key", "/rootless/client.key", "/srv/tmp/client.key", "/homes/client.key"]
        {
            let denied = Unusable::unread(Path::new(path), &ErrorKind::PermissionDenied.into());
            let said = denied.remedy.expect("one");
            assert!(said.contains(&format!("chmod 640 {path}")), "{said}");
            let missing =
                Unusable::unread_by(Uid::from_raw(999), Path::new(path), &ErrorKind::NotFound.into());
            assert_eq!(missing.remedy, None, "{path}");
        }
    }
}
