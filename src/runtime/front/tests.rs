//! Clients at the sockets of a front thread that breaks off.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::control::client::call;
use crate::control::protocol::Request;
use crate::control::{ExitCode, Reply};
use crate::runtime::testing::SOON;

struct Scene {
    front: Front,
    breaks: Breaks,
    lacks: Lacks,
    http: SocketAddr,
    control: PathBuf,
    _directory: tempfile::TempDir,
}

/// Breaks so often before it serves.
fn scene(broken: u64) -> Scene {
    let (web, http) = http::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    scene_of(broken, (Some(web), http))
}

/// Without a listener the address is to be tried again.
fn scene_of(broken: u64, (web, http): (Option<TcpListener>, SocketAddr)) -> Scene {
    let directory = tempfile::tempdir().unwrap();
    let control = directory.path().join("control.sock");
    let (listener, file) = socket::bind(&control, &Default::default()).unwrap();
    let begun = AtomicU64::new(0);
    let routes = move || {
        let begun = begun.fetch_add(1, Ordering::Relaxed);
        assert!(begun >= broken, "broken on purpose");
        Routes::new()
    };
    let (asks, mut asked) = mpsc::channel::<Ask>(ASKS);
    // In place of the supervisor; it ends with the last sender.
    std::thread::spawn(move || {
        while let Some(ask) = asked.blocking_recv() {
            let _ = ask.reply.send(Reply::done("answered"));
        }
    });
    let lacks = Lacks::default();
    let listeners = Listeners {
        unbound: web.is_none().then_some(http),
        http: web,
        routes: Box::new(routes),
        control: Some(listener),
        _files: Some((None, file)),
        asks,
        lacks: lacks.clone(),
        closed: Closed::default(),
        refused: Refused::default(),
    };
    let breaks = Breaks::default();
    let front = Front::spawn(listeners, &breaks).unwrap();
    Scene { front, breaks, lacks, http, control, _directory: directory }
}

impl Scene {
    fn ask(&self) -> Reply {
        call(&self.control, &Request::Status { name: None }, SOON).unwrap()
    }

    fn look(&self) -> String {
        let mut stream = TcpStream::connect(self.http).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn broken(&self) -> u64 {
        self.breaks.counts().find_map(|(part, count)| (part == Part::Front).then_some(count)).unwrap()
    }
}

#[test]
fn one_that_breaks_off_is_begun_anew_and_those_who_wait_are_served() {
    let scene = scene(2);
    // Both may have come before it broke: they wait in the queues of sockets that stay.
    let reply = scene.ask();
    assert_eq!((reply.code, reply.text.as_str()), (ExitCode::Done, "answered"));
    assert!(scene.look().starts_with("HTTP/1.1 404 "), "the listener lives");
    assert_eq!(scene.broken(), 2);
    scene.front.join();
    assert!(!scene.control.exists(), "the name goes with it");
    assert!(TcpStream::connect(scene.http).is_err());
}

#[test]
fn an_end_does_not_wait_for_one_that_breaks_again_and_again() {
    let scene = scene(u64::MAX);
    crate::runtime::testing::within("it breaks", || (scene.broken() > 2).then_some(()));
    let before = std::time::Instant::now();
    let Scene { front, .. } = scene;
    front.join();
    // Its pause would be 4 seconds at least.
    assert!(before.elapsed() < std::time::Duration::from_secs(3), "{:?}", before.elapsed());
}

/// Somebody else's port keeps nobody from asking by the socket, and is had as soon as it is free.
#[test]
fn a_port_that_is_taken_is_tried_again() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let lacks = Lacks::default();
    let (web, unbound) = listen(Target::Kernel, Some(address), &lacks);
    assert!(web.is_none());
    assert_eq!(unbound, Some(address));
    let lines = lacks.lines();
    assert!(
        lines.len() == 1 && lines[0].starts_with(&format!("NO HTTP: listening for HTTP on {address}: ")),
        "{lines:?}"
    );
    let dry = listen(Target::Memory(crate::notify::Audience::Nobody), Some(address), &lacks);
    assert!(dry.0.is_none() && dry.1.is_none(), "a dry run would take the port from the daemon");

    let scene = scene_of(0, (None, address));
    scene.lacks.begin(Lack::Http, "NO HTTP".to_owned());
    assert_eq!(scene.ask().text, "answered");
    drop(taken);
    crate::runtime::testing::within("it is had", || scene.lacks.lines().is_empty().then_some(()));
    assert!(scene.look().starts_with("HTTP/1.1 404 "));
    scene.front.join();
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn one_that_waits_for_its_port_ends_at_once() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let scene = scene_of(0, (None, taken.local_addr().unwrap()));
    let before = std::time::Instant::now();
    scene.front.join();
    assert!(before.elapsed() < BIND_PAUSE, "{:?}", before.elapsed());
}

#[test]
fn a_group_that_is_not_there_leaves_the_socket_to_the_daemons_own() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    let lacks = Lacks::default();
    let access = ControlAccess { group: Some("no-such-group".to_owned()), mode: 0o640 };
    let (_listener, _file) = open_socket(&path, &access, &lacks).unwrap();
    let made = std::fs::symlink_metadata(&path).unwrap();
    let own = nix::unistd::getegid().as_raw();
    assert_eq!((made.permissions().mode() & 0o7777, made.gid()), (0o640, own));
    let lines = lacks.lines();
    assert!(lines.len() == 1 && lines[0].contains("\"no-such-group\": there is no such group"), "{lines:?}");
    // Anything else is no reason to go on.
    let occupied = directory.path().join("file");
    std::fs::write(&occupied, "").unwrap();
    assert!(open_socket(&occupied, &access, &lacks).is_err());
}
