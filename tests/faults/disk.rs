//! A state directory that is full or read-only, and state files that nobody wrote.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::lab::wait::{output, until};
use crate::world::{CONFIG, World, both, rounds};

/// A small disk in a folder's place; gone with its handle.
struct Disk<'a>(&'a Path);

impl<'a> Disk<'a> {
    fn mount(at: &'a Path) -> Self {
        output(Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(at));
        Self(at)
    }

    fn fill(&self) {
        // A short write is a full disk.
        drop(fs::write(self.0.join("filler"), vec![0; 1 << 20]));
    }
}

/// A read-only one. Put over the other, since one that is being written cannot be made read-only.
fn read_only(at: &Path) -> Disk<'_> {
    output(Command::new("mount").args(["-t", "tmpfs", "-o", "ro", "tmpfs"]).arg(at));
    Disk(at)
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.0).status());
    }
}

#[test]
fn a_disk_that_is_full_or_read_only() {
    let world = World::new(CONFIG);
    let state = world.director.path("state");
    let disk = Disk::mount(&state);
    let mut daemon = world.director.start();
    let mut trial = world.trial("full and read-only state directory", both);
    let failures = |text: &str| text.matches("state file").count();
    for round in 0..rounds(2, 20) {
        for full in [true, false] {
            let before = failures(&world.director.log());
            let over = if full {
                disk.fill();
                None
            } else {
                Some(read_only(&state))
            };
            world.works(CONFIG, 4 + round % 5);
            // An order must be remembered: so the file is written, or cannot be.
            assert!(world.director.lvsd("weight 198.51.100.12:80 1").status.success());
            until("it is said", || failures(&world.director.log()) > before);
            daemon.kill();
            daemon = world.director.start();
            world.works(CONFIG, 5 + round % 5);
            drop(over);
            drop(fs::remove_file(state.join("filler")));
            drop(fs::remove_file(state.join("state.json")));
            assert!(world.director.lvsd("enable 198.51.100.12:80").status.success());
            until("it is written again", || state.join("state.json").exists());
            trial.survived(2);
        }
    }
    trial.end();
    drop(daemon);
}

/// Each byte where a file can end, and each byte that can be another, are in `src/runtime/remembered/tests.rs`:
/// here is what a start makes of some of them.
#[test]
fn a_state_file_that_nobody_wrote() {
    let world = World::new(CONFIG);
    let state = world.director.path("state/state.json");
    assert!(world.director.start().stop().success());
    let good = fs::read(&state).expect("it was written");
    let mut trial = world.trial("state file: cut, of another version, hostile", both);
    let cuts = usize::try_from(rounds(6, 200)).expect("few");
    let mut texts: Vec<Vec<u8>> = (0..cuts).map(|cut| good[..good.len() * cut / cuts].to_vec()).collect();
    let text = String::from_utf8(good).expect("JSON");
    texts.extend([
        text.replacen("\"version\":1", "\"version\":99", 1).into_bytes(),
        text.replace(": 1", ": 99999999999999999999").into_bytes(),
        vec![b'['; 1 << 20],
        vec![0xff; 4096],
        b"null".to_vec(),
    ]);
    for text in texts {
        fs::write(&state, text).expect("ours");
        world.director.start().kill();
        trial.survived(1);
    }
    for make in [
        |at: &Path| fs::create_dir(at),
        |at: &Path| symlink("/etc/passwd", at),
        |at: &Path| {
            output(Command::new("mkfifo").arg(at));
            Ok(())
        },
        |at: &Path| symlink("/dev/zero", at),
    ] {
        drop(fs::remove_file(&state));
        drop(fs::remove_dir(&state));
        make(&state).expect("ours");
        world.director.start().kill();
        trial.survived(1);
    }
    assert!(
        fs::read_to_string("/etc/passwd").expect("there").contains("root:"),
        "no link is written through"
    );
    drop(fs::remove_file(&state));
    let _daemon = world.director.start();
    world.works(CONFIG, 5);
    trial.end();
}
