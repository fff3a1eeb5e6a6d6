//! `lvsd doctor` on hosts that are directories: one sound host, and for each finding the one thing that
//! makes it appear. `tests/kernel` has the same on a real kernel.

#![cfg(test)]

mod cases;
mod configs;

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
    examine(&config, &Facts::read(root.path(), &config, addresses(case)))
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
    let nothing = examine(&config, &Facts::read(Path::new("/nonexistent"), &config, Vec::new()));
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
        let found = examine(&config, &Facts::read(root.path(), &config, Vec::new()));
        assert!(!render::text(&found).is_empty());
    }
}
