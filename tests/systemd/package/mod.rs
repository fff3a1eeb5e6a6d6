//! The packages: first installation, upgrades under load, good ones and bad ones, removal. What both formats do is
//! one story, told for each; dpkg and rpm differ in who enables the service, and in what they leave behind.

mod making;

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::lab::backend::Backend;
use crate::lab::client::Traffic;
use crate::lab::net::Network;
use crate::lab::wait::{output, until};
use crate::service::{CONFIG, SERVERS, TABLE, VIRTUAL, journal, must, property, systemctl};

pub(crate) use making::{LVSD, TREE, package};

const FILE: &str = "/etc/lvsd/lvsd.toml";
/// This version, and one that comes after it.
const VERSIONS: [&str; 2] = [env!("CARGO_PKG_VERSION"), "99.0"];
/// As distributions with RPM have it: what nobody has decided is not enabled.
const PRESET: &str = "/etc/systemd/system-preset/99-default-disable.preset";
/// Takes the module out of the kernel's reach.
const HIDDEN: &str = "/etc/modprobe.d/lvsd-tests.conf";
const DROP_IN: &str = "/run/systemd/system/lvsd.service.d";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Deb,
    Rpm,
}

impl Format {
    /// First installation, upgrade, or the way back to an older version.
    fn install(self, package: &Path) -> Output {
        let package = package.display().to_string();
        match self {
            Self::Deb => dpkg(&["--install", &package]),
            // This machine knows its packages from dpkg: nothing is there for rpm.
            Self::Rpm => rpm(&["--upgrade", "--oldpackage", "--nodeps", &package]),
        }
    }

    fn remove(self) -> Output {
        match self {
            Self::Deb => dpkg(&["--remove", "lvsd"]),
            Self::Rpm => rpm(&["--erase", "lvsd"]),
        }
    }
}

fn dpkg(words: &[&str]) -> Output {
    let mut command = Command::new("dpkg");
    command.args(words).env("DEBIAN_FRONTEND", "noninteractive");
    command.stdin(std::process::Stdio::null()).output().expect("dpkg is there")
}

/// Debian's rpm has its data base where it is nobody's, and wants to be asked twice.
fn rpm(words: &[&str]) -> Output {
    let mut command = Command::new("rpm");
    command.args(["--dbpath", "/var/lib/rpm", "--force-debian"]).args(words);
    command.stdin(std::process::Stdio::null()).output().expect("rpm is there")
}

/// What the scripts of a package said, which must have succeeded.
fn said(output: &Output) -> String {
    let said =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat();
    assert!(output.status.success(), "{}: {said}", output.status);
    said
}

fn owner(path: &str) -> String {
    output(Command::new("stat").args(["-c", "%U:%G %a", path])).trim().to_owned()
}

fn there(path: &str) -> bool {
    fs::exists(path).expect("root may look")
}

/// Whatever other tests have installed by hand.
pub(crate) fn clean() {
    drop(systemctl("stop lvsd"));
    for path in ["/usr/bin/lvsd", "/usr/lib/systemd/system/lvsd.service", "/etc/lvsd", "/var/lib/lvsd"] {
        drop(fs::remove_dir_all(path));
        drop(fs::remove_file(path));
    }
    must("daemon-reload");
}

/// The end of a test that failed, too.
pub(crate) struct Purged;

impl Drop for Purged {
    fn drop(&mut self) {
        if std::thread::panicking() {
            drop(Command::new("journalctl").args(["-u", "lvsd", "-n", "60", "--no-pager"]).status());
        }
        drop(dpkg(&["--purge", "lvsd"]));
        drop(Format::Rpm.remove());
        drop(fs::remove_file(PRESET));
        drop(fs::remove_file(HIDDEN));
        drop(fs::remove_dir_all(DROP_IN));
        drop(Command::new("ipvsadm").arg("-C").status());
        clean();
    }
}

