//! Files that nobody would write: whatever comes in, what comes out is a configuration that lvsd takes.

use proptest::prelude::*;

use super::{keepalived, mistakes};

/// Words that fit, words that nearly fit, and words that do not.
const VALUES: [&str; 40] = [
    "0",
    "1",
    "2",
    "3",
    "60",
    "0.5",
    "0.0001",
    "99999999",
    "4294967295",
    "-1",
    "5x",
    "x",
    "",
    "on",
    "off",
    "TCP",
    "udp",
    "SCTP",
    "rr",
    "wlc",
    "sh",
    "mh",
    "NAT",
    "DR",
    "TUN",
    "TUN type gue port 6080",
    "TUN type gre csum",
    "inet",
    "inet6",
    "255.255.255.0",
    "255.0.255.0",
    "24",
    "sip",
    "/bin/true",
    "\"/bin/a b\"",
    "\"quo ted\"",
    "{",
    "198.51.100.1",
    "2001:db8::1",
    "::ffff:192.0.2.1",
];

const ADDRESSES: [&str; 12] = [
    "192.0.2.1",
    "192.0.2.2",
    "192.0.2.1-3",
    "192.0.2.0/30",
    "2001:db8::1",
    "2001:db8::1-4",
    "fe80::1",
    "224.0.0.1",
    "0.0.0.0",
    "198.51.100.7",
    "::ffff:192.0.2.9",
    "x",
];

const VS: [&str; 40] = [
    "ip_family",
    "lvs_sched",
    "lb_algo",
    "flag-1",
    "flag-2",
    "flag-3",
    "sh-port",
    "sh-fallback",
    "mh-port",
    "mh-fallback",
    "ops",
    "hashed",
    "lvs_method",
    "lb_kind",
    "protocol",
    "persistence_timeout",
    "persistence_granularity",
    "persistence_engine",
    "ha_suspend",
    "smtp_alert",
    "virtualhost",
    "snmp_name",
    "alpha",
    "omega",
    "inhibit_on_failure",
    "quorum",
    "hysteresis",
    "quorum_up",
    "quorum_down",
    "weight",
    "connect_timeout",
    "delay_loop",
    "retry",
    "delay_before_retry",
    "warmup",
    "sorry_server",
    "sorry_server_inhibit",
    "sorry_server_lvs_method",
    "nonsense",
    "include",
];

const RS: [&str; 18] = [
    "weight",
    "lvs_method",
    "uthreshold",
    "lthreshold",
    "inhibit_on_failure",
    "notify_up",
    "notify_down",
    "alpha",
    "retry",
    "delay_before_retry",
    "warmup",
    "connect_timeout",
    "delay_loop",
    "smtp_alert",
    "virtualhost",
    "snmp_name",
    "nonsense",
    "protocol",
];

const CHECKERS: [&str; 10] = [
    "TCP_CHECK",
    "HTTP_GET",
    "SSL_GET",
    "SMTP_CHECK",
    "DNS_CHECK",
    "UDP_CHECK",
    "PING_CHECK",
    "MISC_CHECK",
    "FILE_CHECK",
    "BFD_CHECK",
];

const OPTIONS: [&str; 40] = [
    "connect_ip",
    "connect_port",
    "bindto",
    "bind_port",
    "bind_if",
    "connect_timeout",
    "fwmark",
    "retry",
    "delay_before_retry",
    "warmup",
    "delay_loop",
    "alpha",
    "log_all_failures",
    "nb_get_retry",
    "virtualhost",
    "http_protocol",
    "enable_sni",
    "sni_name",
    "fast_recovery",
    "tls_compliant",
    "helo_name",
    "type",
    "name",
    "misc_path",
    "misc_timeout",
    "misc_dynamic",
    "user",
    "payload",
    "require_reply",
    "min_reply_length",
    "max_reply_length",
    "track_file",
    "weight",
    "url { path /a }",
    "url { path / status_code 200-204 }",
    "url { path b\nregex \"a+$\"\n }",
    "url {\npath /\nregex \"[z\"\ndigest 0123456789abcdef0123456789abcdef\n}",
    "host { connect_port 26 }",
    "url {\npath /x\nvirtualhost y.example\nregex_no_match\nregex \"(a|b)\"\n}",
    "misc_path \"/bin/c 1\"",
];

fn line(keywords: &'static [&'static str]) -> impl Strategy<Value = String> {
    (prop::sample::select(keywords), prop::sample::select(&VALUES[..]))
        .prop_map(|(k, v)| format!("{k} {v}\n"))
}

fn lines(keywords: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(line(keywords), 0..most).prop_map(|lines| lines.concat())
}

