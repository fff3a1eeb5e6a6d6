//! Notification scripts with real programs, through the real helper. Nothing waits for a time, all wait for a
//! condition with a bound.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lvsd::engine::model::{Argv, Protocol, RealServerId, Scheduler, VirtualServer};
use lvsd::engine::table::ServiceId;
use lvsd::notify::{Counters, Dispatcher, Event, EventKind, Finished, Limits, Notification};
use tokio::runtime::Handle;
use tokio::time::sleep;

const LONG: Duration = Duration::from_secs(60);
const HELPER: &str = env!("CARGO_BIN_EXE_lvsd");

struct Scene {
    directory: tempfile::TempDir,
    dispatcher: Dispatcher,
    user: Option<String>,
    limit: Duration,
    sequence: Cell<u64>,
}

impl Scene {
    fn new(limits: Limits) -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            dispatcher: Dispatcher::new(Handle::current(), HELPER.into(), limits),
            user: None,
            limit: LONG,
            sequence: Cell::new(0),
        }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    /// `sh -c code sh argument`, in the scene's directory.
    fn shell(&self, object: &str, code: &str, argument: &str) {
        let code = format!("cd {} || exit 99\n{code}", self.directory.path().display());
        self.program(object, "/bin/sh", &["-c", &code, "sh", argument]);
    }

    fn program(&self, object: &str, program: &str, arguments: &[&str]) {
        self.sequence.update(|sequence| sequence + 1);
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        self.dispatcher.dispatch(Notification {
            argv: Argv { program: program.into(), arguments },
            user: self.user.clone(),
            limit: self.limit,
            event: Arc::new(event(object, self.sequence.get())),
        });
    }

    fn lines(&self, name: &str) -> Vec<String> {
        fs::read_to_string(self.path(name)).unwrap_or_default().lines().map(ToOwned::to_owned).collect()
    }

    async fn finish(&self) -> Finished {
        self.dispatcher.finish(LONG).await
    }
}

fn pool(name: &str) -> Arc<VirtualServer> {
    let address = "192.0.2.10".parse().unwrap();
    Arc::new(VirtualServer {
        name: name.to_owned(),
        services: vec![ServiceId::Address { protocol: Protocol::Tcp, address, port: 80 }],
        scheduler: Scheduler::new("wlc").unwrap(),
        scheduler_flags: vec![],
        one_packet: false,
        persistence: None,
        quorum: 1,
        hysteresis: 0,
        min_alive: lvsd::engine::model::Portion::Count(0),
        omega: false,
        sorry_server: None,
        quorum_up: None,
        quorum_down: None,
        active_when: None,
        announce: None,
        real_servers: vec![],
    })
}

fn event(object: &str, sequence: u64) -> Event {
    Event {
        sequence,
        at: SystemTime::UNIX_EPOCH,
        kind: EventKind::RealServerDown,
        daemon: "lvs1".to_owned(),
        virtual_server: Some(pool(object)),
        real_server: Some(RealServerId { address: "198.51.100.11".parse().unwrap(), port: Some(80) }),
        reason: Some("status: 503\0, wanted 200-299".to_owned()),
        quorum: None,
    }
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("never happened: {what}");
}

/// One of our scripts or its children: numbers are used again. A zombie has no environment left.
fn is_alive(pid: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
        environment.split(|b| *b == 0).any(|entry| entry.starts_with(b"LVSD_SEQUENCE="))
    })
}

#[tokio::test]
async fn one_object_is_told_in_order_and_never_twice_at_once() {
    let scene = Scene::new(Limits::default());
    let code = "mkdir running || echo overlap >>log\nsleep 0.0$((9 - $1 % 10))\necho $1 >>log\nrmdir running";
    let numbers: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    for number in &numbers {
        scene.shell("web/198.51.100.11:80", code, number);
    }
    assert_eq!(scene.finish().await, Finished { abandoned: 0 });
    assert_eq!(scene.lines("log"), numbers);
    assert_eq!(scene.dispatcher.counters(), Counters { succeeded: 20, ..Counters::default() });
}

#[tokio::test]
async fn objects_do_not_wait_for_each_other() {
    let scene = Scene::new(Limits::default());
    // Each can end only while the other runs.
    let code = "touch here.$1\nn=0\nuntil [ -e here.$((1 - $1)) ]; do n=$((n + 1)); [ $n -lt 500 ] || exit 1; sleep 0.01; done";
    scene.shell("a", code, "0");
    scene.shell("b", code, "1");
    scene.finish().await;
    assert_eq!(scene.dispatcher.counters().succeeded, 2);
}