/// A machine, what can be installed on it, and the network that it serves.
struct Life {
    format: Format,
    packages: [PathBuf; 2],
    /// Which of them comes next.
    next: Cell<usize>,
    network: Network,
    _backends: [Backend; 2],
    _folder: TempDir,
    _purged: Purged,
}

impl Life {
    fn new(format: Format) -> Self {
        clean();
        let folder = TempDir::new().expect("a folder");
        let packages = VERSIONS.map(|version| package(format, version, folder.path()));
        // For ipvsadm, before lvsd's unit loads it.
        output(Command::new("modprobe").arg("ip_vs"));
        let network = Network::around_this_machine();
        let backends = SERVERS.map(|address| Backend::start(&network.servers, address));
        Self {
            format,
            packages,
            next: Cell::new(0),
            network,
            _backends: backends,
            _folder: folder,
            _purged: Purged,
        }
    }

    /// The older one and the newer by turns.
    fn install(&self) -> String {
        let next = self.next.get();
        self.next.set(1 - next);
        said(&self.format.install(&self.packages[next]))
    }

    /// Packages that are to be published go through all of it, which takes minutes of a guest; ours of every
    /// day through what is most common.
    fn is_whole() -> bool {
        std::env::var_os("LVSD_PACKAGES").is_some()
    }

    fn table(&self) -> Vec<String> {
        self.network.director.table()
    }

    /// First installation: ready to start, and not started with nothing to do.
    fn begin(&self) {
        let said = self.install();
        assert!(said.contains("no virtual server yet"), "{said}");
        assert_eq!(property("ActiveState"), "inactive");
        assert_eq!(
            (owner(FILE), owner("/etc/lvsd/conf.d")),
            ("root:lvsd 640".into(), "root:root 755".into())
        );
        output(Command::new("lvsd").arg("check"));
        // What is shipped starts as it is, too; the scripts say how.
        assert!(said.contains("systemctl enable --now lvsd"), "{said}");
        must("enable --now lvsd");
        assert_eq!(property("UnitFileState"), "enabled");
        assert_eq!(self.table(), Vec::<String>::new());
    }

    /// It goes on waiting, as the new program, and the package manager does not wait with it.
    fn one_while_it_waits_for_the_kernel(&self) {
        must("stop lvsd");
        fs::write(HIDDEN, "install ip_vs /bin/false\n").expect("root may");
        for modules in [&["ip_vs_lblc", "ip_vs_lblcr", "ip_vs_wrr"][..], &["ip_vs"]] {
            output(Command::new("modprobe").arg("-r").args(modules));
        }
        must("start --no-block lvsd");
        let waits = || {
            let told = Command::new("lvsd").arg("status").output().expect("it is installed");
            property("SubState") == "start" && String::from_utf8_lossy(&told.stderr).contains("no ip_vs")
        };
        until("it waits", waits);
        let before = property("MainPID");
        self.install();
        until("another process waits", || property("MainPID") != before && waits());
        fs::remove_file(HIDDEN).expect("root may");
        until("the service runs", || property("ActiveState") == "active");
    }

    /// Whatever an upgrade meets, clients are answered all the while.
    fn upgrades(&self, config: &str) {
        let traffic = Traffic::start(&self.network.client, VIRTUAL);
        self.a_good_one();
        if Self::is_whole() {
            self.one_before_systemd_tries_again();
            self.one_that_does_not_start();
        }
        self.one_that_finds_mistakes(config);
        let report = traffic.stop();
        assert!(report.failures.is_empty() && report.answered > 0, "{report:?}");
    }

    /// Another process.
    fn a_good_one(&self) {
        let before = property("MainPID");
        self.install();
        assert_ne!(property("MainPID"), before);
        assert_eq!(property("ActiveState"), "active");
        assert_eq!(self.table(), TABLE);
        assert!(journal(&[]).contains("the next stop leaves the table as it is"), "{}", journal(&[]));
    }

