//! The budget beside a model of what Linux does, and single rules.

use std::collections::BTreeSet;

use super::*;

const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 11));

/// A host as `inet_peer_xrlim_allow` of the kernel limits it, with some closed ports.
struct Peer {
    tokens: Duration,
    last: Instant,
    closed: BTreeSet<u16>,
}

impl Peer {
    fn new(now: Instant, closed: impl IntoIterator<Item = u16>) -> Self {
        Self { tokens: 6 * INTERVAL, last: now, closed: closed.into_iter().collect() }
    }

    /// Does it send an error to one who asks this port?
    fn refuses(&mut self, port: u16, now: Instant) -> bool {
        if !self.closed.contains(&port) {
            return false;
        }
        self.tokens = (self.tokens + (now - self.last)).min(6 * INTERVAL);
        self.last = now;
        let allowed = self.tokens >= INTERVAL;
        if allowed {
            self.tokens -= INTERVAL;
        }
        allowed
    }
}

const GRACE: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Open,
    Refused,
    /// Not asked: it was refused before.
    Stands,
    Unknown(Instant),
}

fn empty() -> Budget {
    Budget { hosts: BTreeMap::new() }
}

/// Asks a host, and judges when the grace of each question is over.
struct Lab {
    start: Instant,
    budget: Budget,
    peer: Peer,
    waiting: Vec<(Instant, u16, Charge)>,
}

impl Lab {
    fn new(closed: impl IntoIterator<Item = u16>) -> Self {
        let start = Instant::now();
        Self { start, budget: empty(), peer: Peer::new(start, closed), waiting: Vec::new() }
    }

    /// Asks all these ports that many milliseconds after the start; the verdicts until then.
    fn ask(&mut self, ports: &[u16], at: u64) -> Vec<(u16, Verdict)> {
        let now = self.start + Duration::from_millis(at);
        let due: Vec<_> = self.waiting.extract_if(.., |(asked, ..)| *asked + GRACE <= now).collect();
        let mut verdicts = Vec::new();
        for (asked, port, charge) in due {
            let silent = self.budget.silent(HOST, port, charge, asked, asked + GRACE);
            verdicts.push((port, silent.map_or_else(Verdict::Unknown, |()| Verdict::Open)));
        }
        for port in ports {
            match self.budget.ask(HOST, *port, now) {
                None => verdicts.push((*port, Verdict::Stands)),
                Some(charge) if self.peer.refuses(*port, now) => {
                    self.budget.refused(HOST, *port, charge, now);
                    verdicts.push((*port, Verdict::Refused));
                }
                Some(charge) => self.waiting.push((now, *port, charge)),
            }
        }
        verdicts
    }

    fn known_closed(&self) -> usize {
        self.budget.hosts.get(&HOST).map_or(0, |host| host.closed.len())
    }
}

/// Never once open, however many there are and however often they are asked.
#[test]
fn a_closed_port_never_looks_open() {
    for every in [50, 300, 1000, 2500] {
        for count in [1, 5, 6, 7, 20, 200] {
            let ports: Vec<u16> = (1..=count).collect();
            let mut lab = Lab::new(ports.clone());
            for step in 0..400 {
                for (port, verdict) in lab.ask(&ports, every * step) {
                    assert_ne!(verdict, Verdict::Open, "port {port} of {count}, step {step} of {every} ms");
                }
            }
        }
    }
}

/// One more closed port is found in each second, whatever is known to be closed already.
#[test]
fn all_closed_ports_are_found_in_the_end() {
    let ports: Vec<u16> = (1..=60).collect();
    let mut lab = Lab::new(ports.clone());
    for step in 0..64 {
        lab.ask(&ports, 1000 * step);
    }
    assert_eq!(lab.known_closed(), 60);
}

#[test]
fn open_ports_beside_closed_ones_are_told_apart() {
    let ports: Vec<u16> = (1..=20).collect();
    // Fewer than the burst.
    let closed = [4, 8, 12, 16];
    let mut lab = Lab::new(closed);
    for step in 0..200 {
        for (port, verdict) in lab.ask(&ports, 300 * step) {
            assert_eq!(verdict == Verdict::Open, !closed.contains(&port), "{port}, {step}: {verdict:?}");
        }
    }
}

#[test]
fn an_open_port_among_many_closed_ones_is_known_when_those_are() {
    let ports: Vec<u16> = (1..=20).collect();
    let mut lab = Lab::new(2..=20);
    let mut last_doubt = 0;
    let mut open = 0;
    for step in 0..200 {
        for (_, verdict) in lab.ask(&ports, 300 * step).iter().filter(|(port, _)| *port == 1) {
            match verdict {
                Verdict::Open => open += 1,
                Verdict::Unknown(_) => last_doubt = step,
                Verdict::Refused | Verdict::Stands => panic!("{verdict:?}"),
            }
        }
    }
    // Fourteen seconds and more for those that the burst did not find.
    assert!(last_doubt * 300 < 17_000, "{last_doubt}");
    assert!(open > 140, "{open}");
}

#[test]
fn ports_that_open_are_found_soon() {
    for count in [1_u16, 20] {
        let ports: Vec<u16> = (1..=count).collect();
        let mut lab = Lab::new(ports.clone());
        for step in 0..100 {
            lab.ask(&ports, 300 * step);
        }
        lab.peer.closed.clear();
        let mut open = BTreeSet::new();
        for step in 100..120 {
            let verdicts = lab.ask(&ports, 300 * step);
            open.extend(verdicts.iter().filter(|(_, v)| *v == Verdict::Open).map(|(port, _)| *port));
        }
        assert_eq!(open.len(), ports.len());
    }
}

#[test]
fn where_nothing_was_refused_nothing_is_kept() {
    let now = Instant::now();
    let mut budget = empty();
    assert_eq!(budget.ask(HOST, 1, now), Some(Charge::None));
    assert_eq!(budget.silent(HOST, 1, Charge::None, now, now + GRACE), Ok(()));
    assert!(budget.hosts.is_empty());
    // Loopback has no limit.
    budget.refused("127.0.0.1".parse().unwrap(), 1, Charge::None, now);
    assert!(budget.hosts.is_empty());
    // A host whose ports are open again, after its limit has recovered.
    budget.refused(HOST, 1, Charge::None, now);
    budget.answered(HOST, 1, Charge::None, now + 2 * INTERVAL);
    assert!(budget.hosts.is_empty());
}

#[test]
fn what_is_kept_has_bounds() {
    let start = Instant::now();
    let mut budget = empty();
    for number in 0..5000_u32 {
        budget.refused(IpAddr::from(number.to_be_bytes()), 1, Charge::None, start);
    }
    assert_eq!(budget.hosts.len(), HOSTS);
    budget.refused(HOST, 1, Charge::None, start + BURST);
    assert_eq!(budget.hosts.len(), 1);
    budget.refused(HOST, 2, Charge::None, start + FORGET + 2 * BURST);
    assert_eq!(budget.hosts[&HOST].closed.keys().collect::<Vec<_>>(), [&2]);
}
