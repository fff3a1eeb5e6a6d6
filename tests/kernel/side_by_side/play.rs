//! A play: the file that says which servers there are, what happens, and which table follows.
//!
//! ```text
//! server 198.51.100.11:80              runs from the start, on both sides
//! udp 198.51.100.11:53                 the same, answering datagrams
//! script load                          a program {load} that exits with the number in its file
//!
//! start web.conf                       an event
//! + -A -t 192.0.2.10:80 -s wrr         what comes into the table by it, in the words of ipvsadm,
//! - -A -t 192.0.2.10:80 -s rr          and what goes
//! keepalived + -a …                    with keepalived only; lvsd's table differs from now on
//! keepalived writes DEL_DEST NEW_DEST  the requests that change something, in their order
//! because the reason why lvsd differs
//! ```
//!
//! What only one side does is a difference that lvsd wants, so it has a reason. A table that is
//! not exactly as written fails the play: a difference that nobody wrote down, and one written
//! down that is not there any more.

use std::time::Duration;

/// A whole play.
#[derive(Debug, Default)]
pub(super) struct Play {
    /// Addresses of HTTP servers that run from the start.
    pub(super) servers: Vec<String>,
    pub(super) udp: Vec<String>,
    pub(super) scripts: Vec<String>,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) struct Step {
    /// In the play's file, for messages.
    pub(super) line: usize,
    pub(super) event: Event,
    pub(super) changes: Vec<Change>,
    pub(super) writes: Vec<(Side, Vec<String>)>,
    pub(super) because: String,
}

/// A line that comes into the expected table or leaves it, of one side or of both.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) side: Option<Side>,
    pub(super) comes: bool,
    pub(super) entry: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Keepalived,
    Lvsd,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    Start {
        file: String,
    },
    Reload {
        file: String,
    },
    Stop,
    /// The server's port is closed from now on.
    Kill {
        server: String,
    },
    /// A server that was killed, or that is new.
    Return {
        server: String,
    },
    Status {
        server: String,
        status: u16,
    },
    Body {
        server: String,
        body: String,
    },
    Slow {
        server: String,
        delay: Duration,
    },
    /// A file of the configuration's: the exit status of a script, or what a track_file reads.
    Put {
        file: String,
        text: String,
    },
    /// Nothing happens; for what must not change.
    Wait {
        time: Duration,
    },
}

impl Play {
    pub(super) fn parse(text: &str) -> Self {
        let mut play = Self::default();
        for (number, line) in text.lines().enumerate() {
            let (line, number) = (line.trim(), number + 1);
            if !line.is_empty() && !line.starts_with('#') {
                play.read_line(line, number).unwrap_or_else(|| panic!("line {number}: what is {line:?}?"));
            }
        }
        for step in &play.steps {
            let alone = step.changes.iter().any(|change| change.side.is_some());
            let differs = match step.writes.as_slice() {
                [(_, first), (_, second)] => first != second,
                writes => !writes.is_empty(),
            };
            let (differs, explained) = (alone || differs, !step.because.is_empty());
            assert_eq!(differs, explained, "line {}: a difference has a reason, and only that", step.line);
        }
        play
    }

    fn read_line(&mut self, line: &str, number: usize) -> Option<()> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "server" => self.servers.push(rest.to_owned()),
            "udp" => self.udp.push(rest.to_owned()),
            "script" => self.scripts.push(rest.to_owned()),
            "+" | "-" => self.change(None, word, rest)?,
            "keepalived" => self.of_side(Side::Keepalived, rest)?,
            "lvsd" => self.of_side(Side::Lvsd, rest)?,
            "because" => {
                let because = &mut self.steps.last_mut()?.because;
                *because = format!("{because} {rest}").trim().to_owned();
            }
            _ => {
                let event = Event::parse(word, rest)?;
                let (changes, writes, because) = (Vec::new(), Vec::new(), String::new());
                self.steps.push(Step { line: number, event, changes, writes, because });
            }
        }
        Some(())
    }

    fn of_side(&mut self, side: Side, rest: &str) -> Option<()> {
        let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        if word == "writes" {
            let writes = rest.split_whitespace().map(str::to_owned).collect();
            self.steps.last_mut()?.writes.push((side, writes));
            return Some(());
        }
        self.change(Some(side), word, rest.trim())
    }

    fn change(&mut self, side: Option<Side>, sign: &str, entry: &str) -> Option<()> {
        let comes = match sign {
            "+" => true,
            "-" => false,
            _ => return None,
        };
        self.steps.last_mut()?.changes.push(Change { side, comes, entry: entry.to_owned() });
        Some(())
    }
}

impl Event {
    fn parse(word: &str, rest: &str) -> Option<Self> {
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        let (first, second) = (first.to_owned(), second.trim().to_owned());
        Some(match (word, second.is_empty()) {
            ("start", true) => Self::Start { file: first },
            ("reload", true) => Self::Reload { file: first },
            ("stop", true) => Self::Stop,
            ("kill", true) => Self::Kill { server: first },
            ("return", true) => Self::Return { server: first },
            ("status", false) => Self::Status { server: first, status: second.parse().ok()? },
            ("body", false) => Self::Body { server: first, body: second },
            ("slow", false) => Self::Slow { server: first, delay: milliseconds(&second)? },
            ("put", false) => Self::Put { file: first, text: second },
            ("wait", true) => Self::Wait { time: milliseconds(&first)? },
            _ => return None,
        })
    }
}

fn milliseconds(text: &str) -> Option<Duration> {
    text.strip_suffix("ms")?.parse().ok().map(Duration::from_millis)
}

#[test]
fn a_difference_has_a_reason_and_a_reason_a_difference() {
    let refused = |text: &str| std::panic::catch_unwind(|| Play::parse(text)).is_err();
    let same = "start a.conf\n+ -A -t 192.0.2.10:80 -s rr\n";
    assert!(!refused(same));
    assert!(refused(&format!("{same}because why\n")));
    for difference in [
        "lvsd + -A -t 192.0.2.11:80 -s rr",
        "keepalived - -A -t 192.0.2.10:80 -s rr",
        "keepalived writes A B\nlvsd writes B A",
        "lvsd writes A",
    ] {
        assert!(refused(&format!("{same}{difference}\n")), "{difference}");
        assert!(!refused(&format!("{same}{difference}\nbecause why\n")), "{difference}");
    }
    assert!(!refused(&format!("{same}keepalived writes A B\nlvsd writes A B\n")));
    assert!(refused("explode 192.0.2.10:80\n"));
}
