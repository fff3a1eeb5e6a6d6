//! The guide, typed: what its `console lab` blocks say is run on this machine, which is the director, and on
//! a client and two web servers around it, with the files that the pages show, in their order. What a page
//! prints must come.
//!
//! In a page `…` stands for anything: for lines where it is alone, else for a part of its line. Blanks count
//! as one. A command that only looks is repeated until it shows what the page shows, for as long as things in
//! the lab may take, unless it waits by itself (`--wait`); one without output has only to succeed.
//!
//! The web servers are the lab's own: `systemctl stop nginx` there ends one, and what is written to a file in
//! `/var/www/html` is all that it answers from then on. The package is made here, and `apt install` of it is dpkg's,
//! since a guest has no mirror. A command with `&` behind it runs until `kill %1`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use regex::Regex;
use tempfile::TempDir;

use crate::book::{Block, Page};
use crate::lab::backend::Backend;
use crate::lab::wait::{SOON, output, pause};
use crate::package::{Format, LVSD, Purged, TREE, clean, package};
use crate::segments::{Link, Segments};
use crate::service::{must, property};

/// One line that is typed, and what the page says comes of it.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    host: String,
    command: String,
    shown: Vec<String>,
}

/// What only looks, and may be repeated.
const LOOKS: [&str; 13] = [
    "ipvsadm -L",
    "lvsd status",
    "lvsd why",
    "lvsd check",
    "lvsd doctor",
    "lvsd plan",
    "journalctl",
    "curl",
    "for i in",
    "ip address show",
    "ip -brief address show",
    "systemctl is-active",
    "systemctl is-enabled",
];

/// Lines of what a step printed that a complaint repeats.
const TOLD: usize = 40;

struct Lab {
    segments: Segments,
    web: BTreeMap<&'static str, Option<Backend>>,
    /// Where what is typed is typed.
    folder: TempDir,
    /// What `kill %1` ends.
    background: Option<Background>,
    /// The end of the installed package.
    _purged: Purged,
}

impl Lab {
    fn new(links: &[Link]) -> Self {
        clean();
        // For the lab's own look at the kernel; what the package loads is the same.
        output(Command::new("modprobe").args(["-a", "ip_vs", "ip_vs_lblc", "ip_vs_lblcr"]));
        // As on a new machine, whatever ran here before.
        fs::write("/proc/sys/net/ipv4/ip_forward", "0").expect("root may");
        let segments = Segments::new(links);
        let mut lab = Self {
            segments,
            web: BTreeMap::new(),
            folder: TempDir::new().expect("a folder"),
            background: None,
            _purged: Purged,
        };
        for name in ["web1", "web2"] {
            lab.start_web(name);
        }
        lab
    }

    fn start_web(&mut self, name: &'static str) {
        let server = Backend::start(self.segments.host(name), "0.0.0.0:80");
        server.set_body(&format!("{name}\n"));
        self.web.insert(name, Some(server));
    }

    /// Runs a line where it is typed: does it succeed, and what does it print?
    fn run(&mut self, step: &Step) -> (bool, String) {
        let web = ["web1", "web2"].into_iter().find(|name| *name == step.host);
        if let (None, Some((program, rest))) = (web, in_background(&step.command)) {
            self.background = Some(self.begin(&step.host, program));
            return self.shell(&Step { host: step.host.clone(), command: rest.to_owned(), shown: vec![] });
        }
        match (web, step.command.as_str()) {
            (Some(name), "systemctl stop nginx") => drop(self.web.insert(name, None)),
            (Some(name), "systemctl start nginx") => self.start_web(name),
            (Some(name), command) if command.contains(" >/var/www/html/") => self.publish(name, command),
            (None, "kill %1") => drop(self.background.take().expect("something runs in the background")),
            _ => return self.shell(step),
        }
        (true, String::new())
    }

    /// `echo TEXT >/var/www/html/FILE`
    fn publish(&self, name: &str, command: &str) {
        let text = command.strip_prefix("echo ").and_then(|rest| rest.split(" >").next()).expect("an echo");
        let server = self.web.get(name).and_then(Option::as_ref).expect("the web server runs");
        server.set_body(&format!("{text}\n"));
    }

