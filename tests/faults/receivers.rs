//! Who is told of events, and does not listen: scripts that ignore TERM, a FIFO's reader that stops reading.

use std::fs::File;
use std::time::Duration;

use crate::lab::backend::Backend;
use crate::lab::wait::{pause, until};
use crate::servers::{CHECKED, elsewhere};
use crate::world::{World, first, held, rounds};

#[test]
fn a_script_that_ignores_term_and_a_reader_that_stops() {
    let tables = "[daemon.notify]\nscript_timeout = \"200ms\"\nfifo = \"FIFO\"\n\
         script = [\"/bin/sh\", \"-c\", \"trap '' TERM; while :; do sleep 1; done\", \"sh\"]\n\n[defaults]";
    let folder = tempfile::TempDir::new().expect("a folder");
    let fifo = folder.path().join("events");
    let tables = tables.replace("FIFO", &fifo.display().to_string());
    let config = elsewhere().replacen("[defaults]", &tables, 1);
    let world = World::new(&config);
    let checked = Backend::start(&world.network.servers, CHECKED);
    let daemon = world.director.start();
    // Opened, and never read.
    let _reader = File::options().read(true).write(true).open(&fifo).expect("it was made");
    let before = held(&daemon);
    let mut trial = world.trial("scripts that ignore TERM, a FIFO that nobody reads", first);
    for round in 0..rounds(30, 1500) {
        checked.set_status(if round % 2 == 0 { 500 } else { 200 });
        pause(Duration::from_millis(300));
        trial.survived(1);
    }
    checked.set_status(200);
    world.works(&config, 5);
    until("scripts were killed", || {
        world.director.log().contains("timed out") || held(&daemon).children <= 2
    });
    let after = held(&daemon);
    assert!(
        after.children <= before.children + 2,
        "one script at a time for an object: {before:?}, {after:?}"
    );
    assert!(after.peak_kilobytes < before.peak_kilobytes + 16 * 1024, "{before:?}, {after:?}");
    trial.end();
    assert!(daemon.stop().success(), "a stop waits for nobody");
}
