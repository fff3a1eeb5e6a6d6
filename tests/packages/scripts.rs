//! What the package scripts decide, with other programs in the place of those that they ask. What they come to on a
//! machine is for `tests/systemd/package` to see.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// One in the place of another that is asked.
fn program(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("the folder is ours");
    set_mode(&path, 0o755);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
}

fn script(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging").join(name);
    fs::read_to_string(path).expect("it is part of the tree")
}

/// All that it said.
fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat()
}

/// What a first installation says and starts, if these programs answer so: name and shell text.
fn first_start(programs: &[(&str, String)]) -> (String, bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let started = folder.path().join("started");
    let usual = [
        ("check", "echo lvsd.toml: 1 virtual server, 2 real servers".to_owned()),
        ("systemctl", format!("case $1 in start) echo \"$*\" >>{} ;; esac", started.display())),
    ];
    for (name, text) in usual.iter().chain(programs) {
        program(folder.path(), name, text);
    }
    let scriptlet = script("scriptlet");
    let (_, rest) = scriptlet.split_once("first_start() {\n").expect("the function");
    let (body, _) = rest.split_once("\n}\n").expect("its end");
    let script = format!("set -u\nconfig=lvsd.toml check=check\nfirst_start() {{\n{body}\n}}\nfirst_start\n");
    let output = Command::new("/bin/sh").args(["-c", &script]).env("PATH", folder.path()).output();
    let output = output.expect("a shell");
    assert!(output.status.success(), "{output:?}");
    let asked = fs::read_to_string(started).unwrap_or_default();
    assert!(asked.is_empty() || asked == "start --no-block lvsd.service\n", "{asked}");
    (said(&output), !asked.is_empty())
}

/// The exit statuses of /usr/share/doc/init-system-helpers/README.policy-rc.d.
#[test]
fn a_first_start_asks_the_policy_and_says_when_that_keeps_it_from_starting() {
    assert_eq!(first_start(&[]), (String::new(), true), "a machine without a policy");
    for (status, starts) in [(0, true), (104, true), (101, false), (1, false), (102, false), (106, false)] {
        let policy = format!("[ \"$*\" = \"lvsd start\" ] && exit {status}; exit 99");
        let (said, started) = first_start(&[("policy-rc.d", policy)]);
        assert_eq!(started, starts, "{status}: {said}");
        let lines = usize::from(!starts);
        assert_eq!(
            (said.lines().count(), said.matches("not started: policy-rc.d").count()),
            (lines, lines),
            "{said}"
        );
        if !starts && status != 101 {
            assert!(said.contains(&format!("exit status {status}")), "{said}");
        }
    }
}

#[test]
fn what_is_not_to_be_started_is_not_whatever_the_policy() {
    let nothing = ("check", "echo lvsd.toml: 0 virtual servers, 0 real servers".to_owned());
    let wrong = ("check", "exit 78".to_owned());
    let disabled = ("systemctl", "case $1 in is-enabled) exit 1 ;; esac".to_owned());
    let policy = ("policy-rc.d", "exit 0".to_owned());
    for (case, why) in
        [(nothing, "no virtual server yet"), (wrong, "could not start"), (disabled, "not enabled")]
    {
        let (said, started) = first_start(&[case, policy.clone()]);
        assert!(!started && said.contains(why), "{said}");
    }
}

/// A configuration that the service, as a user of its own, may read or not.
struct Service {
    folder: TempDir,
}

/// Users and groups that Debian and Fedora have both.
const USER: &str = "nobody";
const GROUP: &str = "mail";

