//! Secrets in files of their own, read when they are needed: a changed password counts at once, and
//! none stays in memory.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use tokio::task::JoinHandle;

use crate::net::explain;

/// Longer than any password or token.
const MAX_BYTES: u64 = 64 * 1024;

type Reading = JoinHandle<io::Result<String>>;

/// Reads files away from the loop, one at a time: a disk that hangs costs one thread, not one for each try.
#[derive(Debug, Default)]
pub(super) struct Reader {
    under_way: Option<(PathBuf, Reading)>,
}

impl Reader {
    /// One line, without its end. Cancelled, it goes on, and the next call waits for it.
    pub(super) async fn read(&mut self, path: &Path) -> Result<String, String> {
        loop {
            let (reading, task) = self.under_way.get_or_insert_with(|| {
                let path = path.to_owned();
                (path.clone(), tokio::task::spawn_blocking(move || one_line(&path)))
            });
            let read = task.await;
            let is_ours = reading == path;
            self.under_way = None;
            if !is_ours {
                continue;
            }
            let failed = |why: String| format!("read {}: {why}", path.display());
            return match read {
                Ok(Ok(text)) => Ok(text),
                Ok(Err(error)) => Err(failed(explain(&error))),
                Err(broken) => Err(failed(broken.to_string())),
            };
        }
    }
}

/// Regular files only: a FIFO would never end.
fn one_line(path: &Path) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let wrong = |why: &str| Err(io::Error::other(why.to_owned()));
    if !file.metadata()?.is_file() {
        return wrong("it is not a regular file");
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    let line = text.trim_end_matches(['\r', '\n']);
    if line.is_empty() {
        return wrong("it is empty");
    }
    if line.contains(char::is_control) {
        return wrong("it must hold one line without control characters");
    }
    Ok(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_secret_is_one_line_of_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        let mut reader = Reader::default();
        let cases: [(&[u8], Result<&str, &str>); 6] = [
            (b"geheim\n", Ok("geheim")),
            (b" with spaces \r\n", Ok(" with spaces ")),
            (b"new", Ok("new")),
            (b"\n", Err("it is empty")),
            (b"a\nb\n", Err("it must hold one line without control characters")),
            (b"\xff", Err("stream did not contain valid UTF-8")),
        ];
        for (bytes, wanted) in cases {
            std::fs::write(&path, bytes).unwrap();
            let wanted = wanted.map(str::to_owned);
            let wanted = wanted.map_err(|why| format!("read {}: {why}", path.display()));
            assert_eq!(reader.read(&path).await, wanted);
        }
        let missing = directory.path().join("missing");
        let said = reader.read(&missing).await.unwrap_err();
        assert!(said.ends_with("no such file or directory (ENOENT)"), "{said}");
        let said = reader.read(directory.path()).await.unwrap_err();
        assert!(said.ends_with("it is not a regular file"), "{said}");
    }

    #[tokio::test]
    async fn a_read_that_was_cancelled_is_not_taken_for_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (directory.path().join("one"), directory.path().join("two"));
        std::fs::write(&one, "first").unwrap();
        std::fs::write(&two, "second").unwrap();
        let mut reader = Reader::default();
        // Polled once, then dropped.
        let _cancelled = tokio::time::timeout(std::time::Duration::ZERO, reader.read(&one)).await;
        assert_eq!(reader.read(&two).await, Ok("second".to_owned()));
    }
}
