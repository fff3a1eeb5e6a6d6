//! What is exact to the letter, and easier to see without a whole file.

use std::path::{Path, PathBuf};

use crate::config::import::{Format, Imported, Options, Reader, import};
use crate::config::tests::load_text;
use crate::engine::model::{Check, Config};

struct Nothing<'a>(&'a str);

impl Reader for Nothing<'_> {
    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        match path.to_str() {
            Some("k.conf") => Ok(self.0.as_bytes().to_vec()),
            _ => Err("no such file".to_owned()),
        }
    }

    fn matching(&self, pattern: &Path) -> Result<Vec<PathBuf>, String> {
        Ok(vec![pattern.to_owned()])
    }
}

fn imported(text: &str) -> Imported {
    let options = Options { from: Some(Format::Keepalived), config_id: None };
    import(Path::new("k.conf"), &options, &Nothing(text)).unwrap()
}

fn config(text: &str) -> Config {
    let imported = imported(text);
    match load_text(&imported.toml) {
        Ok(loaded) => loaded.config,
        Err(mistakes) => panic!("{mistakes}\n{}", imported.toml),
    }
}

/// The checks of the first server.
fn checks(vs: &str, rs: &str) -> Vec<std::sync::Arc<Check>> {
    let text = format!(
        "virtual_server 192.0.2.1 80 {{\nprotocol TCP\n{vs}\nreal_server 198.51.100.1 80 {{\n{rs}\n}}\n}}\n"
    );
    config(&text).virtual_servers[0].real_servers[0].checks.to_vec()
}

/// delay_loop, timeout, retry, delay_before_retry, warmup, alpha; in milliseconds.
fn timing(vs: &str, rs: &str) -> (u128, u128, u32, u128, u128, bool) {
    let check = &checks(vs, rs)[0];
    let timing = &check.timing;
    (
        timing.delay_loop.as_millis(),
        timing.timeout.as_millis(),
        timing.retry,
        timing.delay_before_retry.as_millis(),
        timing.warmup.as_millis(),
        check.alpha,
    )
}

#[test]
fn timing_without_a_word_is_keepalived_s() {
    let all = |checker: &str| timing("", checker);
    assert_eq!(all("TCP_CHECK { }"), (60_000, 5_000, 1, 1_000, 60_000, false));
    assert_eq!(all("PING_CHECK { }"), (60_000, 5_000, 1, 1_000, 60_000, false));
    assert_eq!(all("UDP_CHECK { }"), (60_000, 5_000, 1, 1_000, 60_000, false));
    assert_eq!(all("SMTP_CHECK { }"), (60_000, 5_000, 1, 1_000, 60_000, false));
    assert_eq!(all("HTTP_GET { url { path / } }"), (60_000, 5_000, 1, 3_000, 60_000, false));
    assert_eq!(all("SSL_GET { url { path / } }"), (60_000, 5_000, 1, 3_000, 60_000, false));
    assert_eq!(all("DNS_CHECK { }"), (60_000, 5_000, 3, 60_000, 60_000, false));
    assert_eq!(all("MISC_CHECK { misc_path /bin/x }"), (60_000, 60_000, 0, 1_000, 60_000, false));
}

#[test]
fn the_nearest_timing_wins() {
    let vs = "delay_loop 10\nconnect_timeout 2\nretry 5\ndelay_before_retry 6\nwarmup 7\nalpha";
    assert_eq!(timing(vs, "TCP_CHECK { }"), (10_000, 2_000, 5, 6_000, 7_000, true));
    assert_eq!(timing(vs, "DNS_CHECK { }"), (10_000, 2_000, 5, 6_000, 7_000, true));
    let rs = "delay_loop 20\nretry 1\nalpha off\n";
    assert_eq!(timing(vs, &format!("{rs} TCP_CHECK {{ }}")), (20_000, 2_000, 1, 6_000, 7_000, false));
    let own = "TCP_CHECK { delay_loop 3\n retry 0\n delay_before_retry 0\n warmup 0\n connect_timeout 0.5\n alpha on\n }";
    assert_eq!(timing(vs, &format!("{rs}{own}")), (3_000, 500, 0, 0, 0, true));
    // Without a warmup anywhere it is the check's own delay_loop.
    assert_eq!(timing("delay_loop 10", "delay_loop 20\nTCP_CHECK { }").4, 20_000);
    assert_eq!(timing("delay_loop 10", "TCP_CHECK { delay_loop 30\n }").4, 30_000);
    // A script has the virtual server's delay_loop for its time, not its own.
    assert_eq!(timing("delay_loop 10", "MISC_CHECK { misc_path /bin/x\ndelay_loop 30\n }").1, 10_000);
    assert_eq!(timing("delay_loop 10", "MISC_CHECK { misc_path /bin/x\nmisc_timeout 4\n }").1, 4_000);
    // A DNS check tries again at its own pace.
    assert_eq!(timing("", "DNS_CHECK { delay_loop 8\n }").3, 8_000);
}