#[tokio::test]
async fn hundreds_at_once_run_a_few_at_a_time() {
    let scene = Scene::new(Limits { processes: 4, ..Limits::default() });
    let code = "me=run.$1\nmkdir $me\nset -- run.*\n[ $# -le 4 ] || echo $# >>toomany\nrmdir $me";
    for n in 0..200 {
        scene.shell(&n.to_string(), code, &n.to_string());
    }
    scene.finish().await;
    assert_eq!(scene.lines("toomany"), Vec::<String>::new());
    assert_eq!(scene.dispatcher.counters().succeeded, 200);
}

#[tokio::test]
async fn the_oldest_gives_way_and_the_last_is_told() {
    let scene = Scene::new(Limits { pending: 3, ..Limits::default() });
    for n in 0..10 {
        scene.shell("a", "echo $1 $LVSD_SEQUENCE >>log", &n.to_string());
    }
    scene.finish().await;
    assert_eq!(scene.lines("log"), ["7 8", "8 9", "9 10"]);
    assert_eq!(scene.dispatcher.counters(), Counters { succeeded: 3, dropped: 7, ..Counters::default() });
}

#[tokio::test]
async fn a_script_gets_this_environment_and_nothing_else() {
    let scene = Scene::new(Limits::default());
    scene.shell("a", "env >env; pwd -P >/dev/null; readlink /proc/self/fd/0 >stdin", "");
    scene.finish().await;
    let mut environment = scene.lines("env");
    environment.retain(|line| !["PWD=", "OLDPWD=", "SHLVL=", "_="].iter().any(|own| line.starts_with(own)));
    environment.sort();
    assert_eq!(
        environment,
        [
            "LVSD_EVENT=real_server_down",
            "LVSD_NAME=lvs1",
            "LVSD_REAL_SERVER=198.51.100.11:80",
            "LVSD_REASON=status: 503, wanted 200-299",
            "LVSD_SEQUENCE=1",
            "LVSD_STATE=DOWN",
            "LVSD_VIRTUAL_SERVER=a",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        ]
    );
    assert_eq!(scene.lines("stdin"), ["/dev/null"]);
}

#[tokio::test]
async fn failures_are_told_apart() {
    let scene = Scene::new(Limits::default());
    scene.shell("a", "exit 3", "");
    scene.shell("a", "kill -9 $$", "");
    scene.program("a", "/nonexistent/script", &[]);
    scene.program("a", &scene.path(""), &[]);
    scene.program("a", "relative", &[]);
    scene.program("a", "/bin/sh", &["-c", "nul\0in an argument"]);
    scene.program("a", "/bin/true", &[]);
    scene.finish().await;
    let counters = scene.dispatcher.counters();
    assert_eq!(counters, Counters { succeeded: 1, failed: 2, not_started: 4, ..Counters::default() });
}

#[tokio::test]
async fn the_time_limit_ends_a_script_that_listens() {
    let scene = Scene { limit: Duration::from_millis(500), ..Scene::new(Limits::default()) };
    scene.shell("a", "trap 'echo bye >>log; exit 0' TERM\nwhile :; do sleep 0.01; done", "");
    scene.shell("a", "echo next >>log", "");
    scene.finish().await;
    assert_eq!(scene.lines("log"), ["bye", "next"]);
    // That it said goodbye with status 0 does not make it a success.
    assert_eq!(scene.dispatcher.counters(), Counters { succeeded: 1, timed_out: 1, ..Counters::default() });
}

#[tokio::test]
async fn the_time_limit_kills_the_whole_group_of_one_that_does_not() {
    let scene = Scene { limit: Duration::from_millis(500), ..Scene::new(Limits::default()) };
    scene.shell(
        "a",
        "trap '' TERM\n(while :; do sleep 1; done) &\necho $! >child\necho $$ >leader\nwait",
        "",
    );
    scene.finish().await;
    assert_eq!(scene.dispatcher.counters().timed_out, 1);
    for file in ["child", "leader"] {
        let pid = scene.lines(file).remove(0);
        until(file, || !is_alive(&pid)).await;
    }
}

