//! One pool of real servers: quorum by weight with hysteresis, and the sorry server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::guard::{Counted, Guard, Kept};
use super::model::{self, RealServerId};
use super::real_server::RealServer;
use super::snapshot::{QuorumStatus, RealServerStatus, SorryServerStatus, VirtualServerStatus};
use super::table::ServiceId;
use super::time::Time;

#[derive(Clone, Debug)]
pub struct VirtualServer {
    pub(super) config: Arc<model::VirtualServer>,
    pub(super) real_servers: Vec<RealServer>,
    /// Not derived on demand: the threshold depends on it, that is what hysteresis means.
    pub(super) quorum_up: bool,
    /// When that changed last, or when it was first heard of.
    pub(super) since: Time,
    /// Services that their gate keeps out of the table, and why. Brought up to date by
    /// [`super::Engine::settle_standings`] alone.
    pub(super) inactive: BTreeMap<ServiceId, String>,
    /// Servers that failed and stay, see [`super::guard`].
    pub(super) kept: BTreeSet<Kept>,
    /// The rules that keep servers, as last told.
    pub(super) keeping: BTreeSet<Guard>,
    /// How many can be given traffic, and of how many of those the checks are up.
    pub(super) playing: usize,
    pub(super) well: usize,
    /// Sum of the [`RealServer::counted`], kept up to date so that the failure of half a pool does
    /// not sum the pool once for each server.
    live_weight: u64,
    /// The most that the configured weights can add up to; `None` if checks can raise them.
    reachable_weight: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuorumKind {
    NoChange,
    Gained,
    Lost,
}

/// What becomes of the sorry server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SorryAction {
    None,
    Install,
    Remove,
}

/// The outcome of one evaluation of the quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuorumEvent {
    pub kind: QuorumKind,
    pub weight: u64,
    pub threshold: u64,
    pub sorry_action: SorryAction,
}

impl VirtualServer {
    pub(super) fn new(
        config: Arc<model::VirtualServer>,
        real_servers: Vec<RealServer>,
        quorum_up: bool,
    ) -> Self {
        let reachable_weight = reachable_weight(&config);
        let (since, inactive) = (Time::ZERO, BTreeMap::new());
        let (kept, keeping, playing, well, live_weight) = (BTreeSet::new(), BTreeSet::new(), 0, 0, 0);
        let mut new = Self {
            config,
            real_servers,
            quorum_up,
            since,
            inactive,
            kept,
            keeping,
            playing,
            well,
            live_weight,
            reachable_weight,
        };
        for index in 0..new.real_servers.len() {
            let keep = new.real_servers.get(index).is_some_and(|s| s.kept && !s.is_alive() && s.can_play());
            new.keep(index, keep);
            new.count(index);
        }
        new
    }

    pub fn config(&self) -> &Arc<model::VirtualServer> {
        &self.config
    }

    pub fn real_servers(&self) -> &[RealServer] {
        &self.real_servers
    }

    /// Services that their gate keeps out of the table.
    pub fn inactive_count(&self) -> usize {
        self.inactive.len()
    }

    pub const fn is_quorum_up(&self) -> bool {
        self.quorum_up
    }

    /// Sum of the effective weights of real servers that are alive or kept.
    pub const fn live_weight(&self) -> u64 {
        self.live_weight
    }

    /// Brings server `index`'s part in the sums up to date.
    pub(super) fn count(&mut self, index: usize) {
        let Some(server) = self.real_servers.get_mut(index) else { return };
        let weight = if server.stands() { server.effective_weight() } else { 0 };
        let plays = server.can_play();
        let now = Counted { weight, plays, well: plays && server.passes_checks() };
        let before = std::mem::replace(&mut server.counted, now);
        self.live_weight = self.live_weight - u64::from(before.weight) + u64::from(now.weight);
        self.playing = self.playing - usize::from(before.plays) + usize::from(now.plays);
        self.well = self.well - usize::from(before.well) + usize::from(now.well);
    }

