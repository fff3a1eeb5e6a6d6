//! A small world of configurations: few services, servers and checks, so that random ones collide,
//! overlap and follow one another in every way.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use lvsd::engine::model::{
    ActiveWhen, Check, CheckKind, Config, DownRate, Family, Forwarding, Mode, OnLocalError, Persistence,
    Portion, Probe, Protocol, RealServer, RealServerId, Scheduler, SorryServer, Target, Tcp, Timing, Tunnel,
    VirtualServer,
};
use lvsd::engine::table::ServiceId;
use proptest::prelude::*;

use crate::gate::any_gate;
use crate::topology::config;

pub(crate) const SERVICES: usize = 6;
pub(crate) const SERVERS: usize = 5;

#[derive(Clone, Debug)]
pub(crate) struct WorldSpec {
    pub(crate) pools: Vec<PoolSpec>,
    /// Which pool has which service; an index beyond the pools: none.
    pub(crate) owners: Vec<usize>,
    /// Servers, and milliseconds.
    pub(crate) max_down_rate: Option<(u32, u64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct PoolSpec {
    pub(crate) quorum: u32,
    pub(crate) hysteresis: u32,
    pub(crate) min_alive: Portion,
    pub(crate) sorry: Option<SorrySpec>,
    pub(crate) gate: Option<ActiveWhen>,
    pub(crate) scheduler: bool,
    pub(crate) persistent: bool,
    pub(crate) servers: Vec<ServerSpec>,
}

#[derive(Clone, Debug)]
pub(crate) struct SorrySpec {
    address: usize,
    port: bool,
    inhibit: bool,
    forwarding: Method,
}

#[derive(Clone, Debug)]
pub(crate) struct ServerSpec {
    pub(crate) address: usize,
    /// A port of its own, other than that of the services.
    pub(crate) port: bool,
    pub(crate) weight: u32,
    pub(crate) inhibit: bool,
    pub(crate) forwarding: Method,
    pub(crate) limited: bool,
    pub(crate) checks: Vec<CheckSpec>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Method {
    Nat,
    Dr,
    Tun,
}

#[derive(Clone, Debug)]
pub(crate) struct CheckSpec {
    pub(crate) demand: u8,
    /// Asks a machine that others ask as well, not the server itself.
    pub(crate) common_target: bool,
    pub(crate) timing: usize,
    pub(crate) alpha: bool,
    pub(crate) observe: bool,
    pub(crate) local_error_fails: bool,
}

pub(crate) fn server_address(index: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, u8::try_from(11 + index).unwrap()))
}

pub(crate) fn service(index: usize) -> ServiceId {
    let address = |last, port, protocol| ServiceId::Address {
        protocol,
        address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)),
        port,
    };
    match index {
        0 => address(10, 80, Protocol::Tcp),
        1 => address(10, 443, Protocol::Tcp),
        2 => address(11, 80, Protocol::Tcp),
        3 => address(11, 80, Protocol::Udp),
        4 => ServiceId::Mark { family: Family::Ipv4, mark: NonZeroU32::new(5).unwrap() },
        _ => address(12, 0, Protocol::Tcp),
    }
}

pub(crate) fn timing(index: usize) -> Timing {
    let ms = Duration::from_millis;
    let base = Timing {
        delay_loop: ms(1000),
        timeout: ms(500),
        retry: 0,
        delay_before_retry: ms(100),
        rise: 1,
        warmup: ms(1000),
    };
    match index {
        0 => base,
        1 => Timing { retry: 2, rise: 2, warmup: ms(0), ..base },
        2 => Timing { delay_loop: ms(3000), retry: 1, delay_before_retry: ms(700), ..base },
        _ => Timing { delay_loop: ms(3000), timeout: ms(2500), rise: 3, warmup: ms(300), ..base },
    }
}

// -- to a configuration ---------------------------------------------------------------------

