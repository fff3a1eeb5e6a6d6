//! More checks than can be run: what has begun comes to its end before more begins.

use std::fmt::Write;
use std::fs::read_to_string;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Place, within};

/// Due ten times a second each: far more than any machine checks.
const SERVERS: u32 = 3000;
const CHECKS: usize = 5 * SERVERS as usize;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Counted are answers that lie in the daemon's sockets, which is nobody's doing but its own. Were each turn to begin
/// as many runs as it may before it looks at those in flight, most of all checks would soon stand open: each waits
/// for seconds then, fails by its time-out, and holds memory.
#[test]
fn what_has_begun_is_finished_before_more_begins() {
    let served = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let theirs = Arc::clone(&served);
    std::thread::spawn(move || answer(listener, &theirs));
    let mut config =
        "[defaults]\ndelay_loop = \"100ms\"\ntimeout = \"30s\"\ncheck = { http = { path = \"/\" } }\n\
                      [[virtual_server]]\naddress = \"192.0.2.10:80\"\n"
            .to_owned();
    for n in 0..SERVERS {
        let [_, _, high, low] = n.to_be_bytes();
        writeln!(config, "[[virtual_server.real_server]]\naddress = \"127.1.{high}.{low}:{port}\"").unwrap();
    }
    let place = Place::new(&config);
    let _daemon = place.start();
    let mut samples = Vec::new();
    within("each server is checked some times", || {
        samples.push(unread(port));
        (served.load(Ordering::Relaxed) > CHECKS).then_some(())
    });
    samples.sort_unstable();
    let median = samples[samples.len() / 2];
    assert!(median < SERVERS as usize / 10, "answers that wait to be read: {samples:?}");
}

/// Until the test's process ends.
fn answer(listener: TcpListener, served: &Arc<AtomicUsize>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let served = Arc::clone(served);
            tokio::spawn(async move {
                let mut request = [0; 1024];
                // A client that has gone has its answer, or wants none.
                let _ = client.read(&mut request).await;
                let _ = client.write_all(ANSWER).await;
                served.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
}

/// Connections to this port that hold what nobody has read yet.
fn unread(port: u16) -> usize {
    let there = format!(":{port:04X}");
    let sockets = read_to_string("/proc/net/tcp").unwrap();
    let is_unread = |line: &&str| {
        let mut words = line.split_whitespace().skip(2);
        let (remote, _state, queues) = (words.next(), words.next(), words.next());
        let read = queues.and_then(|queues| queues.split_once(':')).map(|(_, read)| read);
        remote.is_some_and(|remote| remote.ends_with(&there)) && read.is_some_and(|read| read != "00000000")
    };
    sockets.lines().filter(is_unread).count()
}
