//! Real servers that answer whatever a test has them say.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::support::within;

/// Some hundred servers on one thread, until they are dropped.
pub(crate) struct Backends {
    servers: Vec<Server>,
    stop: Option<oneshot::Sender<()>>,
}

struct Server {
    address: SocketAddr,
    says: Arc<Mutex<String>>,
    task: AbortHandle,
}

impl Backends {
    /// All say `HTTP 200` with a short body.
    pub(crate) fn new(count: usize) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                for _ in 0..count {
                    let says = Arc::new(Mutex::new("ready\n".to_owned()));
                    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                    let address = listener.local_addr().expect("an address");
                    let task = tokio::spawn(serve(listener, Arc::clone(&says))).abort_handle();
                    sender.send(Server { address, says, task }).expect("somebody waits");
                }
                drop(stopped.await);
            });
        });
        Self { servers: receiver.into_iter().take(count).collect(), stop: Some(stop) }
    }

    pub(crate) fn address(&self, number: usize) -> SocketAddr {
        self.servers[number].address
    }

    /// Its body from now on.
    pub(crate) fn says(&self, number: usize, body: &str) {
        body.clone_into(&mut self.servers[number].says.lock().expect("not broken"));
    }

    /// It refuses connections from now on.
    pub(crate) fn die(&self, number: usize) {
        let task = &self.servers[number].task;
        task.abort();
        within("its listener is closed", || task.is_finished().then_some(()));
    }
}

impl Drop for Backends {
    fn drop(&mut self) {
        drop(self.stop.take());
    }
}

async fn serve(listener: TcpListener, says: Arc<Mutex<String>>) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        let body = says.lock().expect("not broken").clone();
        tokio::spawn(async move {
            let reply = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            // Who only connects has gone again: either way there is nothing more to do.
            if stream.read(&mut [0; 4096]).await.is_ok_and(|length| length > 0) {
                drop(stream.write_all(reply.as_bytes()).await);
            }
        });
    }
}
