//! The Debian package: first installation, upgrade under load, removal, purge. It is made here from the
//! list in Cargo.toml, with the binary of the tests in place of the release; `packaging/build` makes the
//! real one from the same list.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use toml::{Table, Value};

use crate::lab::backend::Backend;
use crate::lab::client::Traffic;
use crate::lab::net::Network;
use crate::lab::wait::{output, until};
use crate::service::{CONFIG, SERVERS, TABLE, VIRTUAL, journal, must, property, systemctl};

const TREE: &str = concat!("/host", env!("CARGO_MANIFEST_DIR"));
pub(crate) const LVSD: &str = concat!("/host", env!("CARGO_BIN_EXE_lvsd"));

/// The same without what only debuggers read, if there is one.
fn packaged() -> String {
    std::env::var("LVSD_PACKAGED").map_or_else(|_| LVSD.to_owned(), |path| format!("/host{path}"))
}
const FILE: &str = "/etc/lvsd/lvsd.toml";

/// `[package.metadata.deb]`
fn metadata() -> Table {
    let manifest: Table =
        fs::read_to_string(format!("{TREE}/Cargo.toml")).expect("the tree").parse().expect("TOML");
    manifest["package"]["metadata"]["deb"].as_table().expect("a table").clone()
}

fn words(value: &Value) -> Vec<String> {
    let items = value.as_array().expect("a list").iter();
    items.map(|item| item.as_str().expect("a text").to_owned()).collect()
}

/// Builds a package of this version, and returns its path.
pub(crate) fn build(version: &str, folder: &Path) -> PathBuf {
    let (root, made, metadata) = (folder.join(version), folder.join("made"), metadata());
    let generate = format!("{TREE}/packaging/generate");
    output(Command::new("bash").arg(generate).args([Path::new(LVSD), &made]));
    for asset in metadata["assets"].as_array().expect("a list") {
        let [from, to, mode] = words(asset).try_into().expect("three words");
        let from = match from.strip_prefix("target/packaging/") {
            Some(name) => made.join(name).display().to_string(),
            None if from == "target/release/lvsd" => packaged(),
            None => format!("{TREE}/{from}"),
        };
        let to = root.join(to);
        // A pattern fills a directory.
        let script = if from.contains('*') { "install -D -m $0 $1 -t $2" } else { "install -D -m $0 $1 $2" };
        output(Command::new("sh").args(["-c", script, &mode, &from]).arg(to));
    }
    let control = root.join("DEBIAN");
    fs::create_dir_all(&control).expect("our folder");
    let scripts = format!("{TREE}/{}", metadata["maintainer-scripts"].as_str().expect("a folder"));
    output(Command::new("sh").args(["-c", "install -m 755 $0/* $1", &scripts]).arg(&control));
    fs::write(control.join("conffiles"), words(&metadata["conf-files"]).join("\n") + "\n")
        .expect("our folder");
    let description =
        "Package: lvsd\nArchitecture: amd64\nMaintainer: tests <tests@example.org>\nDescription: tests\n";
    fs::write(control.join("control"), format!("{description}Version: {version}\n")).expect("our folder");
    let package = folder.join(format!("lvsd_{version}.deb"));
    // Uncompressed: a guest is slow.
    let arguments = ["-Znone", "--root-owner-group", "--build"];
    output(Command::new("dpkg-deb").args(arguments).arg(&root).arg(&package));
    fs::remove_dir_all(&root).expect("our folder");
    package
}

fn dpkg(words: &[&str]) -> Output {
    let mut command = Command::new("dpkg");
    command.args(words).env("DEBIAN_FRONTEND", "noninteractive");
    command.stdin(std::process::Stdio::null()).output().expect("dpkg is there")
}

/// As [`dpkg`], which must succeed; returns what the scripts said.
pub(crate) fn must_dpkg(words: &[&str]) -> String {
    let output = dpkg(words);
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "dpkg {words:?}: {said}");
    said
}

