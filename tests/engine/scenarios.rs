//! Runs every file of `scenarios/`: a simulated world of servers around the engine, in virtual time.
//!
//! A file has a `title`, a `source` (cases.md, or a section of design.md), topologies by name in the
//! words of lvsd.toml, `max_down_rate` by a topology's name, and steps. A step first does what its keys
//! say at its time, `at` seconds after the first, then expects.
//!
//! | key of a step | |
//! |---|---|
//! | `start`, `reload` | name of a topology; a later `start` ends a run that was killed at the step before |
//! | `found`, `forgets` | of a `start`: the table that the kernel has, if not the last one; there is no state file |
//! | `now` | what checks find from now on: `A down`, `A:443 up`, `A hangs`, `A local-error`, `A weight 5`, `A adds -3`; `A takes 0.3` seconds |
//! | `reads` | of a `start` or `reload`: all checks are read before it, as the daemon does with files |
//! | `wake` | a server whose checks are to run at once |
//! | `present` | all addresses and files that are there from now on, `V on eth0`, `/run/active` |
//! | `order` | `drain A`, `disable A in web`, `enable A`, `weight A 5`, `weight A auto`; `… for 3` seconds |
//! | `expect` | the whole table |
//! | `news` | all news of servers, quorums and gates (`web V active`) since the step before, in order |
//! | `runs` | all runs started since the step before, `A@1.2`, and cancelled, `A cancelled` |
//! | `never`, `always` | of every table since the step before: `V empty`, `V serving`, `V A`, `V A>0`, `V A=3` |
//! | `plan` | of a `reload`: its actions |

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lvsd::engine::memory::Memory;
use lvsd::engine::model::{Config, DownRate, Fault, Outcome, Phase, Probe, Target, Verdict, WeightChange};
use lvsd::engine::snapshot::OrderNote;
use lvsd::engine::table::Table;
use lvsd::engine::{Command, Engine, Identity, OrderChange, Presence, ProbeId, Readings, Selector, Time};
use serde::Deserialize;

use crate::topology::{self, Seconds, Topology};
use crate::{gate, lines, names, news};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    title: String,
    source: Vec<String>,
    topology: BTreeMap<String, Topology>,
    /// By the name of a topology.
    #[serde(default)]
    max_down_rate: BTreeMap<String, Rate>,
    step: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rate {
    servers: NonZeroU32,
    per: Seconds,
}

