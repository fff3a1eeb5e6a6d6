//! What must hold of every reload and start, whatever the world: said without the reference model.

use std::collections::BTreeSet;
use std::time::Duration;

use lvsd::engine::memory::Memory;
use lvsd::engine::model::{Config, Fault, Outcome, Phase, Verdict};
use lvsd::engine::table::{ServiceId, Table};
use lvsd::engine::{Command, Engine, ProbeId, Readings, Time};
use proptest::prelude::*;

use crate::agreement::{Step, any_step, any_verdict, go_on, outcome, play_to};
use crate::cases::hold;
use crate::driver::{Pair, readings};
use crate::freeze::with_canary;
use crate::gate::active_services;
use crate::universe::{
    CheckSpec, PoolSpec, SERVERS, ServerSpec, WorldSpec, any_check, any_pool, any_server, any_world, timing,
};

/// The full agreement runs more often; this is a part of its cases.
const PART: u32 = 5;

fn any_run() -> impl Strategy<Value = (WorldSpec, Vec<Step>)> {
    (any_world(), prop::collection::vec(any_step(), 0..40))
}

#[test]
fn an_unchanged_reload_is_nothing() {
    hold(PART, any_run(), |(world, steps)| {
        let (_, mut pair) = play_to(&world, &steps);
        let engine = &mut pair.engine;
        let before = (engine.table(), engine.snapshot(None), engine.memory(pair.now), engine.poll_timeout());
        let plan = engine.handle_reload(&pair.config, &readings(&pair.presence), pair.now);
        engine.handle_timeout(pair.now);
        prop_assert_eq!(plan.actions, []);
        prop_assert!(engine.next_command().is_none() && engine.next_event().is_none());
        prop_assert_eq!(engine.take_table_changes(), []);
        let after = (engine.table(), engine.snapshot(None), engine.memory(pair.now), engine.poll_timeout());
        prop_assert_eq!(before, after);
        Ok(())
    });
}

/// In each pool: its min_alive, and the places of those that can be given traffic.
fn standing(engine: &Engine) -> Vec<(usize, BTreeSet<usize>)> {
    let minima = engine.virtual_servers().iter().map(lvsd::engine::VirtualServer::min_alive);
    let snapshot = engine.snapshot(None);
    let standing = snapshot.virtual_servers.iter().map(|pool| {
        let servers = pool.real_servers.iter().enumerate();
        let stands = servers.filter(|(_, s)| (s.alive || s.kept.is_some()) && s.effective_weight > 0);
        stands.map(|(at, _)| at).collect()
    });
    minima.zip(standing).collect()
}

#[test]
fn failures_leave_min_alive_and_put_nobody_in() {
    hold(PART, any_run(), |(world, steps)| {
        let (_, mut pair) = play_to(&world, &steps);
        for round in 0..4 {
            let running: Vec<ProbeId> = pair.running.keys().copied().collect();
            for id in running {
                let before = standing(&pair.engine);
                pair.finish(id, &refused());
                for ((min, was), (min_now, is)) in before.iter().zip(standing(&pair.engine)) {
                    let wanted = was.len().min(*min).min(min_now);
                    prop_assert!(is.len() >= wanted, "round {}: {:?} of {:?} left", round, is, was);
                    prop_assert!(is.is_subset(was), "{:?} after {:?}", is, was);
                }
            }
            pair.advance(Duration::from_millis(1500));
        }
        Ok(())
    });
}

/// When servers leave by verdicts: never more at once than the rate lets, whatever fails.
#[test]
fn no_more_leave_in_any_window_than_the_rate_lets() {
    hold(PART, (any_run(), 1..4_u32, 500..5000_u64), |((mut world, steps), servers, per)| {
        world.max_down_rate = Some((servers, per));
        let steps: Vec<Step> =
            steps.into_iter().filter(|s| !matches!(s, Step::World(_) | Step::Edit(_))).collect();
        let (_, mut pair) = play_to(&world, &steps);
        let per = Duration::from_millis(per);
        let mut left: Vec<Time> = Vec::new();
        for _ in 0..12 {
            let running: Vec<ProbeId> = pair.running.keys().copied().collect();
            let mut before = standing(&pair.engine);
            for id in running {
                pair.finish(id, &refused());
                left.extend(gone(&mut before, &pair));
            }
            for _ in 0..20 {
                pair.advance(Duration::from_millis(50));
                left.extend(gone(&mut before, &pair));
            }
        }
        for (at, first) in left.iter().enumerate() {
            let beyond = left.get(at + servers as usize);
            // Looked at every 50 ms.
            let near = per.saturating_sub(Duration::from_millis(50));
            prop_assert!(beyond.is_none_or(|last| last.since(*first) >= near), "{:?}", left);
        }
        Ok(())
    });
}

