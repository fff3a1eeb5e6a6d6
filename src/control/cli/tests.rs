//! Command lines and what they mean, as tables.

use super::*;
use crate::control::status::Colours;

const TERMINAL: Terminal = Terminal { columns: 80, colours: Colours::Off };
use crate::control::protocol::encode_request;

fn parse(line: &str) -> Result<Cli, Early> {
    Cli::parse_arguments(std::iter::once("lvsd").chain(line.split_whitespace()))
}

#[test]
fn the_definition_is_consistent() {
    use clap::CommandFactory;
    Cli::command().debug_assert();
}

#[test]
fn commands_become_requests() {
    let cases = [
        ("reload", r#""reload""#),
        ("reload -c x.toml", r#""reload""#),
        ("-c x.toml reload", r#""reload""#),
        ("status", r#"{"status":{}}"#),
        ("status web --json", r#"{"status":{"name":"web"}}"#),
        ("drain 198.51.100.11:80", r#"{"order":{"order":"drain","on":{"address":"198.51.100.11:80"}}}"#),
        (
            "disable [2001:db8::1]:80 --in web --reason disk --for 1m30s",
            r#"{"order":{"order":"disable","on":{"address":"[2001:db8::1]:80","in":"web","reason":"disk","for_ms":90000}}}"#,
        ),
        ("enable 198.51.100.11", r#"{"order":{"order":"enable","on":{"address":"198.51.100.11"}}}"#),
        (
            "weight 198.51.100.11:80 7 -c x.toml",
            r#"{"weight":{"weight":7,"on":{"address":"198.51.100.11:80"}}}"#,
        ),
        (
            "weight --for 90 198.51.100.11:80 auto",
            r#"{"weight":{"weight":"auto","on":{"address":"198.51.100.11:80","for_ms":90000}}}"#,
        ),
    ];
    for (line, command) in cases {
        let cli = parse(line).unwrap_or_else(|early| panic!("{line}: {}", early.text));
        let request = encode_request(&cli.command.request().unwrap()).unwrap();
        assert_eq!(
            String::from_utf8(request).unwrap(),
            format!("{{\"version\":1,\"command\":{command}}}\n"),
            "{line}"
        );
    }
}

#[test]
fn commands_without_a_request() {
    let cases = [
        ("run", Command::Run { dry_run: false, notify: false }),
        ("run -c x.toml --dry-run", Command::Run { dry_run: true, notify: false }),
        ("check", Command::Check { file: None, strict: false }),
        ("check x.toml --strict", Command::Check { file: Some("x.toml".into()), strict: true }),
        ("doctor --json", Command::Doctor { json: true }),
        ("man lvsd.toml", Command::Man { page: Page::LvsdToml }),
        ("completions zsh", Command::Completions { shell: Shell::Zsh }),
        ("schema", Command::Schema),
        ("plan x.toml --socket /tmp/s", Command::Plan { file: Some("x.toml".into()) }),
    ];
    for (line, command) in cases {
        let cli = parse(line).unwrap_or_else(|early| panic!("{line}: {}", early.text));
        assert_eq!(cli.command, command, "{line}");
        assert_eq!(cli.command.request(), None, "{line}");
    }
}

#[test]
fn usage_errors_exit_64_and_help_0() {
    let cases = [
        ("", 64, "Usage"),
        ("frobnicate", 64, "unrecognized subcommand 'frobnicate'"),
        ("status --watch --json", 64, "cannot be used with"),
        ("status --watch --wait 5s", 64, "cannot be used with"),
        ("status --wait 0", 64, "longer than 0"),
        ("status --wait", 64, "DURATION"),
        ("why", 64, "ADDRESS"),
        ("check-now web", 64, "an address is written"),
        ("reload --confirm 0", 64, "longer than 0"),
        ("drain", 64, "ADDRESS"),
        ("drain web", 64, "an address is written"),
        ("drain 198.51.100.11:80 --for 5x", 64, "a duration is a number of seconds"),
        ("drain 198.51.100.11:80 --for 0", 64, "longer than 0"),
        ("drain 198.51.100.11:80 --deadline 5m", 64, "--until-idle"),
        ("disable 198.51.100.11:80 --deadline 5m", 64, "--until-idle"),
        ("enable 198.51.100.11:80 --until-idle", 64, "an enabled server gets new connections"),
        ("enable 198.51.100.11:80 --deadline 5m", 64, "unexpected argument"),
        ("weight 198.51.100.11:80", 64, "WEIGHT"),
        ("weight 198.51.100.11:80 -1", 64, "a weight is a number"),
        ("weight 198.51.100.11:80 2147483648", 64, "a weight is a number"),
        ("weight 198.51.100.11:80 1 2", 64, "unexpected argument"),
        ("reload -c", 64, "FILE"),
        ("--help", 0, "Usage: lvsd"),
        ("help", 0, "Usage: lvsd"),
        ("help drain", 0, "--reason"),
        ("drain --help", 0, "--reason"),
        ("--version", 0, "lvsd "),
    ];
    for (line, code, part) in cases {
        let early = parse(line).unwrap_err();
        assert_eq!(early.code.number(), code, "{line}: {}", early.text);
        assert!(early.text.contains(part), "{line}: {}", early.text);
        assert!(!early.text.contains('\u{1b}'), "{line}");
    }
}

#[test]
fn replies_are_printed_where_they_belong() {
    let reply = Reply::done("table").with_data(&[1, 2]).unwrap();
    let cases = [
        ("status", reply.clone(), ("table\n", "")),
        ("status --json", reply, ("[1,2]\n", "")),
        ("status --json", Reply::failed("no such thing"), ("", "no such thing\n")),
        ("reload", Reply::new(ExitCode::Configuration, "two\nlines\n"), ("", "two\nlines\n")),
        ("reload", Reply::done(""), ("", "")),
    ];
    for (line, reply, (stdout, stderr)) in cases {
        let printed = present(&parse(line).unwrap().command, &reply, Reader::Program);
        assert_eq!((printed.stdout.as_str(), printed.stderr.as_str()), (stdout, stderr), "{line}");
    }
}

#[test]
fn a_table_is_cut_on_a_terminal_only() {
    let command = parse("status").unwrap().command;
    let long = format!("{}\nshort", "ä".repeat(100));
    let print = |reader| present(&command, &Reply::done(long.as_str()), reader).stdout;
    assert_eq!(print(Reader::Program), format!("{long}\n"));
    assert_eq!(print(Reader::Terminal(TERMINAL)), format!("{}…\nshort\n", "ä".repeat(79)));
    let reload = present(
        &Command::Reload { confirm: None, force: false },
        &Reply::done(long.as_str()),
        Reader::Terminal(TERMINAL),
    );
    assert_eq!(reload.stdout, format!("{long}\n"));
}
