//! lvsd as a child process: started, told to reload, stopped, killed, listened to.

use std::fs::{self, File};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::lab::net::Space;
use crate::lab::wait::{SOON, pause, within};

pub(crate) const LVSD: &str = env!("CARGO_BIN_EXE_lvsd");

/// What one director keeps while daemons come and go: its files and the socket where a daemon
/// says what systemd would hear.
pub(crate) struct Director {
    space: Space,
    folder: TempDir,
    heard: Arc<Heard>,
}

#[derive(Default)]
struct Heard {
    lines: Mutex<Vec<String>>,
    closed: AtomicBool,
}

/// A running daemon; killed when dropped.
pub(crate) struct Daemon<'a> {
    director: &'a Director,
    child: Child,
    /// Notifications before this one are of the past.
    next: usize,
}

impl Director {
    pub(crate) fn new(space: &Space, config: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let notify = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
        notify.set_read_timeout(Some(Duration::from_millis(100))).expect("a time-out");
        let heard = Arc::new(Heard::default());
        let listener = Arc::clone(&heard);
        // Read at once, as systemd does: a full queue would stop the sender.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while !listener.closed.load(Ordering::Relaxed) {
                if let Ok(length) = notify.recv(&mut buffer) {
                    let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                    listener.lines.lock().expect("no panic holds it").extend(text.lines().map(str::to_owned));
                }
            }
        });
        let director = Self { space: space.clone(), folder, heard };
        // Of its own, so that a test can put a full or a broken disk there.
        fs::create_dir(director.path("state")).expect("the folder is ours");
        director.configure(config);
        director
    }

    /// Writes the configuration: `[daemon]` with this director's files, lines of `config` up to
    /// the first table (more daemon settings), then the rest.
    pub(crate) fn configure(&self, config: &str) {
        let (socket, state) = (self.path("control.sock"), self.path("state/state.json"));
        let head = format!("[daemon]\ncontrol_socket = {socket:?}\nstate_file = {state:?}\n");
        // Renamed, as whoever writes it should: a reload in between would read half of it.
        let new = self.path("lvsd.toml.new");
        fs::write(&new, head + config).expect("the folder is ours");
        fs::rename(new, self.config()).expect("the folder is ours");
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path("lvsd.toml")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// All that daemons have logged here.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Starts a daemon and does not wait for anything.
    pub(crate) fn spawn(&self) -> Daemon<'_> {
        self.spawn_by(&["env"])
    }

    /// The same by a program that becomes the daemon, such as `env` or `prlimit`, with its arguments.
    pub(crate) fn spawn_by(&self, program: &[&str]) -> Daemon<'_> {
        let log = File::options().create(true).append(true).open(self.path("log")).expect("a log");
        let (program, arguments) = program.split_first().expect("a program");
        let mut command = Command::new(program);
        command.args(arguments).args([LVSD, "run", "-c"]).arg(self.config());
        command.env("NOTIFY_SOCKET", self.path("notify")).env("RUNTIME_DIRECTORY", self.folder.path());
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a copy")).stderr(log);
        let next = self.heard.lines.lock().expect("no panic holds it").len();
        let child = self.space.run(|| command.spawn()).expect("lvsd is there");
        Daemon { director: self, child, next }
    }

    /// Starts a daemon and waits until it is ready.
    pub(crate) fn start(&self) -> Daemon<'_> {
        let mut daemon = self.spawn();
        daemon.wait_for("READY=1");
        daemon
    }

    /// Runs a client command and waits for its end.
    pub(crate) fn lvsd(&self, words: &str) -> Output {
        let mut command = Command::new(LVSD);
        command.args(words.split_whitespace()).arg("--socket").arg(self.path("control.sock"));
        self.space.run(|| command.output()).expect("lvsd is there")
    }
}

impl Drop for Director {
    fn drop(&mut self) {
        self.heard.closed.store(true, Ordering::Relaxed);
    }
}

impl Daemon<'_> {
    /// Waits until the daemon tells systemd this.
    pub(crate) fn wait_for(&mut self, message: &str) {
        within(SOON, message, || {
            let gone = self.child.try_wait().expect("a child of ours");
            assert!(gone.is_none(), "lvsd ended ({gone:?}) before {message}:\n{}", self.director.log());
            let lines = self.director.heard.lines.lock().expect("no panic holds it");
            let found = lines.iter().skip(self.next).position(|line| line == message)?;
            self.next += found + 1;
            Some(())
        });
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process number");
        kill(Pid::from_raw(pid), signal).expect("a child of ours");
    }

    /// SIGHUP, and waits until its reload has ended.
    pub(crate) fn reload_by_signal(&mut self) {
        self.signal(Signal::SIGHUP);
        self.wait_for("RELOADING=1");
        self.wait_for("READY=1");
    }

    /// Waits for the daemon to end by itself.
    pub(crate) fn wait(mut self) -> ExitStatus {
        within(SOON, "lvsd ends", || self.child.try_wait().expect("a child of ours"))
    }

    pub(crate) fn stop(self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    pub(crate) fn kill(self) {
        self.signal(Signal::SIGKILL);
        self.wait();
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("--- what lvsd logged:\n{}", self.director.log());
        }
    }
}

/// Waits until the table is this one.
pub(crate) fn wait_for_table(space: &Space, wanted: &[&str]) {
    let end = Instant::now() + SOON;
    loop {
        let found = space.table();
        if found == wanted {
            return;
        }
        assert!(Instant::now() < end, "the table is not as wanted in time: {found:#?}, not {wanted:#?}");
        pause(Duration::from_millis(50));
    }
}
