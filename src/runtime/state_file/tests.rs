//! The file on a real disk: whole or not at all, private, and never somebody else's.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;

use tempfile::TempDir;

use super::*;
use crate::engine::memory::RememberedVirtualServer;
use crate::runtime::testing::{tcp, within};

mod large;

struct Place {
    directory: TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        Self { path: directory.path().join("state.json"), directory }
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn temporary(&self) -> PathBuf {
        self.path.with_file_name(".state.json.new")
    }

    fn read(&self) -> State {
        read(&self.path, clock::now()).unwrap().unwrap()
    }
}

/// A state that can be told from others by its number of owned services.
fn state(services: u16) -> State {
    State {
        memory: Memory { saved_at: Some(clock::now()), ..Memory::default() },
        owned: (1..=services).map(|port| tcp(&format!("192.0.2.10:{port}"))).collect(),
        announced: BTreeSet::new(),
        original_timeouts: None,
    }
}

fn save(file: &StateFile, state: &State) -> std::io::Result<()> {
    let (sender, mut answer) = tokio::sync::oneshot::channel();
    assert!(file.try_save(state.clone(), sender));
    within("the answer", || answer.try_recv().ok())
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

// -- writing --------------------------------------------------------------------------------

#[test]
fn what_is_saved_is_read_back() {
    let place = Place::new();
    assert!(read(&place.path, clock::now()).unwrap().is_none());
    let file = StateFile::spawn(place.path.clone(), &Breaks::default()).unwrap();
    for services in [3, 0, 500] {
        let state = state(services);
        save(&file, &state).unwrap();
        assert_eq!(place.read(), state);
        assert_eq!(mode(&place.path), 0o600);
        assert_eq!(place.names(), ["state.json"], "nothing is left beside it");
    }
    file.finish();
}

/// Whoever opened the old file reads it to its end: the new one is another file.
#[test]
fn a_file_is_replaced_not_rewritten() {
    let place = Place::new();
    let file = StateFile::spawn(place.path.clone(), &Breaks::default()).unwrap();
    save(&file, &state(1)).unwrap();
    let (before, old) = (fs::read_to_string(&place.path).unwrap(), File::open(&place.path).unwrap());
    save(&file, &state(100)).unwrap();
    assert_eq!(std::io::read_to_string(old).unwrap(), before);
    assert_eq!(place.read().owned.len(), 100);
    file.finish();
}

#[test]
fn a_reader_never_sees_half_a_file() {
    let place = Place::new();
    let file = StateFile::spawn(place.path.clone(), &Breaks::default()).unwrap();
    save(&file, &state(1)).unwrap();
    let writing = std::thread::spawn(move || {
        for round in 0..100 {
            save(&file, &state(if round % 2 == 0 { 2000 } else { 1 })).unwrap();
            file.renew(clock::now());
        }
        file.finish();
    });
    while !writing.is_finished() {
        assert!([1, 2000].contains(&place.read().owned.len()));
    }
    writing.join().unwrap();
}

#[test]
fn a_loose_mode_is_tightened() {
    let place = Place::new();
    fs::write(&place.path, "old").unwrap();
    fs::set_permissions(&place.path, fs::Permissions::from_mode(0o666)).unwrap();
    let file = StateFile::spawn(place.path.clone(), &Breaks::default()).unwrap();
    save(&file, &state(1)).unwrap();
    assert_eq!(mode(&place.path), 0o600);
    file.finish();
}

#[test]
fn links_in_the_way_are_replaced_not_followed() {
    let place = Place::new();
    let precious = place.directory.path().join("precious");
    fs::write(&precious, "data").unwrap();
    symlink(&precious, place.temporary()).unwrap();
    symlink(&precious, &place.path).unwrap();
    let file = StateFile::spawn(place.path.clone(), &Breaks::default()).unwrap();
    save(&file, &state(2)).unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "data");
    assert_eq!(place.read().owned.len(), 2);
    assert_eq!(place.names(), ["precious", "state.json"]);
    assert!(fs::symlink_metadata(&place.path).unwrap().is_file());
    file.finish();
}

#[test]
fn a_temporary_file_that_a_killed_daemon_left_is_no_obstacle() {
    let place = Place::new();
    fs::write(place.temporary(), "half a sta").unwrap();
    fs::set_permissions(place.temporary(), fs::Permissions::from_mode(0o644)).unwrap();
    let file = StateFile::spawn(place.path.clone(), &Breaks::default()).unwrap();
    save(&file, &state(2)).unwrap();
    assert_eq!((place.read().owned.len(), mode(&place.path)), (2, 0o600));
    assert_eq!(place.names(), ["state.json"]);
    file.finish();
}

