//! Rules 15 and 16: verdicts that are not followed, because the balancer itself can be the sick one.

use lvsd::engine::Guard;
use lvsd::engine::model::Portion;
use lvsd::engine::snapshot::Order;

use super::{Model, News, Pool, Server};

impl Server {
    /// In the table at its weight, and counted for the quorum.
    pub(crate) fn stands(&self) -> bool {
        self.alive() || self.kept
    }

    /// Of those that the operator has not taken out, and that have a weight.
    fn plays(&self) -> bool {
        !self.is(Order::Disable) && self.effective_weight() > 0
    }
}

impl Pool {
    /// How many of those that failed min_alive needs; a share is one of those that play, rounded up.
    fn missing(&self) -> usize {
        let all = self.servers.iter().filter(|s| s.plays()).count();
        let alive = self.servers.iter().filter(|s| s.plays() && s.alive()).count();
        let min_alive = match self.config.min_alive {
            Portion::Count(count) => count as usize,
            Portion::Share(percent) => (all * percent as usize).div_ceil(100),
        };
        min_alive.saturating_sub(alive)
    }

    /// Places of those that are kept, in the order of their failures.
    fn kept(&self) -> Vec<usize> {
        let mut kept: Vec<usize> = (0..self.servers.len()).filter(|at| self.servers[*at].kept).collect();
        kept.sort_by_key(|at| (self.servers[*at].failed, self.servers[*at].config.id));
        kept
    }

    /// Those that no min_alive needs.
    fn may_leave(&self) -> Vec<usize> {
        let mut kept = self.kept();
        kept.truncate(kept.len().saturating_sub(self.missing()));
        kept
    }

    /// Who keeps somebody: those that may leave are kept by the rate.
    fn keeps(&self, guard: Guard) -> bool {
        let waiting = self.may_leave().len();
        match guard {
            Guard::MinAlive => self.kept().len() > waiting,
            Guard::MaxDownRate => waiting > 0,
        }
    }
}

impl Model {
    /// `before`: who was alive before this input.
    pub(super) fn guard(&mut self, before: &[Vec<bool>]) -> Vec<News> {
        let now = self.now;
        for (pool, before) in self.pools.iter_mut().zip(before) {
            for (server, was_alive) in pool.servers.iter_mut().zip(before) {
                let stood = *was_alive || server.kept;
                let fails = !server.alive() && server.plays();
                if fails && *was_alive {
                    server.failed = Some(now);
                }
                server.kept = stood && fails;
            }
        }
        self.let_go();
        let mut news = Vec::new();
        for pool in &mut self.pools {
            for guard in [Guard::MinAlive, Guard::MaxDownRate] {
                let keeps = pool.keeps(guard);
                if keeps != pool.keeping.contains(&guard) {
                    news.push(News::Guard { pool: pool.config.name.clone(), guard, keeps });
                }
                if keeps {
                    pool.keeping.insert(guard)
                } else {
                    pool.keeping.remove(&guard)
                };
            }
        }
        news
    }

    /// Of those that may leave, in the order of their failures, as many as the rate lets.
    fn let_go(&mut self) {
        let now = self.now;
        let mut leaving = Vec::new();
        for (pool_at, pool) in self.pools.iter().enumerate() {
            for at in pool.may_leave() {
                let server = &pool.servers[at];
                let service = pool.config.services.iter().min();
                leaving.push((server.failed, service, server.config.id, pool_at, at));
            }
        }
        leaving.sort();
        let free = match self.rate {
            None => {
                self.left.clear();
                leaving.len()
            }
            Some(rate) => {
                self.left.retain(|at| *at + rate.per > now);
                if self.frozen { 0 } else { (rate.servers.get() as usize).saturating_sub(self.left.len()) }
            }
        };
        let gone: Vec<(usize, usize)> = leaving.into_iter().take(free).map(|(.., p, s)| (p, s)).collect();
        for (pool, server) in gone {
            self.pools[pool].servers[server].kept = false;
            if self.rate.is_some() {
                self.left.push(now);
            }
        }
    }
}
