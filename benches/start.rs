//! How soon after its start the daemon opens its first connection to a server, and what that costs.
//!
//! ```text
//! cargo bench --bench start
//! ```
//!
//! `lvsd run --dry-run` with a configuration of one server, which is a listener in this process. Printed,
//! and not judged: the time depends on what else runs.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::fd::AsFd;

const STARTS: usize = 20;
/// A daemon that has not come this far by then is broken.
const PATIENCE: u16 = 30_000;
const BOUND: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("start: {problem:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let file = folder.path().join("lvsd.toml");
    std::fs::write(&file, configuration(folder.path(), &listener.local_addr()?.to_string()))?;
    let mut times = (0..STARTS).map(|_| start(&file, &listener)).collect::<Result<Vec<_>>>()?;
    times.sort();
    let millis = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
    println!(
        "start to first probe: {:.1} ms at least, median of {STARTS} {:.1} ms; wanted at most {} ms",
        millis(times.first()),
        millis(times.get(STARTS / 2)),
        BOUND.as_millis()
    );
    Ok(())
}

fn configuration(folder: &Path, server: &str) -> String {
    let (socket, state) = (folder.join("control.sock"), folder.join("state.json"));
    format!(
        "[daemon]\ncontrol_socket = {socket:?}\nstate_file = {state:?}\n\n[[virtual_server]]\naddress = \
         \"192.0.2.1:80\"\ncheck = {{ tcp = {{}} }}\n\n[[virtual_server.real_server]]\naddress = \"{server}\"\n"
    )
}

fn start(file: &Path, listener: &TcpListener) -> Result<Duration> {
    let begun = Instant::now();
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_lvsd"))
        .args(["run", "--dry-run", "--config"])
        .arg(file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("start lvsd")?;
    let mut wanted = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    let came = poll(&mut wanted, PollTimeout::from(PATIENCE));
    let took = begun.elapsed();
    let ended = end(&mut daemon);
    if came.context("wait for a connection")? == 0 {
        bail!("no connection within {PATIENCE} ms");
    }
    ended?;
    // What is left in the queue would be taken for the next daemon's.
    listener.set_nonblocking(true)?;
    while listener.accept().is_ok() {}
    Ok(took)
}

fn end(daemon: &mut Child) -> Result<()> {
    kill(Pid::from_raw(i32::try_from(daemon.id())?), Signal::SIGTERM).context("end lvsd")?;
    daemon.wait().context("wait for lvsd")?;
    Ok(())
}
