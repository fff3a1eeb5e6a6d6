//! One thing that happened to a real or virtual server, with its evidence: a line of `lvsd events`, an
//! entry of `lvsd why`. The JSON's keys are a contract: keys may be added, never removed.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::duration;
use super::text::{clean, micros, millis, ordinal};
use super::wall;
use crate::engine::model::{Check, CheckKind, RealServerId, shown_url};
use crate::engine::time::Time;
use crate::engine::{Evidence, Transition};

#[derive(Clone, Debug)]
pub struct Happening {
    /// Counts all of this daemon's life from 1.
    pub number: u64,
    pub at: SystemTime,
    /// The same moment by the engine's clock, for its age.
    pub time: Time,
    /// Empty for the daemon itself.
    pub virtual_server: Box<str>,
    /// Unset where the virtual server as a whole is meant.
    pub real_server: Option<RealServerId>,
    pub what: What,
    /// Why: a rule and what it was applied to. Both may be missing.
    pub because: Because,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Up,
    Down,
    Weight {
        from: u32,
        to: u32,
    },
    QuorumGained {
        weight: u64,
        threshold: u64,
        sorry: bool,
    },
    QuorumLost {
        weight: u64,
        threshold: u64,
        sorry: bool,
    },
    /// An operator's order: `drained`, `weight set to 3`.
    Order(Box<str>),
    /// Its time is over.
    OrderEnded(Box<str>),
    /// It ended with its real server, which no virtual server that continues this one has.
    OrderLost(Box<str>),
    /// One that had been lost stands again.
    OrderRestored(Box<str>),
    /// What a reload did: `edit real server: weight 2 → 5`.
    Reload(Box<str>),
    /// Services came into the table or left it, and why.
    Active(Box<str>),
    Inactive(Box<str>),
    /// Somebody else has changed the kernel's table: what of it, and what becomes of that.
    Drift(Box<str>),
    /// A rule began to keep failed servers in the table, or keeps none any more.
    GuardBegan(Box<str>),
    GuardEnded(Box<str>),
    /// The daemon itself: the first table has been written, or it is about to end.
    Started,
    Stopping,
    /// A reload changed nothing, and why.
    ReloadRefused(Box<str>),
    /// `lvsd reload --confirm`: a configuration is on trial, and what became of it.
    TrialBegan(Box<str>),
    TrialConfirmed(Box<str>),
    TrialReverted(Box<str>),
    /// The daemon takes its own host for sick, and why; unless `first`, it did already.
    Frozen {
        reason: Box<str>,
        first: bool,
    },
    Thawed {
        lasted: Duration,
        /// Results of checks that did not count.
        set_aside: u64,
    },
}

