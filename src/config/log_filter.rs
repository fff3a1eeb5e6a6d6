//! Filters of the log that are given to the running daemon. A part of lvsd that there is not is refused there, while
//! somebody waits for its lines; in a file it may be of another version, and must not keep that from starting.

use super::raw;
use super::text::closest;

/// Modules of this crate.
const PARTS: [&str; 15] = [
    "addresses",
    "anew",
    "checks",
    "config",
    "control",
    "doctor",
    "engine",
    "health",
    "ipvs",
    "net",
    "notify",
    "process",
    "runtime",
    "shown",
    "telemetry",
];

/// Would `daemon.log` take this filter, and does it mean parts that there are? If not, why, and what to write instead.
pub fn check_log_filter(filter: &str) -> Result<(), String> {
    raw::log_filter(filter).map_err(|wrong| match wrong.remedy {
        Some(remedy) => format!("{}: {remedy}", wrong.message),
        None => wrong.message,
    })?;
    filter.split(',').try_for_each(check_part)
}

fn check_part(directive: &str) -> Result<(), String> {
    let target = directive.split(['=', '[']).next().unwrap_or_default().trim();
    let Some(part) = target.strip_prefix("lvsd::").and_then(|path| path.split("::").next()) else {
        return Ok(());
    };
    if PARTS.contains(&part) {
        return Ok(());
    }
    let remedy = match closest(part, PARTS) {
        Some(known) => format!("did you mean \"lvsd::{known}\"?"),
        None => format!("there are {}", PARTS.join(", ")),
    };
    Err(format!("no part of lvsd is called \"{part}\": {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_modules() {
        let lib = include_str!("../lib.rs");
        let modules =
            lib.lines().filter_map(|line| line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod "));
        let modules: Vec<&str> =
            modules.map(|name| name.trim_end_matches(';')).filter(|name| *name != "fuzzing").collect();
        assert_eq!(modules, PARTS);
    }

    #[test]
    fn a_part_that_there_is_not_is_refused() {
        for fine in [
            "info",
            "info,lvsd=trace",
            "info,lvsd::checks::tls=debug",
            "warn,hyper=debug",
            "lvsd::engine[x]=debug",
        ] {
            assert_eq!(check_log_filter(fine), Ok(()), "{fine}");
        }
        for (wrong, why) in [
            (
                "info,lvsd::runtme=debug",
                "no part of lvsd is called \"runtme\": did you mean \"lvsd::runtime\"?",
            ),
            ("lvsd::=debug", "no part of lvsd is called \"\": there are addresses, anew, checks"),
            ("lvsd::elsewhere=debug,info", "no part of lvsd is called \"elsewhere\": there are"),
        ] {
            let said = check_log_filter(wrong).unwrap_err();
            assert!(said.starts_with(why), "{said}");
        }
    }
}
