//! The command line: what may be written, and what it means. Does nothing itself.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
pub use clap_complete::Shell;

use super::duration;
use super::exit::ExitCode;
use super::protocol::{NextStop, OperatorWeight, Order, Place, Reply, Request, Subject, parse_address};
use super::status::{Terminal, fit};
use super::text::plain_json;
use crate::engine::model::RealServerId;

const ADDRESS_HELP: &str = "As configured, e.g. 198.51.100.11:80 or [2001:db8::1]:80";

const ENABLED_IS_NOT_IDLE: &str = "--until-idle cannot be used with enable: an enabled server gets new connections and \
                                   does not become idle; it goes with drain and disable";

const IMPORT_HELP: &str = "\
Each line on stderr is FILE:LINE: KEYWORD: REASON. What says \"not carried\" there is also a comment at its place in \
the TOML; the others are remarks. lvsd check accepts what is printed:

  lvsd import /etc/keepalived/keepalived.conf >lvsd.toml && lvsd check lvsd.toml

Exit codes: 0 the TOML is printed, whatever was left out; 1 something was left out and --strict is given, the TOML is \
printed all the same; 78 FILE cannot be read as either format, nothing is printed.";

#[derive(Clone, Debug, PartialEq, Eq, Parser)]
#[command(
    name = "lvsd",
    version,
    about = "Health checks for the real servers behind Linux Virtual Server, and the IPVS table kept right",
    after_help = "Exit codes: 0 done, 1 failed, 64 usage, 69 daemon not reachable, 77 not allowed, 78 configuration.",
    max_term_width = 100
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,

    /// Configuration file; of client commands only its control_socket is read
    #[arg(short = 'c', long = "config", value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,

    /// Control socket of the daemon to talk to
    #[arg(long, value_name = "PATH", global = true)]
    pub socket: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Run the daemon
    Run {
        /// Real checks, but a table in memory instead of the kernel's; needs no privileges, and tells nobody
        #[arg(long)]
        dry_run: bool,
        /// Run scripts and send mail and webhooks in a dry run too
        #[arg(long, requires = "dry_run")]
        notify: bool,
    },
    /// Validate a configuration: exit 0, or 78 with every mistake
    Check {
        /// Instead of the one of -c
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// Warnings count as mistakes
        #[arg(long)]
        strict: bool,
    },
    /// What a reload to FILE would do, and why
    Plan {
        /// Instead of the one of -c
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Translate keepalived.conf or ldirectord.cf: TOML on stdout, what it leaves out on stderr
    #[command(after_help = IMPORT_HELP)]
    Import(Import),
    /// Load the configuration again, and wait until it is applied
    Reload {
        /// Go back to the configuration before it unless `lvsd confirm` comes within this time
        #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
        confirm: Option<Duration>,
        /// Even if it takes away more than max_removed allows
        #[arg(long)]
        force: bool,
    },
    /// Keep what `lvsd reload --confirm` has put on trial
    Confirm,
    /// State of all virtual servers, or of one
    Status {
        /// Of a virtual server
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// For programs
        #[arg(long)]
        json: bool,
        /// Draw it again every second, in the same place
        #[arg(long, conflicts_with = "json")]
        watch: bool,
        /// Not before the daemon answers and each check has a result, but no later than this: exit 69 or 1 then
        #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true, conflicts_with = "watch")]
        wait: Option<Duration>,
    },
    /// What of this host keeps the configuration from working, and the commands that mend it
    Doctor {
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Keep a real server in the table at weight 0: old connections live on, new ones go elsewhere
    Drain {
        #[command(flatten)]
        on: On,
        #[command(flatten)]
        wait: UntilIdle,
    },
    /// Treat a real server as if it had failed
    Disable {
        #[command(flatten)]
        on: On,
        #[command(flatten)]
        wait: UntilIdle,
    },
    /// End drain and disable
    Enable {
        #[command(flatten)]
        on: On,
        /// Refused in words of its own: see [`Cli::parse_arguments`]
        #[arg(long, hide = true)]
        until_idle: bool,
    },
    /// Give a real server a weight of your own, or "auto" for the configured one
    Weight(Weight),
    /// Run all checks of a real server at once, and print what they find: exit 1 unless all of them pass
    CheckNow {
        #[command(flatten)]
        at: At,
    },
    /// The log filter in force; with FILTER it is changed until the next reload
    LogLevel {
        #[arg(value_name = "FILTER")]
        filter: Option<String>,
    },
    /// How everything stands, and then a line for whatever happens
    Events {
        /// One JSON object on each line
        #[arg(long)]
        json: bool,
    },
    /// Why a real server is as it is: its last changes with their evidence, and what holds now
    Why {
        #[command(flatten)]
        at: At,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// What the next stop of this run does with the table, whatever on_stop says
    OnStop {
        /// As on_stop; keep also runs no omega notifications, since another run goes on at once
        #[arg(value_name = "WHAT")]
        what: NextStop,
    },
    /// A manual page in troff, for `man -l -`
    Man {
        /// lvsd(8), or lvsd.toml(5)
        #[arg(value_name = "PAGE", default_value = "lvsd")]
        page: Page,
    },
    /// Completions for a shell
    Completions {
        /// The shell that reads it
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// The JSON schema of the configuration, for editors
    Schema,
}

/// A manual page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Page {
    Lvsd,
    #[value(name = "lvsd.toml")]
    LvsdToml,
}

/// What is to be translated.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct Import {
    /// keepalived.conf or ldirectord.cf; what it includes is read as well
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What FILE is; without it, as its text looks
    #[arg(long, value_name = "FORMAT")]
    pub from: Option<ImportFormat>,
    /// keepalived's -i: whose `@` lines count
    #[arg(long, value_name = "NAME")]
    pub config_id: Option<String>,
    /// Exit 1 if anything was left out
    #[arg(long)]
    pub strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    Keepalived,
    Ldirectord,
}

/// Which real server, and the words that go with an order.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct On {
    /// The real server, as configured
    #[arg(value_name = "ADDRESS", value_parser = parse_address, help = ADDRESS_HELP)]
    pub address: RealServerId,
    #[command(flatten)]
    pub note: Note,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct Weight {
    /// The real server, as configured
    #[arg(value_name = "ADDRESS", value_parser = parse_address, help = ADDRESS_HELP)]
    pub address: RealServerId,
    /// 0 to 2147483647, or auto
    #[arg(value_name = "WEIGHT", allow_negative_numbers = true)]
    pub weight: OperatorWeight,
    #[command(flatten)]
    pub note: Note,
}

/// How long to wait until nothing uses the server any more.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct UntilIdle {
    /// At weight 0 first, until no connection and no persistence template is left; UDP: until no packet comes
    #[arg(long)]
    pub until_idle: bool,
    /// Wait no longer than this, and exit 1 then: 90s, 1m30s, 2h, or seconds
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true, default_value = "1h", requires = "until_idle")]
    pub deadline: Duration,
}

