//! Every request about IPVS, or to change an address, that any program sends to the kernel, read off an
//! nlmon device.
//!
//! Independent of lvsd: what is counted is what the kernel was asked, not what lvsd says.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

use super::net::Space;
use super::wait::output;

/// Running until it is stopped.
pub(crate) struct Capture {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<&'static str>>,
}

impl Capture {
    /// Starts to listen in a name space; one capture at a time in each.
    pub(crate) fn start(space: &Space) -> Self {
        let family = space.run(ipvs_family);
        space.ip("link add nlmon0 type nlmon");
        space.ip("link set nlmon0 up");
        let socket = space.run(|| {
            socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)
                .expect("root may capture")
        });
        setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).expect("root may have a large buffer");
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::milliseconds(50)).expect("a time-out");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut seen, mut buffer) = (Vec::new(), vec![0; 1 << 18]);
            loop {
                // Read before the socket is found empty, so that nothing sent earlier is missed.
                let last = stopped.load(Ordering::Relaxed);
                match recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut buffer) {
                    Ok((length, Some(from))) if from.hatype() == ARPHRD_NETLINK => {
                        // nlmon says of which netlink family a datagram is.
                        let protocol = u16::from_be(from.protocol());
                        requests(&buffer[..length], (protocol, family), &mut seen);
                    }
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(Errno::EAGAIN) if last => return seen,
                    Err(Errno::EAGAIN) => {}
                    Err(error) => panic!("capture: {error}"),
                }
            }
        });
        Self { stop, thread }
    }

    /// The names of all requests since the start, in order.
    pub(crate) fn stop(self, space: &Space) -> Vec<&'static str> {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.thread.join().expect("the capture does not panic");
        space.ip("link del nlmon0");
        seen
    }
}

/// Those of `requests` that change the table or its settings.
pub(crate) fn writes(requests: &[&'static str]) -> Vec<&'static str> {
    changes(requests).into_iter().filter(|name| !name.ends_with("_ADDRESS")).collect()
}

/// Those of `requests` that change something in the kernel, addresses too.
pub(crate) fn changes(requests: &[&'static str]) -> Vec<&'static str> {
    requests.iter().copied().filter(|name| !name.starts_with("GET_")).collect()
}

const ARPHRD_NETLINK: u16 = 824;
const NLM_F_REQUEST: u16 = 1;
const NETLINK_ROUTE: u16 = 0;
const NETLINK_GENERIC: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
/// linux/ip_vs.h, `enum` after IPVS_GENL_VERSION.
const COMMANDS: [&str; 18] = [
    "UNSPEC",
    "NEW_SERVICE",
    "SET_SERVICE",
    "DEL_SERVICE",
    "GET_SERVICE",
    "NEW_DEST",
    "SET_DEST",
    "DEL_DEST",
    "GET_DEST",
    "NEW_DAEMON",
    "DEL_DAEMON",
    "GET_DAEMON",
    "SET_CONFIG",
    "GET_CONFIG",
    "SET_INFO",
    "GET_INFO",
    "ZERO",
    "FLUSH",
];

/// The number that this kernel gave to the generic netlink family of IPVS.
fn ipvs_family() -> u16 {
    let text = output(std::process::Command::new("genl").args(["ctrl", "get", "name", "IPVS"]));
    let number = text.split_whitespace().skip_while(|word| *word != "ID:").nth(1);
    let number = number.and_then(|word| u16::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    number.unwrap_or_else(|| panic!("no family number in {text:?}"))
}

/// Adds the requests of one datagram, which may be a batch: 16 bytes of netlink header, then
/// the command. Answers have no request flag.
fn requests(mut datagram: &[u8], (protocol, family): (u16, u16), seen: &mut Vec<&'static str>) {
    while let [a, b, c, d, t0, t1, f0, f1, _, _, _, _, _, _, _, _, command, ..] = *datagram {
        let length = u32::from_ne_bytes([a, b, c, d]) as usize;
        let (kind, flags) = (u16::from_ne_bytes([t0, t1]), u16::from_ne_bytes([f0, f1]));
        match (protocol, kind) {
            _ if flags & NLM_F_REQUEST == 0 => {}
            (NETLINK_ROUTE, RTM_NEWADDR) => seen.push("NEW_ADDRESS"),
            (NETLINK_ROUTE, RTM_DELADDR) => seen.push("DEL_ADDRESS"),
            (NETLINK_GENERIC, kind) if kind == family => {
                seen.push(COMMANDS.get(usize::from(command)).copied().unwrap_or("UNKNOWN"));
            }
            _ => {}
        }
        match datagram.get(length.max(16).next_multiple_of(4)..) {
            Some(rest) => datagram = rest,
            None => return,
        }
    }
}
