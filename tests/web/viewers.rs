//! Many who look at once.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::backends::Backends;
use crate::page::url;
use crate::support::{Daemon, Place, within};

const VIEWERS: usize = 50;

/// A sample of `/metrics` without labels.
pub(crate) fn metric(daemon: &Daemon<'_>, sample: &str) -> f64 {
    let (code, text) = daemon.page("/metrics");
    assert_eq!(code, 200);
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {sample} in {text}")).parse().expect("a number")
}

/// Of the runs of checks, how many began later than readiness allows.
pub(crate) fn late(daemon: &Daemon<'_>) -> f64 {
    let all = metric(daemon, "lvsd_check_lateness_seconds_count");
    all - metric(daemon, "lvsd_check_lateness_seconds_bucket{le=\"2.5\"}")
}

#[test]
fn fifty_viewers_make_no_check_late() {
    let backends = Backends::new(100);
    let mut config = "http = \"127.0.0.1:0\"\n\n[defaults]\nretry = 0\ncheck = { tcp = {} }\n\n".to_owned();
    for pool in 0..10 {
        config += &format!(
            "[[virtual_server]]\nname = \"p{pool}\"\naddress = \"192.0.2.{}:80\"\ndelay_loop = \"{}ms\"\n",
            10 + pool,
            2000 + 100 * pool
        );
        for number in 0..100 {
            config +=
                &format!("[[virtual_server.real_server]]\naddress = \"{}\"\n", backends.address(number));
        }
    }
    let place = Place::new(&config);
    let daemon = place.start();
    let runs = || metric(&daemon, "lvsd_check_lateness_seconds_count");
    within("all have run", || (runs() >= 1000.0).then_some(()));
    let (before, began) = (late(&daemon), runs());
    let sum = || metric(&daemon, "lvsd_check_lateness_seconds_sum");
    println!("mean lateness without viewers: {} s", sum() / began);
    let (sum_before, turns_before) = (sum(), metric(&daemon, "lvsd_supervisor_turn_seconds_sum"));
    let address = url(&place).trim_start_matches("http://").to_owned();
    let changes = Arc::new(AtomicUsize::new(0));
    let viewers: Vec<_> = (0..VIEWERS).map(|_| view(&address, &changes)).collect();
    // Each sees one change after the other while thousands of checks run.
    within("changes", || {
        (changes.load(Ordering::Relaxed) >= 8 * VIEWERS && runs() >= began + 4000.0).then_some(())
    });
    assert_eq!(late(&daemon) - before, 0.0);
    println!("and with them: {} s", (sum() - sum_before) / (runs() - began));
    let busy = metric(&daemon, "lvsd_supervisor_turn_seconds_sum") - turns_before;
    println!("the loop was busy for {busy} s, {} checks", runs() - began);
    assert_eq!(daemon.page("/readyz").0, 200);
    drop(daemon);
    for viewer in viewers {
        viewer.join().expect("it ends with the daemon");
    }
}

/// Reads until the end.
pub(crate) fn view(address: &str, changes: &Arc<AtomicUsize>) -> std::thread::JoinHandle<()> {
    let mut stream = TcpStream::connect(address).expect("a listener");
    let changes = Arc::clone(changes);
    write!(stream, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(length @ 1..) = stream.read(&mut bytes) {
            let marks = bytes[..length].windows(13).filter(|part| part == b"event: change").count();
            changes.fetch_add(marks, Ordering::Relaxed);
        }
    })
}
