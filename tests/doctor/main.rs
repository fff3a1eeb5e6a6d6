//! `lvsd doctor` on hosts that are directories: one sound host, and for each finding the one thing that
//! makes it appear. `tests/kernel` has the same on a real kernel.

#![cfg(test)]

mod cases;
mod configs;
mod files;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use lvsd::config::{self, Sources};
use lvsd::doctor::{Facts, Finding, InterfaceAddress, Level, examine, render};
use tempfile::TempDir;

use cases::{CASES, Case};

/// What a sound director has. The client's network is 192.0.2.0/24 on eth0, which also has the default
/// route, the servers' is 198.51.100.0/24 on eth1.
const HOST: &[(&str, &str)] = &[
    ("proc/sys/kernel/osrelease", "6.1.0-28-amd64\n"),
    ("proc/sys/net/ipv4/ip_forward", "1\n"),
    ("proc/sys/net/ipv6/conf/all/forwarding", "1\n"),
    ("proc/sys/net/ipv6/conf/eth0/accept_ra", "2\n"),
    ("proc/sys/net/ipv4/ping_group_range", "0\t2147483647\n"),
    ("proc/sys/net/netfilter/nf_conntrack_max", "65536\n"),
    ("proc/sys/net/netfilter/nf_conntrack_count", "12\n"),
    ("proc/sys/net/ipv4/vs/am_droprate", "10\n"),
    ("proc/sys/net/ipv4/vs/backup_only", "0\n"),
    ("proc/sys/net/ipv4/vs/conn_reuse_mode", "1\n"),
    ("proc/sys/net/ipv4/vs/conntrack", "0\n"),
    ("proc/sys/net/ipv4/vs/drop_entry", "0\n"),
    ("proc/sys/net/ipv4/vs/drop_packet", "0\n"),
    ("proc/sys/net/ipv4/vs/expire_nodest_conn", "1\n"),
    ("proc/sys/net/ipv4/vs/expire_quiescent_template", "1\n"),
    ("proc/sys/net/ipv4/vs/run_estimation", "1\n"),
    ("proc/sys/net/ipv4/vs/schedule_icmp", "1\n"),
    ("proc/sys/net/ipv4/vs/sloppy_sctp", "1\n"),
    ("proc/sys/net/ipv4/vs/sloppy_tcp", "1\n"),
    ("proc/sys/net/ipv4/vs/sync_persist_mode", "0\n"),
    ("proc/sys/net/ipv4/vs/sync_version", "1\n"),
    ("proc/sys/net/ipv4/conf/all/rp_filter", "0\n"),
    ("proc/sys/net/ipv4/conf/all/arp_ignore", "0\n"),
    ("proc/sys/net/ipv4/conf/all/send_redirects", "0\n"),
    ("proc/sys/net/ipv4/conf/eth0/forwarding", "1\n"),
    ("proc/sys/net/ipv4/conf/eth0/send_redirects", "0\n"),
    ("proc/sys/net/ipv4/conf/eth1/forwarding", "1\n"),
    ("proc/modules", "ip_vs 180224 6 ip_vs_wrr, Live 0x0\nip_vs_wrr 16384 1 - Live 0x0\n"),
    (
        "lib/modules/6.1.0-28-amd64/modules.dep",
        "kernel/net/netfilter/ipvs/ip_vs.ko: kernel/lib/libcrc32c.ko\nkernel/net/netfilter/ipvs/ip_vs_wrr.ko:\n\
         kernel/net/netfilter/ipvs/ip_vs_mh.ko.xz:\nkernel/net/netfilter/ipvs/ip_vs_lblc.ko:\n\
         kernel/net/netfilter/ipvs/ip_vs_pe_sip.ko:\nkernel/net/netfilter/ipvs/ip_vs_ftp.ko:\n",
    ),
    ("lib/modules/6.1.0-28-amd64/modules.builtin", "kernel/net/netfilter/ipvs/ip_vs_rr.ko\n"),
    ("proc/net/ip_vs", EMPTY_TABLE),
    (
        "proc/net/route",
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
         eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
         eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
         eth1\t006433C6\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
    ),
    (
        "proc/net/ipv6_route",
        "00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
         20010db8000000000000000000000001 00000400 00000001 00000000 00450003     eth0\n\
         20010db8000000000000000000000010 80 00000000000000000000000000000000 00 \
         00000000000000000000000000000000 00000000 00000001 00000000 80200001       lo\n",
    ),
    (
        "proc/net/fib_trie",
        "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 192.0.2.0\n        /24 link UNICAST\nLocal:\n     |-- 192.0.2.10\n        \
         /32 host LOCAL\n     |-- 203.0.113.0\n        /28 host LOCAL\n     |-- 192.0.2.255\n        \
         /32 link BROADCAST\n",
    ),
    ("proc/77/comm", "lvsd\n"),
    ("proc/77/cmdline", "/usr/bin/lvsd\0run\0-c\0/etc/lvsd/lvsd.toml\0"),
    ("proc/77/status", "Name:\tlvsd\nGid:\t999\t999\t999\t999\nGroups:\t999 \nCapEff:\t0000000000001000\n"),
    (
        "proc/77/limits",
        "Limit                     Soft Limit           Hard Limit           Units\n\
         Max open files            262144               262144               files\n",
    ),
];