#[test]
fn files_have_no_tries_and_no_alpha() {
    let text = "track_file f {\n file /run/f\n weight -3\n}\nvirtual_server 192.0.2.1 80 {\nretry 7\nalpha\nreal_server 198.51.100.1 80 {\nFILE_CHECK { track_file f\n }\n}\n}\n";
    let config = config(text);
    let check = &config.virtual_servers[0].real_servers[0].checks[0];
    assert_eq!((check.timing.retry, check.alpha), (0, false));
}

#[test]
fn weights_and_quorum() {
    let quorum = |head: &str, weights: &[&str]| {
        let servers: String = (1..)
            .zip(weights)
            .map(|(n, weight)| format!("real_server 198.51.100.{n} 80 {{\n{weight}\n}}\n"))
            .collect();
        let config = config(&format!("virtual_server 192.0.2.1 80 {{\n{head}\n{servers}}}\n"));
        let vs = &config.virtual_servers[0];
        let weights: Vec<u32> = vs.real_servers.iter().map(|rs| rs.weight).collect();
        (vs.quorum, vs.hysteresis, weights)
    };
    assert_eq!(quorum("", &["", "weight 3"]), (1, 0, vec![1, 3]));
    assert_eq!(quorum("weight 5", &["", "weight 3"]), (1, 0, vec![5, 3]));
    assert_eq!(quorum("quorum 3\nhysteresis 2", &["weight 4"]), (3, 2, vec![4]));
    assert_eq!(quorum("quorum 9\nhysteresis 9", &["weight 4"]), (4, 3, vec![4]));
    assert_eq!(quorum("quorum 3\nhysteresis 2", &["weight 0"]), (1, 0, vec![0]));
    assert_eq!(quorum("quorum x", &["weight 4"]), (1, 0, vec![4]));
    // A server that is left out counts for nothing.
    assert_eq!(
        quorum("quorum 3", &["weight 2", "weight 2\n}\nreal_server 198.51.100.1 80 {\nweight 9"]).0,
        3
    );
}

#[test]
fn what_a_server_takes_of_the_method_is_what_stands_above_it() {
    let text = "virtual_server 192.0.2.1 80 {\nreal_server 198.51.100.1 80 {\n}\nlvs_method DR\nreal_server 198.51.100.2 80 {\n}\nlvs_method TUN\nreal_server 198.51.100.3 80 {\nlvs_method NAT\n}\n}\n";
    let config = config(text);
    let all: Vec<String> =
        config.virtual_servers[0].real_servers.iter().map(|rs| format!("{:?}", rs.forwarding)).collect();
    assert_eq!(all, ["Tun(Ipip)", "Dr", "Nat"]);
}

#[test]
fn flags_by_number_when_the_scheduler_changes() {
    let flags = |lines: &str| {
        let text =
            format!("virtual_server 192.0.2.1 80 {{\n{lines}\nreal_server 198.51.100.1 80 {{\n}}\n}}\n");
        imported(&text).toml.lines().find(|line| line.starts_with("scheduler_flags")).map(str::to_owned)
    };
    assert_eq!(flags("lvs_sched sh\nsh-port").as_deref(), Some("scheduler_flags = [\"sh-port\"]"));
    assert_eq!(flags("sh-port\nlvs_sched sh"), None);
    assert_eq!(
        flags("lvs_sched sh\nsh-port\nsh-fallback\nlvs_sched rr\nflag-1").as_deref(),
        Some("scheduler_flags = [\"flag-2\", \"flag-1\"]")
    );
    assert_eq!(
        flags("lvs_sched mh\nsh-port\nmh-fallback").as_deref(),
        Some("scheduler_flags = [\"mh-fallback\"]")
    );
}

#[test]
fn the_client_certificate_is_taken_only_if_it_can_be_read() {
    let text = "SSL {\n certificate /nowhere/c.pem\n key /nowhere/k.pem\n}\nvirtual_server 192.0.2.1 443 {\nreal_server 198.51.100.1 443 {\nSSL_GET {\nurl {\npath /\n}\n}\n}\n}\n";
    let imported = imported(text);
    assert!(!imported.toml.contains("c.pem\""), "{}", imported.toml);
    assert!(imported.notes.iter().any(|note| note.what == "SSL"), "{:?}", imported.notes);
}

