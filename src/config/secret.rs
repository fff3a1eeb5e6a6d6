//! Files that hold one secret: are they there, and closed to others? What they hold is read when it is
//! needed, and never kept here.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::context::{Context, Value};
use super::diagnostics::Finding;
use super::pem;
use super::permission::Unusable;
use super::text::Wrong;
use super::value;

/// What is wrong with such a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It can never be used.
    Useless(String),
    /// Another user may well be able to read it: this need not be the daemon.
    Closed(Unusable),
    /// Everybody on this machine can read it.
    Open,
}

/// Looks at a file; the loader's way to it, so that tests can do without.
pub(super) type Judge<'a> = &'a dyn Fn(&Path) -> Result<(), Flaw>;

pub(super) fn judge(path: &Path) -> Result<(), Flaw> {
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(Flaw::Closed(Unusable::unread(path, &error)));
        }
        Err(error) => return Err(Flaw::Useless(error.to_string())),
    };
    if !found.is_file() {
        return Err(Flaw::Useless("it is not a regular file".to_owned()));
    }
    let bytes = match pem::read_file(path) {
        Ok(bytes) => bytes,
        Err(why) => return Err(Flaw::Closed(why)),
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| Flaw::Useless("it is no text".to_owned()))?;
    let line = text.trim_end_matches(['\r', '\n']);
    if line.is_empty() || line.contains(char::is_control) {
        return Err(Flaw::Useless("it does not hold one line".to_owned()));
    }
    if found.mode() & 0o004 != 0 { Err(Flaw::Open) } else { Ok(()) }
}

/// The path of a file that holds a secret in its only line.
pub(super) fn file(cx: &mut Context<'_>, value: Value<'_>) -> Option<PathBuf> {
    let text = value::line(cx, value)?;
    let path = cx.resolve(&text, value.place);
    let shown = cx.shown(&text, value.place);
    match (cx.doors().secrets)(&path) {
        Ok(()) => {}
        Err(Flaw::Useless(why)) => {
            let why = Wrong::new(format!("{shown}: {why}"));
            return value::wrong(cx, value, why.remedy("name a file with the secret in its only line"));
        }
        Err(Flaw::Closed(why)) => {
            let finding = Finding::warning(value.place, format!("`{}`: {shown}: {}", value.key, why.why));
            let remedy =
                why.remedy.unwrap_or_else(|| "see that the user that lvsd runs as can read it".to_owned());
            cx.push(finding.remedy(remedy));
        }
        Err(Flaw::Open) => {
            let message = format!("`{}`: everybody on this machine can read {shown}", value.key);
            let remedy = format!("chmod 640 {shown}, with the group that lvsd runs as");
            cx.push(Finding::warning(value.place, message).remedy(remedy));
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_are_judged_by_what_they_hold_and_who_may_read_them() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        let useless = |why: &str| Err(Flaw::Useless(why.to_owned()));
        let cases: [(&[u8], u32, Result<(), Flaw>); 6] = [
            (b"geheim\n", 0o600, Ok(())),
            (b"geheim", 0o640, Ok(())),
            (b"geheim\n", 0o644, Err(Flaw::Open)),
            (b"\n", 0o600, useless("it does not hold one line")),
            (b"a\nb\n", 0o600, useless("it does not hold one line")),
            (b"\xff", 0o600, useless("it is no text")),
        ];
        for (bytes, mode, wanted) in cases {
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(judge(&path), wanted, "{mode:o} {bytes:?}");
        }
        assert_eq!(judge(directory.path()), useless("it is not a regular file"));
        assert!(matches!(judge(&directory.path().join("missing")), Err(Flaw::Useless(_))));
    }
}