#[tokio::test]
async fn a_background_process_outlives_its_script_and_may_talk() {
    let scene = Scene::new(Limits::default());
    scene.shell(
        "a",
        "(until [ -e go ]; do sleep 0.01; done; echo a word; echo another; touch done; sleep 60) &\necho $! >child",
        "",
    );
    scene.finish().await;
    assert_eq!(scene.dispatcher.counters().succeeded, 1);
    fs::write(scene.path("go"), "").unwrap();
    until("the background process wrote to its script's output", || Path::new(&scene.path("done")).exists())
        .await;
    let pid: i32 = scene.lines("child").remove(0).parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn output_beyond_the_limit_blocks_nothing() {
    let scene = Scene::new(Limits::default());
    scene.shell("a", "n=0; while [ $n -lt 3000 ]; do echo $n 0123456789012345678901234567890123456789; n=$((n + 1)); done; echo end >log", "");
    scene.finish().await;
    assert_eq!(scene.lines("log"), ["end"]);
    assert_eq!(scene.dispatcher.counters().succeeded, 1);
}

#[tokio::test]
async fn a_switched_link_is_followed_at_the_next_run() {
    let scene = Scene::new(Limits::default());
    let link = scene.path("current");
    std::os::unix::fs::symlink("/bin/true", &link).unwrap();
    scene.program("a", &link, &[]);
    until("the first run", || scene.dispatcher.counters().succeeded == 1).await;
    std::os::unix::fs::symlink("/bin/false", scene.path("new")).unwrap();
    fs::rename(scene.path("new"), &link).unwrap();
    scene.program("a", &link, &[]);
    scene.finish().await;
    assert_eq!(scene.dispatcher.counters(), Counters { succeeded: 1, failed: 1, ..Counters::default() });
}

#[tokio::test]
async fn finishing_is_bounded_and_leaves_nothing_behind() {
    let scene = Scene::new(Limits::default());
    scene.shell("a", "echo $$ >leader; sleep 60", "");
    scene.shell("a", "echo never >>log", "");
    until("it runs", || !scene.lines("leader").is_empty()).await;
    assert_eq!(scene.dispatcher.finish(Duration::from_millis(50)).await, Finished { abandoned: 2 });
    let pid = scene.lines("leader").remove(0);
    until("it is killed", || !is_alive(&pid)).await;
    scene.shell("b", "echo too late >>log", "");
    assert_eq!(scene.finish().await, Finished { abandoned: 0 });
    assert_eq!(scene.lines("log"), Vec::<String>::new());
    assert_eq!(scene.dispatcher.counters(), Counters { dropped: 2, ..Counters::default() });
}

#[test]
fn the_end_of_the_runtime_kills_what_runs() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let scene = runtime.block_on(async {
        let scene = Scene::new(Limits::default());
        scene.shell("a", "sleep 60 & echo $! >child; echo $$ >leader; wait", "");
        until("it runs", || !scene.lines("leader").is_empty()).await;
        scene
    });
    drop(runtime);
    let pids: Vec<String> = ["child", "leader"].iter().map(|file| scene.lines(file).remove(0)).collect();
    let gone = (0..1000).any(|_| {
        std::thread::park_timeout(Duration::from_millis(10));
        !pids.iter().any(|pid| is_alive(pid))
    });
    assert!(gone);
    // Too late, but no reason to hang or break.
    scene.program("b", "/bin/true", &[]);
    assert_eq!(scene.dispatcher.counters().dropped, 1);
}

/// Root becomes anybody; another user that has no right to it runs nothing, least of all as itself.
#[tokio::test]
async fn scripts_run_as_their_user_without_our_capabilities_or_not_at_all() {
    let root = nix::unistd::geteuid().is_root();
    let user = if root { "nobody" } else { "root" };
    let scene = Scene { user: Some(user.to_owned()), ..Scene::new(Limits::default()) };
    fs::set_permissions(scene.directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    scene.shell("a", "id -un >who; grep ^Cap /proc/self/status >capabilities; echo $HOME $USER >env", "");
    scene.finish().await;
    if !root {
        assert_eq!(scene.dispatcher.counters(), Counters { not_started: 1, ..Counters::default() });
        return assert_eq!(scene.lines("who"), Vec::<String>::new());
    }
    assert_eq!(scene.lines("who"), ["nobody"]);
    assert!(scene.lines("env").concat().ends_with(" nobody"), "{:?}", scene.lines("env"));
    let held: Vec<String> = scene.lines("capabilities");
    let none = |name: &str| held.contains(&format!("{name}:\t0000000000000000"));
    assert!(["CapInh", "CapPrm", "CapEff", "CapAmb"].into_iter().all(none), "{held:?}");
    assert_eq!(scene.dispatcher.counters(), Counters { succeeded: 1, ..Counters::default() });
}

#[tokio::test]
async fn a_user_that_does_not_exist_runs_nothing() {
    let scene = Scene { user: Some("no-such-user".to_owned()), ..Scene::new(Limits::default()) };
    scene.shell("a", "echo ran >>log", "");
    scene.finish().await;
    assert_eq!(scene.dispatcher.counters(), Counters { not_started: 1, ..Counters::default() });
    assert_eq!(scene.lines("log"), Vec::<String>::new());
}
