//! What the files mean: inheritance, defaults, expansion. What is refused is in `tests/diagnostics`.

use std::sync::Arc;
use std::time::Duration;

use crate::config::tests::{config, load_text};
use crate::engine::model::{
    Check, CheckKind, Forwarding, Mode, RealServer, Tunnel, TunnelChecksum, VirtualServer,
};

const SERVER: &str = "[[virtual_server.real_server]]\naddress = \"198.51.100.11:80\"\n";

fn pool(text: &str) -> Arc<VirtualServer> {
    Arc::clone(&config(text).virtual_servers[0])
}

fn servers(text: &str) -> Vec<Arc<RealServer>> {
    pool(text).real_servers.clone()
}

fn check(text: &str) -> Arc<Check> {
    Arc::clone(&servers(text)[0].checks[0])
}

fn services(text: &str) -> Vec<String> {
    pool(text).services.iter().map(ToString::to_string).collect()
}

#[test]
fn the_nearest_wins() {
    let text = |defaults: &str, vs: &str, rs: &str, check: &str| {
        format!(
            "[defaults]\n{defaults}\n[[virtual_server]]\naddress = \"192.0.2.10:80\"\n{vs}\n{SERVER}{rs}\ncheck = {{ tcp = {{}}, {check} }}\n"
        )
    };
    let levels = ["retry = 2", "retry = 3", "retry = 4", "retry = 5"];
    for depth in 0..=4 {
        let at = |level: usize| if level < depth { levels[level] } else { "" };
        let check = check(&text(at(0), at(1), at(2), at(3)));
        assert_eq!(check.timing.retry, u32::try_from(depth).unwrap() + 1, "{depth}");
    }
    // Each key by itself.
    let mixed = check(&text("rise = 2\nretry = 9", "timeout = 1", "delay_loop = 2", "mode = \"observe\""));
    assert_eq!((mixed.timing.rise, mixed.timing.retry), (2, 9));
    assert_eq!(mixed.timing.timeout, Duration::from_secs(1));
    assert_eq!(mixed.timing.delay_loop, Duration::from_secs(2));
    assert_eq!(mixed.mode, Mode::Observe);
}

/// A key of a virtual server, two values, and what else it needs to say anything.
const INHERITED: [(&str, &str, &str, &str); 18] = [
    ("protocol", "\"udp\"", "\"sctp\"", ""),
    ("scheduler", "\"rr\"", "\"sed\"", ""),
    ("scheduler_flags", "[\"mh-port\"]", "[\"mh-fallback\"]", "scheduler = \"mh\""),
    ("lb_kind", "\"dr\"", "\"tun\"", ""),
    ("tunnel", "{ type = \"gre\" }", "{ type = \"ipip\" }", "lb_kind = \"tun\""),
    ("persistence_timeout", "60", "120", ""),
    ("persistence_netmask", "24", "16", "persistence_timeout = 60"),
    ("persistence_engine", "\"sip\"", "\"other\"", "persistence_timeout = 60\nprotocol = \"udp\""),
    ("one_packet", "true", "false", "protocol = \"udp\""),
    ("quorum", "2", "3", ""),
    ("hysteresis", "1", "2", "quorum = 4"),
    ("min_alive", "1", "\"50%\"", ""),
    ("omega", "true", "false", ""),
    ("announce", "{ interface = \"lvs0\" }", "false", ""),
    ("inhibit_on_failure", "true", "false", ""),
    ("virtualhost", "\"a.example\"", "\"b.example\"", "check = { http = { path = \"/\" } }"),
    ("active_when", "{ address_present = true }", "{ file = \"/run/lvsd/on\" }", ""),
    ("check", "{ tcp = {} }", "[]", ""),
];

#[test]
fn every_key_of_a_virtual_server_is_inherited_and_may_be_another() {
    for key in crate::config::raw::keys::POOL {
        let rows: Vec<_> = INHERITED.iter().filter(|(name, ..)| name == key).collect();
        let [(_, one, other, needs)] = rows.as_slice() else { panic!("no values for {key}") };
        let of = |defaults: Option<&str>, own: Option<&str>| {
            let line =
                |value: Option<&str>| value.map(|value| format!("{key} = {value}\n")).unwrap_or_default();
            pool(&format!(
                "[defaults]\n{}[[virtual_server]]\naddress = \"192.0.2.10:80\"\n{}{needs}\n{SERVER}",
                line(defaults),
                line(own)
            ))
        };
        assert_eq!(of(Some(one), None), of(None, Some(one)), "{key} from [defaults]");
        assert_eq!(of(Some(other), None), of(None, Some(other)), "{key} from [defaults]");
        assert_eq!(of(Some(other), Some(one)), of(None, Some(one)), "{key}: the nearest wins");
        assert_ne!(of(None, Some(one)), of(None, Some(other)), "{key} says something");
    }
}