/// Which real server.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct At {
    /// The real server, as configured
    #[arg(value_name = "ADDRESS", value_parser = parse_address, help = ADDRESS_HELP)]
    pub address: RealServerId,
    /// Only in this virtual server; without it, wherever the address is
    #[arg(long = "in", value_name = "NAME")]
    pub virtual_server: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct Note {
    /// Only in this virtual server; without it, wherever the address is
    #[arg(long = "in", value_name = "NAME")]
    pub virtual_server: Option<String>,
    /// Why, for whoever finds the server like this
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Until when: 90s, 1m30s, 2h, or seconds
    #[arg(long = "for", value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
}

/// The process has nothing to do but to print this and exit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Early {
    pub text: String,
    /// Help and version exit with `Done` and go to stdout; a wrong command line goes to stderr.
    pub code: ExitCode,
}

impl Cli {
    /// `arguments` begin with the program's name.
    pub fn parse_arguments<I>(arguments: I) -> Result<Self, Early>
    where
        I: IntoIterator,
        I::Item: Into<OsString> + Clone,
    {
        let parsed = Self::try_parse_from(arguments).and_then(|cli| {
            let waits = matches!(cli.command, Command::Enable { until_idle: true, .. });
            let refusal = || Err(Self::command().error(ErrorKind::ArgumentConflict, ENABLED_IS_NOT_IDLE));
            if waits { refusal() } else { Ok(cli) }
        });
        parsed.map_err(|error| {
            let code = match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::Done,
                _ => ExitCode::Usage,
            };
            Early { text: error.render().to_string(), code }
        })
    }
}

