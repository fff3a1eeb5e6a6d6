//! May this program be run? Asked before every run.
//!
//! Whoever can change the file, or any directory or link on the way to it, decides what runs. So
//! each step must belong to root, to us or to the user that it runs as, and be writable by nobody
//! else. keepalived resolves
//! links once, at load, and runs the old program after an atomic switch of a release link; here
//! the path is walked anew each time. Since nobody else can change a path that passes, it is
//! still good when the program is started.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::unistd::{Gid, Uid, getegid, geteuid};
use thiserror::Error;

/// As the kernel has it.
const MAX_LINKS: usize = 40;
const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITE: u32 = 0o020;

#[derive(Debug, Error)]
pub enum Refusal {
    #[error("the path is not absolute")]
    Relative,
    #[error("{path}: {source}")]
    Missing { path: PathBuf, source: io::Error },
    #[error("too many symbolic links")]
    TooManyLinks,
    #[error("{path} is not a regular file")]
    NotAFile { path: PathBuf },
    #[error("{path} belongs to user {owner}, who is neither root, this daemon's user nor the script's")]
    Owner { path: PathBuf, owner: u32 },
    #[error("{path} can be written by others (mode {mode:o})")]
    Writable { path: PathBuf, mode: u32 },
}

/// Those who may have a say in what runs, beside root.
#[derive(Clone, Copy, Debug)]
pub struct Trusted {
    users: [Uid; 2],
    groups: [Gid; 2],
}

impl Trusted {
    /// For a program that runs as the daemon.
    pub fn daemon() -> Self {
        Self { users: [geteuid(); 2], groups: [getegid(); 2] }
    }

    /// For a program that runs as somebody else, who can do itself no harm.
    #[must_use]
    pub fn and(self, user: Uid, group: Gid) -> Self {
        Self { users: [self.users[0], user], groups: [self.groups[0], group] }
    }
}

/// The program's path without links. Blocks on the file system.
pub fn resolve(program: &Path, trusted: Trusted) -> Result<PathBuf, Refusal> {
    if !program.is_absolute() {
        return Err(Refusal::Relative);
    }
    let inspect = |path: &Path| inspect(path, trusted);
    let mut left: VecDeque<Step> = steps(program).collect();
    let mut current = PathBuf::from("/");
    let mut found = inspect(&current)?;
    let mut links = 0;
    while let Some(step) = left.pop_front() {
        let name = match step {
            Step::Root => {
                current = PathBuf::from("/");
                continue;
            }
            Step::Up => {
                current.pop();
                continue;
            }
            Step::Into(name) => name,
        };
        let next = current.join(name);
        found = inspect(&next)?;
        if !found.file_type().is_symlink() {
            current = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Refusal::TooManyLinks);
        }
        let target = fs::read_link(&next).map_err(|source| Refusal::Missing { path: next, source })?;
        for step in steps(&target).collect::<Vec<_>>().into_iter().rev() {
            left.push_front(step);
        }
    }
    if found.is_file() { Ok(current) } else { Err(Refusal::NotAFile { path: current }) }
}

enum Step {
    Root,
    Up,
    Into(OsString),
}

fn steps(path: &Path) -> impl Iterator<Item = Step> {
    path.components().filter_map(|component| match component {
        Component::RootDir | Component::Prefix(_) => Some(Step::Root),
        Component::CurDir => None,
        Component::ParentDir => Some(Step::Up),
        Component::Normal(name) => Some(Step::Into(name.to_owned())),
    })
}

