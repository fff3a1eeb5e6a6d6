//! The program: arguments, one command, exit code.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode as ProcessExit;
use std::sync::OnceLock;
use std::time::Duration;

use lvsd::addresses;
use lvsd::config::import::{self, Disk, Format};
use lvsd::config::{self, Diagnostics, Palette, Sources};
use lvsd::control::cli::{self, Cli, Command, Form, Import, ImportFormat, On, Page};
use lvsd::control::client::{self, ClientError};
use lvsd::control::protocol::{Order, Request};
use lvsd::control::whereabouts::{self, Asked};
use lvsd::control::{self, ExitCode, counted};
use lvsd::doctor::{self, Facts, InterfaceAddress, Level};
use lvsd::notify::Audience;
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
            return print(&early.text, early.code).into();
        }
        Err(early) => {
            complain(&early.text);
            return early.code.into();
        }
    };
    dispatch(&cli).into()
}

fn dispatch(cli: &Cli) -> ExitCode {
    let config = config_file(cli);
    match &cli.command {
        Command::Run { dry_run, notify } => runtime::run(config, target(*dry_run, *notify)),
        Command::Check { file, strict } => check(file.as_deref().unwrap_or(config), *strict),
        Command::Doctor { json } => doctor(config, *json),
        Command::Plan { file } => plan(cli, file.as_deref().unwrap_or(config)),
        Command::Drain { on, wait } if wait.until_idle => drain(cli, on, wait.deadline),
        Command::Disable { on, wait } if wait.until_idle => disable_idle(cli, on, wait.deadline),
        Command::Events { json } => events(cli, if *json { Form::Json } else { Form::Text }),
        Command::Status { name, watch: true, .. } => {
            client::watch(&socket(cli), name.clone()).unwrap_or_else(|problem| fail(&problem))
        }
        Command::Status { name, wait: Some(limit), .. } => wait(cli, name.as_deref(), *limit),
        Command::Man { page } => manual(*page),
        Command::Completions { shell } => written::<String>(Ok(control::manual::completions(*shell))),
        Command::Schema => written(serde_json::to_string_pretty(&config::schema::schema())),
        Command::Import(import) => self::import(import),
        Command::Status { .. }
        | Command::Reload { .. }
        | Command::Confirm
        | Command::OnStop { .. }
        | Command::Drain { .. }
        | Command::CheckNow { .. }
        | Command::LogLevel { .. }
        | Command::Disable { .. }
        | Command::Enable { .. }
        | Command::Weight(_)
        | Command::Why { .. } => ask(cli),
    }
}