#[test]
fn a_file_is_written_beside_the_daemon_without_a_directory_in_its_name() {
    let place = Place::new();
    // The child's working directory is the place; the parent's belongs to all tests.
    let name =
        "runtime::state_file::tests::a_file_is_written_beside_the_daemon_without_a_directory_in_its_name";
    if std::env::var_os("LVSD_TEST_CHILD").is_some() {
        let file = StateFile::spawn(PathBuf::from("state.json"), &Breaks::default()).unwrap();
        save(&file, &state(2)).unwrap();
        return file.finish();
    }
    run_child(Command::new(std::env::current_exe().unwrap()).args(["--exact", name]), &place);
    assert_eq!(place.read().owned.len(), 2);
}

// -- failures -------------------------------------------------------------------------------

#[test]
fn a_directory_that_is_not_there_or_cannot_be_written_is_an_error() {
    let place = Place::new();
    fs::write(place.directory.path().join("file"), "").unwrap();
    let impossible = ["nowhere/state.json", "file/state.json"].map(|path| place.directory.path().join(path));
    // Not even root makes files in there.
    for path in impossible.into_iter().chain([PathBuf::from("/proc/self/state.json")]) {
        let file = StateFile::spawn(path.clone(), &Breaks::default()).unwrap();
        assert!(save(&file, &state(1)).is_err(), "{}", path.display());
        file.finish();
    }
}

#[test]
fn a_directory_that_comes_back_is_written_again() {
    let place = Place::new();
    let directory = place.directory.path().join("late");
    let path = directory.join("state.json");
    let file = StateFile::spawn(path.clone(), &Breaks::default()).unwrap();
    assert_eq!(save(&file, &state(1)).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    fs::create_dir(&directory).unwrap();
    save(&file, &state(2)).unwrap();
    assert_eq!(read(&path, clock::now()).unwrap().unwrap().owned.len(), 2);
    file.finish();
}

#[test]
fn what_cannot_be_put_out_of_the_way_is_an_error_and_stays() {
    let place = Place::new();
    let file = StateFile::spawn(place.path.clone(), &Breaks::default()).unwrap();
    save(&file, &state(1)).unwrap();
    fs::create_dir(place.temporary()).unwrap();
    assert!(save(&file, &state(2)).is_err());
    assert_eq!(place.read().owned.len(), 1);
    fs::remove_dir(place.temporary()).unwrap();
    // A directory under the file's own name: rename(2) refuses, and the new file is taken away again.
    fs::remove_file(&place.path).unwrap();
    fs::create_dir(&place.path).unwrap();
    assert!(save(&file, &state(2)).is_err());
    assert_eq!(place.names(), ["state.json"]);
    file.finish();
}

/// A limit of the file's size stands for a disk that is full: write(2) fails half way through.
#[test]
fn a_full_disk_is_an_error_and_the_old_file_stays() {
    let name = "runtime::state_file::tests::a_full_disk_is_an_error_and_the_old_file_stays";
    let place = Place::new();
    if std::env::var_os("LVSD_TEST_CHILD").is_some() {
        let place = Place { path: PathBuf::from("state.json"), ..place };
        let file = StateFile::spawn(place.path.clone(), &Breaks::default()).unwrap();
        let small = state(2);
        save(&file, &small).unwrap();
        let text = fs::read_to_string(&place.path).unwrap();
        let error = save(&file, &state(5000)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(nix::libc::EFBIG), "{error}");
        file.renew(clock::now());
        save(&file, &state(5000)).unwrap_err();
        assert_eq!(fs::read_to_string(&place.path).unwrap(), text, "what is not current is not stamped");
        save(&file, &state(3)).unwrap();
        return file.finish();
    }
    // Shells count in blocks of 512 or of 1024 bytes.
    let limited = "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", limited]).arg(std::env::current_exe().unwrap()).args(["--exact", name]);
    run_child(&mut command, &place);
    assert_eq!(place.read().owned.len(), 3);
    assert_eq!(place.names(), ["state.json"], "no half of a file is left");
}

