//! The arithmetic of phases, the spread of first runs, and what a replacement keeps.

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;

use super::*;
use crate::engine::model::{CheckKind, Mode, OnLocalError, Probe, Target, Tcp};

const SECOND: Duration = Duration::from_secs(1);

fn check(number: u16, delay_loop: Duration, warmup: Duration) -> (Place, Identity, Arc<Check>) {
    let target = Target { address: IpAddr::V4(Ipv4Addr::LOCALHOST), port: number, source: None };
    let timing = Timing {
        delay_loop,
        timeout: SECOND,
        retry: 1,
        delay_before_retry: Duration::from_millis(300),
        rise: 1,
        warmup,
    };
    let probe = Probe { target, kind: Arc::new(CheckKind::Tcp(Tcp::default())) };
    let identity = Identity::of(&probe);
    let check = Check {
        probe,
        timing: Arc::new(timing),
        alpha: false,
        mode: Mode::Enforce,
        on_local_error: OnLocalError::Ignore,
    };
    ((0, u32::from(number), 0), identity, Arc::new(check))
}

/// No pool stays just the same.
fn all_go(_: u32) -> Option<u32> {
    None
}

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

fn entry(phase: Time, period: Duration) -> Entry {
    let (place, identity, check) = check(1, period, Duration::ZERO);
    let places = Places::One(place);
    Entry { id: ProbeId(0), identity, check, places, phase, next_run: phase, run: Run::None, ran: false }
}

#[test]
fn the_next_slot_is_after_now_and_on_the_phase() {
    // Phase, period, now, next.
    let table = [
        (100, 10, 95, 100),
        (100, 10, 100, 110),
        (100, 10, 101, 110),
        (100, 10, 109, 110),
        (100, 10, 110, 120),
        (100, 10, 1009, 1010),
        // A phase that lies ahead by more than a period.
        (100, 10, 5, 10),
        (103, 10, 0, 3),
        // Periods of nothing are as good as the smallest.
        (100, 0, 200, 201),
        // The end of time.
        (100, 10, u64::MAX, u64::MAX),
        (u64::MAX, 10, 0, u64::MAX % 10),
    ];
    for (phase, period, now, next) in table {
        let entry = entry(at(phase), Duration::from_nanos(period));
        assert_eq!(entry.next_on_phase(at(now)), at(next), "{phase} {period} {now}");
    }
    let longest = entry(at(5), Duration::MAX);
    assert_eq!(longest.next_on_phase(at(6)), at(u64::MAX));
}

proptest! {
    #[test]
    fn every_slot_is_a_whole_number_of_periods_from_the_phase(
        phase in 0..1_u64 << 60, period in 1..1_u64 << 50, now in 0..1_u64 << 60,
    ) {
        let next = entry(at(phase), Duration::from_nanos(period)).next_on_phase(at(now)).as_nanos();
        prop_assert!(next > now && next - now <= period);
        prop_assert_eq!(next.abs_diff(phase) % period, 0);
    }
}

#[test]
fn first_runs_and_phases_are_spread_evenly() {
    for count in [1_u16, 2, 3, 10, 100, 1000] {
        let mut schedule = Schedule::default();
        let checks = (0..count).map(|n| check(n, 10 * SECOND, SECOND));
        schedule.replace(all_go, checks, Time::ZERO);
        let evenness = |times: Vec<u64>, whole: Duration| {
            let mut times = times;
            times.sort_unstable();
            let gaps = times.windows(2).map(|w| w[1] - w[0]);
            let fair = u64::try_from(whole.as_nanos()).unwrap() / u64::from(count);
            assert!(times.iter().all(|t| Duration::from_nanos(*t) < whole));
            // No gap between multiples of the golden ratio is twice the mean.
            assert!(gaps.max().unwrap_or(0) <= 2 * fair, "{count} in {whole:?}");
        };
        evenness(schedule.entries.iter().map(|e| e.next_run.as_nanos()).collect(), SECOND);
        evenness(schedule.entries.iter().map(|e| e.phase.as_nanos()).collect(), 10 * SECOND);
    }
}

/// All that is due at `now`, started.
fn start(schedule: &mut Schedule, now: Time) -> Vec<ProbeId> {
    std::iter::from_fn(|| schedule.start_due(now)).collect()
}

#[test]
fn a_probe_in_flight_is_not_started_again() {
    let mut schedule = Schedule::default();
    schedule.replace(all_go, [check(1, SECOND, Duration::ZERO)].into_iter(), Time::ZERO);
    let started = start(&mut schedule, Time::ZERO);
    assert_eq!(started, [ProbeId(0)]);
    assert_eq!(start(&mut schedule, at(10_000_000_000)), []);
    assert_eq!(schedule.lateness(at(1_000_000_000)), Duration::ZERO);
    assert_eq!(schedule.lateness(at(10_000_000_000)), Duration::from_secs(9), "a second is its time-out");
    schedule.replace(all_go, [check(1, SECOND, Duration::ZERO)].into_iter(), at(500_000_000));
    assert_eq!(schedule.lateness(at(500_000_000)), Duration::ZERO, "a reload makes no run late");
    schedule.ended(ProbeId(0), None, at(10_500_000_000));
    assert_eq!(schedule.next_due(), Some(at(11_000_000_000)));
    assert_eq!(schedule.lateness(at(11_250_000_000)), Duration::from_millis(250));
    assert_eq!(start(&mut schedule, at(11_250_000_000)), [ProbeId(0)]);
    schedule.ended(ProbeId(0), None, at(11_300_000_000));
    assert_eq!(schedule.next_due(), Some(at(12_000_000_000)), "being late does not shift the phase");
}

