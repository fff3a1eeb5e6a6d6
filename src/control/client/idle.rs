//! `lvsd drain --until-idle`: after the order, until nothing uses the server any more.
//!
//! Asks again and again; the daemon keeps nothing for it. Weight 0 lets what exists live on: TCP and SCTP
//! connections until they end or time out, and persistence templates until theirs, because new connections
//! of their clients still go to the server unless expire_quiescent_template is set.
//!
//! UDP has a rule of its own. IPVS sees no end of a UDP exchange, so an entry stays for the whole time-out
//! (5 minutes unless set) after its last packet: waiting for the entries to go would wait for nothing. What
//! counts is whether clients still send: UDP is idle when no packet has come for [`QUIET`].

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{ClientError, call, pause};
use crate::control::exit::ExitCode;
use crate::control::protocol::{Load, Place, Reply, Request};
use crate::control::{counted, duration};

const PACE: Duration = Duration::from_secs(1);
/// Without a UDP packet. Longer than the keep-alives of most protocols on UDP.
pub(super) const QUIET: Duration = Duration::from_secs(30);
/// For one answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// A daemon that is being restarted keeps its orders.
const ABSENCE: Duration = Duration::from_secs(30);

/// Waits at most `deadline`; says on `out` how it goes.
pub fn until_idle(
    socket: &Path,
    on: &Place,
    deadline: Duration,
    out: &mut dyn Write,
) -> Result<Result<String, String>, ClientError> {
    let end = Instant::now() + deadline;
    let mut watch = Watch::default();
    let mut heard = Instant::now();
    let mut said = String::new();
    loop {
        let now = Instant::now();
        match call(socket, &Request::Load { on: on.clone() }, PATIENCE) {
            Ok(Reply { ok: true, data: Some(data), .. }) => {
                heard = now;
                let load: Load = serde_json::from_str(data.get())
                    .map_err(|source| ClientError::Nonsense { path: socket.to_owned(), source })?;
                match watch.judge(&load, now) {
                    State::Idle => return Ok(Ok(format!("{} is idle{}", on.address, absence(&load)))),
                    State::Over(why) => return Ok(Err(format!("{} {why}", on.address))),
                    State::Busy(text) if text != said => {
                        // Whether anybody reads it changes nothing.
                        let _ = writeln!(out, "{text}").and_then(|()| out.flush());
                        said = text;
                    }
                    State::Busy(_) => {}
                }
            }
            // One that has begun anew, and does not know its table yet.
            Ok(Reply { code: ExitCode::Unreachable, .. }) if now <= heard + ABSENCE => {}
            Ok(reply) => return Ok(Err(reply.text)),
            Err(error) if error.exit_code() != ExitCode::Unreachable || heard + ABSENCE < now => {
                return Err(error);
            }
            Err(_restarting) => {}
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let waited = duration::display(deadline);
            let said = if said.is_empty() { "nothing is known of it yet" } else { &said };
            return Ok(Err(format!("{} is not idle after {waited}: {said}; it stays drained", on.address)));
        }
        pause(left.min(PACE));
    }
}

/// What several answers come to.
#[derive(Default)]
struct Watch {
    /// The look with which the server was first seen at weight 0.
    weightless_since: Option<u64>,
    /// How many UDP packets there were, and since when there have been no more.
    udp: Option<(u64, Instant)>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Idle,
    Busy(String),
    /// It is not drained any more.
    Over(&'static str),
}

impl Watch {
    fn judge(&mut self, load: &Load, now: Instant) -> State {
        if !load.drained {
            return State::Over("is not drained any more: somebody has ended it, or its time is over");
        }
        if !load.weightless {
            self.weightless_since = None;
            return State::Busy("waiting for the kernel to have it at weight 0".to_owned());
        }
        // The look that was under way when the weight was written may have begun before: its numbers are not
        // of the time after it.
        let first = *self.weightless_since.get_or_insert(load.looks);
        if load.looks < first.saturating_add(2) {
            return State::Busy("counting its connections".to_owned());
        }
        let quiet = match self.udp {
            Some((packets, since)) if packets == load.udp_packets => now.duration_since(since),
            Some(_) | None => {
                self.udp = Some((load.udp_packets, now));
                Duration::ZERO
            }
        };
        let idle = load.active == 0 && load.inactive == 0 && load.persistent == 0;
        if idle && (load.udp_flows == 0 || quiet >= QUIET) {
            return State::Idle;
        }
        State::Busy(text(load, quiet))
    }
}

/// Nothing is counted of a server that is in no table: that is not what whoever waits for its connections expects.
const fn absence(load: &Load) -> &'static str {
    match load {
        Load { absent: false, .. } => "",
        Load { absent: true, down: true, .. } => ": it is DOWN, and so not in the kernel's table any more",
        Load { absent: true, down: false, .. } => ": it is not in the kernel's table",
    }
}

