//! What `systemctl`, `journalctl` and clients see.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::lab::backend::Backend;
use crate::lab::client::Traffic;
use crate::lab::wait::{output, pause, until, within};
use crate::service::{CONFIG, Machine, SERVERS, TABLE, VIRTUAL, journal, must, property, systemctl};

#[test]
fn start_returns_when_the_table_is_there_and_stop_withdraws_it() {
    let machine = Machine::new(CONFIG);
    must("start lvsd");
    assert_eq!(machine.table(), TABLE);
    assert_eq!(property("StatusText").lines().count(), 1, "one line for people: {}", property("StatusText"));
    must("stop lvsd");
    assert_eq!(machine.table(), Vec::<String>::new());
    assert_eq!(property("Result"), "success");
}

#[test]
fn the_daemon_is_its_own_user_with_one_capability() {
    let _machine = Machine::new(CONFIG);
    must("start lvsd");
    let user = output(Command::new("id").args(["-u", "lvsd"]));
    let status = fs::read_to_string(format!("/proc/{}/status", property("MainPID"))).expect("it runs");
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(field("Uid:"), user.trim());
    assert_ne!(user.trim(), "0");
    // Bit 12 is CAP_NET_ADMIN.
    for set in ["CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(field(set), "0000000000001000", "{set}");
    }
    assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1".to_owned(), "2".to_owned()));
}

#[test]
fn its_files_are_its_own_and_its_group_may_use_the_socket() {
    let _machine = Machine::new(CONFIG);
    must("start lvsd");
    let kept = within(Duration::from_secs(10), "the state file is written", || {
        fs::exists("/var/lib/lvsd/state.json").unwrap_or(false).then_some("/var/lib/lvsd/state.json")
    });
    let owners = |path: &str| output(Command::new("stat").args(["-c", "%U:%G %a", path])).trim().to_owned();
    assert_eq!(owners(kept), "lvsd:lvsd 600");
    assert_eq!(owners("/run/lvsd/control.sock"), "lvsd:lvsd 660");
    assert_eq!(owners("/etc/lvsd/lvsd.toml"), "root:lvsd 640");
}

#[test]
fn the_sandbox_is_rated_at_most_2_0() {
    let _machine = Machine::new(CONFIG);
    // Tenths: exits 1 where the exposure is above the threshold.
    output(Command::new("systemd-analyze").args([
        "security",
        "--no-pager",
        "--threshold=20",
        "lvsd.service",
    ]));
}

#[test]
fn the_unit_has_no_mistakes() {
    let _machine = Machine::new(CONFIG);
    let verify = Command::new("systemd-analyze").args(["verify", "--man=no", "lvsd.service"]).output();
    let verify = verify.expect("systemd-analyze is there");
    let said = String::from_utf8_lossy(&verify.stderr).into_owned();
    assert!(verify.status.success() && !said.contains("lvsd.service"), "{said}");
}

#[test]
fn reload_returns_when_it_is_applied() {
    let machine = Machine::new(CONFIG);
    must("start lvsd");
    let traffic = Traffic::start(&machine.network.client, VIRTUAL);
    machine.configure(&CONFIG.replace("weight = 3", "weight = 5"));
    must("reload lvsd");
    assert_eq!(machine.table(), [TABLE[0], &TABLE[1].replace("-w 3", "-w 5"), TABLE[2]]);
    let report = traffic.stop();
    assert!(report.failures.is_empty() && report.answered > 0, "{report:?}");
}