impl Scenario {
    fn config(&self, name: &str) -> Config {
        let mut config = topology::lower(&self.topology[name]);
        let rate = |rate: &Rate| DownRate { servers: rate.servers, per: rate.per.duration() };
        config.daemon.max_down_rate = self.max_down_rate.get(name).map(rate);
        config
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    #[serde(default)]
    note: String,
    at: Seconds,
    start: Option<String>,
    found: Option<Vec<String>>,
    #[serde(default)]
    forgets: bool,
    reload: Option<String>,
    #[serde(default)]
    now: Vec<String>,
    #[serde(default)]
    reads: bool,
    wake: Option<String>,
    present: Option<Vec<String>>,
    order: Option<String>,
    expect: Option<Vec<String>>,
    news: Option<Vec<String>>,
    runs: Option<Vec<String>>,
    #[serde(default)]
    never: Vec<String>,
    #[serde(default)]
    always: Vec<String>,
    plan: Option<Vec<String>>,
}

#[test]
fn every_scenario_comes_out_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/scenarios");
    let only = std::env::var("LVSD_SCENARIO").unwrap_or_default();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut wrong = Vec::new();
    let mut count = 0;
    for file in files.iter().filter(|f| f.file_name().unwrap().to_string_lossy().contains(&only)) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let scenario: Scenario = toml::from_str(&std::fs::read_to_string(file).unwrap())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!scenario.title.is_empty() && !scenario.source.is_empty(), "{name}: title and source");
        count += 1;
        wrong.extend(run(&scenario).into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(count > 0, "no scenario called {only}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn run(scenario: &Scenario) -> Vec<String> {
    let mut world: Option<World> = None;
    let mut wrong = Vec::new();
    for (number, step) in scenario.step.iter().enumerate() {
        let at = step.at.duration();
        if let Some(world) = world.as_mut().filter(|_| step.start.is_none()) {
            world.clear();
            world.advance_to(at);
        }
        if let Some(name) = &step.start {
            let config = scenario.config(name);
            let found = step.found.as_deref().map(lines::read);
            let memory = match &world {
                Some(world) if !step.forgets => world.engine.memory(world.now()),
                Some(_) | None => Memory::default(),
            };
            let kernel = found.or_else(|| world.as_ref().map(|w| w.kernel.clone())).unwrap_or_default();
            let (behaviour, presence) = world.take().map(|w| (w.behaviour, w.presence)).unwrap_or_default();
            world = Some(World::start(&config, &memory, kernel, at, (behaviour, presence), step));
        }
        let world = world.as_mut().unwrap_or_else(|| panic!("the first step starts"));
        for text in &step.now {
            world.behave(text);
        }
        world.look_around(step);
        let mut plan = None;
        if let Some(name) = &step.reload {
            let config = scenario.config(name);
            let readings = world.readings(&config, step);
            let done = world.engine.handle_reload(&config, &readings, world.now());
            plan = Some(done.actions.iter().map(ToString::to_string).collect());
        }
        if step.present.is_some() && step.start.is_none() && step.reload.is_none() {
            world.engine.handle_presence(&world.presence, world.now());
        }
        if let Some(name) = &step.wake {
            let wanted = |probe: &Probe| target_name(&probe.target) == *name;
            world.engine.handle_wakeup(wanted, world.now());
        }
        if let Some(order) = &step.order {
            world.order(order);
        }
        world.settle();
        for what in world.judge(step, plan) {
            wrong.push(format!("step {} at {at:?} {:?}: {what}", number + 1, step.note));
        }
    }
    wrong
}

struct World {
    engine: Engine,
    /// Since the first step.
    elapsed: Duration,
    kernel: Table,
    behaviour: BTreeMap<String, Behaviour>,
    presence: Presence,
    /// Runs in flight, by when they end.
    running: BTreeMap<(Duration, ProbeId), String>,
    news: Vec<String>,
    runs: Vec<String>,
    /// Every table since the last step.
    tables: Vec<Table>,
}

#[derive(Clone, Debug, Default)]
struct Behaviour {
    finds: Finds,
    takes: Option<Duration>,
}

#[derive(Clone, Debug, Default)]
enum Finds {
    #[default]
    Up,
    Down,
    Hangs,
    LocalError,
    Weight(WeightChange),
}

/// The engine's clock never starts at zero.
const EPOCH: Time = Time::from_nanos(1_000_000_000_000);
const USUAL_LATENCY: Duration = Duration::from_millis(1);

impl World {
    fn start(
        config: &Config,
        memory: &Memory,
        kernel: Table,
        elapsed: Duration,
        (behaviour, presence): (BTreeMap<String, Behaviour>, Presence),
        step: &Step,
    ) -> Self {
        let mut world = Self {
            engine: Engine::default(),
            elapsed,
            kernel,
            behaviour,
            presence,
            running: BTreeMap::new(),
            news: Vec::new(),
            runs: Vec::new(),
            tables: Vec::new(),
        };
        for text in &step.now {
            world.behave(text);
        }
        world.look_around(step);
        let readings = world.readings(config, step);
        world.engine = Engine::start(config, memory, &world.kernel, &readings, world.now());
        let ours: Vec<_> = world.engine.services().collect();
        world.kernel.services.retain(|id, _| ours.contains(id));
        world
    }

    fn readings(&self, config: &Config, step: &Step) -> Readings {
        let servers = config.virtual_servers.iter().flat_map(|v| &v.real_servers);
        let probes = servers.flat_map(|s| &s.checks).map(|check| &check.probe).filter(|_| step.reads);
        let outcomes = probes.map(|p| (Identity::of(p), self.outcome(&target_name(&p.target))));
        Readings { outcomes: outcomes.collect(), presence: self.presence.clone() }
    }

    fn look_around(&mut self, step: &Step) {
        if let Some(present) = &step.present {
            self.presence = gate::read_presence(present);
        }
    }

    fn now(&self) -> Time {
        EPOCH + self.elapsed
    }

    fn clear(&mut self) {
        self.news.clear();
        self.runs.clear();
        self.tables = vec![self.kernel.clone()];
    }

    fn behave(&mut self, text: &str) {
        let words: Vec<&str> = text.split(' ').collect();
        let entry = self.behaviour.entry(words[0].to_owned()).or_default();
        match words[1..] {
            ["up"] => entry.finds = Finds::Up,
            ["down"] => entry.finds = Finds::Down,
            ["hangs"] => entry.finds = Finds::Hangs,
            ["local-error"] => entry.finds = Finds::LocalError,
            ["weight", weight] => {
                entry.finds = Finds::Weight(WeightChange::Absolute(weight.parse().unwrap()))
            }
            ["adds", delta] => entry.finds = Finds::Weight(WeightChange::Delta(delta.parse().unwrap())),
            ["takes", seconds] => entry.takes = Some(Duration::from_secs_f64(seconds.parse().unwrap())),
            _ => panic!("no such behaviour: {text}"),
        }
    }

    fn order(&mut self, text: &str) {
        let mut words: Vec<&str> = text.split(' ').collect();
        let mut option = |name: &str| {
            let at = words.iter().position(|w| *w == name)?;
            let value = words.remove(at + 1);
            words.remove(at);
            Some(value.to_owned())
        };
        let lasts = option("for").map(|seconds| Duration::from_secs_f64(seconds.parse().unwrap()));
        let virtual_server = option("in");
        let (change, name) = match words[..] {
            ["drain", name] => (OrderChange::Drain, name),
            ["disable", name] => (OrderChange::Disable, name),
            ["enable", name] => (OrderChange::Enable, name),
            ["weight", name, "auto"] => (OrderChange::WeightAuto, name),
            ["weight", name, weight] => (OrderChange::Weight(weight.parse().unwrap()), name),
            _ => panic!("no such order: {text}"),
        };
        let (address, port) = names::read(name);
        let selector = Selector { address, port, virtual_server: virtual_server.as_deref() };
        let now = self.now();
        let note =
            OrderNote { by: "root".to_owned(), reason: None, since: now, until: lasts.map(|l| now + l) };
        let ordered = self.engine.handle_order(selector, change, &note).map(|_| ());
        assert!(ordered.is_ok(), "{text}: {ordered:?}");
    }

    fn advance_to(&mut self, end: Duration) {
        assert!(end >= self.elapsed, "steps are in order of time");
        for _ in 0..100_000 {
            let due = self.engine.poll_timeout().map(|at| at.since(EPOCH));
            let ends = self.running.keys().next().map(|(at, _)| *at);
            let next = due.into_iter().chain(ends).min().filter(|at| *at <= end);
            self.elapsed = next.unwrap_or(end).max(self.elapsed);
            while let Some(((at, id), target)) = self.running.pop_first() {
                if at > self.elapsed {
                    self.running.insert((at, id), target);
                    break;
                }
                let outcome = self.outcome(&target);
                self.engine.handle_outcome(id, &outcome, self.now());
                self.settle();
            }
            self.settle();
            if next.is_none() {
                return;
            }
        }
        panic!("no end before {end:?}");
    }

    fn behaviour_of(&self, target: &str) -> Behaviour {
        let host = target.split(':').next().unwrap_or_default();
        self.behaviour.get(target).or_else(|| self.behaviour.get(host)).cloned().unwrap_or_default()
    }

    fn outcome(&self, target: &str) -> Outcome {
        let behaviour = self.behaviour_of(target);
        let fault = |phase, reason: &str| Fault { phase, reason: reason.to_owned() };
        let success = |weight| Verdict::Success { detail: "connected".to_owned(), weight };
        let verdict = match behaviour.finds {
            Finds::Up => success(WeightChange::None),
            Finds::Weight(weight) => success(weight),
            Finds::Down => Verdict::Failure(fault(Phase::Connect, "connection refused (ECONNREFUSED)")),
            Finds::Hangs => Verdict::Failure(fault(Phase::Reply, "no answer in time")),
            Finds::LocalError => Verdict::LocalError(fault(Phase::Socket, "no descriptors (EMFILE)")),
        };
        Outcome { verdict, latency: behaviour.takes.unwrap_or(USUAL_LATENCY) }
    }

    /// The end of the caller's loop.
    fn settle(&mut self) {
        self.engine.handle_timeout(self.now());
        while let Some(command) = self.engine.next_command() {
            match command {
                Command::Start { id, check } => {
                    let target = target_name(&check.probe.target);
                    let behaviour = self.behaviour_of(&target);
                    let takes = match behaviour.finds {
                        Finds::Hangs => check.timing.timeout,
                        _ => behaviour.takes.unwrap_or(USUAL_LATENCY).min(check.timing.timeout),
                    };
                    self.runs.push(format!("{target}@{}", seconds(self.elapsed)));
                    self.running.insert((self.elapsed + takes, id), target);
                }
                Command::Cancel { id } => {
                    let at = self.running.keys().find(|(_, known)| *known == id).copied();
                    let target = at.and_then(|at| self.running.remove(&at)).expect("a run in flight");
                    self.runs.push(format!("{target} cancelled"));
                }
            }
        }
        while let Some(event) = self.engine.next_event() {
            self.news.extend(news::write(&event));
            self.news.extend(gate::lines(&event));
        }
        let changes = self.engine.take_table_changes();
        if changes.is_empty() {
            return;
        }
        for (id, service) in changes {
            match service {
                Some(service) => self.kernel.services.insert(id, service),
                None => self.kernel.services.remove(&id),
            };
        }
        self.tables.push(self.kernel.clone());
    }

    fn judge(&self, step: &Step, plan: Option<Vec<String>>) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut compare = |what: &str, wanted: &Option<Vec<String>>, got: &[String]| {
            if let Some(wanted) = wanted.as_ref().filter(|w| **w != got) {
                wrong.push(format!("{what}\n  wanted {wanted:?}\n  got    {got:?}"));
            }
        };
        compare("table", &step.expect, &lines::write(&self.kernel));
        compare("news", &step.news, &self.news);
        compare("runs", &step.runs, &self.runs);
        compare("plan", &step.plan, &plan.unwrap_or_default());
        for table in &self.tables {
            for predicate in step.never.iter().filter(|p| lines::holds(p, table)) {
                wrong.push(format!("never {predicate:?}, yet {:?}", lines::write(table)));
            }
            for predicate in step.always.iter().filter(|p| !lines::holds(p, table)) {
                wrong.push(format!("always {predicate:?}, yet {:?}", lines::write(table)));
            }
        }
        wrong
    }
}

fn target_name(target: &Target) -> String {
    names::write(target.address, Some(target.port))
}

/// `1.25`, `3`: to the millisecond.
fn seconds(elapsed: Duration) -> String {
    let text = format!("{:.3}", elapsed.as_secs_f64());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