const EMPTY_TABLE: &str = "IP Virtual Server version 1.2.1 (size=4096)\n\
     Prot LocalAddress:Port Scheduler Flags\n\
       -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n";

/// With the device's own address before the virtual one.
fn addresses(case: &Case) -> Vec<InterfaceAddress> {
    let default = "eth0 192.0.2.1/24, eth0 192.0.2.10/32, eth1 198.51.100.254/24";
    let one = |text: &str| {
        let (interface, rest) = text.trim().split_once(' ').expect("a device and an address");
        let (address, prefix) = rest.split_once('/').expect("an address and a prefix");
        InterfaceAddress {
            interface: interface.to_owned(),
            address: address.parse().expect("an address"),
            prefix: prefix.parse().expect("a number"),
        }
    };
    case.addresses.unwrap_or(default).split(',').map(one).collect()
}

fn load(config: &str) -> lvsd::engine::model::Config {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("lvsd.toml");
    fs::write(&path, config).expect("our folder");
    let sources = Sources::read(&path).expect("it is there");
    match config::load(&sources) {
        Ok(loaded) => loaded.config,
        Err(mistakes) => panic!("{}", mistakes.render(config::Palette::Plain)),
    }
}

/// An empty text takes the file away.
fn findings(case: &Case, changes: &[(&str, &str)]) -> Vec<Finding> {
    let root = TempDir::new().expect("a folder");
    let put = |(path, text): &(&str, &str)| {
        let path = root.path().join(path);
        if text.is_empty() {
            // One that the sound host does not have either may be meant.
            drop(fs::remove_file(&path));
            return;
        }
        fs::create_dir_all(path.parent().expect("below the root")).expect("our folder");
        fs::write(path, text).expect("our folder");
    };
    HOST.iter().for_each(put);
    changes.iter().for_each(put);
    let config = load(case.config);
    examine(&config, &Facts::read(root.path(), &config, &BTreeSet::new(), addresses(case)))
}

fn lines(findings: &[Finding]) -> Vec<String> {
    let wrong = findings.iter().filter(|finding| finding.level != Level::Ok);
    wrong.map(|finding| format!("{} {}", finding.level.name(), finding.rule)).collect()
}

#[test]
fn each_finding_has_its_cause() {
    for case in CASES {
        let found = findings(case, case.changes);
        assert_eq!(lines(&found), case.found, "{}: {found:#?}", case.name);
        let commands: Vec<&String> = found.iter().flat_map(|finding| &finding.remedy.commands).collect();
        assert_eq!(commands, case.commands, "{}", case.name);
    }
}

/// What a finding says is not about the host as it is without its cause.
#[test]
fn without_its_cause_no_finding_is_there() {
    // Where the addresses are the cause, the changes are not all of it.
    for case in CASES.iter().filter(|case| case.addresses.is_none() && !case.changes.is_empty()) {
        assert_eq!(lines(&findings(case, &[])), Vec::<String>::new(), "{}", case.name);
    }
}

/// Settings: what the remedy says makes the finding go away.
#[test]
fn the_command_mends_it() {
    let mut tried = 0;
    for case in CASES {
        let found = findings(case, case.changes);
        let lasting = found.iter().flat_map(|finding| &finding.remedy.lasting);
        let settings: Vec<(String, String)> = lasting
            .filter(|lasting| lasting.file == "/etc/sysctl.d/60-lvsd.conf")
            .map(|lasting| {
                let (name, value) = lasting.line.split_once(" = ").expect("a setting");
                (format!("proc/sys/{}", name.replace('.', "/")), value.to_owned())
            })
            .collect();
        if settings.is_empty() {
            continue;
        }
        tried += 1;
        let set = settings.iter().map(|(path, value)| (path.as_str(), value.as_str()));
        let changes: Vec<(&str, &str)> = case.changes.iter().copied().chain(set).collect();
        assert_eq!(lines(&findings(case, &changes)), Vec::<String>::new(), "{}", case.name);
    }
    assert!(tried >= 15, "{tried}");
}

