//! `lvsd status --watch`: the status, drawn again in the same place until a signal comes. The terminal is as
//! it was afterwards, however this ends; one that takes nothing more, as after Ctrl-S, delays only what is drawn.

use std::io::{self, IsTerminal, Stdout, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{ClientError, call};
use crate::control::exit::ExitCode;
use crate::control::protocol::{Reply, Request};
use crate::control::status::{Colours, Terminal, cut, fit};

const PACE: Duration = Duration::from_secs(1);
/// For one status. A daemon that needs longer is said to be silent, and asked again.
const PATIENCE: Duration = Duration::from_secs(10);
/// For a terminal to take the last words.
const FAREWELL: Duration = Duration::from_secs(1);
/// Where the terminal does not say.
const COLUMNS: usize = 80;

/// The alternate screen, without a cursor; and back.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";
const HOME: &str = "\u{1b}[H";
const CLEAR_LINE: &str = "\u{1b}[K\r\n";
const CLEAR_BELOW: &str = "\u{1b}[J";

/// What stdout is, if it is a terminal. `NO_COLOR` is a wish of its user, see <https://no-color.org>.
pub fn terminal(stdout: &Stdout) -> Option<Terminal> {
    stdout.is_terminal().then(|| {
        let columns =
            tcgetwinsize(stdout).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let unable = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let colours = if unwanted || unable { Colours::Off } else { Colours::On };
        Terminal { columns: columns.unwrap_or(COLUMNS), colours }
    })
}

/// Until a signal ends it; fails only if the first status does. Without a terminal the pictures come one
/// after the other.
pub fn watch(socket: &Path, name: Option<String>) -> Result<ExitCode, ClientError> {
    let broken = |source: io::Error| ClientError::Broken { path: socket.to_owned(), source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(broken)?;
    let ended = runtime.block_on(follow(socket.to_owned(), Request::Status { name }));
    // A call that still waits for its answer must not hold up the end.
    runtime.shutdown_background();
    ended
}

async fn follow(socket: PathBuf, request: Request) -> Result<ExitCode, ClientError> {
    let broken = |source: io::Error| ClientError::Broken { path: socket.clone(), source };
    let mut signals = Signals::new().map_err(broken)?;
    let mut screen: Option<Screen> = None;
    loop {
        let (to, what) = (socket.clone(), request.clone());
        let mut asking = tokio::task::spawn_blocking(move || call(&to, &what, PATIENCE));
        let reply = tokio::select! {
            reply = &mut asking => reply.map_err(|panicked| broken(io::Error::other(panicked)))?,
            () = signals.end() => return Ok(ExitCode::Done),
        };
        let text = match reply {
            Ok(Reply { ok: false, code, text, .. }) if screen.is_none() => {
                // Nobody may read it.
                let _ = writeln!(io::stderr(), "{text}");
                return Ok(code);
            }
            Ok(reply) => reply.text,
            Err(error) if screen.is_none() => return Err(error),
            Err(error) => format!("{error}\ntrying again"),
        };
        let mut drawing = tokio::task::spawn_blocking({
            screen.get_or_insert_with(Screen::new);
            move || draw(&text)
        });
        tokio::select! {
            drawn = &mut drawing => if !matches!(drawn, Ok(Ok(()))) { return Ok(ExitCode::Done) },
            () = signals.end() => return Ok(ExitCode::Done),
        }
        tokio::select! {
            () = tokio::time::sleep(PACE) => {}
            wake = signals.next() => match wake {
                Wake::End => return Ok(ExitCode::Done),
                Wake::Suspend => {
                    screen = None;
                    // Stopped until the shell says go on; then everything is drawn anew.
                    let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP);
                    screen.get_or_insert_with(Screen::new);
                }
                Wake::Resize => {}
            }
        }
    }
}

struct Signals {
    end: [Signal; 4],
    suspend: Signal,
    resize: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let [interrupt, terminate, hangup, quit] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()]
                .map(signal);
        let suspend = SignalKind::from_raw(nix::sys::signal::Signal::SIGTSTP as i32);
        Ok(Self {
            end: [interrupt?, terminate?, hangup?, quit?],
            suspend: signal(suspend)?,
            resize: signal(SignalKind::window_change())?,
        })
    }

    async fn next(&mut self) -> Wake {
        let Self { end, suspend, resize } = self;
        tokio::select! {
            () = any(end) => Wake::End,
            _ = suspend.recv() => Wake::Suspend,
            _ = resize.recv() => Wake::Resize,
        }
    }

    async fn end(&mut self) {
        any(&mut self.end).await;
    }
}

enum Wake {
    End,
    Suspend,
    Resize,
}

async fn any(end: &mut [Signal; 4]) {
    let [interrupt, terminate, hangup, quit] = end;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
        _ = quit.recv() => {}
    }
}

/// As much as fits.
fn draw(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let Some(terminal) = terminal(&io::stdout()) else {
        writeln!(stdout, "{text}\n")?;
        return stdout.flush();
    };
    let rows = tcgetwinsize(&stdout).map_or(24, |size| usize::from(size.ws_row)).max(2);
    let table = fit(text, terminal);
    let count = table.lines().count();
    let shown = if count < rows { count } else { rows - 2 };
    let mut picture = HOME.to_owned();
    for line in table.lines().take(shown) {
        picture.push_str(line);
        picture.push_str(CLEAR_LINE);
    }
    if shown < count {
        let more = format!("… {} more lines, name a virtual server to see less", count - shown);
        picture.push_str(&cut(&more, terminal.columns));
    }
    picture.push_str(CLEAR_BELOW);
    stdout.write_all(picture.as_bytes())?;
    stdout.flush()
}

/// The terminal while it is ours. Dropped, also by a panic, it is as it was.
struct Screen {
    is_terminal: bool,
}

impl Screen {
    fn new() -> Self {
        let screen = Self { is_terminal: io::stdout().is_terminal() };
        screen.say(ENTER);
        screen
    }

    /// A terminal that takes nothing must hold up neither the start nor the end.
    fn say(&self, words: &'static str) {
        if self.is_terminal {
            let (said, hear) = mpsc::channel();
            std::thread::spawn(move || {
                let mut stdout = io::stdout();
                // A terminal that has gone needs nothing, nor does who has waited long enough.
                let _ = stdout.write_all(words.as_bytes()).and_then(|()| stdout.flush());
                let _ = said.send(());
            });
            let _ = hear.recv_timeout(FAREWELL);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.say(LEAVE);
    }
}
