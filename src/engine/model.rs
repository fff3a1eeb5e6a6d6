//! The configuration after lowering: values that cannot be wrong any more.
//!
//! [`crate::config`] makes these, everything else reads them. Nothing here has a default of
//! its own to apply and nothing is checked again: "unset" is an `Option`, units are types.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::table::ServiceId;

mod access;
mod down_rate;
mod event_kind;
mod notify;
mod outcome;
mod portion;
mod receivers;
mod self_test;
mod url;

pub use access::ControlAccess;
pub use down_rate::DownRate;
pub use event_kind::EventKind;
pub use notify::Notify;
pub use outcome::{Fault, Outcome, Phase, Verdict, WeightChange};
pub use portion::Portion;
pub use receivers::{Endpoint, HeaderText, Login, Mail, Secret, Webhook, WebhookUrl};
pub use self_test::SelfTest;
pub use url::{may_hold_a_secret, shown_url};

/// Most servers have one check: it needs no memory of its own, and there may be 100,000 of them.
pub type Few<T> = SmallVec<[T; 1]>;

/// One file with its includes, validated as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub daemon: Daemon,
    /// In file order.
    pub virtual_servers: Vec<Arc<VirtualServer>>,
}

// -- daemon ---------------------------------------------------------------------------------

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Daemon {
    /// In events and metrics; the host's name if unset.
    pub name: Option<String>,
    pub control_socket: PathBuf,
    pub control: ControlAccess,
    pub state_file: PathBuf,
    /// Where /healthz and /readyz are served; unset = nowhere.
    pub http: Option<std::net::SocketAddr>,
    pub on_stop: OnStop,
    /// The most that a reload may take away without being forced; unset: as much as it likes.
    pub max_removed: Option<Portion>,
    /// Of the whole daemon; unset: as fast as they fail.
    pub max_down_rate: Option<DownRate>,
    pub drift: Drift,
    pub drift_interval: Duration,
    /// A filter in the syntax of tracing-subscriber's `EnvFilter`.
    pub log: String,
    pub timeouts: Timeouts,
    pub sync: Option<Sync>,
    pub notify: Notify,
    pub self_test: SelfTest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStop {
    /// Take our services out and put the timeouts back.
    Withdraw,
    /// Leave everything as it is, for a restart without a gap.
    Keep,
}

/// What to do when the kernel's table is not the one we want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    Repair,
    Warn,
    Off,
}

/// IPVS connection timeouts in whole seconds, as the kernel keeps them; unset ones are left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    pub tcp: Option<NonZeroU32>,
    pub tcp_fin: Option<NonZeroU32>,
    pub udp: Option<NonZeroU32>,
}

/// The kernel's connection synchronisation daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sync {
    pub role: SyncRole,
    /// 1 to 15 bytes, an interface name.
    pub interface: String,
    pub id: u8,
    pub max_length: Option<u16>,
    pub group: Option<IpAddr>,
    pub port: Option<u16>,
    pub ttl: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncRole {
    Master,
    Backup,
    Both,
}

// -- virtual servers ------------------------------------------------------------------------

/// One pool of real servers and the services in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualServer {
    /// Unique; its first address unless named.
    pub name: String,
    /// At least one, in the order written; no other virtual server has any of them.
    pub services: Vec<ServiceId>,
    pub scheduler: Scheduler,
    pub scheduler_flags: Vec<SchedulerFlag>,
    pub one_packet: bool,
    pub persistence: Option<Persistence>,
    /// Unset: always in the table.
    pub active_when: Option<ActiveWhen>,
    pub quorum: u32,
    pub hysteresis: u32,
    /// Below it no further real server is taken out by verdicts; 0: off.
    pub min_alive: Portion,
    pub omega: bool,
    pub sorry_server: Option<SorryServer>,
    pub quorum_up: Option<Argv>,
    pub quorum_down: Option<Argv>,
    /// Its addresses are put on an interface while they have quorum.
    pub announce: Option<Announce>,
    /// In file order; no two with the same identity.
    pub real_servers: Vec<Arc<RealServer>>,
}

