//! Real servers: a listener that answers HTTP requests and holds conversations.
//!
//! A connection that begins with `GET ` gets one HTTP reply, with the server's name as its body
//! unless told otherwise, and is closed. Any other gets each of its lines back, after the
//! server's name and a space.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::net::Space;
use super::wait::{SOON, pause, within};

/// One real server. Dropping it refuses new connections and ends the open ones.
pub(crate) struct Backend {
    space: Space,
    address: SocketAddr,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

struct State {
    name: String,
    status: AtomicU16,
    reply: Mutex<Reply>,
    /// Open connections by number; `None` when the server has stopped.
    open: Mutex<Option<BTreeMap<u64, TcpStream>>>,
}

/// What HTTP requests get, but for the status.
struct Reply {
    body: String,
    delay: Duration,
}

impl Backend {
    /// Listens on an address of a name space; the server's name is its address.
    pub(crate) fn start(space: &Space, address: &str) -> Self {
        Self::named(space, address, address)
    }

    /// For an address that several servers have.
    pub(crate) fn named(space: &Space, address: &str, name: &str) -> Self {
        let state = Arc::new(State {
            name: name.to_owned(),
            status: AtomicU16::new(200),
            reply: Mutex::new(Reply { body: name.to_owned(), delay: Duration::ZERO }),
            open: Mutex::new(Some(BTreeMap::new())),
        });
        let address: SocketAddr = address.parse().expect("an address with a port");
        // A server that has just been dropped may still have connections in TIME_WAIT; std sets
        // SO_REUSEADDR. Its listener itself lives on for an instant in a program that another test
        // is about to start.
        let bind = || space.run(|| TcpListener::bind(address)).ok();
        let listener = within(SOON, &format!("{address} is free"), bind);
        let served = Arc::clone(&state);
        let thread = std::thread::spawn(move || served.serve(&listener));
        Self { space: space.clone(), address, state, thread: Some(thread) }
    }

    /// What HTTP requests are answered with from now on.
    pub(crate) fn set_status(&self, status: u16) {
        self.state.status.store(status, Ordering::Relaxed);
    }

    /// The body of HTTP replies from now on.
    pub(crate) fn set_body(&self, body: &str) {
        body.clone_into(&mut self.state.reply.lock().expect("no panic holds it").body);
    }

    /// How long an HTTP request waits for its reply from now on.
    pub(crate) fn set_delay(&self, delay: Duration) {
        self.state.reply.lock().expect("no panic holds it").delay = delay;
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        let connections = self.state.open.lock().map_or(None, |mut open| open.take());
        for connection in connections.into_iter().flat_map(BTreeMap::into_values) {
            drop(connection.shutdown(Shutdown::Both));
        }
        // Wakes accept(), which sees that the server has stopped.
        drop(self.space.run(|| TcpStream::connect(self.address)));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl State {
    fn serve(self: Arc<Self>, listener: &TcpListener) {
        let mut number = 0;
        while let Ok((connection, _)) = listener.accept() {
            number += 1;
            match (&mut *self.open.lock().expect("no panic holds it"), connection.try_clone()) {
                (Some(open), Ok(copy)) => drop(open.insert(number, copy)),
                (None, _) => return,
                (_, Err(_)) => continue,
            }
            let state = Arc::clone(&self);
            std::thread::spawn(move || {
                // A client that goes away is its own affair.
                drop(state.answer(&connection));
                drop(connection.shutdown(Shutdown::Both));
                if let Some(open) = &mut *state.open.lock().expect("no panic holds it") {
                    open.remove(&number);
                }
            });
        }
    }

    fn answer(&self, mut connection: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(connection);
        let mut line = String::new();
        while reader.read_line(&mut line)? > 0 {
            if line.starts_with("GET ") {
                while reader.read_line(&mut line)? > 2 {}
                let (body, delay) = {
                    let reply = self.reply.lock().expect("no panic holds it");
                    (reply.body.clone(), reply.delay)
                };
                pause(delay);
                let status = self.status.load(Ordering::Relaxed);
                let head =
                    format!("HTTP/1.1 {status} Told\r\nConnection: close\r\nContent-Length: {}", body.len());
                return connection.write_all(format!("{head}\r\n\r\n{body}").as_bytes());
            }
            connection.write_all(format!("{} {line}", self.name).as_bytes())?;
            line.clear();
        }
        Ok(())
    }
}
