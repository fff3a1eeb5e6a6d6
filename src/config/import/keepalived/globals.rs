//! `global_defs` and what else stands outside of virtual servers.

use std::net::IpAddr;

use super::mail::Mail;
use super::reading::{Reading, address};
use super::scripts::{self, Command, is_user};
use super::tree::{self, Statement};
use super::words::{self, Garbage, Read, shown};
use crate::config::import::document::Table;
use crate::config::import::notes::{At, Weight};

/// What the kernel takes, which is less than keepalived's month.
const TIMEOUT_MAXIMUM: u32 = 2_147_483;

#[derive(Debug, Default)]
pub(super) struct Globals {
    pub(super) name: Option<String>,
    /// Of scripts that name no user themselves.
    pub(super) script_user: Option<String>,
    pub(super) script_user_at: Option<At>,
    pub(super) timeouts: Table,
    /// `[daemon.notify]`.
    pub(super) notify: Table,
    /// Of `startup_script` and `shutdown_script`.
    pub(super) scripts: Vec<Command>,
    pub(super) mail: Mail,
    pub(super) sync: Option<(At, Table)>,
    pub(super) lost: Vec<String>,
}

use Weight::{NotCarried, Remark};

/// Keywords of `global_defs` without a key of lvsd's, and why.
const KEYWORDS: &[(&str, Weight, &str)] = &[
    (
        "lvs_flush",
        NotCarried,
        "lvsd never flushes the table: services of others live in it; its own it adopts and repairs",
    ),
    (
        "lvs_flush_on_stop",
        NotCarried,
        "at its end lvsd takes out what is its own, and nothing else: on_stop = \"withdraw\" is the default",
    ),
    (
        "lvs_flush_onstop",
        NotCarried,
        "at its end lvsd takes out what is its own, and nothing else: on_stop = \"withdraw\" is the default",
    ),
    ("lvs_notify_fifo_script", NotCarried, "lvsd starts no reader of its FIFO: run it as a systemd service"),
    ("notify_fifo_script", NotCarried, "lvsd starts no reader of its FIFO: run it as a systemd service"),
    ("startup_script_timeout", NotCarried, "lvsd has one script_timeout for all scripts of notifications"),
    ("shutdown_script_timeout", NotCarried, "lvsd has one script_timeout for all scripts of notifications"),
    ("no_checker_emails", Remark, "lvsd never tells of single checks by mail"),
    ("no_email_faults", Remark, "it is about VRRP"),
    (
        "rs_init_notifies",
        NotCarried,
        "at its start lvsd notifies of servers that are down, not of those that are up",
    ),
    ("checker_log_all_failures", NotCarried, "lvsd logs failed tries at level debug"),
    ("enable_script_security", Remark, "lvsd always looks at who may write a script, at each run"),
    ("set_supplementary_groups", Remark, "lvsd always runs programs with the groups of their user"),
    ("use_symlink_paths", Remark, "lvsd follows symbolic links, and looks at each directory on the way"),
    ("checker_priority", NotCarried, "use Nice= of the systemd unit"),
    ("checker_no_swap", NotCarried, "use MemorySwapMax= of the systemd unit"),
    (
        "checker_rt_priority",
        NotCarried,
        "use CPUSchedulingPolicy= and CPUSchedulingPriority= of the systemd unit",
    ),
    ("checker_cpu_affinity", NotCarried, "use CPUAffinity= of the systemd unit"),
    ("checker_rlimit_rttime", NotCarried, "use LimitRTTIME= of the systemd unit"),
    ("checker_rlimit_rtime", NotCarried, "use LimitRTTIME= of the systemd unit"),
    (
        "max_auto_priority",
        NotCarried,
        "lvsd does not change its own priority; its metrics tell how late checks are",
    ),
    ("min_auto_priority_delay", NotCarried, "lvsd does not change its own priority"),
    ("process_names", Remark, "lvsd is one process"),
    ("process_name", Remark, "lvsd is one process"),
    ("checker_process_name", Remark, "lvsd is one process"),
    ("lvs_process_name", Remark, "lvsd is one process"),
    ("lvs_netlink_cmd_rcv_bufs", Remark, "lvsd sizes its own buffers"),
    ("lvs_netlink_cmd_rcv_bufs_force", Remark, "lvsd sizes its own buffers"),
    ("lvs_netlink_monitor_rcv_bufs", Remark, "lvsd sizes its own buffers"),
    ("lvs_netlink_monitor_rcv_bufs_force", Remark, "lvsd sizes its own buffers"),
    (
        "nftables_ipvs",
        NotCarried,
        "each address of a range is a service of its own; mark the packets in nftables yourself, and write `fwmark`, if they are many",
    ),
    ("nftables_ipvs_priority", NotCarried, "lvsd writes no nftables rules"),
    ("nftables_ipvs_start_fwmark", NotCarried, "lvsd writes no nftables rules"),
    ("nftables_counters", NotCarried, "lvsd writes no nftables rules"),
    ("enable_snmp_checker", NotCarried, "lvsd has no SNMP; /metrics has the same numbers"),
    ("enable_snmp_keepalived", NotCarried, "lvsd has no SNMP; /metrics has the same numbers"),
    ("enable_traps", NotCarried, "lvsd has no SNMP; notifications and /metrics tell the same"),
    ("snmp_socket", NotCarried, "lvsd has no SNMP"),
    ("snmp_vs_stats_update_interval", NotCarried, "lvsd has no SNMP"),
    ("snmp_rs_stats_update_interval", NotCarried, "lvsd has no SNMP"),
    ("reload_check_config", Remark, "lvsd always validates the whole file before it changes anything"),
    ("reload_time_file", NotCarried, "use a systemd timer that runs `lvsd reload`"),
    ("reload_repeat", NotCarried, "use a systemd timer that runs `lvsd reload`"),
    ("reload_file", Remark, "`lvsd reload` returns when the file has been read and applied"),
    ("include_check", Remark, "an include that is missing is always an error"),
    ("config_save_dir", Remark, "it is about keepalived's own copies of its configuration"),
    ("tmp_config_directory", Remark, "it is about keepalived's own copies of its configuration"),
    ("data_use_instance", Remark, "it is about keepalived's dumps; `lvsd status --json` tells the same"),
    ("state_dump_file", Remark, "`lvsd status` tells the same"),
    ("stats_dump_file", Remark, "it is about VRRP"),
    ("json_dump_file", Remark, "`lvsd status --json` tells the same"),
    ("json_version", Remark, "it is about VRRP"),
    ("umask", NotCarried, "use UMask= of the systemd unit"),
    ("random_seed", Remark, "lvsd times no check at random"),
    ("enable_dbus", Remark, "it is about VRRP"),
    ("dbus_service_name", Remark, "it is about VRRP"),
    ("dbus_no_interface_name", Remark, "it is about VRRP"),
    ("smtp_alert_vrrp", Remark, "it is about VRRP"),
    ("dynamic_interfaces", Remark, "it is about VRRP"),
    ("default_interface", Remark, "it is about VRRP"),
    ("disable_local_igmp", Remark, "it is about VRRP"),
    ("v3_checksum_as_v2", Remark, "it is about VRRP"),
    ("fifo_write_vrrp_states_on_reload", Remark, "it is about VRRP"),
    ("log_unknown_vrids", Remark, "it is about VRRP"),
    ("vmac_prefix", Remark, "it is about VRRP"),
    ("vmac_addr_prefix", Remark, "it is about VRRP"),
    ("nftables", Remark, "it is about VRRP"),
    ("nftables_priority", Remark, "it is about VRRP"),
    ("nftables_ifindex", Remark, "it is about VRRP"),
    ("enable_snmp_vrrp", Remark, "it is about VRRP"),
    ("enable_snmp_rfc", Remark, "it is about VRRP"),
    ("enable_snmp_rfcv2", Remark, "it is about VRRP"),
    ("enable_snmp_rfcv3", Remark, "it is about VRRP"),
    ("iproute_usr_dir", Remark, "it is about VRRP"),
    ("iproute_etc_dir", Remark, "it is about VRRP"),
    ("process_monitor_rcv_bufs", Remark, "it is about VRRP"),
    ("process_monitor_rcv_bufs_force", Remark, "it is about VRRP"),
];

