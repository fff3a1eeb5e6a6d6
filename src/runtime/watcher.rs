//! The thread that hears of changes of the files that `file` checks read, and names those files.
//!
//! Watches directories, not files: a file is often replaced by renaming another one over it. Reads no
//! file and decides nothing; what it misses, on a network's file system for one, is read at the next
//! `delay_loop`. A thread, since a path may lead to a disk that hangs; it ends when its owner has gone, and is
//! begun anew if it breaks off.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use tokio::sync::mpsc;
use tracing::warn;

use crate::anew::{Breaks, Part, Watch};

/// A directory that is not there is looked for this often, in milliseconds.
const SEARCH: u16 = 1000;
/// Changes in this time are one, in milliseconds: a file that changes all the time is no reason to do
/// nothing else.
const PAUSE: u16 = 20;
const CHANGES: AddWatchFlags = AddWatchFlags::IN_CLOSE_WRITE
    .union(AddWatchFlags::IN_CREATE)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVE)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_ONLYDIR);

pub(super) type Files = BTreeSet<PathBuf>;

#[derive(Debug)]
pub(super) struct Watcher {
    changes: mpsc::Sender<Files>,
    thread: Option<Thread>,
    breaks: Breaks,
}

#[derive(Debug)]
struct Thread {
    /// A mutex and no channel: only the newest wish counts.
    wish: Arc<Mutex<Files>>,
    /// Closed at the end.
    bell: PipeWriter,
}

impl Watcher {
    /// `changes` gets the files that have changed, or that are watched from now on.
    pub(super) fn new(changes: mpsc::Sender<Files>, breaks: Breaks) -> Self {
        Self { changes, thread: None, breaks }
    }

    /// Watches these files and no others.
    pub(super) fn watch(&mut self, files: Files) {
        if self.thread.is_none() && files.is_empty() {
            return;
        }
        if self.thread.is_none() {
            match Thread::start(self.changes.clone(), &self.breaks) {
                Ok(thread) => self.thread = Some(thread),
                Err(problem) => {
                    warn!("cannot watch files: {problem}; they are read every delay_loop only");
                }
            }
        }
        if let Some(thread) = &mut self.thread {
            *thread.wish.lock().unwrap_or_else(PoisonError::into_inner) = files;
            // One that hangs hears of it later: the pipe takes far more rings than there are reloads.
            let _ = thread.bell.write(b"!");
        }
    }
}

impl Thread {
    fn start(changes: mpsc::Sender<Files>, breaks: &Breaks) -> io::Result<Self> {
        let (heard, bell) = io::pipe()?;
        nix::fcntl::fcntl(&bell, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK))?;
        // That there may be none is no fault of ours: it is found out here.
        let mut first = Some(open_inotify()?);
        let wish = Arc::default();
        let (theirs, mut watch) = (Arc::clone(&wish), Watch::over(Part::FileWatcher, breaks));
        let mut watch_files = move || match first.take() {
            Some(inotify) => Watching::new(inotify, &heard, &theirs, &changes).run(),
            None => Watching::new(open_inotify()?, &heard, &theirs, &changes).go_on(),
        };
        std::thread::Builder::new()
            .name("file-watcher".to_owned())
            .spawn(move || while watch.breaks_here(|| watch_files().map_err(|error| error.to_string())) {})?;
        Ok(Self { wish, bell })
    }
}

fn open_inotify() -> io::Result<Inotify> {
    Ok(Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?)
}

struct Watching<'a> {
    inotify: Inotify,
    heard: &'a PipeReader,
    wish: &'a Mutex<Files>,
    changes: &'a mpsc::Sender<Files>,
    files: Files,
    /// What the names in each watched directory stand for.
    names: BTreeMap<WatchDescriptor, BTreeMap<OsString, Files>>,
    /// Some directory could not be watched.
    incomplete: bool,
}

impl<'a> Watching<'a> {
    fn new(
        inotify: Inotify,
        heard: &'a PipeReader,
        wish: &'a Mutex<Files>,
        changes: &'a mpsc::Sender<Files>,
    ) -> Self {
        Self { inotify, heard, wish, changes, files: Files::new(), names: BTreeMap::new(), incomplete: false }
    }

    /// Begun anew, with the wish that one before has heard: all files may have changed, as nobody has watched them.
    fn go_on(&mut self) -> io::Result<()> {
        self.hear_wish();
        let changed = self.watch_all();
        match self.changes.blocking_send(changed) {
            Ok(()) => self.run(),
            Err(_nobody) => Ok(()),
        }
    }

