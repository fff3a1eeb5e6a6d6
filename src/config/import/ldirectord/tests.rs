//! Every keyword of ldirectord.cf is carried or said not to be, whole files become what they mean,
//! and no text becomes a configuration that lvsd refuses.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use crate::config::import::{Format, Imported, Options, Reader, import};
use crate::config::tests::load_text;
use crate::engine::model::Config;

struct Text<'a>(&'a str);

impl Reader for Text<'_> {
    fn read(&self, _: &Path) -> Result<Vec<u8>, String> {
        Ok(self.0.as_bytes().to_vec())
    }

    fn matching(&self, _: &Path) -> Result<Vec<PathBuf>, String> {
        Ok(Vec::new())
    }
}

fn imported(text: &str) -> Imported {
    let options = Options { from: Some(Format::Ldirectord), ..Options::default() };
    import(Path::new("ldirectord.cf"), &options, &Text(text)).expect("it is text")
}

/// What lvsd makes of the result.
fn loaded(text: &str) -> (Config, Imported) {
    let imported = imported(text);
    match load_text(&imported.toml) {
        Ok(loaded) => (loaded.config, imported),
        Err(errors) => panic!("{errors}\nof\n{}\nof\n{text}", imported.toml),
    }
}

fn shown(imported: &Imported) -> String {
    let notes: String = imported.notes.iter().map(|note| format!("{note}\n")).collect();
    format!("{}\n--- notes\n{notes}", imported.toml)
}

#[test]
fn a_site() {
    let (config, imported) = loaded(include_str!("samples/site.cf"));
    assert_eq!(config.virtual_servers.len(), 5);
    insta::assert_snapshot!(shown(&imported));
}

#[test]
fn all_protocols() {
    let (config, imported) = loaded(include_str!("samples/protocols.cf"));
    assert_eq!(config.virtual_servers.len(), 17);
    insta::assert_snapshot!(shown(&imported));
}

