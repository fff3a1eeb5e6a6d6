//! `file`: the number in a file, and what it does to a weight.
//!
//! keepalived's FILE_CHECK with three differences: a number may have zeros in front, which are not
//! octal; `0x` is hexadecimal as there; and a file that cannot be read for want of a right is a
//! local error instead of a 0.

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing;

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use nix::libc::{O_NOCTTY, O_NONBLOCK};
use tokio::sync::Semaphore;

use super::deadline::Deadline;
use super::fault::{Trouble, explain};
use crate::engine::model::{Fault, Phase, TrackedFile, WeightChange};

/// More is no number.
const MAX_SIZE: u64 = 128;
/// Reads of one file at once. A disk that hangs must not take a thread for each run.
const READERS: usize = 4;
/// At or below this a number is a fault.
const FAULT: i64 = i32::MIN as i64;

#[derive(Debug)]
pub(super) struct Plan {
    file: Arc<TrackedFile>,
    readers: Arc<Semaphore>,
}

impl Plan {
    pub(super) fn new(file: &TrackedFile) -> Self {
        Self { file: Arc::new(file.clone()), readers: Arc::new(Semaphore::new(READERS)) }
    }
}

pub(super) async fn probe(
    plan: &Plan,
    deadline: &mut Deadline<'_>,
) -> Result<(String, WeightChange), Trouble> {
    let read = async {
        // Never closed.
        let reader = Arc::clone(&plan.readers).acquire_owned().await;
        let file = Arc::clone(&plan.file);
        tokio::task::spawn_blocking(move || (read(&file.path), reader)).await
    };
    let local = |reason: String| Trouble::Local(Fault { phase: Phase::Run, reason });
    let Some(joined) = deadline.race(read).await else {
        return Err(local(format!("reading the file took longer than {:?}", deadline.limit())));
    };
    let (content, _reader) = joined.map_err(|broken| local(format!("reading the file: {broken}")))?;
    match content {
        Ok(content) => judge(content, &plan.file),
        Err(problem) => Err(local(format!("reading the file: {}", explain(&problem)))),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Number(i64),
    /// Counts as 0.
    NoNumber,
    /// Counts as 0.
    NoFile,
    /// A directory, a device, a pipe: no number either.
    NotAFile,
}

/// Does not wait for whoever should write to a FIFO.
fn read(path: &Path) -> io::Result<Content> {
    let file = match File::options().read(true).custom_flags(O_NONBLOCK | O_NOCTTY).open(path) {
        Ok(file) => file,
        Err(problem) if matches!(problem.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Content::NoFile);
        }
        Err(problem) => return Err(problem),
    };
    if !file.metadata()?.is_file() {
        return Ok(Content::NotAFile);
    }
    let mut text = Vec::new();
    file.take(MAX_SIZE).read_to_end(&mut text)?;
    Ok(number(&text).map_or(Content::NoNumber, Content::Number))
}

/// The first word, if it is a number. One too large for anything counts as the largest there is.
fn number(text: &[u8]) -> Option<i64> {
    let word = text.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())?;
    let word = std::str::from_utf8(word).ok()?;
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (digits, radix) = hexadecimal.map_or((digits, 10), |digits| (digits, 16));
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    // At most 126 digits: more than i128 holds, and then it is too large anyway.
    let size = i128::from_str_radix(digits, radix).unwrap_or(i128::MAX);
    let bound = i128::from(i64::MAX);
    i64::try_from(size.min(bound) * sign).ok()
}

