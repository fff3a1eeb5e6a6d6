//! `lvsd status --wait`: asks until the daemon answers and each of its checks has found something, so that what is shown is how
//! the servers are and not how they are taken to be before anybody has looked.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::{ClientError, call, pause};
use crate::control::exit::ExitCode;
use crate::control::protocol::{Reply, Request};
use crate::control::{counted, duration};

/// Between two questions.
const PACE: Duration = Duration::from_millis(200);
/// For an answer, at the end too: a long status takes its time.
const PATIENCE: Duration = Duration::from_secs(2);

/// The last answer.
#[derive(Debug)]
pub struct Waited {
    pub reply: Reply,
    /// What it still lacks, if the time was over.
    pub lacks: Option<String>,
}

/// Of a status what says whether a check has found anything.
#[derive(Deserialize)]
struct Status {
    virtual_servers: Vec<Pool>,
}

#[derive(Deserialize)]
struct Pool {
    real_servers: Vec<Server>,
}

#[derive(Deserialize)]
struct Server {
    checks: Vec<Check>,
}

#[derive(Deserialize)]
struct Check {
    has_run: bool,
    /// There is one also where a run could not be made and does not count.
    last: Option<serde::de::IgnoredAny>,
}

impl Waited {
    const fn all(reply: Reply) -> Self {
        Self { reply, lacks: None }
    }
}

impl Status {
    fn open(&self) -> usize {
        let servers = self.virtual_servers.iter().flat_map(|pool| &pool.real_servers);
        let checks = servers.flat_map(|server| &server.checks);
        checks.filter(|check| !check.has_run && check.last.is_none()).count()
    }
}

/// Asks for `limit`, at `socket`, which may be another each time. A daemon that cannot be talked to at all is not waited
/// for, nor is a virtual server that it does not have.
pub fn wait(
    socket: &dyn Fn() -> PathBuf,
    name: Option<String>,
    limit: Duration,
) -> Result<Waited, ClientError> {
    let request = Request::Status { name };
    let end = Instant::now() + limit;
    let mut seen = None;
    loop {
        let path = socket();
        let left = end.saturating_duration_since(Instant::now()).max(PATIENCE);
        let asked = call(&path, &request, left);
        let lacks = match &asked {
            Err(error) if error.exit_code() != ExitCode::Unreachable => return asked.map(Waited::all),
            // Still starting.
            Err(_) | Ok(Reply { code: ExitCode::Unreachable, .. }) => None,
            Ok(Reply { ok: true, data: Some(data), .. }) => {
                let status: Status = serde_json::from_str(data.get())
                    .map_err(|source| ClientError::Nonsense { path, source })?;
                match status.open() {
                    0 => return asked.map(Waited::all),
                    open => Some(open),
                }
            }
            Ok(_) => return asked.map(Waited::all),
        };
        let lacks = lacks.map(|open| {
            let checks = counted(open, "check");
            format!("after {} there is no result yet of {checks}", duration::display(limit))
        });
        let is_answered = lacks.is_some();
        let answered = asked.map(|reply| Waited { reply, lacks });
        if Instant::now() + PACE > end {
            // What was seen before says more than that the last question came to nothing.
            return match seen {
                Some(seen) if !is_answered => Ok(seen),
                Some(_) | None => answered,
            };
        }
        if is_answered {
            seen = answered.ok();
        }
        pause(PACE);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::control::client::testing::Scripted;

    const LONG: Duration = Duration::from_secs(60);

    /// With one check each.
    fn status(checks: &[Value]) -> Reply {
        let servers: Vec<Value> = checks.iter().map(|check| json!({"checks": [check]})).collect();
        let data = json!({"version": 1, "virtual_servers": [{"name": "web", "real_servers": servers}]});
        Reply::done("table").with_data(&data).unwrap()
    }

    fn starting() -> Reply {
        Reply::new(ExitCode::Unreachable, "lvsd is still starting: no ip_vs")
    }

    fn asked(replies: Vec<Reply>, limit: Duration) -> Result<Waited, ClientError> {
        let daemon = Scripted::answering(replies);
        let waited = wait(&|| daemon.socket(), None, limit);
        daemon.end();
        waited
    }

    #[test]
    fn it_asks_until_the_daemon_has_started_and_each_check_has_a_result() {
        let none = json!({"has_run": false, "last": null});
        let counted = json!({"has_run": true, "last": null});
        let did_not_count = json!({"has_run": false, "last": {"ok": false}});
        let open = status(&[counted.clone(), none]);
        let replies = vec![starting(), open, status(&[counted, did_not_count])];
        let Waited { reply, lacks } = asked(replies, LONG).unwrap();
        assert_eq!((reply.text.as_str(), lacks), ("table", None));
        let Waited { reply, lacks } = asked(vec![status(&[])], LONG).unwrap();
        assert_eq!((reply.ok, lacks), (true, None), "nothing is checked");
    }

    #[test]
    fn what_does_not_come_by_waiting_is_not_waited_for() {
        let Waited { reply, lacks } = asked(vec![Reply::failed("no such")], LONG).unwrap();
        assert_eq!((reply.code, lacks), (ExitCode::Failed, None));
        let nonsense = Reply::done("table").with_data(&json!({"virtual_servers": 7})).unwrap();
        let problem = asked(vec![nonsense], LONG).unwrap_err();
        assert!(matches!(problem, ClientError::Nonsense { .. }), "{problem}");
    }

    /// It ends meanwhile, or is too busy to answer once more.
    #[test]
    fn an_answer_counts_also_when_the_last_question_has_none() {
        let daemon = Scripted::answering(vec![status(&[json!({"has_run": false, "last": null})])]);
        let Waited { reply, lacks } = wait(&|| daemon.socket(), None, 3 * PACE).unwrap();
        assert_eq!((reply.text.as_str(), lacks.is_some()), ("table", true));
        daemon.end();
    }

    #[test]
    fn when_the_time_is_over_the_last_answer_counts() {
        let open = status(&[json!({"has_run": false, "last": null}), json!({"has_run": true, "last": null})]);
        let Waited { reply, lacks } = asked(vec![open], PACE / 2).unwrap();
        let said = "after 100ms there is no result yet of 1 check";
        assert_eq!((reply.text.as_str(), lacks.as_deref()), ("table", Some(said)));
        let Waited { reply, lacks } = asked(vec![starting()], PACE / 2).unwrap();
        assert_eq!((reply.code, lacks), (ExitCode::Unreachable, None));
        let folder = tempfile::tempdir().unwrap();
        let (began, limit) = (Instant::now(), 3 * PACE);
        let problem = wait(&|| folder.path().join("socket"), None, limit).unwrap_err();
        assert!(matches!(problem, ClientError::Unreachable { .. }), "{problem}");
        assert!(began.elapsed() >= limit - PACE, "it asks again and again");
    }
}
