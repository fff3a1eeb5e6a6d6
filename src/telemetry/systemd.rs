//! What the service manager is told: READY, RELOADING, STATUS, WATCHDOG, STOPPING.
//!
//! sd-notify words the messages; the socket is ours, because its `notify` blocks while the
//! manager's queue is full, and a slow reader must not stop the supervisor. A message that
//! cannot be sent now waits here and goes out, in order, with the next call. Nothing fails:
//! a daemon that does its work is worth more than one that could say so.

use std::collections::VecDeque;
use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use sd_notify::NotifyState;

/// More than one reload's worth; the newest word is what counts.
const MAX_PENDING: usize = 16;

/// Our end of `$NOTIFY_SOCKET`; without one every call does nothing.
#[derive(Debug)]
pub struct ServiceManager {
    peer: Option<(UnixDatagram, SocketAddr)>,
    pending: VecDeque<Message>,
    watchdog: Option<Duration>,
    lost: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    topic: Topic,
    text: String,
}

/// Of a status or a watchdog ping only the newest matters; a change of state must arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topic {
    State,
    Status,
    Watchdog,
}

impl ServiceManager {
    /// Reads `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`.
    pub fn from_env() -> Self {
        let mut this = Self::new(env::var_os("NOTIFY_SOCKET").as_deref());
        this.watchdog = sd_notify::watchdog_enabled().filter(|interval| !interval.is_zero());
        this
    }

    fn new(name: Option<&OsStr>) -> Self {
        let peer = name.filter(|name| !name.is_empty()).and_then(|name| connect(name).ok());
        Self { peer, pending: VecDeque::new(), watchdog: None, lost: 0 }
    }

    /// Is there anybody to tell?
    pub fn is_present(&self) -> bool {
        self.peer.is_some()
    }

    /// Within this time of the last [`watchdog`](Self::watchdog) the next one must come; half of
    /// it is a good pace. `None`: no watchdog wanted, or of another process.
    pub fn watchdog_interval(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The first table is written, or a reload is over.
    pub fn ready(&mut self) {
        self.tell(Topic::State, &[NotifyState::Ready]);
    }

    /// A reload begins; [`ready`](Self::ready) ends it, whatever became of it.
    pub fn reloading(&mut self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.tell(Topic::State, &[NotifyState::Reloading, now]),
            Err(_no_clock) => self.tell(Topic::State, &[NotifyState::Reloading]),
        }
    }

    pub fn stopping(&mut self) {
        self.tell(Topic::State, &[NotifyState::Stopping]);
    }

    /// The human line of `systemctl status`.
    pub fn status(&mut self, text: &str) {
        // A line break would begin an assignment of its own.
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        self.tell(Topic::Status, &[NotifyState::Status(&line)]);
    }

    /// The supervisor loop has turned.
    pub fn watchdog(&mut self) {
        self.tell(Topic::Watchdog, &[NotifyState::Watchdog]);
    }

    /// Sends what waits, as far as the reader takes it. Call it now and then: true when nothing
    /// is left.
    pub fn flush(&mut self) -> bool {
        let Some((socket, address)) = &self.peer else {
            self.pending.clear();
            return true;
        };
        while let Some(message) = self.pending.front() {
            match socket.send_to_addr(message.text.as_bytes(), address) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) => drop(self.pending.pop_front()),
                // Gone: a manager that comes back (a re-exec) binds the same name again.
                Err(_) => {
                    self.pending.pop_front();
                    self.lost += 1;
                }
            }
        }
        true
    }

    /// Messages that never reached anybody.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn tell(&mut self, topic: Topic, states: &[NotifyState<'_>]) {
        if self.peer.is_none() {
            return;
        }
        let mut text = String::new();
        for state in states {
            let _infallible = writeln!(text, "{state}");
        }
        if topic != Topic::State {
            self.pending.retain(|message| message.topic != topic);
        }
        if self.pending.len() >= MAX_PENDING {
            self.pending.pop_front();
            self.lost += 1;
        }
        self.pending.push_back(Message { topic, text });
        self.flush();
    }
}