const VRRP: &str =
    "lvsd moves no addresses: leave this to keepalived, started with --vrrp, or to another VRRP daemon";

/// Blocks and words outside of any block, and why lvsd has nothing for them.
const OUTERMOST: &[(&str, &str)] = &[
    ("vrrp_instance", VRRP),
    ("vrrp_sync_group", VRRP),
    ("vrrp_script", VRRP),
    ("vrrp_track_process", VRRP),
    ("track_process", VRRP),
    ("track_group", VRRP),
    ("garp_group", VRRP),
    ("static_ipaddress", VRRP),
    ("static_routes", VRRP),
    ("static_rules", VRRP),
    ("interface_up_down_delays", VRRP),
    ("linkbeat_use_polling", VRRP),
    ("linkbeat_interfaces", VRRP),
    ("namespace_with_ipsets", VRRP),
    ("bfd_instance", "lvsd has no BFD; a daemon that has it can write a file for a `file` check"),
    ("net_namespace", "use NetworkNamespacePath= of the systemd unit"),
    (
        "net_namespace_ipvs",
        "lvsd's checks run in the name space of its table; use NetworkNamespacePath= of the systemd unit",
    ),
    ("instance", "give each lvsd its own file with a control_socket and a state_file of its own"),
    ("use_pid_dir", "lvsd writes no pid file; systemd knows the process"),
    ("child_wait_time", "use TimeoutStopSec= of the systemd unit"),
];

