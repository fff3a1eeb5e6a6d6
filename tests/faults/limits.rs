//! Too many signals, too few descriptors, too little memory, a log that nobody takes.

use std::fs::{self, File};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::lab::wait::{output, pause, until};
use crate::world::{CONFIG, World, both, held, rounds};

#[test]
fn a_thousand_hangups_in_a_row() {
    let world = World::new(CONFIG);
    let daemon = world.director.start();
    let mut trial = world.trial("SIGHUP in a row, also broken files", both);
    for round in 0..rounds(1000, 20_000) {
        match round % 10 {
            0 => world.weigh(CONFIG, 4 + round % 7),
            5 => world.director.configure("[[virtual_server]]\naddress = \"192.0."),
            _ => {}
        }
        daemon.signal(Signal::SIGHUP);
        pause(Duration::from_millis(u64::from(round % 3)));
        trial.survived(1);
    }
    world.works(CONFIG, 5);
    trial.end();
}

/// A file that takes a while to read, so that signals come before, in and after it.
#[test]
fn hangups_while_it_reads_the_file() {
    let mut config = CONFIG.to_owned();
    for number in 0..400 {
        let (third, fourth) = (number / 200, number % 200 + 1);
        // In no table: nobody makes that file.
        config += &format!(
            "\n[[virtual_server]]\naddress = \"198.18.{third}.{fourth}:80\"\n\
             active_when = {{ file = \"/run/lvsd-faults-nowhere\" }}\ncheck = []\n\
             [[virtual_server.real_server]]\naddress = \"198.51.100.13:80\"\n"
        );
    }
    let world = World::new(&config);
    let daemon = world.director.start();
    let mut trial = world.trial("SIGHUP while the file is read", both);
    for round in 0..rounds(200, 4000) {
        if round % 20 == 0 {
            world.weigh(&config, 4 + round / 20 % 7);
        }
        daemon.signal(Signal::SIGHUP);
        pause(Duration::from_millis(u64::from(round % 7)));
        trial.survived(1);
    }
    world.works(&config, 5);
    trial.end();
}

/// Every descriptor is taken by clients: a check that cannot have one says nothing of its server.
#[test]
fn no_descriptor_is_left() {
    let world = World::new(CONFIG);
    let mut daemon = world.director.spawn_by(&["prlimit", "--nofile=48:48"]);
    daemon.wait_for("READY=1");
    let mut trial = world.trial("descriptor limit reached", both);
    for round in 0..rounds(3, 50) {
        let web: Vec<_> = world
            .network
            .director
            .run(|| (0..80).filter_map(|_| std::net::TcpStream::connect("127.0.0.1:9480").ok()).collect());
        let control: Vec<_> =
            (0..40).filter_map(|_| UnixStream::connect(world.director.path("control.sock")).ok()).collect();
        pause(Duration::from_secs(2));
        drop((web, control));
        world.works(CONFIG, 4 + round % 7);
        trial.survived(1);
    }
    trial.end();
}

/// In 512 MiB of addresses, most of which are stacks that nobody touches.
#[test]
fn ten_thousand_connections_to_the_listener() {
    let world = World::new(CONFIG);
    let mut daemon = world.director.spawn_by(&["prlimit", "--as=536870912"]);
    daemon.wait_for("READY=1");
    let before = held(&daemon);
    let mut trial = world.trial("connections to the HTTP listener, in limited memory", both);
    let count = rounds(10_000, 100_000);
    world.network.director.run(|| {
        let mut open = std::collections::VecDeque::new();
        for _ in 0..count {
            // What is refused or cut off is the listener's right.
            if let Ok(stream) = std::net::TcpStream::connect("127.0.0.1:9480") {
                open.push_back(stream);
            }
            if open.len() > 400 {
                open.pop_front();
            }
        }
    });
    trial.survived(count);
    world.works(CONFIG, 5);
    let after = held(&daemon);
    println!("faults: the daemon before: {before:?}, after: {after:?}");
    assert!(after.peak_kilobytes < before.peak_kilobytes + 32 * 1024, "{before:?}, {after:?}");
    until("what was opened is closed", || held(&daemon).descriptors <= before.descriptors + 4);
    trial.end();
}

/// Standard error is a full pipe; then the journal's socket is full, gone, and there again.
#[test]
fn a_log_that_nobody_takes() {
    let config = CONFIG.replacen("drift_interval", "log = \"trace\"\ndrift_interval", 1);
    let world = World::new(&config);
    let pipe = world.director.path("pipe");
    output(Command::new("mkfifo").arg(&pipe));
    let reader = File::options().read(true).write(true).open(&pipe).expect("a pipe");
    let code = format!("exec \"$@\" >{pipe} 2>&1", pipe = pipe.display());
    let mut daemon = world.director.spawn_by(&["sh", "-c", &code, "sh"]);
    daemon.wait_for("READY=1");
    let mut trial = world.trial("log: full pipe, journal stopped and blocked", both);
    for round in 0..rounds(4, 40) {
        pause(Duration::from_millis(500));
        world.works(&config, 4 + round % 7);
        trial.survived(1);
    }
    daemon.kill();
    drop(reader);

    let journal = "/run/systemd/journal/socket";
    fs::create_dir_all("/run/systemd/journal").expect("a guest's");
    let mut daemon = world.director.spawn_by(&["env", "LVSD_LOG_FORMAT=journal"]);
    daemon.wait_for("READY=1");
    for round in 0..rounds(4, 40) {
        let blocked = (round % 2 == 0).then(|| UnixDatagram::bind(journal).expect("a socket"));
        pause(Duration::from_millis(800));
        world.works(&config, 4 + round % 7);
        drop(blocked);
        drop(fs::remove_file(journal));
        trial.survived(1);
    }
    assert!(daemon.stop().success());
    trial.end();
}