/// One step on the way, if nobody else can change where it leads.
fn inspect(path: &Path, trusted: Trusted) -> Result<fs::Metadata, Refusal> {
    let found =
        fs::symlink_metadata(path).map_err(|source| Refusal::Missing { path: path.to_owned(), source })?;
    let owner = found.uid();
    if owner != 0 && !trusted.users.contains(&Uid::from_raw(owner)) {
        return Err(Refusal::Owner { path: path.to_owned(), owner });
    }
    let mode = found.mode() & 0o7777;
    let foreign_group = found.gid() != 0 && !trusted.groups.contains(&Gid::from_raw(found.gid()));
    let writable = mode & OTHERS_WRITE != 0 || (mode & GROUP_WRITE != 0 && foreign_group);
    // A link's mode means nothing; in a sticky directory such as /tmp others can add, but not
    // replace what is ours.
    let harmless = found.file_type().is_symlink() || (found.is_dir() && mode & STICKY != 0);
    if writable && !harmless {
        return Err(Refusal::Writable { path: path.to_owned(), mode });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn resolve(program: &Path) -> Result<PathBuf, Refusal> {
        super::resolve(program, Trusted::daemon())
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// `r1/run` and `r2/run`, and a link `cur` to `r1`.
    fn releases() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for release in ["r1", "r2"] {
            fs::create_dir(root.join(release)).unwrap();
            fs::write(root.join(release).join("run"), "").unwrap();
            chmod(&root.join(release), 0o755);
            chmod(&root.join(release).join("run"), 0o755);
        }
        symlink("r1", root.join("cur")).unwrap();
        (directory, root)
    }

    #[test]
    fn links_are_followed_anew_each_time() {
        let (_directory, root) = releases();
        let program = root.join("cur/run");
        assert_eq!(resolve(&program).unwrap(), root.join("r1/run"));
        symlink("r2", root.join("new")).unwrap();
        fs::rename(root.join("new"), root.join("cur")).unwrap();
        fs::remove_dir_all(root.join("r1")).unwrap();
        assert_eq!(resolve(&program).unwrap(), root.join("r2/run"));
        fs::remove_file(root.join("cur")).unwrap();
        let error = resolve(&program).unwrap_err();
        assert!(error.to_string().ends_with("cur: No such file or directory (os error 2)"), "{error}");
    }

    #[test]
    fn absolute_links_and_dots_lead_where_the_kernel_goes() {
        let (_directory, root) = releases();
        symlink(root.join("r1/../cur/./run"), root.join("r2/through")).unwrap();
        assert_eq!(resolve(&root.join("r2/through")).unwrap(), root.join("r1/run"));
        symlink("loop", root.join("loop")).unwrap();
        assert!(matches!(resolve(&root.join("loop")).unwrap_err(), Refusal::TooManyLinks));
    }

    #[test]
    fn what_others_can_write_is_refused_wherever_it_is() {
        let (_directory, root) = releases();
        let program = root.join("cur/run");
        for (path, mode) in [("r1/run", 0o757), ("r1", 0o757), ("", 0o757)] {
            let path = root.join(path);
            chmod(&path, mode);
            assert!(matches!(resolve(&program).unwrap_err(), Refusal::Writable { .. }), "{path:?}");
            chmod(&path, 0o755);
            assert!(resolve(&program).is_ok(), "{path:?}");
        }
        // Sticky directories are how /tmp works.
        chmod(&root.join("r1"), 0o1777);
        assert!(resolve(&program).is_ok());
    }

    #[test]
    fn only_regular_files_at_absolute_paths() {
        let (_directory, root) = releases();
        assert!(matches!(resolve(Path::new("run")).unwrap_err(), Refusal::Relative));
        assert!(matches!(resolve(&root.join("cur")).unwrap_err(), Refusal::NotAFile { .. }));
        assert!(matches!(resolve(&root.join("cur/run/x")).unwrap_err(), Refusal::Missing { .. }));
    }

    #[test]
    fn what_belongs_to_the_scripts_own_user_may_run_as_that_user_only() {
        if !geteuid().is_root() {
            return assert_ne!(geteuid(), Uid::from_raw(65_533), "only root can give files away");
        }
        let (_directory, root) = releases();
        let (user, group) = (Uid::from_raw(65_533), Gid::from_raw(65_532));
        let program = root.join("cur/run");
        nix::unistd::chown(&program, Some(user), Some(group)).unwrap();
        chmod(&program, 0o775);
        assert!(matches!(resolve(&program).unwrap_err(), Refusal::Owner { owner: 65_533, .. }));
        assert!(super::resolve(&program, Trusted::daemon().and(user, group)).is_ok());
        let other = Trusted::daemon().and(Uid::from_raw(65_531), group);
        assert!(matches!(super::resolve(&program, other).unwrap_err(), Refusal::Owner { .. }));
        let other = Trusted::daemon().and(user, Gid::from_raw(65_531));
        assert!(matches!(super::resolve(&program, other).unwrap_err(), Refusal::Writable { .. }));
    }
}