#[test]
fn the_report_is_legible_and_complete() {
    let case = CASES.iter().find(|case| case.name == "no forwarding").expect("it is there");
    let found = findings(case, case.changes);
    insta::assert_snapshot!(render::text(&found));
    let json: serde_json::Value =
        serde_json::from_str(&render::json(&found).expect("plain data")).expect("JSON");
    assert_eq!(json["version"], 1);
    assert_eq!(json["faults"], 1);
    let first = &json["findings"][0];
    assert_eq!((&first["level"], &first["rule"]), (&"fault".into(), &"ip_forward".into()));
    assert_eq!(first["commands"][0], "sysctl -w net.ipv4.ip_forward=1");
    assert_eq!(first["lasting"][0]["line"], "net.ipv4.ip_forward = 1");
    assert_eq!(first["virtual_servers"][0], "web");
}

/// Whatever /proc says, and where there is none.
#[test]
fn hostile_texts_are_read_without_harm() {
    let config = load(configs::NAT);
    let nothing =
        examine(&config, &Facts::read(Path::new("/nonexistent"), &config, &BTreeSet::new(), Vec::new()));
    assert!(nothing.iter().any(|finding| finding.rule == "virtual_address" && finding.level == Level::Fault));
    for text in
        ["\0\0\0", "-> -> -> -> -> ->", "TCP :", "FWM", "|-- \n/ host LOCAL", "a\tb\tc", "((size=", "[::]:"]
    {
        let root = TempDir::new().expect("a folder");
        for (path, _) in HOST {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("below the root")).expect("our folder");
            fs::write(path, text.repeat(100)).expect("our folder");
        }
        let found = examine(&config, &Facts::read(root.path(), &config, &BTreeSet::new(), Vec::new()));
        assert!(!render::text(&found).is_empty());
    }
}

/// A host of two users beside root: the service with its group, and somebody else.
const USERS: &[(&str, &str)] = &[
    ("etc/passwd", "root:x:0:0::/root:/bin/sh\nlvsd:x:999:999::/:/bin/false\nalice:x:1000:1000::/:/bin/sh\n"),
    ("etc/group", "root:x:0:\nlvsd:x:999:\nkeys:x:500:lvsd\nalice:x:1000:\n"),
];
const STATUS: &str = "Name:\tlvsd\nUid:\t999\t999\t999\t999\nGid:\t999\t999\t999\t999\nGroups:\t500 999 \n";

/// What is found of files and programs on such a host, after `prepare` has put them there.
fn of_files(config: &str, capabilities: &str, prepare: impl Fn(&Path)) -> Vec<Finding> {
    let root = TempDir::new().expect("a folder");
    let status = format!("{STATUS}CapEff:\t{capabilities}\n");
    let put = |(path, text): &(&str, &str)| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("our folder");
        fs::write(path, text).expect("our folder");
    };
    HOST.iter()
        .chain(USERS)
        .chain(&[("proc/77/status", status.as_str()), ("etc/lvsd/key", "x")])
        .for_each(put);
    put(&("usr/check", "#!/bin/sh\n"));
    prepare(root.path());
    let config = load(config);
    let files = BTreeSet::from(["/etc/lvsd/key".into()]);
    let found = examine(&config, &Facts::read(root.path(), &config, &files, addresses(&CASES[0])));
    found
        .into_iter()
        .filter(|finding| ["unreadable", "program", "script_user", "control_group"].contains(&finding.rule))
        .collect()
}

fn set(path: &Path, owner: (u32, u32), mode: u32) {
    std::os::unix::fs::chown(path, Some(owner.0), Some(owner.1)).expect("tests run as root");
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("ours");
}

const ADMIN: &str = "0000000000001000";

#[test]
fn files_that_the_service_may_not_read_are_found_by_owner_group_and_mode() {
    // Owner, group, mode of the file; mode of its folder; may the service read it?
    for (owner, mode, folder, readable) in [
        ((0, 0), 0o600, 0o755, false),
        ((0, 0), 0o644, 0o755, true),
        ((0, 999), 0o640, 0o755, true),
        ((0, 500), 0o640, 0o755, true),
        ((0, 1000), 0o640, 0o755, false),
        ((999, 0), 0o400, 0o755, true),
        // The first that fits counts, not the best.
        ((999, 0), 0o044, 0o755, false),
        ((0, 999), 0o604, 0o755, false),
        ((0, 0), 0o644, 0o700, false),
    ] {
        let prepare = |root: &Path| {
            set(&root.join("etc/lvsd/key"), owner, mode);
            set(&root.join("etc/lvsd"), (0, 0), folder);
        };
        let found = of_files(configs::NAT, ADMIN, prepare);
        assert_eq!(found.is_empty(), readable, "{owner:?} {mode:o} {folder:o}: {found:#?}");
        // CAP_DAC_READ_SEARCH.
        assert!(of_files(configs::NAT, "0000000000001004", prepare).is_empty(), "{owner:?} {mode:o}");
        for finding in found {
            assert_eq!((finding.level, finding.rule), (Level::Fault, "unreadable"));
            let wanted = if folder == 0o700 { "namei -l /etc/lvsd/key" } else { "chgrp lvsd /etc/lvsd/key" };
            assert!(finding.remedy.commands[0].starts_with(wanted), "{finding:#?}");
            assert!(
                finding.found.starts_with("the user \"lvsd\" may not read /etc/lvsd/key"),
                "{finding:#?}"
            );
        }
    }
}