#[test]
fn a_reload_with_another_control_socket_is_done_and_says_what_is_left_to_the_restart() {
    let machine = Machine::new(CONFIG);
    must("start lvsd");
    let elsewhere = CONFIG.replace("[daemon]", "[daemon]\ncontrol_socket = \"/run/lvsd/other.sock\"");
    machine.configure(&elsewhere.replace("weight = 3", "weight = 5"));
    must("reload lvsd");
    assert_eq!(machine.table(), [TABLE[0], &TABLE[1].replace("-w 3", "-w 5"), TABLE[2]]);
    for told in [
        "nobody listens at /run/lvsd/other.sock, which /etc/lvsd/lvsd.toml names",
        "daemon.control_socket takes effect at the next restart",
    ] {
        assert!(journal(&[]).contains(told), "no {told} in {}", journal(&[]));
    }
    let status = || Command::new("lvsd").arg("status").output().expect("lvsd is there");
    let said = status();
    assert!(said.status.success() && !said.stderr.is_empty(), "{said:?}");
    must("restart lvsd");
    let said = status();
    assert!(said.status.success() && said.stderr.is_empty(), "{said:?}");
    must("stop lvsd");
    // Neither the socket nor word of it; daemons that were killed may have left theirs.
    let left = fs::read_dir("/run/lvsd").expect("preserved").flatten().map(|entry| entry.path());
    let names_it = |path: &Path| path.ends_with("other.sock");
    let ours: Vec<_> = left
        .filter(|path| names_it(path) || fs::read(path).is_ok_and(|text| text.ends_with(b"/other.sock")))
        .collect();
    assert!(ours.is_empty(), "{ours:?}");
}

#[test]
fn a_bare_hup_reloads_too() {
    let machine = Machine::new(CONFIG);
    must("start lvsd");
    machine.configure(&CONFIG.replace("weight = 3", "weight = 5"));
    must("kill -s HUP --kill-whom=main lvsd");
    until("the weight is there", || machine.table().iter().any(|line| line.ends_with("-w 5")));
    assert_eq!(property("ActiveState"), "active");
}

#[test]
fn a_broken_file_fails_the_reload_visibly_and_disturbs_nothing() {
    let machine = Machine::new(CONFIG);
    must("start lvsd");
    let traffic = Traffic::start(&machine.network.client, VIRTUAL);
    let broken = CONFIG.replace("weight = 3", "wait = 3");
    let line = 1 + broken.lines().position(|line| line == "wait = 3").expect("it is there");
    machine.configure(&broken);
    assert!(!systemctl("reload lvsd").status.success());
    let place = format!("/etc/lvsd/lvsd.toml:{line}:1");
    assert!(journal(&[]).contains(&place), "no {place} in {}", journal(&[]));
    assert_eq!(machine.table(), TABLE);
    assert_eq!(property("ActiveState"), "active");
    let report = traffic.stop();
    assert!(report.failures.is_empty() && report.answered > 0, "{report:?}");
    machine.configure(CONFIG);
    must("reload lvsd");
}

#[test]
fn a_broken_file_at_start_is_not_tried_again() {
    let machine = Machine::new(&CONFIG.replace("weight = 3", "wait = 3"));
    assert!(!systemctl("start lvsd").status.success());
    assert_eq!(property("ExecMainStatus"), "78");
    // Longer than RestartSec: a restart would have come.
    pause(Duration::from_secs(3));
    assert_eq!((property("ActiveState"), property("NRestarts")), ("failed".to_owned(), "0".to_owned()));
    assert_eq!(machine.table(), Vec::<String>::new());
}

#[test]
fn restart_with_keep_never_leaves_a_client_without_an_answer() {
    let machine = Machine::new(&CONFIG.replace("[daemon]", "[daemon]\non_stop = \"keep\""));
    must("start lvsd");
    let before = property("MainPID");
    let traffic = Traffic::start(&machine.network.client, VIRTUAL);
    for _ in 0..3 {
        must("restart lvsd");
    }
    let report = traffic.stop();
    assert!(report.failures.is_empty() && report.answered > 0, "{report:?}");
    assert_ne!(property("MainPID"), before);
    assert_eq!(machine.table(), TABLE);
}