impl WorldSpec {
    pub(crate) fn config(&self) -> Config {
        let pools = self.pools.iter().enumerate().filter_map(|(index, pool)| {
            let services: Vec<ServiceId> =
                (0..SERVICES).filter(|s| self.owners.get(*s) == Some(&index)).map(service).collect();
            (!services.is_empty()).then(|| Arc::new(pool.lower(index, services)))
        });
        let mut config = config(pools.collect());
        config.daemon.max_down_rate = self.max_down_rate.map(|(servers, per)| DownRate {
            servers: NonZeroU32::new(servers).unwrap(),
            per: Duration::from_millis(per),
        });
        config
    }
}

impl PoolSpec {
    fn lower(&self, index: usize, services: Vec<ServiceId>) -> VirtualServer {
        let mut seen = BTreeSet::new();
        let servers = self.servers.iter().filter(|s| seen.insert(s.address)).map(|s| Arc::new(s.lower()));
        VirtualServer {
            name: format!("pool{index}"),
            services,
            scheduler: Scheduler::new(if self.scheduler { "wlc" } else { "rr" }).unwrap(),
            scheduler_flags: Vec::new(),
            one_packet: false,
            persistence: self.persistent.then(|| Persistence {
                timeout: NonZeroU32::new(60).unwrap(),
                netmask: None,
                engine: None,
            }),
            quorum: self.quorum,
            hysteresis: self.hysteresis.min(self.quorum),
            min_alive: self.min_alive,
            omega: false,
            sorry_server: self.sorry.as_ref().map(|sorry| SorryServer {
                address: server_address(sorry.address),
                port: sorry.port.then_some(8080),
                forwarding: sorry.forwarding.lower(),
                inhibit: sorry.inhibit,
            }),
            quorum_up: None,
            quorum_down: None,
            announce: None,
            active_when: self.gate.clone(),
            real_servers: servers.collect(),
        }
    }
}

impl ServerSpec {
    fn lower(&self) -> RealServer {
        let mut seen = BTreeSet::new();
        let checks = self
            .checks
            .iter()
            .filter(|c| seen.insert((c.demand, c.common_target)))
            .map(|c| Arc::new(c.lower(self.address)));
        let checks: Vec<_> = checks.collect();
        RealServer {
            id: RealServerId { address: server_address(self.address), port: self.port.then_some(8080) },
            weight: self.weight,
            forwarding: self.forwarding.lower(),
            upper_threshold: self.limited.then(|| NonZeroU32::new(100).unwrap()),
            lower_threshold: self.limited.then(|| NonZeroU32::new(50).unwrap()),
            inhibit_on_failure: self.inhibit,
            alpha: checks.iter().any(|c| c.alpha),
            notify_up: None,
            notify_down: None,
            checks: checks.into(),
        }
    }
}

impl Method {
    fn lower(self) -> Forwarding {
        match self {
            Self::Nat => Forwarding::Nat,
            Self::Dr => Forwarding::Dr,
            Self::Tun => Forwarding::Tun(Tunnel::Ipip),
        }
    }
}

impl CheckSpec {
    fn lower(&self, server: usize) -> Check {
        let send = (self.demand > 0).then(|| vec![self.demand]);
        Check {
            probe: Probe {
                target: Target {
                    address: server_address(if self.common_target { 100 } else { server }),
                    port: 80,
                    source: None,
                },
                kind: Arc::new(CheckKind::Tcp(Tcp { send, ..Tcp::default() })),
            },
            timing: Arc::new(timing(self.timing)),
            alpha: self.alpha,
            mode: if self.observe { Mode::Observe } else { Mode::Enforce },
            on_local_error: if self.local_error_fails { OnLocalError::Fail } else { OnLocalError::Ignore },
        }
    }
}

// -- at random ------------------------------------------------------------------------------

