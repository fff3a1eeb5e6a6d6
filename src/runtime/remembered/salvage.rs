//! A text that is JSON, but not all of it what lvsd writes: what is understood of it.
//!
//! Read in pieces, each as strictly as all of it: one that fails is left out, and the smallest is taken that holds
//! what is strange.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Error, from_str};

use super::{File, LeftOut, Pool, Server};

/// The frame must be as it should be; then `why` it was not read as a whole is said of single entries.
pub(super) fn file(
    text: &str,
    why: &Error,
    left_out: &mut LeftOut,
) -> Result<File<String, Vec<Pool>>, String> {
    let frame: Frame<'_> = from_str(text).map_err(|_| why.to_string())?;
    let before = left_out.count();
    let file = File {
        version: frame.version,
        boot_id: frame.boot_id,
        stamp: frame.stamp,
        owned: each(&frame.owned, "owned", left_out),
        announced: each(&frame.announced, "announced", left_out),
        original_timeouts: one(frame.original_timeouts, "original_timeouts", left_out),
        left: each(&frame.left, "left", left_out),
        virtual_servers: frame.virtual_servers.iter().filter_map(|raw| pool(raw, left_out)).collect(),
    };
    if left_out.count() == before {
        left_out.note(words(why));
    }
    Ok(file)
}

#[derive(Deserialize)]
struct Frame<'a> {
    version: u32,
    boot_id: String,
    stamp: String,
    #[serde(borrow)]
    owned: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    announced: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    original_timeouts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    left: Vec<&'a RawValue>,
    #[serde(borrow)]
    virtual_servers: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct PoolFrame<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    services: Vec<&'a RawValue>,
    quorum_up: bool,
    #[serde(borrow, default)]
    since: Option<&'a RawValue>,
    #[serde(borrow)]
    real_servers: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct ServerFrame<'a> {
    address: String,
    #[serde(borrow, default)]
    order: Option<&'a RawValue>,
    #[serde(borrow, default)]
    weight: Option<&'a RawValue>,
    #[serde(borrow, default)]
    kept: Option<&'a RawValue>,
    #[serde(borrow, default)]
    since: Option<&'a RawValue>,
    #[serde(borrow, default)]
    checks: Vec<&'a RawValue>,
}

fn pool(raw: &RawValue, left_out: &mut LeftOut) -> Option<Pool> {
    whole_or_parts(raw, "virtual server", left_out, |raw, left_out| {
        let frame: PoolFrame<'_> = from_str(raw.get()).ok()?;
        Some(Pool {
            name: one(frame.name, "name", left_out).unwrap_or_default(),
            services: each(&frame.services, "services", left_out),
            quorum_up: frame.quorum_up,
            since: one(frame.since, "since", left_out),
            real_servers: frame.real_servers.iter().filter_map(|raw| server(raw, left_out)).collect(),
        })
    })
}

fn server(raw: &RawValue, left_out: &mut LeftOut) -> Option<Server> {
    whole_or_parts(raw, "real server", left_out, |raw, left_out| {
        let frame: ServerFrame<'_> = from_str(raw.get()).ok()?;
        let of = |what: &str| format!("real server {:?}: {what}", frame.address);
        Some(Server {
            order: one(frame.order, &of("order"), left_out),
            weight: one(frame.weight, &of("weight"), left_out),
            kept: one(frame.kept, &of("kept"), left_out),
            since: one(frame.since, &of("since"), left_out),
            checks: each(&frame.checks, &of("check"), left_out),
            address: frame.address,
        })
    })
}

/// What is wrong with it is said once: of its parts, if it is one of them.
fn whole_or_parts<'a, T: Deserialize<'a>>(
    raw: &'a RawValue,
    what: &str,
    left_out: &mut LeftOut,
    parts: impl FnOnce(&'a RawValue, &mut LeftOut) -> Option<T>,
) -> Option<T> {
    let why = match from_str(raw.get()) {
        Ok(whole) => return Some(whole),
        Err(why) => why,
    };
    let before = left_out.count();
    let found = parts(raw, left_out);
    if left_out.count() == before {
        left_out.note(format!("{what}: {}", words(&why)));
    }
    found
}

fn each<'a, T: Deserialize<'a>, C: FromIterator<T>>(
    raws: &[&'a RawValue],
    what: &str,
    left_out: &mut LeftOut,
) -> C {
    left_out.all(raws, |raw| from_str(raw.get()).map_err(|why| format!("{what}: {}", words(&why))))
}

fn one<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>, what: &str, left_out: &mut LeftOut) -> Option<T> {
    each::<T, Vec<T>>(raw.as_slice(), what, left_out).pop()
}

/// Without the place, which is one in the piece.
fn words(why: &Error) -> String {
    let text = why.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}
