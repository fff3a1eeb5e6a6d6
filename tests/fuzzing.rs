//! What fuzzing begins with and what it found, through the same functions as there: `fuzz/corpus` in a few
//! seconds, without instruments. A find that has been mended stays here for ever.

#![cfg(test)]

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use lvsd::fuzzing::TARGETS;

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