/// `false`: it is none of these.
pub(super) fn outermost(reading: &mut Reading<'_>, statement: &Statement) -> bool {
    let why = OUTERMOST.iter().find(|(word, _)| *word == statement.keyword()).map(|(_, why)| *why);
    if let Some(why) = why {
        reading.notes.not_carried(statement.at, statement.keyword(), why);
    }
    why.is_some()
}

impl Globals {
    pub(super) fn read(&mut self, reading: &mut Reading<'_>, statement: &Statement) {
        for line in statement.inner() {
            match line.keyword() {
                "router_id" => self.name = reading.word(line).filter(|name| fits_in_line(name)),
                "script_user" => self.user(reading, line),
                "lvs_timeouts" => self.timeouts(reading, line),
                "lvs_notify_fifo" | "notify_fifo" => self.fifo(reading, line),
                "startup_script" => self.script(reading, line, "start"),
                "shutdown_script" => self.script(reading, line, "stop"),
                "lvs_sync_daemon" => self.sync(reading, line),
                _ if self.mail.read(reading, &mut self.lost, line) => {}
                keyword => match KEYWORDS.iter().find(|(word, ..)| *word == keyword) {
                    Some((_, NotCarried, why)) => reading.lose(&mut self.lost, line.at, keyword, *why),
                    Some((_, Remark, why)) => reading.notes.remark(line.at, keyword, *why),
                    None if ["vrrp_", "bfd_"].iter().any(|prefix| keyword.starts_with(prefix)) => {
                        reading.notes.remark(line.at, keyword, "it is about VRRP or BFD");
                    }
                    None => tree::unknown(reading.notes, line, "global_defs"),
                },
            }
        }
    }

    fn user(&mut self, reading: &mut Reading<'_>, line: &Statement) {
        let user = reading.first(line).filter(|name| is_user(name));
        if line.words().len() > 2 {
            let why = "the group: lvsd runs programs with all groups of their user";
            reading.lose(&mut self.lost, line.at, "script_user", why);
        }
        self.script_user_at = user.is_some().then_some(line.at);
        self.script_user = user;
    }

    /// `PATH [user [group]]`. Of two, that of the checkers counts.
    fn fifo(&mut self, reading: &mut Reading<'_>, line: &Statement) {
        let path = reading.first(line).filter(|path| path.starts_with('/') && fits_in_line(path));
        if path.is_none() || (line.keyword() == "notify_fifo" && self.notify.value("fifo").is_some()) {
            let why = "lvsd has one FIFO, with a full path";
            return reading.lose(&mut self.lost, line.at, line.keyword(), why);
        }
        if line.words().len() > 2 {
            let why = "lvsd makes the FIFO for the group of script_user to read";
            reading.notes.remark(line.at, line.keyword(), why);
        }
        self.notify.set_if("fifo", path);
    }

    fn script(&mut self, reading: &mut Reading<'_>, line: &Statement, key: &'static str) {
        let Some(command) = scripts::command(reading, line) else { return };
        let why = "lvsd runs it when the first table is written, or before it ends; keepalived before and after everything";
        reading.notes.remark(line.at, line.keyword(), why);
        self.notify.set(key, command.argv.clone());
        self.scripts.push(command);
    }

