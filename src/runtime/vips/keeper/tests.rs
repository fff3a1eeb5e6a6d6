//! The thread, with a host in memory that fails on request.

use super::*;
use crate::runtime::testing::{SOON, within};
use crate::runtime::vips::plan::tests::{carry_out, interface, on};

const VIP: &str = "192.0.2.10";

/// A host that several ends share.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    observed: Observed,
    looks: usize,
    /// So many looks and actions fail.
    blind: usize,
    refusals: usize,
    written: Vec<String>,
}

impl Fake {
    fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        f(&mut self.0.lock().unwrap())
    }

    fn has(&self, address: &str) -> bool {
        self.with(|inner| super::super::plan::is_there(&inner.observed, &on("lvs0", address)))
    }
}

impl Host for Fake {
    fn look(&mut self, names: &BTreeSet<Arc<str>>) -> Result<Observed, String> {
        self.with(|inner| {
            inner.looks += 1;
            if inner.blind > 0 {
                inner.blind -= 1;
                return Err("no answer".to_owned());
            }
            Ok(inner.observed.clone().into_iter().filter(|(name, _)| names.contains(name)).collect())
        })
    }

    fn act(&mut self, action: &Action, index: u32) -> Result<(), String> {
        assert_eq!(index, 5);
        self.with(|inner| {
            if inner.refusals > 0 {
                inner.refusals -= 1;
                return Err("refused".to_owned());
            }
            carry_out(&mut inner.observed, action);
            inner.written.push(action.to_string());
            Ok(())
        })
    }
}

struct Rig {
    fake: Fake,
    keeper: Keeper,
    reports: mpsc::Receiver<Report>,
}

impl Rig {
    fn new(before: Observed) -> Self {
        let fake = Fake::default();
        fake.with(|inner| inner.observed = before);
        let (sender, reports) = mpsc::channel(64);
        let keeper = Keeper::spawn(Box::new(fake.clone()), sender).unwrap();
        Self { fake, keeper, reports }
    }

    fn want(&self, present: &[&str], absent: &[&str]) {
        let set = |list: &[&str]| list.iter().map(|address| on("lvs0", address)).collect();
        let wish = Wish { present: set(present), absent: set(absent) };
        self.keeper.want(wish, Drift::Repair, Duration::from_secs(3600));
    }

    /// The next report.
    fn hear(&mut self) -> Report {
        within("a report", || self.reports.try_recv().ok())
    }

    fn round(&mut self) -> Round {
        match self.hear() {
            Report::Round(round) => round,
            other => panic!("{other:?}"),
        }
    }

    /// Ends the thread; everything that it still said.
    fn stop(mut self, stop: Stop) -> (Fake, Vec<Report>) {
        self.keeper.stop(stop);
        self.keeper.join();
        let rest = std::iter::from_fn(|| self.reports.try_recv().ok()).collect();
        (self.fake, rest)
    }
}

fn up(addresses: &[&str]) -> Observed {
    Observed::from([("lvs0".into(), interface(true, addresses))])
}

#[test]
fn a_wish_is_made_so_and_told_with_how_it_stands() {
    let mut rig = Rig::new(up(&["192.0.2.20", "192.0.2.99"]));
    rig.want(&[VIP], &["192.0.2.20"]);
    let round = rig.round();
    let done = [Action::Withdraw(on("lvs0", "192.0.2.20")), Action::Announce(on("lvs0", VIP))];
    assert_eq!(round.done, done);
    let standing =
        Standing { there: [on("lvs0", VIP)].into(), obstacles: BTreeMap::new(), settled: true, wishes: 1 };
    assert_eq!(round.standing, standing);
    // The same again: nothing is written, but it is told that this wish is met as well.
    rig.want(&[VIP], &["192.0.2.20"]);
    assert_eq!(rig.round(), Round { standing: Standing { wishes: 2, ..standing }, ..Round::default() });
    let (fake, rest) = rig.stop(Stop::Keep);
    assert!(fake.has(VIP) && fake.has("192.0.2.99") && rest.is_empty());
    fake.with(|inner| assert_eq!(inner.written.len(), 2));
}

