//! The programs of a measurement: the reference programs in C, thousands of responders, and lvsd with a configuration of so
//! many services and servers. Starts them and reads what they say; judges nothing.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::lab::net::Space;
use crate::lab::wait::{output, within};

/// As in table.c and common.h.
const VIRTUAL: u32 = 0x0ac8_0000;
const REAL: u32 = 0x7f10_0000;
/// Where nothing answers, not even by a reset.
const HOLE: u32 = 0x0a63_0000;
/// Longer than any measurement may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A name space of this measurement's own, with a device that swallows what goes to 10.99.0.0/16.
pub(crate) fn space() -> Space {
    let space = Space::new("bench");
    space.ip("link add hole0 type dummy\naddr add 10.99.255.254/16 dev hole0\nlink set hole0 up");
    space.ip("link add nlmon0 type nlmon\nlink set nlmon0 up");
    space
        .run(|| fs::write("/proc/sys/net/ipv4/ip_local_port_range", "10000 65000"))
        .expect("root may set it");
    space
}

fn program(name: &str) -> Command {
    let folder = std::env::var_os("LVSD_BENCH_PROGRAMS").expect("tests/lab/bench sets LVSD_BENCH_PROGRAMS");
    Command::new(PathBuf::from(folder).join(name))
}

/// What a reference program prints, as numbers.
pub(crate) fn reference(space: &Space, name: &str, words: &str) -> Vec<f64> {
    let text = space.run(|| output(program(name).args(words.split_whitespace())));
    text.split_whitespace().map(|word| word.parse().expect("reference programs print numbers")).collect()
}

/// The first number of `table WORDS`.
pub(crate) fn table(space: &Space, words: &str) -> f64 {
    reference(space, "table", words).first().copied().unwrap_or_default()
}

/// The table is empty afterwards; the least of `times` runs, since whatever else the machine does only adds.
pub(crate) fn least(space: &Space, times: usize, words: &str) -> f64 {
    let runs = (0..times).map(|_| {
        let seconds = table(space, words);
        clear(space);
        seconds
    });
    runs.fold(f64::INFINITY, f64::min)
}

pub(crate) fn clear(space: &Space) {
    reference(space, "table", "clear");
}

/// Waits until so many destinations are in the table, of which there are few enough reads not to disturb; when the first
/// service was seen, and when all was there (seconds of the monotonic clock).
pub(crate) fn wait(space: &Space, destinations: usize) -> (f64, f64) {
    let times = reference(space, "table", &format!("wait {destinations} {}", PATIENCE.as_secs()));
    (times[0] / 1e9, times[1] / 1e9)
}

pub(crate) fn now() -> f64 {
    let time = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every kernel has this clock"));
    time.as_secs_f64()
}

/// A program that is told things on its standard input and answers by lines.
pub(crate) struct Talker {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Talker {
    fn start(space: &Space, name: &str, words: &[&str]) -> Self {
        let mut command = program(name);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = space.run(|| command.spawn()).expect("tests/lab/bench compiled it");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("piped"));
        let mut talker = Self { child, stdin, stdout: BufReader::new(stdout) };
        assert_eq!(talker.line(), "ready");
        talker
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("its standard output");
        line.trim_end().to_owned()
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        drop(self.stdin.take());
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Thousands of servers.
pub(crate) struct Responders {
    talker: Talker,
    folder: TempDir,
}

/// Arrivals at servers: seconds of the monotonic clock, and which server.
pub(crate) type Arrivals = Vec<(f64, usize)>;

impl Responders {
    pub(crate) fn start(space: &Space, kind: &str, count: usize) -> Self {
        let talker = Talker::start(space, "responders", &[kind, &count.to_string()]);
        Self { talker, folder: TempDir::new().expect("a folder") }
    }

    /// Carries out a command; when it had effect, and arrivals so far.
    pub(crate) fn tell(&mut self, words: &str) -> (f64, f64) {
        let stdin = self.talker.stdin.as_mut().expect("open until it is dropped");
        writeln!(stdin, "{words}").expect("it reads");
        let line = self.talker.line();
        let (time, arrivals) = line.split_once(' ').expect("two numbers");
        (time.parse::<f64>().expect("a number") / 1e9, arrivals.parse().expect("a number"))
    }