/// `@name` is an abstract socket, as container managers use them.
fn connect(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Manager {
        socket: UnixDatagram,
        directory: tempfile::TempDir,
    }

    impl Manager {
        fn new() -> (Self, ServiceManager) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("notify");
            let socket = UnixDatagram::bind(&path).unwrap();
            socket.set_nonblocking(true).unwrap();
            (Self { socket, directory }, ServiceManager::new(Some(path.as_os_str())))
        }

        fn heard(&self) -> Vec<String> {
            let mut buffer = [0; 4096];
            let mut messages = Vec::new();
            while let Ok(length) = self.socket.recv(&mut buffer) {
                messages.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
            }
            messages
        }

        /// As many datagrams as the queue takes.
        fn fill(&self) {
            let path = self.directory.path().join("notify");
            let flood = UnixDatagram::unbound().unwrap();
            flood.set_nonblocking(true).unwrap();
            while flood.send_to(b"flood", &path).is_ok() {}
        }
    }

    #[test]
    fn messages_are_worded_as_sd_notify_has_them() {
        let (manager, mut notifier) = Manager::new();
        notifier.status("2 of 3 servers up\nREADY=1");
        notifier.ready();
        notifier.watchdog();
        notifier.reloading();
        notifier.stopping();
        let heard = manager.heard();
        assert_eq!(heard[..3], ["STATUS=2 of 3 servers up READY=1\n", "READY=1\n", "WATCHDOG=1\n"]);
        let microseconds = heard[3].strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(microseconds.trim_end().parse::<u64>().unwrap() > 0);
        assert_eq!(heard[4], "STOPPING=1\n");
    }

    #[test]
    fn a_reader_that_does_not_read_blocks_nothing_and_loses_no_state() {
        let (manager, mut notifier) = Manager::new();
        manager.fill();
        notifier.ready();
        for n in 0..10_000 {
            notifier.watchdog();
            notifier.status(&format!("turn {n}"));
        }
        notifier.reloading();
        assert!(!notifier.flush());
        assert!(notifier.pending.len() <= MAX_PENDING);
        let flood = manager.heard();
        assert!(flood.iter().all(|message| message == "flood"));
        assert!(notifier.flush());
        let heard = manager.heard();
        assert_eq!(heard[..3], ["READY=1\n", "WATCHDOG=1\n", "STATUS=turn 9999\n"]);
        assert!(heard[3].starts_with("RELOADING=1\n"));
        assert_eq!((heard.len(), notifier.lost()), (4, 0));
    }

    #[test]
    fn endless_states_are_bounded_and_counted() {
        let (manager, mut notifier) = Manager::new();
        manager.fill();
        for _ in 0..100 {
            notifier.reloading();
            notifier.ready();
        }
        assert_eq!(notifier.pending.len(), MAX_PENDING);
        assert_eq!(notifier.lost(), 200 - MAX_PENDING as u64);
        assert_eq!(notifier.pending.back().unwrap().text, "READY=1\n");
    }

    #[test]
    fn a_manager_that_is_gone_or_was_never_there_is_no_error() {
        let mut nobody = ServiceManager::new(None);
        nobody.ready();
        assert!(!nobody.is_present() && nobody.flush() && nobody.lost() == 0);
        let (manager, mut notifier) = Manager::new();
        let path = manager.directory.path().join("notify");
        drop(manager.socket);
        notifier.ready();
        assert_eq!(notifier.lost(), 1);
        // It comes back under the same name.
        std::fs::remove_file(&path).unwrap();
        let again = UnixDatagram::bind(&path).unwrap();
        notifier.ready();
        let mut buffer = [0; 64];
        let length = again.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"READY=1\n");
    }

    #[test]
    fn abstract_names_work() {
        let name = format!("lvsd-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let reader = UnixDatagram::bind_addr(&address).unwrap();
        let mut notifier = ServiceManager::new(Some(OsStr::new(&format!("@{name}"))));
        notifier.ready();
        let mut buffer = [0; 64];
        let length = reader.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"READY=1\n");
    }
}