/// All notes of a file with these lines.
fn notes(globals: &str, vs: &str, rs: &str) -> String {
    let text = format!(
        "global_defs {{\n{globals}\n}}\ntrack_file f {{\nfile /f\n}}\nvirtual_server 192.0.2.1 80 {{\nprotocol TCP\n{vs}\n\
         real_server 198.51.100.1 80 {{\n{rs}\n}}\n}}\n"
    );
    let notes = imported(&text).notes;
    notes.iter().map(|note| format!("{note}\n")).collect()
}

/// A block on one line is one statement to keepalived: what is behind the first value of its first keyword is lost, and
/// was meant.
#[test]
fn a_word_that_keepalived_does_not_look_at_is_never_lost_in_silence() {
    for block in [
        "TCP_CHECK { connect_port 80 stray }",
        "TCP_CHECK { connect_timeout 5 stray }",
        "TCP_CHECK { connect_ip 198.51.100.2 stray }",
        "TCP_CHECK { bindto 198.51.100.2 stray }",
        "TCP_CHECK { bind_if eth0 stray }",
        "TCP_CHECK { retry 2 stray }",
        "TCP_CHECK { alpha on stray }",
        "TCP_CHECK stray { connect_port 80 }",
        "PING_CHECK { delay_loop 5 stray }",
        "DNS_CHECK { type A stray www.example.org }",
        "DNS_CHECK { name www.example.org stray A }",
        "SMTP_CHECK { helo_name a.example stray }",
        "SMTP_CHECK { host { connect_port 25 stray } }",
        "HTTP_GET { virtualhost a.example stray\nurl { path / } }",
        "HTTP_GET { http_protocol 1.1 stray\nurl { path / } }",
        "HTTP_GET { url { path / stray } }",
        "HTTP_GET { url { path /\ndigest 00112233445566778899aabbccddeeff stray } }",
        "HTTP_GET { url { path /\nregex x\nregex_no_match stray } }",
        "HTTP_GET { url { path /\nvirtualhost a.example stray } }",
        "SSL_GET { sni_name a.example stray\nurl { path / } }",
        "SSL_GET { enable_sni on stray\nurl { path / } }",
        "UDP_CHECK { min_reply_length 3 stray }",
        "MISC_CHECK { misc_path /bin/x\nmisc_timeout 3 stray }",
        "MISC_CHECK { misc_path /bin/x\nmisc_dynamic stray }",
        "MISC_CHECK { misc_path /bin/x\nuser nobody nogroup stray }",
        "MISC_CHECK { misc_path /bin/x nobody nogroup stray }",
        "FILE_CHECK { track_file f stray }",
        "weight 3 stray",
        "virtualhost a.example stray",
    ] {
        assert!(notes("", "", block).contains("stray"), "{block}: {}", notes("", "", block));
    }
    for line in [
        "delay_loop 5 stray",
        "lb_algo wrr stray",
        "lvs_sched wrr stray",
        "persistence_engine sip stray",
        "virtualhost a.example stray",
        "ip_family inet stray",
        "quorum 1 stray",
        "sorry_server 198.51.100.9 80 stray",
    ] {
        assert!(notes("", line, "").contains("stray"), "{line}: {}", notes("", line, ""));
    }
    assert!(notes("router_id a stray", "", "").contains("stray"));
    // Words that are looked at are no strays.
    let looked_at =
        "MISC_CHECK { misc_path /bin/x\nuser nobody nogroup }\nFILE_CHECK { track_file f\nweight 3 reverse }";
    assert!(!notes("", "sorry_server 198.51.100.9 80", looked_at).contains("does not look at"));
}

/// The packaged service can become nobody else: what it could not run is said before it counts as up for ever.
#[test]
fn scripts_of_another_user_are_remarked_on() {
    let check = "MISC_CHECK { misc_path /bin/x }";
    let global = notes("script_user nobody", "", check);
    assert!(
        global.contains("MISC_CHECK: it is to run as \"nobody\"")
            && global.contains("script_user: \"nobody\""),
        "{global}"
    );
    let own = notes("", "", "MISC_CHECK { misc_path /bin/x\nuser nobody }");
    assert!(own.contains("MISC_CHECK: it is to run as \"nobody\""), "{own}");
    assert!(!notes("", "", check).contains("run as"));
}
