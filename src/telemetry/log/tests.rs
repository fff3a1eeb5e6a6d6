//! The whole way from an event to its reader, and readers that do not read.

use std::os::unix::net::UnixDatagram;
use std::sync::mpsc;

use tracing::subscriber::with_default;
use tracing::{debug, info, info_span, warn};

use super::*;
use crate::anew::Part;

const LONG: Duration = Duration::from_secs(60);

/// A stream that hands what is written to the test, when the test takes it.
struct Pipe(mpsc::SyncSender<Vec<u8>>);

impl io::Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn pipe(room: usize) -> (Sink, mpsc::Receiver<Vec<u8>>) {
    let (sender, receiver) = mpsc::sync_channel(room);
    (Sink::Stream(Box::new(Pipe(sender))), receiver)
}

fn lines(receiver: &mpsc::Receiver<Vec<u8>>) -> Vec<String> {
    receiver.try_iter().map(|line| String::from_utf8(line).unwrap()).collect()
}

struct Journal {
    socket: UnixDatagram,
    directory: tempfile::TempDir,
}

impl Journal {
    fn new() -> (Self, Sink) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        (Self { socket, directory }, Sink::Journal { path })
    }

    fn entry(&self) -> String {
        let mut buffer = vec![0; format::MAX_ENTRY];
        let length = self.socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }
}

#[test]
fn an_event_reaches_the_journal_with_the_fields_of_its_spans() {
    let (journal, sink) = Journal::new();
    let (subscriber, log) = build("info", Format::Journal, sink).unwrap();
    with_default(subscriber, || {
        let span = info_span!("pool", virtual_server = "web", quorum = tracing::field::Empty);
        let _in_span = span.enter();
        span.record("quorum", "up");
        let error = std::num::ParseIntError::clone(&"x".parse::<u8>().unwrap_err());
        warn!(real_server = %"198.51.100.11:80", check = "tcp", error = &error as &dyn std::error::Error, "{} down", "real server");
    });
    let entry = journal.entry();
    for line in [
        "PRIORITY=4",
        "SYSLOG_IDENTIFIER=lvsd",
        "VIRTUAL_SERVER=web",
        "QUORUM=up",
        "REAL_SERVER=198.51.100.11:80",
        "CHECK=tcp",
        "ERROR=invalid digit found in string",
        "CODE_FILE=src/telemetry/log/tests.rs",
        "MESSAGE=real server down",
    ] {
        assert!(entry.lines().any(|l| l == line), "{line}\nin\n{entry}");
    }
    assert!(log.flush(LONG));
    assert_eq!(log.lost(), 0);
}

#[test]
fn the_filter_can_be_changed_while_running() {
    let (sink, receiver) = pipe(100);
    let (subscriber, log) = build("info", Format::Plain, sink).unwrap();
    with_default(subscriber, || {
        debug!("hidden");
        log.set_filter("debug").unwrap();
        debug!("shown");
        let error = log.set_filter("lvsd=loud").unwrap_err().to_string();
        assert!(error.starts_with("log filter \"lvsd=loud\": "), "{error}");
        debug!("still shown");
        log.set_filter("warn").unwrap();
        info!("hidden again");
    });
    assert!(log.flush(LONG));
    let messages: Vec<String> =
        lines(&receiver).iter().map(|l| l.trim_end().split("DEBUG ").nth(1).unwrap().to_owned()).collect();
    assert_eq!(messages, ["shown", "still shown"]);
}

#[test]
fn a_reader_that_stops_delays_nobody_and_the_loss_is_told_once() {
    let (sink, receiver) = pipe(0);
    let (subscriber, log) = build("info", Format::Plain, sink).unwrap();
    with_default(subscriber, || {
        // Nobody reads: all of this returns.
        for n in 0..20_000 {
            info!("line {n}");
        }
        assert!(!log.flush(Duration::from_millis(50)));
        let lost = log.lost();
        // The queue and the one in the writer's hands.
        assert!((9_998..=10_000).contains(&lost), "{lost}");
        let mut told = Vec::new();
        let mut seen = 0;
        while seen + lost < 20_000 || told.is_empty() {
            let line = String::from_utf8(receiver.recv_timeout(LONG).unwrap()).unwrap();
            if line.contains("lost") {
                told.push(line);
            } else {
                seen += 1;
            }
        }
        assert_eq!(told.len(), 1);
        assert!(told[0].ends_with(&format!("WARN  {lost} log lines lost\n")), "{told:?}");
        info!("after");
        assert!(receiver.recv_timeout(LONG).unwrap().ends_with(b"INFO  after\n"));
        assert!(log.flush(LONG));
        assert!(receiver.try_recv().is_err());
    });
}

#[test]
fn the_queue_is_bounded_in_bytes_too() {
    let (sink, receiver) = pipe(0);
    let (subscriber, log) = build("info", Format::Plain, sink).unwrap();
    with_default(subscriber, || {
        let long = "x".repeat(16_000);
        for _ in 0..1000 {
            info!("{long}");
        }
    });
    assert!(log.lost() > 400, "{}", log.lost());
    // A reader that is gone must not hold up the end.
    drop(receiver);
}