    /// Until its owner has gone.
    fn run(&mut self) -> io::Result<()> {
        while let Some(changed) = self.next_changes()? {
            if changed.is_empty() {
                continue;
            }
            if self.changes.blocking_send(changed).is_err() {
                return Ok(());
            }
            self.pause();
        }
        Ok(())
    }

    fn hear_wish(&mut self) {
        self.files = self.wish.lock().unwrap_or_else(PoisonError::into_inner).clone();
    }

    /// Ends early for news of the owner.
    fn pause(&self) {
        let _whatever = poll(&mut [PollFd::new(self.heard.as_fd(), PollFlags::POLLIN)], PAUSE);
    }

    /// `None` at the end.
    fn next_changes(&mut self) -> io::Result<Option<Files>> {
        let patience = if self.incomplete { PollTimeout::from(SEARCH) } else { PollTimeout::NONE };
        let mut waits = [
            PollFd::new(self.heard.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.inotify.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut waits, patience) {
            Err(nix::errno::Errno::EINTR) => return Ok(Some(Files::new())),
            found => found?,
        };
        let [rang, happened] = waits.map(|wait| wait.any().unwrap_or(true));
        let mut changed = Files::new();
        if rang {
            let mut heard = self.heard;
            if heard.read(&mut [0; 64])? == 0 {
                return Ok(None);
            }
            self.hear_wish();
        }
        if happened {
            for event in self.inotify.read_events()? {
                self.note(&event, &mut changed);
            }
        }
        if rang || self.incomplete {
            changed.extend(self.watch_all());
        }
        // A link may lead elsewhere now.
        for file in &changed {
            let _later = self.watch(file);
        }
        Ok(Some(changed))
    }

    fn note(&mut self, event: &InotifyEvent, changed: &mut Files) {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            changed.extend(self.files.iter().cloned());
            return;
        }
        let gone = AddWatchFlags::IN_IGNORED | AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF;
        if event.mask.intersects(gone) {
            if let Some(names) = self.names.remove(&event.wd) {
                changed.extend(names.into_values().flatten());
                // One that has only moved would go on telling of a place that nobody means.
                let _gone = self.inotify.rm_watch(event.wd);
                self.incomplete = true;
            }
            return;
        }
        let name = event.name.as_ref();
        let known = name.and_then(|name| self.names.get(&event.wd)?.get(name));
        changed.extend(known.into_iter().flatten().cloned());
    }

    /// Watches for every file. Returns those that may have changed unseen: whatever is watched from now on.
    fn watch_all(&mut self) -> Files {
        let before = std::mem::take(&mut self.names);
        let files = std::mem::take(&mut self.files);
        self.incomplete = false;
        for file in &files {
            self.incomplete |= !self.watch(file);
        }
        self.files = files;
        for directory in before.keys().filter(|directory| !self.names.contains_key(directory)) {
            let _gone = self.inotify.rm_watch(*directory);
        }
        let is_new = |directory: &WatchDescriptor, name: &OsString, file: &PathBuf| {
            let known = before.get(directory).and_then(|names: &BTreeMap<OsString, Files>| names.get(name));
            known.is_none_or(|known| !known.contains(file))
        };
        let all = self.names.iter().flat_map(|(directory, names)| {
            names.iter().flat_map(move |(name, files)| files.iter().map(move |file| (directory, name, file)))
        });
        all.filter(|(directory, name, file)| is_new(directory, name, file))
            .map(|(_, _, file)| file.clone())
            .collect()
    }

    /// The directory of the file, and that of what it is a link to. Is the former watched?
    fn watch(&mut self, file: &Path) -> bool {
        #[cfg(test)]
        assert!(!file.ends_with(tests::POISON), "broken on purpose");
        let linked = file.canonicalize().ok().filter(|real| real != file);
        if let Some(real) = &linked {
            let _directory = self.watch_name(real, file);
        }
        self.watch_name(file, file)
    }

