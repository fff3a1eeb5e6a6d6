//! Clients: one request, a conversation that goes on, and steady traffic whose failures count.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::net::Space;
use super::wait::pause;

/// A machine that serves several guests has been seen to leave one without a processor for 7 s.
const PATIENCE: Duration = Duration::from_secs(15);

/// The body of one HTTP reply: the name of the real server that gave it.
pub(crate) fn fetch(address: &str) -> Result<String, String> {
    let mut connection = connect(address)?;
    let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).map_err(|error| format!("request: {error}"))?;
    let mut reply = String::new();
    connection.read_to_string(&mut reply).map_err(|error| format!("reply: {error}"))?;
    match reply.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(body.to_owned()),
        _ => Err(format!("not a good reply: {reply:?}")),
    }
}

fn connect(address: &str) -> Result<TcpStream, String> {
    let address: SocketAddr = address.parse().map_err(|error| format!("{address}: {error}"))?;
    let connection =
        TcpStream::connect_timeout(&address, PATIENCE).map_err(|error| format!("connect: {error}"))?;
    connection.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
    Ok(connection)
}

/// A connection that stays open.
pub(crate) struct Conversation {
    reader: BufReader<TcpStream>,
}

impl Conversation {
    pub(crate) fn open(address: &str) -> Result<Self, String> {
        Ok(Self { reader: BufReader::new(connect(address)?) })
    }

    /// Sends one line and returns the name of the server that answered it.
    pub(crate) fn say(&mut self, word: &str) -> Result<String, String> {
        writeln!(self.reader.get_mut(), "{word}").map_err(|error| format!("send: {error}"))?;
        let mut answer = String::new();
        self.reader.read_line(&mut answer).map_err(|error| format!("receive: {error}"))?;
        match answer.trim_end().split_once(' ') {
            Some((name, echo)) if echo == word => Ok(name.to_owned()),
            _ => Err(format!("not an echo of {word:?}: {answer:?}")),
        }
    }
}

impl Conversation {
    /// Ends it with a reset.
    pub(crate) fn abort(self) {
        let stream = self.reader.into_inner();
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("a socket");
    }
}

/// Requests one after the other until it is stopped.
pub(crate) struct Traffic {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Report>,
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) answered: u64,
    pub(crate) failures: Vec<String>,
}

impl Traffic {
    pub(crate) fn start(client: &Space, address: &str) -> Self {
        let (stop, address) = (Arc::new(AtomicBool::new(false)), address.to_owned());
        let stopped = Arc::clone(&stop);
        let thread = client.spawn(move || {
            let mut report = Report::default();
            while !stopped.load(Ordering::Relaxed) {
                match fetch(&address) {
                    Ok(_) => report.answered += 1,
                    Err(why) => report.failures.push(why),
                }
                pause(Duration::from_millis(10));
            }
            report
        });
        Self { stop, thread }
    }

    pub(crate) fn stop(self) -> Report {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("traffic does not panic")
    }
}
