//! Every keyword of keepalived.conf that concerns health checking, and what becomes of it.

use super::{keepalived, mistakes};
use Outcome::{Carried, NotCarried, Remark};
use Place::{
    Dns, File, Global, Group, Http, Misc, Outer, Ping, Rs, Smtp, Ssl, SslBlock, Tcp, Track, Udp, Url, Vs,
};
use lvsd::config::import::Weight;

#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// The TOML then has this.
    Carried(&'static str),
    /// A note and a comment say why; this is a part of it.
    NotCarried(&'static str),
    /// It means nothing there, or is always so here; a note says which.
    Remark(&'static str),
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Outer,
    Global,
    Track,
    SslBlock,
    Group,
    Vs,
    Rs,
    Tcp,
    Ping,
    Http,
    Ssl,
    Url,
    Smtp,
    Dns,
    Udp,
    Misc,
    File,
}

/// What stands around a line of each place.
fn whole(place: Place, line: &str) -> String {
    let vs =
        |inner: &str| format!("virtual_server 192.0.2.1 80 {{\nprotocol TCP\nlvs_sched rr\n{inner}\n}}\n");
    let rs = |inner: &str| vs(&format!("real_server 198.51.100.1 80 {{\n{inner}\n}}"));
    let check = |kind: &str| rs(&format!("{kind} {{\n{line}\n}}"));
    let plain = || rs("TCP_CHECK { }");
    match place {
        Outer => format!("{line}\n{}", plain()),
        Global => format!("global_defs {{\n{line}\n}}\n{}", plain()),
        SslBlock => format!("SSL {{\n{line}\n}}\n{}", rs("SSL_GET { url { path / } }")),
        Track => format!("track_file t {{\nfile /run/t\n{line}\n}}\n{}", rs("FILE_CHECK { track_file t }")),
        Group => format!(
            "virtual_server_group g {{\n{line}\n}}\nvirtual_server group g {{\nprotocol TCP\nreal_server 198.51.100.1 80 {{\nTCP_CHECK {{ }}\n}}\n}}\n"
        ),
        Vs => vs(&format!("{line}\nreal_server 198.51.100.1 80 {{\nTCP_CHECK {{ }}\n}}")),
        Rs => rs(line),
        Tcp => check("TCP_CHECK"),
        Ping => check("PING_CHECK"),
        Http => rs(&format!("HTTP_GET {{\nurl {{ path / }}\n{line}\n}}")),
        Ssl => rs(&format!("SSL_GET {{\nurl {{ path / }}\n{line}\n}}")),
        Url => rs(&format!("HTTP_GET {{\nurl {{\npath /u\n{line}\n}}\n}}")),
        Smtp => check("SMTP_CHECK"),
        Dns => check("DNS_CHECK"),
        Udp => check("UDP_CHECK"),
        Misc => rs(&format!("MISC_CHECK {{\nmisc_path /bin/m\n{line}\n}}")),
        File => format!(
            "track_file t {{\nfile /run/t\n}}\n{}",
            rs(&format!("FILE_CHECK {{\ntrack_file t\n{line}\n}}"))
        ),
    }
}

/// Place, line, and what becomes of it. The keyword is the line's first word.
const TABLE: &[(Place, &str, Outcome)] = &[
    // Virtual servers.
    (
        Outer,
        "virtual_server 192.0.2.7 70 {\nreal_server 198.51.100.7 70 { }\n}",
        Carried("address = \"192.0.2.7:70\""),
    ),
    (
        Outer,
        "virtual_server fwmark 7 {\nreal_server 198.51.100.7 70 { }\n}",
        Carried("fwmark = 7\nfamily = \"ipv4\""),
    ),
    (
        Outer,
        "virtual_server group g {\nreal_server 198.51.100.7 70 { }\n}\nvirtual_server_group g {\n192.0.2.7 70\n}",
        Carried("name = \"g\"\naddress = \"192.0.2.7:70\""),
    ),
    (
        Outer,
        "virtual_server fwmark 8 {\nip_family inet6\nlvs_method TUN\nreal_server 198.51.100.7 70 { }\n}",
        Carried("family = \"ipv6\""),
    ),
    (Vs, "ip_family inet6", Remark("is ipv4 already")),
    (Vs, "lvs_sched wlc", Carried("scheduler = \"wlc\"")),
    (Vs, "lb_algo dh", Carried("scheduler = \"dh\"")),
    (Vs, "flag-1", Carried("scheduler_flags = [\"flag-1\"]")),
    (Vs, "flag-2", Carried("scheduler_flags = [\"flag-2\"]")),
    (Vs, "flag-3", Carried("scheduler_flags = [\"flag-3\"]")),
    (Vs, "lvs_sched sh\nsh-port", Carried("scheduler_flags = [\"sh-port\"]")),
    (Vs, "lvs_sched sh\nsh-fallback", Carried("scheduler_flags = [\"sh-fallback\"]")),
    (Vs, "lvs_sched mh\nmh-port", Carried("scheduler_flags = [\"mh-port\"]")),
    (Vs, "lvs_sched mh\nmh-fallback", Carried("scheduler_flags = [\"mh-fallback\"]")),
    (Vs, "sh-port", Remark("named above it")),
    (Vs, "hashed", Remark("does nothing in keepalived either")),
    (Vs, "protocol UDP\nops", Carried("one_packet = true")),
    (Vs, "lvs_method DR", Carried("lb_kind = \"dr\"")),
    (Vs, "lb_kind TUN", Carried("lb_kind = \"tun\"")),
    (
        Vs,
        "lvs_method TUN type gue port 6080 remcsum",
        Carried("tunnel = { type = \"gue\", port = 6080, checksum = \"remcsum\" }"),
    ),
    (Vs, "lvs_method TUN type gre csum", Carried("tunnel = { type = \"gre\", checksum = \"csum\" }")),
    (Vs, "protocol SCTP", Carried("protocol = \"sctp\"")),
    (Vs, "persistence_timeout", Carried("persistence_timeout = \"6m\"")),
    (Vs, "persistence_timeout 50", Carried("persistence_timeout = \"50s\"")),
    (
        Vs,
        "persistence_granularity 255.255.0.0",
        Carried("persistence_timeout = \"6m\"\npersistence_netmask = 16"),
    ),
    (Vs, "persistence_granularity 255.0.255.0", NotCarried("all its ones in front")),
    (
        Vs,
        "protocol UDP\npersistence_timeout 9\npersistence_engine sip",
        Carried("persistence_engine = \"sip\""),
    ),
    (Vs, "ha_suspend", Carried("active_when = { address_present = true }")),
    (Vs, "smtp_alert", Remark("with smtp_server")),
    (Vs, "virtualhost www.example.org", Carried("virtualhost = \"www.example.org\"")),
    (Vs, "snmp_name x", NotCarried("SNMP")),
    (Vs, "alpha", Carried("alpha = true")),
    (Vs, "omega", Carried("omega = true")),
    (Vs, "inhibit_on_failure", Carried("inhibit_on_failure = true")),
    (Vs, "weight 6\nquorum 4", Carried("quorum = 4")),
    (Vs, "weight 6\nquorum 4\nhysteresis 3", Carried("hysteresis = 3")),
    (Vs, "quorum_up \"/bin/q up\"", Carried("quorum_up = [\"/bin/q\", \"up\"]")),
    (Vs, "quorum_down /bin/q", Carried("quorum_down = [\"/bin/q\"]")),
    (Vs, "weight 6", Carried("weight = 6")),
    (Vs, "connect_timeout 7", Carried("timeout = \"7s\"")),
    (Vs, "delay_loop 7", Carried("delay_loop = \"7s\"")),
    (Vs, "retry 7", Carried("retry = 7")),
    (Vs, "delay_before_retry 7", Carried("delay_before_retry = \"7s\"")),
    (Vs, "warmup 7", Carried("warmup = \"7s\"")),
    (Vs, "sorry_server 198.51.100.9 90", Carried("sorry_server = \"198.51.100.9:90\"")),
    (
        Vs,
        "sorry_server 198.51.100.9 90\nsorry_server_inhibit",
        Carried("sorry_server = { address = \"198.51.100.9:90\", inhibit = true }"),
    ),
    (
        Vs,
        "sorry_server 198.51.100.9 90\nsorry_server_lvs_method DR",
        Carried("sorry_server = { address = \"198.51.100.9\", lb_kind = \"dr\" }"),
    ),
    (Vs, "real_server 198.51.100.9 90 { }", Carried("address = \"198.51.100.9:90\"")),
    // Groups.
    (Group, "192.0.2.7 70", Carried("address = \"192.0.2.7:70\"")),
    (Group, "192.0.2.7-9 70", Carried("address = \"192.0.2.7-192.0.2.9:70\"")),
    (Group, "192.0.2.7-192.0.2.9 70", Carried("address = \"192.0.2.7-192.0.2.9:70\"")),
    (Group, "192.0.2.8/30 70", Carried("address = \"192.0.2.8-192.0.2.11:70\"")),
    (Group, "192.0.2.7", Carried("persistence_timeout = \"6m\"")),
    (Group, "fwmark 7 inet", Carried("fwmark = 7")),
    // Real servers.
    (Rs, "weight 0", Carried("weight = 0")),
    (Rs, "lvs_method DR", Carried("lb_kind = \"dr\"")),
    (Rs, "uthreshold 9", Carried("upper_threshold = 9")),
    (Rs, "uthreshold 9\nlthreshold 5", Carried("lower_threshold = 5")),
    (Rs, "inhibit_on_failure", Carried("inhibit_on_failure = true")),
    (Rs, "notify_up \"/bin/n 'a b'\"", Carried("notify_up = [\"/bin/n\", \"a b\"]")),
    (Rs, "notify_down n", Carried("notify_down = [\"/usr/bin/env\", \"n\"]")),
    (Rs, "alpha on", Carried("alpha = true")),
    (Rs, "retry 7", Carried("retry = 7")),
    (Rs, "delay_before_retry 7", Carried("delay_before_retry = \"7s\"")),
    (Rs, "warmup 7", Carried("warmup = \"7s\"")),
    (Rs, "connect_timeout 7", Carried("timeout = \"7s\"")),
    (Rs, "delay_loop 7", Carried("delay_loop = \"7s\"")),
    (Rs, "smtp_alert off", Remark("with smtp_server")),
    (Rs, "virtualhost www.example.org", Carried("virtualhost = \"www.example.org\"")),
    (Rs, "snmp_name x", NotCarried("SNMP")),
    (Rs, "TCP_CHECK { }", Carried("check = { tcp = {} }")),
    (Rs, "PING_CHECK { }", Carried("check = { ping = { size = 128 } }")),
    (Rs, "HTTP_GET { url { path /x } }", Carried("http = { path = \"/x\", version = \"1.0\" }")),
    (Rs, "SSL_GET { url { path /x } }", Carried("tls = { verify = false }")),
    (Rs, "SMTP_CHECK { }", Carried("smtp = { helo = \"smtpchecker.keepalived.org\" }")),
    (Rs, "DNS_CHECK { }", Carried("dns = {}, retry = 3, delay_before_retry = \"1m\"")),
    (Rs, "UDP_CHECK { }", Carried("check = { udp = {} }")),
    (
        Rs,
        "MISC_CHECK { misc_path /bin/m }",
        Carried("script = { argv = [\"/bin/m\"] }, timeout = \"1m\", retry = 0"),
    ),
    (Rs, "FILE_CHECK { track_file nowhere }", NotCarried("no track_file")),
    (Rs, "BFD_CHECK { name x }", NotCarried("BFD")),
    (Rs, "", Carried("check = []")),
    // What all checkers with a connection have.
    (Tcp, "connect_ip 203.0.113.1", Carried("connect_ip = \"203.0.113.1\"")),
    (Tcp, "connect_port 7", Carried("connect_port = 7")),
    (Tcp, "bindto 203.0.113.1", Carried("bind_ip = \"203.0.113.1\"")),
    (Tcp, "bindto 203.0.113.1\nbind_port 7", Carried("bind_port = 7")),
    (Tcp, "bind_port 7", Remark("without `bindto`")),
    (Tcp, "bind_if eth7", Carried("bind_if = \"eth7\"")),
    (Tcp, "connect_timeout 7", Carried("timeout = \"7s\"")),
    (Tcp, "fwmark 7", Carried("fwmark = 7")),
    (Tcp, "retry 0", Carried("retry = 0")),
    (Tcp, "delay_before_retry 7", Carried("delay_before_retry = \"7s\"")),
    (Tcp, "warmup 7", Carried("warmup = \"7s\"")),
    (Tcp, "delay_loop 7", Carried("delay_loop = \"7s\"")),
    (Tcp, "alpha", Carried("alpha = true")),
    (Tcp, "log_all_failures", NotCarried("level debug")),
    (Tcp, "nb_get_retry 7", Remark("no such keyword")),
    (Ping, "fwmark 7", Remark("does not mark")),
    (Ping, "connect_ip 203.0.113.1", Carried("connect_ip = \"203.0.113.1\"")),
    // HTTP.
    (Http, "nb_get_retry 7", Carried("retry = 7")),
    (Http, "virtualhost w.example.org", Carried("virtualhost = \"w.example.org\"")),
    (Http, "http_protocol 1.1", Carried("version = \"1.1\"")),
    (Http, "http_protocol 1.0C", Remark("as 1.0C does")),
    (Ssl, "virtualhost w.example.org\nenable_sni", Carried("virtualhost = \"w.example.org\"")),
    (Ssl, "sni_name s.example.org", Carried("server_name = \"s.example.org\"")),
    (Http, "fast_recovery", Remark("always so")),
    (Ssl, "tls_compliant", Remark("properly")),
    (Http, "url { path /second }", Carried("urls = [{ path = \"/\" }, { path = \"/second\" }]")),
    (
        Url,
        "digest 0123456789abcdef0123456789abcdef",
        Carried("digest = \"md5:0123456789abcdef0123456789abcdef\""),
    ),
    (Url, "status_code 200-202 404", Carried("status = [\"200-202\", \"404\"]")),
    (Url, "virtualhost u.example.org", Carried("virtualhost = \"u.example.org\"")),
    (Url, "regex \"a\\\\.b\"", Carried("body = { regex = 'a\\.b' }")),
    (Url, "regex a\nregex_no_match", Carried("body = { not_regex = \"a\" }")),
    (Url, "regex a\nregex_options caseless dotall", Carried("regex = \"(?is)a\"")),
    (Url, "regex a\nregex_options firstline", NotCarried("firstline")),
    (Url, "regex \"(?=a)\"", NotCarried("regex crate")),
    (Url, "regex_stack 1 2", Remark("no stack")),
    (Url, "regex_min_offset 5", NotCarried("whole body")),
    (Url, "regex_max_offset 5", NotCarried("whole body")),
    // The other kinds.
    (Smtp, "helo_name h.example.org", Carried("helo = \"h.example.org\"")),
    (Smtp, "host { connect_port 7 }", Remark("for the whole check")),
    (Dns, "type mx", Carried("type = \"MX\"")),
    (Dns, "name n.example.org", Carried("name = \"n.example.org\"")),
    (Udp, "payload 1 23", Carried("payload = { hex = \"01 23\" }")),
    (Udp, "require_reply", Carried("require_reply = true")),
    (Udp, "require_reply 0X", Carried("reply = { hex = \"0?\" }, max_reply = 255")),
    (Udp, "require_reply 00\nmin_reply_length 4", Carried("min_reply = 4")),
    (Udp, "require_reply 00\nmax_reply_length 9", Carried("max_reply = 9")),
    (Misc, "misc_timeout 7", Carried("timeout = \"7s\"")),
    (Misc, "misc_dynamic", Carried("dynamic_weight = true")),
    (Misc, "user nobody", Carried("user = \"nobody\"")),
    (Misc, "user nobody nogroup", NotCarried("group")),
    (
        File,
        "weight -7 reverse",
        Carried("file = { path = \"/run/t\", weight = -7, reverse = true }, retry = 0"),
    ),
    (Track, "weight 7", Carried("weight = 7")),
    (Track, "init_file 5 overwrite", NotCarried("does not write")),
    // Further blocks.
    (SslBlock, "ca /etc/ca.pem", Carried("with verify = true and ca = \"/etc/ca.pem\"")),
    (SslBlock, "password x", NotCarried("without a password")),
    (SslBlock, "certificate /c.pem", NotCarried("certificate and key")),
    (SslBlock, "key /k.pem", NotCarried("certificate and key")),
    (Outer, "vrrp_instance V { interface eth0 }", NotCarried("moves no addresses")),
    (Outer, "vrrp_sync_group V { group { V } }", NotCarried("moves no addresses")),
    (Outer, "vrrp_script s { script \"/bin/true\" }", NotCarried("moves no addresses")),
    (Outer, "static_ipaddress { 192.0.2.5 dev eth0 }", NotCarried("moves no addresses")),
    (Outer, "bfd_instance b { neighbor_ip 192.0.2.5 }", NotCarried("BFD")),
    (Outer, "net_namespace n", NotCarried("NetworkNamespacePath")),
    (Outer, "net_namespace_ipvs n", NotCarried("NetworkNamespacePath")),
    (Outer, "instance i", NotCarried("control_socket")),
    (Outer, "use_pid_dir", NotCarried("pid file")),
    (Outer, "child_wait_time 9", NotCarried("TimeoutStopSec")),
    // Globals.
    (Global, "router_id r", Carried("name = \"r\"")),
    (
        Global,
        "lvs_timeouts tcp 7 tcpfin 8 udp 9",
        Carried("[daemon.timeouts]\ntcp = \"7s\"\ntcp_fin = \"8s\"\nudp = \"9s\""),
    ),
    (
        Global,
        "lvs_sync_daemon eth0 id 7",
        Carried("[daemon.sync]\nstate = \"both\"\ninterface = \"eth0\"\nid = 7"),
    ),
    (Global, "lvs_flush", NotCarried("never flushes")),
    (Global, "lvs_flush_on_stop", NotCarried("on_stop")),
    (Global, "lvs_flush_onstop VS", NotCarried("on_stop")),
    (Global, "lvs_notify_fifo /run/f", Carried("[daemon.notify]\nfifo = \"/run/f\"")),
    (Global, "lvs_notify_fifo_script /bin/f", NotCarried("systemd service")),
    (Global, "notify_fifo /run/f", Carried("[daemon.notify]\nfifo = \"/run/f\"")),
    (Global, "notify_fifo_script /bin/f", NotCarried("systemd service")),
    (Global, "rs_init_notifies", NotCarried("down, not of those that are up")),
    (Global, "no_checker_emails", Remark("single checks")),
    (Global, "checker_log_all_failures", NotCarried("level debug")),
    (Global, "smtp_alert", Remark("`events`")),
    (Global, "smtp_alert_checker", Remark("`events`")),
    (Global, "smtp_server 192.0.2.25 25", Remark("no notification_email")),
    (Global, "smtp_server 192.0.2.25/x", NotCarried("no mail server")),
    (Global, "smtp_connect_timeout 5", Remark("whole mail")),
    (Global, "smtp_helo_name h", NotCarried("name of its host")),
    (Global, "notification_email {\na@example.org\n}", Remark("no smtp_server")),
    (Global, "notification_email {\nnobody\n}", NotCarried("no mail address")),
    (Global, "notification_email_from nobody", NotCarried("no mail address")),
    (
        Global,
        "script_user s\n}\nvirtual_server 192.0.2.7 70 {\nreal_server 198.51.100.7 70 {\nMISC_CHECK { misc_path /bin/m }\n}",
        Carried("user = \"s\""),
    ),
    (Global, "enable_script_security", Remark("always looks")),
    (Global, "set_supplementary_groups", Remark("groups of their user")),
    (Global, "use_symlink_paths", Remark("symbolic links")),
    (Global, "startup_script /bin/s", Carried("start = [\"/bin/s\"]")),
    (Global, "startup_script_timeout 5", NotCarried("script_timeout")),
    (Global, "shutdown_script /bin/s", Carried("stop = [\"/bin/s\"]")),
    (Global, "shutdown_script_timeout 5", NotCarried("script_timeout")),
    (Global, "checker_priority 5", NotCarried("Nice=")),
    (Global, "checker_no_swap", NotCarried("MemorySwapMax")),
    (Global, "checker_rt_priority 5", NotCarried("CPUSchedulingPriority")),
    (Global, "checker_cpu_affinity 1", NotCarried("CPUAffinity")),
    (Global, "checker_rlimit_rttime 5", NotCarried("LimitRTTIME")),
    (Global, "checker_rlimit_rtime 5", NotCarried("LimitRTTIME")),
    (Global, "max_auto_priority 5", NotCarried("priority")),
    (Global, "min_auto_priority_delay 5", NotCarried("priority")),
    (Global, "process_names", Remark("one process")),
    (Global, "checker_process_name x", Remark("one process")),
    (Global, "lvs_process_name x", Remark("one process")),
    (Global, "lvs_netlink_cmd_rcv_bufs 5", Remark("buffers")),
    (Global, "lvs_netlink_monitor_rcv_bufs 5", Remark("buffers")),
    (Global, "nftables_ipvs x", NotCarried("nftables")),
    (Global, "nftables_ipvs_priority 5", NotCarried("nftables")),
    (Global, "nftables_ipvs_start_fwmark 5", NotCarried("nftables")),
    (Global, "nftables_counters", NotCarried("nftables")),
    (Global, "enable_snmp_checker", NotCarried("SNMP")),
    (Global, "enable_traps", NotCarried("SNMP")),
    (Global, "snmp_socket x", NotCarried("SNMP")),
    (Global, "snmp_vs_stats_update_interval 5", NotCarried("SNMP")),
    (Global, "snmp_rs_stats_update_interval 5", NotCarried("SNMP")),
    (Global, "reload_check_config", Remark("always validates")),
    (Global, "reload_time_file /x", NotCarried("timer")),
    (Global, "reload_repeat", NotCarried("timer")),
    (Global, "reload_file", Remark("lvsd reload")),
    (Global, "include_check +read", Remark("always an error")),
    (Global, "state_dump_file /x", Remark("lvsd status")),
    (Global, "stats_dump_file /x", Remark("VRRP")),
    (Global, "json_dump_file /x", Remark("lvsd status --json")),
    (Global, "config_save_dir /x", Remark("copies")),
    (Global, "tmp_config_directory /x", Remark("copies")),
    (Global, "data_use_instance", Remark("dumps")),
    (Global, "umask 022", NotCarried("UMask")),
    (Global, "random_seed 5", Remark("random")),
    (Global, "vrrp_version 3", Remark("VRRP")),
    // The language itself.
    (Outer, "include nowhere.conf", NotCarried("cannot read nowhere.conf")),
    (Outer, "includer nowhere.conf", NotCarried("cannot read")),
    (Outer, "includem nowhere.conf", NotCarried("cannot read")),
    (Outer, "includew nowhere.conf", NotCarried("cannot read")),
    (Outer, "includeb nowhere.conf", NotCarried("cannot read")),
    (Outer, "includea nowhere.conf", NotCarried("cannot read")),
    (Vs, "@lab quorum_up /bin/q", Carried("quorum_up = [\"/bin/q\"]")),
    (Vs, "@^other quorum_up /bin/q", Carried("quorum_up = [\"/bin/q\"]")),
    (Vs, "$Q=/bin/q\nquorum_up $Q", Carried("quorum_up = [\"/bin/q\"]")),
    (Vs, "~SEQ(n, 8, 9) real_server 198.51.100.$n 80 { }", Carried("address = \"198.51.100.9:80\"")),
    (Vs, "~SEQx(n, 16, 16) real_server 198.51.100.9 ${n}0 { }", Carried("address = \"198.51.100.9:100\"")),
    (Vs, "~LST(n, 8, 9) real_server 198.51.100.$n 80 { }", Carried("address = \"198.51.100.8:80\"")),
];

#[test]
fn each_keyword() {
    let mut wrong = Vec::new();
    for (place, line, outcome) in TABLE {
        let imported = keepalived(whole(*place, line).as_bytes());
        let keyword = line.lines().last().and_then(|line| line.split_whitespace().next()).unwrap_or_default();
        let keywords: Vec<&str> = line.lines().filter_map(|line| line.split_whitespace().next()).collect();
        let note = |weight: Weight, why: &str| {
            imported.notes.iter().any(|note| {
                let block = ["SSL", "real_server", "MISC_CHECK", "FILE_CHECK", "track_file"]
                    .contains(&note.what.as_str());
                (block || keywords.contains(&note.what.as_str()))
                    && note.weight == weight
                    && note.why.contains(why)
            })
        };
        let good = match outcome {
            Carried(toml) => imported.toml.contains(toml),
            NotCarried(why) => note(Weight::NotCarried, why),
            Remark(why) => note(Weight::Remark, why),
        };
        let mistakes = mistakes(&imported.toml);
        if !good || mistakes.is_some() {
            wrong.push(format!("{place:?} {keyword} {outcome:?}\n{mistakes:?}\n{}", super::shown(&imported)));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), TABLE.len(), wrong.join("\n---------\n"));
}

/// A line in the table that does nothing would pass unseen: without it, what it says is not there.
#[test]
fn the_table_is_about_its_lines() {
    let without = |place: Place| super::shown(&keepalived(whole(place, "").as_bytes()));
    let idle: Vec<&str> = TABLE
        .iter()
        .filter(|(_, line, _)| !line.is_empty())
        .filter(|(place, line, _)| {
            super::shown(&keepalived(whole(*place, line).as_bytes())) == without(*place)
        })
        .map(|(_, line, _)| *line)
        .collect();
    // With the host that is asked for as a name anyway, SNI is on in any case.
    assert!(idle.is_empty(), "{idle:?}");
}
