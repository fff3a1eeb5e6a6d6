//! The `ping` check: one ICMP echo request, and the reply that fits it.

use super::deadline::Deadline;
use super::fault::Trouble;
use super::icmp;
use crate::engine::model::{Ping, Target};

/// What is made once for all runs of a `ping` check.
#[derive(Debug)]
pub(super) struct Plan {
    size: u16,
}

impl Plan {
    pub(super) fn new(ping: &Ping) -> Self {
        Self { size: ping.size }
    }
}

pub(super) async fn probe(
    target: &Target,
    plan: &Plan,
    deadline: &mut Deadline<'_>,
) -> Result<String, Trouble> {
    icmp::echo(target, plan.size, deadline).await?;
    Ok("echo reply".to_owned())
}