/// Those that have left since `before`, which is brought up to date; without those that an order took out.
fn gone(before: &mut Vec<(usize, BTreeSet<usize>)>, pair: &Pair) -> Vec<Time> {
    let now = standing(&pair.engine);
    let snapshot = pair.engine.snapshot(None);
    let mut left = Vec::new();
    for (((_, was), (_, is)), pool) in before.iter().zip(&now).zip(&snapshot.virtual_servers) {
        let by_verdict = |at: &&usize| {
            let server = &pool.real_servers[**at];
            server.order.is_none() && !server.alive && server.effective_weight > 0
        };
        left.extend(was.difference(is).filter(by_verdict).map(|_| pair.now));
    }
    *before = now;
    left
}

fn refused() -> Outcome {
    let fault = Fault { phase: Phase::Connect, reason: "refused".to_owned() };
    Outcome { verdict: Verdict::Failure(fault), latency: Duration::from_millis(1) }
}

/// Changes everything that is edited in place and decides nothing about who serves.
fn dress_up(world: &WorldSpec, timings: usize) -> WorldSpec {
    let mut world = world.clone();
    for pool in &mut world.pools {
        pool.scheduler = !pool.scheduler;
        pool.persistent = !pool.persistent;
        for server in &mut pool.servers {
            server.limited = !server.limited;
            server.inhibit = !server.inhibit;
            for check in &mut server.checks {
                check.timing = (check.timing + timings) % 4;
                check.alpha = !check.alpha;
                check.local_error_fails = !check.local_error_fails;
            }
        }
    }
    world
}

#[test]
fn there_and_back_is_the_identity() {
    hold(PART, (any_run(), 0..4_usize), |((world, steps), timings)| {
        let (world, mut pair) = play_to(&world, &steps);
        let other = with_canary(dress_up(&world, timings).config());
        let engine = &mut pair.engine;
        let before = (engine.table(), engine.snapshot(None), engine.memory(pair.now));
        engine.handle_reload(&other, &readings(&pair.presence), pair.now);
        engine.take_table_changes();
        engine.handle_reload(&pair.config, &readings(&pair.presence), pair.now);
        engine.take_table_changes();
        prop_assert_eq!(before, (engine.table(), engine.snapshot(None), engine.memory(pair.now)));
        prop_assert!(engine.next_event().is_none());
        Ok(())
    });
}

/// More of everything, so that nothing that was there goes: pools, servers, checks, another quorum. What
/// decides there by its history alone, hysteresis and how many have left lately, must be none.
fn grown(
    world: &WorldSpec,
    (pool, server, check): &(PoolSpec, ServerSpec, CheckSpec),
    quorum: u32,
) -> WorldSpec {
    let mut world = world.clone();
    world.pools.push(PoolSpec { hysteresis: 0, ..pool.clone() });
    for pool in &mut world.pools {
        pool.quorum = quorum;
        for server in &mut pool.servers {
            server.checks.push(check.clone());
        }
        // An address that no other server has, so that nobody's order is meant for it as well.
        pool.servers.push(ServerSpec { address: SERVERS, ..server.clone() });
    }
    world
}

#[test]
fn more_and_back_is_the_identity() {
    let more = (any_pool(), any_server(), any_check());
    hold(PART, (any_run(), more, 1..6_u32), |((world, steps), more, quorum)| {
        let (mut world, mut pair) = play_to(&world, &steps);
        world.pools.iter_mut().for_each(|pool| pool.hysteresis = 0);
        world.max_down_rate = None;
        let files = [world.config(), grown(&world, &more, quorum).config()];
        // The first turn learns what others know of the same check; what is learnt stays.
        for file in [0, 1, 0] {
            pair.reload(files[file].clone());
        }
        let seen = |pair: &Pair| (pair.engine.table(), pair.engine.snapshot(None), pair.kernel.clone());
        let before = seen(&pair);
        pair.reload(files[1].clone());
        pair.reload(files[0].clone());
        prop_assert_eq!(before, seen(&pair));
        Ok(())
    });
}

