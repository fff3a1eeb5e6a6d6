//! The program: arguments, one command, exit code.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode as ProcessExit;
use std::time::Duration;

use lvsd::config::{self, Diagnostics, Palette, Sources};
use lvsd::control::cli::{Cli, Command};
use lvsd::control::protocol::Request;
use lvsd::control::{ExitCode, client};
use lvsd::process::helper;
use lvsd::runtime::{self, Target};

/// A reload or a plan of a large configuration takes a while.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> ProcessExit {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|word| word == helper::COMMAND) {
        return helper::run(arguments);
    }
    let cli = match Cli::parse_arguments(std::env::args_os()) {
        Ok(cli) => cli,
        Err(early) if early.code == ExitCode::Done => {
            print(&early.text);
            return early.code.into();
        }
        Err(early) => {
            complain(&early.text);
            return early.code.into();
        }
    };
    dispatch(&cli).into()
}

fn dispatch(cli: &Cli) -> ExitCode {
    match &cli.command {
        Command::Run { dry_run: false } => runtime::run(cli.config_path(), Target::Kernel),
        Command::Run { dry_run: true } => runtime::run(cli.config_path(), Target::Memory),
        Command::Check { file, strict } => check(file.as_deref().unwrap_or(cli.config_path()), *strict),
        Command::Plan { file } => plan(cli, file.as_deref().unwrap_or(cli.config_path())),
        Command::Status { json, .. } => ask(cli, *json),
        Command::Reload
        | Command::Drain(_)
        | Command::Disable(_)
        | Command::Enable(_)
        | Command::Weight(_) => ask(cli, false),
    }
}

/// Validates a file and says all that is wrong with it.
fn check(path: &Path, strict: bool) -> ExitCode {
    let loaded = match Sources::read(path).and_then(|sources| config::load(&sources)) {
        Ok(loaded) => loaded,
        Err(mistakes) => {
            diagnose(&mistakes);
            return ExitCode::Configuration;
        }
    };
    diagnose(&loaded.warnings);
    if strict && !loaded.warnings.is_empty() {
        return ExitCode::Configuration;
    }
    let pools = &loaded.config.virtual_servers;
    let servers: usize = pools.iter().map(|p| p.real_servers.len()).sum();
    print(&format!("{}: {} virtual servers, {servers} real servers\n", path.display(), pools.len()));
    ExitCode::Done
}

/// The client reads the files: it may be another user than the daemon, with another directory.
fn plan(cli: &Cli, path: &Path) -> ExitCode {
    let sources = match Sources::read(path).and_then(|sources| config::load(&sources).map(|_| sources)) {
        Ok(sources) => sources,
        Err(mistakes) => {
            diagnose(&mistakes);
            return ExitCode::Configuration;
        }
    };
    match serde_json::to_value(&sources) {
        Ok(sources) => call(cli, &Request::Plan { sources }, false),
        Err(problem) => {
            complain(&format!("lvsd: cannot send {}: {problem}\n", path.display()));
            ExitCode::Failed
        }
    }
}

fn ask(cli: &Cli, json: bool) -> ExitCode {
    match cli.command.request() {
        Some(request) => call(cli, &request, json),
        None => ExitCode::Usage,
    }
}

fn call(cli: &Cli, request: &Request, json: bool) -> ExitCode {
    let reply = match client::call(&socket(cli), request, PATIENCE) {
        Ok(reply) => reply,
        Err(problem) => {
            complain(&format!("lvsd: {problem}\n"));
            return problem.exit_code();
        }
    };
    match &reply.data {
        Some(data) if json => print(&format!("{}\n", data.get())),
        Some(_) | None if reply.ok => print(&format!("{}\n", reply.text)),
        Some(_) | None => complain(&format!("{}\n", reply.text)),
    }
    reply.code
}

/// `--socket`, else what the file of `-c` says, else the default.
fn socket(cli: &Cli) -> PathBuf {
    let named = || cli.config.as_deref().map(config::control_socket);
    cli.socket.clone().or_else(named).unwrap_or_else(|| PathBuf::from(config::defaults::CONTROL_SOCKET))
}

fn diagnose(diagnostics: &Diagnostics) {
    if !diagnostics.is_empty() {
        let palette = if std::io::stderr().is_terminal() { Palette::Colour } else { Palette::Plain };
        complain(&format!("{}\n", diagnostics.render(palette)));
    }
}

/// Neither here nor in [`print`] does it change the exit code that nobody reads, or that the disk is full.
fn complain(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// To a reader that may have gone away, as `lvsd status | head` does.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