/// Where the virtual addresses stand, so that a routing daemon tells its neighbours of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announce {
    /// 1 to 15 bytes, the name of an interface that is the operator's.
    pub interface: Arc<str>,
}

/// What must be there for services to be in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActiveWhen {
    Address(AddressGate),
    /// Exists.
    File(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressGate {
    pub whose: Whose,
    /// The only one that counts; unset: all but loopback ones.
    pub interface: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Each service's own; the pool has no service by mark.
    Own,
    /// At least one: any of them is enough for the whole pool.
    AnyOf(Vec<IpAddr>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persistence {
    /// Whole seconds, at least 1.
    pub timeout: NonZeroU32,
    /// Prefix length for the IPv4 and the IPv6 services of this virtual server; unset = full length.
    pub netmask: Option<u8>,
    pub engine: Option<String>,
}

/// A program and its arguments; never a shell's command line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Argv {
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SorryServer {
    pub address: IpAddr,
    /// Unset: the port of each service.
    pub port: Option<u16>,
    pub forwarding: Forwarding,
    /// Stays in the table at weight 0 while it is not needed.
    pub inhibit: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealServer {
    pub id: RealServerId,
    pub weight: u32,
    pub forwarding: Forwarding,
    pub upper_threshold: Option<NonZeroU32>,
    pub lower_threshold: Option<NonZeroU32>,
    /// A failed server stays in the table at weight 0.
    pub inhibit_on_failure: bool,
    /// Down until its first success, for a server without checks of its own alpha.
    pub alpha: bool,
    pub notify_up: Option<Arc<Argv>>,
    pub notify_down: Option<Arc<Argv>>,
    /// Empty: always alive.
    pub checks: Few<Arc<Check>>,
}

/// What makes two real servers of one pool the same across a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RealServerId {
    pub address: IpAddr,
    /// As written; `None` means each service's own port.
    pub port: Option<u16>,
}

/// `198.51.100.11:80`, `[2001:db8::1]:80`, `198.51.100.11`, `2001:db8::1`
impl fmt::Display for RealServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => std::net::SocketAddr::new(self.address, port).fmt(f),
            None => self.address.fmt(f),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    Ipv4,
    Ipv6,
}

impl Family {
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::Ipv4,
            IpAddr::V6(_) => Self::Ipv6,
        }
    }

    /// The number of bits of an address.
    pub const fn bits(self) -> u8 {
        match self {
            Self::Ipv4 => 32,
            Self::Ipv6 => 128,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
        })
    }
}

/// A firewall mark of a service: never 0, which means "no mark" to the kernel.
pub type Mark = NonZeroU32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        })
    }
}

/// The name of a kernel scheduler, as `ip_vs_NAME` modules carry it: 1 to 15 bytes of
/// letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scheduler(String);

