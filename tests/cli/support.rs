//! Runs lvsd, as a command or as a daemon, and waits for what it does.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

const LVSD: &str = env!("CARGO_BIN_EXE_lvsd");
/// How long anything may take that should happen at once; no test measures speed with it.
const SOON: Duration = Duration::from_secs(30);

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// A folder with a configuration, for commands and one daemon.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    /// `config` are more lines of `[daemon]` up to the first table, then the rest.
    pub(crate) fn new(config: &str) -> Self {
        let place = Self { folder: TempDir::new().expect("a folder") };
        place.configure(config);
        place
    }

    pub(crate) fn configure(&self, config: &str) {
        let (socket, state) = (self.path("control.sock"), self.path("state.json"));
        let head = format!("[daemon]\ncontrol_socket = {socket:?}\nstate_file = {state:?}\n");
        self.write("lvsd.toml", &(head + config));
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("the folder is ours");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs lvsd in the folder and waits for its end.
    pub(crate) fn lvsd(&self, words: &str) -> Said {
        self.command(words).output().expect("lvsd is there").into()
    }

    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = Command::new(LVSD);
        command.args(words.split_whitespace()).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env_remove("NOTIFY_SOCKET").env_remove("JOURNAL_STREAM").env("LVSD_LOG_FORMAT", "json");
        command.env("RUNTIME_DIRECTORY", self.folder.path());
        command
    }

    /// A client command to the daemon of this folder.
    pub(crate) fn ask(&self, words: &str) -> Said {
        self.lvsd(&format!("{words} -c lvsd.toml"))
    }

    pub(crate) fn status(&self) -> Value {
        let said = self.ask("status --json");
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
        serde_json::from_str(&said.stdout).expect("JSON")
    }

    /// Its real servers' values under this key, in order.
    pub(crate) fn servers(&self, key: &str) -> Vec<Value> {
        let status = self.status();
        let pools = status["virtual_servers"].as_array().expect("a list");
        let servers = pools.iter().flat_map(|pool| pool["real_servers"].as_array().expect("a list"));
        servers.map(|server| server[key].clone()).collect()
    }

    pub(crate) fn wait_for_servers(&self, key: &str, wanted: &[Value]) {
        let mut found = Vec::new();
        let end = Instant::now() + SOON;
        while Instant::now() < end {
            found = self.servers(key);
            if found == wanted {
                return;
            }
            pause();
        }
        panic!("{key} is {found:?}, not {wanted:?} within {SOON:?}");
    }

    /// Starts a daemon that tells whom the configuration names, and waits until it answers.
    pub(crate) fn start(&self) -> Daemon<'_> {
        self.start_with("run --dry-run --notify -c lvsd.toml")
    }

    pub(crate) fn start_with(&self, words: &str) -> Daemon<'_> {
        let log = File::create(self.path("log")).expect("a log");
        let mut command = self.command(words);
        command.stdout(log.try_clone().expect("a copy")).stderr(log);
        let mut daemon = Daemon { place: self, child: command.spawn().expect("lvsd is there") };
        within("lvsd is ready", || {
            assert_eq!(daemon.child.try_wait().expect("a child"), None, "{}", self.log());
            let log = self.log();
            (log.contains("ready: ") || log.contains("ready, but ")).then_some(())
        });
        daemon
    }

    /// All that the daemon has logged: JSON lines.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Waits for a line of the log, and returns it.
    pub(crate) fn logged(&self, text: &str) -> Value {
        within(text, || {
            let log = self.log();
            let line = log.lines().find(|line| line.contains(text))?;
            serde_json::from_str(line).ok()
        })
    }
}

/// A running daemon; killed when dropped.
pub(crate) struct Daemon<'a> {
    place: &'a Place,
    child: Child,
}

impl Daemon<'_> {
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process number");
        kill(Pid::from_raw(pid), signal).expect("a child of ours");
    }

    /// Of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the daemon to end by itself.
    pub(crate) fn wait(mut self) -> ExitStatus {
        within("lvsd ends", || self.child.try_wait().expect("a child"))
    }

    /// Status and body of a page on the daemon's HTTP port.
    pub(crate) fn page(&self, path: &str) -> (u16, String) {
        get(&self.http(), path)
    }

    /// Where its HTTP port is.
    pub(crate) fn http(&self) -> String {
        let line = self.place.logged("health on http://");
        let message = line["message"].as_str().expect("a message");
        message.trim_start_matches("health on http://").to_owned()
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("--- what lvsd logged:\n{}", self.place.log());
        }
    }
}

fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("a listener");
    stream.set_read_timeout(Some(SOON)).expect("a limit");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("a reply");
    let (head, body) = reply.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status"), body.to_owned())
}

/// A real server: takes connections until it is dropped.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    listener: Option<TcpListener>,
}

impl Backend {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        Self { address: listener.local_addr().expect("an address"), listener: Some(listener) }
    }

    /// Connections are refused from now on.
    pub(crate) fn die(&mut self) {
        self.listener = None;
    }

    pub(crate) fn revive(&mut self) {
        self.listener = Some(TcpListener::bind(self.address).expect("its port is still free"));
    }
}

/// Two real servers behind one service, checked often; what they are called and their weights.
pub(crate) fn web(servers: &[(&Backend, u32)]) -> String {
    let mut text = String::from(
        "[defaults]\ndelay_loop = \"200ms\"\nretry = 0\n\n[[virtual_server]]\nname = \"web\"\n\
         address = \"192.0.2.10:80\"\ncheck = { tcp = {} }\n",
    );
    for (backend, weight) in servers {
        text += &format!(
            "[[virtual_server.real_server]]\naddress = \"{}\"\nweight = {weight}\n",
            backend.address
        );
    }
    text
}

/// Asks again and again until there is an answer.
pub(crate) fn within<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + SOON;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "not within {SOON:?}: {what}");
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that pauses, between two looks at a condition")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

pub(crate) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
