//! Pools, servers and checks that a reload takes away and the next one brings back.
//!
//! What comes back is new: it has no verdict, no count and no order of before. So it is the same again once its
//! checks have said the same again, and not before. What was there all the while does not notice: its services in
//! the table are never another, and no destination that is in both tables leaves, at no operation (`writing.rs`
//! sees to that in every reload of every test).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use lvsd::engine::model::{Outcome, Portion, Probe, Verdict};
use lvsd::engine::table::{Service, ServiceId};
use proptest::prelude::*;

use crate::agreement::{Step, any_step, any_verdict, play_to};
use crate::cases::hold;
use crate::driver::Pair;
use crate::universe::{SERVICES, WorldSpec, any_world};

/// As in `properties.rs`.
const PART: u32 = 5;

/// What each check finds, whenever it is asked.
#[derive(Debug)]
struct Truth(Vec<Verdict>);

impl Truth {
    fn of(&self, probe: &Probe) -> Outcome {
        let mut hasher = DefaultHasher::new();
        probe.hash(&mut hasher);
        let which = usize::try_from(hasher.finish() % 1024).unwrap() % self.0.len();
        Outcome { verdict: self.0[which].clone(), latency: Duration::from_millis(1) }
    }

    /// Until every check has said it so often that nothing but that counts.
    fn tell(&self, pair: &mut Pair) {
        for _ in 0..5 {
            for id in pair.in_flight() {
                if let Some(run) = pair.running.get(&id) {
                    let outcome = self.of(&run.probe);
                    pair.finish(id, &outcome);
                }
            }
            pair.advance(Duration::from_millis(3100));
        }
    }
}

/// Without what the choices, in a circle, say.
fn shrunk(world: &WorldSpec, choices: &[bool]) -> WorldSpec {
    let mut world = world.clone();
    let mut choices = choices.iter().copied().cycle();
    let mut goes = || choices.next().unwrap_or(false);
    for service in 0..SERVICES {
        if goes() {
            world.owners[service] = usize::MAX;
        }
    }
    for pool in &mut world.pools {
        pool.sorry = pool.sorry.take().filter(|_| !goes());
        pool.servers.retain(|_| !goes());
        for server in &mut pool.servers {
            server.checks.retain(|_| !goes());
        }
    }
    world
}

/// The table, and who is alive with which weight: all that must be the same again.
fn seen(pair: &Pair) -> impl PartialEq + std::fmt::Debug + use<> {
    let snapshot = pair.engine.snapshot(None);
    let pools = snapshot.virtual_servers.into_iter().map(|pool| {
        let servers = pool.real_servers.iter().map(|s| (s.address, s.alive, s.effective_weight));
        (pool.name, pool.quorum.up, servers.collect::<Vec<_>>())
    });
    (pair.engine.table(), pair.kernel.clone(), pools.collect::<Vec<_>>())
}

/// The services of pools that are in both worlds as they are.
fn untouched(pair: &Pair, one: &WorldSpec, other: &WorldSpec) -> BTreeMap<ServiceId, Option<Arc<Service>>> {
    let (one, other) = (one.config(), other.config());
    let same = one.virtual_servers.iter().filter(|pool| other.virtual_servers.contains(pool));
    let table = pair.engine.table();
    same.flat_map(|pool| &pool.services).map(|id| (*id, table.services.get(id).cloned())).collect()
}

#[test]
fn less_and_back_is_the_same_once_the_checks_have_said_the_same() {
    let steps = prop::collection::vec(any_step(), 0..40);
    let verdict = any_verdict()
        .prop_filter("a local error says nothing", |verdict| !matches!(verdict, Verdict::LocalError(_)));
    let truth = prop::collection::vec(verdict, 5).prop_map(Truth);
    let choices = prop::collection::vec(prop::bool::weighted(0.3), 61);
    hold(PART, (any_world(), steps, truth, choices), |(world, steps, truth, choices)| {
        // Orders go with their servers; while verdicts are frozen nothing is said.
        let of_checks = |step: &Step| !matches!(step, Step::Order { .. } | Step::AskCanaries(_));
        let steps: Vec<Step> = steps.into_iter().filter(of_checks).collect();
        let (mut world, mut pair) = play_to(&world, &steps);
        // What is decided by its history, whatever the checks say.
        world.max_down_rate = None;
        for pool in &mut world.pools {
            pool.hysteresis = 0;
            pool.min_alive = Portion::Count(0);
        }
        let less = shrunk(&world, &choices);
        // A weight that a check has once given stays until it gives another: all of them begin anew.
        let servers = |world: &WorldSpec| {
            let mut world = world.clone();
            world.pools.iter_mut().flat_map(|p| &mut p.servers).for_each(|server| server.checks.clear());
            world.config()
        };
        pair.reload(servers(&world));
        pair.reload(world.config());
        truth.tell(&mut pair);
        let (before, stayed) = (seen(&pair), untouched(&pair, &world, &less));
        for tells in [true, false] {
            pair.reload(less.config());
            prop_assert_eq!(&stayed, &untouched(&pair, &world, &less));
            if tells {
                truth.tell(&mut pair);
                prop_assert_eq!(&stayed, &untouched(&pair, &world, &less));
            }
            pair.reload(world.config());
            prop_assert_eq!(&stayed, &untouched(&pair, &world, &less));
            truth.tell(&mut pair);
            prop_assert_eq!(&before, &seen(&pair));
        }
        Ok(())
    });
}
