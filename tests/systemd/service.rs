//! lvsd installed as README.md says, and what an administrator does with it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::lab::backend::Backend;
use crate::lab::net::Network;
use crate::lab::wait::output;

/// The machine with the service stopped, an empty table, and a network around it.
pub(crate) struct Machine {
    pub(crate) network: Network,
    pub(crate) backends: [Option<Backend>; 2],
}

pub(crate) const VIRTUAL: &str = "192.0.2.10:80";
pub(crate) const SERVERS: [&str; 2] = ["198.51.100.11:80", "198.51.100.12:80"];
pub(crate) const TABLE: [&str; 3] = [
    "-A -t 192.0.2.10:80 -s wrr",
    "-a -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 3",
    "-a -t 192.0.2.10:80 -r 198.51.100.12:80 -m -w 1",
];
pub(crate) const CONFIG: &str = r#"
[daemon]
http = "127.0.0.1:9480"

[defaults]
delay_loop = "500ms"
delay_before_retry = "100ms"
timeout = "2s"

[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
scheduler = "wrr"
check = { http = { path = "/" } }
[[virtual_server.real_server]]
address = "198.51.100.11:80"
weight = 3
[[virtual_server.real_server]]
address = "198.51.100.12:80"
"#;

impl Machine {
    pub(crate) fn new(config: &str) -> Self {
        // A test of the package leaves nothing of it behind.
        if !Path::new("/etc/lvsd").exists() {
            install();
        }
        let network = Network::around_this_machine();
        let backends = SERVERS.map(|address| Some(Backend::start(&network.servers, address)));
        let machine = Self { network, backends };
        machine.configure(config);
        machine
    }

    pub(crate) fn configure(&self, config: &str) {
        fs::write("/etc/lvsd/lvsd.toml", config).expect("root may write");
    }

    pub(crate) fn table(&self) -> Vec<String> {
        self.network.director.table()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            drop(Command::new("journalctl").args(["-u", "lvsd", "-n", "60", "--no-pager"]).status());
        }
        // Leaves nothing to the next test, whatever this one ended with.
        drop(systemctl("stop lvsd"));
        drop(systemctl("reset-failed lvsd"));
        self.network.director.ipvsadm("-C");
        drop(fs::remove_dir_all("/var/lib/lvsd"));
    }
}

/// As README.md says.
fn install() {
    let tree = concat!("/host", env!("CARGO_MANIFEST_DIR"));
    assert!(Path::new(tree).exists(), "only in the lab's machine: run `./test systemd`");
    let binary = concat!("/host", env!("CARGO_BIN_EXE_lvsd"));
    for (mode, from, to) in [
        ("755", binary.to_owned(), "/usr/bin/lvsd"),
        ("644", format!("{tree}/systemd/lvsd.service"), "/usr/lib/systemd/system/lvsd.service"),
        ("644", format!("{tree}/systemd/lvsd.sysusers"), "/usr/lib/sysusers.d/lvsd.conf"),
        ("644", format!("{tree}/systemd/lvsd.tmpfiles"), "/usr/lib/tmpfiles.d/lvsd.conf"),
        ("644", format!("{tree}/systemd/lvsd.modules-load"), "/usr/lib/modules-load.d/lvsd.conf"),
    ] {
        output(Command::new("install").args(["-D", "-m", mode, &from, to]));
    }
    fs::create_dir_all("/etc/lvsd").expect("root may");
    fs::write("/etc/lvsd/lvsd.toml", CONFIG).expect("root may");
    output(Command::new("systemd-sysusers").arg("lvsd.conf"));
    output(Command::new("systemd-tmpfiles").args(["--create", "lvsd.conf"]));
    must("daemon-reload");
    must("restart systemd-modules-load");
}

pub(crate) fn systemctl(words: &str) -> Output {
    Command::new("systemctl").args(words.split_whitespace()).output().expect("systemctl is there")
}

/// As [`systemctl`], which must succeed.
pub(crate) fn must(words: &str) {
    output(Command::new("systemctl").args(words.split_whitespace()));
}

/// One property of the service.
pub(crate) fn property(name: &str) -> String {
    let text = output(Command::new("systemctl").args(["show", "--value", "-p", name, "lvsd"]));
    text.trim().to_owned()
}

/// What the journal has of the service, with these further matches.
pub(crate) fn journal(matches: &[&str]) -> String {
    output(Command::new("journalctl").arg("--sync"));
    output(Command::new("journalctl").args(["-u", "lvsd", "--no-pager", "-o", "cat"]).args(matches))
}
