//! Where the daemon of a configuration file listens. Once `control_socket` is edited the file names a socket that
//! nobody listens at before the next start: so the daemon leaves word of its own in a file of the runtime
//! directory, named after the configuration's, and clients of that go there when they find nobody.
//!
//! The daemon holds a lock on its word, which ends with it, whatever ends it. A word that is left behind counts for
//! nothing: at the socket that it names may be somebody else by now.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use sha2::{Digest, Sha256};

use super::socket::is_answered;

/// As the service manager names it; else the unit's.
const DIRECTORY: (&str, &str) = ("RUNTIME_DIRECTORY", "/run/lvsd");

/// Whoever may enter the directory may read it.
const MODE: u32 = 0o644;
/// Of a word. A socket's path is much shorter.
const LONGEST: u64 = 4096;

/// The word that a daemon has left; dropping it removes the word if it is still that one.
#[derive(Debug)]
pub struct Left {
    path: PathBuf,
    /// With the lock.
    word: File,
}

/// Which socket a client is to ask.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// The one that the file names.
    Named(PathBuf),
    /// The one that the running daemon has, because nobody listens at the other.
    Running(PathBuf),
}

/// Where words are left: a name may hold several directories.
pub fn directory() -> PathBuf {
    let (variable, usual) = DIRECTORY;
    let named = std::env::var_os(variable).filter(|named| !named.is_empty());
    let first = |named: OsString| {
        let first = named.as_bytes().split(|byte| *byte == b':').next().unwrap_or_default();
        PathBuf::from(OsStr::from_bytes(first))
    };
    named.map_or_else(|| PathBuf::from(usual), first)
}

/// Leaves word in `directory` that the daemon of `config` listens at `socket`. `None` if another daemon of the
/// same file does already, as when a dry run is made beside it.
pub fn leave(directory: &Path, config: &Path, socket: &Path) -> io::Result<Option<Left>> {
    let (path, socket) = (place(directory, config)?, std::path::absolute(socket)?);
    if read(&path).is_ok_and(|other| other != socket && is_answered(&other)) {
        return Ok(None);
    }
    // Locked before anybody can find it, and in the place of the one before it in one step.
    let new = directory.join(format!(".{}.daemon", std::process::id()));
    // Of a process of this number that was killed in between.
    let _ = fs::remove_file(&new);
    let mut word = File::create_new(&new)?;
    let written = word.try_lock().map_err(io::Error::from).and_then(|()| {
        word.write_all(socket.as_os_str().as_bytes())?;
        word.set_permissions(Permissions::from_mode(MODE))?;
        fs::rename(&new, &path)
    });
    written.inspect_err(|_| drop(fs::remove_file(&new)))?;
    Ok(Some(Left { path, word }))
}

/// The socket at which to ask the daemon of `config`, which names `socket`.
pub fn find(directory: &Path, config: &Path, socket: PathBuf) -> Asked {
    let running = place(directory, config).and_then(|path| read(&path));
    match running {
        Ok(running) if running != socket && !is_answered(&socket) && is_answered(&running) => {
            Asked::Running(running)
        }
        Ok(_) | Err(_) => Asked::Named(socket),
    }
}

/// What is said there, by a daemon that lives.
fn read(path: &Path) -> io::Result<PathBuf> {
    // A client must not wait at whatever else there may be.
    let word =
        File::options().read(true).custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW).bits()).open(path)?;
    match word.try_lock_shared() {
        Ok(()) => Err(io::ErrorKind::NotFound.into()),
        Err(TryLockError::WouldBlock) => {
            let mut socket = Vec::new();
            word.take(LONGEST).read_to_end(&mut socket)?;
            Ok(PathBuf::from(OsString::from_vec(socket)))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Of the path as it is written: a file that is itself a link to another with each version of the
/// configuration is one file.
fn place(directory: &Path, config: &Path) -> io::Result<PathBuf> {
    let config = std::path::absolute(config)?;
    let digest = Sha256::digest(config.as_os_str().as_bytes());
    let mut name = String::from("daemon-of-");
    for byte in digest.iter().take(8) {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    Ok(directory.join(name))
}

impl Left {
    fn is_ours(&self) -> io::Result<bool> {
        let (there, ours) = (fs::symlink_metadata(&self.path)?, self.word.metadata()?);
        Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino()))
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        if self.is_ours().is_ok_and(|ours| ours) {
            let _ = fs::remove_file(&self.path);
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

    /// As after SIGKILL: the word is there, and nobody holds it.
    #[test]
    fn the_word_of_a_daemon_that_is_gone_leads_to_nobody_who_has_its_socket_since() {
        let runtime = tempfile::tempdir().unwrap();
        let (config, other) = (Path::new("/etc/lvsd/lvsd.toml"), Path::new("/etc/lvsd/other.toml"));
        let [old, new] = ["old", "new"].map(|name| runtime.path().join(name));
        let find = || super::find(runtime.path(), config, new.clone());
        let listener = UnixListener::bind(&old).unwrap();
        let left = leave(runtime.path(), config, &old).unwrap().unwrap();
        let path = left.path.clone();
        let mode = left.word.metadata().unwrap().permissions().mode();
        assert_eq!((find(), mode & 0o777), (Asked::Running(old.clone()), MODE));
        // Another file with the same text is not locked, and is not what `left` removes.
        fs::copy(&path, runtime.path().join("copy")).unwrap();
        fs::rename(runtime.path().join("copy"), &path).unwrap();
        drop(left);
        assert_eq!(fs::read(&path).unwrap(), old.as_os_str().as_bytes());
        let stranger = leave(runtime.path(), other, &old).unwrap();
        assert!(stranger.is_some() && is_answered(&old));
        assert_eq!(find(), Asked::Named(new.clone()), "the stranger at its socket is not asked");
        drop((stranger, listener));
        let _listener = UnixListener::bind(&new).unwrap();
        let again = leave(runtime.path(), config, &new).unwrap();
        assert!(again.is_some(), "a word that is left behind keeps no other from its place");
    }

    #[test]
    fn what_is_no_word_is_none() {
        let runtime = tempfile::tempdir().unwrap();
        let config = Path::new("/etc/lvsd/lvsd.toml");
        let [old, new] = ["old", "new"].map(|name| runtime.path().join(name));
        let _listener = UnixListener::bind(&old).unwrap();
        let at = place(runtime.path(), config).unwrap();
        let find = || super::find(runtime.path(), config, new.clone());
        for make in [
            |at: &Path, old: &Path| std::os::unix::fs::symlink(old, at),
            |at: &Path, _: &Path| fs::create_dir(at),
            |at: &Path, _: &Path| fs::write(at, ""),
            |at: &Path, _: &Path| Ok(nix::unistd::mkfifo(at, nix::sys::stat::Mode::S_IRUSR)?),
        ] {
            make(&at, &old).unwrap();
            assert_eq!(find(), Asked::Named(new.clone()));
            let _ = fs::remove_file(&at);
            let _ = fs::remove_dir(&at);
        }
    }

    #[test]
    fn the_same_file_is_found_from_anywhere_and_a_directory_that_is_missing_is_an_error() {
        let runtime = tempfile::tempdir().unwrap();
        let here = std::env::current_dir().unwrap();
        let paths = [PathBuf::from("lvsd.toml"), "./lvsd.toml".into(), here.join("lvsd.toml")];
        let places = paths.map(|config| place(runtime.path(), &config).unwrap());
        assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
        leave(&runtime.path().join("none"), Path::new("/lvsd.toml"), Path::new("/socket")).unwrap_err();
        assert_eq!(names(runtime.path()), 0);
    }
}