impl Service {
    /// Everything is readable, by the group of the service.
    fn new() -> Self {
        // Not in /tmp, of which a service has its own.
        let folder = tempfile::tempdir_in("/srv").expect("tests run as root");
        set_mode(folder.path(), 0o755);
        fs::create_dir(folder.path().join("etc")).expect("ours");
        let at = |name: &str| folder.path().join("etc").join(name);
        let program = folder.path().join("lvsd");
        let lvsd = PathBuf::from(env!("CARGO_BIN_EXE_lvsd"));
        // Where the user may run it, wherever the tree is.
        if fs::hard_link(&lvsd, &program).is_err() {
            fs::copy(&lvsd, &program).expect("the folder is ours");
        }
        service_manager(folder.path());
        let made = rcgen::generate_simple_self_signed(["www.example.org".to_owned()]).expect("a certificate");
        fs::write(at("client.crt"), made.cert.pem()).expect("ours");
        fs::write(at("client.key"), made.signing_key.serialize_pem()).expect("ours");
        fs::copy(at("client.crt"), at("ca.crt")).expect("ours");
        fs::write(at("more.toml"), "").expect("ours");
        let text = "include = [\"more.toml\"]\n[[virtual_server]]\naddress = \"192.0.2.10:443\"\n\
             real_server = [{ address = \"198.51.100.11:443\" }]\n\
             check = { tcp = { tls = { ca = \"ca.crt\", certificate = \"client.crt\", key = \"client.key\" } } }\n";
        fs::write(at("lvsd.toml"), text).expect("ours");
        let service = Self { folder };
        for file in FILES {
            service.give(file, 0o640);
        }
        service
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("etc").join(name)
    }

    fn give(&self, file: &str, mode: u32) {
        let group = fs::read_to_string("/etc/group").expect("there are groups");
        let group =
            group.lines().find_map(|line| line.strip_prefix(&format!("{GROUP}:x:"))).expect("the group");
        let number = group.split(':').next().and_then(|number| number.parse().ok());
        chown(self.path(file), Some(0), number).expect("tests run as root");
        set_mode(&self.path(file), mode);
    }

    fn check(&self) -> Output {
        self.check_by(&script("check-as-service"))
    }

    /// On a host that systemd runs, or not.
    fn check_by(&self, text: &str) -> Output {
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.folder.path().display());
        let text = text.replace("/run/systemd/system", &path[..path.find(':').unwrap_or(path.len())]);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &text, "check-as-service"]).arg(self.path("lvsd.toml"));
        command.env("PATH", path).output().expect("a shell")
    }

    /// What the unit says, and the properties that systemd-run is given for it.
    fn properties(&self, unit: &str) -> Vec<String> {
        program(self.folder.path(), "systemctl", &format!("cat <<'END'\n{unit}\nEND"));
        let checked = self.check();
        assert!(checked.status.success(), "{unit}: {}", said(&checked));
        let given = fs::read_to_string(self.folder.path().join("properties")).expect("it has been asked");
        given.lines().map(str::to_owned).collect()
    }
}

/// A unit of that user and group, and a systemd-run that knows these two of its properties and nothing of a sandbox,
/// which `tests/systemd/package` has.
fn service_manager(folder: &Path) {
    let shown = format!(
        "[ \"$1\" = show ] || exit 99\n\
         printf '%s\\n' User={USER} Group={GROUP} SupplementaryGroups= DynamicUser=no"
    );
    program(folder, "systemctl", &shown);
    let properties = folder.join("properties");
    let run = format!(
        "for word; do case $word in\n\
         --property=User=*) user=${{word##*=}} ;;\n\
         --property=Group=*) group=${{word##*=}} ;;\n\
         --property=*) ;;\n\
         --quiet | --wait | --pipe | --collect) shift; continue ;;\n\
         --*) exit 1 ;;\n\
         *) break ;;\n\
         esac; echo \"${{word#--property=}}\" >>{0}.new; shift; done\n\
         mv {0}.new {0}\n\
         exec setpriv --reuid=\"${{user:-root}}\" --regid=\"${{group:-root}}\" --init-groups \"$@\"",
        properties.display(),
    );
    program(folder, "systemd-run", &run);
}

const FILES: [&str; 5] = ["lvsd.toml", "more.toml", "ca.crt", "client.crt", "client.key"];

