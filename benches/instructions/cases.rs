//! What is counted: each case makes its inputs, and returns the work that is measured, which checks what it
//! came to.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use lvsd::config::Kept;
use lvsd::engine::model::Family;
use lvsd::engine::{Event, Readings};
use lvsd::ipvs::{Operation, bytes, plan};
use toml::de::DeTable;

use super::inputs::{self, START};
use super::reply;

/// What is measured. Once only.
type Work = Box<dyn FnMut() -> Result<()>>;

/// Its name, and what makes it ready.
type Case = (&'static str, fn() -> Result<Work>);

pub(crate) const CASES: [Case; 14] = [
    ("record-success-10k", record_success),
    ("record-failure-10k", record_failure),
    ("table-of-256x40", whole_table),
    ("changes-1-of-256x40", one_change),
    ("diff-equal-10k", diff_equal),
    ("diff-half-10k", diff_half),
    ("diff-other-10k", diff_other),
    ("parse-5000x4", parse),
    ("load-20000-servers", load),
    ("load-1-change-256x40", load_one_change),
    ("reload-same-5000x4", reload_same),
    ("encode-256x40", encode),
    ("copy-encoded-256x40", copy_encoded),
    ("decode-dump-10k", decode),
];

/// A case, its reference, and how many times that it may take.
pub(crate) const BOUNDS: [(&str, &str, f64); 2] = [
    // The parser of TOML alone, which keeps no more than text and places.
    ("reload-same-5000x4", "parse-5000x4", 3.0),
    // A request costs the kernel twenty times what it costs us.
    ("encode-256x40", "copy-encoded-256x40", 15.0),
];

/// The everyday of the engine: a result that changes nothing, taken in, and the next run arranged.
fn record_success() -> Result<Work> {
    let config = inputs::load(&inputs::sources(&inputs::text(250, 40)))?;
    let (mut engine, ids) = inputs::settled(&config);
    ensure!(ids.len() == 10_000, "{} checks", ids.len());
    let good = inputs::good();
    Ok(Box::new(move || {
        for (id, n) in ids.iter().zip(0..) {
            let now = START + Duration::from_secs(121) + Duration::from_micros(n);
            engine.handle_outcome(*id, &good, now);
            engine.handle_timeout(now);
        }
        ensure!(engine.next_event().is_none(), "something happened");
        Ok(())
    }))
}

/// 10,000 servers in one pool die one by one; then one table for all of them.
fn record_failure() -> Result<Work> {
    let config = inputs::load(&inputs::sources(&inputs::text(1, 10_000)))?;
    let (mut engine, ids) = inputs::settled(&config);
    let bad = inputs::bad();
    Ok(Box::new(move || {
        let mut died = 0;
        for (id, n) in ids.iter().zip(0..) {
            let now = START + Duration::from_secs(121) + Duration::from_micros(n);
            engine.handle_outcome(*id, &bad, now);
            engine.handle_timeout(now);
            while let Some(event) = engine.next_event() {
                died += usize::from(matches!(event, Event::RealServer { alive: false, .. }));
            }
        }
        ensure!(died == 10_000, "{died} died");
        ensure!(engine.take_table_changes().len() == 1, "one service changes");
        Ok(())
    }))
}

fn whole_table() -> Result<Work> {
    let config = inputs::load(&inputs::sources(&inputs::text(256, 40)))?;
    let (mut engine, ids) = inputs::started(&config);
    let good = inputs::good();
    ids.iter().for_each(|id| engine.handle_outcome(*id, &good, START + Duration::from_secs(61)));
    Ok(Box::new(move || {
        let changes = engine.take_table_changes().len();
        ensure!(changes == 256, "{changes} services changed");
        Ok(())
    }))
}

/// From a verdict to the services that differ.
fn one_change() -> Result<Work> {
    let config = inputs::load(&inputs::sources(&inputs::text(256, 40)))?;
    let (mut engine, ids) = inputs::settled(&config);
    let bad = inputs::bad();
    Ok(Box::new(move || {
        ids.iter().take(1).for_each(|id| engine.handle_outcome(*id, &bad, START + Duration::from_secs(121)));
        let changes = engine.take_table_changes().len();
        ensure!(changes == 1, "{changes} services changed");
        Ok(())
    }))
}

fn diff_equal() -> Result<Work> {
    let table = inputs::table(256, 40)?;
    let (same, owned) = (inputs::copied(&table), inputs::owned(&table));
    Ok(Box::new(move || {
        let operations = plan(&table, &same, &owned).len();
        ensure!(operations == 0, "{operations} operations");
        Ok(())
    }))
}

fn diff_half() -> Result<Work> {
    let table = inputs::one_service(0, 10_000, &inputs::table(1, 1)?)?;
    let (other, owned) = (inputs::with_other_weights(&table), inputs::owned(&table));
    Ok(Box::new(move || {
        let operations = plan(&table, &other, &owned).len();
        ensure!(operations == 5000, "{operations} operations");
        Ok(())
    }))
}

fn diff_other() -> Result<Work> {
    let model = inputs::table(1, 1)?;
    let table = inputs::one_service(0, 10_000, &model)?;
    let (other, owned) = (inputs::one_service(10_000, 10_000, &model)?, inputs::owned(&table));
    Ok(Box::new(move || {
        let operations = plan(&table, &other, &owned).len();
        ensure!(operations == 20_000, "{operations} operations");
        Ok(())
    }))
}

/// What any reader of such a file has to do: text to TOML, nothing of what it means.
fn parse() -> Result<Work> {
    let text = inputs::text(5000, 4);
    Ok(Box::new(move || {
        let table = DeTable::parse(&text)?;
        ensure!(black_box(table.get_ref().len()) == 2, "two keys");
        Ok(())
    }))
}

fn load() -> Result<Work> {
    let sources = inputs::sources(&inputs::text(500, 40));
    Ok(Box::new(move || {
        let config = inputs::load(&sources)?;
        ensure!(config.virtual_servers.len() == 500, "500 virtual servers");
        Ok(())
    }))
}

/// What a SIGHUP reads of a file in which one weight is another than before.
fn load_one_change() -> Result<Work> {
    let text = inputs::text(256, 40);
    let changed = text.replacen("weight = 3", "weight = 9", 1);
    ensure!(text != changed, "nothing changes");
    let (before, kept) = inputs::load_after(&inputs::sources(&text), &Kept::default())?;
    let sources = inputs::sources(&changed);
    Ok(Box::new(move || {
        let (after, _) = inputs::load_after(&sources, &kept)?;
        let pools = before.virtual_servers.iter().zip(&after.virtual_servers);
        let changed = pools.filter(|(before, after)| !Arc::ptr_eq(before, after)).count();
        ensure!(changed == 1, "{changed} virtual servers are made anew");
        Ok(())
    }))
}

/// What a SIGHUP does with a file that has not changed, from its text to a table without changes.
fn reload_same() -> Result<Work> {
    let sources = inputs::sources(&inputs::text(5000, 4));
    let (mut engine, _) = inputs::settled(&inputs::load(&sources)?);
    Ok(Box::new(move || {
        let config = inputs::load(&sources)?;
        let now = START + Duration::from_secs(121);
        let done = engine.handle_reload(&config, &Readings::new(), now);
        engine.handle_timeout(now);
        ensure!(done.actions.is_empty(), "something changes");
        ensure!(engine.take_table_changes().is_empty(), "the table changes");
        Ok(())
    }))
}

const FAMILY: u16 = 28;

fn additions() -> Result<Vec<Operation>> {
    let table = inputs::table(256, 40)?;
    let operations = plan(&lvsd::engine::table::Table::default(), &table, &inputs::owned(&table));
    ensure!(operations.len() == 256 * 41, "{} operations", operations.len());
    Ok(operations)
}

fn encode() -> Result<Work> {
    let operations = additions()?;
    Ok(Box::new(move || {
        let mut buffer = Vec::new();
        // In batches, as they are sent.
        for batch in operations.chunks(128) {
            buffer.clear();
            bytes::append_requests(&mut buffer, FAMILY, batch);
            ensure!(black_box(&buffer).len() > 100 * batch.len(), "too few bytes");
        }
        Ok(())
    }))
}

/// The least that sending these requests takes: each is there already and gets its number.
fn copy_encoded() -> Result<Work> {
    let operations = additions()?;
    let mut encoded = Vec::new();
    for operation in &operations {
        let mut request = Vec::new();
        bytes::append_requests(&mut request, FAMILY, std::slice::from_ref(operation));
        encoded.push(request);
    }
    Ok(Box::new(move || {
        let mut buffer = Vec::new();
        for batch in encoded.chunks(128) {
            buffer.clear();
            for (request, sequence) in batch.iter().zip(1_u32..) {
                let start = buffer.len();
                buffer.extend_from_slice(request);
                if let Some(place) = buffer.get_mut(start + 8..start + 12) {
                    place.copy_from_slice(&sequence.to_ne_bytes());
                }
            }
            ensure!(black_box(&buffer).len() > 100 * batch.len(), "too few bytes");
        }
        Ok(())
    }))
}

fn decode() -> Result<Work> {
    let datagrams = reply::datagrams(10_240);
    Ok(Box::new(move || {
        let mut shown = 0;
        for datagram in &datagrams {
            shown += black_box(bytes::destinations(datagram, Family::Ipv4)?).len();
        }
        ensure!(shown == 10_240, "{shown} destinations");
        Ok(())
    }))
}
