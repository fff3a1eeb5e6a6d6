//! Who is told what: scripts and the FIFO of a daemon.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::net::TcpListener;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::libc::O_NONBLOCK;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{Backend, Place, exists, web, within};

/// Reads the FIFO line by line, when it is asked to.
pub(crate) struct Reader {
    file: File,
    pub(crate) text: String,
}

impl Reader {
    pub(crate) fn new(fifo: &Path) -> Self {
        let mut open = OpenOptions::new();
        open.read(true).custom_flags(O_NONBLOCK);
        Self { file: within("the FIFO", || open.open(fifo).ok()), text: String::new() }
    }

    /// What there is; false at the end.
    pub(crate) fn take(&mut self) -> bool {
        let mut buffer = [0; 4096];
        match self.file.read(&mut buffer) {
            Ok(length) => {
                self.text += std::str::from_utf8(&buffer[..length]).expect("whole characters");
                length > 0
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                true
            }
        }
    }

    fn line(&mut self) -> String {
        within("a line", || {
            self.take();
            let (line, rest) = self.text.split_once('\n')?;
            let line = line.to_owned();
            self.text = rest.to_owned();
            Some(line)
        })
    }

    fn lines(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.line()).collect()
    }
}

/// `[daemon.notify]` and then the rest.
fn config(notify: &str, rest: &str) -> String {
    format!("name = \"lvs1\"\n[daemon.notify]\n{notify}\n{rest}")
}

/// A script as a value: told what its environment and its arguments tell.
fn shell(code: &str) -> String {
    format!("[\"/bin/sh\", \"-c\", {code:?}, \"sh\"]")
}

