//! Days at high speed: flaps, reloads, scripts, scrapes, clients and orders, while what the daemon holds
//! is sampled. It must be flat after the warm-up.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::lab::backend::Backend;
use crate::lab::client::fetch;
use crate::lab::wait::{pause, within};
use crate::process::Daemon;
use crate::servers::{CHECKED, elsewhere};
use crate::world::{Held, World, first, held};

/// What one sample measures, by name, and what of many samples tells whether it grows.
struct Figure {
    name: &'static str,
    of: fn(&Sample) -> u64,
    kept: Kept,
}

struct Sample {
    at: Duration,
    held: Held,
    /// Of both runtimes, as the daemon says.
    tasks: u64,
}

#[derive(Clone, Copy, Debug)]
enum Kept {
    /// Pages come and go with the allocator.
    Median,
    /// A check that runs at the moment of a sample has a socket, a client a connection; what leaks is
    /// there at the quietest moment too.
    Least,
}

impl Sample {
    /// Several looks, of which the least of each figure counts: a look itself is a client of the daemon's.
    fn take(world: &World, daemon: &Daemon<'_>, at: Duration) -> Self {
        let look = |_| {
            pause(Duration::from_millis(30));
            Self { at, held: held(daemon), tasks: tasks(world) }
        };
        let looks: Vec<Self> = (0..LOOKS).map(look).collect();
        let least = |figure: fn(&Self) -> u64| looks.iter().map(figure).min().unwrap_or(0);
        Self {
            at,
            held: Held {
                resident_kilobytes: least(|look| look.held.resident_kilobytes),
                peak_kilobytes: least(|look| look.held.peak_kilobytes),
                descriptors: least(|look| look.held.descriptors),
                threads: least(|look| look.held.threads),
                netlink_sockets: least(|look| look.held.netlink_sockets),
                children: least(|look| look.held.children),
            },
            tasks: least(|look| look.tasks),
        }
    }
}

const LOOKS: usize = 6;

/// A connection more at the quietest moment is chance. What leaks does so in each of hundreds of turns.
const SLACK: u64 = 2;

const FIGURES: [Figure; 6] = [
    Figure { name: "resident_kilobytes", of: |sample| sample.held.resident_kilobytes, kept: Kept::Median },
    Figure { name: "descriptors", of: |sample| sample.held.descriptors, kept: Kept::Least },
    Figure { name: "threads", of: |sample| sample.held.threads, kept: Kept::Least },
    Figure { name: "tasks", of: |sample| sample.tasks, kept: Kept::Least },
    Figure { name: "netlink_sockets", of: |sample| sample.held.netlink_sockets, kept: Kept::Least },
    Figure { name: "children", of: |sample| sample.held.children, kept: Kept::Least },
];

/// A fifth of the run is warm-up: caches, connection histories and the allocator's arenas fill.
const WARM_UP: usize = 5;

#[test]
#[ignore = "takes LVSD_SOAK_MINUTES: ./test soak"]
fn soak() {
    let minutes = std::env::var("LVSD_SOAK_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let length = Duration::from_secs(minutes * 60);
    let world = World::new(&elsewhere());
    let config = config(&world);
    let _tls = ["198.51.100.11:443", "198.51.100.12:443"].map(|at| TlsServer::start(&world, at));
    world.director.configure(&config);
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
            samples.push(Sample::take(&world, &daemon, started.elapsed()));
        }
    }
    checked.set_status(200);
    // Wherever among its turns it has ended: no order stays in force.
    drop(world.director.lvsd("weight 198.51.100.12:80 auto"));
    keep(&samples);
    println!("faults: soak: {turn} turns, {} samples in {} s", samples.len(), started.elapsed().as_secs());
    let complaints: Vec<String> = FIGURES.iter().filter_map(|figure| grows(figure, &samples)).collect();
    assert!(complaints.is_empty(), "it is not flat: {complaints:?}");
    world.works(&config, 5);
    trial.end();
    assert!(daemon.stop().success());
}

/// Every kind of work: checks over TCP and TLS, scripts that check and that are told.
fn config(world: &World) -> String {
    let told = "[daemon.notify]\nscript = [\"/bin/true\"]\n\n[defaults]\ndelay_loop = \"200ms\"";
    let ca = world.director.path("server.pem");
    let checks = format!(
        "check = [{{ http = {{ path = \"/\" }} }}, {{ script = {{ argv = [\"/bin/true\"] }}, delay_loop = \"1s\" }},\
          {{ tcp = {{ tls = {{ ca = {ca:?}, server_name = \"server\" }} }}, connect_port = 443 }}]"
    );
    // On a busy machine a program may take its time to start: what flaps is told to.
    let patient = elsewhere().replacen("timeout = \"2s\"", "timeout = \"20s\"", 1);
    let config = patient.replacen("[defaults]\ndelay_loop = \"100ms\"", told, 1);
    config.replacen("check = { http = { path = \"/\" } }", &checks, 1)
}

