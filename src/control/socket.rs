//! The socket's file: made so that nobody sees it half made, replaced when stale, removed only
//! while it is ours.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::unistd::Group;
use socket2::{Domain, SockAddr, Socket, Type};
use thiserror::Error;

use crate::engine::model::ControlAccess;

/// Of a parent directory that is not there yet, as systemd's RuntimeDirectory makes it.
const PARENT_MODE: u32 = 0o755;

#[derive(Debug, Error)]
pub enum SocketError {
    #[error("making the control socket {path}")]
    Make {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("making the control socket {path}: giving it to the group {group:?}")]
    Group {
        path: PathBuf,
        group: String,
        #[source]
        source: io::Error,
    },
    #[error("making the control socket {path}: there is something that is not a socket")]
    Occupied { path: PathBuf },
    #[error("making the control socket {path}: another process answers there")]
    InUse { path: PathBuf },
}

/// The name of a listening socket; dropping it removes the name if it still leads to ours.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// Listens on `path`, non-blocking. A socket that nobody answers on is replaced in one step, so
/// that a client finds the old name or the new, and never a socket with the wrong mode.
///
/// Who may write to it may talk to the daemon: its permissions are the whole of the access control, and
/// what somebody does with it is logged under their name.
pub fn bind(path: &Path, access: &ControlAccess) -> Result<(UnixListener, SocketFile), SocketError> {
    match fs::symlink_metadata(path) {
        // A link could lead anywhere: it is as foreign as a plain file.
        Ok(found) if !found.file_type().is_socket() => {
            return Err(SocketError::Occupied { path: path.to_owned() });
        }
        Ok(_) if is_answered(path) => return Err(SocketError::InUse { path: path.to_owned() }),
        Ok(_) | Err(_) => {}
    }
    let group = access.group.as_ref().map(|group| {
        let refused = |source| SocketError::Group { path: path.to_owned(), group: group.clone(), source };
        group_id(group).map(|id| (id, group)).map_err(refused)
    });
    make(path, access.mode, group.transpose()?).map_err(|problem| match problem {
        Unmade::Group(group, source) => SocketError::Group { path: path.to_owned(), group, source },
        Unmade::Socket(source) => SocketError::Make { path: path.to_owned(), source },
    })
}

/// Of a group by name or number.
fn group_id(group: &str) -> io::Result<u32> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let found = Group::from_name(group)?;
    found.map(|group| group.gid.as_raw()).ok_or_else(|| io::Error::other("there is no such group"))
}

enum Unmade {
    Group(String, io::Error),
    Socket(io::Error),
}

impl From<io::Error> for Unmade {
    fn from(source: io::Error) -> Self {
        Self::Socket(source)
    }
}

/// Does a process listen there? A full backlog is an answer too.
pub(super) fn is_answered(path: &Path) -> bool {
    let connect = || -> io::Result<()> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.connect(&SockAddr::unix(path)?)
    };
    match connect() {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// bind(2) takes the mode from the process's umask and chmod(2) comes after it, so the socket is
/// made inside a directory that only we may enter, and moved out when it is right. rename(2)
/// replaces a link at the last component instead of following it.
fn make(path: &Path, mode: u32, group: Option<(u32, &String)>) -> Result<(UnixListener, SocketFile), Unmade> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !parent.exists() {
        fs::DirBuilder::new().mode(PARENT_MODE).create(parent)?;
    }
    let private = PrivateDirectory::new(parent)?;
    let hidden = private.path.join("s");
    let listener = UnixListener::bind(&hidden)?;
    listener.set_nonblocking(true)?;
    if let Some((id, group)) = group {
        std::os::unix::fs::chown(&hidden, None, Some(id))
            .map_err(|source| Unmade::Group(group.clone(), source))?;
    }
    fs::set_permissions(&hidden, fs::Permissions::from_mode(mode))?;
    let made = fs::symlink_metadata(&hidden)?;
    fs::rename(&hidden, path)?;
    Ok((listener, SocketFile { path: path.to_owned(), device: made.dev(), inode: made.ino() }))
}

