//! The program as its users call it: what it prints where, and what it exits with.

#![cfg(test)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

fn lvsd(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lvsd")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A directory with a configuration of `rest` behind paths of its own.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new(rest: &str) -> Self {
        let place = Self { directory: tempfile::tempdir().unwrap() };
        place.write(rest);
        place
    }

    fn write(&self, rest: &str) {
        let head = "[daemon]\ncontrol_socket = \"control.sock\"\nstate_file = \"state.json\"\n";
        std::fs::write(self.config(), format!("{head}{rest}")).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.directory.path().join("lvsd.toml")
    }

    fn call(&self, arguments: &[&str]) -> Output {
        lvsd(&[&["-c", self.config().to_str().unwrap()], arguments].concat())
    }
}

/// A dry run, which takes no privileges. Killed when dropped.
struct Daemon {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Daemon {
    fn start(config: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lvsd"));
        command.args(["run", "--dry-run", "-c"]).arg(config).env_remove("NOTIFY_SOCKET");
        command.env_remove("JOURNAL_STREAM").stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut daemon = Self { child, log };
        daemon.hear("ready: ");
        daemon
    }

    /// Waits for a line of the log.
    fn hear(&mut self, wanted: &str) -> String {
        let mut heard = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.log.read_line(&mut line).unwrap(), 0, "ended without {wanted:?}:\n{heard}");
            if line.contains(wanted) {
                return line;
            }
            heard += &line;
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const WEB: &str = r#"
[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
check = []
[[virtual_server.real_server]]
address = "198.51.100.11:80"
"#;

#[test]
fn a_configuration_is_good_suspicious_or_wrong() {
    let place = Place::new(WEB);
    let file = place.config();
    let check = |more: &[&str]| lvsd(&[&["check", file.to_str().unwrap()], more].concat());
    let good = check(&["--strict"]);
    assert_eq!(good.status.code(), Some(0));
    assert_eq!(text(&good.stdout), format!("{}: 1 virtual server, 1 real server\n", file.display()));
    place.write(&format!("{WEB}[check.unused]\ntcp = {{}}\n"));
    assert_eq!(check(&[]).status.code(), Some(0));
    assert_eq!(check(&["--strict"]).status.code(), Some(78));
    place.write(&format!("{WEB}weihgt = 2\nalpha = 3\n"));
    let wrong = check(&[]);
    assert_eq!((wrong.status.code(), text(&wrong.stdout)), (Some(78), ""));
    for spot in ["11:1", "12:9"] {
        let spot = format!("{}:{spot}: error: ", file.display());
        assert!(text(&wrong.stderr).contains(&spot), "{spot} in\n{}", text(&wrong.stderr));
    }
}

#[test]
fn what_cannot_be_done_has_an_exit_code_of_its_own() {
    let place = Place::new(WEB);
    for (arguments, code) in [
        (&["no-such-command"][..], 64),
        (&["weight", "198.51.100.11:80", "-1"], 64),
        (&["drain", "not an address"], 64),
        (&["status"], 69),
        (&["--version"], 0),
        (&["--help"], 0),
    ] {
        let output = place.call(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        let (silent, speaks) =
            if code == 0 { (&output.stderr, &output.stdout) } else { (&output.stdout, &output.stderr) };
        assert!(silent.is_empty() && !speaks.is_empty(), "{arguments:?}: {output:?}");
    }
}

#[test]
fn clients_talk_to_the_daemon_of_their_configuration() {
    let place = Place::new(WEB);
    let _daemon = Daemon::start(&place.config());
    let json = place.call(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(status["virtual_servers"][0]["real_servers"][0]["address"], "198.51.100.11:80");
    assert_eq!(place.call(&["drain", "198.51.100.11:80"]).status.code(), Some(0));
    let nobody = place.call(&["drain", "198.51.100.99:80"]);
    assert_eq!((nobody.status.code(), text(&nobody.stdout)), (Some(1), ""));
    assert_eq!(text(&nobody.stderr), "there is no real server 198.51.100.99:80\n");
    let reload = place.call(&["reload"]);
    assert_eq!(
        text(&reload.stdout),
        "reload complete: 0 removed, 0 edited, 0 added, 1 real server carried over\n"
    );
    place.write(&format!("http = \"127.0.0.1:0\"\n{WEB}[check.unused]\ntcp = {{}}\n"));
    let file = place.config();
    for (arguments, end) in [
        (&["plan", file.to_str().unwrap()][..], "0 actions, 1 real server carried over\n"),
        (&["reload"], "reload complete: 0 removed, 0 edited, 0 added, 1 real server carried over\n"),
    ] {
        let output = place.call(arguments);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0));
        assert!(said.contains(": warning: the check \"unused\" is not used"), "{said}");
        assert!(said.contains("warning: daemon.http takes effect at the next restart\n"), "{said}");
        assert!(said.ends_with(end), "{said}");
    }
    place.write("");
    let nothing = place.call(&["reload"]);
    assert!(text(&nothing.stdout).contains("all that there were (1) are taken out"), "{nothing:?}");
    place.write(WEB);
    place.call(&["reload"]);
    place.write("nonsense = 1\n");
    assert_eq!(place.call(&["reload"]).status.code(), Some(78));
    assert_eq!(place.call(&["status", "web"]).status.code(), Some(0), "the good one stays in force");
    assert_eq!(place.call(&["status", "mail"]).status.code(), Some(1));
}

/// There is nothing to write, and that is soon done.
#[test]
fn a_daemon_without_services_becomes_ready() {
    let place = Place::new("");
    let mut daemon = Daemon::start(&place.config());
    let pid = nix::unistd::Pid::from_raw(i32::try_from(daemon.child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    daemon.hear("stopped");
    assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
}
