//! Clients of the daemon itself that are slow, or say half of what they want.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::lab::wait::{pause, until};
use crate::world::{CONFIG, World, both, held, rounds};

#[test]
fn a_web_client_that_reads_a_byte_a_second() {
    let world = World::new(CONFIG);
    let daemon = world.director.start();
    let before = held(&daemon);
    let mut trial = world.trial("slow web clients, half requests to the control socket", both);
    let mut readers: Vec<TcpStream> = world.network.director.run(|| {
        let connect = |_| TcpStream::connect("127.0.0.1:9480").expect("it listens");
        (0..40).map(connect).collect()
    });
    for (number, reader) in readers.iter_mut().enumerate() {
        reader.set_read_timeout(Some(Duration::from_millis(1))).expect("a socket");
        let path = ["/metrics", "/", "/readyz", "/events"][number % 4];
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: lvsd\r\n{}", if number % 5 == 0 { "" } else { "\r\n" });
        drop(reader.write_all(request.as_bytes()));
    }
    let halves: Vec<UnixStream> = (0..30)
        .filter_map(|_| {
            let mut stream = UnixStream::connect(world.director.path("control.sock")).ok()?;
            stream.write_all(b"{\"request\":").ok()?;
            Some(stream)
        })
        .collect();
    for round in 0..rounds(6, 120) {
        for reader in &mut readers {
            // Cut off or not, that is the listener's right.
            drop(reader.read(&mut [0; 1]));
        }
        pause(Duration::from_secs(1));
        world.works(CONFIG, 4 + round % 5);
        trial.survived(70);
    }
    drop((readers, halves));
    until("they are forgotten", || held(&daemon).descriptors <= before.descriptors + 2);
    trial.end();
}