    /// Nobody runs when it comes: the new one is not waited for, and does not wait.
    fn one_before_systemd_tries_again(&self) {
        drop_in("RestartSec=1h");
        must("kill -s KILL --kill-whom=main lvsd");
        until("systemd waits", || property("SubState") == "auto-restart");
        self.install();
        until("the service runs", || property("ActiveState") == "active");
        assert_eq!(self.table(), TABLE);
    }

    /// The table stands, and systemd tries until one starts.
    fn one_that_does_not_start(&self) {
        drop_in("ExecStart=\nExecStart=/bin/false");
        let said = self.install();
        assert!(said.contains("systemd goes on trying") && said.contains("NOBODY checks"), "{said}");
        assert_eq!(self.table(), TABLE);
        drop_in("");
        until("the service runs", || property("ActiveState") == "active");
        assert_eq!(self.table(), TABLE);
    }

    /// Such a version leaves the old process alone; a service that has ended is not started behind its
    /// administrator's back.
    fn one_that_finds_mistakes(&self, config: &str) {
        let before = property("MainPID");
        fs::write(FILE, config.replace("weight = 3", "wait = 3")).expect("root may");
        let said = self.install();
        assert!(said.contains("NOT restarted") && said.contains("unknown key"), "{said}");
        assert_eq!((property("MainPID"), property("ActiveState")), (before.clone(), "active".to_owned()));
        self.one_that_cannot_read(config, &before);
        fs::write(FILE, config.replace("weight = 3", "wait = 3")).expect("root may");
        must("kill -s KILL --kill-whom=main lvsd");
        until("the service has failed", || property("ActiveState") == "failed");
        fs::write(FILE, config).expect("root may");
        let said = self.install();
        assert!(said.contains("the service has failed before"), "{said}");
        assert_eq!(
            (property("ActiveState"), self.table()),
            ("failed".to_owned(), TABLE.map(str::to_owned).to_vec())
        );
        must("start lvsd");
        assert_eq!(self.table(), TABLE);
    }

    /// A key that only root can read, and ones that the sandbox hides: root's own check, and the process that has read
    /// them before, know nothing of it.
    fn one_that_cannot_read(&self, config: &str, before: &str) {
        let made = rcgen::generate_simple_self_signed(["www.example.org".to_owned()]).expect("a certificate");
        for (key, mode, why) in [
            ("/etc/lvsd/ca.crt", 0o600, "chgrp lvsd /etc/lvsd/ca.crt"),
            ("/root/ca.crt", 0o644, "ProtectHome="),
            ("/tmp/ca.crt", 0o644, "PrivateTmp="),
        ] {
            fs::write(key, made.cert.pem()).expect("root may");
            fs::set_permissions(key, fs::Permissions::from_mode(mode)).expect("root may");
            let unused = format!("\n[check.unused]\ntcp = {{ tls = {{ ca = {key:?} }} }}\n");
            fs::write(FILE, format!("{config}{unused}")).expect("root may");
            output(Command::new("lvsd").arg("check"));
            let said = self.install();
            assert!(said.contains("NOT restarted") && said.contains(why), "{said}");
            let now = (property("MainPID"), property("ActiveState"));
            assert_eq!(now, (before.to_owned(), "active".to_owned()));
            fs::remove_file(key).expect("root may");
        }
    }

    /// Withdraws, whatever `on_stop` says, and whatever stands in the file by now.
    fn remove(&self, config: &str) {
        fs::write(FILE, config.replace("[daemon]", "[daemon]\non_stop = \"keep\"")).expect("root may");
        must("reload lvsd");
        fs::write(FILE, config.replace("weight = 3", "wait = 3")).expect("root may");
        said(&self.format.remove());
        assert_eq!(self.table(), Vec::<String>::new());
        until("the service is gone", || property("ActiveState") == "inactive");
        for path in
            ["/usr/bin/lvsd", "/usr/lib/lvsd", "/usr/share/lvsd", "/usr/lib/systemd/system/lvsd.service"]
        {
            assert!(!there(path), "{path} is left");
        }
        for path in ["/var/lib/lvsd/state.json", "/etc/lvsd"] {
            assert!(there(path), "{path} is gone");
        }
        output(Command::new("id").arg("lvsd"));
    }
}