#[test]
fn the_end_withdraws_what_is_ours_although_it_fails_once() {
    let mut rig = Rig::new(up(&["192.0.2.99"]));
    rig.want(&[VIP], &[]);
    rig.round();
    rig.want(&[], &[VIP]);
    rig.fake.with(|inner| inner.refusals = 1);
    let (fake, _) = rig.stop(Stop::Withdraw);
    assert!(!fake.has(VIP) && fake.has("192.0.2.99"));
}

#[test]
fn what_is_refused_is_tried_again_until_it_works() {
    let mut rig = Rig::new(up(&[]));
    rig.fake.with(|inner| inner.refusals = 3);
    rig.want(&[VIP], &[]);
    for _ in 0..3 {
        let round = rig.round();
        assert_eq!(round.failed, [(Action::Announce(on("lvs0", VIP)), "refused".to_owned())]);
        assert!(!round.standing.settled);
    }
    let round = rig.round();
    assert!(round.standing.settled && round.done.len() == 1 && round.failed.is_empty());
    assert!(rig.fake.has(VIP));
}

#[test]
fn nothing_is_written_while_nothing_is_seen() {
    let mut rig = Rig::new(up(&[]));
    rig.fake.with(|inner| inner.blind = 2);
    rig.want(&[VIP], &[]);
    assert!(matches!(rig.hear(), Report::Blind(text) if text == "no answer"));
    assert!(matches!(rig.hear(), Report::Sees), "said once, however often it failed");
    assert!(rig.round().standing.settled);
}

#[test]
fn a_hint_is_looked_into_and_drift_repaired() {
    let mut rig = Rig::new(up(&[]));
    rig.want(&[VIP], &[]);
    rig.round();
    rig.fake.with(|inner| inner.observed = up(&[]));
    rig.keeper.look();
    assert!(matches!(rig.hear(), Report::Drifted(drifted) if drifted == [Drifted::Gone(on("lvs0", VIP))]));
    assert_eq!(rig.round().done, [Action::Announce(on("lvs0", VIP))]);
    // Taken away as a whole, and made anew.
    rig.fake.with(|inner| inner.observed.clear());
    rig.keeper.look();
    assert!(matches!(rig.hear(), Report::Drifted(_)));
    assert_eq!(rig.round().standing.obstacles, [("lvs0".into(), Obstacle::Missing)].into());
    rig.fake.with(|inner| inner.observed = up(&[]));
    rig.keeper.look();
    assert_eq!(rig.round().done, [Action::Announce(on("lvs0", VIP))]);
}

#[test]
fn without_a_wish_nothing_is_looked_at() {
    let rig = Rig::new(up(&[VIP]));
    rig.keeper.look();
    let (fake, rest) = rig.stop(Stop::Withdraw);
    assert!(rest.is_empty() && fake.has(VIP));
}

#[test]
fn an_interval_is_enough_where_no_event_comes() {
    let mut rig = Rig::new(up(&[]));
    let wish = Wish { present: [on("lvs0", VIP)].into(), absent: BTreeSet::new() };
    rig.keeper.want(wish, Drift::Repair, Duration::from_millis(20));
    rig.round();
    rig.fake.with(|inner| inner.observed = up(&[]));
    let started = Instant::now();
    assert!(matches!(rig.hear(), Report::Drifted(_)));
    assert!(started.elapsed() < SOON);
    assert_eq!(rig.round().done.len(), 1);
}

#[test]
fn more_than_a_chunk_is_carried_out_and_the_newest_wish_wins() {
    let rig = Rig::new(up(&[]));
    let all: Vec<String> = (0..600).map(|n| format!("10.0.{}.{}", n / 200, n % 200 + 1)).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    rig.want(&all, &[]);
    rig.want(&all[..300], &all[300..]);
    let there = |count: usize| rig.fake.with(|inner| inner.observed["lvs0"].addresses.len() == count);
    within("half of them", || (there(300) && rig.fake.has(all[0]) && !rig.fake.has(all[599])).then_some(()));
}
