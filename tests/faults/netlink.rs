//! Netlink that fails: sends, answers, refusals; and hands that edit the table meanwhile.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::Signal;

use crate::lab::net::FOREIGN;
use crate::lab::wait::{feed, pause, until};
use crate::process::Daemon;
use crate::shim::{Fault, Shim};
use crate::world::{CONFIG, FIRST, Moments, SECOND, WEB, World, both, foreign, rounds};

const FAULTS: [(Fault, u32); 14] = [
    (Fault::SendFails(Errno::ENOBUFS), 2),
    (Fault::SendFails(Errno::EINTR), 2),
    (Fault::SendFails(Errno::EPERM), 3),
    (Fault::SendFails(Errno::ENOBUFS), 1),
    (Fault::ReceiveFails(Errno::ENOBUFS), 3),
    (Fault::ReceiveFails(Errno::EINTR), 2),
    (Fault::ReceiveFails(Errno::ENOBUFS), 1),
    (Fault::AnswerLost, 4),
    (Fault::AnswerLost, 1),
    (Fault::Refused(Errno::EPERM), 2),
    (Fault::Refused(Errno::ENOENT), 1),
    (Fault::Refused(Errno::EEXIST), 1),
    (Fault::Refused(Errno::ENOMEM), 2),
    (Fault::DumpInterrupted, 1),
];

#[test]
fn netlink_that_fails() {
    let world = World::new(CONFIG);
    let shim = Shim::new();
    let program = shim.program();
    let program = program.each_ref().map(String::as_str);
    let mut daemon = world.director.spawn_by(&program);
    daemon.wait_for("READY=1");
    let mut trial = world.trial("netlink: lost, refused, interrupted", both);
    for (fault, period) in FAULTS {
        shim.inject(fault, period);
        let mut weight = 3;
        for round in 0..rounds(3, 60) {
            weight = 4 + round % 7;
            world.weigh(CONFIG, weight);
            daemon.signal(Signal::SIGHUP);
            pause(Duration::from_millis(400));
        }
        until("it happened", || shim.injected() > 0);
        assert!(world.director.lvsd("status").status.success(), "{fault:?}: it answers");
        let injected = shim.heal();
        world.converges(weight);
        trial.survived(injected);
    }
    // A start among them, over the table of the daemon before.
    for (fault, period) in FAULTS.into_iter().filter(|(_, period)| *period > 1) {
        daemon.kill();
        shim.inject(fault, period);
        daemon = world.director.spawn_by(&program);
        pause(Duration::from_secs(1));
        trial.survived(shim.heal());
        daemon.wait_for("READY=1");
    }
    world.works(CONFIG, 5);
    trial.end();
}

/// Their edits are the only wrong tables, and do not last.
#[test]
fn hands_that_edit_against_it() {
    let world = World::new(CONFIG);
    let daemon = world.director.start();
    let mut trial = world.trial("ipvsadm edits against it", foreign);
    let mut moments = Moments::new();
    let edits = [
        "-e -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 9",
        "-a -t 192.0.2.10:80 -r 198.51.100.13:80 -m -w 0",
        "-E -t 192.0.2.10:80 -s rr",
        "-e -t 192.0.2.10:80 -r 198.51.100.12:80 -m -w 7",
        "-E -t 192.0.2.10:80 -s wrr -p 60",
        "-d -t 192.0.2.10:80 -r 198.51.100.12:80",
    ];
    for round in 0..rounds(18, 300) {
        let edit = edits[usize::try_from(round).expect("few") % edits.len()];
        world.network.director.ipvsadm(edit);
        if round % 3 == 0 {
            daemon.signal(Signal::SIGHUP);
        }
        pause(moments.below(Duration::from_millis(400)));
        world.converges(3);
        trial.survived(1);
    }
    world.works(CONFIG, 5);
    trial.end();
}

/// What sockets that are opened meanwhile can hold: a few answers of netlink.
struct SmallBuffers {
    before: String,
}

const BUFFERS: &str = "/proc/sys/net/core/rmem_default";

impl SmallBuffers {
    fn set() -> Self {
        let before = fs::read_to_string(BUFFERS).expect("the guest's");
        fs::write(BUFFERS, "4096").expect("root may");
        Self { before }
    }
}

impl Drop for SmallBuffers {
    fn drop(&mut self) {
        drop(fs::write(BUFFERS, &self.before));
    }
}

const PORTS: std::ops::Range<u16> = 8000..8120;