#[test]
fn timing_without_a_word() {
    let timing = check(&format!(
        "[[virtual_server]]\naddress = \"192.0.2.10:80\"\ncheck = {{ tcp = {{}} }}\n{SERVER}"
    ))
    .timing
    .clone();
    assert_eq!(timing.delay_loop, Duration::from_secs(6));
    assert_eq!(timing.timeout, Duration::from_secs(5));
    assert_eq!((timing.retry, timing.rise), (1, 1));
    assert_eq!(timing.delay_before_retry, Duration::from_secs(1));
    assert_eq!(timing.warmup, Duration::from_secs(1));
    let quick = check(&format!(
        "[[virtual_server]]\naddress = \"192.0.2.10:80\"\ndelay_loop = 0.3\ncheck = {{ tcp = {{}} }}\n{SERVER}"
    ));
    assert_eq!(quick.timing.warmup, Duration::from_millis(300));
}

#[test]
fn a_nearer_check_replaces() {
    let text =
        "[check.a]\ntcp = {}\n[defaults]\ncheck = \"a\"\n[[virtual_server]]\naddress = \"192.0.2.10:80\"\n";
    let kinds = |extra: &str| -> Vec<&'static str> {
        let servers = servers(&format!("{text}{extra}"));
        servers[0].checks.iter().map(|check| check.probe.kind.name()).collect()
    };
    assert_eq!(kinds(SERVER), ["tcp"]);
    assert_eq!(kinds(&format!("check = {{ http = {{ path = \"/\" }} }}\n{SERVER}")), ["http"]);
    assert_eq!(
        kinds(&format!(
            "check = \"b\"\n{SERVER}check = [\"b\", \"a\"]\n[check.b]\nhttp = {{ path = \"/\" }}\n"
        )),
        ["http", "tcp"]
    );
    assert!(kinds(&format!("{SERVER}check = []\n")).is_empty());
}

#[test]
fn what_is_probed() {
    let target = |vs: &str, rs: &str| {
        let target = &check(&format!("[[virtual_server]]\npersistence_timeout = 60\ncheck = {{ tcp = {{}} }}\n{vs}\n[[virtual_server.real_server]]\n{rs}\n"))
            .probe
            .target
            .clone();
        format!("{} {}", target.address, target.port)
    };
    let rs = "address = \"198.51.100.11:8080\"";
    let bare = "address = \"198.51.100.11\"";
    assert_eq!(target("address = [\"192.0.2.10:80\", \"192.0.2.10:443\"]", rs), "198.51.100.11 8080");
    assert_eq!(target("address = [\"192.0.2.10:80\", \"192.0.2.10:443\"]", bare), "198.51.100.11 80");
    assert_eq!(target("address = \"192.0.2.10:80\"\nconnect_port = 81", rs), "198.51.100.11 81");
    assert_eq!(target("fwmark = 5\nfamily = \"ipv4\"", rs), "198.51.100.11 8080");
    assert_eq!(target("address = \"192.0.2.10\"\nconnect_port = 81", bare), "198.51.100.11 81");
    assert_eq!(
        target("address = \"192.0.2.10:80\"", &format!("{bare}\nconnect_ip = \"203.0.113.1\"")),
        "203.0.113.1 80"
    );
}

