//! Real pipes with real readers. Nothing waits for a time, all wait for a condition with a bound.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;

use nix::libc::O_NONBLOCK;
use tokio::time::sleep;

use super::*;
use crate::notify::testing::until;

const LONG: Duration = Duration::from_secs(30);

struct Scene {
    directory: tempfile::TempDir,
    asking: Arc<Notify>,
    breaks: Breaks,
}

impl Scene {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), asking: Arc::default(), breaks: Breaks::default() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("events")
    }

    fn start(&self) -> Fifo {
        Fifo::start(&Handle::current(), self.path(), None, Arc::clone(&self.asking), &self.breaks)
    }

    async fn made(&self) {
        until("the FIFO is made", || self.path().exists()).await;
    }

    fn reader(&self) -> Reader {
        let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(self.path()).unwrap();
        Reader { file, text: String::new() }
    }

    /// What the supervisor does when it is asked.
    async fn answer(&self, fifo: &Fifo, state: &str) {
        timeout(LONG, async {
            // An older ring may be left over.
            while !fifo.wants_state() {
                self.asking.notified().await;
            }
            fifo.show(state.to_owned());
        })
        .await
        .unwrap();
    }
}

struct Reader {
    file: File,
    text: String,
}

impl Reader {
    /// Takes what there is; false at the end.
    fn take(&mut self) -> bool {
        let mut buffer = [0; 4096];
        match self.file.read(&mut buffer) {
            Ok(0) => false,
            Ok(length) => {
                self.text.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                true
            }
        }
    }

    async fn wait_for(&mut self, wanted: &str) {
        until(wanted, || {
            self.take();
            self.text == wanted
        })
        .await;
    }

    async fn wait_for_end(&mut self) {
        until("the end", || !self.take()).await;
    }
}

/// Programs that start after the daemon open the FIFO at once.
#[tokio::test]
async fn once_opened_it_is_there_or_it_is_said_why_not() {
    let scene = Scene::new();
    let fifo = scene.start();
    fifo.opened(LONG).await;
    assert!(scene.path().exists());

    let nowhere = scene.directory.path().join("missing").join("events");
    let impossible = Fifo::start(&Handle::current(), nowhere, None, Arc::clone(&scene.asking), &scene.breaks);
    timeout(LONG, impossible.opened(2 * LONG)).await.unwrap();
}

#[tokio::test]
async fn each_reader_is_told_the_state_and_then_what_happens() {
    let scene = Scene::new();
    let fifo = scene.start();
    scene.made().await;
    fifo.tell("nobody reads\n".to_owned());
    for round in ["first", "second"] {
        let mut reader = scene.reader();
        scene.answer(&fifo, &format!("{round} state\n")).await;
        fifo.tell("line\n".to_owned());
        reader.wait_for(&format!("{round} state\nline\n")).await;
        drop(reader);
        until("nobody reads", || !fifo.is_followed()).await;
        fifo.tell("nobody reads\n".to_owned());
    }
    assert_eq!(fifo.dropped(), 0);
}

#[tokio::test]
async fn a_reader_that_follows_another_without_a_gap_is_told_the_state_too() {
    let scene = Scene::new();
    let fifo = scene.start();
    scene.made().await;
    let mut first = scene.reader();
    scene.answer(&fifo, "state\n").await;
    first.wait_for("state\n").await;
    let mut second = scene.reader();
    drop(first);
    scene.answer(&fifo, "state again\n").await;
    second.wait_for("state again\n").await;
}

#[tokio::test]
async fn a_reader_that_blocks_in_open_is_found() {
    let scene = Scene::new();
    let fifo = scene.start();
    scene.made().await;
    let path = scene.path();
    let reading = tokio::task::spawn_blocking(move || fs::read_to_string(path).unwrap());
    scene.answer(&fifo, "state\n").await;
    fifo.tell("line\n".to_owned());
    fifo.finish(LONG).await;
    assert_eq!(reading.await.unwrap(), "state\nline\n");
    assert!(!scene.path().exists());
}

#[tokio::test]
async fn a_reader_that_stops_costs_the_oldest_lines_and_is_told_the_state_when_it_goes_on() {
    let scene = Scene::new();
    let fifo = scene.start();
    scene.made().await;
    let mut reader = scene.reader();
    scene.answer(&fifo, "state\n").await;
    reader.wait_for("state\n").await;
    // Far more than a pipe of 64 KiB and the backlog hold.
    for n in 0..300 {
        for m in 0..100 {
            fifo.tell(format!("line {:05} of some length\n", n * 100 + m));
        }
        tokio::task::yield_now().await;
    }
    let dropped = fifo.dropped();
    assert!((1..30_000).contains(&dropped), "{dropped}");
    until("it goes on", || {
        reader.take();
        fifo.wants_state()
    })
    .await;
    fifo.show("fresh state\n".to_owned());
    until("the fresh state", || {
        reader.take();
        reader.text.ends_with("fresh state\n")
    })
    .await;
    let numbers: Vec<usize> =
        reader.text.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse().ok()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b));
    assert_eq!(numbers.last(), Some(&29_999));
    assert_eq!(numbers.len() as u64, 30_000 - dropped);
    assert!(reader.text.lines().all(|line| line.ends_with("state") || line.ends_with(" of some length")));
}