#[test]
fn a_retry_is_counted_from_the_end() {
    let mut schedule = Schedule::default();
    schedule.replace(all_go, [check(1, SECOND, Duration::ZERO)].into_iter(), Time::ZERO);
    start(&mut schedule, Time::ZERO);
    schedule.ended(ProbeId(0), Some(Duration::from_millis(300)), at(1_200_000_000));
    assert_eq!(schedule.next_due(), Some(at(1_500_000_000)));
}

#[test]
fn what_a_replacement_keeps() {
    let (a, b, c) = (check(1, SECOND, SECOND), check(2, SECOND, SECOND), check(3, SECOND, SECOND));
    let slow_b = check(2, 9 * SECOND, SECOND);
    let mut schedule = Schedule::default();
    assert_eq!(schedule.replace(all_go, [a.clone(), b.clone(), c].into_iter(), Time::ZERO), []);
    let running = start(&mut schedule, at(999_999_999));
    assert_eq!(running, [ProbeId(0), ProbeId(2), ProbeId(1)]);
    // a as it was, b slower, c gone.
    let cancelled = schedule.replace(all_go, [slow_b, a.clone()].into_iter(), at(1_000_000_000));
    assert_eq!(cancelled, [ProbeId(2)]);
    assert_eq!(schedule.len(), 2);
    assert!(schedule.is_running(ProbeId(0)) && schedule.is_running(ProbeId(1)));
    assert!(!schedule.is_running(ProbeId(2)));
    // c again is another probe: an answer to the old one finds nobody.
    assert_eq!(schedule.replace(all_go, [a, b, check(3, SECOND, SECOND)].into_iter(), at(2_000_000_000)), []);
    assert!(schedule.entry(ProbeId(2)).is_none() && schedule.entry(ProbeId(3)).is_some());
}

#[test]
fn equal_questions_are_one_probe_and_other_speeds_are_not() {
    let mut schedule = Schedule::default();
    let (place, identity, one) = check(1, SECOND, SECOND);
    let same = ((7, 7, 7), identity, Arc::clone(&one));
    let (_, _, slower) = check(1, 2 * SECOND, SECOND);
    let other_warmup = check(1, SECOND, Duration::ZERO).2;
    let checks =
        [(place, identity, one), same, ((8, 8, 8), identity, slower), ((9, 9, 9), identity, other_warmup)];
    schedule.replace(all_go, checks.into_iter(), Time::ZERO);
    assert_eq!(schedule.len(), 2);
    let places = |id| schedule.entry(ProbeId(id)).unwrap().places.iter().collect::<Vec<_>>();
    assert_eq!(places(0), [place, (7, 7, 7), (9, 9, 9)]);
    assert_eq!(places(1), [(8, 8, 8)]);
}

#[test]
fn pools_that_stay_take_their_places_with_them() {
    let of = |pool: u32, number: u16| {
        let ((_, server, checker), identity, check) = check(number, SECOND, SECOND);
        ((pool, server, checker), identity, check)
    };
    let mut schedule = Schedule::default();
    // All three pools ask the first, and each one of its own.
    let all = [of(0, 1), of(0, 2), of(1, 1), of(1, 3), of(2, 1), of(2, 4)];
    schedule.replace(all_go, all.into_iter(), Time::ZERO);
    assert_eq!(start(&mut schedule, at(999_999_999)).len(), 4);
    let phase = |schedule: &Schedule, id| schedule.entry(ProbeId(id)).unwrap().phase;
    let phases = [0, 2, 3].map(|id| phase(&schedule, id));
    // The first goes, the second stands in its place, the third is another: it asks both, and one more.
    let second = |pool| (pool == 1).then_some(0);
    let third = [of(1, 1), of(1, 4), of(1, 5)];
    assert_eq!(schedule.replace(second, third.into_iter(), at(1_000_000_000)), [ProbeId(1)]);
    let places = |id| schedule.entry(ProbeId(id)).unwrap().places.iter().collect::<Vec<_>>();
    assert_eq!(places(0), [(0, 1, 0), (1, 1, 0)]);
    assert_eq!((places(2), places(3), places(4)), (vec![(0, 3, 0)], vec![(1, 4, 0)], vec![(1, 5, 0)]));
    assert_eq!([0, 2, 3].map(|id| phase(&schedule, id)), phases);
    assert!([0, 2, 3].iter().all(|id| schedule.is_running(ProbeId(*id))) && !schedule.is_running(ProbeId(4)));
    // Nobody asks the shared one but the pool that stays, and then nobody.
    assert_eq!(
        schedule.replace(|pool| (pool == 0).then_some(0), std::iter::empty(), at(1_100_000_000)),
        [ProbeId(3)]
    );
    assert_eq!(schedule.entry(ProbeId(0)).unwrap().places.iter().collect::<Vec<_>>(), [(0, 1, 0)]);
    assert_eq!(schedule.replace(all_go, std::iter::empty(), at(1_200_000_000)), [ProbeId(0), ProbeId(2)]);
    assert_eq!((schedule.len(), start(&mut schedule, at(9_000_000_000))), (0, vec![]));
}

#[test]
fn times_that_nobody_has_any_more_do_not_pile_up() {
    let mut schedule = Schedule::default();
    for turn in 0..1000 {
        let checks = (0..10).map(|n| check(n + 10 * (turn % 2), 60 * SECOND, 60 * SECOND));
        schedule.replace(all_go, checks, at(u64::from(turn)));
        assert!(schedule.queue.len() <= 2 * schedule.len(), "{}", schedule.queue.len());
    }
}
