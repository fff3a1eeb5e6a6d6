//! What the engine tells its caller: probes to run, and changes worth hearing of.

use std::sync::Arc;
use std::time::Duration;

use super::checker::Transition;
use super::guard::Guard;
use super::inheritance::LostOrder;
use super::model::{self, Check, Fault, RealServerId};
use super::schedule::ProbeId;
use super::self_test::Symptom;
use super::snapshot::{Order, OrderNote};
use super::table::ServiceId;
use super::virtual_server::QuorumEvent;

/// Something to do, in order.
#[derive(Clone, Debug)]
pub enum Command {
    /// Run `check` once and hand its outcome to [`super::Engine::handle_outcome`].
    Start { id: ProbeId, check: Arc<Check> },
    /// Nobody waits for this run any more.
    Cancel { id: ProbeId },
}

/// Something that happened, in order. Logs, notifications and metrics are made of these.
#[derive(Clone, Debug)]
pub enum Event {
    /// A real server came to life or died, or was found so by its first result.
    RealServer {
        of: Server,
        alive: bool,
        news: News,
        cause: Cause,
    },
    /// The weight of a living server changed.
    Weight {
        of: Server,
        from: u32,
        to: u32,
        cause: Cause,
    },
    Quorum {
        virtual_server: Arc<model::VirtualServer>,
        quorum: QuorumEvent,
    },
    /// One failed run of a check.
    Failure {
        of: Server,
        check: Arc<Check>,
        transition: Transition,
        fault: Fault,
    },
    /// Our own side could not run a check, and its verdict stays.
    LocalError {
        of: Server,
        check: Arc<Check>,
        fault: Fault,
    },
    /// A run that did not succeed, and did not count: verdicts are frozen, or it began while they were.
    SetAside {
        of: Server,
        check: Arc<Check>,
        fault: Fault,
    },
    /// The director itself seems to be sick: verdicts stay as they are. Unless `first`, they did already.
    Frozen {
        symptom: Symptom,
        reason: String,
        first: bool,
    },
    /// All is well again, and results count.
    Thawed {
        lasted: Duration,
        /// Results that did not count meanwhile.
        set_aside: u64,
    },
    /// Services came into the table or left it, for what each of them is told with it.
    Gate {
        virtual_server: Arc<model::VirtualServer>,
        active: bool,
        services: Vec<(ServiceId, String)>,
    },
    /// A rule began to keep failed servers in the table, these, or ended and keeps none.
    Guard {
        virtual_server: Arc<model::VirtualServer>,
        guard: Guard,
        kept: Vec<RealServerId>,
        /// How many real servers are to be left now.
        min_alive: usize,
        /// As configured now.
        max_down_rate: Option<model::DownRate>,
    },
    /// An operator's order was given.
    Order {
        of: Server,
        change: OrderChange,
        note: OrderNote,
    },
    /// The time of an order is over: of what had been `given`, with its note.
    OrderEnded {
        of: Server,
        given: OrderChange,
        note: OrderNote,
    },
    /// An order ended with its real server: the configuration that took over has nobody to follow it.
    OrderLost(LostOrder),
    /// One that was lost stands again, as it had been `given`: its real server is back.
    OrderRestored {
        of: Server,
        given: OrderChange,
        note: OrderNote,
    },
}

/// The real server that an event is about.
#[derive(Clone, Debug)]
pub struct Server {
    pub virtual_server: Arc<model::VirtualServer>,
    pub real_server: Arc<model::RealServer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    Changed,
    /// Nothing changed, but it is the first time that anybody hears of this server.
    First,
}

/// Why a server's state or weight is what it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A check's result: its kind and what it found.
    Check {
        kind: &'static str,
        detail: String,
        evidence: Box<Evidence>,
    },
    Operator,
    /// The time of an operator's order is over.
    OrderEnded,
    Reload,
}

/// The run that decided, for those who ask why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    pub check: Arc<Check>,
    pub transition: Transition,
    pub latency: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderChange {
    Drain,
    Disable,
    /// Ends a drain or a disable.
    Enable,
    Weight(u32),
    /// Ends an operator's weight.
    WeightAuto,
}

/// What gave the order that stands.
impl From<Order> for OrderChange {
    fn from(order: Order) -> Self {
        match order {
            Order::Drain => Self::Drain,
            Order::Disable => Self::Disable,
        }
    }
}
