//! Where the daemon of a configuration file listens. Once `control_socket` is edited the file names a socket that
//! nobody listens at before the next start: so the daemon leaves a symbolic link to its own in the runtime
//! directory, named after its file, and clients of that file follow it when they find nobody.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::socket::is_answered;

/// As the service manager names it; else the unit's.
const DIRECTORY: (&str, &str) = ("RUNTIME_DIRECTORY", "/run/lvsd");

/// The link that a daemon has left; dropping it removes the link if it is still that one.
#[derive(Debug)]
pub struct Left {
    link: PathBuf,
    socket: PathBuf,
}

/// Which socket a client is to ask.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// The one that the file names.
    Named(PathBuf),
    /// The one that the running daemon has, because nobody listens at the other.
    Running(PathBuf),
}

/// Where links are: a name may hold several directories.
pub fn directory() -> PathBuf {
    let (variable, usual) = DIRECTORY;
    let named = std::env::var_os(variable).filter(|named| !named.is_empty());
    let first = |named: OsString| {
        let first = named.as_bytes().split(|byte| *byte == b':').next().unwrap_or_default();
        PathBuf::from(std::ffi::OsStr::from_bytes(first))
    };
    named.map_or_else(|| PathBuf::from(usual), first)
}

/// Leaves word in `directory` that the daemon of `config` listens at `socket`. `None` if another daemon of the
/// same file does already, as when a dry run is made beside it.
pub fn leave(directory: &Path, config: &Path, socket: &Path) -> io::Result<Option<Left>> {
    let (link, socket) = (link(directory, config)?, std::path::absolute(socket)?);
    if fs::read_link(&link).is_ok_and(|other| other != socket && is_answered(&other)) {
        return Ok(None);
    }
    // A link cannot be made over another; a rename replaces it.
    let new = directory.join(format!(".{}.link", std::process::id()));
    // Of a process of this number that was killed in between.
    let _ = fs::remove_file(&new);
    symlink(&socket, &new)?;
    fs::rename(&new, &link).inspect_err(|_| drop(fs::remove_file(&new)))?;
    Ok(Some(Left { link, socket }))
}

/// The socket at which to ask the daemon of `config`, which names `socket`.
pub fn find(directory: &Path, config: &Path, socket: PathBuf) -> Asked {
    let running = link(directory, config).and_then(fs::read_link);
    match running {
        Ok(running) if running != socket && !is_answered(&socket) && is_answered(&running) => {
            Asked::Running(running)
        }
        Ok(_) | Err(_) => Asked::Named(socket),
    }
}

/// Of the path as it is written: a file that is itself a link to another with each version of the
/// configuration is one file.
fn link(directory: &Path, config: &Path) -> io::Result<PathBuf> {
    let config = std::path::absolute(config)?;
    let digest = Sha256::digest(config.as_os_str().as_bytes());
    let mut name = String::from("daemon-of-");
    for byte in digest.iter().take(8) {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    Ok(directory.join(name))
}

impl Drop for Left {
    fn drop(&mut self) {
        if fs::read_link(&self.link).is_ok_and(|socket| socket == self.socket) {
            let _ = fs::remove_file(&self.link);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn names(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn a_client_goes_where_the_file_says_unless_nobody_is_there_and_the_daemon_elsewhere() {
        let (runtime, sockets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = |name: &str| sockets.path().join(name);
        let config = Path::new("/etc/lvsd/lvsd.toml");
        let find = |socket: &str| find(runtime.path(), config, path(socket));
        let (named, running) = (|n: &str| Asked::Named(path(n)), |n: &str| Asked::Running(path(n)));
        let old = UnixListener::bind(path("old")).unwrap();
        assert_eq!(find("new"), named("new"), "nobody has left word");
        let left = leave(runtime.path(), config, &path("old")).unwrap().unwrap();
        assert_eq!([find("old"), find("new")], [named("old"), running("old")]);
        let other = super::find(runtime.path(), Path::new("/etc/lvsd/other.toml"), path("new"));
        assert_eq!(other, named("new"), "the daemon of another file is not meant");
        let new = UnixListener::bind(path("new")).unwrap();
        assert_eq!(find("new"), named("new"), "somebody listens there");
        // As after the restart: the word of now replaces the one of before, whose end takes nothing away.
        assert!(leave(runtime.path(), config, &path("new")).unwrap().is_none(), "the first one still runs");
        drop(old);
        let later = leave(runtime.path(), config, &path("new")).unwrap().unwrap();
        drop(left);
        assert_eq!(find("newest"), running("new"));
        drop(new);
        assert_eq!(find("newest"), named("newest"), "it was killed");
        drop(later);
        assert_eq!(names(runtime.path()), 0);
    }

    #[test]
    fn the_same_file_is_found_from_anywhere_and_a_directory_that_is_missing_is_an_error() {
        let runtime = tempfile::tempdir().unwrap();
        let here = std::env::current_dir().unwrap();
        let paths = [PathBuf::from("lvsd.toml"), "./lvsd.toml".into(), here.join("lvsd.toml")];
        let links = paths.map(|config| link(runtime.path(), &config).unwrap());
        assert!(links.iter().all(|link| *link == links[0]), "{links:?}");
        leave(&runtime.path().join("none"), Path::new("/lvsd.toml"), Path::new("/socket")).unwrap_err();
        assert_eq!(names(runtime.path()), 0);
    }
}