fn checker() -> impl Strategy<Value = String> {
    (prop::sample::select(&CHECKERS[..]), lines(&OPTIONS, 6))
        .prop_map(|(kind, inner)| format!("{kind} {{\n{inner}}}\n"))
}

fn server() -> impl Strategy<Value = String> {
    let address = prop::sample::select(&ADDRESSES[..]);
    let port = prop::sample::select(&["", "80", "81", "0", "70000"][..]);
    (address, port, lines(&RS, 4), prop::collection::vec(checker(), 0..4)).prop_map(
        |(a, p, inner, checkers)| format!("real_server {a} {p} {{\n{inner}{}}}\n", checkers.concat()),
    )
}

fn pool() -> impl Strategy<Value = String> {
    let address = prop::sample::select(&ADDRESSES[..]);
    let port = prop::sample::select(&["", "80", "81", "0", "443"][..]);
    let head = prop_oneof![
        6 => (address, port).prop_map(|(a, p)| format!("{a} {p}")),
        1 => (0..4_u32).prop_map(|mark| format!("fwmark {mark}")),
        3 => prop::sample::select(&["group a", "group b", "group c"][..]).prop_map(str::to_owned),
    ];
    (head, lines(&VS, 8), prop::collection::vec(server(), 0..5), lines(&VS, 3)).prop_map(
        |(head, above, servers, below)| {
            format!("virtual_server {head} {{\n{above}{}{below}}}\n", servers.concat())
        },
    )
}

fn group() -> impl Strategy<Value = String> {
    let entry = prop_oneof![
        4 => (prop::sample::select(&ADDRESSES[..]), prop::sample::select(&["", "80", "81"][..])).prop_map(|(a, p)| format!("{a} {p}\n")),
        1 => (0..5_u32, prop::sample::select(&["", "inet", "inet6", "x"][..])).prop_map(|(m, f)| format!("fwmark {m} {f}\n")),
    ];
    (prop::sample::select(&["a", "b"][..]), prop::collection::vec(entry, 0..5))
        .prop_map(|(name, entries)| format!("virtual_server_group {name} {{\n{}}}\n", entries.concat()))
}

fn file() -> impl Strategy<Value = String> {
    let globals = "global_defs {\n router_id a\n lvs_sync_daemon eth0\n script_user nobody\n smtp_server 192.0.2.25\n notification_email {\n ops@example.org\n }\n lvs_timeouts tcp 9 udp 3\n}\n";
    let track = "track_file 1 {\n file /run/x\n weight 3\n}\ntrack_file x {\n file /run/y\n}\n";
    let blocks =
        prop_oneof![4 => pool(), 1 => group(), 1 => Just(globals.to_owned()), 1 => Just(track.to_owned())];
    prop::collection::vec(blocks, 1..7).prop_map(|blocks| blocks.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Most of what keepalived would take, and much that it would not.
    #[test]
    fn whatever_is_imported_loads(text in file()) {
        let imported = keepalived(text.as_bytes());
        let mistakes = mistakes(&imported.toml);
        prop_assert!(mistakes.is_none(), "{}\n{}\n{}", mistakes.unwrap_or_default(), imported.toml, text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_bytes_load(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let imported = keepalived(&bytes);
        prop_assert!(mistakes(&imported.toml).is_none(), "{}", imported.toml);
    }

    /// A file that is cut off, or has a piece in it twice.
    #[test]
    fn pieces_load(text in file(), from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>()) {
        let bytes = text.as_bytes();
        let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
        let pieces = [&bytes[..from], &bytes[to..]].concat();
        let imported = keepalived(&pieces);
        prop_assert!(mistakes(&imported.toml).is_none(), "{}", imported.toml);
    }
}

#[test]
fn what_would_fill_memory_is_bounded() {
    let deep = "a {\n".repeat(100_000);
    let wide = "virtual_server 192.0.2.1 80 {\n".repeat(20_000);
    let many = "virtual_server_group g {\n10.0.0.0/8 80\n2001:db8::/32 80\n}\nvirtual_server group g {\nprotocol TCP\nreal_server 198.51.100.1 80 {\n}\n}\n";
    let servers = "virtual_server 192.0.2.1 80 {\n~SEQ(a, 0, 255) ~SEQ(b, 0, 255) ~SEQ(c, 0, 255) real_server 10.${a}.${b}.${c} 80 { }\n}\n";
    for text in [&deep, &wide, many, servers] {
        let imported = keepalived(text.as_bytes());
        assert!(mistakes(&imported.toml).is_none(), "{:.400}", text);
        assert!(!imported.notes.is_empty() && imported.notes.len() < 3_000);
    }
}
