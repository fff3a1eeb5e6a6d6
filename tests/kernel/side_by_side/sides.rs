//! The two daemons, each with a network of its own, and what can be done to both alike.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use lvsd::ipvs::{Dump, Dumper, Operation, Options};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::play::Side;
use crate::daemon::process::LVSD;
use crate::lab::backend::Backend;
use crate::lab::net::Network;
use crate::lab::wait::{SOON, until, within};

/// One daemon with its back ends and files.
pub(super) struct Stage {
    pub(super) side: Side,
    folder: TempDir,
    daemon: Option<Child>,
    // Servers end while their network is there.
    pub(super) servers: BTreeMap<String, Backend>,
    datagrams: BTreeMap<String, Datagrams>,
    /// Addresses that datagrams go to.
    udp: Vec<String>,
    pub(super) network: Network,
}

impl Stage {
    pub(super) fn new(side: Side, udp: &[String]) -> Self {
        let network = Network::new();
        let folder = TempDir::new().expect("a folder");
        // Scripts may run as another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        let mut stage = Self {
            side,
            folder,
            daemon: None,
            servers: BTreeMap::new(),
            datagrams: BTreeMap::new(),
            udp: udp.to_vec(),
            network,
        };
        udp.iter().for_each(|address| stage.add_server(address));
        stage
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file that appears with its whole contents at once.
    pub(super) fn put(&self, name: &str, text: &str) {
        let new = self.path(&format!(".{name}.new"));
        fs::write(&new, text).expect("the folder is ours");
        fs::rename(new, self.path(name)).expect("the folder is ours");
    }

    /// A program that exits with the number in the file `NAME.exit`; with `die` in it a signal ends it.
    pub(super) fn add_script(&self, name: &str) {
        let file = self.path(&format!("{name}.exit"));
        let text = format!(
            "#!/bin/sh\nread -r code <{}\n[ \"$code\" != die ] || kill -KILL $$\nexit \"$code\"\n",
            file.display()
        );
        fs::write(&file, "0\n").expect("the folder is ours");
        let program = self.path(name);
        fs::write(&program, text).expect("the folder is ours");
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    pub(super) fn add_server(&mut self, address: &str) {
        let key = address.to_owned();
        if self.udp.contains(&key) {
            self.datagrams.insert(key, Datagrams::start(&self.network, address));
        } else {
            self.servers.insert(key, Backend::start(&self.network.servers, address));
        }
    }

    /// `false`: there is none.
    pub(super) fn end_server(&mut self, address: &str) -> bool {
        self.datagrams.remove(address).is_some() | self.servers.remove(address).is_some()
    }

    pub(super) fn server(&self, address: &str) -> &Backend {
        self.servers.get(address).unwrap_or_else(|| panic!("no server {address}"))
    }

    /// Writes the configuration in the daemon's own language.
    fn configure(&self, keepalived_conf: &str) {
        let text = keepalived_conf.replace("{dir}", &self.folder.path().display().to_string());
        self.put("keepalived.conf", &text);
        if self.side == Side::Lvsd {
            self.put("lvsd.toml", &self.converted());
        }
    }

    /// What `lvsd import` makes of the file, with this folder's socket and state file.
    fn converted(&self) -> String {
        let mut command = Command::new(LVSD);
        let output = command.arg("import").arg(self.path("keepalived.conf")).output().expect("lvsd is there");
        let (text, notes) = (String::from_utf8(output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "lvsd import: {}: {notes}", output.status);
        let text = text.expect("TOML is UTF-8");
        let (before, after) = text.split_once("[daemon]\n").unwrap_or(("", &text));
        let ours = [("control_socket", "control.sock"), ("state_file", "state.json")];
        let ours: String = ours.map(|(key, file)| format!("{key} = {:?}\n", self.path(file))).concat();
        format!("{before}[daemon]\n{ours}{after}")
    }

    pub(super) fn start(&mut self, keepalived_conf: &str) {
        self.configure(keepalived_conf);
        let log = File::create(self.path("log")).expect("a log");
        let mut command = match self.side {
            Side::Keepalived => self.keepalived(),
            Side::Lvsd => {
                let mut command = Command::new(LVSD);
                command.arg("run").arg("-c").arg(self.path("lvsd.toml"));
                command
            }
        };
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a copy")).stderr(log);
        let child = self.network.director.run(|| command.spawn());
        self.daemon = Some(child.unwrap_or_else(|error| panic!("{command:?}: {error}")));
    }

    /// Checks only (-C), in the foreground, and nothing that a second one could trip over.
    fn keepalived(&self) -> Command {
        let mut command = Command::new("keepalived");
        command.args(["--dont-fork", "--log-console", "--log-detail", "--check"]);
        command.arg("--use-file").arg(self.path("keepalived.conf"));
        command.arg("--pid").arg(self.path("keepalived.pid"));
        command.arg("--checkers_pid").arg(self.path("checkers.pid"));
        command
    }

    /// Waits until the daemon has read its new file and acted on it.
    pub(super) fn reload(&self, keepalived_conf: &str) {
        self.configure(keepalived_conf);
        match self.side {
            Side::Keepalived => {
                let said = || self.log().matches("Reload complete").count();
                let before = said();
                self.signal(Signal::SIGHUP);
                until("keepalived's reload", || said() > before);
            }
            Side::Lvsd => {
                let mut command = Command::new(LVSD);
                command.arg("reload").arg("--socket").arg(self.path("control.sock"));
                let output = self.network.director.run(|| command.output()).expect("lvsd is there");
                assert!(output.status.success(), "lvsd reload: {output:?}");
            }
        }
    }

    pub(super) fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        let mut child = self.daemon.take().expect("it runs");
        within(SOON, "the daemon ends", || child.try_wait().expect("a child of ours"));
    }

    fn signal(&self, signal: Signal) {
        let child = self.daemon.as_ref().expect("it runs");
        let pid = i32::try_from(child.id()).expect("a process number");
        kill(Pid::from_raw(pid), signal).expect("a child of ours");
    }

    /// In the words of ipvsadm. Its own output lacks the thresholds, and each start of a program is slow
    /// in a guest.
    pub(super) fn table(&self) -> BTreeSet<String> {
        let dump = || Dumper::open(Options::default()).expect("ip_vs is there").dump().expect("a dump");
        let observed = self.network.director.run(dump);
        let mut lines = BTreeSet::new();
        for (id, service) in &observed.table.services {
            let attributes = service.attributes.clone();
            lines.insert(Operation::AddService { service: *id, attributes }.to_string());
            lines.extend(service.destinations.iter().map(|(destination, record)| {
                let (destination, record) = (*destination, *record);
                Operation::AddDestination { service: *id, destination, record }.to_string()
            }));
        }
        lines
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            // keepalived's second process ends with its first.
            drop(daemon.kill());
            drop(daemon.wait());
        }
        if std::thread::panicking() {
            let config = fs::read_to_string(self.path("lvsd.toml")).unwrap_or_default();
            eprintln!("--- {:?}:\n{config}\n{}", self.side, self.log());
        }
    }
}

/// A server that sends each datagram back.
struct Datagrams {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Datagrams {
    fn start(network: &Network, address: &str) -> Self {
        let socket = network.servers.run(|| UdpSocket::bind(address));
        let socket = socket.unwrap_or_else(|error| panic!("{address}: {error}"));
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a time-out");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 1500];
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((length, client)) = socket.recv_from(&mut buffer) {
                    drop(socket.send_to(&buffer[..length], client));
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