    fn watch_name(&mut self, path: &Path, file: &Path) -> bool {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return true };
        match self.inotify.add_watch(directory, CHANGES) {
            Ok(watch) => {
                let names = self.names.entry(watch).or_default();
                names.entry(name.to_owned()).or_default().insert(file.to_owned());
                true
            }
            Err(_missing) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    /// A file of this name breaks the thread.
    pub(super) const POISON: &str = "poison";

    struct Watched {
        watcher: Watcher,
        breaks: Breaks,
        changes: mpsc::Receiver<Files>,
        root: PathBuf,
        _directory: tempfile::TempDir,
    }

    impl Watched {
        /// Watches these files of a directory of its own.
        async fn new(names: &[&str], prepare: impl FnOnce(&Path)) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().canonicalize().unwrap();
            prepare(&root);
            let (sender, changes) = mpsc::channel(4);
            let breaks = Breaks::default();
            let watcher = Watcher::new(sender, breaks.clone());
            let mut watched = Self { watcher, breaks, changes, root, _directory: directory };
            watched.watcher.watch(names.iter().map(|name| watched.root.join(name)).collect());
            watched
        }

        /// Waits until all of these have been named, and nothing else was.
        async fn names(&mut self, wanted: &[&str]) {
            let mut wanted: Files = wanted.iter().map(|name| self.root.join(name)).collect();
            let all = wanted.clone();
            while !wanted.is_empty() {
                let patience = Duration::from_secs(20);
                let changed = tokio::time::timeout(patience, self.changes.recv()).await.unwrap().unwrap();
                assert!(changed.is_subset(&all), "{changed:?}");
                wanted.retain(|file| !changed.contains(file));
            }
        }
    }

    #[tokio::test]
    async fn writing_renaming_and_removing_are_changes() {
        let mut watched = Watched::new(&["a", "b"], |_| {}).await;
        let path = |name: &str, watched: &Watched| watched.root.join(name);
        watched.names(&["a", "b"]).await;
        fs::write(path("other", &watched), "1").unwrap();
        fs::write(path("a", &watched), "1").unwrap();
        watched.names(&["a"]).await;
        fs::rename(path("other", &watched), path("b", &watched)).unwrap();
        watched.names(&["b"]).await;
        fs::remove_file(path("b", &watched)).unwrap();
        watched.names(&["b"]).await;
        fs::rename(path("a", &watched), path("b", &watched)).unwrap();
        watched.names(&["a", "b"]).await;
    }

    #[tokio::test]
    async fn a_directory_may_come_go_and_come_again() {
        let mut watched = Watched::new(&["later/a", "b"], |_| {}).await;
        watched.names(&["b"]).await;
        for _ in 0..2 {
            fs::create_dir(watched.root.join("later")).unwrap();
            watched.names(&["later/a"]).await;
            fs::write(watched.root.join("later/a"), "1").unwrap();
            watched.names(&["later/a"]).await;
            fs::remove_dir_all(watched.root.join("later")).unwrap();
            watched.names(&["later/a"]).await;
            while watched.changes.try_recv().is_ok() {}
        }
    }

    #[tokio::test]
    async fn what_a_link_leads_to_is_watched_too() {
        let prepare = |root: &Path| {
            fs::create_dir(root.join("real")).unwrap();
            fs::write(root.join("real/x"), "1").unwrap();
            std::os::unix::fs::symlink("real/x", root.join("link")).unwrap();
        };
        let mut watched = Watched::new(&["link"], prepare).await;
        watched.names(&["link"]).await;
        fs::write(watched.root.join("real/x"), "2").unwrap();
        watched.names(&["link"]).await;
    }

    #[tokio::test]
    async fn only_the_newest_wish_counts() {
        let mut watched = Watched::new(&["a"], |_| {}).await;
        watched.names(&["a"]).await;
        watched.watcher.watch(Files::from([watched.root.join("b")]));
        watched.names(&["b"]).await;
        fs::write(watched.root.join("a"), "1").unwrap();
        fs::write(watched.root.join("b"), "1").unwrap();
        watched.names(&["b"]).await;
        // The thread ends with its owner, and so does the channel's last sender.
        drop(watched.watcher);
        while watched.changes.recv().await.is_some() {}
    }

    #[tokio::test]
    async fn a_thread_that_breaks_off_is_begun_anew_and_watches_what_is_wished_then() {
        let mut watched = Watched::new(&["a"], |_| {}).await;
        watched.names(&["a"]).await;
        let poisoned = Files::from([watched.root.join("a"), watched.root.join(POISON)]);
        watched.watcher.watch(poisoned);
        let broken = watched.breaks.clone();
        crate::runtime::testing::within("it breaks", || {
            broken.counts().any(|(part, count)| part == Part::FileWatcher && count > 0).then_some(())
        });
        // What changes meanwhile is seen by nobody, so that all count as changed afterwards.
        watched.watcher.watch(Files::from([watched.root.join("a"), watched.root.join("b")]));
        watched.names(&["a", "b"]).await;
        fs::write(watched.root.join("b"), "1").unwrap();
        watched.names(&["b"]).await;
    }
}