    /// What the live weight must reach to come up, or not fall below to stay up: quorum + hysteresis
    /// and quorum − hysteresis. A quorum, or the sum, that the configured weights can never reach counts
    /// as what they add up to, unless a check can raise a weight. An operator's weight changes nothing
    /// here: raising a weight must not make a bound real that the servers left then fail.
    pub fn threshold(&self) -> u64 {
        let (quorum, hysteresis) = (u64::from(self.config.quorum), u64::from(self.config.hysteresis));
        let most = self.reachable_weight.unwrap_or(u64::MAX);
        if self.quorum_up {
            quorum.min(most).saturating_sub(hysteresis)
        } else {
            (quorum + hysteresis).min(most)
        }
    }

    /// Sets the first state without a transition. Nothing is up before it, so the threshold is the one
    /// for coming up, unless the state of an earlier run is known.
    pub fn set_initial_quorum(&mut self, remembered: Option<bool>) {
        self.quorum_up = remembered.unwrap_or(false);
        self.quorum_up = self.has_quorum();
    }

    /// Gained at the threshold, lost below it, and always lost at 0.
    fn has_quorum(&self) -> bool {
        self.live_weight > 0 && self.live_weight >= self.threshold()
    }

    pub fn update_quorum(&mut self) -> QuorumEvent {
        let threshold = self.threshold();
        let up = self.has_quorum();
        let kind = match (self.quorum_up, up) {
            (false, true) => QuorumKind::Gained,
            (true, false) => QuorumKind::Lost,
            (true, true) | (false, false) => QuorumKind::NoChange,
        };
        self.quorum_up = up;
        let sorry_action = match (kind, &self.config.sorry_server) {
            (QuorumKind::Gained, Some(_)) => SorryAction::Remove,
            (QuorumKind::Lost, Some(_)) => SorryAction::Install,
            (QuorumKind::NoChange, _) | (_, None) => SorryAction::None,
        };
        QuorumEvent { kind, weight: self.live_weight, threshold, sorry_action }
    }

    /// The sorry server is what serves now.
    pub fn is_sorry(&self) -> bool {
        self.config.sorry_server.is_some() && !self.quorum_up
    }

    pub fn quorum_status(&self) -> QuorumStatus {
        QuorumStatus {
            up: self.quorum_up,
            weight: self.live_weight,
            threshold: self.threshold(),
            quorum: self.config.quorum,
            hysteresis: self.config.hysteresis,
            since: self.since,
        }
    }

    pub fn status(&self) -> VirtualServerStatus {
        let kept = self.kept_by();
        let real_servers = self.real_servers.iter().enumerate().map(|(index, server)| RealServerStatus {
            kept: kept.get(&index).copied(),
            ..server.status(self.config.services.iter())
        });
        VirtualServerStatus { real_servers: real_servers.collect(), ..self.status_without_servers() }
    }

    pub fn status_without_servers(&self) -> VirtualServerStatus {
        VirtualServerStatus {
            name: self.config.name.clone(),
            services: self.config.services.clone(),
            scheduler: self.config.scheduler.to_string(),
            inactive: self.inactive.iter().map(|(id, reason)| (*id, reason.clone())).collect(),
            quorum: self.quorum_status(),
            sorry_server: self.config.sorry_server.as_ref().map(|sorry| SorryServerStatus {
                address: RealServerId { address: sorry.address, port: sorry.port },
                active: self.is_sorry(),
            }),
            real_servers: Vec::new(),
            missing: Vec::new(),
            announcements: Vec::new(),
        }
    }
}

fn reachable_weight(config: &model::VirtualServer) -> Option<u64> {
    let servers = &config.real_servers;
    let moving = servers.iter().flat_map(|s| &s.checks).any(|c| c.probe.kind.moves_weight());
    (!moving).then(|| servers.iter().map(|s| u64::from(s.weight)).sum())
}
