//! What must be true of the engine's commands whatever the input: no probe runs twice at once, each runs
//! within its period, none is cancelled without need.

use lvsd::engine::model::{Config, Probe, Timing};
use lvsd::engine::{Command, Time};

use crate::driver::Pair;
use crate::model::same_run;

#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) probe: Probe,
    pub(crate) timing: Timing,
    /// Of its time-out.
    end: Time,
}

impl Pair {
    pub(crate) fn obey(&mut self, command: Command) {
        match command {
            Command::Start { id, check } => {
                let end = self.now + check.timing.timeout;
                let run = Run { probe: check.probe.clone(), timing: *check.timing, end };
                let twice = self.running.values().any(|r| r.is(&run.probe, &run.timing));
                assert!(!twice, "{:?} runs twice at once", run.probe);
                let last = self.last_start.iter_mut().find(|(p, t, _)| run.is(p, t));
                last.expect("a probe that nobody asked for").2 = self.now;
                assert!(self.running.insert(id, run).is_none());
            }
            Command::Cancel { id } => panic!("{id:?} was not to be cancelled"),
        }
    }

    /// Who owns the runs in flight after a reload. A run is given up only with its question, or
    /// where the question was asked at several speeds and one had to be chosen.
    pub(crate) fn follow_runs(&mut self, old: &[(Probe, Timing)]) {
        let mut cancelled = Vec::new();
        let mut commands = Vec::new();
        while let Some(command) = self.engine.next_command() {
            self.log.push(format!("{:?} {}", self.now, describe(&command)));
            match command {
                Command::Cancel { id } => cancelled.push(id),
                Command::Start { .. } => commands.push(command),
            }
        }
        let new = wanted(&self.config);
        let has = |set: &[(Probe, Timing)], run: &Run| set.iter().any(|(p, t)| run.is(p, t));
        let speeds = |set: &[(Probe, Timing)], run: &Run| set.iter().filter(|(p, _)| *p == run.probe).count();
        for id in cancelled {
            let run = self.running.remove(&id).expect("a cancelled run");
            let needless =
                has(&new, &run) || (speeds(&new, &run) > 0 && speeds(old, &run) == 1 && !has(&new, &run));
            assert!(!needless, "needless cancel of {run:?}");
        }
        for run in self.running.values_mut().filter(|run| !has(&new, run)) {
            let heirs = new
                .iter()
                .filter(|(p, t)| *p == run.probe && !old.iter().any(|(q, u)| q == p && same_run(t, u)));
            let (_, timing) = heirs.into_iter().next().expect("a run that nobody wants goes on");
            run.timing = *timing;
        }
        for command in commands {
            self.obey(command);
        }
    }

    /// Starts to expect what the configuration asks for.
    pub(crate) fn want_probes(&mut self, old: &[(Probe, Timing)]) {
        let now = self.now;
        let mut next = Vec::new();
        for (probe, timing) in wanted(&self.config) {
            let same = |(p, t, _): &&(Probe, Timing, Time)| *p == probe && same_run(t, &timing);
            let known = self.last_start.iter().find(same).map(|(_, _, at)| *at);
            assert_eq!(known.is_some(), old.iter().any(|(p, t)| *p == probe && same_run(t, &timing)));
            next.push((probe, timing, known.unwrap_or(now)));
        }
        self.last_start = next;
        assert_eq!(self.engine.probe_count(), self.last_start.len());
    }

    /// No probe waits longer than its period, unless it is running.
    pub(crate) fn check_punctuality(&self) {
        for (probe, timing, last) in &self.last_start {
            if self.running.values().any(|r| r.is(probe, timing)) {
                continue;
            }
            let wait = timing.delay_loop.max(timing.warmup).max(timing.delay_before_retry);
            // The run before may have taken whole periods; the next slot is the one after its end.
            let asked = self.engine.poll_timeout().expect("a probe waits and nothing is due");
            assert!(asked >= self.now || asked.since(*last) <= wait, "{probe:?} is late");
            assert!(asked <= self.now + wait, "{probe:?} must wait from {:?} to {asked:?}", self.now);
        }
        let overdue = self.running.values().map(|run| self.now.since(run.end)).max();
        assert_eq!(
            self.engine.lateness(self.now),
            overdue.unwrap_or_default(),
            "nothing waits to be started"
        );
    }
}

impl Run {
    fn is(&self, probe: &Probe, timing: &Timing) -> bool {
        self.probe == *probe && same_run(&self.timing, timing)
    }
}

/// Every question with the timing it is asked at, once.
pub(crate) fn wanted(config: &Config) -> Vec<(Probe, Timing)> {
    let mut wanted: Vec<(Probe, Timing)> = Vec::new();
    for check in config.virtual_servers.iter().flat_map(|v| &v.real_servers).flat_map(|s| &s.checks) {
        if !wanted.iter().any(|(p, t)| *p == check.probe && same_run(t, &check.timing)) {
            wanted.push((check.probe.clone(), *check.timing));
        }
    }
    wanted
}

pub(crate) fn describe(command: &Command) -> String {
    match command {
        Command::Start { id, check } => format!("start {id:?} {:?}", check.probe.target),
        Command::Cancel { id } => format!("cancel {id:?}"),
    }
}