/// `openssl s_server`, ended when dropped.
struct TlsServer(Child);

impl TlsServer {
    fn start(world: &World, address: &str) -> Self {
        let (certificate, key) = (world.director.path("server.pem"), world.director.path("server.key"));
        if !certificate.exists() {
            let own = rcgen::generate_simple_self_signed(["server".to_owned()]).expect("a certificate");
            fs::write(&key, own.signing_key.serialize_pem()).expect("the folder is ours");
            fs::write(&certificate, own.cert.pem()).expect("the folder is ours");
        }
        let mut command = Command::new("openssl");
        command.args(["s_server", "-quiet", "-www", "-accept", address, "-cert"]).arg(certificate);
        command.arg("-key").arg(key).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(
            world.network.servers.run(|| command.spawn()).expect("tests/lab/install kernel installs openssl"),
        )
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
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
                let reply = world.network.director.run(|| ask(page));
                assert!(reply.is_some(), "{page} is answered");
            }
        }
        2 => drop(world.director.lvsd("status")),
        3 => drop(world.director.lvsd("weight 198.51.100.12:80 2")),
        4 => drop(world.director.lvsd("weight 198.51.100.12:80 auto")),
        6 => drop(world.network.director.run(|| fetch("127.0.0.1:9480"))),
        _ => drop(world.director.lvsd("check-now 198.51.100.12:80")),
    }
    pause(Duration::from_millis(100));
}

/// The reply of the HTTP listener, with its head.
fn ask(page: &str) -> Option<String> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect("127.0.0.1:9480").ok()?;
    let request = format!("GET {page} HTTP/1.1\r\nHost: lvsd\r\nConnection: close\r\n\r\n");
    let mut reply = String::new();
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    stream.read_to_string(&mut reply).ok()?;
    reply.starts_with("HTTP/1.1 ").then_some(reply)
}

/// A scrape comes without the part of a loop that does not answer in time, as where the host leaves the guest no
/// processor for a while: then the next one counts.
fn tasks(world: &World) -> u64 {
    within(Duration::from_secs(60), "the tasks of each thread", || {
        let page = world.network.director.run(|| ask("/metrics")).expect("metrics are answered");
        let samples = page.lines().filter_map(|line| line.strip_prefix("lvsd_tasks{")?.rsplit(' ').next());
        let numbers: Vec<u64> = samples.map(|number| number.parse().expect("a number")).collect();
        (numbers.len() == 2).then(|| numbers.iter().sum())
    })
}

/// What is wrong with a figure: in the last third it is above that of the first after the warm-up.
fn grows(figure: &Figure, samples: &[Sample]) -> Option<String> {
    let warm = &samples[samples.len() / WARM_UP..];
    let third = warm.len() / 3;
    let kept = |part: &[Sample]| {
        let mut values: Vec<u64> = part.iter().map(figure.of).collect();
        values.sort_unstable();
        match figure.kept {
            Kept::Median => values[values.len() / 2],
            Kept::Least => values[0],
        }
    };
    let (first, last) = (kept(&warm[..third]), kept(&warm[warm.len() - third..]));
    let (name, how) = (figure.name, format!("{:?}", figure.kept).to_lowercase());
    let limit = match figure.kept {
        Kept::Median => first + first / 20 + 512,
        Kept::Least => first + SLACK,
    };
    println!("faults: soak: {name}, {how}: {first} in the first third after the warm-up, {last} in the last");
    (last > limit).then(|| format!("{name}: {first}, then {last}"))
}

/// A table and a picture of it, beside what cargo builds.
fn keep(samples: &[Sample]) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let mut table = String::from("seconds");
    for Figure { name, .. } in FIGURES {
        write!(table, ",{name}").expect("a text");
    }
    for sample in samples {
        write!(table, "\n{:.1}", sample.at.as_secs_f64()).expect("a text");
        for Figure { of, .. } in FIGURES {
            write!(table, ",{}", of(sample)).expect("a text");
        }
    }
    fs::write(folder.join("soak.csv"), table + "\n").expect("ours");
    fs::write(folder.join("soak.svg"), picture(samples)).expect("ours");
}

fn picture(samples: &[Sample]) -> String {
    let mut text = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 710\" font-family=\"sans-serif\" font-size=\"13\">\n",
    );
    let end = samples.last().map_or(1.0, |sample| sample.at.as_secs_f64());
    for (Figure { name, of, .. }, bottom) in FIGURES.iter().zip((1..).map(|row| f64::from(row) * 115.0)) {
        let largest = samples.iter().map(of).max().unwrap_or(0);
        let height = |value: u64| bottom - 80.0 * value as f64 / largest.max(1) as f64;
        let points: Vec<String> = samples
            .iter()
            .map(|sample| {
                format!("{:.1},{:.1}", 10.0 + 780.0 * sample.at.as_secs_f64() / end, height(of(sample)))
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