fn installed(package: &Path) -> String {
    must_dpkg(&["--install", &package.display().to_string()])
}

fn owner(path: &str) -> String {
    output(Command::new("stat").args(["-c", "%U:%G %a", path])).trim().to_owned()
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
        drop(Command::new("ipvsadm").arg("-C").status());
        clean();
    }
}

#[test]
fn a_package_is_installed_upgraded_under_load_and_removed() {
    clean();
    let folder = TempDir::new().expect("a folder");
    let [old, new] = ["1.0-1", "1.1-1"].map(|version| build(version, folder.path()));
    // For ipvsadm, before lvsd's unit loads it.
    output(Command::new("modprobe").arg("ip_vs"));
    let network = Network::around_this_machine();
    let backends = SERVERS.map(|address| Backend::start(&network.servers, address));
    let _purged = Purged;

    // First installation: ready to start, and not started with nothing to do.
    let said = installed(&old);
    assert!(said.contains("no virtual server yet"), "{said}");
    assert_eq!(property("ActiveState"), "inactive");
    assert_eq!(property("UnitFileState"), "enabled");
    assert_eq!((owner(FILE), owner("/etc/lvsd/conf.d")), ("root:lvsd 640".into(), "root:root 755".into()));
    output(Command::new("lvsd").arg("check"));
    // What is shipped starts as it is, too.
    must("start lvsd");
    assert_eq!(network.director.table(), Vec::<String>::new());

    let told = "/var/lib/lvsd/told";
    let omega = format!(
        "omega = true\nquorum_down = [\"/bin/sh\", \"-c\", \"echo down >>{told}\"]\nscheduler = \"wrr\""
    );
    let config = CONFIG.replace("scheduler = \"wrr\"", &omega);
    fs::write(FILE, &config).expect("root may");
    must("reload lvsd");
    assert_eq!(network.director.table(), TABLE);

    // Upgrade: another process, no client without an answer, nobody told that services end.
    let before = property("MainPID");
    let traffic = Traffic::start(&network.client, VIRTUAL);
    installed(&new);
    let report = traffic.stop();
    assert!(report.failures.is_empty() && report.answered > 0, "{report:?}");
    assert_ne!(property("MainPID"), before);
    assert_eq!(property("ActiveState"), "active");
    assert_eq!(network.director.table(), TABLE);
    assert!(!fs::exists(told).unwrap_or(true), "the quorum is down, it says");
    assert!(journal(&[]).contains("the next stop leaves the table as it is"), "{}", journal(&[]));

    // A version that finds mistakes in the configuration leaves the old process alone.
    let before = property("MainPID");
    fs::write(FILE, config.replace("weight = 3", "wait = 3")).expect("root may");
    let said = installed(&old);
    assert!(said.contains("NOT restarted") && said.contains("unknown key"), "{said}");
    assert_eq!((property("MainPID"), property("ActiveState")), (before, "active".to_owned()));
    assert_eq!(network.director.table(), TABLE);

    // Removal withdraws, whatever on_stop says; the configuration stays.
    fs::write(FILE, config.replace("[daemon]", "[daemon]\non_stop = \"keep\"")).expect("root may");
    must("reload lvsd");
    must_dpkg(&["--remove", "lvsd"]);
    assert_eq!(network.director.table(), Vec::<String>::new());
    until("the service is gone", || property("ActiveState") == "inactive");
    assert!(fs::exists(FILE).unwrap_or(false) && !fs::exists("/usr/bin/lvsd").unwrap_or(true));

    // Installed again over its configuration, it starts by itself; a purge leaves nothing.
    installed(&new);
    until("the service runs", || property("ActiveState") == "active");
    assert_eq!(network.director.table(), TABLE);
    must_dpkg(&["--purge", "lvsd"]);
    for path in ["/etc/lvsd", "/var/lib/lvsd", "/usr/lib/lvsd"] {
        assert!(!fs::exists(path).unwrap_or(true), "{path} is left");
    }
    drop(backends);
}