#[test]
fn alpha_is_the_servers_unless_the_check_says() {
    let text = format!(
        "[[virtual_server]]\naddress = \"192.0.2.10:80\"\nalpha = true\n{SERVER}check = [{{ tcp = {{}} }}, {{ tcp = {{}}, connect_port = 81, alpha = false }}]\n"
    );
    let server = Arc::clone(&servers(&text)[0]);
    assert!(server.alpha);
    assert_eq!(server.checks.iter().map(|check| check.alpha).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn services_in_the_order_written() {
    let text = format!(
        "[[virtual_server]]\naddress = [\"192.0.2.20:80\", \"192.0.2.10-11:80\"]\nfwmark = [7, 0x5]\nprotocol = \"sctp\"\ncheck = []\n{SERVER}"
    );
    assert_eq!(
        services(&text),
        ["sctp 192.0.2.20:80", "sctp 192.0.2.10:80", "sctp 192.0.2.11:80", "fwmark 7 ipv4", "fwmark 5 ipv4"]
    );
    let both = format!(
        "[[virtual_server]]\nname = \"m\"\nfwmark = 300\nfamily = [\"ipv6\", \"ipv4\"]\nlb_kind = \"tun\"\ncheck = []\n{SERVER}"
    );
    assert_eq!(services(&both), ["fwmark 300 ipv4", "fwmark 300 ipv6"]);
}

#[test]
fn names() {
    let one = |head: &str| {
        format!(
            "[[virtual_server]]\n{head}\npersistence_timeout = 60\ncheck = []\nlb_kind = \"tun\"\n{SERVER}"
        )
    };
    let text = [
        one("address = \"192.0.2.10-20:53\""),
        one("address = \"192.0.2.10:53\"\nprotocol = \"udp\""),
        one("address = \"2001:db8::10\""),
        one("fwmark = 5\nfamily = \"ipv6\""),
        one("name = \"web\"\nfwmark = 6\nfamily = \"ipv6\""),
    ]
    .concat();
    let names: Vec<String> = config(&text).virtual_servers.iter().map(|vs| vs.name.clone()).collect();
    assert_eq!(names, ["192.0.2.10:53", "udp 192.0.2.10:53", "2001:db8::10", "fwmark 5 ipv6", "web"]);
}

#[test]
fn methods_are_inherited_apart_from_tunnels() {
    let text = format!(
        "[defaults]\ntunnel = {{ type = \"gre\" }}\n[[virtual_server]]\naddress = \"192.0.2.10:80\"\ncheck = []\nlb_kind = \"dr\"\n\
         tunnel = {{ type = \"gue\", port = 6080, checksum = \"remcsum\" }}\nsorry_server = {{ address = \"198.51.100.99:80\", lb_kind = \"tun\", tunnel = {{}} }}\n\
         {SERVER}lb_kind = \"tun\"\n[[virtual_server.real_server]]\naddress = \"198.51.100.12:80\"\n\
         [[virtual_server.real_server]]\naddress = \"198.51.100.13:80\"\nlb_kind = \"nat\"\n"
    );
    let pool = pool(&text);
    let methods: Vec<Forwarding> = pool.real_servers.iter().map(|rs| rs.forwarding).collect();
    let gue = Tunnel::Gue { port: 6080, checksum: TunnelChecksum::Remcsum };
    assert_eq!(methods, [Forwarding::Tun(gue), Forwarding::Dr, Forwarding::Nat]);
    assert_eq!(pool.sorry_server.as_ref().unwrap().forwarding, Forwarding::Tun(Tunnel::Ipip));
}

#[test]
fn virtual_hosts_are_inherited_by_checks_without_one() {
    let text = format!(
        "[defaults]\nvirtualhost = \"d.example\"\n[check.c]\nhttp = {{ path = \"/\" }}\n[[virtual_server]]\naddress = \"192.0.2.10:80\"\ncheck = \"c\"\n\
         {SERVER}[[virtual_server.real_server]]\naddress = \"198.51.100.12:80\"\nvirtualhost = \"r.example\"\n\
         [[virtual_server.real_server]]\naddress = \"198.51.100.13:80\"\ncheck = {{ http = {{ path = \"/\", virtualhost = \"c.example\" }} }}\n"
    );
    let hosts: Vec<Option<String>> = servers(&text)
        .iter()
        .map(|rs| match &*rs.checks[0].probe.kind {
            CheckKind::Http(http) => http.virtualhost.clone(),
            _ => None,
        })
        .collect();
    assert_eq!(hosts.iter().flatten().collect::<Vec<_>>(), ["d.example", "r.example", "c.example"]);
}

#[test]
fn legal_although_it_looks_odd() {
    let legal = |text: &str| {
        if let Err(errors) = load_text(text) {
            panic!("{text}\n{errors}");
        }
    };
    let one = |head: &str| format!("[[virtual_server]]\n{head}\ncheck = []\n{SERVER}");
    // A sorry server that is a real server; hysteresis as high as the quorum.
    legal(&one(
        "address = \"192.0.2.10:80\"\nsorry_server = \"198.51.100.11:80\"\nquorum = 1\nhysteresis = 1",
    ));
    // All ports beside one port; one address with two protocols.
    legal(
        &[
            one("address = [\"192.0.2.10\", \"192.0.2.10:80\"]\npersistence_timeout = 60"),
            one("address = \"192.0.2.10:80\"\nprotocol = \"udp\""),
        ]
        .concat(),
    );
    // One mark for each family.
    legal(
        &[one("fwmark = 5\nfamily = \"ipv4\""), one("fwmark = 5\nfamily = \"ipv6\"\nlb_kind = \"tun\"")]
            .concat(),
    );
    // All clients alike.
    legal(&one("address = \"192.0.2.10:80\"\npersistence_timeout = 60\npersistence_netmask = 0"));
    // What is inherited without being used.
    legal(&format!(
        "[defaults]\npersistence_netmask = 24\ntunnel = {{ type = \"gre\" }}\n{}",
        one("address = \"192.0.2.10:80\"")
    ));
    // The same server in two pools, and one address at two ports.
    legal(&[one("address = \"192.0.2.10:80\""), one("address = \"192.0.2.11:80\"")].concat());
    legal(&format!(
        "{}[[virtual_server.real_server]]\naddress = \"198.51.100.11:81\"\n",
        one("address = \"192.0.2.10:80\"")
    ));
}