fn read(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn rs(backend: &Backend, state: &str) -> String {
    format!("RS [127.0.0.1]:tcp:{} [192.0.2.10]:tcp:80 {state}", backend.address.port())
}

const VS_UP: &str = "VS [192.0.2.10]:tcp:80 UP";
const VS_DOWN: &str = "VS [192.0.2.10]:tcp:80 DOWN";

#[test]
fn two_readers_one_after_the_other_are_told_first_how_everything_stands() {
    let (first, mut second) = (Backend::new(), Backend::new());
    let place = Place::new(&config("fifo = \"events\"", &web(&[(&first, 3), (&second, 1)])));
    let daemon = place.start();
    let mut reader = Reader::new(&place.path("events"));
    assert_eq!(reader.lines(3), [rs(&first, "UP"), rs(&second, "UP"), VS_UP.to_owned()]);
    second.die();
    assert_eq!(reader.line(), rs(&second, "DOWN"));
    drop(reader);
    let mut reader = Reader::new(&place.path("events"));
    assert_eq!(reader.lines(3), [rs(&first, "UP"), rs(&second, "DOWN"), VS_UP.to_owned()]);
    second.revive();
    assert_eq!(reader.line(), rs(&second, "UP"));
    daemon.signal(Signal::SIGTERM);
    assert_eq!(reader.line(), "DAEMON lvs1 DOWN");
    within("the end", || (!reader.take()).then_some(()));
    assert_eq!(reader.text, "");
    assert_eq!(daemon.wait().code(), Some(0));
    assert!(!exists(&place.path("events")), "made by the daemon");
}

#[test]
fn quorum_omega_and_reload_reach_the_fifo() {
    let (first, mut second) = (Backend::new(), Backend::new());
    let omega = |text: String| text.replace("name = \"web\"\n", "name = \"web\"\nomega = true\nquorum = 4\n");
    let both = omega(web(&[(&first, 3), (&second, 1)]));
    let place = Place::new(&config("fifo = \"events\"", &both));
    let daemon = place.start();
    let mut reader = Reader::new(&place.path("events"));
    assert_eq!(reader.lines(3), [rs(&first, "UP"), rs(&second, "UP"), VS_UP.to_owned()]);
    second.die();
    assert_eq!(reader.lines(2), [rs(&second, "DOWN"), VS_DOWN.to_owned()]);
    second.revive();
    assert_eq!(reader.lines(2), [rs(&second, "UP"), VS_UP.to_owned()]);
    place.configure(&config("fifo = \"events\"", &omega(web(&[(&second, 4)]))));
    assert_eq!(place.ask("reload").code, Some(0));
    assert_eq!(reader.line(), rs(&first, "DOWN"), "it is no longer there");
    place.configure(&config("fifo = \"events\"", &both));
    assert_eq!(place.ask("reload").code, Some(0));
    assert_eq!(reader.line(), rs(&first, "UP"));
    daemon.signal(Signal::SIGTERM);
    let last = [rs(&first, "DOWN"), rs(&second, "DOWN"), VS_DOWN.to_owned(), "DAEMON lvs1 DOWN".to_owned()];
    assert_eq!(reader.lines(4), last);
    assert_eq!(daemon.wait().code(), Some(0));
}

/// Of 3,000 lines at a time, a pipe and the backlog hold but some.
#[test]
fn a_reader_that_stops_holds_up_nothing_and_is_right_in_the_end() {
    let many: String = (0..3000)
        .map(|n| {
            format!("[[virtual_server.real_server]]\naddress = \"198.51.{}.{}:80\"\n", n / 250, n % 250 + 1)
        })
        .collect();
    let pool = "[[virtual_server]]\nname = \"web\"\naddress = \"192.0.2.10:80\"\ncheck = []\n";
    let full = config("fifo = \"events\"", &(pool.to_owned() + &many));
    let empty = config("fifo = \"events\"", pool);
    let place = Place::new(&full);
    let daemon = place.start();
    let mut reader = Reader::new(&place.path("events"));
    reader.lines(3001);
    for config in [&empty, &full, &empty, &full, &empty, &full, &empty, &full, &empty] {
        place.configure(config);
        assert_eq!(place.ask("reload").code, Some(0));
    }
    place.logged("does not keep up: its oldest lines give way");
    assert_eq!(place.log().matches("its oldest lines give way").count(), 1);
    within("the last word on each is that it is gone", || {
        (0..1000).for_each(|_| assert!(reader.take()));
        let (whole, _rest) = reader.text.rsplit_once('\n')?;
        let said: BTreeMap<_, _> =
            whole.lines().map(|line| line.rsplit_once(' ').expect("an object and its state")).collect();
        (said.len() == 3001 && said.values().all(|state| *state == "DOWN")).then_some(())
    });
    place.logged("has caught up");
    daemon.signal(Signal::SIGTERM);
    within("the last line", || {
        reader.take();
        reader.text.ends_with("DAEMON lvs1 DOWN\n").then_some(())
    });
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn start_stop_and_every_event_run_their_scripts() {
    let mut backend = Backend::new();
    let folder = tempfile::tempdir().expect("a folder");
    let (own, every) = (folder.path().join("own"), folder.path().join("every"));
    let told = format!("echo $LVSD_EVENT $LVSD_STATE $LVSD_NAME >>{}", own.display());
    let words = format!("echo $LVSD_SEQUENCE \"$@\" >>{}", every.display());
    let notify = format!("start = {0}\nstop = {0}\nscript = {1}", shell(&told), shell(&words));
    let place = Place::new(&config(&notify, &web(&[(&backend, 1)])));
    let daemon = place.start();
    within("the start", || (read(&every).len() == 1).then_some(()));
    backend.die();
    within("both are down", || (read(&every).len() == 3).then_some(()));
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait().code(), Some(0));
    assert_eq!(read(&own), ["started UP lvs1", "stopping DOWN lvs1"]);
    let mut told = read(&every);
    told.sort();
    let wanted = [
        "1 DAEMON lvs1 UP".to_owned(),
        format!("2 {}", rs(&backend, "DOWN")),
        format!("3 {VS_DOWN}"),
        "4 DAEMON lvs1 DOWN".to_owned(),
    ];
    assert_eq!(told, wanted);
}

/// It is tried beside the daemon that does the real work and tells of it.
#[test]
fn a_dry_run_tells_nobody_unless_asked() {
    let mut backend = Backend::new();
    let folder = tempfile::tempdir().expect("a folder");
    let (told, fifo) = (folder.path().join("told"), folder.path().join("fifo"));
    let hook = TcpListener::bind("127.0.0.1:0").expect("a port");
    hook.set_nonblocking(true).expect("a listener that does not wait");
    let script = shell(&format!("echo $LVSD_EVENT >>{}", told.display()));
    let notify = format!(
        "fifo = {fifo:?}\nstart = {script}\nstop = {script}\nscript = {script}\n\
         [[daemon.notify.webhook]]\nurl = \"http://{}/\"\n",
        hook.local_addr().expect("an address")
    );
    let pool = web(&[(&backend, 1)]) + &format!("notify_down = {script}\n");
    let place = Place::new(&config(&notify, &pool));
    let daemon = place.start_with("run --dry-run -c lvsd.toml");
    backend.die();
    place.wait_for_servers("alive", &[json!(false)]);
    // A reload is no way round it.
    assert_eq!(place.ask("reload").code, Some(0));
    assert!(!fifo.exists());
    daemon.signal(Signal::SIGTERM);
    // The end delivers what is under way.
    assert_eq!(daemon.wait().code(), Some(0));
    assert_eq!(read(&told), Vec::<String>::new());
    assert_eq!(hook.accept().map_err(|error| error.kind()).err(), Some(ErrorKind::WouldBlock));
}

/// Each script takes longer than the server stays as it is.
#[test]
fn a_flapping_server_with_slow_scripts_is_told_in_order_one_at_a_time() {
    let (steady, mut flapping) = (Backend::new(), Backend::new());
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let code = format!(
        "cd {} || exit; mkdir running.$3 || echo overlap >>wrong; [ $(ls -d running.* | wc -l) -le 3 ] || echo many >>wrong; \
         sleep 0.4; echo $LVSD_SEQUENCE $LVSD_STATE >>log.$1; rmdir running.$3",
        folder.path().display()
    );
    let notify = format!("script = {}", shell(&code));
    let rest = web(&[(&steady, 1), (&flapping, 1)])
        .replace("delay_loop = \"200ms\"", "delay_loop = \"50ms\"")
        .replace("name = \"web\"\n", "name = \"web\"\nquorum = 2\n");
    let place = Place::new(&config(&notify, &rest));
    let daemon = place.start();
    for _ in 0..6 {
        flapping.die();
        place.wait_for_servers("alive", &[json!(true), json!(false)]);
        flapping.revive();
        place.wait_for_servers("alive", &[json!(true), json!(true)]);
    }
    let states = |name: &str| -> (Vec<u64>, Vec<String>) {
        let lines = read(&path(name));
        lines
            .iter()
            .filter_map(|line| line.split_once(' '))
            .map(|(sequence, state)| (sequence.parse::<u64>().expect("a number"), state.to_owned()))
            .unzip()
    };
    within("all are told", || {
        (states("log.RS").0.len() >= 12 && states("log.VS").0.len() >= 12).then_some(())
    });
    for name in ["log.RS", "log.VS"] {
        let (sequences, states) = states(name);
        assert!(sequences.is_sorted_by(|before, after| before < after), "{name}: {sequences:?}");
        assert_eq!(states, ["DOWN", "UP"].repeat(6), "{name}");
    }
    assert_eq!(read(&path("wrong")), Vec::<String>::new());
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn a_slow_script_does_not_keep_the_daemon_from_ending_nor_the_stop_from_being_told() {
    let mut backend = Backend::new();
    let folder = tempfile::tempdir().expect("a folder");
    let (leader, stopped) = (folder.path().join("leader"), folder.path().join("stopped"));
    let slow = format!(
        "case $LVSD_EVENT in real_server_down) echo $$ >{}; trap '' TERM; while :; do sleep 1; done;; esac",
        leader.display()
    );
    let stop = format!("touch {}", stopped.display());
    let notify = format!("script = {}\nstop = {}", shell(&slow), shell(&stop));
    let place = Place::new(&config(&notify, &web(&[(&backend, 1)])));
    let daemon = place.start();
    backend.die();
    let pid = within("it runs", || read(&leader).first().cloned());
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait().code(), Some(0));
    assert!(exists(&stopped));
    let stat = format!("/proc/{pid}/environ");
    within("it is gone", || fs::read(&stat).map_or(true, |environ| environ.is_empty()).then_some(()));
}

/// Root becomes the user; anybody else runs nothing and says so.
#[test]
fn scripts_run_as_script_user_or_not_at_all() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("ours");
    let path = folder.path().join("who");
    let who = format!("id -un >{}; grep CapEff /proc/self/status >>{}", path.display(), path.display());
    let backend = Backend::new();
    let root = nix::unistd::geteuid().is_root();
    let user = if root { "nobody" } else { "root" };
    let notify = format!("script_user = {user:?}\nstart = {}", shell(&who));
    let place = Place::new(&config(&notify, &web(&[(&backend, 1)])));
    let _daemon = place.start();
    if root {
        let told = within("it is told", || Some(read(&path)).filter(|lines| lines.len() == 2));
        assert_eq!(told, ["nobody", "CapEff:\t0000000000000000"]);
    } else {
        let line = place.logged("notification script not started: running as");
        assert_eq!(line["level"], "ERROR", "{line}");
        assert!(!exists(&path));
    }
}

#[test]
fn a_reload_takes_over_who_is_told() {
    let backend = Backend::new();
    let servers = web(&[(&backend, 1)]);
    let place = Place::new(&config("fifo = \"events\"", &servers));
    let daemon = place.start();
    let mut reader = Reader::new(&place.path("events"));
    assert_eq!(reader.lines(2), [rs(&backend, "UP"), VS_UP.to_owned()]);
    let stopped = place.path("stopped");
    let notify = format!("fifo = \"other\"\nstop = {}", shell(&format!("touch {}", stopped.display())));
    place.configure(&config(&notify, &servers));
    assert_eq!(place.ask("reload").code, Some(0));
    within("the end of the first", || (!reader.take()).then_some(()));
    let mut reader = Reader::new(&place.path("other"));
    assert_eq!(reader.lines(2), [rs(&backend, "UP"), VS_UP.to_owned()]);
    within("the first is gone", || (!exists(&place.path("events"))).then_some(()));
    daemon.signal(Signal::SIGTERM);
    assert_eq!(reader.line(), "DAEMON lvs1 DOWN");
    assert_eq!(daemon.wait().code(), Some(0));
    assert!(exists(&stopped) && !exists(&place.path("other")));
}