/// A dry run is a trial beside whatever does the real work, which tells everybody already.
const fn target(dry_run: bool, notify: bool) -> Target {
    match (dry_run, notify) {
        (false, _) => Target::Kernel,
        (true, false) => Target::Memory(Audience::Nobody),
        (true, true) => Target::Memory(Audience::Configured),
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
    let facts = Facts::read_named(Path::new("/"), &loaded.config);
    let named = doctor::examine_named(&loaded.config, &facts);
    for finding in &named {
        let mend = finding.remedy.commands.join("; ");
        let help = if mend.is_empty() { mend } else { format!("\n  = help: {mend}") };
        complain(&format!("{}: warning: {}: {}{help}\n", path.display(), finding.found, finding.why));
    }
    // Of the file alone: it may be checked on a host that is no director.
    if strict && !loaded.warnings.is_empty() {
        return ExitCode::Configuration;
    }
    let pools = &loaded.config.virtual_servers;
    let servers: usize = pools.iter().map(|p| p.real_servers.len()).sum();
    let pools = counted(pools.len(), "virtual server");
    let text = format!("{}: {pools}, {}\n", path.display(), counted(servers, "real server"));
    print(&text, ExitCode::Done)
}

/// None where the kernel does not say.
fn interface_addresses() -> Vec<InterfaceAddress> {
    let found = addresses::Reader::default().read().unwrap_or_default().addresses.into_iter();
    found.map(|a| InterfaceAddress { interface: a.interface, address: a.address, prefix: a.prefix }).collect()
}

/// What of this host keeps a file from working.
fn doctor(path: &Path, json: bool) -> ExitCode {
    let read = Sources::read(path).and_then(|sources| Ok((config::load(&sources)?, sources)));
    let (loaded, sources) = match read {
        Ok(read) => read,
        Err(mistakes) => {
            diagnose(&mistakes);
            return ExitCode::Configuration;
        }
    };
    let files = config::files(&sources);
    let facts = Facts::read(Path::new("/"), &loaded.config, &files, interface_addresses());
    let findings = doctor::examine(&loaded.config, &facts);
    let has_faults = findings.iter().any(|finding| finding.level == Level::Fault);
    let code = if has_faults { ExitCode::Failed } else { ExitCode::Done };
    match json.then(|| doctor::render::json(&findings)) {
        None => print(&doctor::render::text(&findings), code),
        Some(Ok(text)) => print(&text, code),
        Some(Err(problem)) => {
            complain(&format!("lvsd: cannot write what was found as JSON: {problem}\n"));
            ExitCode::Failed
        }
    }
}

fn manual(page: Page) -> ExitCode {
    match page {
        Page::Lvsd => written(control::manual::page()),
        Page::LvsdToml => written::<String>(Ok(config::manual::page())),
    }
}

/// What is made from the program's own definitions.
fn written<E: std::fmt::Display>(text: Result<String, E>) -> ExitCode {
    match text {
        Ok(text) => print(&format!("{}\n", text.trim_end()), ExitCode::Done),
        Err(problem) => {
            complain(&format!("lvsd: {problem}\n"));
            ExitCode::Failed
        }
    }
}

/// Another program's configuration as TOML. What is left out is no failure unless the caller says so: the rest is still wanted.
fn import(wanted: &Import) -> ExitCode {
    let from = wanted.from.map(|from| match from {
        ImportFormat::Keepalived => Format::Keepalived,
        ImportFormat::Ldirectord => Format::Ldirectord,
    });
    let options = import::Options { from, config_id: wanted.config_id.clone() };
    let imported = match import::import(&wanted.file, &options, &Disk) {
        Ok(imported) => imported,
        Err(problem) => {
            complain(&format!("lvsd: {problem}\n"));
            return ExitCode::Configuration;
        }
    };
    complain(&imported.notes.iter().map(|note| format!("{note}\n")).collect::<String>());
    let code = if wanted.strict && imported.leaves_out() { ExitCode::Failed } else { ExitCode::Done };
    print(&imported.toml, code)
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
        Ok(sources) => call(cli, &Request::Plan { sources }),
        Err(problem) => {
            complain(&format!("lvsd: cannot send {}: {problem}\n", path.display()));
            ExitCode::Failed
        }
    }
}

fn ask(cli: &Cli) -> ExitCode {
    match cli.command.request() {
        Some(request) => call(cli, &request),
        None => ExitCode::Usage,
    }
}

/// Drained until nothing uses it, and only then out of the table: nobody's connection is cut.
fn disable_idle(cli: &Cli, on: &On, deadline: Duration) -> ExitCode {
    let code = drain(cli, on, deadline);
    if code == ExitCode::Done { call(cli, &on.request_again(Order::Disable)) } else { code }
}

/// The order first; it stands, whatever the waiting comes to. One that stands already keeps its reason and its
/// end, unless they are given anew.
fn drain(cli: &Cli, on: &On, deadline: Duration) -> ExitCode {
    let code = call(cli, &on.request_again(Order::Drain));
    if code != ExitCode::Done {
        return code;
    }
    match client::until_idle(&socket(cli), &on.place(), deadline, &mut std::io::stdout()) {
        Ok(Ok(idle)) => print(&format!("{idle}\n"), ExitCode::Done),
        Ok(Err(busy)) => {
            complain(&format!("{busy}\n"));
            ExitCode::Failed
        }
        Err(problem) => fail(&problem),
    }
}

