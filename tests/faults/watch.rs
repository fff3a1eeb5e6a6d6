//! The kernel's table, read every few milliseconds, and what was wrong with it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::lab::client::Report;
use crate::lab::net::Space;
use crate::lab::wait::pause;

/// Services with the weights of their destinations.
pub(crate) type Table = BTreeMap<String, BTreeMap<String, u32>>;

/// What is wrong with a table; nothing if nothing is.
pub(crate) type Judge = fn(&Table) -> Option<String>;

/// What the kernel gives of a file of /proc at one go.
const PAGE: usize = 4096;

pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) samples: u64,
    pub(crate) wrong: Vec<String>,
}

/// Prints the counts of a trial, and fails if one of them should be 0 and is not.
pub(crate) fn judge(name: &str, faults: u64, seen: &Seen, report: &Report) {
    let (samples, wrong) = (seen.samples, seen.wrong.len());
    let (answered, lost) = (report.answered, report.failures.len());
    println!(
        "faults: {name}: {faults} injected and survived, {samples} tables seen, {wrong} wrong, \
         {answered} connections, {lost} lost"
    );
    assert!(seen.wrong.is_empty(), "{name}: {wrong} wrong tables, the first: {}", seen.wrong[0]);
    assert!(report.failures.is_empty(), "{name}: {lost} lost, the first: {}", report.failures[0]);
    assert!(faults > 0 && samples > 10 && answered > 0, "{name}: nothing was tried");
}

impl Watch {
    pub(crate) fn start(space: &Space, judge: Judge) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = space.spawn(move || {
            let mut seen = Seen::default();
            while !stopped.load(Ordering::Relaxed) {
                seen.samples += 1;
                let mut text = read();
                let mut complaint = judge(&parse(&text));
                // A longer text comes in several pieces, and what goes between two of them shifts the rest past
                // the reader: what is wrong twice is wrong.
                if complaint.is_some() && text.len() > PAGE {
                    text = read();
                    complaint = judge(&parse(&text));
                }
                if let Some(complaint) = complaint {
                    seen.wrong.push(format!("{complaint}:\n{text}"));
                }
                pause(Duration::from_millis(3));
            }
            seen
        });
        Self { stop, thread }
    }

    pub(crate) fn stop(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }
}

/// Of this thread, whose name space is not the program's.
fn read() -> String {
    std::fs::read_to_string("/proc/thread-self/net/ip_vs").expect("IPVS is there")
}

fn parse(text: &str) -> Table {
    let mut table = Table::new();
    let mut service = String::new();
    for line in text.lines().skip(3) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["->", destination, _forward, weight, ..] => {
                let weight = weight.parse().expect("a weight");
                table.entry(service.clone()).or_default().insert(address(destination), weight);
            }
            [_protocol, at, ..] => {
                service = address(at);
                table.entry(service.clone()).or_default();
            }
            _ => {}
        }
    }
    table
}

/// `C000020A:0050` as people write it.
fn address(hex: &str) -> String {
    let number = |text| u32::from_str_radix(text, 16).expect("hexadecimal");
    let (host, port) = hex.split_once(':').expect("an address and a port");
    format!("{}:{}", Ipv4Addr::from(number(host)), number(port))
}

#[test]
fn what_the_kernel_prints_is_read() {
    let text = "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  \
        -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n\
        TCP  C000020A:0050 wrr  \n  -> C633640B:0050      Masq    3      0          7         \n";
    let table = parse(text);
    assert_eq!(table["192.0.2.10:80"], BTreeMap::from([("198.51.100.11:80".to_owned(), 3)]));
}