/// Changes the unit as an administrator would; with nothing, changes it back.
fn drop_in(settings: &str) {
    fs::create_dir_all(DROP_IN).expect("root may");
    fs::write(format!("{DROP_IN}/tests.conf"), format!("[Service]\n{settings}\n")).expect("root may");
    must("daemon-reload");
}

/// The story of both: what a director goes through between its first installation and a removal.
fn from_installation_to_removal(life: &Life) -> String {
    life.begin();
    if Life::is_whole() {
        life.one_while_it_waits_for_the_kernel();
    }
    let told = "/var/lib/lvsd/told";
    let omega = format!(
        "omega = true\nquorum_down = [\"/bin/sh\", \"-c\", \"echo down >>{told}\"]\nscheduler = \"wrr\""
    );
    let config = CONFIG.replace("scheduler = \"wrr\"", &omega);
    fs::write(FILE, &config).expect("root may");
    must("reload lvsd");
    assert_eq!(life.table(), TABLE);
    life.upgrades(&config);
    assert!(!there(told), "an upgrade has told that the quorum is down");
    life.remove(&config);
    config
}

#[test]
fn a_deb_is_installed_upgraded_under_load_and_removed() {
    let life = Life::new(Format::Deb);
    let config = from_installation_to_removal(&life);

    // Installed again over its configuration, it starts by itself, but not if it was disabled.
    fs::write(FILE, config).expect("root may");
    life.install();
    until("the service runs", || property("ActiveState") == "active");
    assert_eq!(life.table(), TABLE);
    must("disable --now lvsd");
    said(&life.format.remove());
    let again = life.install();
    assert!(again.contains("the service is not enabled"), "{again}");
    assert_eq!((property("ActiveState"), property("UnitFileState")), ("inactive".into(), "disabled".into()));

    // A purge leaves nothing.
    said(&dpkg(&["--purge", "lvsd"]));
    for path in ["/etc/lvsd", "/var/lib/lvsd"] {
        assert!(!there(path), "{path} is left");
    }
}

#[test]
fn an_rpm_is_installed_upgraded_under_load_and_removed() {
    let life = Life::new(Format::Rpm);
    fs::create_dir_all("/etc/systemd/system-preset").expect("root may");
    fs::write(PRESET, "disable *\n").expect("root may");
    let config = from_installation_to_removal(&life);

    // What was edited is kept aside.
    assert!(there("/etc/lvsd/lvsd.toml.rpmsave") && !there(FILE));
    assert!(
        !there("/etc/systemd/system/multi-user.target.wants/lvsd.service"),
        "it is enabled and not there"
    );

    // Every file is as the package has it, and the presets decide.
    life.install();
    assert_eq!(said(&rpm(&["--verify", "--nodeps", "lvsd"])), "");
    assert_eq!((property("ActiveState"), property("UnitFileState")), ("inactive".into(), "disabled".into()));
    said(&life.format.remove());

    // Where they say so it is enabled; over a configuration that is there it starts by itself.
    fs::write(PRESET, "enable lvsd.service\n").expect("root may");
    fs::create_dir_all("/etc/lvsd").expect("root may");
    fs::write(FILE, config).expect("root may");
    life.install();
    until("the service runs", || property("ActiveState") == "active");
    assert_eq!(
        (property("UnitFileState"), life.table()),
        ("enabled".to_owned(), TABLE.map(str::to_owned).to_vec())
    );
    assert_eq!(owner(FILE), "root:lvsd 640");
}