#[tokio::test]
async fn a_long_state_comes_whole() {
    let scene = Scene::new();
    let fifo = scene.start();
    scene.made().await;
    let mut reader = scene.reader();
    let state: String =
        (0..20_000).map(|n| format!("RS [198.51.100.11]:tcp:{n} [192.0.2.10]:tcp:80 UP\n")).collect();
    scene.answer(&fifo, &(state.clone() + &"x".repeat(10_000) + "\n")).await;
    reader.wait_for(&(state + &"x".repeat(10_000) + "\n")).await;
}

#[tokio::test]
async fn one_that_is_deleted_is_made_anew_and_its_reader_sees_the_end() {
    let scene = Scene::new();
    let fifo = scene.start();
    scene.made().await;
    let mut reader = scene.reader();
    scene.answer(&fifo, "state\n").await;
    reader.wait_for("state\n").await;
    fs::remove_file(scene.path()).unwrap();
    reader.wait_for_end().await;
    scene.made().await;
    let mut reader = scene.reader();
    scene.answer(&fifo, "new state\n").await;
    reader.wait_for("new state\n").await;
}

#[tokio::test]
async fn the_end_is_bounded_and_takes_away_what_was_made_only() {
    let scene = Scene::new();
    let fifo = scene.start();
    scene.made().await;
    let _stopped = scene.reader();
    scene.answer(&fifo, &"a line of some length\n".repeat(10_000)).await;
    fifo.finish(Duration::from_millis(100)).await;
    assert!(!scene.path().exists());
    nix::unistd::mkfifo(&scene.path(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let fifo = scene.start();
    let _reader = scene.reader();
    scene.answer(&fifo, "state\n").await;
    fifo.finish(LONG).await;
    assert!(scene.path().exists());
}

#[tokio::test]
async fn what_is_no_fifo_is_left_alone_and_does_not_stay_a_problem() {
    let scene = Scene::new();
    fs::write(scene.path(), "precious").unwrap();
    let fifo = scene.start();
    sleep(SEARCH).await;
    assert_eq!(fs::read_to_string(scene.path()).unwrap(), "precious");
    fs::remove_file(scene.path()).unwrap();
    scene.made().await;
    let mut reader = scene.reader();
    scene.answer(&fifo, "state\n").await;
    reader.wait_for("state\n").await;
}

#[tokio::test]
async fn a_task_that_breaks_off_is_begun_anew_and_its_readers_are_served_again() {
    let scene = Scene::new();
    let fifo = scene.start();
    scene.made().await;
    for round in 1..=2 {
        let mut reader = scene.reader();
        scene.answer(&fifo, "state\n").await;
        reader.wait_for("state\n").await;
        fifo.shared.sabotage.store(true, std::sync::atomic::Ordering::Relaxed);
        drop(reader);
        let broken = || scene.breaks.counts().find_map(|(part, count)| (part == Part::Fifo).then_some(count));
        until("it breaks", || broken() == Some(round)).await;
        fifo.tell("nobody reads\n".to_owned());
    }
    let mut reader = scene.reader();
    scene.answer(&fifo, "state after it\n").await;
    fifo.tell("line\n".to_owned());
    reader.wait_for("state after it\nline\n").await;
    fifo.finish(LONG).await;
    assert!(!scene.path().exists(), "it is known still who made it");
}

#[tokio::test]
async fn the_end_of_the_daemon_does_not_wait_for_a_task_that_pauses() {
    let scene = Scene::new();
    let fifo = scene.start();
    scene.made().await;
    for round in 1..=3 {
        fifo.shared.sabotage.store(true, std::sync::atomic::Ordering::Relaxed);
        let broken = || scene.breaks.counts().find_map(|(part, count)| (part == Part::Fifo).then_some(count));
        until("it breaks", || broken() == Some(round)).await;
    }
    let before = Instant::now();
    fifo.finish(LONG).await;
    let took = before.elapsed();
    assert!(took < Duration::from_secs(3), "it would have paused for four seconds: {took:?}");
    assert!(!scene.path().exists());
}
