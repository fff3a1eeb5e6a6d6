//! Script checks with real programs, through the real helper.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lvsd::checks::{Preparer, Scripts, run};
use lvsd::engine::model::{
    Argv, CheckKind, Fault, Outcome, Phase, Script, Source, Target, TrackedFile, Verdict, WeightChange,
};

const PATIENT: Duration = Duration::from_secs(30);

/// A directory that only its owner can write to, with programs in it.
struct Place {
    directory: tempfile::TempDir,
    preparer: Preparer,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Other users may look, too.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let helper = PathBuf::from(env!("CARGO_BIN_EXE_lvsd"));
        Self { directory, preparer: Preparer::with_scripts(Scripts::new(helper)) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    async fn check(&self, script: Script, limit: Duration) -> Outcome {
        let prepared = self.preparer.prepare(&Arc::new(CheckKind::Script(script))).unwrap();
        run(&target(), &prepared, limit).await
    }

    /// The verdict on a program of this text.
    async fn verdict(&self, text: &str, limit: Duration) -> Verdict {
        self.check(script(self.program("program", text)), limit).await.verdict
    }
}

fn script(program: PathBuf) -> Script {
    let argv = Argv { program, arguments: vec!["an argument".to_owned(), "*".to_owned()] };
    Script { argv, user: None, dynamic_weight: false }
}

fn target() -> Target {
    Target {
        address: "198.51.100.11".parse().unwrap(),
        port: 80,
        source: Some(Arc::new(Source {
            interface: Some("eth1".to_owned()),
            fwmark: Some(7),
            ..Source::default()
        })),
    }
}

fn failure(phase: Phase, reason: &str) -> Verdict {
    Verdict::Failure(Fault { phase, reason: reason.to_owned() })
}

fn good() -> Verdict {
    Verdict::Success { detail: "exit status 0".to_owned(), weight: WeightChange::None }
}

/// Waits until the file has a number in it, and gives that.
async fn number(path: &Path) -> i32 {
    for _ in 0..400 {
        if let Some(number) = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()) {
            return number;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("nothing in {}", path.display());
}

/// Waits until there is no such process, or only its remains.
async fn gone(process: i32) {
    for _ in 0..400 {
        let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        if status.is_empty() || status.contains(") Z") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("process {process} is there");
}

#[tokio::test]
async fn the_exit_status_decides() {
    let place = Place::new();
    assert_eq!(place.verdict("exit 0", PATIENT).await, good());
    assert_eq!(place.verdict("exit 1", PATIENT).await, failure(Phase::Status, "exit status 1"));
    let said = place.verdict("echo first; echo 'no master' >&2; echo; exit 3", PATIENT).await;
    assert_eq!(said, failure(Phase::Status, "exit status 3: \"no master\""));
    let killed = place.verdict("kill -9 $$", PATIENT).await;
    assert_eq!(killed, failure(Phase::Status, "killed by signal 9"));
    let dynamic = Script { dynamic_weight: true, ..script(place.program("dynamic", "exit 17")) };
    let weight = WeightChange::Absolute(15);
    let detail = "exit status 17, weight 15".to_owned();
    assert_eq!(place.check(dynamic, PATIENT).await.verdict, Verdict::Success { detail, weight });
}

#[tokio::test]
async fn after_the_time_limit_nothing_counts_and_nothing_stays() {
    let place = Place::new();
    let late = |limit: Duration| failure(Phase::Run, &format!("timed out after {limit:?}"));
    let child = place.path("child");
    let hang = format!("sleep 1000 & echo $! > {}; wait", child.display());
    let cases = ["trap 'exit 0' TERM", "trap '' TERM", "true"];
    for before in cases {
        // A machine with much to do needs more than the least to get as far as the child.
        for limit in [1, 4, 16].map(Duration::from_secs) {
            let _absent = fs::remove_file(&child);
            assert_eq!(place.verdict(&format!("{before}\n{hang}"), limit).await, late(limit), "{before}");
            if child.exists() {
                break;
            }
        }
        gone(number(&child).await).await;
    }
}

#[tokio::test]
async fn what_a_script_leaves_in_the_background_ends_with_it() {
    let place = Place::new();
    let child = place.path("child");
    let text = format!("sleep 1000 & echo $! > {}\nexit 0", child.display());
    assert_eq!(place.verdict(&text, PATIENT).await, good());
    gone(number(&child).await).await;
}

#[tokio::test]
async fn a_run_that_nobody_waits_for_is_killed() {
    let place = Place::new();
    let child = place.path("child");
    let text = format!("echo $$ > {}; sleep 1000", child.display());
    let process = tokio::select! {
        verdict = place.verdict(&text, PATIENT) => panic!("{verdict:?}"),
        process = number(&child) => process,
    };
    gone(process).await;
}

#[tokio::test]
async fn much_output_holds_up_nothing() {
    let place = Place::new();
    let text = "yes | head -c 3000000; echo last; exit 4";
    let verdict = place.verdict(text, PATIENT).await;
    assert_eq!(verdict, failure(Phase::Status, "exit status 4: \"last\""));
}

#[tokio::test]
async fn a_script_gets_its_arguments_and_an_environment_of_its_own() {
    let place = Place::new();
    let seen = place.path("seen");
    let text = format!(
        "{{ echo \"$#|$1|$2\"; env | sort | grep -v '^_=\\|^PWD=\\|^OLDPWD=\\|^SHLVL='; pwd; readlink /proc/$$/fd/0; \
         ulimit -Sn; umask; }} > {seen}; ls /proc/$$/fd > {seen}.fds",
        seen = seen.display()
    );
    assert_eq!(place.verdict(&text, Duration::from_millis(12_500)).await, good());
    let seen = fs::read_to_string(seen).unwrap();
    let mut lines = seen.lines();
    let mut next = || lines.next().unwrap_or_default();
    assert_eq!(next(), "2|an argument|*");
    assert_eq!(next(), "LC_ALL=C");
    assert_eq!(next(), "LVSD_ADDRESS=198.51.100.11");
    assert_eq!(next(), "LVSD_BIND_IF=eth1");
    assert_eq!(next(), "LVSD_FAMILY=ipv4");
    assert_eq!(next(), "LVSD_FWMARK=7");
    assert_eq!(next(), "LVSD_PORT=80");
    assert_eq!(next(), "LVSD_TIMEOUT=12.5");
    assert_eq!(next(), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    assert_eq!(next(), "/");
    assert_eq!(next(), "/dev/null");
    assert!(next().parse::<u32>().is_ok_and(|limit| limit <= 1024), "{seen}");
    assert_eq!(next(), "0022");
    let descriptors = fs::read_to_string(place.path("seen.fds")).unwrap();
    let descriptors: Vec<&str> = descriptors.lines().collect();
    assert!(["0", "1", "2"].iter().all(|fd| descriptors.contains(fd)), "{descriptors:?}");
    // 10 and above are the shell's own, and whatever this test was started with.
    let ours = ["3", "4", "5", "6", "7", "8", "9"];
    assert!(!descriptors.iter().any(|fd| ours.contains(fd)), "{descriptors:?}");
}

#[tokio::test]
async fn another_user_has_that_users_groups_and_nothing_of_ours() {
    let place = Place::new();
    let seen = place.path("seen");
    fs::write(&seen, "").unwrap();
    fs::set_permissions(&seen, fs::Permissions::from_mode(0o666)).unwrap();
    let text = format!(
        "{{ id -u; id -G; grep -h '^Cap[IPEA]' /proc/self/status | tr -d '\\n\\t'; echo; echo $USER; }} > {}",
        seen.display()
    );
    let program = place.program("program", &text);
    let as_user = |name: &str| Script { user: Some(name.to_owned()), ..script(program.clone()) };
    let verdict = place.check(as_user("nobody"), PATIENT).await.verdict;
    if nix::unistd::geteuid().is_root() {
        assert_eq!(verdict, good());
        let zero = "0".repeat(16);
        let nothing = format!("CapInh:{zero}CapPrm:{zero}CapEff:{zero}CapAmb:{zero}");
        let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
        let wanted = format!("{}\n{}\n{nothing}\nnobody\n", nobody.uid, nobody.gid);
        assert_eq!(fs::read_to_string(seen).unwrap(), wanted);
    } else {
        let reason =
            "not run: running as \"nobody\" is not permitted: it takes root, or CAP_SETUID and CAP_SETGID";
        let fault = Fault { phase: Phase::Run, reason: reason.to_owned() };
        assert_eq!(verdict, Verdict::LocalError(fault));
    }
    let verdict = place.check(as_user("nobody-of-this-name"), PATIENT).await.verdict;
    let reason = "not run: no user named \"nobody-of-this-name\"".to_owned();
    assert_eq!(verdict, Verdict::LocalError(Fault { phase: Phase::Run, reason }));
}

#[tokio::test]
async fn a_program_that_does_not_run_is_a_failure() {
    let place = Place::new();
    let reason = |verdict| match verdict {
        Verdict::Failure(Fault { phase: Phase::Run, reason }) => reason,
        other => panic!("{other:?}"),
    };
    let missing = reason(place.check(script(place.path("missing")), PATIENT).await.verdict);
    assert!(missing.ends_with("missing: No such file or directory (os error 2)"), "{missing}");
    let plain = place.program("plain", "exit 0");
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
    let denied = reason(place.check(script(plain.clone()), PATIENT).await.verdict);
    assert!(denied.ends_with("plain: Permission denied (os error 13)"), "{denied}");
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o757)).unwrap();
    let open = reason(place.check(script(plain), PATIENT).await.verdict);
    assert!(open.ends_with("plain can be written by others (mode 757)"), "{open}");
}

/// B140: keepalived resolves links when it loads its configuration.
#[tokio::test]
async fn a_release_link_is_followed_at_each_run() {
    let place = Place::new();
    for (release, code) in [("r1", 1), ("r2", 2)] {
        fs::create_dir(place.path(release)).unwrap();
        place.program(&format!("{release}/check"), &format!("exit {code}"));
    }
    symlink("r1", place.path("current")).unwrap();
    let check = || place.check(script(place.path("current/check")), PATIENT);
    assert_eq!(check().await.verdict, failure(Phase::Status, "exit status 1"));
    symlink("r2", place.path("next")).unwrap();
    fs::rename(place.path("next"), place.path("current")).unwrap();
    fs::remove_dir_all(place.path("r1")).unwrap();
    assert_eq!(check().await.verdict, failure(Phase::Status, "exit status 2"));
}

/// B116: however many are configured.
#[tokio::test]
async fn only_so_many_run_at_once() {
    let place = Place::new();
    fs::create_dir(place.path("now")).unwrap();
    let (now, most) = (place.path("now"), place.path("most"));
    let (now, most) = (now.display(), most.display());
    let text = format!(": > {now}/$$; ls {now} | wc -l >> {most}; sleep 0.3; rm {now}/$$");
    let kind = Arc::new(CheckKind::Script(script(place.program("program", &text))));
    let prepared = place.preparer.prepare(&kind).unwrap();
    let mut runs = tokio::task::JoinSet::new();
    for _ in 0..150 {
        let prepared = Arc::clone(&prepared);
        runs.spawn(async move { run(&target(), &prepared, Duration::from_secs(120)).await.verdict });
    }
    let verdicts = runs.join_all().await;
    assert!(verdicts.iter().all(|verdict| *verdict == good()), "{verdicts:?}");
    let most = fs::read_to_string(place.path("most")).unwrap();
    let counts: Vec<usize> = most.lines().map(|line| line.trim().parse().unwrap()).collect();
    assert_eq!(counts.len(), 150);
    assert!(counts.iter().all(|count| *count <= 64), "{counts:?}");
}

#[tokio::test]
async fn a_file_is_read_without_waiting_for_its_writer() {
    let place = Place::new();
    let pipe = place.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let file = TrackedFile { path: pipe, weight: 2, reverse: false };
    let kind = Arc::new(CheckKind::File(file));
    let prepared = place.preparer.prepare(&kind).unwrap();
    let (detail, weight) = ("not a regular file, counts as 0, adds 0".to_owned(), WeightChange::Delta(0));
    assert_eq!(run(&target(), &prepared, PATIENT).await.verdict, Verdict::Success { detail, weight });
    fs::remove_file(place.path("pipe")).unwrap();
    fs::write(place.path("pipe"), "21\n").unwrap();
    let (detail, weight) = ("21, adds 42".to_owned(), WeightChange::Delta(42));
    assert_eq!(run(&target(), &prepared, PATIENT).await.verdict, Verdict::Success { detail, weight });
}

/// What of the daemon dies with kill -9 does not run on.
#[test]
fn a_script_ends_with_the_daemon() {
    use std::os::unix::process::ExitStatusExt;
    let helper = |parent: u32, program: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_lvsd"));
        command.args(["exec-helper", &parent.to_string(), "drop", ""]).args(program);
        command
    };
    // The kernel takes the end of the thread that started a process for the end of its parent.
    let starter = std::thread::spawn(move || {
        let sleep = helper(std::process::id(), &["/bin/sleep", "1000"]);
        let child = { sleep }.stdin(std::process::Stdio::null()).spawn().unwrap();
        let name = format!("/proc/{}/comm", child.id());
        while fs::read_to_string(&name).unwrap() != "sleep\n" {
            std::thread::yield_now();
        }
        child
    });
    let mut child = starter.join().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));

    let (mut told, report) = std::io::pipe().unwrap();
    let mut orphan = helper(std::process::id() + 1, &["/bin/true"]).stdin(report).spawn().unwrap();
    assert_eq!(orphan.wait().unwrap().code(), Some(126));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut told, &mut said).unwrap();
    assert_eq!(said, "olvsd has gone");
}