/// Root, who runs the package scripts, can read all of them.
#[test]
fn what_the_service_may_not_read_is_found_before_it_is_stopped() {
    let service = Service::new();
    let good = service.check();
    assert!(good.status.success(), "{}", said(&good));
    assert!(said(&good).contains("1 virtual server"), "{}", said(&good));
    for file in FILES {
        service.give(file, 0o600);
        let refused = service.check();
        let told = said(&refused);
        assert_eq!(refused.status.code(), Some(78), "{file}: {told}");
        assert!(told.contains("Permission denied"), "{file}: {told}");
        let path = service.path(file);
        let path = path.display();
        let mend = format!(
            "lvsd reads it as the user \"{USER}\": let the service read it, chgrp {GROUP} {path}; chmod 640 {path}"
        );
        assert!(told.contains(&mend), "{file}: {told}");
        service.give(file, 0o640);
    }
    // The same of a folder on the way.
    let folder = service.folder.path().join("etc");
    set_mode(&folder, 0o700);
    let refused = service.check();
    set_mode(&folder, 0o755);
    let (folder, told) = (folder.display(), said(&refused));
    assert!(told.contains(&format!("chgrp {GROUP} {folder}; chmod g+x {folder}")), "{told}");
    let again = service.check();
    assert!(again.status.success(), "{}", said(&again));
}

/// Who the service is and what it sees is systemd's to say: everything goes on to systemd-run as `systemctl show` has
/// it, and what the unit does not say is left out.
#[test]
fn the_check_has_the_sandbox_and_the_rights_that_the_unit_gives() {
    let service = Service::new();
    let said = format!(
        "User={USER}\nGroup=\nSupplementaryGroups={GROUP} adm\nDynamicUser=no\nProtectHome=yes\nPrivateTmp=yes\n\
         AmbientCapabilities=cap_dac_read_search cap_net_admin\nInaccessiblePaths=\nReadOnlyPaths=/srv \"/a b\""
    );
    for file in FILES {
        service.give(file, 0o644);
    }
    let wanted: Vec<&str> =
        ["RuntimeMaxSec=60"].into_iter().chain(said.lines().filter(|line| !line.ends_with('='))).collect();
    assert_eq!(service.properties(&said), wanted);
    // Of a service that is root's, too.
    assert_eq!(service.properties("ProtectHome=yes"), ["RuntimeMaxSec=60", "ProtectHome=yes"]);
    // All that the unit of the packages has of these is asked for.
    let script = script("check-as-service");
    for name in ["User", "Group", "AmbientCapabilities", "CapabilityBoundingSet", "ProtectHome", "PrivateTmp"]
    {
        assert!(script.contains(name), "{name}");
    }
}

/// Whatever keeps the check from being made as the service, a working daemon is not refused its upgrade for it: root
/// checks, and finds the mistakes of the text.
#[test]
fn a_check_that_cannot_be_made_as_the_service_is_made_by_root() {
    let wrong = "nothing = true\n";
    // Unknown users and groups, a name space that cannot be made, no answer of systemd, a program that is not there
    // or dies; and the exit statuses of lvsd itself, which are not its own here.
    let endings = [1, 64, 78, 127, 203, 216, 217, 226, 124].map(|status| format!("exit {status}"));
    let crash = "echo ended 139".to_owned();
    for ending in endings.into_iter().chain([crash]) {
        let service = Service::new();
        program(service.folder.path(), "systemd-run", &ending);
        let checked = service.check();
        let told = said(&checked);
        assert!(checked.status.success(), "{ending}: {told}");
        assert!(
            told.contains("root checks instead") && told.contains("1 virtual server"),
            "{ending}: {told}"
        );
        fs::write(service.path("lvsd.toml"), wrong).expect("ours");
        let refused = service.check();
        assert_eq!(refused.status.code(), Some(78), "{ending}: {}", said(&refused));
    }
    // Where systemd does not run.
    let service = Service::new();
    let without = script("check-as-service").replace("/run/systemd/system", "/nonexistent");
    let checked = service.check_by(&without);
    assert!(
        checked.status.success() && said(&checked).contains("systemd does not run here"),
        "{}",
        said(&checked)
    );
}