    pub(crate) fn arrivals(&mut self) -> Arrivals {
        let path = self.folder.path().join("arrivals");
        self.tell(&format!("dump {}", path.display()));
        let bytes = fs::read(path).expect("it wrote them");
        let numbers = bytes.as_chunks::<8>().0.iter().map(|bytes| i64::from_ne_bytes(*bytes));
        let numbers: Vec<i64> = numbers.collect();
        let pairs = numbers.as_chunks::<2>().0.iter();
        pairs
            .map(|[time, server]| (*time as f64 / 1e9, usize::try_from(*server).expect("a server")))
            .collect()
    }
}

/// What wire.c saw.
pub(crate) struct Wire {
    pub(crate) writes: f64,
    pub(crate) lag: f64,
    pub(crate) median: f64,
    pub(crate) dump: f64,
    pub(crate) span: f64,
}

pub(crate) struct Tap(Talker);

impl Tap {
    pub(crate) fn start(space: &Space) -> Self {
        let text = space.output("genl", "ctrl get name IPVS");
        let family = text.split_whitespace().skip_while(|word| *word != "ID:").nth(1).expect("its number");
        Self(Talker::start(space, "wire", &[family]))
    }

    pub(crate) fn stop(mut self) -> Wire {
        drop(self.0.stdin.take());
        let line = self.0.line();
        let numbers: Vec<f64> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        assert!(numbers[7] == 0.0, "the capture missed packets: {line}");
        Wire { writes: numbers[1], lag: numbers[3], median: numbers[4], dump: numbers[5], span: numbers[6] }
    }
}

/// So many services with so many servers each.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) services: usize,
    pub(crate) servers: usize,
    pub(crate) scheduler: &'static str,
    /// "tcp", "http" or none.
    pub(crate) check: Option<&'static str>,
    pub(crate) interval: f64,
    /// Lines of `[defaults]` more.
    pub(crate) more: &'static str,
    /// Servers in a service of their own that swallow everything.
    pub(crate) holes: usize,
}

impl Shape {
    pub(crate) const fn new(services: usize, servers: usize) -> Self {
        Self { services, servers, scheduler: "rr", check: None, interval: 10.0, more: "", holes: 0 }
    }

    pub(crate) const fn checked(self, check: &'static str, interval: f64) -> Self {
        Self { check: Some(check), interval, ..self }
    }

    pub(crate) const fn total(self) -> usize {
        self.services * self.servers
    }

    /// The arguments of `table` for the same.
    pub(crate) fn words(self, command: &str) -> String {
        format!("{command} {} {} {}", self.services, self.servers, self.scheduler)
    }

    /// Without the last `missing` servers of the last service.
    fn config(self, missing: usize) -> String {
        let mut text = format!(
            "[defaults]\nscheduler = \"{}\"\ndelay_loop = {}\ntimeout = 3\nretry = 0\n{}\n",
            self.scheduler, self.interval, self.more
        );
        match self.check {
            Some("http") => text += "check = { http = { path = \"/\" } }\n",
            Some(_) => text += "check = { tcp = {} }\n",
            None => text += "check = []\n",
        }
        for s in 0..self.services {
            let servers = if s + 1 == self.services { self.servers - missing } else { self.servers };
            let first = REAL + number(s * self.servers);
            add_service(&mut text, s, (first..).take(servers), 8080);
        }
        if self.holes > 0 {
            add_service(&mut text, self.services, (HOLE..).take(self.holes), 8080);
        }
        text
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).expect("a small number")
}

fn add_service(text: &mut String, s: usize, servers: impl Iterator<Item = u32>, port: u16) {
    let address = Ipv4Addr::from(VIRTUAL + number(s));
    writeln!(text, "[[virtual_server]]\naddress = \"{address}:80\"").expect("a text grows");
    for server in servers.map(Ipv4Addr::from) {
        writeln!(text, "[[virtual_server.real_server]]\naddress = \"{server}:{port}\"")
            .expect("a text grows");
    }
}

/// lvsd, killed when dropped.
pub(crate) struct Daemon {
    child: Child,
    space: Space,
    folder: TempDir,
    told: Receiver<String>,
    pub(crate) began: f64,
}

impl Daemon {
    pub(crate) fn start(space: &Space, shape: Shape) -> Self {
        Self::start_without(space, shape, 0)
    }