impl Scheduler {
    /// `None` unless the name can be that of a kernel scheduler.
    pub fn new(name: &str) -> Option<Self> {
        let fits = (1..=15).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        fits.then(|| Self(name.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// ipvsadm's `--sched-flags`. sh and mh give names to the first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerFlag {
    /// flag-1, sh-fallback, mh-fallback
    One,
    /// flag-2, sh-port, mh-port
    Two,
    /// flag-3
    Three,
}

/// How packets get to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Forwarding {
    Nat,
    Dr,
    Tun(Tunnel),
    /// The kernel's own for an address of the director; read from it, never configured.
    Local,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tunnel {
    Ipip,
    Gue { port: u16, checksum: TunnelChecksum },
    Gre { checksum: TunnelChecksum },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TunnelChecksum {
    None,
    Csum,
    Remcsum,
}

// -- checks ---------------------------------------------------------------------------------

/// One check of one real server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What is asked of whom: the check's identity across a reload.
    pub probe: Probe,
    /// Shared by all checks that agree in it.
    pub timing: Arc<Timing>,
    /// Down until the first success.
    pub alpha: bool,
    pub mode: Mode,
    pub on_local_error: OnLocalError,
}

/// One target and what it must do. Equal probes with equal timing run once and share the result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Probe {
    pub target: Target,
    /// Shared by all targets of a named or inherited check.
    pub kind: Arc<CheckKind>,
}

/// Where a check connects to and from. Kinds without an address of their own (script, file)
/// keep it to stay distinct per server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    pub address: IpAddr,
    /// 0 for kinds that need no port, except a script that can be told one.
    pub port: u16,
    /// Unset: as the kernel chooses.
    pub source: Option<Arc<Source>>,
}

impl Target {
    pub fn source(&self) -> &Source {
        static CHOSEN_BY_KERNEL: Source = Source { ip: None, port: None, interface: None, fwmark: None };
        self.source.as_deref().unwrap_or(&CHOSEN_BY_KERNEL)
    }
}

/// Where the packets of a check come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    pub ip: Option<IpAddr>,
    pub port: Option<u16>,
    pub interface: Option<String>,
    /// SO_MARK of the check's own packets.
    pub fwmark: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// From the start of one run to the start of the next.
    pub delay_loop: Duration,
    /// One deadline over everything in a run.
    pub timeout: Duration,
    /// Additional tries: down after `retry` + 1 failures in a row.
    pub retry: u32,
    /// From the end of a failed try to the start of the next.
    pub delay_before_retry: Duration,
    /// Successes in a row to come up; at least 1.
    pub rise: u32,
    /// First runs are spread over this time.
    pub warmup: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Enforce,
    /// Runs and reports, decides nothing.
    Observe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLocalError {
    /// Keep the verdict and warn.
    Ignore,
    /// Count it as a failure of the server.
    Fail,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CheckKind {
    Tcp(Tcp),
    Http(Http),
    Dns(Dns),
    Smtp(Smtp),
    Udp(Udp),
    Ping(Ping),
    Script(Script),
    File(TrackedFile),
    Grpc(Grpc),
}

impl CheckKind {
    /// The word that the configuration, logs and `status --json` use.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Tcp(_) => "tcp",
            Self::Http(_) => "http",
            Self::Dns(_) => "dns",
            Self::Smtp(_) => "smtp",
            Self::Udp(_) => "udp",
            Self::Ping(_) => "ping",
            Self::Script(_) => "script",
            Self::File(_) => "file",
            Self::Grpc(_) => "grpc",
        }
    }

    /// Can its results change its server's weight?
    pub const fn moves_weight(&self) -> bool {
        match self {
            Self::Script(script) => script.dynamic_weight,
            Self::File(file) => file.weight != 0,
            Self::Tcp(_)
            | Self::Http(_)
            | Self::Dns(_)
            | Self::Smtp(_)
            | Self::Udp(_)
            | Self::Ping(_)
            | Self::Grpc(_) => false,
        }
    }