/// `12 active and 3 inactive connections, 2 persistence templates, 40 UDP entries (no packet for 12s)`
fn text(load: &Load, quiet: Duration) -> String {
    let Load { active, inactive, persistent, udp_flows, .. } = load;
    let mut parts = vec![format!("{active} active and {inactive} inactive connections")];
    if *persistent > 0 {
        parts.push(counted(usize::try_from(*persistent).unwrap_or(usize::MAX), "persistence template"));
    }
    if *udp_flows > 0 {
        parts.push(format!("{udp_flows} UDP entries (no packet for {})", duration::display(quiet)));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::client::testing::Scripted;
    use crate::engine::model::RealServerId;

    fn load(looks: u64) -> Load {
        Load { drained: true, weightless: true, looks, ..Load::default() }
    }

    fn is_busy(state: &State) -> bool {
        matches!(state, State::Busy(_))
    }

    #[test]
    fn numbers_of_before_the_weight_was_written_do_not_count() {
        let (mut watch, now) = (Watch::default(), Instant::now());
        assert!(is_busy(&watch.judge(&Load { weightless: false, ..load(4) }, now)));
        assert!(is_busy(&watch.judge(&load(5), now)));
        assert!(is_busy(&watch.judge(&load(5), now)), "the same look again");
        assert!(is_busy(&watch.judge(&load(6), now)), "it may have begun before");
        assert_eq!(watch.judge(&load(7), now), State::Idle);
    }

    /// What is not known yet is not shown as if it were.
    #[test]
    fn only_numbers_of_after_the_weight_was_written_are_shown() {
        let (mut watch, now) = (Watch::default(), Instant::now());
        let counting = State::Busy("counting its connections".into());
        assert_eq!(watch.judge(&load(1), now), counting, "0 and 0, of before the last connections came");
        assert_eq!(watch.judge(&load(2), now), counting);
        let said = watch.judge(&Load { active: 1, inactive: 51, ..load(3) }, now);
        assert_eq!(said, State::Busy("1 active and 51 inactive connections".into()));
    }

    #[test]
    fn a_server_that_has_left_the_table_is_idle_and_the_words_say_why() {
        let mut watch = Watch::default();
        let gone = |down| Load { absent: true, down, ..load(3) };
        watch.judge(&load(1), Instant::now());
        assert_eq!(watch.judge(&gone(true), Instant::now()), State::Idle);
        assert_eq!(absence(&gone(true)), ": it is DOWN, and so not in the kernel's table any more");
        assert_eq!(absence(&gone(false)), ": it is not in the kernel's table");
        assert_eq!(
            absence(&Load { down: true, ..load(3) }),
            "",
            "it stays at weight 0, with inhibit_on_failure"
        );
    }

    #[test]
    fn a_daemon_that_begins_anew_meanwhile_is_waited_for() {
        let answer = |looks| Reply::done("").with_data(&load(looks)).unwrap();
        let starting = Reply::new(ExitCode::Unreachable, "lvsd is still starting: no ip_vs");
        let replies = [1, 2].map(answer).into_iter().chain([starting]).chain([3].map(answer));
        let daemon = Scripted::answering(replies.collect());
        let on = Place { address: id("198.51.100.11".parse().unwrap()), virtual_server: None };
        let mut said = Vec::new();
        let ended = until_idle(&daemon.socket(), &on, Duration::from_secs(60), &mut said).unwrap();
        assert_eq!(ended, Ok("198.51.100.11 is idle".to_owned()), "{}", String::from_utf8_lossy(&said));
        daemon.end();
    }

    const fn id(address: std::net::IpAddr) -> RealServerId {
        RealServerId { address, port: None }
    }

    #[test]
    fn connections_and_templates_have_to_go() {
        let (mut watch, now) = (Watch::default(), Instant::now());
        watch.judge(&load(1), now);
        for busy in [
            Load { active: 1, ..load(3) },
            Load { inactive: 1, ..load(4) },
            Load { persistent: 1, ..load(5) },
        ] {
            assert!(is_busy(&watch.judge(&busy, now)), "{busy:?}");
        }
        let said = watch.judge(&Load { active: 12, inactive: 3, persistent: 2, ..load(6) }, now);
        assert_eq!(said, State::Busy("12 active and 3 inactive connections, 2 persistence templates".into()));
        assert_eq!(watch.judge(&load(7), now), State::Idle);
        let over = watch.judge(&Load { drained: false, ..load(8) }, now);
        assert!(matches!(over, State::Over(_)));
    }

    #[test]
    fn udp_is_idle_when_nobody_sends() {
        let (mut watch, start) = (Watch::default(), Instant::now());
        watch.judge(&load(1), start);
        let at = |seconds| start + Duration::from_secs(seconds);
        let udp = |looks, packets| Load { udp_flows: 40, udp_packets: packets, ..load(looks) };
        assert!(is_busy(&watch.judge(&udp(3, 100), at(0))));
        assert!(is_busy(&watch.judge(&udp(4, 100), at(29))));
        assert!(is_busy(&watch.judge(&udp(5, 101), at(40))), "one more packet");
        let said = watch.judge(&udp(6, 101), at(52));
        let words = "0 active and 0 inactive connections, 40 UDP entries (no packet for 12s)";
        assert_eq!(said, State::Busy(words.into()));
        assert!(is_busy(&watch.judge(&Load { active: 1, ..udp(7, 101) }, at(80))));
        assert_eq!(watch.judge(&udp(8, 101), at(81)), State::Idle);
    }
}
