//! Quorum and hysteresis, and whether the weights can ever reach them.

use crate::config::context::{Context, Field};
use crate::config::defaults;
use crate::config::diagnostics::{Finding, Place};
use crate::config::raw::PoolOptions;
use crate::engine::model::Portion;

/// Above the quorum, the lower threshold would be negative: never lost but at weight 0.
pub(super) fn judge_hysteresis(cx: &mut Context<'_>, pool: &PoolOptions) {
    let quorum = pool.quorum.value_or(defaults::QUORUM);
    let Some(hysteresis) = pool.hysteresis.get().filter(|hysteresis| hysteresis.value > quorum) else {
        return;
    };
    if pool.quorum.is_broken() {
        return;
    }
    let message = format!("a hysteresis of {} is more than the quorum of {quorum}", hysteresis.value);
    let finding = Finding::error(hysteresis.place, message);
    let finding = match pool.quorum.place() {
        Some(place) => finding.label(place, "the quorum is set here"),
        None => finding,
    };
    cx.push(finding.remedy(format!("write a hysteresis from 0 to {quorum}, or a higher quorum")));
}

/// `weights`: the sum of all configured weights, if it is known and cannot grow.
pub(super) fn warn_unreachable(cx: &mut Context<'_>, pool: &PoolOptions, header: Place, weights: u64) {
    let quorum = pool.quorum.value_or(defaults::QUORUM);
    let hysteresis = pool.hysteresis.value_or(defaults::HYSTERESIS);
    let upper = u64::from(quorum) + u64::from(hysteresis);
    let (key, what) = if u64::from(quorum) > weights {
        (&pool.quorum, format!("a quorum of {quorum}"))
    } else if upper > weights && hysteresis <= quorum {
        (&pool.hysteresis, format!("a quorum of {quorum} with a hysteresis of {hysteresis}"))
    } else {
        return;
    };
    let message = format!("{what} can never be reached: the weights add up to {weights}");
    let finding = Finding::warning(place_or(key, header), message);
    let finding =
        if key.place().is_some() { finding.label(header, "of this virtual server") } else { finding };
    cx.push(finding.remedy("write a lower one, or higher weights; as it is, it counts as their sum"));
}

/// A number of real servers that there are not: nobody would ever be taken out.
pub(super) fn warn_too_many(cx: &mut Context<'_>, pool: &PoolOptions, header: Place, servers: usize) {
    let Some(key) = pool.min_alive.get() else { return };
    let Portion::Count(count) = key.value else { return };
    if u64::from(count) <= servers as u64 || servers == 0 {
        return;
    }
    let plural = if servers == 1 { "" } else { "s" };
    let message = format!("a min_alive of {count} can never be met by {servers} real server{plural}");
    let finding = Finding::warning(key.place, message).label(header, "of this virtual server");
    cx.push(
        finding
            .remedy("write a lower one, or a share as in \"50%\"; as it is, no verdict takes a server out"),
    );
}

fn place_or(key: &Field<u32>, header: Place) -> Place {
    key.place().unwrap_or(header)
}
