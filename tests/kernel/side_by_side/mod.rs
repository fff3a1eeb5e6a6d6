//! The same keepalived.conf through keepalived and through `lvsd import` and lvsd: the same
//! happens to the back ends of both, and the tables are the same but for what a play says.
//!
//! Plays and their configurations are in `plays`; [`play`] says how they are written.

mod play;
mod sides;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::lab::capture::{Capture, writes};
use crate::lab::wait::{SOON, pause};
use play::{Change, Event, Play, Side, Step};
use sides::Stage;

/// How long a table must stay as it is: several runs of the plays' checks.
const HOLD: Duration = Duration::from_millis(600);

macro_rules! plays {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            perform(stringify!($name));
        })*

        #[test]
        fn every_play_is_performed() {
            let known = BTreeSet::from([$(stringify!($name).to_owned()),*]);
            let files = fs::read_dir(folder()).expect("plays").map(|entry| entry.expect("a file").path());
            let plays = files.filter(|path| path.extension().is_some_and(|extension| extension == "play"));
            let found = plays.map(|path| path.file_stem().expect("a name").display().to_string()).collect();
            assert_eq!(known, found);
        }
    };
}

plays! { alpha datagrams file group kernel quorum reload script sorry web }

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernel/side_by_side/plays"))
}

fn read(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn perform(name: &str) {
    let play = Play::parse(&read(&format!("{name}.play")));
    assert!(play.steps.len() > 2, "{name} has too few steps");
    let mut stages = [Side::Keepalived, Side::Lvsd].map(|side| Stage::new(side, &play.udp));
    let mut tables: [BTreeSet<String>; 2] = Default::default();
    for stage in &mut stages {
        play.servers.iter().for_each(|address| stage.add_server(address));
        play.scripts.iter().for_each(|script| stage.add_script(script));
    }
    for step in &play.steps {
        let at = format!("{name}.play:{}: {:?}", step.line, step.event);
        let captures = stages.each_ref().map(|stage| {
            let wanted = step.writes.iter().any(|(side, _)| *side == stage.side);
            wanted.then(|| Capture::start(&stage.network.director))
        });
        stages.iter_mut().for_each(|stage| happen(stage, &step.event));
        for (stage, table) in stages.iter().zip(&mut tables) {
            step.changes.iter().for_each(|change| apply(change, stage.side, table, &at));
        }
        settle(&stages, &tables, step, &at);
        for (capture, stage) in captures.into_iter().zip(&stages) {
            let Some(capture) = capture else { continue };
            let found = writes(&capture.stop(&stage.network.director));
            let wanted = step.writes.iter().find(|(side, _)| *side == stage.side);
            assert_eq!(
                Some(found),
                wanted.map(|(_, names)| names.iter().map(String::as_str).collect()),
                "{at}: {:?}",
                stage.side
            );
        }
    }
}

fn happen(stage: &mut Stage, event: &Event) {
    match event {
        Event::Start { file } => stage.start(&read(file)),
        Event::Reload { file } => stage.reload(&read(file)),
        Event::Stop => stage.stop(),
        Event::Kill { server } => assert!(stage.end_server(server), "no server {server}"),
        Event::Return { server } => stage.add_server(server),
        Event::Status { server, status } => stage.server(server).set_status(*status),
        Event::Body { server, body } => stage.server(server).set_body(body),
        Event::Slow { server, delay } => stage.server(server).set_delay(*delay),
        Event::Put { file, text } => stage.put(file, &format!("{text}\n")),
        Event::Wait { .. } => {}
    }
}

/// The table that a side is to have from now on.
fn apply(change: &Change, side: Side, table: &mut BTreeSet<String>, at: &str) {
    if change.side.is_none_or(|only| only == side) {
        let entry = &change.entry;
        let changed = if change.comes { table.insert(entry.clone()) } else { table.remove(entry) };
        assert!(changed, "{at}: {side:?}: already so, or never so: {entry}");
    }
}

/// Waits until both tables are as written, and sees that they stay so.
fn settle(stages: &[Stage; 2], wanted: &[BTreeSet<String>; 2], step: &Step, at: &str) {
    let end = Instant::now() + SOON;
    let mut since = None;
    let hold = match step.event {
        Event::Wait { time } => time,
        _ => HOLD,
    };
    loop {
        let found = stages.each_ref().map(Stage::table);
        if found == *wanted {
            if since.get_or_insert_with(Instant::now).elapsed() >= hold {
                return;
            }
        } else {
            let late = since.is_some() || Instant::now() > end;
            assert!(!late, "{at}:{}", differences(stages, wanted, &found));
        }
        pause(Duration::from_millis(200));
    }
}

fn differences(stages: &[Stage; 2], wanted: &[BTreeSet<String>; 2], found: &[BTreeSet<String>; 2]) -> String {
    let of = |sign: &str, ones: &BTreeSet<String>, others: &BTreeSet<String>| -> String {
        ones.difference(others).map(|line| format!("\n    {sign} {line}")).collect()
    };
    let each = stages.iter().zip(wanted.iter().zip(found)).map(|(stage, (wanted, found))| {
        format!("\n  {:?}:{}{}", stage.side, of("wanted:", wanted, found), of("found: ", found, wanted))
    });
    each.collect()
}
