//! Plain values of the configuration for tests of every module: each test changes what it is about.

use std::time::Duration;

use super::model::{
    Daemon, Drift, Forwarding, Notify, OnStop, Portion, RealServer, RealServerId, Scheduler, SelfTest,
    Timeouts, VirtualServer,
};
use super::table::ServiceId;

/// Without real servers.
pub(crate) fn virtual_server(name: &str, services: Vec<ServiceId>) -> VirtualServer {
    VirtualServer {
        name: name.to_owned(),
        services,
        scheduler: Scheduler::new("wrr").unwrap(),
        scheduler_flags: vec![],
        one_packet: false,
        persistence: None,
        quorum: 1,
        hysteresis: 0,
        min_alive: Portion::Count(0),
        omega: false,
        sorry_server: None,
        quorum_up: None,
        quorum_down: None,
        active_when: None,
        announce: None,
        real_servers: vec![],
    }
}

/// Of weight 1, without checks.
pub(crate) fn real_server(id: RealServerId) -> RealServer {
    RealServer {
        id,
        weight: 1,
        forwarding: Forwarding::Nat,
        upper_threshold: None,
        lower_threshold: None,
        inhibit_on_failure: false,
        alpha: false,
        notify_up: None,
        notify_down: None,
        checks: super::model::Few::new(),
    }
}

/// Tells nobody.
pub(crate) fn daemon() -> Daemon {
    Daemon {
        name: None,
        control_socket: "control.sock".into(),
        control: Default::default(),
        max_removed: None,
        max_down_rate: None,
        state_file: "state.json".into(),
        http: None,
        on_stop: OnStop::Withdraw,
        drift: Drift::Repair,
        drift_interval: Duration::from_secs(10),
        log: "info".to_owned(),
        timeouts: Timeouts::default(),
        sync: None,
        notify: Notify {
            fifo: None,
            script: None,
            script_user: None,
            script_timeout: Duration::from_secs(30),
            start: None,
            stop: None,
            mail: None,
            webhooks: vec![],
        },
        self_test: SelfTest::off(),
    }
}