pub(crate) fn any_world() -> impl Strategy<Value = WorldSpec> {
    let pools = prop::collection::vec(any_pool(), 1..4);
    let owners = prop::collection::vec(0..4_usize, SERVICES);
    (pools, owners, any_rate()).prop_map(|(pools, owners, max_down_rate)| WorldSpec {
        pools,
        owners,
        max_down_rate,
    })
}

pub(crate) fn any_pool() -> impl Strategy<Value = PoolSpec> {
    let servers = prop::collection::vec(any_server(), 0..5);
    let quorum = prop_oneof![4 => Just(1_u32), 3 => 1..6_u32];
    let hysteresis = prop_oneof![2 => Just(0_u32), 2 => 0..4_u32];
    let sorry = prop::option::of(any_sorry());
    (quorum, (hysteresis, any_portion()), sorry, any_gate(), any::<bool>(), any::<bool>(), servers).prop_map(
        |(quorum, (hysteresis, min_alive), sorry, gate, scheduler, persistent, servers)| PoolSpec {
            quorum,
            hysteresis,
            min_alive,
            sorry,
            gate,
            scheduler,
            persistent,
            servers,
        },
    )
}

fn any_rate() -> impl Strategy<Value = Option<(u32, u64)>> {
    prop_oneof![2 => Just(None), 3 => (1..4_u32, 500..8000_u64).prop_map(Some)]
}

fn any_portion() -> impl Strategy<Value = Portion> {
    prop_oneof![
        3 => Just(Portion::Count(0)),
        2 => (1..4_u32).prop_map(Portion::Count),
        2 => (1..=100_u8).prop_map(Portion::Share),
    ]
}

fn any_sorry() -> impl Strategy<Value = SorrySpec> {
    (0..=SERVERS, prop::bool::weighted(0.3), any::<bool>(), any_method())
        .prop_map(|(address, port, inhibit, forwarding)| SorrySpec { address, port, inhibit, forwarding })
}

fn any_method() -> impl Strategy<Value = Method> {
    prop_oneof![3 => Just(Method::Nat), 1 => Just(Method::Dr), 1 => Just(Method::Tun)]
}

pub(crate) fn any_weight() -> impl Strategy<Value = u32> {
    prop_oneof![1 => Just(0_u32), 5 => 1..4_u32, 1 => Just(i32::MAX.cast_unsigned())]
}

pub(crate) fn any_server() -> impl Strategy<Value = ServerSpec> {
    let checks = prop::collection::vec(any_check(), 0..3);
    let port = prop::bool::weighted(0.3);
    (0..SERVERS, port, any_weight(), any::<bool>(), any_method(), any::<bool>(), checks).prop_map(
        |(address, port, weight, inhibit, forwarding, limited, checks)| ServerSpec {
            address,
            port,
            weight,
            inhibit,
            forwarding,
            limited,
            checks,
        },
    )
}

pub(crate) fn any_check() -> impl Strategy<Value = CheckSpec> {
    let seldom = || prop::bool::weighted(0.2);
    (0..3_u8, seldom(), 0..4_usize, prop::bool::weighted(0.3), seldom(), any::<bool>()).prop_map(
        |(demand, common_target, timing, alpha, observe, local_error_fails)| CheckSpec {
            demand,
            common_target,
            timing,
            alpha,
            observe,
            local_error_fails,
        },
    )
}

// -- small changes --------------------------------------------------------------------------

#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Own { service: usize, pool: usize },
    AddPool(PoolSpec),
    RemovePool(usize),
    Pool { pool: usize, to: PoolSpec },
    AddServer { pool: usize, server: ServerSpec },
    RemoveServer { pool: usize, server: usize },
    Server { pool: usize, server: usize, to: ServerSpec },
    MaxDownRate(Option<(u32, u64)>),
    Rotate { pool: usize },
    RotatePools,
    AddCheck { pool: usize, server: usize, check: CheckSpec },
    RemoveCheck { pool: usize, server: usize },
    Check { pool: usize, server: usize, to: CheckSpec },
}