impl Command {
    /// What to send, for the commands that are one request as they stand. The others need files
    /// read (`plan`) or no daemon at all.
    pub fn request(&self) -> Option<Request> {
        match self {
            Self::Doctor { .. } | Self::Man { .. } | Self::Completions { .. } | Self::Schema => None,
            Self::Run { .. } | Self::Check { .. } | Self::Plan { .. } | Self::Import(_) => None,
            Self::Reload { confirm: None, force: false } => Some(Request::Reload),
            Self::Reload { confirm, force } => Some(Request::ReloadWith { confirm: *confirm, force: *force }),
            Self::Confirm => Some(Request::Confirm),
            Self::Status { name, json: _, watch: _, wait: _ } => Some(Request::Status { name: name.clone() }),
            Self::Drain { on, wait: _ } => Some(on.request(Order::Drain)),
            Self::Disable { on, wait: _ } => Some(on.request(Order::Disable)),
            Self::Enable { on, until_idle: _ } => Some(on.request(Order::Enable)),
            Self::OnStop { what } => Some(Request::OnStop { what: *what }),
            Self::Weight(on) => Some(Request::Weight { weight: on.weight, on: on.note.subject(on.address) }),
            Self::CheckNow { at } => Some(Request::CheckNow { on: at.place() }),
            Self::LogLevel { filter } => Some(Request::LogLevel { filter: filter.clone() }),
            Self::Events { .. } => Some(Request::Events),
            Self::Why { at, json: _ } => Some(Request::Why { on: at.place() }),
        }
    }
}

/// For people or for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Json,
}

/// What a client command prints of the daemon's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    pub stdout: String,
    pub stderr: String,
}

/// Who reads what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Lines of a status are cut there, so that its columns stay legible.
    Terminal(Terminal),
    Program,
}

/// A success speaks on stdout, a failure on stderr; `--json` prints data as it came. Each ends
/// with a line break unless it is empty.
pub fn present(command: &Command, reply: &Reply, reader: Reader) -> Printed {
    let wants_json = matches!(command, Command::Status { json: true, .. } | Command::Why { json: true, .. });
    let text = match &reply.data {
        Some(data) if wants_json && reply.ok => &plain_json(data.get()),
        _ => reply.text.as_str(),
    };
    let is_table = matches!(command, Command::Status { json: false, .. });
    let text = &match reader {
        Reader::Terminal(terminal) if is_table => fit(text, terminal),
        Reader::Terminal(_) | Reader::Program => text.to_owned(),
    };
    let line = if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") };
    if reply.ok {
        Printed { stdout: line, stderr: String::new() }
    } else {
        Printed { stdout: String::new(), stderr: line }
    }
}

impl On {
    pub fn place(&self) -> Place {
        Place { address: self.address, virtual_server: self.note.virtual_server.clone() }
    }

    pub fn request(&self, order: Order) -> Request {
        Request::Order { order, on: self.note.subject(self.address), again: false }
    }

    /// Of somebody who waits for what comes of it, be it ordered already or not.
    pub fn request_again(&self, order: Order) -> Request {
        Request::Order { order, on: self.note.subject(self.address), again: true }
    }
}

impl At {
    fn place(&self) -> Place {
        Place { address: self.address, virtual_server: self.virtual_server.clone() }
    }
}

impl Note {
    fn subject(&self, address: RealServerId) -> Subject {
        Subject {
            address,
            virtual_server: self.virtual_server.clone(),
            reason: self.reason.clone(),
            duration: self.duration,
        }
    }
}

#[cfg(test)]
mod tests;
