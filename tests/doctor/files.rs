//! Of files and programs that a user may not use: whose user and group the words are about.

use std::path::Path;
use std::{collections::BTreeSet, fs};

use lvsd::doctor::{Facts, Finding, Level, examine_named};
use tempfile::TempDir;

use super::{ADMIN, USERS, configs, load, of_files, set};

/// What makes a host another than the sound one.
type Prepare<'a> = &'a dyn Fn(&Path);

fn said(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.found.as_str()).collect()
}

/// The script's check, and a second one of the same program as the user alice.
fn by_two_users() -> String {
    let one = "{ script = { argv = [\"/usr/check\"] } }";
    let two = format!("[{one}, {}]", one.replace("] }", "], user = \"alice\" }"));
    let config = configs::SCRIPT.replace(one, &two);
    assert_ne!(config, configs::SCRIPT);
    config
}

/// A user's name need not be a group's.
#[test]
fn the_group_that_is_to_read_a_file_is_the_one_that_the_service_has() {
    let status = "Uid:\t999\t999\t999\t999\nGid:\t500\t500\t500\t500\nGroups:\t500 \n";
    let unit = ["User=lvsd\nGroup=keys\n", "User=alice\n"];
    let (daemon, gone) = ("proc/77/status", |root: &Path| fs::remove_dir_all(root.join("proc/77")));
    let by_unit = |text: &'static str| {
        move |root: &Path| {
            gone(root).expect("it is there");
            fs::create_dir_all(root.join("etc/systemd/system")).expect("ours");
            let group = fs::read_to_string(root.join("etc/group")).expect("ours");
            fs::write(root.join("etc/group"), group.replace("alice:", "people:")).expect("ours");
            let text = format!("[Service]\n{text}AmbientCapabilities=CAP_NET_ADMIN\n");
            fs::write(root.join("etc/systemd/system/lvsd.service"), text).expect("ours");
        }
    };
    let by_process = |root: &Path| fs::write(root.join(daemon), status).expect("ours");
    let (of_group, of_user) = (by_unit(unit[0]), by_unit(unit[1]));
    let prepares: [(&str, Prepare<'_>); 3] =
        [("keys", &by_process), ("keys", &of_group), ("people", &of_user)];
    for (group, prepare) in prepares {
        let found = of_files(configs::NAT, ADMIN, |root| {
            prepare(root);
            set(&root.join("etc/lvsd/key"), (0, 0), 0o640);
        });
        let commands: Vec<&String> = found.iter().flat_map(|finding| &finding.remedy.commands).collect();
        let wanted = [format!("chgrp {group} /etc/lvsd/key"), "chmod 640 /etc/lvsd/key".to_owned()];
        assert_eq!(commands, wanted.iter().collect::<Vec<_>>(), "{found:#?}");
    }
}

/// Each user that may not, once; what nobody can run, once for all.
#[test]
fn a_program_of_two_users_is_found_for_the_one_that_may_not_run_it() {
    let (config, root) = (by_two_users(), "00000000000010c0");
    let of =
        |owner: (u32, u32), mode: u32| of_files(&config, root, |at| set(&at.join("usr/check"), owner, mode));
    let (alice, service) =
        ("the user \"alice\" may not run /usr/check", "the user \"lvsd\" may not run /usr/check");
    assert_eq!(said(&of((0, 0), 0o755)), Vec::<&str>::new());
    assert_eq!(said(&of((0, 999), 0o750)), [alice]);
    assert_eq!(said(&of((0, 1000), 0o750)), [service]);
    assert_eq!(said(&of((0, 0), 0o700)), [service, alice]);
    let gone = of_files(&config, root, |at| fs::remove_file(at.join("usr/check")).expect("it is there"));
    assert_eq!(said(&gone), ["there is no program /usr/check"]);
    let own = config.replace("alice", "lvsd");
    let own = of_files(&own, root, |at| set(&at.join("usr/check"), (0, 0), 0o700));
    assert_eq!(said(&own), [service], "by its name and without");
}

/// Its failures are shown, and decide nothing.
#[test]
fn a_check_that_only_observes_takes_nothing_out() {
    let observed = configs::SCRIPT.replace("] } }", "] }, mode = \"observe\" }");
    assert_ne!(observed, configs::SCRIPT);
    let closed = |root: &Path| set(&root.join("usr/check"), (0, 0), 0o700);
    for (config, takes) in [(configs::SCRIPT, true), (observed.as_str(), false)] {
        let found = of_files(config, ADMIN, closed);
        assert_eq!((found.len(), found[0].why.contains("takes its servers out")), (1, takes), "{found:#?}");
        assert_eq!(found[0].virtual_servers, ["web"]);
    }
}

/// To let the daemon become others lets its scripts, too.
#[test]
fn what_the_right_to_change_users_costs_is_said_where_it_is_recommended() {
    let config = configs::SCRIPT.replace("\"/usr/check\"]", "\"/usr/check\"], user = \"alice\"");
    let found = of_files(&config, ADMIN, |root| set(&root.join("usr/check"), (0, 0), 0o755));
    assert_eq!((found.len(), found[0].level), (1, Level::Fault), "{found:#?}");
    assert!(found[0].remedy.lasting.iter().any(|lasting| lasting.line.contains("CAP_SETUID")), "{found:#?}");
    assert!(found[0].why.contains("could become root"), "{}", found[0].why);
}

/// What `lvsd check` says of a program that is closed or missing, to root, to the service and to somebody else.
#[test]
fn who_is_not_the_service_is_not_told_what_they_may_not_run() {
    let unit = ("etc/systemd/system/lvsd.service", "[Service]\nUser=lvsd\n");
    let alices = ("etc/systemd/system/lvsd.service", "[Service]\nUser=alice\n");
    let config = load(configs::SCRIPT);
    // User and name, the unit, whether it is to be told.
    for (number, unit, told) in [
        (999, Some(unit), true),
        (999, None, true),
        (1000, Some(unit), false),
        (1000, None, false),
        (1000, Some(alices), true),
        (999, Some(alices), false),
    ] {
        let host = TempDir::new().expect("a folder");
        let status = format!("Uid:\t{number}\t{number}\t{number}\t{number}\nCapEff:\t0000000000000000\n");
        let own = [("proc/self/status", status.as_str()), ("usr/check", "#!/bin/sh\n")];
        for (path, text) in USERS.iter().copied().chain(own).chain(unit) {
            let path = host.path().join(path);
            fs::create_dir_all(path.parent().expect("below the root")).expect("ours");
            fs::write(path, text).expect("ours");
        }
        let program = host.path().join("usr/check");
        set(&program, (0, 0), 0o700);
        let found = || examine_named(&config, &Facts::read_named(host.path(), &config));
        let closed: BTreeSet<String> = found().into_iter().map(|finding| finding.found).collect();
        let name = if number == 999 { "lvsd" } else { "alice" };
        let wanted = told.then(|| format!("the user {name:?} may not run /usr/check"));
        assert_eq!(closed, wanted.into_iter().collect(), "{number} {unit:?}");
        // What is not there, nobody has.
        fs::remove_file(program).expect("it is there");
        assert_eq!(said(&found()), ["there is no program /usr/check"], "{number} {unit:?}");
    }
}
