//! lvsd(8) and completions, from the definitions that the program itself reads its arguments by.

use std::io;

use clap::CommandFactory;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use super::cli::{Cli, Shell};

/// In troff.
pub fn page() -> io::Result<String> {
    let command = Cli::command();
    let man = Man::new(command.clone()).section("8").manual("System administration").date(crate::RELEASED);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    page.extend_from_slice(b".SH COMMANDS\n");
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        subcommand(command, &mut page)?;
    }
    page.extend_from_slice(rest().to_roff().as_bytes());
    Ok(String::from_utf8_lossy(&page).into_owned())
}

pub fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "lvsd", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

fn subcommand(command: &clap::Command, page: &mut Vec<u8>) -> io::Result<()> {
    let name = format!("lvsd {}", command.get_name());
    let usage = command.clone().bin_name(&name).render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut roff = Roff::new();
    roff.control("SS", [usage.as_str()]).text([roman(about)]);
    page.extend_from_slice(roff.to_roff().as_bytes());
    let mut options = Vec::new();
    let command = command.clone().disable_help_flag(true).mut_args(with_its_values);
    Man::new(command.clone()).render_options_section(&mut options)?;
    // They stand below the command, not in a section of their own.
    let options = String::from_utf8_lossy(&options).replace(".SH OPTIONS\n", "");
    let used = command.get_arguments().next().is_some();
    page.extend_from_slice(if used { options.as_bytes() } else { b"" });
    Ok(())
}

/// The words that an argument takes, in its sentence: as a list of their own they are not sound troff.
fn with_its_values(argument: clap::Arg) -> clap::Arg {
    let values: Vec<String> =
        argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let says = argument.get_help().map(ToString::to_string).unwrap_or_default();
    if values.is_empty() || !argument.get_action().takes_values() {
        return argument;
    }
    argument.hide_possible_values(true).help(format!("{says}: {}", values.join(", ")))
}

const EXIT_CODES: [(&str, &str); 6] = [
    ("0", "done"),
    ("1", "failed"),
    ("64", "the command line is wrong"),
    ("69", "the daemon does not answer"),
    ("77", "not allowed to talk to it"),
    ("78", "the configuration has mistakes"),
];

const SIGNALS: [(&str, &str); 3] = [
    ("SIGHUP", "reload; the result is in the log"),
    ("SIGTERM, SIGINT", "stop; on_stop of the configuration says what becomes of the table"),
    ("SIGUSR1", "write a line with the totals of now to the log"),
];

const FILES: [(&str, &str); 3] = [
    ("/etc/lvsd/lvsd.toml", "the configuration, see lvsd.toml(5)"),
    ("/run/lvsd/control.sock", "the control socket; the group lvsd may use it"),
    ("/var/lib/lvsd/state.json", "verdicts, orders and owned services, for the next start"),
];

fn rest() -> Roff {
    let mut roff = Roff::new();
    for (title, rows) in
        [("EXIT STATUS", EXIT_CODES.as_slice()), ("SIGNALS", SIGNALS.as_slice()), ("FILES", FILES.as_slice())]
    {
        roff.control("SH", [title]);
        for (head, says) in rows {
            let head = if title == "FILES" { italic(*head) } else { bold(*head) };
            roff.control("TP", []).text([head]).text([roman(*says)]);
        }
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([
        bold("lvsd.toml"),
        roman("(5), "),
        bold("ipvsadm"),
        roman("(8), "),
        bold("systemctl"),
        roman("(1)"),
    ]);
    roff
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::ExitCode;

    #[test]
    fn every_command_is_in_the_page() {
        let page = page().unwrap();
        for command in Cli::command().get_subcommands() {
            let head = format!(".SS \"lvsd {}", command.get_name());
            assert!(page.replace("\\-", "-").contains(&head), "{head} in {page}");
        }
    }

    #[test]
    fn the_page_has_the_exit_codes_that_there_are() {
        for (number, _) in EXIT_CODES {
            let number: u8 = number.parse().unwrap();
            assert!(ExitCode::try_from(number).is_ok());
        }
    }
}
