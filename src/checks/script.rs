//! `script`: one run of a program, and what its exit status says.
//!
//! Owns the bound on how many run at once. The outcome is given only when the process is gone, so
//! that no check ever has two of them; only one that cannot even be killed is left to itself, and
//! as long as it is there the check fails without a new one.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::fault::{Trouble, quoted};
use crate::engine::model::{
    Argv, Family, Fault, Outcome, Phase, Script, Source, Target, Verdict, WeightChange,
};
use crate::process::helper::{self, Capabilities, Fault as Blame};
use crate::process::{Ended, Leftovers, Order, Running};

/// Scripts at once, whatever is configured: each is a process of unknown size.
const PLACES: usize = 64;
/// Between TERM and KILL. keepalived waits twice as long.
const GRACE: Duration = Duration::from_secs(1);
/// For a killed process to be gone; one in the middle of a hanging system call may never be.
const REAP: Duration = Duration::from_secs(2);
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What all scripts of a daemon share, whatever configuration they are of.
#[derive(Clone, Debug)]
pub struct Scripts {
    helper: PathBuf,
    places: Arc<Semaphore>,
    /// Runs that outlived KILL. A mutex: never held across an await.
    immortal: Arc<Mutex<HashSet<(Argv, Target)>>>,
}

impl Default for Scripts {
    fn default() -> Self {
        Self::new(helper::path())
    }
}

impl Scripts {
    /// `helper`: an lvsd; the running one is the default.
    pub fn new(helper: PathBuf) -> Self {
        Self { helper, places: Arc::new(Semaphore::new(PLACES)), immortal: Arc::default() }
    }

