//! What the package scripts decide, with other programs in the place of those that they ask. What they come to on a
//! machine is for `tests/systemd/package` to see.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// What a first installation says and starts, if these programs answer so: name and shell text.
fn first_start(programs: &[(&str, String)]) -> (String, bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let started = folder.path().join("started");
    let usual = [
        ("lvsd", "echo lvsd.toml: 1 virtual server, 2 real servers".to_owned()),
        ("systemctl", format!("case $1 in start) echo \"$*\" >>{} ;; esac", started.display())),
    ];
    for (name, text) in usual.iter().chain(programs) {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("the folder is ours");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    let scriptlet = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/scriptlet");
    let scriptlet = fs::read_to_string(scriptlet).expect("it is part of the tree");
    let (_, rest) = scriptlet.split_once("first_start() {\n").expect("the function");
    let (body, _) = rest.split_once("\n}\n").expect("its end");
    let script = format!("set -u\nconfig=lvsd.toml\nfirst_start() {{\n{body}\n}}\nfirst_start\n");
    let output = Command::new("/bin/sh").args(["-c", &script]).env("PATH", folder.path()).output();
    let output = output.expect("a shell");
    assert!(output.status.success(), "{output:?}");
    let asked = fs::read_to_string(started).unwrap_or_default();
    assert!(asked.is_empty() || asked == "start --no-block lvsd.service\n", "{asked}");
    let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
    (said, !asked.is_empty())
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
    let nothing = ("lvsd", "echo lvsd.toml: 0 virtual servers, 0 real servers".to_owned());
    let wrong = ("lvsd", "exit 78".to_owned());
    let disabled = ("systemctl", "case $1 in is-enabled) exit 1 ;; esac".to_owned());
    let policy = ("policy-rc.d", "exit 0".to_owned());
    for (case, why) in
        [(nothing, "no virtual server yet"), (wrong, "has mistakes"), (disabled, "not enabled")]
    {
        let (said, started) = first_start(&[case, policy.clone()]);
        assert!(!started && said.contains(why), "{said}");
    }
}
