//! Days at high speed: flaps, reloads, scripts, scrapes, clients and orders, while what the daemon holds
//! is sampled. It must be flat after the warm-up.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::lab::backend::Backend;
use crate::lab::client::fetch;
use crate::lab::wait::pause;
use crate::process::Daemon;
use crate::servers::{CHECKED, elsewhere};
use crate::world::{Held, World, first, held};

/// What one sample measures, by name.
type Figure = (&'static str, fn(&Held) -> u64);

const FIGURES: [Figure; 5] = [
    ("resident_kilobytes", |held| held.resident_kilobytes),
    ("descriptors", |held| held.descriptors),
    ("threads", |held| held.threads),
    ("netlink_sockets", |held| held.netlink_sockets),
    ("children", |held| held.children),
];

/// A fifth of the run is warm-up: caches, connection histories and the allocator's arenas fill.
const WARM_UP: usize = 5;

#[test]
#[ignore = "not yet seen to pass: ./test soak is the long one"]
fn soak_for_a_minute() {
    soak(Duration::from_secs(75));
}

#[test]
#[ignore = "takes LVSD_SOAK_MINUTES: ./test soak"]
fn soak_for_minutes() {
    let minutes = std::env::var("LVSD_SOAK_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    soak(Duration::from_secs(minutes * 60));
}

fn soak(length: Duration) {
    let told = "script = [\"/bin/true\"]\n\n[defaults]\ndelay_loop = \"50ms\"";
    let config =
        elsewhere().replacen("[defaults]\ndelay_loop = \"100ms\"", &format!("[daemon.notify]\n{told}"), 1);
    let world = World::new(&config);
    let checked = Backend::start(&world.network.servers, CHECKED);
    let daemon = world.director.start();
    let mut trial = world.trial("soak", first);
    let (started, mut samples) = (Instant::now(), Vec::new());
    let mut turn = 0;
    while started.elapsed() < length {
        disturb(&world, &daemon, &checked, &config, turn);
        turn += 1;
        trial.survived(1);
        if turn % 4 == 0 {
            samples.push((started.elapsed(), held(&daemon)));
        }
    }
    checked.set_status(200);
    keep(&samples);
    println!("faults: soak: {turn} turns, {} samples in {} s", samples.len(), started.elapsed().as_secs());
    let complaints: Vec<String> = FIGURES.iter().filter_map(|figure| grows(figure, &samples)).collect();
    assert!(complaints.is_empty(), "it is not flat: {complaints:?}");
    world.works(&config, 5);
    trial.end();
    assert!(daemon.stop().success());
}

/// One turn of everything that happens to a daemon.
fn disturb(world: &World, daemon: &Daemon<'_>, checked: &Backend, config: &str, turn: u32) {
    checked.set_status(if turn.is_multiple_of(2) { 500 } else { 200 });
    match turn % 8 {
        0 => {
            world.weigh(config, 4 + turn / 8 % 5);
            daemon.signal(Signal::SIGHUP);
        }
        1 | 5 => {
            for page in ["/metrics", "/", "/readyz"] {
                let ask = || ask(page);
                assert!(world.network.director.run(ask), "{page} is answered");
            }
        }
        2 => drop(world.director.lvsd("status")),
        3 => drop(world.director.lvsd("weight 198.51.100.12:80 2")),
        4 => drop(world.director.lvsd("enable 198.51.100.12:80")),
        6 => drop(world.network.director.run(|| fetch("127.0.0.1:9480"))),
        _ => drop(world.director.lvsd("check-now 198.51.100.12:80")),
    }
    pause(Duration::from_millis(100));
}

fn ask(page: &str) -> bool {
    use std::io::{Read, Write};
    let Ok(mut stream) = std::net::TcpStream::connect("127.0.0.1:9480") else { return false };
    let request = format!("GET {page} HTTP/1.1\r\nHost: lvsd\r\nConnection: close\r\n\r\n");
    let mut reply = String::new();
    drop(stream.set_read_timeout(Some(Duration::from_secs(20))));
    stream.write_all(request.as_bytes()).is_ok()
        && stream.read_to_string(&mut reply).is_ok()
        && reply.starts_with("HTTP/1.1 ")
}

/// What is wrong with a figure: its median of the last third is above that of the first after the warm-up.
fn grows((name, figure): &Figure, samples: &[(Duration, Held)]) -> Option<String> {
    let warm = &samples[samples.len() / WARM_UP..];
    let third = warm.len() / 3;
    let median = |part: &[(Duration, Held)]| {
        let mut values: Vec<u64> = part.iter().map(|(_, held)| figure(held)).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    let (first, last) = (median(&warm[..third]), median(&warm[warm.len() - third..]));
    let limit = if *name == "resident_kilobytes" { first + first / 20 + 512 } else { first };
    println!("faults: soak: {name}: {first} in the first third after the warm-up, {last} in the last");
    (last > limit).then(|| format!("{name}: {first}, then {last}"))
}

/// A table and a picture of it, beside what cargo builds.
fn keep(samples: &[(Duration, Held)]) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let mut table = String::from("seconds");
    for (name, _) in FIGURES {
        write!(table, ",{name}").expect("a text");
    }
    for (time, held) in samples {
        write!(table, "\n{:.1}", time.as_secs_f64()).expect("a text");
        for (_, figure) in FIGURES {
            write!(table, ",{}", figure(held)).expect("a text");
        }
    }
    std::fs::write(folder.join("soak.csv"), table + "\n").expect("ours");
    std::fs::write(folder.join("soak.svg"), picture(samples)).expect("ours");
}

fn picture(samples: &[(Duration, Held)]) -> String {
    let mut text = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 600\" font-family=\"sans-serif\" font-size=\"13\">\n",
    );
    let end = samples.last().map_or(1.0, |(time, _)| time.as_secs_f64());
    for ((name, figure), bottom) in FIGURES.iter().zip((1..).map(|row| f64::from(row) * 115.0)) {
        let largest = samples.iter().map(|(_, held)| figure(held)).max().unwrap_or(0);
        let height = |value: u64| bottom - 80.0 * value as f64 / largest.max(1) as f64;
        let points: Vec<String> = samples
            .iter()
            .map(|(time, held)| {
                format!("{:.1},{:.1}", 10.0 + 780.0 * time.as_secs_f64() / end, height(figure(held)))
            })
            .collect();
        writeln!(
            text,
            "<text x=\"10\" y=\"{:.0}\">{name}, at most {largest}, from 0 over {end:.0} s</text>\n\
             <polyline fill=\"none\" stroke=\"#1f77b4\" points=\"{}\"/>",
            bottom - 86.0,
            points.join(" ")
        )
        .expect("a text");
    }
    text + "</svg>\n"
}