/// The same in another order: virtual servers, real servers, checks.
fn shuffle(config: &Config, by: usize) -> Config {
    let mut shuffled = config.clone();
    shuffled.virtual_servers.reverse();
    for pool in &mut shuffled.virtual_servers {
        let mut turned = (**pool).clone();
        let len = turned.real_servers.len().max(1);
        turned.real_servers.rotate_left(by % len);
        for server in &mut turned.real_servers {
            let mut other = (**server).clone();
            other.checks.reverse();
            *server = other.into();
        }
        *pool = turned.into();
    }
    shuffled
}

#[test]
fn the_order_of_the_file_decides_nothing() {
    let later = prop::collection::vec(any_step(), 0..20);
    hold(PART, (any_run(), later, 0..4_usize), |((world, steps), later, by)| {
        let (_, mut pair) = play_to(&world, &steps);
        let (_, mut other) = play_to(&world, &steps);
        let shuffled = shuffle(&pair.config, by);
        other.reload(shuffled.clone());
        let due = pair.engine.poll_timeout();
        prop_assert_eq!(due, other.engine.poll_timeout());
        // Who is told what, at the same step, in whatever order.
        let told = |pair: &mut Pair| {
            let mut told: Vec<String> = pair.told.drain(..).map(|news| format!("{news:?}")).collect();
            told.sort();
            told
        };
        prop_assert_eq!(told(&mut pair), told(&mut other));
        for step in &later {
            go_on(&mut pair, step);
            go_on(&mut other, step);
            prop_assert_eq!(pair.engine.table(), other.engine.table());
            prop_assert_eq!(told(&mut pair), told(&mut other));
        }
        // Nor does it when both files are started from what is remembered.
        let (memory, before) = (pair.engine.memory(pair.now), pair.engine.table());
        let start = |config| {
            let mut engine = Engine::start(config, &memory, &before, &readings(&pair.presence), pair.now);
            engine.take_table_changes();
            engine.table()
        };
        prop_assert_eq!(start(&pair.config), start(&shuffled));
        Ok(())
    });
}

#[test]
fn a_result_of_a_check_that_has_gone_changes_nothing() {
    hold(PART, (any_run(), any_world(), any_verdict()), |((world, steps), next, verdict)| {
        let (_, mut pair) = play_to(&world, &steps);
        let before = pair.in_flight();
        pair.reload(next.config());
        let gone: Vec<_> = before.into_iter().filter(|id| !pair.running.contains_key(id)).collect();
        // And one that has said its last word.
        let done = pair.in_flight().first().copied();
        done.inspect(|id| pair.finish(*id, &outcome(&verdict)));
        let done = done.filter(|id| !pair.running.contains_key(id));
        let now = pair.now;
        let engine = &mut pair.engine;
        let state = |e: &Engine| (e.table(), e.snapshot(None), e.memory(now), e.poll_timeout());
        for id in gone.iter().chain(&done) {
            let before = state(engine);
            engine.handle_outcome(*id, &outcome(&verdict), now);
            engine.handle_timeout(now);
            prop_assert!(engine.next_command().is_none() && engine.next_event().is_none());
            prop_assert_eq!(engine.take_table_changes(), []);
            prop_assert_eq!(before, state(engine));
        }
        Ok(())
    });
}

/// Commands of one moment.
fn commands(engine: &mut Engine, now: Time) -> Vec<Command> {
    engine.handle_timeout(now);
    std::iter::from_fn(|| engine.next_command()).collect()
}

