//! All receivers over the network: those of the configuration, and those of an older one that still have
//! something to tell.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::courier::{Courier, Deliver, Delivered, Tally};
use super::event::Event;
use crate::anew::Breaks;
use crate::engine::model::{Mail, Notify, Webhook};

/// For a receiver that the configuration no longer has, to be told what happened before.
const RETIREMENT: Duration = Duration::from_secs(60);

/// Dropping it ends all that is under way.
#[derive(Debug)]
pub(super) struct Couriers {
    runtime: Handle,
    mail: Option<Courier<Mail>>,
    webhooks: Vec<Courier<Webhook>>,
    mailed: Tally,
    posted: Tally,
    breaks: Breaks,
    /// Each ends by itself within [`RETIREMENT`].
    retiring: JoinSet<usize>,
}

impl Couriers {
    pub(super) fn new(runtime: Handle, settings: &Notify, breaks: Breaks) -> Self {
        let (mailed, posted) = (Tally::default(), Tally::default());
        let retiring = JoinSet::new();
        let mut couriers =
            Self { runtime, mail: None, webhooks: Vec::new(), mailed, posted, breaks, retiring };
        couriers.configure(settings);
        couriers
    }

    /// What waits for a receiver that stays is kept, in order.
    pub(super) fn configure(&mut self, settings: &Notify) {
        while self.retiring.try_join_next().is_some() {}
        let mut mails: Vec<_> = self.mail.take().into_iter().collect();
        // There is one mail server; a change of its address is a change of settings.
        self.mail =
            settings.mail.as_ref().map(|mail| self.take_over(&mut mails, mail, &self.mailed, |_| true));
        let mut old = std::mem::take(&mut self.webhooks);
        for webhook in &settings.webhooks {
            let is_same =
                |old: &Webhook| old.url.server == webhook.url.server && old.url.path == webhook.url.path;
            let courier = self.take_over(&mut old, webhook, &self.posted, is_same);
            self.webhooks.push(courier);
        }
        mails.into_iter().for_each(|courier| self.retire(courier));
        old.into_iter().for_each(|courier| self.retire(courier));
    }

    /// Returns at once.
    pub(super) fn tell(&self, event: &Arc<Event>) {
        self.mail.iter().for_each(|mail| mail.tell(event));
        self.webhooks.iter().for_each(|webhook| webhook.tell(event));
    }

    pub(super) fn mail_counters(&self) -> Delivered {
        self.mailed.counters()
    }

    pub(super) fn webhook_counters(&self) -> Delivered {
        self.posted.counters()
    }

    /// Tells everybody what waits, no longer than `limit`; the number of events that were not delivered.
    pub(super) async fn finish(mut self, limit: Duration) -> usize {
        let deadline = Instant::now() + limit;
        let mut ending = JoinSet::new();
        if let Some(mail) = self.mail.take() {
            ending.spawn_on(mail.finish(limit), &self.runtime);
        }
        for webhook in self.webhooks {
            ending.spawn_on(webhook.finish(limit), &self.runtime);
        }
        let mut left = 0;
        while let Some(one) = ending.join_next().await {
            left += one.unwrap_or_default();
        }
        // Their time began earlier than that of the others.
        let retired = async { while self.retiring.join_next().await.is_some() {} };
        if timeout_at(deadline, retired).await.is_err() {
            tracing::warn!("receivers that are configured no longer were not told of all before the end");
        }
        left
    }

    fn take_over<S: Deliver + Clone>(
        &self,
        old: &mut Vec<Courier<S>>,
        settings: &S,
        tally: &Tally,
        is_same: impl Fn(&S) -> bool,
    ) -> Courier<S> {
        let Some(at) = old.iter().position(|courier| is_same(&courier.settings())) else {
            return Courier::spawn(&self.runtime, settings.clone(), tally.clone(), &self.breaks);
        };
        let courier = old.swap_remove(at);
        if *courier.settings() != *settings {
            courier.change(settings.clone());
        }
        courier
    }

    fn retire<S: Deliver>(&mut self, courier: Courier<S>) {
        self.retiring.spawn_on(courier.finish(RETIREMENT), &self.runtime);
    }
}
