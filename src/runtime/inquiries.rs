//! Questions about single real servers: why one is as it is.

use super::requests::{VIEW, fill_in, miss, refused};
use super::supervisor::{Answer, Supervisor};
use crate::control::Reply;
use crate::control::protocol::Place;
use crate::control::why::{self, Case};
use crate::engine::{OrderRefusal, Selector, Time};

pub(super) fn selector(on: &Place) -> Selector<'_> {
    Selector {
        address: on.address.address,
        port: on.address.port,
        virtual_server: on.virtual_server.as_deref(),
    }
}

impl Supervisor {
    pub(super) fn answer_why(&self, on: &Place, reply: Answer, now: Time) {
        let inquiries = match self.engine.inquire(selector(on)) {
            Ok(inquiries) => inquiries,
            Err(refusal) => {
                // A client that went away wants no answer, here and below.
                let _ = reply.send(Reply::failed(self.nobody(on, &refusal, now)));
                return;
            }
        };
        let case = |inquiry: crate::engine::inquiry::Inquiry| {
            let history = self.announcer.history.of(&inquiry.virtual_server.name, inquiry.status.address);
            Case { inquiry, history }
        };
        let mut cases: Vec<Case> = inquiries.into_iter().map(case).collect();
        let (wanted, _refusals) = self.wanted();
        let view = self.writer.view();
        tokio::spawn(async move {
            if let Ok(Ok(view)) = tokio::time::timeout(VIEW, view).await {
                fill_in(cases.iter_mut().map(|case| &mut case.inquiry.status), &view);
                cases.iter_mut().for_each(|case| miss(&mut case.inquiry.status, &view, &wanted));
            }
            let _ = reply.send(why::reply(&cases, now));
        });
    }

    /// Of a server that a reload took away there may still be something to tell.
    fn nobody(&self, on: &Place, refusal: &OrderRefusal, now: Time) -> String {
        let text = refused(on, refusal);
        let mut history = self.announcer.history.of_server(on.address);
        history.retain(|h| on.virtual_server.as_ref().is_none_or(|name| **name == *h.virtual_server));
        match refusal {
            OrderRefusal::Nobody { .. } if !history.is_empty() => {
                text + &why::farewell(on.address, &history, now)
            }
            OrderRefusal::Nobody { .. } | OrderRefusal::Ambiguous(_) => text,
        }
    }
}