    fn begin(&self, host: &str, program: &str) -> Background {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("exec {program}")]).current_dir(self.folder.path());
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Background(self.segments.host(host).run(|| shell.spawn().expect("bash is there")))
    }

    fn shell(&self, step: &Step) -> (bool, String) {
        let mut command = step.command.clone();
        if let Some(file) = command.strip_prefix("apt install ./lvsd_") {
            let version = file.split("-1_").next().expect("a version");
            let package = package(Format::Deb, version, self.folder.path());
            command = format!("dpkg --install {}", package.display());
        }
        let ended = self.segments.host(&step.host).run(|| {
            let mut shell = Command::new("bash");
            shell
                .args(["-c", &format!("exec 2>&1; {command}")])
                .current_dir(self.folder.path())
                .env("PAGER", "cat")
                .env("SYSTEMD_PAGER", "cat");
            shell
                .env("DEBIAN_FRONTEND", "noninteractive")
                .stdin(Stdio::null())
                .output()
                .expect("bash is there")
        });
        (ended.status.success(), String::from_utf8_lossy(&ended.stdout).into_owned())
    }

    /// Runs a step, again and again if it may be; complains if it does not do what the page says.
    fn walk(&mut self, step: &Step) -> Option<String> {
        // One that waits has to show it the first time.
        let looks =
            LOOKS.iter().any(|look| step.command.starts_with(look)) && !step.command.contains(" --wait ");
        let end = Instant::now() + SOON;
        loop {
            let (succeeded, printed) = self.run(step);
            let is_so = if step.shown.is_empty() { succeeded } else { fits(&step.shown, &printed) };
            if is_so {
                return None;
            }
            if !looks || Instant::now() > end {
                let wanted = step.shown.join("\n");
                // A journal is long, and what a page shows of it is near its end.
                let lines: Vec<_> = printed.lines().collect();
                let end = lines[lines.len().saturating_sub(TOLD)..].join("\n");
                return Some(format!(
                    "{}# {}\n--- the page\n{wanted}\n--- the lab\n{end}",
                    step.host, step.command
                ));
            }
            pause(std::time::Duration::from_millis(500));
        }
    }
}

/// What goes on in the background, and what is typed behind it in the same line.
fn in_background(command: &str) -> Option<(&str, &str)> {
    command.split_once(" & ").or_else(|| command.strip_suffix(" &").map(|program| (program, "true")))
}

/// A program that goes on while other lines are typed.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // What a page makes on the director itself, and what goes with no name space.
        drop(Command::new("ip").args(["link", "del", "lvs0"]).stderr(Stdio::null()).status());
        drop(fs::remove_dir_all("/run/web2"));
        drop(fs::remove_dir_all("/etc/keepalived"));
        drop(fs::remove_dir_all("/etc/ha.d"));
    }
}

