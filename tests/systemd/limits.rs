//! The limits of the unit: memory that ends, for the daemon and for its scripts; and a journal that takes nothing.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::lab::client::{Traffic, fetch};
use crate::lab::wait::{output, until, within};
use crate::service::{CONFIG, Machine, TABLE, VIRTUAL, journal, must, property, systemctl};
use crate::watch::{Table, Watch, judge};

/// The unit's limit until it is dropped.
struct Limit;

impl Limit {
    fn set(limit: &str) -> Self {
        must(&format!("set-property --runtime lvsd MemoryMax={limit}"));
        Self
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        drop(systemctl("set-property --runtime lvsd MemoryMax=infinity"));
    }
}

/// A number that the kernel keeps of the service's control group.
fn group(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/sys/fs/cgroup{}/{file}", property("ControlGroup"))).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

/// Both servers are well all the time.
fn both(table: &Table) -> Option<String> {
    let whole = table.get("192.0.2.10:80").is_some_and(|web| web.len() == 2 && web.values().all(|w| *w > 0));
    (!whole).then(|| format!("a server that is well is missing: {table:?}"))
}

/// The table is looked at and connections are made, from here to the end.
struct Trial {
    watch: Watch,
    traffic: Traffic,
}

impl Trial {
    fn start(machine: &Machine) -> Self {
        let watch = Watch::start(&machine.network.director, both);
        Self { watch, traffic: Traffic::start(&machine.network.client, VIRTUAL) }
    }

    fn end(self, name: &str, faults: u64) {
        judge(name, faults, &self.watch.stop(), &self.traffic.stop());
    }
}

/// The daemon answers, and a change of the file reaches the table.
fn works(machine: &Machine, config: &str, weight: u32) {
    machine.configure(&config.replace("weight = 3", &format!("weight = {weight}")));
    must("reload lvsd");
    let weighed = TABLE[1].replace("-w 3", &format!("-w {weight}"));
    until("the weight is there", || machine.table() == [TABLE[0], weighed.as_str(), TABLE[2]]);
}

#[test]
fn it_stays_below_a_limit_of_64_mib_under_load() {
    let machine = Machine::new(CONFIG);
    let _limit = Limit::set("64M");
    must("start lvsd");
    let trial = Trial::start(&machine);
    let mut asked = 0;
    for round in 0..10 {
        for _ in 0..100 {
            asked += u64::from(fetch("127.0.0.1:9480").is_ok());
        }
        output(Command::new("lvsd").args(["status", "--json"]));
        works(&machine, CONFIG, 4 + round % 5);
    }
    assert_eq!(group("memory.events", "oom_kill "), Some(0));
    assert_eq!((property("NRestarts"), property("ActiveState")), ("0".to_owned(), "active".to_owned()));
    trial.end("a memory limit of 64 MiB, under load", asked);
}

/// A limit that nothing can run in: killed in its work, then in one start after the other.
#[test]
fn a_limit_that_kills_it_leaves_the_table_and_it_comes_back() {
    let machine = Machine::new(CONFIG);
    must("start lvsd");
    let trial = Trial::start(&machine);
    let limit = Limit::set("1M");
    let restarts = || property("NRestarts").parse::<u64>().expect("a number");
    within(Duration::from_secs(120), "it is killed again and again", || (restarts() >= 4).then_some(()));
    let killed = restarts();
    drop(limit);
    within(Duration::from_secs(120), "it is back", || {
        (property("ActiveState") == "active" && property("SubState") == "running").then_some(())
    });
    assert!(journal(&[]).contains("killed by the OOM killer"), "{}", journal(&[]));
    works(&machine, CONFIG, 5);
    trial.end("killed by the unit's memory limit", killed);
}

/// The kernel ends one of those that share the limit: a script, which holds most, and not the daemon beside it. And
/// systemd does not stop the rest for it.
#[test]
fn a_script_that_eats_all_memory_costs_its_run_alone() {
    let script = "/usr/local/bin/lvsd-test-eats";
    fs::write(
        script,
        "#!/bin/sh\ncat /proc/self/oom_score_adj >/var/lib/lvsd/score\ntail /dev/zero\nexit 1\n",
    )
    .expect("root may");
    output(Command::new("chmod").args(["755", script]));
    let checks = format!(
        "check = [{{ http = {{ path = \"/\" }} }}, \
         {{ mode = \"observe\", timeout = \"20s\", script = {{ argv = [{script:?}] }} }}]"
    );
    let config = CONFIG.replace("check = { http = { path = \"/\" } }", &checks);
    let machine = Machine::new(&config);
    let _limit = Limit::set("96M");
    must("start lvsd");
    let (before, trial) = (property("MainPID"), Trial::start(&machine));
    let eaten = within(Duration::from_secs(120), "scripts were killed", || {
        group("memory.events", "oom_kill ").filter(|killed| *killed >= 4)
    });
    works(&machine, &config, 5);
    assert_eq!((property("MainPID"), property("NRestarts")), (before, "0".to_owned()));
    assert_eq!(fs::read_to_string("/var/lib/lvsd/score").expect("a script wrote it"), "0\n");
    trial.end("scripts that eat the unit's memory", eaten);
}

/// journald is there and reads nothing: whoever writes to its socket waits.
struct Blocked;

impl Blocked {
    fn journal() -> Self {
        must("kill -s STOP --kill-whom=main systemd-journald");
        let blocked = Self;
        // Each sender may have so much of it and no more: it is full when a new one cannot send at all.
        let fills = || {
            let sender = UnixDatagram::unbound().expect("a socket");
            sender.set_nonblocking(true).expect("a socket");
            let send = || sender.send_to(b"MESSAGE=filler\n", "/run/systemd/journal/socket").is_ok();
            std::iter::repeat_with(send).take_while(|sent| *sent).count() > 0
        };
        while fills() {}
        blocked
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        drop(systemctl("kill -s CONT --kill-whom=main systemd-journald"));
    }
}

#[test]
fn a_journal_that_takes_nothing_holds_up_nothing() {
    let config = CONFIG.replace("[daemon]", "[daemon]\nlog = \"trace\"").replace("500ms", "100ms");
    let machine = Machine::new(&config);
    must("start lvsd");
    let trial = Trial::start(&machine);
    for round in 0..5 {
        let blocked = Blocked::journal();
        for weight in 4..7 {
            machine.configure(&config.replace("weight = 3", &format!("weight = {weight}")));
            output(Command::new("lvsd").arg("reload"));
            // An order is logged before it is answered.
            output(Command::new("lvsd").args(["weight", "198.51.100.12:80", "1"]));
            let weighed = TABLE[1].replace("-w 3", &format!("-w {weight}"));
            until("the weight is there", || machine.table() == [TABLE[0], weighed.as_str(), TABLE[2]]);
        }
        drop(blocked);
        works(&machine, &config, 4 + round);
    }
    assert_eq!((property("NRestarts"), property("ActiveState")), ("0".to_owned(), "active".to_owned()));
    trial.end("journald's socket full", 5);
    let blocked = Blocked::journal();
    let began = Instant::now();
    must("stop lvsd");
    assert!(began.elapsed() < Duration::from_secs(20), "a stop does not wait for the journal");
    assert_eq!((property("Result"), machine.table()), ("success".to_owned(), vec![]));
    drop(blocked);
}
