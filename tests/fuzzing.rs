//! What fuzzing begins with and what it found, through the same functions as there: `fuzz/corpus` in a few
//! seconds, and inputs made from it, without instruments. A find that has been mended stays here for ever.

#![cfg(test)]

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use lvsd::fuzzing::{TARGETS, Target};

/// Of all targets together: the tree is no place for a grown corpus.
const MOST_FILES: usize = 400;
const MOST_BYTES: u64 = 1 << 20;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    paths.sort();
    paths
}

#[test]
fn every_file_of_the_corpus_is_read() {
    let mut failed = Vec::new();
    for target in TARGETS {
        let files = entries(&corpus().join(target.name));
        assert!(files.len() >= 4, "{}: {} files to begin with", target.name, files.len());
        for file in files {
            let bytes = fs::read(&file).expect("it can be read");
            // Its own message and place are above, in what the test has printed.
            if catch_unwind(|| (target.run)(&bytes)).is_err() {
                failed.push(file.display().to_string());
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Of each target; the same inputs in every run, so that a find here is one that every machine has.
const MADE: u64 = 500;
/// No input may take this long, even on a busy machine and without optimisation.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn inputs_made_from_the_corpus_are_read() {
    let (ends, ended) = channel();
    let worker = std::thread::spawn(move || {
        let mut failed = Vec::new();
        for target in TARGETS {
            let seeds: Vec<Vec<u8>> = entries(&corpus().join(target.name))
                .iter()
                .map(|file| fs::read(file).expect("it is there"))
                .collect();
            for number in 0..MADE {
                let input = made(&seeds, number);
                // Kept before it is read: whoever looks for one that hangs finds it.
                let kept = keep(target, &input);
                if catch_unwind(|| (target.run)(&input)).is_err() {
                    failed.push(format!("{} of run {number}", kept.display()));
                    break;
                }
                ends.send(()).expect("the test waits");
            }
        }
        failed
    });
    loop {
        match ended.recv_timeout(PATIENCE) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("one of {} hangs", kept_in().display()),
        }
    }
    let failed = worker.join().expect("a panic of a reader is caught");
    assert!(failed.is_empty(), "{failed:#?}");
}

fn kept_in() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzzing")
}

/// The newest input of a target, as a file for `fuzz/corpus`.
fn keep(target: Target, input: &[u8]) -> PathBuf {
    fs::create_dir_all(kept_in()).expect("cargo's own folder");
    let path = kept_in().join(target.name);
    fs::write(&path, input).expect("cargo's own folder");
    path
}

/// A few changes of one seed: what transmission, malice and editors do to bytes.
fn made(seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number);
    let mut bytes = random.choice(seeds).cloned().unwrap_or_default();
    for _ in 0..random.u8(1..8) {
        let (from, to) = (random.usize(..=bytes.len()), random.usize(..=bytes.len()));
        let range = from.min(to)..from.max(to);
        match random.u8(..7) {
            0 => bytes.truncate(from),
            1 => drop(bytes.drain(range)),
            2 => {
                let again = bytes[range.clone()].to_vec();
                bytes.splice(range.start..range.start, again);
            }
            3 => {
                let other = random.choice(seeds).cloned().unwrap_or_default();
                let at = random.usize(..=other.len());
                bytes.splice(from.., other[at..].iter().copied());
            }
            4 => {
                const WORDS: [&[u8]; 8] = [
                    b"\0",
                    b"\xff\xff\xff\xff",
                    b"\r\n",
                    b"\"",
                    b"-1",
                    b"18446744073709551616",
                    b"\xf0\x9f\x92\xa9",
                    b"{",
                ];
                bytes.splice(from..from, random.choice(WORDS).unwrap_or_default().iter().copied());
            }
            _ => {
                if let Some(byte) = bytes.get_mut(from) {
                    *byte ^= 1 << random.u8(..8);
                }
            }
        }
    }
    bytes
}

#[test]
fn each_target_has_its_folder_and_all_are_small() {
    let names: BTreeSet<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names.len(), TARGETS.len());
    let folders = entries(&corpus());
    let found = folders.iter().filter_map(|folder| folder.file_name()?.to_str()).collect::<BTreeSet<_>>();
    assert_eq!(found, names);
    let files: Vec<PathBuf> = folders.iter().flat_map(|folder| entries(folder)).collect();
    let bytes: u64 = files.iter().map(|file| file.metadata().expect("it is there").len()).sum();
    assert!(files.len() < MOST_FILES && bytes < MOST_BYTES, "{} files, {bytes} bytes", files.len());
}
