//! The sandbox holds while the daemon does all that it can do.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::lab::wait::{output, within};
use crate::service::{CONFIG, Machine, must, property, systemctl};

/// A field of the main process, and of every other one of the service.
fn fields(name: &str) -> Vec<String> {
    let group = fs::read_to_string(format!("/sys/fs/cgroup{}/cgroup.procs", property("ControlGroup")));
    let processes = group.expect("the service has a group");
    let status = processes.lines().filter_map(|id| fs::read_to_string(format!("/proc/{id}/status")).ok());
    let of = |text: String| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(1).unwrap_or_default().to_owned()
    };
    status.map(of).collect()
}

fn assert_confined(when: &str) {
    for (name, wanted) in [("NoNewPrivs:", "1"), ("Seccomp:", "2")] {
        let found = fields(name);
        assert!(!found.is_empty() && found.iter().all(|value| value == wanted), "{name} {found:?} {when}");
    }
    // Bit 12 is CAP_NET_ADMIN.
    for name in ["CapEff:", "CapPrm:", "CapBnd:"] {
        let found = fields(name);
        let holds = |value: &String| value == "0000000000001000" || value == "0000000000000000";
        assert!(!found.is_empty() && found.iter().all(holds), "{name} {found:?} {when}");
    }
}

#[test]
fn it_stays_confined_whatever_it_does() {
    let told = "/var/lib/lvsd/confined";
    let script = "/usr/local/bin/lvsd-test-confined";
    let lines =
        ["#!/bin/sh", "grep -E '^(Seccomp|NoNewPrivs):' /proc/self/status >/var/lib/lvsd/confined", "exit 0"];
    fs::write(script, lines.join("\n")).expect("root may");
    output(Command::new("chmod").args(["755", script]));
    // Checks by script, by DNS and by TLS, of which the last two fail: the servers speak plain HTTP.
    let checks = format!(
        "check = [{{ http = {{ path = \"/\" }} }}, {{ script = {{ argv = [{script:?}] }} }},\n\
         {{ mode = \"observe\", dns = {{}} }}, {{ mode = \"observe\", http = {{ path = \"/\", tls = {{ verify = false }} }} }}]"
    );
    let config = CONFIG.replace("check = { http = { path = \"/\" } }", &checks);
    let machine = Machine::new(&config);
    must("start lvsd");
    let filter = property("SystemCallFilter");
    assert!(filter.contains("sendmsg") && !filter.contains("ptrace"), "the filter is in force: {filter}");
    assert_eq!(property("NoNewPrivileges"), "yes");
    assert_confined("while it serves");
    let said = within(Duration::from_secs(20), "the script of a check has run", || {
        fs::read_to_string(told).ok().filter(|text| text.contains("Seccomp"))
    });
    assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ["NoNewPrivs:", "1", "Seccomp:", "2"]);
    // Each kind of check has come to a result of its server's, not of the sandbox's.
    let status = within(Duration::from_secs(20), "all checks have run", || {
        let said = Command::new("lvsd").args(["status", "--json"]).output().ok()?;
        let text = String::from_utf8(said.stdout).ok()?;
        (!text.contains("\"has_run\":false") && !text.contains("\"has_run\": false")).then_some(text)
    });
    assert!(!status.contains("EPERM") && !status.contains("not permitted"), "{status}");
    assert_confined("after all kinds of checks");
    machine.configure(&config.replace("weight = 3", "weight = 4"));
    must("reload lvsd");
    assert_confined("after a reload");
    machine.configure("nonsense");
    assert!(!systemctl("reload lvsd").status.success());
    assert_confined("after a reload that was refused");
}
