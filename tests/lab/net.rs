//! Network name spaces: a client, a director and the real servers, joined by veth pairs.
//!
//! Every test has its own, so tests run side by side and never see another's IPVS table.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use nix::sched::{CloneFlags, setns};

use super::wait::{feed, output};

/// One network name space; gone when its last handle is dropped.
#[derive(Clone)]
pub(crate) struct Space(Arc<Inner>);

struct Inner {
    /// This machine's own name space has none.
    name: Option<String>,
    handle: File,
}

impl Space {
    pub(crate) fn new(role: &str) -> Self {
        let [space] = Self::several([role], "");
        // Without any address up the kernel refuses destinations (EINVAL).
        space.ip("link set lo up");
        space
    }

    /// The name space that this machine's services live in.
    pub(crate) fn this_machine() -> Self {
        require_ipvs();
        let handle = File::open("/proc/1/ns/net").expect("root may look at process 1");
        Self(Arc::new(Inner { name: None, handle }))
    }

    /// Makes name spaces, then runs a batch of `ip` commands outside of them, in which `{role}`
    /// stands for a name space. One program for all: each start of one is slow in a guest.
    pub(crate) fn several<const N: usize>(roles: [&str; N], batch: &str) -> [Self; N] {
        require_ipvs();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = |role: &str| format!("lvsd-{}-{number}-{role}", std::process::id());
        let adds: String = roles.iter().map(|role| format!("netns add {}\n", name(role))).collect();
        let batch = roles
            .iter()
            .fold(batch.to_owned(), |batch, role| batch.replace(&format!("{{{role}}}"), &name(role)));
        feed(Command::new("ip").args(["-batch", "-"]), &(adds + &batch));
        roles.map(|role| {
            let name = name(role);
            let handle = File::open(format!("/run/netns/{name}")).expect("ip netns add made it");
            Self(Arc::new(Inner { name: Some(name), handle }))
        })
    }

    /// Runs `ip` with each of these lines in this name space.
    pub(crate) fn ip(&self, lines: &str) {
        self.run(|| feed(Command::new("ip").args(["-batch", "-"]), lines));
    }

    /// Runs `f` on a thread of this name space; sockets and programs that it starts belong there.
    pub(crate) fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter();
                f()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Starts a thread of its own in this name space.
    pub(crate) fn spawn<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let space = self.clone();
        std::thread::spawn(move || {
            space.enter();
            f()
        })
    }

    /// Moves the calling thread here for good.
    fn enter(&self) {
        setns(&self.0.handle, CloneFlags::CLONE_NEWNET).expect("root may enter a name space that it made");
    }

    /// Runs a program here that must succeed, and returns what it prints.
    pub(crate) fn output(&self, program: &str, words: &str) -> String {
        self.run(|| output(Command::new(program).args(words.split_whitespace())))
    }

    pub(crate) fn ipvsadm(&self, words: &str) -> String {
        self.output("ipvsadm", words)
    }

    /// As `ipvsadm -Sn` prints it, sorted.
    pub(crate) fn table(&self) -> Vec<String> {
        let text = self.ipvsadm("-Sn");
        let mut lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
        lines.sort();
        lines
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            drop(Command::new("ip").args(["netns", "del", name]).status());
        }
    }
}

/// Fails, loudly and with what to do, where the kernel cannot run these tests. Nothing is skipped.
fn require_ipvs() {
    assert!(
        nix::unistd::geteuid().is_root() && Path::new("/proc/net/ip_vs").exists(),
        "needs root and a kernel with ip_vs: run `./test kernel`, which boots one where this one has none"
    );
}

/// A service that is somebody else's, as ipvsadm prints it.
pub(crate) const FOREIGN: [&str; 2] =
    ["-A -t 192.0.2.11:25 -s rr", "-a -t 192.0.2.11:25 -r 198.51.100.14:25 -m -w 5"];

pub(crate) fn add_foreign(director: &Space) {
    for line in FOREIGN {
        director.ipvsadm(line);
    }
}

/// A client, a director that forwards, and a network of real servers behind it.
///
/// | space | addresses |
/// |---|---|
/// | client | 192.0.2.1, 2001:db8:1::1 |
/// | director | 192.0.2.10 and 192.0.2.11 (virtual), 198.51.100.254; 2001:db8:1::10 (virtual), 2001:db8:2::254 |
/// | servers | 198.51.100.11 to .14, 2001:db8:2::11 and ::12; their way back is the director, as NAT needs it |
pub(crate) struct Network {
    pub(crate) client: Space,
    pub(crate) director: Space,
    pub(crate) servers: Space,
}

impl Network {
    /// With a director of its own.
    pub(crate) fn new() -> Self {
        let links = "link add front netns {director} type veth peer name eth0 netns {client}\n\
                     link add back netns {director} type veth peer name eth0 netns {servers}\n";
        let [client, director, servers] = Space::several(["client", "director", "servers"], links);
        director.ip("link set lo up");
        Self::between(client, director, servers, DIRECTOR)
    }

    /// With this machine as the director; one at a time.
    pub(crate) fn around_this_machine() -> Self {
        // A name that exists here cannot be given to a device of another name space either.
        let links = "link add lab-front type veth peer name eth0 netns {client}\n\
                     link add lab-back type veth peer name eth0 netns {servers}\n";
        let [client, servers] = Space::several(["client", "servers"], links);
        let addresses = DIRECTOR.replace(" front", " lab-front").replace(" back", " lab-back");
        Self::between(client, Space::this_machine(), servers, &addresses)
    }

    fn between(client: Space, director: Space, servers: Space, addresses: &str) -> Self {
        client.ip(CLIENT);
        director.ip(addresses);
        servers.ip(SERVERS);
        director.run(|| {
            for family in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                std::fs::write(format!("/proc/sys/net/{family}"), "1").expect("root may forward");
            }
        });
        Self { client, director, servers }
    }
}

// nodad: duplicate address detection would keep IPv6 addresses unusable for a second.
const CLIENT: &str = "
link set lo up
link set eth0 up
addr add 192.0.2.1/24 dev eth0
addr add 2001:db8:1::1/64 dev eth0 nodad
";
const DIRECTOR: &str = "
link set front up
link set back up
addr add 192.0.2.10/24 dev front
addr add 192.0.2.11/24 dev front
addr add 2001:db8:1::10/64 dev front nodad
addr add 198.51.100.254/24 dev back
addr add 2001:db8:2::254/64 dev back nodad
";
const SERVERS: &str = "
link set lo up
link set eth0 up
addr add 198.51.100.11/24 dev eth0
addr add 198.51.100.12/24 dev eth0
addr add 198.51.100.13/24 dev eth0
addr add 198.51.100.14/24 dev eth0
addr add 2001:db8:2::11/64 dev eth0 nodad
addr add 2001:db8:2::12/64 dev eth0 nodad
route add default via 198.51.100.254
route add default via 2001:db8:2::254
";