    /// Does its target need a port?
    pub const fn needs_port(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Http(_) | Self::Dns(_) | Self::Smtp(_) | Self::Udp(_) | Self::Grpc(_) => {
                true
            }
            Self::Ping(_) | Self::Script(_) | Self::File(_) => false,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tcp {
    pub send: Option<Vec<u8>>,
    pub expect: Option<Expect>,
    /// Greeting and reply, in order; used instead of `send` and `expect`.
    pub dialogue: Vec<Exchange>,
    pub tls: Option<Tls>,
}

/// One step of a dialogue: what must come, then what is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Exchange {
    pub expect: Option<Expect>,
    pub send: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dns {
    /// Lower case, with its final dot; `.` is the root.
    pub name: String,
    /// A type's number, RFC 1035 section 3.2.2 and later.
    pub record_type: u16,
    /// Response codes that are good, RFC 1035 section 4.1.1.
    pub rcodes: Vec<u8>,
    /// Each of these must be among the answers, as text: an address, a name, or a text.
    pub expect: Vec<String>,
    pub transport: DnsTransport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DnsTransport {
    Udp,
    Tcp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Smtp {
    /// The name in EHLO and HELO; unset: our own address as a literal, RFC 5321 section 4.1.3.
    pub helo: Option<String>,
    pub tls: Option<SmtpTls>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SmtpTls {
    /// From the first byte on.
    Implicit(Tls),
    StartTls(Tls),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Udp {
    pub payload: Vec<u8>,
    pub reply: Option<ReplyPattern>,
    /// Silence is a failure. Implied by `reply` and the lengths.
    pub require_reply: bool,
    pub min_reply: Option<u16>,
    pub max_reply: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReplyPattern {
    Regex(Pattern),
    /// The reply begins with these half bytes; `None` fits any.
    Nibbles(Vec<Option<u8>>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ping {
    /// Bytes of data in the echo request.
    pub size: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Script {
    pub argv: Argv,
    /// Runs as this user, with its groups; unset: as the daemon.
    pub user: Option<String>,
    /// Exit status 2 to 255 sets the weight to status − 2.
    pub dynamic_weight: bool,
}

/// A file with a number in it that moves the weight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TrackedFile {
    pub path: PathBuf,
    /// The number times this is added to the server's weight; 0: any other number is a fault.
    pub weight: i32,
    /// The sign of the number is turned; with weight 0: 0 is the fault.
    pub reverse: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Grpc {
    /// As in `grpc.health.v1`; empty: the server as a whole.
    pub service: String,
    pub tls: Option<Tls>,
}

/// What a reply must contain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expect {
    /// These bytes, anywhere in the reply.
    Bytes(Vec<u8>),
    /// A pattern of the `regex` crate, known to compile, over the reply's bytes.
    Regex(Pattern),
}

/// A regular expression that is known to compile within the size limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern(String);

impl Pattern {
    /// `source` must have been compiled once with [`Pattern::SIZE_LIMIT`].
    pub fn new_compiled(source: String) -> Self {
        Self(source)
    }

    /// Bytes that a compiled pattern may take.
    pub const SIZE_LIMIT: usize = 1 << 20;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Http {
    /// Asked for one after the other on connections of their own, within one deadline; at least one.
    pub urls: Vec<Url>,
    pub method: String,
    pub version: HttpVersion,
    /// The Host header; unset: the target's address (and port, unless it is the scheme's own).
    pub virtualhost: Option<String>,
    pub headers: Vec<(String, String)>,
    pub request_body: Option<Vec<u8>>,
    /// Bytes of a body that are read before it is called too long.
    pub max_body: u64,
    pub tls: Option<Tls>,
    pub follow_redirects: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Url {
    /// Starts with `/`.
    pub path: String,
    pub virtualhost: Option<String>,
    pub status: StatusSet,
    pub body: Option<BodyRule>,
    pub digest: Option<Digest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HttpVersion {
    Http10,
    Http11,
}

/// Inclusive ranges of status codes within 100…599, sorted, not touching.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StatusSet(Vec<(u16, u16)>);

impl StatusSet {
    /// Sorts and joins.
    pub fn new(ranges: impl IntoIterator<Item = (u16, u16)>) -> Self {
        let mut sorted: Vec<(u16, u16)> = ranges.into_iter().filter(|(low, high)| low <= high).collect();
        sorted.sort_unstable();
        let mut joined: Vec<(u16, u16)> = Vec::with_capacity(sorted.len());
        for (low, high) in sorted {
            match joined.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => joined.push((low, high)),
            }
        }
        Self(joined)
    }

    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|(low, high)| (*low..=*high).contains(&status))
    }
}

/// `200-299, 302`
impl fmt::Display for StatusSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (low, high)) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            if low == high {
                write!(f, "{comma}{low}")?;
            } else {
                write!(f, "{comma}{low}-{high}")?;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BodyRule {
    Contains(Vec<u8>),
    Regex(Pattern),
    NotRegex(Pattern),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Digest {
    Md5([u8; 16]),
    Sha256([u8; 32]),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tls {
    pub verify: bool,
    /// PEM file of the issuers to trust; unset: the system's.
    pub ca: Option<PathBuf>,
    /// SNI and the name to verify; unset: the virtual host, else the target's address.
    pub server_name: Option<String>,
    /// PEM files of a client certificate and its key; both or none.
    pub client: Option<ClientCertificate>,
    pub min_version: TlsVersion,
    pub alpn: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientCertificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlsVersion {
    Tls12,
    Tls13,
}

#[cfg(test)]
mod tests;