/// The number times its weight is added, unless it comes to a fault.
fn judge(content: Content, file: &TrackedFile) -> Result<(String, WeightChange), Trouble> {
    let (number, words) = match content {
        Content::Number(number) => (number, number.to_string()),
        Content::NoNumber => (0, "no number, counts as 0".to_owned()),
        Content::NoFile => (0, "no such file, counts as 0".to_owned()),
        Content::NotAFile => (0, "not a regular file, counts as 0".to_owned()),
    };
    let fault = |why: &str| Err(Trouble::failure(Phase::Status, format!("{words}: {why}")));
    if file.weight == 0 {
        return match ((number == 0), file.reverse) {
            (false, false) => fault("a fault"),
            (true, true) => fault("a fault, since 0 is one here"),
            (true, false) | (false, true) => Ok((words, WeightChange::None)),
        };
    }
    let sign = if file.reverse { -1 } else { 1 };
    let delta = number.saturating_mul(i64::from(file.weight)).saturating_mul(sign);
    if delta <= FAULT {
        return fault("so low that it is a fault");
    }
    // keepalived's numbers end here, too.
    let delta = delta.min(i64::from(i32::MAX));
    Ok((format!("{words}, adds {delta}"), WeightChange::Delta(delta)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::model::Verdict;

    #[test]
    fn numbers_as_people_write_them() {
        let cases: [(&[u8], Option<i64>); 19] = [
            (b"5", Some(5)),
            (b" \t\n5\n", Some(5)),
            (b"-3 # drained", Some(-3)),
            (b"+7", Some(7)),
            (b"010", Some(10)),
            (b"08", Some(8)),
            (b"0x1f", Some(31)),
            (b"-0X10", Some(-16)),
            (b"2147483648", Some(2_147_483_648)),
            (b"99999999999999999999999999999999999999999999999", Some(i64::MAX)),
            (b"-99999999999999999999999999999999999999999999999", Some(-i64::MAX)),
            (b"", None),
            (b"\n", None),
            (b"five", None),
            (b"5kg", None),
            (b"--5", None),
            (b"0x", None),
            (b"- 5", None),
            (b"\xff\xfe5", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(number(text), wanted, "{text:?}");
        }
    }

    fn judged(number: i64, weight: i32, reverse: bool) -> Option<WeightChange> {
        let file = TrackedFile { path: "/x".into(), weight, reverse };
        judge(Content::Number(number), &file).ok().map(|(_, change)| change)
    }

    #[test]
    fn the_number_times_the_weight_is_added() {
        let adds = |delta| Some(WeightChange::Delta(delta));
        assert_eq!(judged(5, 1, false), adds(5));
        assert_eq!(judged(5, -2, false), adds(-10));
        assert_eq!(judged(5, 2, true), adds(-10));
        assert_eq!(judged(0, 1, true), adds(0));
        assert_eq!(judged(i64::MAX, 2, false), adds(2_147_483_647));
        assert_eq!(judged(-2_147_483_647, 1, false), adds(-2_147_483_647));
    }

    #[test]
    fn what_a_fault_is() {
        assert_eq!(judged(-2_147_483_648, 1, false), None);
        assert_eq!(judged(2_147_483_648, 1, true), None);
        assert_eq!(judged(i64::MIN, i32::MAX, false), None);
        assert_eq!(judged(0, 0, false), Some(WeightChange::None));
        assert_eq!(judged(1, 0, false), None);
        assert_eq!(judged(-1, 0, false), None);
        assert_eq!(judged(0, 0, true), None);
        assert_eq!(judged(1, 0, true), Some(WeightChange::None));
    }

    #[test]
    fn what_is_not_there_counts_as_zero() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("long"), [b' '; 10_000]).unwrap();
        std::fs::write(path("late"), [[b' '; 200].as_slice(), b"7"].concat()).unwrap();
        std::fs::write(path("number"), "7\n").unwrap();
        nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let cases = [
            ("none", Content::NoFile),
            ("number/none", Content::NoFile),
            ("fifo", Content::NotAFile),
            (".", Content::NotAFile),
            ("long", Content::NoNumber),
            ("late", Content::NoNumber),
            ("number", Content::Number(7)),
        ];
        for (name, wanted) in cases {
            assert_eq!(read(&path(name)).unwrap(), wanted, "{name}");
        }
        let file = TrackedFile { path: "/x".into(), weight: 1, reverse: false };
        for content in [Content::NoFile, Content::NotAFile, Content::NoNumber] {
            assert_eq!(judge(content, &file).unwrap().1, WeightChange::Delta(0));
        }
        let file = TrackedFile { weight: 0, reverse: true, ..file };
        let verdict = Verdict::from(judge(Content::NoFile, &file).unwrap_err());
        let reason = "no such file, counts as 0: a fault, since 0 is one here".to_owned();
        assert_eq!(verdict, Verdict::Failure(Fault { phase: Phase::Status, reason }));
    }
}
