//! Faults of generic netlink in a daemon that preloads `shim.c`.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;

use nix::errno::Errno;
use tempfile::TempDir;

use crate::lab::wait::output;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    SendFails(Errno),
    ReceiveFails(Errno),
    AnswerLost,
    /// A write, which is not carried out.
    Refused(Errno),
    DumpInterrupted,
}

pub(crate) struct Shim {
    folder: TempDir,
    orders: File,
}

impl Shim {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/shim.c");
        let library = folder.path().join("shim.so");
        output(
            Command::new("cc")
                .args(["-shared", "-fPIC", "-O1", "-Wall", "-o"])
                .arg(library)
                .args([source, "-ldl"]),
        );
        let path = folder.path().join("orders");
        fs::write(&path, [0; 20]).expect("the folder is ours");
        let orders = File::options().read(true).write(true).open(path).expect("it was made");
        Self { folder, orders }
    }

    /// The program that becomes a daemon with the shim in it.
    pub(crate) fn program(&self) -> [String; 3] {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        [
            "env".to_owned(),
            format!("LD_PRELOAD={}", path("shim.so")),
            format!("LVSD_FAULT_ORDERS={}", path("orders")),
        ]
    }

    /// From now on, each `period`th time.
    pub(crate) fn inject(&self, fault: Fault, period: u32) {
        let (kind, error) = match fault {
            Fault::SendFails(error) => (1, error),
            Fault::ReceiveFails(error) => (2, error),
            Fault::AnswerLost => (3, Errno::UnknownErrno),
            Fault::Refused(error) => (4, error),
            Fault::DumpInterrupted => (5, Errno::UnknownErrno),
        };
        self.write([kind, error as u32, period, 0, 0]);
    }

    /// How many faults there were since the last order.
    pub(crate) fn injected(&self) -> u32 {
        let mut count = [0; 4];
        self.orders.read_exact_at(&mut count, 16).expect("the file is there");
        u32::from_ne_bytes(count)
    }

    /// No more faults. Returns how many there were.
    pub(crate) fn heal(&self) -> u32 {
        let count = self.injected();
        self.write([0, 0, 1, 0, 0]);
        count
    }

    fn write(&self, words: [u32; 5]) {
        self.orders.write_all_at(words.map(u32::to_ne_bytes).as_flattened(), 0).expect("the file is there");
    }
}
