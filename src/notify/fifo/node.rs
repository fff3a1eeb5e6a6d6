//! The named pipe in the file system: found or made, trusted, opened, removed. All of it may wait for
//! the file system and belongs on a thread of its own.
//!
//! A name is never followed through a last symbolic link, and nothing is opened that is not a FIFO of
//! somebody who may have one here: opening a device can do things.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::{User, geteuid, mkfifo};
use thiserror::Error;

/// Read by the group: who reads takes the lines away from all others, so that this is not for everybody.
const MODE: u32 = 0o640;

/// What makes a FIFO the same one whatever its name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id {
    device: u64,
    inode: u64,
}

#[derive(Debug)]
pub(super) struct Found {
    pub(super) id: Id,
    /// Open for writing, if somebody has it open for reading.
    pub(super) pipe: Option<File>,
    pub(super) origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It was there.
    Found,
    Made,
}

#[derive(Debug, Error)]
pub(super) enum Problem {
    #[error("{doing} the FIFO {path}")]
    System { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("{path} is not a FIFO")]
    NotAFifo { path: PathBuf },
    #[error(
        "the FIFO {path} belongs to user {owner}, who is neither root, this daemon's user nor script_user"
    )]
    Owner { path: PathBuf, owner: u32 },
}

impl Id {
    fn of(metadata: &fs::Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Makes the FIFO if nothing has its name. `user`: whose programs read it.
pub(super) fn open(path: &Path, user: Option<&str>) -> Result<Found, Problem> {
    let problem = |doing| move |source| Problem::System { doing, path: path.to_owned(), source };
    let origin = match fs::symlink_metadata(path) {
        Ok(metadata) => {
            inspect(path, &metadata, user)?;
            Origin::Found
        }
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
            make(path, user).map_err(problem("making"))?;
            Origin::Made
        }
        Err(other) => return Err(problem("looking for")(other)),
    };
    // Without somebody who reads, this fails at once.
    let pipe = match options().write(true).open(path) {
        Ok(pipe) => Some(pipe),
        Err(error) if error.raw_os_error() == Some(Errno::ENXIO as i32) => None,
        Err(error) => return Err(problem("opening")(error)),
    };
    let metadata = match &pipe {
        Some(pipe) => pipe.metadata(),
        None => fs::symlink_metadata(path),
    };
    let metadata = metadata.map_err(problem("looking at"))?;
    // It may be another one by now.
    inspect(path, &metadata, user)?;
    Ok(Found { id: Id::of(&metadata), pipe, origin })
}

/// Does the name still lead to this one?
pub(super) fn is_at(path: &Path, id: Id) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| Id::of(&metadata) == id)
}

/// Removes it if it is still this one.
pub(super) fn remove(path: &Path, id: Id) -> Result<(), Problem> {
    if !is_at(path, id) {
        return Ok(());
    }
    fs::remove_file(path).map_err(|source| Problem::System {
        doing: "removing",
        path: path.to_owned(),
        source,
    })
}

fn options() -> OpenOptions {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW;
    let mut options = OpenOptions::new();
    options.custom_flags(flags.bits());
    options
}

fn inspect(path: &Path, metadata: &fs::Metadata, user: Option<&str>) -> Result<(), Problem> {
    if !metadata.file_type().is_fifo() {
        return Err(Problem::NotAFifo { path: path.to_owned() });
    }
    let owner = metadata.uid();
    let is_the_readers = || user.and_then(find).is_some_and(|user| user.uid.as_raw() == owner);
    if owner == 0 || owner == geteuid().as_raw() || is_the_readers() {
        return Ok(());
    }
    Err(Problem::Owner { path: path.to_owned(), owner })
}

/// It stays ours, so that we can write to it without privileges; the user's group may read it.
fn make(path: &Path, user: Option<&str>) -> io::Result<()> {
    mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?;
    // By descriptor: the name may be another file's by now. The umask does not count for this.
    let made = options().read(true).open(path)?;
    let metadata = made.metadata()?;
    if !metadata.file_type().is_fifo() || metadata.uid() != geteuid().as_raw() {
        return Err(io::Error::other("somebody else has put another file in its place"));
    }
    if let Some(user) = user {
        let given = match find(user) {
            Some(user) => fchown(&made, None, Some(user.gid.as_raw())),
            None => Err(io::Error::other("no such user")),
        };
        if let Err(problem) = given {
            tracing::warn!("the group of \"{user}\" cannot be given the FIFO {}: {problem}", path.display());
        }
    }
    made.set_permissions(fs::Permissions::from_mode(MODE))
}

fn find(user: &str) -> Option<User> {
    User::from_name(user).ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;

    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events");
        (directory, path)
    }

    fn read_end(path: &Path) -> File {
        options().read(true).open(path).unwrap()
    }

    #[test]
    fn one_is_made_found_opened_and_removed() {
        let (_directory, path) = place();
        let made = open(&path, None).unwrap();
        assert_eq!((made.origin, made.pipe.is_some()), (Origin::Made, false));
        assert_eq!(fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o7777, MODE);
        let mut reader = read_end(&path);
        let found = open(&path, None).unwrap();
        assert_eq!((found.id, found.origin), (made.id, Origin::Found));
        let mut pipe = found.pipe.unwrap();
        pipe.write_all(b"x\n").unwrap();
        drop(pipe);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x\n");
        assert!(is_at(&path, made.id));
        remove(&path, made.id).unwrap();
        assert!(!path.exists());
        remove(&path, made.id).unwrap();
    }

    #[test]
    fn what_took_its_place_is_not_removed() {
        let (directory, path) = place();
        let made = open(&path, None).unwrap();
        fs::rename(&path, directory.path().join("old")).unwrap();
        fs::write(&path, "precious").unwrap();
        assert!(!is_at(&path, made.id));
        remove(&path, made.id).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn anything_else_is_refused_and_stays_as_it_is() {
        let (directory, path) = place();
        fs::write(&path, "precious").unwrap();
        let refusal = open(&path, None).unwrap_err().to_string();
        assert_eq!(refusal, format!("{} is not a FIFO", path.display()));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        let link = directory.path().join("link");
        mkfifo(&directory.path().join("real"), Mode::S_IRWXU).unwrap();
        symlink("real", &link).unwrap();
        assert!(matches!(open(&link, None).unwrap_err(), Problem::NotAFifo { .. }));
        symlink("nowhere", directory.path().join("dangling")).unwrap();
        assert!(matches!(
            open(&directory.path().join("dangling"), None).unwrap_err(),
            Problem::NotAFifo { .. }
        ));
        let missing = open(&directory.path().join("no/such"), None).unwrap_err();
        assert!(missing.to_string().starts_with("making the FIFO "), "{missing}");
    }

    #[test]
    fn a_strangers_fifo_is_refused_and_the_readers_is_not() {
        if !geteuid().is_root() {
            return assert!(!geteuid().is_root(), "only root can give files away");
        }
        let (_directory, path) = place();
        let nobody = find("nobody").unwrap();
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        std::os::unix::fs::chown(&path, Some(nobody.uid.as_raw()), None).unwrap();
        assert!(matches!(open(&path, None).unwrap_err(), Problem::Owner { .. }));
        assert!(open(&path, Some("nobody")).is_ok());
        fs::remove_file(&path).unwrap();
        open(&path, Some("nobody")).unwrap();
        assert_eq!(fs::symlink_metadata(&path).unwrap().gid(), nobody.gid.as_raw());
    }
}
