//! kill -9 at random moments of a life, and what that leaves behind.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::lab::wait::pause;
use crate::world::{CONFIG, Moments, World, both, rounds};

#[test]
fn killed_in_the_middle_of_anything() {
    let world = World::new(CONFIG);
    world.director.start().kill();
    let mut trial = world.trial("kill -9 under load, in reloads, starts and stops", both);
    let mut moments = Moments::new();
    for round in 0..rounds(20, 200) {
        world.weigh(CONFIG, 4 + round % 5);
        match round % 4 {
            0 => {
                let daemon = world.director.spawn();
                pause(moments.below(Duration::from_millis(500)));
                daemon.kill();
            }
            1 => {
                let daemon = world.director.start();
                pause(moments.below(Duration::from_millis(300)));
                daemon.kill();
            }
            2 => {
                let daemon = world.director.start();
                world.weigh(CONFIG, 10);
                daemon.signal(Signal::SIGHUP);
                pause(moments.below(Duration::from_millis(100)));
                daemon.kill();
            }
            _ => {
                let daemon = world.director.start();
                daemon.signal(Signal::SIGTERM);
                pause(moments.below(Duration::from_millis(50)));
                daemon.kill();
            }
        }
        trial.survived(1);
    }
    let daemon = world.director.start();
    world.works(CONFIG, 7);
    trial.end();
    assert!(daemon.stop().success());
    let left = fs::read_dir(world.director.path("state")).expect("a folder").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["state.json"], "nothing half written stays");
}
