//! Rules 15 and 16: verdicts that are not followed, because the balancer itself can be the sick one.

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
    /// A share is one of those that play, rounded up.
    fn min_alive(&self) -> usize {
        let all = self.servers.iter().filter(|s| s.plays()).count();
        match self.config.min_alive {
            lvsd::engine::model::Portion::Count(count) => count as usize,
            lvsd::engine::model::Portion::Share(percent) => (all * percent as usize).div_ceil(100),
        }
    }

    /// Keeps as many of those that have just failed, or were kept before, as are missing from min_alive: the
    /// last to fail. The others are out.
    fn keep_the_last(&mut self) {
        let alive = self.servers.iter().filter(|s| s.plays() && s.alive()).count();
        let missing = self.min_alive().saturating_sub(alive);
        let mut failed: Vec<&mut Server> = self.servers.iter_mut().filter(|s| s.kept).collect();
        failed.sort_by_key(|s| (s.failed, s.config.id));
        let gone = failed.len().saturating_sub(missing);
        for server in failed.into_iter().take(gone) {
            server.kept = false;
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
            pool.keep_the_last();
        }
        let mut news = Vec::new();
        for pool in &mut self.pools {
            let keeps = pool.servers.iter().any(|s| s.kept);
            if keeps != pool.keeps {
                pool.keeps = keeps;
                news.push(News::Guard { pool: pool.config.name.clone(), keeps });
            }
        }
        news
    }
}