/// Its checks fail at each run, or it cannot be told that anything happened.
#[test]
fn programs_that_are_not_there_or_not_to_be_run_are_found() {
    let notified = format!("[daemon.notify]\nscript = [\"/usr/check\"]\n{}", configs::NAT);
    for (config, why) in
        [(configs::SCRIPT, "each run of its check is a failure"), (notified.as_str(), "nobody is told")]
    {
        for (mode, owner, found) in [
            (0o755, (0, 0), None),
            (0o750, (0, 999), None),
            (0o750, (0, 0), Some("the user \"lvsd\" may not run /usr/check")),
            (0o644, (0, 0), Some("the user \"lvsd\" may not run /usr/check")),
        ] {
            let prepared = of_files(config, ADMIN, |root| set(&root.join("usr/check"), owner, mode));
            let texts: Vec<&str> = prepared.iter().map(|finding| finding.found.as_str()).collect();
            assert_eq!(texts, found.into_iter().collect::<Vec<_>>(), "{mode:o}");
        }
        let gone =
            of_files(config, ADMIN, |root| fs::remove_file(root.join("usr/check")).expect("it is there"));
        assert_eq!((gone.len(), gone[0].level), (1, Level::Fault), "{gone:#?}");
        assert_eq!(gone[0].found, "there is no program /usr/check");
        assert!(gone[0].why.starts_with(why), "{}", gone[0].why);
    }
    let concerned = of_files(configs::SCRIPT, ADMIN, |root| set(&root.join("usr/check"), (0, 0), 0o600));
    assert_eq!(concerned[0].virtual_servers, ["web"]);
}

/// The packaged service has CAP_NET_ADMIN alone: what is to run as somebody else never runs.
#[test]
fn scripts_of_another_user_need_the_right_to_become_that_user() {
    let check = configs::SCRIPT.replace("\"/usr/check\"]", "\"/usr/check\"], user = \"alice\"");
    let notify = format!("[daemon.notify]\nscript_user = \"alice\"\n{}", configs::NAT);
    let runs = |root: &Path| set(&root.join("usr/check"), (0, 0), 0o755);
    for (config, concerned) in [(&check, vec!["web"]), (&notify, vec![])] {
        let found = of_files(config, ADMIN, runs);
        assert_eq!(
            (found.len(), found[0].level, found[0].rule),
            (1, Level::Fault, "script_user"),
            "{found:#?}"
        );
        assert_eq!(found[0].found, "the daemon runs as \"lvsd\", and cannot run scripts as alice");
        assert_eq!(found[0].virtual_servers, concerned);
        // CAP_SETGID alone, CAP_SETUID alone, both.
        for (capabilities, is_fault) in [("1040", true), ("1080", true), ("10c0", false)] {
            let capabilities = format!("000000000000{capabilities}");
            assert_eq!(of_files(config, &capabilities, runs).is_empty(), !is_fault, "{capabilities}");
        }
        assert!(of_files(&config.replace("alice", "lvsd"), ADMIN, runs).is_empty(), "its own user");
    }
    // It is that user who must be able to run it.
    let found = of_files(&check, "00000000000010c0", |root| set(&root.join("usr/check"), (0, 999), 0o750));
    assert_eq!(found[0].found, "the user \"alice\" may not run /usr/check");
}

#[test]
fn a_control_group_that_is_not_there_is_found() {
    for (group, there) in [("keys", true), ("1234", true), ("operators", false)] {
        let config = format!("[daemon]\ncontrol_group = {group:?}\n{}", configs::NAT);
        let found = of_files(&config, ADMIN, |_| ());
        assert_eq!(found.is_empty(), there, "{found:#?}");
        assert!(
            there
                || found[0].rule == "control_group"
                    && found[0].remedy.commands[0] == "groupadd --system operators"
        );
    }
}
