//! Server and client over real sockets in temporary directories.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream as Stream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use super::*;
use crate::control::client::{ClientError, call};
use crate::control::socket::{SocketFile, bind};

const LONG: Duration = Duration::from_secs(60);

/// What the supervisor does with a call.
type Answer = fn(&Call) -> Option<Reply>;

struct Server {
    path: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _file: SocketFile,
    _directory: tempfile::TempDir,
}

impl Server {
    /// A server on a thread with a runtime of its own, and an `answer` as the supervisor.
    fn start(limits: Limits, answer: Answer) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        let (listener, file) = bind(&path, &Default::default()).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (sender, mut calls) = mpsc::channel::<Call>(4);
                tokio::spawn(async move {
                    let mut unanswered = Vec::new();
                    while let Some(call) = calls.recv().await {
                        match answer(&call) {
                            Some(reply) => drop(call.reply.send(reply)),
                            None => unanswered.push(call),
                        }
                    }
                });
                serve(listener, sender, limits, Refused::default(), async { drop(stopped.await) })
                    .await
                    .unwrap();
            });
        });
        Self { path, stop: Some(stop), thread: Some(thread), _file: file, _directory: directory }
    }

    fn connect(&self) -> Stream {
        let stream = Stream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// Everything that comes back for `bytes`, sent with our side closed afterwards.
    fn send(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        read_all(&mut stream)
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn read_all(stream: &mut Stream) -> String {
    let mut text = Vec::new();
    match stream.read_to_end(&mut text) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => String::from_utf8(text).unwrap(),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "an Answer")]
fn echo(call: &Call) -> Option<Reply> {
    Some(Reply::done(format!("{:?}", call.request)))
}

fn silent(_call: &Call) -> Option<Reply> {
    None
}

fn quick() -> Limits {
    Limits {
        request: Duration::from_millis(200),
        answer: Duration::from_millis(200),
        reply: Duration::from_millis(200),
        ..Limits::default()
    }
}

#[test]
fn a_call_comes_back() {
    let server = Server::start(Limits::default(), echo);
    let reply = call(&server.path, &Request::Status { name: Some("web".into()) }, LONG).unwrap();
    assert_eq!((reply.ok, reply.code), (true, ExitCode::Done));
    assert_eq!(reply.text, r#"Status { name: Some("web") }"#);
}

#[test]
fn the_caller_is_whom_the_kernel_says() {
    let server = Server::start(Limits::default(), |call| {
        Some(Reply::done(format!("{} {:?} {}", call.peer.uid, call.peer.pid, call.peer)))
    });
    let reply = call(&server.path, &Request::Reload, LONG).unwrap();
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap();
    let name = user.map_or(format!("uid {}", nix::unistd::getuid()), |user| user.name);
    assert_eq!(reply.text, format!("{} {:?} {name}", nix::unistd::getuid(), Some(std::process::id())));
}

#[test]
fn several_requests_on_one_connection_are_answered_in_order() {
    let server = Server::start(Limits::default(), echo);
    let answer = server.send(
        b"{\"version\":1,\"command\":\"reload\"}\nnonsense\n{\"version\":1,\"command\":{\"status\":{}}}\n",
    );
    let replies: Vec<Reply> = answer.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(replies[0].text, "Reload");
    assert_eq!(replies[1].code, ExitCode::Usage);
    assert!(replies[1].text.starts_with("the request is not understood"), "{}", replies[1].text);
    assert_eq!(replies[2].text, "Status { name: None }");
    assert_eq!(replies.len(), 3);
}

#[test]
fn a_plan_may_be_large_and_nothing_larger() {
    let limits = Limits { request: LONG, ..Limits::default() };
    let server = Server::start(limits, |call| match &call.request {
        Request::Plan { sources } => Some(Reply::done(sources.as_str().unwrap().len().to_string())),
        _ => None,
    });
    let reply = call(&server.path, &Request::Plan { sources: "x".repeat(31 << 20).into() }, LONG).unwrap();
    assert_eq!(reply.text, (31 << 20).to_string());
    let reply = call(&server.path, &Request::Plan { sources: "x".repeat(40 << 20).into() }, LONG).unwrap();
    assert_eq!(
        (reply.code, reply.text.as_str()),
        (ExitCode::Usage, "the request is longer than 33554432 bytes")
    );
}

#[test]
fn large_requests_take_turns_and_small_ones_pass_them() {
    let limits = Limits { request: Duration::from_millis(500), ..Limits::default() };
    let server = Server::start(limits, echo);
    let mut first = server.connect();
    first.write_all(&vec![b' '; SMALL_REQUEST + CHUNK + 1]).unwrap();
    let mut second = server.connect();
    second.write_all(&vec![b' '; SMALL_REQUEST]).unwrap();
    assert_eq!(call(&server.path, &Request::Reload, LONG).unwrap().text, "Reload");
    // Both are cut off in the end; the server goes on.
    assert!(read_all(&mut first).contains("did not arrive in time"));
    assert!(read_all(&mut second).contains("did not arrive in time"));
    let plan = Request::Plan { sources: "x".repeat(1 << 20).into() };
    assert!((0..50).any(|_| call(&server.path, &plan, LONG).is_ok_and(|reply| reply.ok)));
}

#[test]
fn a_client_that_is_slow_or_leaves_is_cut_off() {
    let server = Server::start(quick(), echo);
    let mut slow = server.connect();
    slow.write_all(b"{\"version\":1,").unwrap();
    assert!(read_all(&mut slow).contains("did not arrive in time"));
    assert!(server.send(b"{\"version\":1,").contains("ends in the middle of a line"));
    assert_eq!(server.send(b""), "");
    assert!(call(&server.path, &Request::Reload, LONG).unwrap().ok);
}

#[test]
fn a_client_that_does_not_take_its_reply_gives_its_place_back() {
    let server =
        Server::start(Limits { connections: 1, ..quick() }, |_| Some(Reply::done("z".repeat(8 << 20))));
    let mut deaf = server.connect();
    deaf.write_all(b"{\"version\":1,\"command\":\"reload\"}\n").unwrap();
    // Others are refused while it sits there, and served once it was cut off.
    let served = (0..1000).any(|_| {
        std::thread::park_timeout(Duration::from_millis(10));
        call(&server.path, &Request::Reload, LONG).is_ok_and(|reply| reply.ok)
    });
    assert!(served);
}

#[test]
fn one_client_too_many_is_told_so() {
    let server = Server::start(Limits { connections: 2, ..Limits::default() }, echo);
    let held: Vec<Stream> = (0..2)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"{\"version\":1,\"command\":\"reload\"}\n").unwrap();
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            stream
        })
        .collect();
    let reply = call(&server.path, &Request::Reload, LONG).unwrap();
    assert_eq!((reply.ok, reply.text.as_str()), (false, "too many connections to the control socket"));
    drop(held);
    let served = (0..1000).any(|_| {
        std::thread::park_timeout(Duration::from_millis(10));
        call(&server.path, &Request::Reload, LONG).is_ok_and(|reply| reply.ok)
    });
    assert!(served);
}

