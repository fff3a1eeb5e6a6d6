//! One real server of one pool: alive by its checks, weighted by them and by the operator.

use std::sync::Arc;

use super::checker::Checker;
use super::guard::Counted;
use super::model::{self, Few, Forwarding, Mode, RealServerId, WeightChange};
use super::snapshot::{OperatorWeight, Order, Override, RealServerStatus, Traffic};
use super::table::{Destination, DestinationId, ServiceId};
use super::time::Time;

/// The largest weight that the kernel takes: it keeps a signed 32-bit number.
const MAX_WEIGHT: i128 = i32::MAX as i128;

#[derive(Clone, Debug)]
pub struct RealServer {
    pub(super) config: Arc<model::RealServer>,
    pub(super) checkers: Few<Checker>,
    /// Boxed, like the next: few servers have one.
    pub(super) order: Option<Box<Override>>,
    pub(super) operator_weight: Option<Box<OperatorWeight>>,
    /// The alive state that was last told to anybody, by [`super::Event::RealServer`].
    pub(super) was_alive: bool,
    /// Has anybody been told its state since it was new?
    pub(super) told: bool,
    /// When `was_alive` changed last, or when it was first heard of.
    pub(super) since: Time,
    /// It failed, and stays all the same: see [`super::guard`].
    pub(super) kept: bool,
    /// Its part in the pool's sums, see [`super::virtual_server`].
    pub(super) counted: Counted,
}

impl RealServer {
    pub fn id(&self) -> RealServerId {
        self.config.id
    }

    pub fn config(&self) -> &Arc<model::RealServer> {
        &self.config
    }

    /// All enforced checks are up; without any it is alive.
    pub fn passes_checks(&self) -> bool {
        self.enforced().all(Checker::is_up)
    }

    /// Alive, and not taken out by the operator.
    pub fn is_alive(&self) -> bool {
        self.passes_checks() && !self.is_ordered(Order::Disable)
    }

    /// It is what the table has at its weight, and what the quorum counts: alive, or kept.
    pub fn stands(&self) -> bool {
        self.is_alive() || self.kept
    }

    /// Can it be given traffic, if its checks are up? Not if the operator has taken it out, nor at weight 0.
    pub fn can_play(&self) -> bool {
        !self.is_ordered(Order::Disable) && self.effective_weight() > 0
    }

    pub fn is_ordered(&self, order: Order) -> bool {
        self.order.as_ref().is_some_and(|o| o.order == order)
    }

    /// The weight that scripts and files start from: the operator's if set.
    pub fn base_weight(&self) -> u32 {
        self.operator_weight.as_ref().map_or(self.config.weight, |w| w.weight)
    }

    /// Base weight plus what each check contributes now, clamped to what the kernel takes; 0 while
    /// drained. A function of current results, so no history of time-outs can add up in it.
    pub fn effective_weight(&self) -> u32 {
        if self.is_ordered(Order::Drain) {
            return 0;
        }
        let base = i128::from(self.base_weight());
        // Wide enough to add up exactly whatever files say, so that their order does not matter.
        let contributions = self.enforced().map(|checker| match checker.state().weight {
            WeightChange::None => 0,
            WeightChange::Absolute(weight) => i128::from(weight) - base,
            WeightChange::Delta(delta) => i128::from(delta),
        });
        let sum = base + contributions.sum::<i128>();
        u32::try_from(sum.clamp(0, MAX_WEIGHT)).unwrap_or(0)
    }

    fn enforced(&self) -> impl Iterator<Item = &Checker> {
        self.checkers.iter().filter(|c| c.config.mode == Mode::Enforce)
    }

    /// Has every enforced check had a result?
    pub fn is_judged(&self) -> bool {
        self.enforced().all(|c| c.state().has_run)
    }

    pub fn has_failed_check(&self) -> bool {
        self.enforced().any(|c| c.state().has_run && !c.is_up())
    }

    pub fn has_alpha_check(&self) -> bool {
        self.enforced().any(|c| c.config.alpha)
    }

    pub fn destination(&self, weight: u32) -> Destination {
        Destination {
            forwarding: self.config.forwarding,
            weight,
            upper_threshold: self.config.upper_threshold.map_or(0, std::num::NonZeroU32::get),
            lower_threshold: self.config.lower_threshold.map_or(0, std::num::NonZeroU32::get),
        }
    }

    pub fn status<'a>(&self, services: impl Iterator<Item = &'a ServiceId>) -> RealServerStatus {
        RealServerStatus {
            address: self.id(),
            alive: self.is_alive(),
            kept: None,
            since: self.since,
            weight: self.config.weight,
            effective_weight: self.effective_weight(),
            destinations: services
                .map(|s| (*s, destination_id(self.id(), self.config.forwarding, s)))
                .collect(),
            installed: false,
            missing: false,
            active_connections: 0,
            inactive_connections: 0,
            traffic: Traffic::default(),
            order: self.order.as_deref().cloned(),
            operator_weight: self.operator_weight.as_deref().cloned(),
            checks: self.checkers.iter().map(Checker::status).collect(),
        }
    }
}

/// Where a server stands in the table of a service. NAT can translate ports, so a port of the
/// server's own counts; dr and tun deliver the packet as it came, whatever port the kernel is told.
pub fn destination_id(id: RealServerId, forwarding: Forwarding, service: &ServiceId) -> DestinationId {
    let port = match forwarding {
        Forwarding::Nat | Forwarding::Local => id.port.unwrap_or(service.port()),
        Forwarding::Dr | Forwarding::Tun(_) => service.port(),
    };
    DestinationId { address: id.address, port }
}