/// Follows these pages, one after the other, as one session.
fn follow(links: &[Link], pages: &[&str]) {
    let mut lab = Lab::new(links);
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in pages.iter().map(|name| Page::read(Path::new(TREE), name)) {
        for block in page.blocks() {
            if let Some(path) = file(&block) {
                place(path, &block);
            } else if block.language == "console" && block.has("lab") {
                for step in steps(&block.text) {
                    count += 1;
                    wrong.extend(lab.walk(&step).map(|what| format!("{}:{}: {what}", page.name, block.line)));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count} steps are not as the pages say:\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
    assert!(count > 3, "{count} steps");
}

/// The file that a block is.
fn file(block: &Block) -> Option<&str> {
    block.marks.iter().find(|mark| mark.starts_with('/')).map(String::as_str)
}

/// A file of the director; a script can be run.
fn place(path: &str, block: &Block) {
    let path = Path::new(path);
    fs::create_dir_all(path.parent().expect("a full path")).expect("root may");
    fs::write(path, &block.text).expect("root may");
    if block.language == "sh" {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("root may");
    }
}

fn steps(text: &str) -> Vec<Step> {
    let prompt = Regex::new(r"^(director|web1|web2|client)[#$] (.+)$").expect("a pattern");
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        match (prompt.captures(line), steps.last_mut()) {
            (Some(found), _) => {
                let (host, command) = (found[1].to_owned(), found[2].to_owned());
                steps.push(Step { host, command, shown: Vec::new() });
            }
            (None, Some(step)) => step.shown.push(line.to_owned()),
            (None, None) => panic!("output before any command: {line}"),
        }
    }
    steps
}

fn fits(shown: &[String], printed: &str) -> bool {
    let mut pattern = "^".to_owned();
    for line in shown {
        if line.trim() == "…" {
            pattern += r"(?:.*\n)*?";
        } else {
            let parts: Vec<_> = plain(line).split('…').map(regex::escape).collect();
            pattern += &format!("{}\n", parts.join(".*"));
        }
    }
    pattern += "$";
    let printed: String = printed.lines().map(|line| plain(line) + "\n").collect();
    Regex::new(&pattern).expect("a pattern").is_match(&printed)
}

/// Blanks count as one.
fn plain(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

const CLIENT: Link = ("client", "clients", "192.0.2.1/24");
const DIRECTOR: Link = ("director", "clients", "192.0.2.2/24");

#[test]
fn a_first_director_with_nat_and_what_is_done_with_it_afterwards() {
    let links = [
        CLIENT,
        DIRECTOR,
        ("director", "servers", "198.51.100.254/24"),
        ("web1", "servers", "198.51.100.11/24"),
        ("web2", "servers", "198.51.100.12/24"),
    ];
    follow(
        &links,
        &[
            "guide/install.md",
            "guide/first-nat.md",
            "guide/operate.md",
            "guide/reload.md",
            "guide/why.md",
            "guide/weights.md",
            "guide/notifications.md",
            "guide/checks.md",
            "guide/monitoring.md",
            "guide/doctor.md",
            "guide/troubleshooting.md",
        ],
    );
}

#[test]
fn from_keepalived() {
    let links = [
        DIRECTOR,
        ("director", "servers", "198.51.100.254/24"),
        ("web1", "servers", "198.51.100.11/24"),
        ("web2", "servers", "198.51.100.12/24"),
    ];
    follow(&links, &["guide/install.md", "guide/migrate.md"]);
}

#[test]
fn a_first_director_with_direct_routing_and_then_one_of_two() {
    let links =
        [CLIENT, DIRECTOR, ("web1", "clients", "192.0.2.11/24"), ("web2", "clients", "192.0.2.12/24")];
    follow(&links, &["guide/install.md", "guide/first-dr.md", "guide/two-directors.md"]);
}

#[test]
fn a_first_director_with_tunnels() {
    let links = [
        CLIENT,
        ("client", "servers", "198.51.100.1/24"),
        DIRECTOR,
        ("web1", "servers", "198.51.100.11/24"),
        ("web2", "servers", "198.51.100.12/24"),
    ];
    follow(&links, &["guide/install.md", "guide/first-tunnel.md"]);
}

/// In a tree of links, since the lab may not write to ours; what is built there is the tests' own.
#[test]
fn from_source() {
    clean();
    let _purged = Purged;
    let tree = TempDir::new().expect("a folder");
    for name in ["systemd", "packaging"] {
        symlink(Path::new(TREE).join(name), tree.path().join(name)).expect("our folder");
    }
    fs::create_dir_all(tree.path().join("target/release")).expect("our folder");
    symlink(LVSD, tree.path().join("target/release/lvsd")).expect("our folder");
    let mut count = 0;
    for block in Page::read(Path::new(TREE), "guide/install.md").blocks() {
        let typed = if block.has("source") { steps(&block.text) } else { Vec::new() };
        for step in typed.iter().filter(|step| !step.command.starts_with("cargo build")) {
            count += 1;
            output(Command::new("bash").args(["-ec", &step.command]).current_dir(tree.path()));
        }
    }
    assert!(count > 5, "{count} steps");
    let configuration = Command::new("stat").args(["-c", "%U:%G %a", "/etc/lvsd/lvsd.toml"]).output();
    assert_eq!(String::from_utf8_lossy(&configuration.expect("stat is there").stdout), "root:lvsd 640\n");
    must("start lvsd");
    assert_eq!(
        (property("ActiveState"), property("UnitFileState")),
        ("active".to_owned(), "enabled".to_owned())
    );
    must("disable --now lvsd");
    for file in ["sysusers.d", "tmpfiles.d", "modules-load.d"] {
        fs::remove_file(format!("/usr/lib/{file}/lvsd.conf")).expect("root may");
    }
}

#[test]
fn what_a_page_shows_must_come() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(fits(&lines("a … d\n…\nz"), "a b  c d\nx\ny\nz\n"));
    assert!(fits(&lines("a"), " a \n"));
    assert!(!fits(&lines("a"), "a\nb\n"));
    assert!(!fits(&lines("a\n…"), "b\na\n"));
    assert_eq!(steps("web1# a b\nc\nclient$ d\n").len(), 2);
}