#[test]
fn the_journal_tells_one_servers_story() {
    let mut machine = Machine::new(CONFIG);
    must("start lvsd");
    let [first, other] = SERVERS;
    drop(machine.backends[0].take());
    until("the server leaves", || machine.table().len() == 2);
    machine.backends[0] = Some(Backend::start(&machine.network.servers, first));
    until("the server returns", || machine.table().len() == 3);
    // The machine's journal has the runs of other tests too.
    let (of, run) =
        (format!("REAL_SERVER={first}"), format!("_SYSTEMD_INVOCATION_ID={}", property("InvocationID")));
    let story = within(Duration::from_secs(10), "both changes are in the journal", || {
        let story = journal(&[&of, &run]);
        (story.lines().count() >= 2).then_some(story)
    });
    assert!(story.lines().all(|line| !line.contains(other)), "{story}");
    assert!(story.lines().any(|line| line.contains("down")), "{story}");
    assert!(story.lines().any(|line| line.contains("up")), "{story}");
    // One line for each change of state, not one for each failed try.
    assert!(story.lines().count() <= 3, "{story}");
    let fields = journal(&["--output-fields=VIRTUAL_SERVER,PRIORITY", "-o", "json", &of, &run]);
    assert!(fields.contains("\"VIRTUAL_SERVER\":\"web\""), "{fields}");
}

#[test]
fn a_stopped_supervisor_loop_is_restarted_by_the_watchdog() {
    let machine = Machine::new(CONFIG);
    must("start lvsd");
    let before = property("MainPID");
    let traffic = Traffic::start(&machine.network.client, VIRTUAL);
    must("kill -s STOP --kill-whom=main lvsd");
    within(Duration::from_secs(90), "the watchdog restarts the daemon", || {
        (property("NRestarts") != "0" && property("ActiveState") == "active").then_some(())
    });
    assert_ne!(property("MainPID"), before);
    assert_eq!(machine.table(), TABLE);
    let report = traffic.stop();
    assert!(report.failures.is_empty() && report.answered > 0, "{report:?}");
}

#[test]
fn kill_9_is_followed_by_a_start_that_adopts() {
    let machine = Machine::new(CONFIG);
    must("start lvsd");
    until("the state file is written", || fs::exists("/var/lib/lvsd/state.json").unwrap_or(false));
    let traffic = Traffic::start(&machine.network.client, VIRTUAL);
    must("kill -s KILL --kill-whom=main lvsd");
    within(Duration::from_secs(60), "systemd starts it again", || {
        (property("NRestarts") == "1" && property("ActiveState") == "active").then_some(())
    });
    assert_eq!(machine.table(), TABLE);
    let invocation = format!("_SYSTEMD_INVOCATION_ID={}", property("InvocationID"));
    let said = journal(&[&invocation]);
    assert!(said.contains("ready") && !said.contains("state file"), "it was read: {said}");
    let report = traffic.stop();
    assert!(report.failures.is_empty() && report.answered > 0, "{report:?}");
}

#[test]
fn a_script_runs_in_the_sandbox_and_may_change_the_network() {
    let script = "/usr/local/bin/lvsd-test-told";
    let lines = [
        "#!/bin/sh",
        "echo \"$1 by $(id -un)\" >>/var/lib/lvsd/told",
        "ip address add 203.0.113.7/32 dev lo || echo no address >>/var/lib/lvsd/told",
        "echo x >/usr/local/x 2>/dev/null && echo wrote outside >>/var/lib/lvsd/told",
        "echo end >>/var/lib/lvsd/told",
    ];
    fs::write(script, lines.join("\n")).expect("root may");
    output(Command::new("chmod").args(["755", script]));
    let told = format!("weight = 3\nnotify_down = [{script:?}, \"down\"]");
    let mut machine = Machine::new(&CONFIG.replace("weight = 3", &told));
    must("start lvsd");
    drop(machine.backends[0].take());
    let said = within(Duration::from_secs(20), "the script has run", || {
        fs::read_to_string("/var/lib/lvsd/told").ok().filter(|text| text.ends_with("end\n"))
    });
    assert_eq!(said, "down by lvsd\nend\n");
    output(Command::new("ip").args(["address", "del", "203.0.113.7/32", "dev", "lo"]));
}