#[derive(Clone, Debug)]
pub enum Because {
    Nothing,
    /// The rule alone: `by the operator's order`.
    Rule(&'static str),
    Check(Box<Seen>),
    Order(Box<Given>),
}

/// What a check saw.
#[derive(Clone, Debug)]
pub struct Seen {
    /// `3rd failure in a row, retry = 2`
    pub rule: String,
    pub kind: &'static str,
    /// Whom it asked, and what.
    pub target: String,
    /// At most 512 bytes: replies are quoted in part.
    pub detail: String,
    pub latency: Duration,
}

/// Who gave an order.
#[derive(Clone, Debug)]
pub struct Given {
    pub by: String,
    pub reason: Option<String>,
    /// How long it holds, if not until further notice.
    pub lasts: Option<Duration>,
}

/// Behind an order and who gave it.
const LOST: &str = " has ended, no virtual server takes it over";
const RESTORED: &str = " stands again";

/// Bytes of a check's words that are kept.
const DETAIL: usize = 512;

impl Seen {
    pub fn new(evidence: &Evidence, detail: &str) -> Self {
        let Evidence { check, transition, latency } = evidence;
        let detail = shortened(detail);
        let (rule, target) = (rule(check, transition), target(check));
        Self { rule, kind: check.probe.kind.name(), target, detail, latency: *latency }
    }
}

/// Made short before it is copied: a text that is cut afterwards keeps the memory that it had.
fn shortened(detail: &str) -> String {
    let (kept, more) = match detail.get(..detail.floor_char_boundary(DETAIL)) {
        Some(kept) if detail.len() > DETAIL => (kept, "…"),
        _ => (detail, ""),
    };
    [kept, more].concat()
}

/// `3rd failure in a row, retry = 2`
fn rule(check: &Check, transition: &Transition) -> String {
    let timing = &check.timing;
    match *transition {
        Transition { first: true, .. } => "the first result decides".to_owned(),
        Transition { to: false, retries, .. } => {
            format!("{} failure in a row, retry = {}", ordinal(retries), timing.retry)
        }
        Transition { to: true, changed: true, .. } if timing.rise == 1 => "a success, rise = 1".to_owned(),
        Transition { to: true, changed: true, .. } => {
            format!("{} success in a row, rise = {}", ordinal(timing.rise), timing.rise)
        }
        Transition { to: true, changed: false, .. } => "its result moves the weight".to_owned(),
    }
}

/// Whom a check asks, and what: `198.51.100.11:80 GET /healthz`, `/usr/local/bin/probe`.
pub fn target(check: &Check) -> String {
    let asked = &check.probe.target;
    let address = match asked.port {
        0 => asked.address.to_string(),
        port => std::net::SocketAddr::new(asked.address, port).to_string(),
    };
    match &*check.probe.kind {
        CheckKind::Http(http) => {
            let scheme = if http.tls.is_some() { "https " } else { "" };
            let path = http.urls.first().map_or_else(|| "/".to_owned(), |url| shown_url(&url.path));
            let more = match http.urls.len() {
                0 | 1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            format!("{address} {scheme}{} {path}{more}", http.method)
        }
        CheckKind::Script(script) => script.argv.program.display().to_string(),
        CheckKind::File(file) => file.path.display().to_string(),
        CheckKind::Dns(dns) => format!("{address} {}", dns.name),
        CheckKind::Tcp(_)
        | CheckKind::Smtp(_)
        | CheckKind::Udp(_)
        | CheckKind::Ping(_)
        | CheckKind::Grpc(_) => address,
    }
}

impl What {
    /// The word for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Weight { .. } => "weight",
            Self::QuorumGained { .. } => "quorum_gained",
            Self::QuorumLost { .. } => "quorum_lost",
            Self::Order(_) | Self::OrderRestored(_) => "order",
            // Whoever counts orders need not know why one is over.
            Self::OrderEnded(_) | Self::OrderLost(_) => "order_ended",
            Self::Reload(_) => "reload",
            Self::Active(_) => "active",
            Self::Inactive(_) => "inactive",
            Self::Drift(_) => "drift",
            Self::GuardBegan(_) => "guard_began",
            Self::GuardEnded(_) => "guard_ended",
            Self::Started => "started",
            Self::Stopping => "stopping",
            Self::ReloadRefused(_) => "reload_refused",
            Self::TrialBegan(_) => "trial_began",
            Self::TrialConfirmed(_) => "trial_confirmed",
            Self::TrialReverted(_) => "trial_reverted",
            Self::Frozen { .. } => "verdicts_frozen",
            Self::Thawed { .. } => "verdicts_thawed",
        }
    }

    /// Why, where that is not what the event itself says.
    const fn rule(&self) -> Option<&'static str> {
        if let Self::OrderLost(_) = self { Some("no virtual server takes it over") } else { None }
    }

    fn text(&self) -> String {
        match self {
            Self::Up => "up".to_owned(),
            Self::Down => "DOWN".to_owned(),
            Self::Weight { from, to } => format!("weight {from} → {to}"),
            Self::QuorumGained { weight, threshold, sorry } => {
                let sorry = if *sorry { ", the sorry server steps back" } else { "" };
                format!("quorum gained, weight {weight} of {threshold}{sorry}")
            }
            Self::QuorumLost { weight, threshold, sorry } => {
                let sorry = if *sorry { ", the sorry server takes over" } else { "" };
                format!("QUORUM LOST, weight {weight} of {threshold}{sorry}")
            }
            Self::Order(text) => clean(text),
            Self::OrderEnded(text) => format!("the {} is over", clean(text)),
            Self::OrderLost(text) => format!("the {}{LOST}", clean(text)),
            Self::OrderRestored(text) => format!("the {}{RESTORED}", clean(text)),
            Self::Reload(text) => format!("reload: {}", clean(text)),
            Self::Active(text) | Self::Inactive(text) | Self::GuardBegan(text) | Self::GuardEnded(text) => {
                clean(text)
            }
            Self::Drift(text) => format!("CHANGED BY OTHERS in the kernel's table: {}", clean(text)),
            Self::Started => "the daemon has started".to_owned(),
            Self::Stopping => "the daemon is stopping".to_owned(),
            Self::ReloadRefused(text) => format!("RELOAD REFUSED: {}", clean(text)),
            Self::TrialBegan(text) | Self::TrialConfirmed(text) | Self::TrialReverted(text) => {
                format!("reload on trial: {}", clean(text))
            }
            Self::Frozen { reason, first } => {
                let are = if *first { "are" } else { "stay" };
                format!("VERDICTS {are} FROZEN: {}", clean(reason))
            }
            Self::Thawed { lasted, set_aside } => {
                let lasted = duration::display(*lasted);
                format!("verdicts count again, after {lasted}; {set_aside} results were set aside")
            }
        }
    }
}

