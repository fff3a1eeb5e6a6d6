//! Clients at the sockets of a front thread that breaks off.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
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
    http: SocketAddr,
    control: PathBuf,
    _directory: tempfile::TempDir,
}

/// Breaks so often before it serves.
fn scene(broken: u64) -> Scene {
    let directory = tempfile::tempdir().unwrap();
    let control = directory.path().join("control.sock");
    let (listener, file) = socket::bind(&control, &Default::default()).unwrap();
    let (web, http) = http::bind("127.0.0.1:0".parse().unwrap()).unwrap();
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
    let listeners = Listeners {
        http: Some(web),
        routes: Box::new(routes),
        control: Some(listener),
        _files: Some((None, file)),
        asks,
        closed: Closed::default(),
        refused: Refused::default(),
    };
    let breaks = Breaks::default();
    let front = Front::spawn(listeners, &breaks).unwrap();
    Scene { front, breaks, http, control, _directory: directory }
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
