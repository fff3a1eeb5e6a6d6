//! Verdicts that are frozen, and thaw, as log lines and notifications.

use std::time::Duration;

use tracing::{debug, info, warn};

use super::{Announcer, EventKind, Names, ToTell, of_daemon};
use crate::control::duration;
use crate::engine::Server;
use crate::engine::model::{Check, Fault};
use crate::engine::self_test::Symptom;

impl Announcer {
    pub(super) fn frozen(&mut self, symptom: Symptom, reason: &str, first: bool) {
        let symptom = symptom.name();
        if !first {
            // Whoever is told of events knows already.
            warn!(symptom, reason, "this host seems to be sick, verdicts stay frozen: {reason}");
            return;
        }
        warn!(symptom, reason, "this host seems to be sick, verdicts are frozen: {reason}");
        let reason = Some(reason.to_owned());
        self.publish(ToTell { reason, ..of_daemon(EventKind::VerdictsFrozen) });
    }

    pub(super) fn thawed(&mut self, lasted: Duration, set_aside: u64) {
        let lasted = duration::display(lasted);
        let text = format!("verdicts count again after {lasted}, {set_aside} results were set aside");
        info!("this host seems to be well, {text}");
        self.publish(ToTell { reason: Some(text), ..of_daemon(EventKind::VerdictsThawed) });
    }
}

pub(super) fn set_aside(of: &Server, check: &Check, fault: &Fault) {
    let Names { virtual_server, real_server } = Names::of(of);
    let kind = check.probe.kind.name();
    debug!(
        virtual_server,
        real_server,
        check = kind,
        phase = fault.phase.name(),
        "{real_server} in {virtual_server}: {kind} check does not count while verdicts are frozen: {fault}"
    );
}