impl Happening {
    /// `198.51.100.11:80 in web`, `web`
    pub fn object(&self) -> String {
        let pool = clean(&self.virtual_server);
        match self.real_server {
            Some(server) if pool.is_empty() => server.to_string(),
            Some(server) => format!("{server} in {pool}"),
            None => pool,
        }
    }

    /// What and why, on one line: `DOWN: 3rd failure in a row, retry = 2: tcp check of …: connect: …`
    pub fn text(&self) -> String {
        let what = self.what.text();
        match (&self.because, &self.what) {
            (Because::Nothing, _) => what,
            (Because::Rule(rule), _) => format!("{what}: {rule}"),
            (Because::Check(seen), _) => format!("{what}: {}: {}", seen.rule, seen.text()),
            // `the drain by alice for 30m is over: kernel update`
            (Because::Order(given), What::OrderEnded(order)) => {
                format!("the {} {}", clean(order), given.text_with(" is over"))
            }
            (Because::Order(given), What::OrderLost(order)) => {
                format!("the {} {}", clean(order), given.text_with(LOST))
            }
            (Because::Order(given), What::OrderRestored(order)) => {
                format!("the {} {}", clean(order), given.text_with(RESTORED))
            }
            (Because::Order(given), _) => format!("{what} {}", given.text()),
        }
    }

    /// [`Self::text`] for a terminal: what and why apart.
    pub(super) fn lines(&self) -> (String, Option<String>) {
        match &self.because {
            Because::Check(seen) => (format!("{}: {}", self.what.text(), seen.rule), Some(seen.text())),
            Because::Nothing | Because::Rule(_) | Because::Order(_) => (self.text(), None),
        }
    }

    /// `2026-11-30 02:31:41Z  198.51.100.11:80 in web: DOWN: …`
    pub fn line(&self) -> String {
        let object = self.object();
        let colon = if object.is_empty() { "" } else { ": " };
        format!("{}  {object}{colon}{}", wall::shown(self.at), self.text())
    }

    pub(super) fn when(&self, now: Time) -> String {
        format!("{}  {:>7} ago", wall::shown(self.at), duration::display(now.since(self.time)))
    }

    pub fn json(&self) -> HappeningJson<'_> {
        let (rule, check, order) = match &self.because {
            Because::Nothing => (None, None, None),
            Because::Rule(rule) => (Some(*rule), None, None),
            Because::Check(seen) => (Some(seen.rule.as_str()), Some(&**seen), None),
            Because::Order(given) => (self.what.rule(), None, Some(&**given)),
        };
        let weight =
            if let What::Weight { from, to } = self.what { Some(WeightJson { from, to }) } else { None };
        HappeningJson {
            number: self.number,
            time: wall::rfc3339(self.at),
            event: self.what.name(),
            virtual_server: &self.virtual_server,
            real_server: self.real_server.map(|id| id.to_string()),
            text: self.text(),
            weight,
            rule,
            check: check.map(|seen| SeenJson {
                kind: seen.kind,
                target: &seen.target,
                detail: &seen.detail,
                latency_us: micros(seen.latency),
            }),
            order: order.map(|given| GivenJson {
                by: &given.by,
                reason: given.reason.as_deref(),
                for_ms: given.lasts.map(millis),
            }),
        }
    }
}

impl Seen {
    /// `tcp check of 198.51.100.11:80, 1.2ms: connect: connection refused (ECONNREFUSED)`
    pub(super) fn text(&self) -> String {
        let Self { rule: _, kind, target, detail, latency } = self;
        format!("{kind} check of {}, {}: {}", clean(target), super::text::latency(*latency), clean(detail))
    }
}

impl Given {
    /// `by alice for 30m: kernel update`
    pub(super) fn text(&self) -> String {
        self.text_with("")
    }

    /// With these words before the reason.
    fn text_with(&self, words: &str) -> String {
        let lasts = self.lasts.map(|lasts| format!(" for {}", duration::display(lasts))).unwrap_or_default();
        let reason = self.reason.as_ref().map(|reason| format!(": {}", clean(reason))).unwrap_or_default();
        format!("by {}{lasts}{words}{reason}", clean(&self.by))
    }
}

#[derive(Debug, Serialize)]
pub struct HappeningJson<'a> {
    number: u64,
    time: String,
    event: &'static str,
    virtual_server: &'a str,
    real_server: Option<String>,
    text: String,
    weight: Option<WeightJson>,
    rule: Option<&'a str>,
    check: Option<SeenJson<'a>>,
    order: Option<GivenJson<'a>>,
}

#[derive(Debug, Serialize)]
struct WeightJson {
    from: u32,
    to: u32,
}

#[derive(Debug, Serialize)]
struct SeenJson<'a> {
    kind: &'static str,
    target: &'a str,
    detail: &'a str,
    latency_us: u64,
}

#[derive(Debug, Serialize)]
struct GivenJson<'a> {
    by: &'a str,
    reason: Option<&'a str>,
    for_ms: Option<u64>,
}
