//! Every metric by name: its kind, labels and meaning. What `/metrics` shows and what the documentation
//! lists are both made of this.

use std::fmt::Write;

/// One family of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// As it is shown, `_total` of counters included.
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    /// One sentence without a full stop.
    pub help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    /// Shown as `_bucket`, `_sum` and `_count`.
    Histogram,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

macro_rules! catalogue {
    ($($id:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(super) const $id: Metric =
            Metric { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help };)*
        /// In the order in which they are shown.
        pub const ALL: &[Metric] = &[$($id),*];
    };
}

catalogue! {
    BUILD_INFO = Gauge "lvsd_build_info" ["version"] "Which lvsd this is, always 1";
    DAEMON_INFO = Gauge "lvsd_daemon_info" ["name", "table"] "The daemon's name, and where its table is: kernel, or memory in a dry run; always 1";
    DEPENDENCY_UP = Gauge "lvsd_dependency_up" ["dependency"] "Does this part of readiness hold? As /readyz asked it last, and each scrape asks anew";
    SUPERVISOR_SILENCE = Gauge "lvsd_supervisor_silence_seconds" [] "Time since the loop that decides everything last turned; a second is usual, 5 seconds fail /healthz";
    SUPERVISOR_TURN = Histogram "lvsd_supervisor_turn_seconds" [] "How long one turn of that loop took, from an input to all that follows from it";
    SCRAPE = Gauge "lvsd_scrape_supervisor_seconds" [] "How long that loop was busy with the picture that this page shows";

    CONFIG_INFO = Gauge "lvsd_config_info" ["digest"] "The configuration in force, by the first digits of the SHA-256 of its text; always 1";
    RELOADS = Counter "lvsd_config_reloads_total" ["result"] "Reloads by result: done, incomplete (in force, but the kernel refused some of it), refused (a bad file, nothing changed)";
    RELOAD_OK = Gauge "lvsd_config_last_reload_successful" [] "Was the last reload done? 1 before the first";
    RELOAD_TIME = Gauge "lvsd_config_last_reload_success_timestamp_seconds" [] "When the configuration in force was loaded, in seconds since 1970";

    QUORUM_UP = Gauge "lvsd_quorum_up" ["virtual_server"] "Does the virtual server have its quorum?";
    QUORUM_WEIGHT = Gauge "lvsd_quorum_weight" ["virtual_server"] "Sum of the effective weights of its living real servers";
    QUORUM_THRESHOLD = Gauge "lvsd_quorum_threshold" ["virtual_server"] "What that sum must reach, or while there is quorum must not fall below";
    QUORUM_TRANSITIONS = Counter "lvsd_quorum_transitions_total" ["virtual_server"] "How often the quorum was lost or gained";
    SORRY_ACTIVE = Gauge "lvsd_sorry_server_active" ["virtual_server", "sorry_server"] "Does the sorry server serve now?";

    SERVER_UP = Gauge "lvsd_real_server_up" ["virtual_server", "real_server"] "Is the real server alive by its checks, and not disabled?";
    SERVER_KEPT = Gauge "lvsd_real_server_kept" ["virtual_server", "real_server"] "Has it failed, and stays in the table all the same, by min_alive or max_down_rate?";
    SERVER_WEIGHT_CONFIGURED = Gauge "lvsd_real_server_weight_configured" ["virtual_server", "real_server"] "Its weight in the configuration";
    SERVER_WEIGHT = Gauge "lvsd_real_server_weight_effective" ["virtual_server", "real_server"] "Its weight with what scripts, files and operators say, while it is alive";
    SERVER_TRANSITIONS = Counter "lvsd_real_server_transitions_total" ["virtual_server", "real_server"] "How often it died or came to life";
    SERVER_OVERRIDE = Gauge "lvsd_real_server_override" ["virtual_server", "real_server", "override"] "An operator's order that holds: drain, disable, or weight; 1, or for weight the weight ordered";

    CHECK_UP = Gauge "lvsd_check_up" ["virtual_server", "real_server", "check", "mode"] "The verdict of a check; before its first result an assumption. A second check of a kind is tcp_2 and so on";
    CHECK_RUNS = Counter "lvsd_check_runs_total" ["virtual_server", "check", "result"] "Runs of checks by kind and result: success, failure, local_error (could not be run here). One that several virtual servers share counts in each";
    CHECK_DURATION = Histogram "lvsd_check_duration_seconds" ["virtual_server", "check"] "How long they took, by kind, whatever their result";
    CHECK_LATENESS = Histogram "lvsd_check_lateness_seconds" [] "How long after its time each run began";
    CHECK_OVERDUE = Gauge "lvsd_check_overdue_seconds" [] "How far behind its time the most overdue check is, waiting to begin or to end; 2 seconds fail /readyz";
    CHECKS = Gauge "lvsd_checks" [] "Checks that run at intervals; equal ones of several servers are one";
    CHECKS_RUNNING = Gauge "lvsd_checks_running" [] "Runs that have been started and not ended";
    CHECK_SLOTS = Gauge "lvsd_checks_running_limit" [] "Runs at once that the limit of open files allows; others wait";
    VERDICTS_FROZEN = Gauge "lvsd_verdicts_frozen" [] "Does the self-test take this host for sick, so that results of checks change nothing?";
    SELF_TEST_SYMPTOMS = Counter "lvsd_self_test_symptoms_total" ["symptom"] "How often a sign of that came up: lateness (of the daemon itself), local_errors (checks could not be run here), canary (none answers)";
    RESULTS_SET_ASIDE = Counter "lvsd_check_results_set_aside_total" [] "Results that did not count, since verdicts were frozen during their run or after it";
    CHECKS_BROKEN = Counter "lvsd_checks_broken_total" [] "Runs that ended in a panic of lvsd: please report it";

    IN_SYNC = Gauge "lvsd_service_in_sync" ["virtual_server", "service"] "Is the service in the kernel as it should be?";
    SERVICE_CONNECTIONS = Counter "lvsd_service_connections_total" ["virtual_server", "service"] "Connections that the kernel has scheduled since the service was added";
    SERVICE_PACKETS = Counter "lvsd_service_packets_total" ["virtual_server", "service", "direction"] "Its packets; out only where replies pass this machine";
    SERVICE_BYTES = Counter "lvsd_service_bytes_total" ["virtual_server", "service", "direction"] "Its bytes; likewise";
    DESTINATION_WANTED = Gauge "lvsd_destination_weight_wanted" ["virtual_server", "service", "destination"] "Weight that a destination should have in the kernel; its entry should be there";
    DESTINATION_APPLIED = Gauge "lvsd_destination_weight_applied" ["virtual_server", "service", "destination"] "Weight that it has there";
    DESTINATION_ACTIVE = Gauge "lvsd_destination_connections" ["virtual_server", "service", "destination", "state"] "Its connections: active, or inactive (closing, or not TCP)";
    DESTINATION_CONNECTIONS = Counter "lvsd_destination_connections_total" ["virtual_server", "service", "destination"] "Connections scheduled to it since it was added";
    DESTINATION_PACKETS = Counter "lvsd_destination_packets_total" ["virtual_server", "service", "destination", "direction"] "Its packets; out only where replies pass this machine";
    DESTINATION_BYTES = Counter "lvsd_destination_bytes_total" ["virtual_server", "service", "destination", "direction"] "Its bytes; likewise";
    SERVICE_ACTIVE = Gauge "lvsd_service_active" ["virtual_server", "service"] "Does active_when let the service be in the table? 1 for those without a condition; one that is kept out is in sync when it is not there";
    ADDRESS_WANTED = Gauge "lvsd_address_wanted" ["address", "interface"] "Should announce have this address on its interface now?";
    ADDRESS_ANNOUNCED = Gauge "lvsd_address_announced" ["address", "interface"] "Is it there? Not shown in a dry run";
    DUMP_TIME = Gauge "lvsd_ipvs_dump_timestamp_seconds" [] "When the kernel last answered with its table, which the values above are from, in seconds since 1970";

    OPERATIONS = Counter "lvsd_netlink_operations_total" [] "Changes of the kernel's table that were asked for";
    OPERATION_ERRORS = Counter "lvsd_netlink_operation_errors_total" [] "How many of them failed";
    REQUEST_ERRORS = Counter "lvsd_netlink_request_errors_total" [] "Other requests that failed: dumps, time-outs, sync daemons";
    WRITE_LATENCY = Histogram "lvsd_netlink_write_seconds" [] "From a decision to the kernel's word that all of it is done";
    DRIFT = Counter "lvsd_drift_total" [] "Entries of ours in the kernel that were found other than they had been left";

    NOTIFICATIONS = Counter "lvsd_notifications_total" ["channel", "result"] "Notifications by what became of them; retried counts tries, dropped ones gave way to newer ones or to the end";
    STATE_WRITES = Counter "lvsd_state_file_writes_total" ["result"] "Writes of the state file: written or failed";
    CONTROL_REFUSED = Counter "lvsd_control_clients_refused_total" [] "Clients of the control socket that found all places taken";
    HTTP_CLOSED = Counter "lvsd_http_connections_closed_total" [] "HTTP connections that were closed because newer ones came, or because an answer was not taken";
    BROKEN = Counter "lvsd_broken_off_total" ["part"] "How often a thread or task of lvsd broke off and was begun anew: please report it";
    LOG_LOST = Counter "lvsd_log_lines_lost_total" [] "Log lines that their reader did not take in time";

    CPU = Counter "process_cpu_seconds_total" [] "Processor time of the daemon itself, user and system";
    RESIDENT = Gauge "process_resident_memory_bytes" [] "Its memory in RAM";
    VIRTUAL = Gauge "process_virtual_memory_bytes" [] "Its address space";
    OPEN_FDS = Gauge "process_open_fds" [] "Its open file descriptors";
    MAX_FDS = Gauge "process_max_fds" [] "Its limit of these";
    THREADS = Gauge "process_threads" [] "Its threads";
    TASKS = Gauge "lvsd_tasks" ["thread"] "Tasks under way on the thread of the checks and on the one that answers clients";
    START_TIME = Gauge "process_start_time_seconds" [] "When it was started, in seconds since 1970";
}

/// The list for the documentation: a Markdown table.
pub fn markdown() -> String {
    let mut text = String::from("| metric | kind | labels | meaning |\n|---|---|---|---|\n");
    for Metric { name, kind, labels, help } in ALL {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{name}` | {} | {} | {help} |", kind.name(), labels.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What `promtool check metrics` would complain of, and what it does not know of.
    #[test]
    fn names_and_help_follow_the_conventions() {
        let names: BTreeSet<&str> = ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), ALL.len(), "a name twice");
        for metric in ALL {
            let Metric { name, kind, help, labels } = metric;
            assert!(name.starts_with("lvsd_") || name.starts_with("process_"), "{name}");
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            assert!(*kind != Kind::Histogram || name.ends_with("_seconds"), "{name}: durations only");
            assert!(!help.ends_with('.') && !help.contains(['\\', '\n', '|']), "{name}: {help}");
            assert!(!labels.contains(&"le") && !labels.contains(&"job") && !labels.contains(&"instance"));
        }
    }
}
