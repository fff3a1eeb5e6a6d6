//! A daemon that says what a test wants it to.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::JoinHandle;

use tempfile::TempDir;

use crate::control::protocol::{Reply, encode_reply};

pub(super) struct Scripted {
    folder: TempDir,
    thread: JoinHandle<()>,
}

impl Scripted {
    /// Answers one client after the other with one of these each, and then nobody any more.
    pub(super) fn answering(replies: Vec<Reply>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let thread = std::thread::spawn(move || {
            for reply in replies {
                let (mut stream, _) = listener.accept().unwrap();
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).unwrap();
                assert!(!line.is_empty(), "nobody has asked for {reply:?}");
                stream.write_all(&encode_reply(&reply).unwrap()).unwrap();
            }
        });
        Self { folder, thread }
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Everything has been asked for.
    pub(super) fn end(self) {
        // Whoever still waits for a question gets none.
        drop(UnixStream::connect(self.socket()));
        self.thread.join().unwrap();
    }
}