    /// `[tcp N] [tcpfin N] [udp N]`; 0 leaves the kernel's.
    fn timeouts(&mut self, reading: &mut Reading<'_>, line: &Statement) {
        let words = line.words();
        for pair in words.get(1..).unwrap_or_default().chunks(2) {
            let [name, value] = pair else {
                reading.notes.remark(
                    line.at,
                    "lvs_timeouts",
                    "a value is missing; keepalived ignores the word",
                );
                continue;
            };
            let key = match name.as_str() {
                "tcp" => "tcp",
                "tcpfin" => "tcp_fin",
                "udp" => "udp",
                other => {
                    let why = format!("keepalived knows no time-out {} and ignores it", shown(other));
                    reading.notes.remark(line.at, "lvs_timeouts", why);
                    continue;
                }
            };
            match words::number(value, 0, 2_678_400, Garbage::Refused) {
                Read::Good(0) => {}
                Read::Good(seconds) => {
                    let seconds = u32::try_from(seconds).unwrap_or(TIMEOUT_MAXIMUM);
                    if seconds > TIMEOUT_MAXIMUM {
                        let why = format!(
                            "{seconds} s is more than the kernel takes on all machines, and becomes {TIMEOUT_MAXIMUM}"
                        );
                        reading.notes.remark(line.at, "lvs_timeouts", why);
                    }
                    let seconds = seconds.min(TIMEOUT_MAXIMUM);
                    self.timeouts.set(key, std::time::Duration::from_secs(u64::from(seconds)));
                }
                Read::Odd(_, why) | Read::Bad(why) => {
                    reading.notes.remark(line.at, "lvs_timeouts", format!("{why}; keepalived ignores it"));
                }
            }
        }
    }

    /// `IF [[inst] VRRP] [id N] [maxlen N] [port N] [ttl N] [group MULTICAST]`
    fn sync(&mut self, reading: &mut Reading<'_>, line: &Statement) {
        let words = line.words();
        let mut words = words.iter().skip(1).map(String::as_str).enumerate();
        let Some((_, interface)) = words.next() else {
            return reading.notes.remark(
                line.at,
                "lvs_sync_daemon",
                "it names no interface; keepalived ignores the line",
            );
        };
        if self.sync.is_some() {
            return reading.notes.remark(
                line.at,
                "lvs_sync_daemon",
                "there is one already; keepalived ignores the second",
            );
        }
        let fits = (1..=15).contains(&interface.len())
            && !matches!(interface, "." | "..")
            && interface.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b':');
        if !fits {
            return reading.lose(&mut self.lost, line.at, "lvs_sync_daemon", "no device can have that name");
        }
        let mut table = Table::default();
        table.set("state", "both");
        table.set("interface", interface);
        let mut by_vrrp = false;
        while let Some((position, word)) = words.next() {
            let most = match word {
                "inst" => {
                    by_vrrp = words.next().is_some();
                    continue;
                }
                "id" => ("id", 0, 255),
                "maxlen" => ("max_length", 1, 65_507),
                "port" => ("port", 1, 65_535),
                "ttl" => ("ttl", 1, 255),
                "group" => {
                    let group = words.next().and_then(|(_, word)| address(word)).filter(IpAddr::is_multicast);
                    match group {
                        Some(group) => table.set("group", group.to_string()),
                        None => reading.notes.remark(
                            line.at,
                            "lvs_sync_daemon",
                            "the group is no multicast address; keepalived ignores it",
                        ),
                    }
                    continue;
                }
                // As it was written once: the instance, then the number.
                _ if position == 1 => {
                    by_vrrp = true;
                    continue;
                }
                id if position == 2 => {
                    set_number(reading, line, &mut table, ("id", 0, 255), Some(id));
                    continue;
                }
                other => {
                    let why = format!("keepalived knows no {} here and ignores it", shown(other));
                    reading.notes.remark(line.at, "lvs_sync_daemon", why);
                    continue;
                }
            };
            let value = words.next().map(|(_, word)| word);
            set_number(reading, line, &mut table, most, value);
        }
        if by_vrrp {
            let why = "keepalived runs master or backup as its VRRP instance has it; lvsd runs both, which any pair of directors can";
            reading.notes.remark(line.at, "lvs_sync_daemon", why);
            table.comment(
                "keepalived switched between master and backup with VRRP; both at once works as well",
            );
        }
        self.sync = Some((line.at, table));
    }
}

fn set_number(
    reading: &mut Reading<'_>,
    line: &Statement,
    table: &mut Table,
    (key, low, high): (&'static str, i64, i64),
    word: Option<&str>,
) {
    match words::number(word.unwrap_or_default(), low, high, Garbage::Refused) {
        Read::Good(number) => table.set(key, number),
        Read::Odd(_, why) | Read::Bad(why) => {
            reading.notes.remark(line.at, "lvs_sync_daemon", format!("{why}; keepalived ignores it"));
        }
    }
}

pub(super) fn fits_in_line(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_control)
}