/// Runs one test of this program again, in another world.
fn run_child(command: &mut Command, place: &Place) {
    command.env("LVSD_TEST_CHILD", "1").current_dir(place.directory.path());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

// -- the stamp ------------------------------------------------------------------------------

#[test]
fn renewing_changes_the_stamp_in_place_and_nothing_else() {
    let place = Place::new();
    let file = StateFile::spawn(place.path.clone(), &Breaks::default()).unwrap();
    file.renew(clock::now());
    let old = state(3);
    save(&file, &old).unwrap();
    assert_eq!(place.read(), old, "before the first state there is nothing to renew");
    let inode = fs::metadata(&place.path).unwrap().ino();
    let later = clock::now();
    file.renew(later);
    file.finish();
    assert_eq!(fs::metadata(&place.path).unwrap().ino(), inode);
    let renewed = place.read();
    assert_eq!(renewed.memory.saved_at, Some(later));
    assert_eq!(State { memory: old.memory.clone(), ..renewed }, old);
    assert_eq!(place.names(), ["state.json"]);
}

/// The disk is full, and the verdicts in the file are those of before: a start must not take them for
/// those of now.
#[test]
fn a_file_that_could_not_be_replaced_is_not_renewed() {
    let place = Place::new();
    let file = StateFile::spawn(place.path.clone(), &Breaks::default()).unwrap();
    let old = state(1);
    save(&file, &old).unwrap();
    fs::create_dir(place.temporary()).unwrap();
    assert!(save(&file, &state(2)).is_err());
    file.renew(clock::now());
    file.finish();
    assert_eq!(place.read(), old);
}

// -- reading --------------------------------------------------------------------------------

#[test]
fn a_file_of_another_boot_has_no_age_and_owns_nothing() {
    let place = Place::new();
    let pool = RememberedVirtualServer {
        name: "web".to_owned(),
        services: vec![tcp("192.0.2.10:80")],
        quorum_up: true,
        since: None,
        real_servers: vec![],
    };
    let mut state = state(3);
    state.memory.virtual_servers.push(pool.clone());
    fs::write(&place.path, remembered::render(&state, "another").text).unwrap();
    let read = place.read();
    assert_eq!(read.memory, Memory { virtual_servers: vec![pool], ..Memory::default() });
    assert!(read.owned.is_empty());
}

#[test]
fn what_is_no_state_is_an_error_that_names_the_file() {
    let place = Place::new();
    let complaint = || read(&place.path, clock::now()).unwrap_err().to_string();
    let path = place.path.display();
    for text in ["", "{}", "not JSON", "[1]"] {
        fs::write(&place.path, text).unwrap();
        assert!(complaint().starts_with(&format!("state file {path} is not usable: ")), "{}", complaint());
    }
    fs::write(&place.path, b"\xff\xfe").unwrap();
    assert!(complaint().starts_with(&format!("cannot read state file {path}: ")), "{}", complaint());
    fs::remove_file(&place.path).unwrap();
    fs::create_dir(&place.path).unwrap();
    assert!(complaint().starts_with(&format!("cannot read state file {path}: ")), "{}", complaint());
}

#[test]
fn links_pipes_and_endless_files_are_refused_without_waiting() {
    let place = Place::new();
    let real = place.directory.path().join("real");
    fs::write(&real, remembered::render(&state(1), &clock::boot_id()).text).unwrap();
    symlink(&real, &place.path).unwrap();
    assert!(matches!(read(&place.path, clock::now()), Err(StateError::Unreadable { .. })));
    fs::remove_file(&place.path).unwrap();
    nix::unistd::mkfifo(&place.path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(read(&place.path, clock::now()), Err(StateError::Malformed { .. })));
    fs::remove_file(&place.path).unwrap();
    // Sparse, and larger than anything that is read.
    File::create(&place.path).unwrap().set_len(u64::from(u32::MAX)).unwrap();
    let refused = read(&place.path, clock::now()).unwrap_err().to_string();
    assert!(refused.ends_with("it is larger than 512 MiB"), "{refused}");
}

// -- the queue ------------------------------------------------------------------------------

#[test]
fn a_disk_that_does_not_answer_fills_a_short_queue_and_blocks_nobody() {
    let place = Place::new();
    let (file, gate) = StateFile::gated(place.path.clone());
    let mut answers = Vec::new();
    for services in 0..20 {
        let (sender, answer) = tokio::sync::oneshot::channel();
        if file.try_save(state(services), sender) {
            answers.push((services, answer));
        } else {
            file.renew(clock::now());
        }
    }
    assert!((1..10).contains(&answers.len()), "{}", answers.len());
    assert!(answers.iter_mut().all(|(_, answer)| answer.try_recv().is_err()));
    drop(gate);
    let last = answers.last().unwrap().0;
    for (_, mut answer) in answers {
        within("each is answered", || answer.try_recv().ok()).unwrap();
    }
    file.finish();
    assert_eq!(place.read().owned.len(), usize::from(last), "in order");
}

#[test]
fn a_thread_that_breaks_off_is_begun_anew_and_writes_what_comes_then() {
    let (place, breaks) = (Place::new(), Breaks::default());
    let file = StateFile::spawn(place.path.clone(), &breaks).unwrap();
    save(&file, &state(1)).unwrap();
    let (sender, mut answer) = tokio::sync::oneshot::channel();
    file.sender.send(Job::Break(sender)).unwrap();
    let lost = within("the end of the answer", || match answer.try_recv() {
        Err(tokio::sync::oneshot::error::TryRecvError::Empty) => None,
        other => Some(other),
    });
    assert!(lost.is_err(), "who waited for it hears that nobody will");
    // A stamp would make the verdicts of a file current that a later state should have replaced.
    file.renew(Time::from_nanos(u64::MAX));
    save(&file, &state(2)).unwrap();
    let now = clock::now();
    assert!(place.read().memory.saved_at.is_some_and(|at| at <= now), "not stamped");
    assert_eq!(place.read().owned.len(), 2);
    file.finish();
    assert!(breaks.counts().eq(Part::ALL.map(|part| (part, u64::from(part == Part::StateFile)))));
}