    fn is_immortal(&self, key: &(Argv, Target)) -> bool {
        self.immortal.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    /// Waits for the end of what cannot be killed, if it ever comes.
    fn leave(&self, mut running: Running, key: (Argv, Target), place: OwnedSemaphorePermit) {
        let immortal = Arc::clone(&self.immortal);
        immortal.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        tokio::spawn(async move {
            let _how_it_ended = running.wait(Leftovers::Kill).await;
            immortal.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            drop(place);
        });
    }
}

#[derive(Debug)]
pub(super) struct Plan {
    script: Script,
    scripts: Scripts,
}

impl Plan {
    pub(super) fn new(script: &Script, scripts: &Scripts) -> Self {
        Self { script: script.clone(), scripts: scripts.clone() }
    }
}

/// Boxed: other checks need not be as large.
pub(super) fn probe(target: &Target, plan: &Plan, limit: Duration) -> impl Future<Output = Outcome> {
    Box::pin(async move {
        let started = Instant::now();
        // What waits for other scripts says nothing about the server.
        let Ok(Ok(place)) = timeout(limit, Arc::clone(&plan.scripts.places).acquire_owned()).await else {
            let reason = format!("{PLACES} scripts run already and none has ended for {limit:?}");
            return Outcome { verdict: Trouble::Local(fault(reason)).into(), latency: started.elapsed() };
        };
        let started = Instant::now();
        let verdict = match run(target, plan, limit, place).await {
            Ok((detail, weight)) => Verdict::Success { detail, weight },
            Err(trouble) => trouble.into(),
        };
        Outcome { verdict, latency: started.elapsed() }
    })
}

async fn run(
    target: &Target,
    plan: &Plan,
    limit: Duration,
    place: OwnedSemaphorePermit,
) -> Result<(String, WeightChange), Trouble> {
    let key = (plan.script.argv.clone(), target.clone());
    if plan.scripts.is_immortal(&key) {
        return Err(Trouble::Failure(fault("a run before this one cannot be killed".to_owned())));
    }
    let order = Order {
        helper: plan.scripts.helper.clone(),
        user: plan.script.user.clone(),
        capabilities: Capabilities::Drop,
        program: plan.script.argv.program.clone(),
        arguments: plan.script.argv.arguments.clone(),
        environment: environment(target, limit),
    };
    let mut running = Running::start(&order).map_err(|e| Trouble::Local(fault(e.to_string())))?;
    match timeout(limit, running.wait(Leftovers::Kill)).await {
        Ok(Ok(ended)) => return judge(&ended, &plan.script),
        Ok(Err(problem)) => return Err(Trouble::Local(fault(format!("waiting for the script: {problem}")))),
        Err(_elapsed) => {}
    }
    running.signal(Signal::SIGTERM);
    if timeout(GRACE, running.wait(Leftovers::Kill)).await.is_err() {
        running.signal(Signal::SIGKILL);
        if timeout(REAP, running.wait(Leftovers::Kill)).await.is_err() {
            let id = running.id().unwrap_or_default();
            plan.scripts.leave(running, key, place);
            let reason = format!("timed out after {limit:?}, and process {id} cannot be killed");
            return Err(Trouble::Failure(fault(reason)));
        }
    }
    // Whatever it says now comes too late.
    Err(Trouble::Failure(fault(format!("timed out after {limit:?}"))))
}

const fn fault(reason: String) -> Fault {
    Fault { phase: Phase::Run, reason }
}

/// Nothing of the daemon's own, and what is checked.
fn environment(target: &Target, limit: Duration) -> Vec<(&'static str, String)> {
    let Target { address, port, source: _ } = target;
    let Source { ip, port: bind_port, interface, fwmark } = target.source();
    let given = [
        ("PATH", Some(PATH.to_owned())),
        ("LC_ALL", Some("C".to_owned())),
        ("LVSD_ADDRESS", Some(address.to_string())),
        ("LVSD_FAMILY", Some(Family::of(*address).to_string())),
        ("LVSD_PORT", (*port != 0).then(|| port.to_string())),
        ("LVSD_TIMEOUT", Some(limit.as_secs_f64().to_string())),
        ("LVSD_BIND_IP", ip.map(|ip| ip.to_string())),
        ("LVSD_BIND_PORT", bind_port.map(|port| port.to_string())),
        ("LVSD_BIND_IF", interface.clone()),
        ("LVSD_FWMARK", fwmark.map(|mark| mark.to_string())),
    ];
    given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// 0 is good; with `dynamic_weight` 2 to 255 are too, but what shells say of programs that do not run.
fn judge(ended: &Ended, script: &Script) -> Result<(String, WeightChange), Trouble> {
    use std::os::unix::process::ExitStatusExt;
    if let Some(refused) = &ended.refused {
        let fault = fault(format!("not run: {}", refused.reason));
        return Err(match refused.fault {
            Blame::Script => Trouble::Failure(fault),
            Blame::Ours => Trouble::Local(fault),
        });
    }
    let said = last_line(&ended.output).map(|line| format!(": {}", quoted(line))).unwrap_or_default();
    let failed = |what: String| Err(Trouble::failure(Phase::Status, what + &said));
    match ended.status.code() {
        Some(0) => Ok(("exit status 0".to_owned(), WeightChange::None)),
        Some(code @ (2..=125 | 128..=255)) if script.dynamic_weight => {
            let weight = code.unsigned_abs() - 2;
            Ok((format!("exit status {code}, weight {weight}"), WeightChange::Absolute(weight)))
        }
        Some(code) => failed(format!("exit status {code}")),
        None => failed(format!("killed by signal {}", ended.status.signal().unwrap_or_default())),
    }
}

/// Where programs say why.
fn last_line(output: &[u8]) -> Option<&[u8]> {
    output.rsplit(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).find(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;
    use crate::process::Refused;

    fn script(dynamic_weight: bool) -> Script {
        let argv = Argv { program: "/bin/true".into(), arguments: vec![] };
        Script { argv, user: None, dynamic_weight }
    }

    fn ended(raw: i32, output: &str) -> Ended {
        Ended { status: ExitStatus::from_raw(raw), output: output.into(), refused: None }
    }

    #[test]
    fn what_an_exit_status_says() {
        let exit = |code: i32| ended(code << 8, "first\n  why\r\n\n");
        let plain =
            |code| judge(&exit(code), &script(false)).map(|(_, weight)| weight).map_err(Verdict::from);
        let dynamic =
            |code| judge(&exit(code), &script(true)).map(|(_, weight)| weight).map_err(Verdict::from);
        let failure = |reason: String| {
            Err(Verdict::Failure(Fault { phase: Phase::Status, reason: reason + ": \"why\"" }))
        };
        assert_eq!(plain(0), Ok(WeightChange::None));
        assert_eq!(dynamic(0), Ok(WeightChange::None));
        for code in [1, 126, 127] {
            assert_eq!(dynamic(code), failure(format!("exit status {code}")));
        }
        for code in [1, 2, 17, 126, 127, 255] {
            assert_eq!(plain(code), failure(format!("exit status {code}")));
        }
        for (code, weight) in [(2, 0), (3, 1), (125, 123), (128, 126), (255, 253)] {
            assert_eq!(dynamic(code), Ok(WeightChange::Absolute(weight)));
        }
        let killed = judge(&ended(9, ""), &script(true)).map_err(Verdict::from);
        let reason = "killed by signal 9".to_owned();
        assert_eq!(killed, Err(Verdict::Failure(Fault { phase: Phase::Status, reason })));
    }

    #[test]
    fn whose_fault_it_is_that_nothing_ran() {
        let refused = |fault| {
            let refused = Some(Refused { fault, reason: "x".to_owned() });
            judge(&Ended { refused, ..ended(126 << 8, "") }, &script(false)).map_err(Verdict::from)
        };
        let wanted = || Fault { phase: Phase::Run, reason: "not run: x".to_owned() };
        assert_eq!(refused(Blame::Script), Err(Verdict::Failure(wanted())));
        assert_eq!(refused(Blame::Ours), Err(Verdict::LocalError(wanted())));
    }
}