/// With a short name: a socket's path has 107 bytes, and this one must fit where the real one does.
struct PrivateDirectory {
    path: PathBuf,
}

impl PrivateDirectory {
    fn new(parent: &Path) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for n in 0..100_u32 {
            let path = parent.join(format!(".{}{n}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.path.join("s"));
        let _ = fs::remove_dir(&self.path);
    }
}

impl SocketFile {
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn is_ours(&self) -> bool {
        fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_ours() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn usual() -> ControlAccess {
        ControlAccess::default()
    }

    #[test]
    fn has_the_group_and_the_mode_that_it_is_given() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        // A group that this process may give: one of its own.
        let own = nix::unistd::getgroups().unwrap().last().copied().unwrap_or(nix::unistd::getgid()).as_raw();
        let access = ControlAccess { group: Some(own.to_string()), mode: 0o640 };
        let (_listener, _file) = bind(&path, &access).unwrap();
        let made = fs::symlink_metadata(&path).unwrap();
        assert_eq!((made.permissions().mode() & 0o7777, made.gid()), (0o640, own));
        let nobody = ControlAccess { group: Some("no-such-group".into()), mode: 0o660 };
        let other = directory.path().join("other.sock");
        let error = bind(&other, &nobody).unwrap_err();
        let text = format!("{:#}", anyhow::Error::new(error));
        assert!(text.ends_with("giving it to the group \"no-such-group\": there is no such group"), "{text}");
        assert_eq!(names(directory.path()), ["control.sock"], "nothing is left half made");
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn is_made_with_its_mode_and_removed_with_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/control.sock");
        let (listener, file) = bind(&path, &usual()).unwrap();
        let made = fs::symlink_metadata(&path).unwrap();
        assert!(made.file_type().is_socket());
        assert_eq!(made.permissions().mode() & 0o7777, 0o660);
        assert_eq!(names(&directory.path().join("new")), ["control.sock"]);
        UnixStream::connect(&path).unwrap();
        drop((listener, file));
        assert_eq!(names(&directory.path().join("new")), Vec::<String>::new());
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        drop(UnixListener::bind(&path).unwrap());
        let (_listener, _file) = bind(&path, &usual()).unwrap();
        UnixStream::connect(&path).unwrap();
        assert!(matches!(bind(&path, &usual()).unwrap_err(), SocketError::InUse { .. }));
        // Still there and still ours.
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_listener_with_a_full_backlog_is_alive() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        let (listener, _file) = bind(&path, &usual()).unwrap();
        let mut waiting = Vec::new();
        while waiting.len() < 10_000 {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            if socket.connect(&SockAddr::unix(&path).unwrap()).is_err() {
                break;
            }
            waiting.push(socket);
        }
        assert!(waiting.len() < 10_000);
        assert!(matches!(bind(&path, &usual()).unwrap_err(), SocketError::InUse { .. }));
        drop(listener);
    }

    #[test]
    fn neither_files_nor_links_are_touched() {
        let directory = tempfile::tempdir().unwrap();
        let precious = directory.path().join("precious");
        fs::write(&precious, "data").unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        let dangling = directory.path().join("dangling");
        std::os::unix::fs::symlink(directory.path().join("nowhere"), &dangling).unwrap();
        for path in [&precious, &link, &dangling, &directory.path().to_owned()] {
            let error = bind(path, &usual()).unwrap_err();
            assert!(matches!(error, SocketError::Occupied { .. }), "{error}");
        }
        assert_eq!(fs::read_to_string(&precious).unwrap(), "data");
        assert_eq!(names(directory.path()), ["dangling", "link", "precious"]);
    }

    #[test]
    fn a_name_that_leads_to_somebody_else_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        let (_old_listener, old) = bind(&path, &usual()).unwrap();
        fs::remove_file(&path).unwrap();
        let (_new_listener, _new) = bind(&path, &usual()).unwrap();
        drop(old);
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_place_that_cannot_be_is_an_error_with_its_path() {
        let error = bind(Path::new("/nonexistent/directory/control.sock"), &usual()).unwrap_err();
        assert_eq!(error.to_string(), "making the control socket /nonexistent/directory/control.sock");
    }
}