#[test]
fn a_supervisor_that_does_not_answer_is_no_reason_to_hang() {
    let server = Server::start(quick(), silent);
    let reply = call(&server.path, &Request::Reload, LONG).unwrap();
    assert_eq!((reply.ok, reply.text.as_str()), (false, "no answer from the supervisor within 200ms"));
    let server = Server::start(quick(), |call| {
        assert!(call.reply.is_closed());
        panic!("on purpose")
    });
    let reply = call(&server.path, &Request::Reload, LONG).unwrap();
    assert_eq!((reply.ok, reply.text.as_str()), (false, "the daemon is stopping"));
}

#[test]
fn stopping_is_bounded_and_removes_nothing_itself() {
    let mut server = Server::start(Limits { stop: Duration::from_millis(100), ..Limits::default() }, silent);
    let mut stream = server.connect();
    stream.write_all(b"{\"version\":1,\"command\":\"reload\"}\n").unwrap();
    server.stop();
    assert_eq!(read_all(&mut stream), "");
    assert!(server.path.exists());
}

#[test]
fn errors_of_the_client_have_their_exit_codes() {
    let directory = tempfile::tempdir().unwrap();
    let nowhere = directory.path().join("nobody.sock");
    let error = call(&nowhere, &Request::Reload, LONG).unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }));
    assert_eq!(error.exit_code().number(), 69);
    assert_eq!(
        error.to_string(),
        format!("connecting to the daemon at {}: No such file or directory (os error 2)", nowhere.display())
    );

    drop(std::os::unix::net::UnixListener::bind(&nowhere).unwrap());
    let error = call(&nowhere, &Request::Reload, LONG).unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");

    let mute = directory.path().join("mute.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&mute).unwrap();
    let error = call(&mute, &Request::Reload, Duration::from_millis(100)).unwrap_err();
    assert!(matches!(error, ClientError::TimedOut { .. }), "{error}");
    assert_eq!(error.exit_code().number(), 69);

    let long = directory.path().join("x".repeat(200));
    assert!(matches!(call(&long, &Request::Reload, LONG).unwrap_err(), ClientError::Unreachable { .. }));
}

#[test]
fn a_stranger_is_not_allowed() {
    let server = Server::start(Limits::default(), echo);
    let error = as_a_stranger(&server.path, |path| call(path, &Request::Reload, LONG).unwrap_err());
    assert!(matches!(error, ClientError::NotAllowed { .. }), "{error}");
    assert_eq!(error.exit_code().number(), 77);
}

/// Root passes every permission test, so its thread puts root's rights on files away; others
/// take the permission from the socket.
fn as_a_stranger<T: Send>(path: &Path, act: impl FnOnce(&Path) -> T + Send) -> T {
    use std::os::unix::fs::PermissionsExt;
    if nix::unistd::getuid().is_root() {
        // The directory of the test is root's own; the stranger must get as far as the socket.
        let directory = path.parent().unwrap();
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::thread::scope(|scope| {
            let stranger = scope.spawn(|| {
                nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
                nix::unistd::setfsgid(nix::unistd::Gid::from_raw(65534));
                act(path)
            });
            stranger.join().unwrap()
        })
    } else {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o000)).unwrap();
        act(path)
    }
}