#[test]
fn reloads_that_never_end_starve_no_check() {
    // A reload every 50 ms, between two files that say the same with other servers around: each check
    // that stays must run as often as if there were none.
    hold(PART, (any_world(), any_world()), |(one, other)| {
        let quick = |mut world: WorldSpec| {
            let checks = world.pools.iter_mut().flat_map(|p| &mut p.servers).flat_map(|s| &mut s.checks);
            checks.for_each(|check| check.timing = 0);
            world.config()
        };
        let files = [quick(one), quick(other)];
        let period = timing(0).delay_loop;
        let mut engine =
            Engine::start(&files[0], &Memory::default(), &Table::default(), &Readings::new(), Time::ZERO);
        let probes = |config: &lvsd::engine::model::Config| {
            let checks = config.virtual_servers.iter().flat_map(|v| &v.real_servers).flat_map(|s| &s.checks);
            checks.map(|c| format!("{:?}", c.probe)).collect::<BTreeSet<_>>()
        };
        let staying: BTreeSet<_> = probes(&files[0]).intersection(&probes(&files[1])).cloned().collect();
        let mut last_run: std::collections::BTreeMap<_, _> =
            staying.iter().map(|p| (p.clone(), Time::ZERO)).collect();
        let outcome = lvsd::engine::model::Outcome {
            verdict: lvsd::engine::model::Verdict::Success {
                detail: String::new(),
                weight: lvsd::engine::model::WeightChange::None,
            },
            latency: Duration::ZERO,
        };
        for turn in 1..100_usize {
            let now = Time::ZERO + Duration::from_millis(50) * u32::try_from(turn).unwrap();
            let mut ended: Vec<ProbeId> = Vec::new();
            for command in commands(&mut engine, now) {
                if let Command::Start { id, check } = command {
                    ended.push(id);
                    last_run.entry(format!("{:?}", check.probe)).and_modify(|at| *at = now);
                }
            }
            for id in ended {
                engine.handle_outcome(id, &outcome, now);
            }
            for (probe, at) in &last_run {
                let waited = now.since(*at);
                prop_assert!(waited <= period + Duration::from_millis(50), "{} waits {:?}", probe, waited);
            }
            engine.handle_reload(&files[turn % 2], &Readings::new(), now);
        }
        Ok(())
    });
}

#[test]
fn a_state_file_of_another_clock_says_nothing_of_verdicts() {
    let world = any_run();
    hold(PART, world, |(world, steps)| {
        let (_, pair) = play_to(&world, &steps);
        let Pair { engine, now, config, .. } = pair;
        let earlier = Time::from_nanos(now.as_nanos() - 1);
        let start = |memory: &Memory| {
            let mut engine = Engine::start(&config, memory, &Table::default(), &Readings::new(), earlier);
            engine.take_table_changes();
            (engine.table(), engine.snapshot(None))
        };
        let ahead = engine.memory(now);
        let unknown = Memory { saved_at: None, ..ahead.clone() };
        prop_assert_eq!(start(&ahead), start(&unknown));
        Ok(())
    });
}

#[test]
fn changes_add_up_to_the_table() {
    // Also when they are not taken for a while.
    hold(PART, (any_run(), any_world()), |((world, steps), next)| {
        let (_, mut pair) = play_to(&world, &steps);
        let engine = &mut pair.engine;
        let mut kernel = engine.table();
        engine.handle_reload(&next.config(), &readings(&pair.presence), pair.now);
        engine.handle_reload(&world.config(), &readings(&pair.presence), pair.now);
        engine.handle_reload(&next.config(), &readings(&pair.presence), pair.now);
        let changes = engine.take_table_changes();
        let ids: BTreeSet<ServiceId> = changes.iter().map(|(id, _)| *id).collect();
        prop_assert_eq!(ids.len(), changes.len(), "no service twice");
        for (id, service) in changes {
            let known = kernel.services.get(&id);
            // One that is not active is said to be ours all the same: the kernel may have it.
            prop_assert!(known != service.as_ref() || known.is_none(), "a change that is none");
            match service {
                Some(service) => kernel.services.insert(id, service),
                None => kernel.services.remove(&id),
            };
        }
        prop_assert_eq!(kernel, engine.table());
        let wanted = active_services(&next.config(), &pair.presence);
        prop_assert_eq!(engine.table().services.into_keys().collect::<BTreeSet<_>>(), wanted);
        prop_assert_eq!(engine.take_table_changes(), []);
        Ok(())
    });
}