#[test]
fn a_full_journal_delays_nobody() {
    let (journal, sink) = Journal::new();
    let (subscriber, log) = build("info", Format::Journal, sink).unwrap();
    with_default(subscriber, || {
        for n in 0..20_000 {
            info!(n, "line");
        }
    });
    assert!(!log.flush(Duration::from_millis(50)));
    assert!(log.lost() > 5_000);
    let lost = log.lost();
    let mut told = Vec::new();
    let mut seen = 0;
    while seen + lost < 20_000 || told.is_empty() {
        let entry = journal.entry();
        if entry.contains("\nLOST=") {
            told.push(entry);
        } else {
            seen += 1;
        }
    }
    assert_eq!(told.len(), 1);
    assert!(told[0].contains(&format!("\nMESSAGE={lost} log lines lost\n")), "{told:?}");
    assert!(log.flush(LONG));
}

#[test]
fn a_journal_that_comes_back_is_written_to_again() {
    let (journal, sink) = Journal::new();
    let path = journal.directory.path().join("socket");
    drop(journal.socket);
    let (subscriber, log) = build("info", Format::Journal, sink).unwrap();
    with_default(subscriber, || {
        info!("while it restarts");
        assert!(!log.flush(Duration::from_millis(50)));
        std::fs::remove_file(&path).unwrap();
        let again = Journal { socket: UnixDatagram::bind(&path).unwrap(), directory: journal.directory };
        again.socket.set_read_timeout(Some(LONG)).unwrap();
        assert!(again.entry().contains("MESSAGE=while it restarts\n"));
        // Gone for longer than the writer's patience: counted, and told afterwards.
        drop(again.socket);
        std::fs::remove_file(&path).unwrap();
        info!("lost one");
        assert!(log.flush(LONG));
        assert_eq!(log.lost(), 1);
        let back = UnixDatagram::bind(&path).unwrap();
        back.set_read_timeout(Some(LONG)).unwrap();
        let back = Journal { socket: back, directory: again.directory };
        info!("here again");
        assert!(back.entry().contains("MESSAGE=here again\n"));
        assert!(back.entry().contains("MESSAGE=1 log line lost\n"));
    });
}

#[test]
fn the_environment_decides_where_it_goes() {
    let format = |wanted| destination(wanted).map(|(format, sink)| (format, format!("{sink:?}")));
    assert_eq!(format(Some("json")).unwrap(), (Format::Json, "Stream".into()));
    assert_eq!(format(Some("journal")).unwrap(), (Format::Journal, format!("Journal({JOURNAL_SOCKET:?})")));
    assert_eq!(
        format(Some("xml")).unwrap_err().to_string(),
        "LVSD_LOG_FORMAT=\"xml\": json, plain and journal are known"
    );
    let stderr = fstat(io::stderr()).unwrap();
    assert!(stderr_is_journal(Some(&format!("{}:{}", stderr.st_dev, stderr.st_ino))));
    for other in [None, Some(""), Some("1"), Some("x:y")] {
        assert!(!stderr_is_journal(other));
    }
    assert!(!stderr_is_journal(Some(&format!("{}:{}", stderr.st_dev, stderr.st_ino.wrapping_add(1)))));
}

#[test]
fn a_thread_that_breaks_off_is_begun_anew_and_loses_the_one_record_that_broke_it() {
    let (sender, written) = mpsc::channel();
    let fragile = Fragile(sender);
    let (subscriber, log) = build("info", Format::Plain, Sink::Stream(Box::new(fragile))).unwrap();
    let breaks = log.breaks().clone();
    with_default(subscriber, || {
        info!("one");
        info!("{}", Fragile::POISON);
        info!("two");
        while breaks.counts().all(|(_, count)| count == 0) {
            std::thread::yield_now();
        }
        info!("three");
        assert!(log.flush(LONG));
    });
    let lines: Vec<String> = written.try_iter().collect();
    let has = |text: &str| lines.iter().any(|line| line.contains(text));
    assert!(has("one") && has("two") && has("three") && has("1 log line lost"), "{lines:?}");
    assert_eq!(log.lost(), 1);
    assert!(breaks.counts().eq(Part::ALL.map(|part| (part, u64::from(part == Part::Log)))));
}

/// Each would pause it for longer than the one before.
#[test]
fn whoever_waits_for_the_last_lines_does_not_wait_for_a_thread_that_pauses() {
    let (sender, written) = mpsc::channel();
    let (subscriber, log) = build("info", Format::Plain, Sink::Stream(Box::new(Fragile(sender)))).unwrap();
    let before = std::time::Instant::now();
    with_default(subscriber, || {
        (0..5).for_each(|_| info!("{}", Fragile::POISON));
        info!("the last");
        assert!(log.flush(Duration::from_secs(20)), "the pauses alone would be 1 + 2 + 4 + 8 + 16 s");
    });
    assert!(before.elapsed() < Duration::from_secs(20));
    assert!(written.try_iter().any(|line| line.contains("the last")));
    assert_eq!(log.lost(), 5);
}

/// A stream that one text breaks.
struct Fragile(mpsc::Sender<String>);

impl Fragile {
    const POISON: &str = "poison";
}

impl io::Write for Fragile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        assert!(!text.contains(Self::POISON), "broken on purpose");
        self.0.send(text).unwrap();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