    pub(crate) fn start_without(space: &Space, shape: Shape, missing: usize) -> Self {
        let folder = TempDir::new().expect("a folder");
        let socket = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
        let (sender, told) = channel();
        // Read at once, as systemd does; ends with the receiver.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = socket.recv(&mut buffer) {
                if sender.send(String::from_utf8_lossy(&buffer[..length]).into_owned()).is_err() {
                    return;
                }
            }
        });
        let config = folder.path().join("lvsd.toml");
        write_config(&folder, shape, missing);
        let mut command = Command::new(lvsd());
        command.args(["run", "-c"]).arg(config).env("NOTIFY_SOCKET", folder.path().join("notify"));
        command.envs(environment());
        let log = fs::File::create(folder.path().join("log")).expect("a log");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let began = now();
        let child = space.run(|| command.spawn()).expect("lvsd is there");
        Self { child, space: space.clone(), folder, told, began }
    }

    pub(crate) fn configure(&self, shape: Shape, missing: usize) {
        write_config(&self.folder, shape, missing);
    }

    /// Seconds that `lvsd check` takes for its configuration: parsed, understood, judged.
    pub(crate) fn check_seconds(&self) -> f64 {
        let began = now();
        output(Command::new(lvsd()).arg("check").arg(self.folder.path().join("lvsd.toml")));
        now() - began
    }

    pub(crate) fn wait_for(&self, message: &str) {
        within(PATIENCE, message, || {
            let next = self.told.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
            next.lines().any(|line| line == message).then_some(())
        });
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process number");
        kill(Pid::from_raw(pid), signal).expect("a child of ours");
    }

    /// SIGHUP until its reload has ended; seconds.
    pub(crate) fn reload(&self) -> f64 {
        let began = now();
        self.signal(Signal::SIGHUP);
        self.wait_for("RELOADING=1");
        self.wait_for("READY=1");
        now() - began
    }

    /// SIGTERM until its services are gone from the table, and until the process is; seconds.
    pub(crate) fn stop(&mut self) -> (f64, f64) {
        let began = now();
        self.signal(Signal::SIGTERM);
        let (_, withdrawn) = wait(&self.space, 0);
        self.child.wait().expect("a child of ours");
        (withdrawn - began, now() - began)
    }

    /// Seconds of CPU so far, in user mode and in the kernel.
    pub(crate) fn cpu(&self) -> f64 {
        let text = self.proc("stat");
        let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks: f64 = [11, 12].iter().map(|&n: &usize| fields[n].parse::<f64>().expect("ticks")).sum();
        ticks / 100.0
    }

    /// Resident memory in MB: "VmRSS", or "RssAnon", what is not the program's or a library's file.
    pub(crate) fn resident(&self, field: &str) -> f64 {
        let text = self.proc("status");
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(name, _)| *name == field).expect("a process has memory");
        value.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether a tracer is attached to each of its threads.
    pub(crate) fn is_traced(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it lives").flatten();
        let status = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("status"));
        threads.filter_map(|thread| status(thread).ok()).all(|text| !text.contains("TracerPid:\t0\n"))
    }

    fn proc(&self, file: &str) -> String {
        let log = || fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let path = format!("/proc/{}/{file}", self.child.id());
        fs::read_to_string(path).unwrap_or_else(|error| panic!("lvsd is gone: {error}: {}", log()))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            let mut log = String::new();
            drop(
                fs::File::open(self.folder.path().join("log"))
                    .and_then(|mut file| file.read_to_string(&mut log)),
            );
            eprintln!("--- what lvsd logged:\n{log}");
        }
        clear(&self.space);
    }
}

/// What the unit sets.
fn environment() -> Vec<(&'static str, &'static str)> {
    let lines = include_str!("../../systemd/lvsd.service").lines();
    let words = lines.filter_map(|line| line.strip_prefix("Environment=")).flat_map(str::split_whitespace);
    let set: Vec<_> = words.filter_map(|word| word.split_once('=')).collect();
    assert!(!set.is_empty(), "the unit sets an environment");
    set
}

fn lvsd() -> std::ffi::OsString {
    std::env::var_os("LVSD_BENCH_LVSD").expect("tests/lab/bench sets LVSD_BENCH_LVSD")
}

fn write_config(folder: &TempDir, shape: Shape, missing: usize) {
    let (socket, state) = (folder.path().join("control.sock"), folder.path().join("state.json"));
    let head = format!("[daemon]\ncontrol_socket = {socket:?}\nstate_file = {state:?}\nlog = \"warn\"\n");
    fs::write(folder.path().join("lvsd.toml"), head + &shape.config(missing)).expect("the folder is ours");
}
