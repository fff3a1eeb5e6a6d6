//! lvsd.toml(5), from the file in which every key is explained.

use clap_mangen::roff::{Inline, Roff, bold, roman};

use super::documented::{self, Role, Section};

/// How the page is to be read; the file says instead how it is written.
const READING: &str = "TOML. Keys are shown with a value: one that is marked (default) counts when the key is not \
    there, the others are examples. (D): may also stand in [defaults]. The same as a file to copy from is \
    /usr/share/doc/lvsd/examples/lvsd.toml.";
const OF_THE_FILE: &str = "Every key that there is stands here";

/// In troff.
pub fn page() -> String {
    let sections = documented::sections(documented::TEXT);
    let mut roff = Roff::new();
    let source = concat!("lvsd ", env!("CARGO_PKG_VERSION"));
    roff.control("TH", ["LVSD.TOML", "5", crate::RELEASED, source, "File formats"]);
    roff.control("SH", ["NAME"]).text([roman("lvsd.toml - configuration of lvsd(8)")]);
    roff.control("SH", ["SYNOPSIS"]).text([bold(super::defaults::CONFIG_FILE)]);
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman(READING)]);
    for (number, section) in sections.iter().enumerate() {
        if number > 0 {
            roff.control("SH", [section.title.as_str()]);
        }
        table(&mut roff, section, if number == 0 { Above::Text } else { Above::Title });
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold("lvsd"), roman("(8), "), bold("ipvsadm"), roman("(8)")]);
    roff.to_roff()
}

/// What stands before a paragraph: below a title, a macro for one would be idle.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Above {
    Title,
    Text,
}

fn table(roff: &mut Roff, section: &Section, mut above: Above) {
    let mut part = |roff: &mut Roff| {
        if above == Above::Text {
            roff.control("PP", []);
        }
        above = Above::Text;
    };
    let remarks =
        section.remarks.iter().filter(|remark| !remark.iter().any(|line| line.contains(OF_THE_FILE)));
    let (words, lines): (Vec<_>, Vec<_>) =
        remarks.partition(|remark| remark.iter().all(|line| !line.starts_with(' ')));
    for remark in words {
        part(roff);
        roff.text([text(&remark.join(" "))]);
    }
    for remark in lines {
        part(roff);
        roff.control("nf", []);
        for line in remark {
            roff.text([roman(line.as_str())]);
        }
        roff.control("fi", []);
    }
    for entry in &section.entries {
        for (number, key) in entry.keys.iter().enumerate() {
            roff.control(if number == 0 { "TP" } else { "TQ" }, []);
            let role = match key.role {
                Role::Default => " (default)",
                Role::Example => "",
            };
            roff.text([bold(key.text.as_str()), roman(role)]);
        }
        roff.text([text(&entry.says)]);
    }
}

/// Never an empty line, which troff would take for the end of a paragraph.
fn text(words: &str) -> Inline {
    roman(if words.is_empty() { "See above." } else { words })
}