/// A line, and what of it the result has: a text in the TOML, or a note.
enum Fate {
    Is(&'static str),
    Noted(&'static str),
    /// What it asks for is what lvsd does.
    Default,
}
use Fate::{Default as AsItIs, Is, Noted};

const GLOBAL: &[(&str, Fate)] = &[
    ("checktimeout = 3", Is("timeout = \"3s\"")),
    ("negotiatetimeout = 7", Is("timeout = \"7s\"")),
    ("checkinterval = 2", Is("delay_loop = \"2s\"")),
    ("checkcount = 2", AsItIs),
    ("failurecount = 4", Is("retry = 3")),
    ("autoreload = yes", Noted("systemctl reload lvsd")),
    ("autoreload = no", AsItIs),
    ("callback = \"/usr/local/bin/callback\"", Noted("does not watch its file")),
    (
        "fallback = 198.51.100.99:80 gate",
        Is("sorry_server = { address = \"198.51.100.99:80\", lb_kind = \"dr\" }"),
    ),
    ("fallback6 = [2001:db8::99]:80", AsItIs),
    (
        "fallbackcommand = \"/usr/local/bin/sorry\"",
        Is("quorum_down = [\"/usr/local/bin/sorry\", \"start\", \"192.0.2.10:80\", \"tcp\"]"),
    ),
    ("logfile = \"local0\"", Noted("journald")),
    ("emailalert = \"ops@example.org\"", Is("to = [\"ops@example.org\"]")),
    ("emailalert = ops@example.org, noc@example.org", Is("to = [\"ops@example.org\", \"noc@example.org\"]")),
    ("emailalert = nobody at all", Noted("not all of it")),
    ("emailalertfrom = lvs@example.org", Noted("no emailalert")),
    ("emailalertfrom = lvs", Noted("no mail address")),
    ("emailalertfreq = 60", Noted("Prometheus")),
    ("emailalertfreq = 0", AsItIs),
    ("emailalertstatus = all", AsItIs),
    ("emailalertstatus = none", AsItIs),
    ("emailalertstatus = starting", Noted("apart")),
    ("emailalertstatus = sometimes", Noted("it is none of")),
    ("smtp = mail.example.org", Noted("no emailalert")),
    ("smtp = mail example", Noted("no mail server")),
    ("execute = \"second\"", Noted("import that file")),
    ("supervised = yes", Noted("foreground")),
    ("supervised", Noted("foreground")),
    ("fork = yes", Noted("side by side")),
    ("quiescent = yes", Is("inhibit_on_failure = true")),
    ("quiescent = no", AsItIs),
    ("readdquiescent = no", Noted("drift")),
    ("cleanstop = no", Is("on_stop = \"keep\"")),
    ("cleanstop = yes", AsItIs),
    ("maintenancedir = /etc/maintenance", Is("\"/etc/maintenance/198.51.100.11:80\"")),
    ("maintenancedir = maintenance", Noted("full path")),
    ("timeout = 3", Noted("refuses")),
    ("connecttimeout = 3", Noted("refuses")),
    ("nonsense = 3", Noted("refuses")),
    ("checktimeout = never", Noted("not a number")),
    ("quiescent = maybe", Noted("neither")),
];

const BELOW: &[(&str, Fate)] = &[
    ("real = 198.51.100.21:80 ipip 3", Is("lb_kind = \"tun\"\nweight = 3")),
    ("real = 198.51.100.21:80", Noted("gate, masq or ipip")),
    ("real = 198.51.100.21:80 route", Noted("gate, masq or ipip")),
    ("real = example.org:80 gate", Noted("host name")),
    ("real = 198.51.100.21:nonsense gate", Noted("not a service")),
    ("real = 198.51.100.21->198.51.100.20:80 gate", Noted("ends before")),
    ("real = 198.51.100.21->198.51.200.20:80 gate", Noted("more than 4096")),
    ("real = localhost:www masq", Is("\"127.0.0.1:80\"")),
    ("real = 198.51.100.11:80 gate", Noted("destination already")),
    ("real6 = [2001:db8::1]:80 gate", Noted("not an IPv4 address")),
    ("fallback = 198.51.100.99", Is("sorry_server = { address = \"198.51.100.99:80\", lb_kind = \"dr\" }")),
    ("fallback = sorry.example.org:80", Noted("host name")),
    (
        "fallbackcommand = \"sorry | tee /tmp/log\"",
        Is("\"/bin/sh\", \"-c\", \"sorry | tee /tmp/log start 192.0.2.10:80 tcp\""),
    ),
    ("checktype = connect", Is("check = { tcp = {} }")),
    ("checktype = ping", Is("check = { ping = {} }")),
    ("checktype = 3", Is("delay_loop = \"40s\"")),
    ("checktype = on", Is("check = []")),
    ("checktype = off", Is("weight = 0")),
    ("checktype = sometimes", Noted("none of connect")),
    ("checkcommand = \"/bin/false\"", AsItIs),
    ("checkport = 81", Is("connect_port = 81")),
    ("checkport = 0", Noted("1 to 65535")),
    ("checktimeout = 3", Is("timeout = \"3s\"")),
    ("negotiatetimeout = 3", Is("timeout = \"3s\"")),
    ("failurecount = 2", Is("retry = 1")),
    ("checkcount = 2", AsItIs),
    ("checkinterval = 2", Noted("fork = yes")),
    ("service = https", Is("tls = { verify = false }")),
    ("service = gopher", Noted("no such service")),
    ("request = \"/health\"", Is("path = \"/health\"")),
    ("request = \"http://198.51.100.50:8080/a\"", Is("connect_ip = \"198.51.100.50\"\nconnect_port = 8080")),
    ("receive = \"a+b\"", Is("body = { regex = \"a+b\" }")),
    ("receive = \"(?<!x)y\"", Noted("look-around")),
    ("httpmethod = head", Is("method = \"HEAD\"")),
    ("httpmethod = POST", Noted("GET or HEAD")),
    ("virtualhost = \"www.example.org\"", Is("virtualhost = \"www.example.org\"")),
    ("virtualhost = www example", Noted("Host header")),
    ("login = \"me\"", AsItIs),
    ("passwd = \"me\"", AsItIs),
    ("database = \"me\"", AsItIs),
    ("secret = \"me\"", AsItIs),
    ("load = \"me\"", Noted("does nothing")),
    ("scheduler = mh", Is("scheduler = \"mh\"")),
    ("scheduler = 17", Noted("no name")),
    ("schedflags = flag-1", Is("scheduler_flags = [\"flag-1\"]")),
    ("schedflags = sh-port", Noted("no flag of the scheduler wrr")),
    ("persistent = 600", Is("persistence_timeout = \"10m\"")),
    ("persistent = 0", Noted("1 to 31 days")),
    ("netmask = 255.255.255.0", Noted("beside `persistent`")),
    ("ops = yes", Noted("udp only")),
    ("protocol = udp", Is("protocol = \"udp\"")),
    ("protocol = fwm", Noted("tcp or udp")),
    ("quiescent = yes", Is("inhibit_on_failure = true")),
    ("cleanstop = no", Is("on_stop = \"keep\"")),
    ("emailalert = ops@example.org", Noted("[daemon.notify.mail]")),
    ("emailalertfreq = 60", Noted("[daemon.notify.mail]")),
    ("emailalertstatus = none", Noted("[daemon.notify.mail]")),
    ("smtp = mail.example.org", Noted("[daemon.notify.mail]")),
    ("monitorfile = \"/var/log/x\"", Noted("journalctl")),
    ("servicename = web", Is("name = \"web\"")),
    ("servicename = 192.0.2.1:80", Noted("could be an address")),
    ("comment = ask Ann", Is("# ask Ann")),
    ("connecttimeout = 3", Noted("refuses")),
    ("nonsense", Noted("refuses")),
];

fn judge(line: &str, fate: &Fate, text: &str) {
    let (_, imported) = loaded(text);
    let all = shown(&imported);
    match fate {
        Is(wanted) => assert!(imported.toml.contains(wanted), "{line}: no {wanted} in\n{all}"),
        Noted(wanted) => {
            let note = imported.notes.iter().find(|note| note.why.contains(wanted));
            let note = note.unwrap_or_else(|| panic!("{line}: no note with {wanted:?} in\n{all}"));
            let place = text.lines().nth(usize::try_from(note.line).unwrap() - 1).unwrap();
            // `off` and the like are said of the virtual server.
            assert!(place.trim() == line || place.starts_with("virtual"), "{line}: {note}");
        }
        AsItIs => assert!(imported.notes.is_empty(), "{line}:\n{all}"),
    }
}

#[test]
fn every_keyword_of_the_file() {
    for (line, fate) in GLOBAL {
        let timeout = if line.starts_with("checktimeout") { "\tchecktype = connect\n" } else { "" };
        judge(
            line,
            fate,
            &format!("{line}\nvirtual = 192.0.2.10:80\n\treal = 198.51.100.11:80 gate\n{timeout}"),
        );
    }
}

#[test]
fn every_keyword_of_a_virtual_server() {
    for (line, fate) in BELOW {
        judge(line, fate, &format!("virtual = 192.0.2.10:80\n\treal = 198.51.100.11:80 gate\n\t{line}\n"));
    }
}

/// Each of these is no virtual server, and is said to be none.
#[test]
fn virtual_servers_that_cannot_be() {
    for head in [
        "virtual = www.example.org:80",
        "virtual = 192.0.2.10",
        "virtual = 192.0.2.10:0",
        "virtual = 192.0.2.10:70000",
        "virtual = 192.0.2.10:gopherd",
        "virtual = 0",
        "virtual = 4294967296",
        "virtual = [2001:db8::10]:80",
        "virtual6 = 192.0.2.10:80",
        "virtual = 300.0.2.10:80",
        "virtual = 224.0.0.1:80",
        "virtual =",
    ] {
        let (config, imported) = loaded(&format!("{head}\n\treal = 198.51.100.11:80 gate\n"));
        assert_eq!(config.virtual_servers.len(), 0, "{head}");
        assert_eq!(imported.notes.len(), 1, "{head}: {:?}", imported.notes);
        assert!(imported.toml.contains("# not carried: virtual"), "{}", imported.toml);
    }
    let twice = "virtual = 192.0.2.10:80\n\treal = 198.51.100.11:80 gate\n".repeat(2);
    let (config, imported) = loaded(&twice);
    assert_eq!((config.virtual_servers.len(), imported.notes.len()), (1, 1));
}

/// Where ldirectord is strict about spaces, comments and empty lines.
#[test]
fn lines() {
    let text = "\u{feff}# comment\n\n   # comment\nvirtual=192.0.2.10:80 # web\n    real=198.51.100.11:80 gate # one\n\
                #\treal=198.51.100.12:80 gate\n\treal=198.51.100.13:80 gate\n\n\treal=198.51.100.14:80 gate\n \
                scheduler=rr\n\trequest=\"a#b\"\n";
    let (config, imported) = loaded(text);
    let servers: Vec<String> =
        config.virtual_servers[0].real_servers.iter().map(|server| server.id.to_string()).collect();
    assert_eq!(servers, ["198.51.100.11:80", "198.51.100.13:80", "198.51.100.14:80"]);
    assert_eq!(config.virtual_servers[0].scheduler.as_str(), "rr");
    // What stands after the empty line, each line of it.
    assert_eq!(imported.notes.iter().map(|note| note.line).collect::<Vec<_>>(), [9, 10, 11]);
    let (_, imported) = loaded("\treal=198.51.100.14:80 gate\n");
    assert_eq!(imported.notes.len(), 1);
}

#[test]
fn a_file_of_nothing_but_mistakes_is_bounded() {
    let (_, imported) = loaded(&"nonsense = 1\n".repeat(50_000));
    assert!(imported.notes.len() <= 2_001);
    let reals = "\treal = 198.51.0.0->198.51.15.255:80 gate\n".repeat(200);
    let (config, _) = loaded(&format!("virtual = 192.0.2.10:80\n{reals}"));
    assert_eq!(config.virtual_servers[0].real_servers.len(), 4_096);
}

#[test]
fn a_reply_to_head_has_no_body() {
    for method in ["HEAD", "GET"] {
        let (_, imported) = loaded(&format!(
            "virtual = 192.0.2.10:80\n\treal = 198.51.100.11:80 gate\n\tservice = http\n\thttpmethod = {method}\n\treceive = \"ok\"\n"
        ));
        let noted = imported.notes.iter().any(|note| note.what == "receive" && note.line == 5);
        assert_eq!((noted, imported.toml.contains("regex = \"ok\"")), (method == "HEAD", method == "GET"));
    }
}

fn a_line() -> impl Strategy<Value = String> {
    let known: Vec<&'static str> = GLOBAL.iter().chain(BELOW).map(|(line, _)| *line).collect();
    let heads =
        ["virtual = 192.0.2.10:80", "virtual = 192.0.2.10:53", "virtual = 7", "virtual6 = [2001:db8::1]:443"];
    let words = [
        "ftp",
        "pop",
        "imap",
        "ldap",
        "radius",
        "mysql",
        "pgsql",
        "sip",
        "simpletcp",
        "dns",
        "http_proxy",
        "nntp",
    ];
    let service = prop::sample::select(words.to_vec()).prop_map(|word| format!("\tservice = {word}"));
    let values = ".{0,20}".prop_map(|text| text.replace('\n', ""));
    let keys: Vec<&'static str> =
        known.iter().map(|line| line.split('=').next().unwrap_or(line).trim()).collect();
    let odd = (prop::sample::select(keys), values).prop_map(|(key, value)| format!("\t{key} = \"{value}\""));
    prop_oneof![
        4 => prop::sample::select(known.clone()).prop_map(|line| format!("\t{line}")),
        2 => prop::sample::select(known).prop_map(str::to_owned),
        3 => prop::sample::select(heads.to_vec()).prop_map(str::to_owned),
        3 => service,
        3 => odd,
        1 => ".{0,60}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Lines of real files in any order, with anything between them: what comes out is always good.
    #[test]
    fn what_comes_out_is_a_configuration(lines in prop::collection::vec(a_line(), 0..40)) {
        loaded(&lines.join("\n"));
    }

    #[test]
    fn any_text_is_read(text in "(?s).{0,400}") {
        loaded(&text);
    }
}
