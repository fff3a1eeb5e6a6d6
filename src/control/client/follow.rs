//! `lvsd events`: how everything stands, then a line for each event, until the daemon or the reader goes.

use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{ClientError, Connection};
use crate::control::cli::Form;
use crate::control::exit::ExitCode;
use crate::control::protocol::{Reply, Request};
use crate::control::stream::{Item, SILENCE};
use crate::control::text::{clean, plain_json};

/// Of an event what people are shown.
#[derive(Deserialize)]
struct Shown {
    time: String,
    virtual_server: String,
    real_server: Option<String>,
    text: String,
}

/// What is written to: a pipe tells that its reader has gone without a word written to it.
pub trait Out: Write {
    fn has_gone(&self) -> bool;
}

impl Out for io::StdoutLock<'_> {
    fn has_gone(&self) -> bool {
        let mut asked = [PollFd::new(self.as_fd(), PollFlags::empty())];
        let ended = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
        poll(&mut asked, PollTimeout::ZERO).is_ok()
            && asked.iter().any(|asked| asked.revents().is_some_and(|seen| seen.intersects(ended)))
    }
}

/// Returns when there is nothing more to come: the reader has gone, which is no mistake, or the daemon,
/// which is told on `errors`.
pub fn events(
    socket: &Path,
    form: Form,
    limit: Duration,
    (out, errors): (&mut dyn Out, &mut dyn Write),
) -> Result<ExitCode, ClientError> {
    let mut connection = Connection::open(socket, limit)?;
    connection.send(&Request::Events)?;
    let reply: Reply = connection.receive()?;
    if !reply.ok {
        // Whether anybody reads it changes nothing, here and below.
        let _ = writeln!(errors, "{}", reply.text);
        return Ok(reply.code);
    }
    let opening = match (form, &reply.data) {
        (Form::Json, Some(data)) => plain_json(data.get()),
        (Form::Json | Form::Text, _) => reply.text,
    };
    if write(out, &opening).is_err() {
        return Ok(ExitCode::Done);
    }
    loop {
        connection.renew(SILENCE);
        let written = match connection.receive::<Item>() {
            // Where nothing happens nothing is written, and nobody would notice.
            Ok(Item::Alive) if out.has_gone() => return Ok(ExitCode::Done),
            Ok(Item::Alive) => Ok(()),
            Ok(Item::Event(event)) => match form {
                Form::Json => write(out, &format!("{{\"event\":{}}}", plain_json(event.get()))),
                Form::Text => write(out, &text(event.get())),
            },
            Ok(Item::End(end)) => {
                if form == Form::Json
                    && let Ok(end) = serde_json::to_string(&end)
                {
                    let _ = write(out, &format!("{{\"end\":{end}}}"));
                }
                let _ = writeln!(errors, "lvsd: {}", clean(&end.reason));
                return Ok(end.code);
            }
            Err(ClientError::TimedOut { path, limit }) => return Err(ClientError::Silent { path, limit }),
            Err(ClientError::NoAnswer { path }) => return Err(ClientError::Gone { path }),
            Err(error) => return Err(error),
        };
        if written.is_err() {
            return Ok(ExitCode::Done);
        }
    }
}

/// `2026-11-30T02:31:41.250Z  198.51.100.11:80 in web: DOWN: …`
fn text(event: &str) -> String {
    let Ok(Shown { time, virtual_server, real_server, text }) = serde_json::from_str(event) else {
        return clean(event);
    };
    let object = match real_server {
        Some(server) => format!("{server} in {virtual_server}: "),
        None if virtual_server.is_empty() => String::new(),
        None => format!("{virtual_server}: "),
    };
    clean(&format!("{time}  {object}{text}"))
}

/// A whole line at once, so that an end in between leaves none in halves.
fn write(out: &mut dyn Out, line: &str) -> io::Result<()> {
    out.write_all(format!("{line}\n").as_bytes())?;
    out.flush()
}
