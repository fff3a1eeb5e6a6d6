//! Back ends that flap and lie, on a check port of the second server; its traffic is well all the time.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::lab::backend::Backend;
use crate::lab::net::Space;
use crate::lab::wait::{pause, until};
use crate::world::{CONFIG, World, first, held, rounds};

pub(crate) const CHECKED: &str = "198.51.100.12:81";

/// The second server is checked at another port than it serves at.
pub(crate) fn elsewhere() -> String {
    let check = "address = \"198.51.100.12:80\"\nconnect_port = 81";
    CONFIG
        .replace("address = \"198.51.100.12:80\"", check)
        .replace("delay_loop = \"200ms\"", "delay_loop = \"100ms\"")
}

#[test]
fn a_server_that_flaps_a_hundred_times_a_second() {
    let config = elsewhere();
    let world = World::new(&config);
    let checked = Backend::start(&world.network.servers, CHECKED);
    let _daemon = world.director.start();
    let mut trial = world.trial("a server that flaps at 100 Hz", first);
    for round in 0..rounds(500, 30_000) {
        checked.set_status(if round % 2 == 0 { 500 } else { 200 });
        pause(Duration::from_millis(10));
        trial.survived(1);
    }
    checked.set_status(200);
    world.works(&config, 5);
    trial.end();
}

/// How a connection is answered.
const LIES: [fn(TcpStream); 7] = [
    |mut stream| {
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\n"));
        while stream.write_all(&[b"X-More: and more\r\n".as_slice(); 64].concat()).is_ok() {}
    },
    |mut stream| {
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
        while stream.write_all(b"1\r\nx\r\n").is_ok() {}
    },
    |mut stream| {
        for byte in b"HTTP/1.1 200 OK\r\n".iter().cycle().take(400) {
            pause(Duration::from_millis(10));
            if stream.write_all(&[*byte]).is_err() {
                break;
            }
        }
    },
    |stream| socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("a socket"),
    |mut stream| {
        drop(stream.write_all(b"HTTP/1.1 200"));
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("a socket");
    },
    // What a TLS server that renegotiates would say first, to one who has not asked for TLS.
    |mut stream| drop(stream.write_all(b"\x16\x03\x03\x00\x04\x00\x00\x00\x00HTTP/9.9 -1\r\n\0\0\0")),
    |mut stream| drop(stream.read(&mut [0; 1])),
];

/// Answers with one lie after the other until it is dropped.
pub(crate) struct Liar {
    stop: Arc<AtomicBool>,
    told: Arc<AtomicU32>,
}

impl Liar {
    pub(crate) fn start(space: &Space, address: &'static str) -> Self {
        let liar = Self { stop: Arc::default(), told: Arc::default() };
        let (stop, told) = (Arc::clone(&liar.stop), Arc::clone(&liar.told));
        let listener = space.run(|| TcpListener::bind(address)).expect("it is free");
        listener.set_nonblocking(true).expect("a socket");
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let Ok((stream, _)) = listener.accept() else {
                    pause(Duration::from_millis(2));
                    continue;
                };
                stream.set_nonblocking(false).expect("a socket");
                stream.set_write_timeout(Some(Duration::from_secs(5))).expect("a socket");
                let number = usize::try_from(told.fetch_add(1, Ordering::Relaxed)).expect("few");
                std::thread::spawn(move || LIES[number % LIES.len()](stream));
            }
        });
        liar
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn servers_that_lie_without_end() {
    let config = elsewhere().replace("timeout = \"2s\"", "timeout = \"500ms\"");
    let world = World::new(&config);
    let daemon = world.director.start();
    let before = held(&daemon);
    let mut trial = world.trial("endless headers and bodies, resets, drips, rubbish", first);
    let wanted = rounds(70, 7000);
    let liar = Liar::start(&world.network.servers, CHECKED);
    until("they were told", || liar.told.load(Ordering::Relaxed) >= 21);
    let mut told = 0;
    while told < wanted {
        let before = told;
        until("more were told", || liar.told.load(Ordering::Relaxed) > before);
        told = liar.told.load(Ordering::Relaxed);
    }
    trial.survived(told);
    let after = held(&daemon);
    assert!(after.peak_kilobytes < before.peak_kilobytes + 16 * 1024, "{before:?}, {after:?}");
    // One that reads files may come or go.
    assert!(after.threads <= before.threads + 1, "{before:?}, {after:?}");
    drop(liar);
    let _checked = Backend::start(&world.network.servers, CHECKED);
    world.works(&config, 5);
    trial.end();
}