fn events(cli: &Cli, form: Form) -> ExitCode {
    let streams =
        (&mut std::io::stdout().lock() as &mut dyn client::Out, &mut std::io::stderr() as &mut dyn Write);
    client::events(&socket(cli), form, PATIENCE, streams).unwrap_or_else(|problem| fail(&problem))
}

fn fail(problem: &ClientError) -> ExitCode {
    complain(&format!("lvsd: {problem}\n"));
    if problem.exit_code() == ExitCode::Unreachable {
        complain("is lvsd running? name another socket with --socket, or its file with -c\n");
    }
    problem.exit_code()
}

fn call(cli: &Cli, request: &Request) -> ExitCode {
    match client::call(&socket(cli), request, PATIENCE) {
        Ok(reply) => show(cli, &reply),
        Err(problem) => fail(&problem),
    }
}

/// A status that is worth showing, or the last one.
fn wait(cli: &Cli, name: Option<&str>, limit: Duration) -> ExitCode {
    let client::Waited { reply, lacks } =
        match client::wait(&|| socket(cli), name.map(ToOwned::to_owned), limit) {
            Ok(waited) => waited,
            Err(problem) => return fail(&problem),
        };
    match (show(cli, &reply), lacks) {
        (ExitCode::Done, Some(lacks)) => {
            complain(&format!("{lacks}\n"));
            ExitCode::Failed
        }
        (code, _) => code,
    }
}

fn show(cli: &Cli, reply: &control::Reply) -> ExitCode {
    let reader = client::terminal(&std::io::stdout()).map_or(cli::Reader::Program, cli::Reader::Terminal);
    let printed = cli::present(&cli.command, reply, reader);
    let code = print(&printed.stdout, reply.code);
    complain(&printed.stderr);
    code
}

/// `--socket`, else what the configuration says: the file of `-c`, or the one that the daemon reads
/// without one. Looked for each time, since a restart changes it, and told once.
fn socket(cli: &Cli) -> PathBuf {
    static TOLD: OnceLock<()> = OnceLock::new();
    let find =
        || {
            let file = config_file(cli);
            let named = config::control_socket(file);
            match whereabouts::find(&whereabouts::directory(), file, named.clone()) {
                Asked::Named(socket) => socket,
                Asked::Running(socket) => {
                    TOLD.get_or_init(|| complain(&format!(
                    "lvsd: nobody listens at {}, which {} names: asking the daemon of this file where it \
                     listens until its restart, {}\n",
                    named.display(),
                    file.display(),
                    socket.display()
                )));
                    socket
                }
            }
        };
    cli.socket.clone().unwrap_or_else(find)
}

fn config_file(cli: &Cli) -> &Path {
    cli.config.as_deref().unwrap_or(Path::new(config::defaults::CONFIG_FILE))
}

fn diagnose(diagnostics: &Diagnostics) {
    if !diagnostics.is_empty() {
        let palette = if std::io::stderr().is_terminal() { Palette::Colour } else { Palette::Plain };
        complain(&format!("{}\n", diagnostics.render(palette)));
    }
}

/// It does not change the exit code that nobody reads this.
fn complain(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Then `code`. A reader may go away, as in `lvsd status | head`; but what a full disk did not take must
/// not pass for a success: `lvsd import FILE >lvsd.toml` would leave half of a configuration.
fn print(text: &str, code: ExitCode) -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(problem) if problem.kind() != ErrorKind::BrokenPipe => {
            complain(&format!("lvsd: cannot write to standard output: {problem}\n"));
            if code == ExitCode::Done { ExitCode::Failed } else { code }
        }
        Ok(()) | Err(_) => code,
    }
}