/// A name service that does not answer: neither the service's check nor root's comes to an end.
#[test]
fn a_check_that_hangs_is_given_up_and_refuses_nothing() {
    let service = Service::new();
    let hang = "exec tail -f /dev/null";
    program(service.folder.path(), "systemd-run", hang);
    fs::remove_file(service.folder.path().join("lvsd")).expect("ours");
    program(service.folder.path(), "lvsd", hang);
    let hasty = script("check-as-service").replace("limit=60", "limit=1").replace("+ 5", "+ 0");
    let checked = service.check_by(&hasty);
    let told = said(&checked);
    assert!(checked.status.success(), "{told}");
    assert!(told.contains("root checks instead") && told.contains("has not ended within 1 s"), "{told}");
}

/// Runs it with a service in this state, a check that ends so, and a restart that ends so; what it said, its
/// exit status and what it asked of the service.
fn restart(state: &str, check: i32, restart: i32) -> (String, i32, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let asked = folder.path().join("asked");
    // After a restart that failed, it has failed or is tried again.
    let systemctl = format!(
        "case $1 in is-active) if [ -e {0} ]; then echo {after}; else echo {state}; fi ;;\n\
         *restart*) echo \"$*\" >>{0}; exit {restart} ;; kill) echo \"$*\" >>{0} ;; esac\n\
         case $2 in restart) echo \"$*\" >>{0}; exit {restart} ;; esac",
        asked.display(),
        after = if state == "activating" { "activating" } else { "failed" },
    );
    program(folder.path(), "systemctl", &systemctl);
    program(folder.path(), "check", &format!("echo the check has spoken; exit {check}"));
    program(folder.path(), "lvsd", "exit 0");
    program(folder.path(), "journalctl", "echo the reason of the failure");
    let text = script("restart-in-place").replace("/usr/lib/lvsd/check-as-service", "check");
    // Debian's own is asked on Debian.
    let text = text.replace("/usr/bin/deb-systemd-invoke", "/nonexistent");
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let ended = Command::new("/bin/sh").args(["-c", &text]).env("PATH", path).output().expect("a shell");
    let asked = fs::read_to_string(asked).unwrap_or_default();
    (said(&ended), ended.status.code().expect("an end"), asked)
}

#[test]
fn nothing_is_stopped_unless_a_start_would_read_its_configuration() {
    assert_eq!(
        restart("active", 0, 0),
        ("the check has spoken\n".to_owned(), 0, "restart lvsd.service\n".to_owned())
    );
    for state in ["active", "reloading", "activating"] {
        let (said, code, asked) = restart(state, 78, 0);
        assert_eq!((code, asked.as_str()), (1, ""), "{said}");
        assert!(said.contains("the check has spoken") && said.contains("NOT restarted"), "{said}");
        // Where systemd waits for its next try, there is none.
        let runs = state != "activating";
        assert_eq!(said.contains("old process runs"), runs, "{state}: {said}");
        assert_eq!(said.contains("NOBODY checks the real servers"), !runs, "{state}: {said}");
    }
    assert_eq!(restart("inactive", 78, 0), (String::new(), 0, String::new()));
}

/// The worst that can come of an upgrade is said in plain words, with its reason.
#[test]
fn when_nobody_watches_the_table_that_is_said_with_the_reason() {
    for (state, restarts) in [("failed", false), ("active", true), ("activating", true)] {
        let (said, code, asked) = restart(state, 0, 1);
        assert_eq!((code, !asked.is_empty()), (1, restarts), "{said}");
        assert!(said.contains("NOBODY checks the real servers"), "{state}: {said}");
        assert!(said.contains("lvsd:   the reason of the failure"), "{state}: {said}");
        let goes_on = state == "activating";
        assert_eq!(said.contains("systemd goes on trying"), goes_on, "{state}: {said}");
        assert_eq!(said.contains("systemctl start lvsd"), !goes_on, "{state}: {said}");
    }
}