/// Hands that do the same to every service of a pool.
fn by_hand(world: &World, line: impl Fn(u16) -> String) {
    let lines: String = PORTS.map(|port| line(port) + "\n").collect();
    world.network.director.run(|| feed(Command::new("ipvsadm").arg("-R"), &lines));
}

/// The kernel refuses a whole batch, since hands have done it already, and the answers do not fit.
#[test]
fn answers_that_do_not_fit_into_the_socket() {
    let few = CONFIG.replace("drift_interval = \"300ms\"", "drift_interval = \"1h\"");
    let addresses: Vec<String> = PORTS.map(|port| format!("\"192.0.2.10:{port}\"")).collect();
    let many = format!(
        "{few}\n[[virtual_server]]\nname = \"many\"\naddress = [{}]\nscheduler = \"rr\"\ncheck = []\n\
         [[virtual_server.real_server]]\naddress = \"198.51.100.13:80\"\n",
        addresses.join(", ")
    );
    let web = ["-A -t 192.0.2.10:80 -s wrr".to_owned(), FOREIGN[0].to_owned(), FOREIGN[1].to_owned()];
    let servers = [format!("-a -t {WEB} -r {FIRST} -m -w 3"), format!("-a -t {WEB} -r {SECOND} -m -w 1")];
    let table = |filled: bool| {
        let mut lines: Vec<String> = web.iter().chain(&servers).cloned().collect();
        for port in PORTS.filter(|_| filled) {
            lines.push(format!("-A -t 192.0.2.10:{port} -s rr"));
            lines.push(format!("-a -t 192.0.2.10:{port} -r 198.51.100.13:80 -m -w 1"));
        }
        lines.sort();
        lines
    };
    let world = World::new(&few);
    let buffers = SmallBuffers::set();
    let daemon = world.director.start();
    drop(buffers);
    let lost = || world.director.log().matches("(ENOBUFS)").count();
    let mut trial = world.trial("answers that do not fit into the socket (ENOBUFS by the kernel)", both);
    for _ in 0..rounds(3, 30) {
        by_hand(&world, |port| format!("-A -t 192.0.2.10:{port} -s wlc"));
        world.director.configure(&many);
        daemon.signal(Signal::SIGHUP);
        until("all services are there", || world.network.director.table() == table(true));
        by_hand(&world, |port| format!("-D -t 192.0.2.10:{port}"));
        world.director.configure(&few);
        daemon.signal(Signal::SIGHUP);
        until("they have gone", || world.network.director.table() == table(false));
        trial.survived(2);
    }
    assert!(lost() > 0, "answers were lost: {}", world.director.log());
    world.works(&few, 5);
    trial.end();
}

/// Events that the kernel could not put into a socket of the daemon's, of all such sockets.
fn dropped(daemon: &Daemon<'_>) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/net/netlink", daemon.pid())).expect("it lives");
    let drops = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(8)?.parse::<u64>().ok());
    drops.sum()
}

/// Addresses come and go while nobody listens: far more events than a socket holds, and one that counts.
#[test]
fn events_that_do_not_fit_into_the_socket() {
    let config = format!(
        "{CONFIG}\n[[virtual_server]]\nname = \"gated\"\naddress = \"192.0.2.20:80\"\n\
         active_when = {{ address_present = true }}\ncheck = []\n\
         [[virtual_server.real_server]]\naddress = \"198.51.100.13:80\"\n"
    );
    let world = World::new(&config);
    let director = &world.network.director;
    director.ip("link add vip0 type dummy\nlink set vip0 up");
    let daemon = world.director.start();
    let is_open = || director.table().iter().any(|line| line.contains("192.0.2.20:80"));
    let mut trial =
        world.trial("address events that do not fit into the socket (ENOBUFS by the kernel)", both);
    for round in 0..rounds(6, 60) {
        let opens = round % 2 == 0;
        let change = if opens { "add" } else { "del" };
        let mut storm = String::new();
        for number in 0..1000_u32 {
            let (third, fourth) = (number / 250, number % 250 + 1);
            writeln!(storm, "addr {change} 198.18.{third}.{fourth}/32 dev vip0").expect("a text");
            if number == 700 {
                writeln!(storm, "addr {change} 192.0.2.20/32 dev vip0").expect("a text");
            }
        }
        let before = dropped(&daemon);
        daemon.signal(Signal::SIGSTOP);
        director.ip(&storm);
        let lost = dropped(&daemon) - before;
        daemon.signal(Signal::SIGCONT);
        assert!(lost > 0, "the socket was full");
        until("the gate follows", || is_open() == opens);
        trial.survived(u32::try_from(lost).expect("few"));
    }
    assert!(world.director.lvsd("status").status.success());
    trial.end();
}
