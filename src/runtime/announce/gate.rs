//! Services that became active or stopped being so, as log lines.

use std::collections::BTreeMap;

use tracing::info;

use crate::engine::model;
use crate::engine::table::ServiceId;

/// Lines for one virtual server and one change: a range can have thousands of addresses.
const LINES: usize = 20;

pub(super) fn tell(of: &model::VirtualServer, active: bool, services: &[(ServiceId, String)]) {
    let virtual_server = of.name.as_str();
    let state = if active { "active" } else { "inactive" };
    for (text, reason) in lines(active, services) {
        info!(virtual_server, state, reason, "{virtual_server}: {text}");
    }
}

/// Each with its reason.
pub(in crate::runtime) fn lines(active: bool, services: &[(ServiceId, String)]) -> Vec<(String, String)> {
    let not = if active { "" } else { "not " };
    let mut by_reason: BTreeMap<&str, Vec<&ServiceId>> = BTreeMap::new();
    for (service, reason) in services {
        by_reason.entry(reason).or_default().push(service);
    }
    let mut lines = Vec::new();
    let mut said = 0;
    for (reason, services) in by_reason.iter().take(LINES) {
        let Some((first, others)) = services.split_first() else { continue };
        let who = match others.len() {
            0 => format!("{first} is"),
            more => format!("{first} and {more} more are"),
        };
        said += services.len();
        lines.push((format!("{who} {not}active: {reason}"), (*reason).to_owned()));
    }
    if said < services.len() {
        let more = services.len() - said;
        lines.push((format!("{more} more services are {not}active"), "as the others".to_owned()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::testing::tcp;

    fn told(active: bool, services: &[(&str, &str)]) -> Vec<String> {
        let services: Vec<_> =
            services.iter().map(|(service, reason)| (tcp(service), (*reason).to_owned())).collect();
        lines(active, &services).into_iter().map(|(text, _)| text).collect()
    }

    #[test]
    fn one_line_for_each_reason() {
        let on = "192.0.2.10 is on eth0";
        assert_eq!(told(true, &[("192.0.2.10:80", on)]), [format!("tcp 192.0.2.10:80 is active: {on}")]);
        assert_eq!(
            told(
                false,
                &[("192.0.2.10:80", "x is away"), ("192.0.2.11:80", "y"), ("192.0.2.10:443", "x is away")]
            ),
            ["tcp 192.0.2.10:80 and 1 more are not active: x is away", "tcp 192.0.2.11:80 is not active: y"]
        );
    }

    #[test]
    fn a_range_is_told_in_few_lines() {
        let all: Vec<_> = (0..1000)
            .map(|n| (tcp(&format!("192.0.{}.{}:80", n / 250, n % 250)), format!("reason {n:04}")))
            .collect();
        let lines = lines(true, &all);
        assert_eq!(lines.len(), LINES + 1);
        assert_eq!(lines[LINES].0, "980 more services are active");
    }
}
