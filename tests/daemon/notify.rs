//! Notifications of a daemon that is root and writes a real table.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::WEB;
use super::process::{Director, wait_for_table};
use crate::lab::backend::Backend;
use crate::lab::net::Network;

/// The script is somebody else, with nothing of the daemon's capabilities; the FIFO's reader is told what the
/// table then shows; the stop is told before the daemon has gone.
#[test]
fn scripts_run_as_their_user_and_the_fifo_tells_what_the_table_shows() {
    let network = Network::new();
    let first = Backend::start(&network.servers, "198.51.100.11:80");
    let second = Backend::start(&network.servers, "198.51.100.12:80");
    let folder = TempDir::new().expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("ours");
    let (told, fifo) = (folder.path().join("told"), folder.path().join("events"));
    let code =
        format!("echo \"$(id -un) $(grep CapEff /proc/self/status) $1 $2 $3 $4\" >>{}", told.display());
    let notify = format!(
        "name = \"lvs1\"\n[daemon.notify]\nscript_user = \"nobody\"\nfifo = {fifo:?}\n\
         script = [\"/bin/sh\", \"-c\", {code:?}, \"sh\"]\n{WEB}"
    );
    let director = Director::new(&network.director, &notify);
    let daemon = director.start();
    assert!(fifo.exists(), "who starts after the daemon finds it");
    let reader = {
        let fifo = fifo.clone();
        std::thread::spawn(move || fs::read_to_string(fifo))
    };
    drop(first);
    wait_for_table(&network.director, &[super::WEB_SERVICE, super::WEB_SECOND]);
    assert!(daemon.stop().success());
    drop(second);
    let lines = reader.join().expect("no panic").expect("read");
    let lines: Vec<&str> = lines.lines().collect();
    let down = "RS [198.51.100.11]:tcp:80 [192.0.2.10]:tcp:80 DOWN";
    assert!(lines.contains(&"RS [198.51.100.12]:tcp:80 [192.0.2.10]:tcp:80 UP"), "{lines:?}");
    assert!(lines.contains(&down), "{lines:?}");
    assert_eq!(lines.last(), Some(&"DAEMON lvs1 DOWN"));
    assert!(!fifo.exists());
    let told = fs::read_to_string(told).expect("told");
    assert!(told.lines().all(|line| line.starts_with("nobody CapEff:\t0000000000000000 ")), "{told}");
    let mut words: Vec<&str> =
        told.lines().filter_map(|line| line.split_once("0000 ")).map(|(_, words)| words.trim_end()).collect();
    let mut wanted = ["DAEMON lvs1 UP", down, "DAEMON lvs1 DOWN"];
    words.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(words, wanted);
}