pub(crate) fn any_edit() -> impl Strategy<Value = Edit> {
    let at = || 0..8_usize;
    prop_oneof![
        (0..SERVICES, at()).prop_map(|(service, pool)| Edit::Own { service, pool }),
        any_pool().prop_map(Edit::AddPool),
        at().prop_map(Edit::RemovePool),
        (at(), any_pool()).prop_map(|(pool, to)| Edit::Pool { pool, to }),
        (at(), any_server()).prop_map(|(pool, server)| Edit::AddServer { pool, server }),
        (at(), at()).prop_map(|(pool, server)| Edit::RemoveServer { pool, server }),
        (at(), at(), any_server()).prop_map(|(pool, server, to)| Edit::Server { pool, server, to }),
        any_rate().prop_map(Edit::MaxDownRate),
        at().prop_map(|pool| Edit::Rotate { pool }),
        Just(Edit::RotatePools),
        (at(), at(), any_check()).prop_map(|(pool, server, check)| Edit::AddCheck { pool, server, check }),
        (at(), at()).prop_map(|(pool, server)| Edit::RemoveCheck { pool, server }),
        (at(), at(), any_check()).prop_map(|(pool, server, to)| Edit::Check { pool, server, to }),
    ]
}

fn pick<T>(items: &mut [T], index: usize) -> Option<&mut T> {
    let len = items.len().max(1);
    items.get_mut(index % len)
}

impl WorldSpec {
    fn server(&mut self, pool: usize, server: usize) -> Option<&mut ServerSpec> {
        pick(&mut pick(&mut self.pools, pool)?.servers, server)
    }

    /// Does what the edit says as far as there is such a thing.
    pub(crate) fn edit(&mut self, edit: &Edit) -> Option<()> {
        match edit {
            Edit::Own { service, pool } => self.owners[*service] = *pool % (self.pools.len() + 1),
            Edit::AddPool(pool) => self.pools.push(pool.clone()),
            Edit::RemovePool(pool) if !self.pools.is_empty() => {
                let at = *pool % self.pools.len();
                self.pools.remove(at);
            }
            Edit::RemovePool(_) => {}
            Edit::Pool { pool, to } => {
                let pool = pick(&mut self.pools, *pool)?;
                *pool = PoolSpec { servers: std::mem::take(&mut pool.servers), ..to.clone() };
            }
            Edit::AddServer { pool, server } => pick(&mut self.pools, *pool)?.servers.push(server.clone()),
            Edit::RemoveServer { pool, server } => {
                let servers = &mut pick(&mut self.pools, *pool)?.servers;
                if !servers.is_empty() {
                    servers.remove(server % servers.len());
                }
            }
            Edit::Server { pool, server, to } => {
                let server = self.server(*pool, *server)?;
                let (address, port) = (server.address, server.port);
                let checks = std::mem::take(&mut server.checks);
                *server = ServerSpec { address, port, checks, ..to.clone() };
            }
            Edit::MaxDownRate(rate) => self.max_down_rate = *rate,
            Edit::Rotate { pool } => {
                let servers = &mut pick(&mut self.pools, *pool)?.servers;
                let middle = servers.len() / 2;
                servers.rotate_left(middle);
            }
            Edit::RotatePools => {
                let len = self.pools.len();
                self.pools.rotate_left(len.min(1));
                for owner in self.owners.iter_mut().filter(|o| **o < len) {
                    *owner = (*owner + len - 1) % len;
                }
            }
            Edit::AddCheck { pool, server, check } => self.server(*pool, *server)?.checks.push(check.clone()),
            Edit::RemoveCheck { pool, server } => drop(self.server(*pool, *server)?.checks.pop()),
            Edit::Check { pool, server, to } => {
                let check = self.server(*pool, *server)?.checks.last_mut()?;
                let (demand, common_target) = (check.demand, check.common_target);
                *check = CheckSpec { demand, common_target, ..to.clone() };
            }
        }
        Some(())
    }
}
