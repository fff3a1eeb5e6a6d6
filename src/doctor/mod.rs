//! `lvsd doctor`: what of this host keeps a configuration from working, and the commands that mend it.
//!
//! [`Facts::read`] looks, [`examine`] judges, [`render`] puts it into words. Judging is pure: the same
//! configuration and facts give the same findings. Nothing here changes anything.

mod access;
mod facts;
mod parsing;
mod processes;
mod reading;
pub mod render;
mod rules;
mod unit;

pub use facts::{
    Bar, Barred, Facts, Holder, InterfaceAddress, IpvsTable, ModuleState, Modules, Other, Privileges,
    Purpose, Route, RouteKind,
};
pub use rules::{examine, examine_named};

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The configuration does not work like this.
    Fault,
    /// It works, but not as well as it could, or not in a case that is named.
    Advice,
    /// Looked at, nothing to do.
    Ok,
}

impl Level {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Advice => "advice",
            Self::Ok => "ok",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// Names the rule, for programs; stable.
    pub rule: &'static str,
    /// What there is, in a few words.
    pub found: String,
    /// Where to see it: a path or a command.
    pub source: String,
    /// What follows from it; empty where nothing does.
    pub why: String,
    /// Names of the virtual servers that it matters to; empty: all, or the daemon itself.
    pub virtual_servers: Vec<String>,
    pub remedy: Remedy,
}

/// What to do, for now and for good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remedy {
    /// To be run by root, in this order.
    pub commands: Vec<String>,
    /// Lines of files, so that it is still so after the next boot.
    pub lasting: Vec<Lasting>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lasting {
    pub file: &'static str,
    pub line: String,
}

/// Read by systemd at boot.
const SYSCTL_FILE: &str = "/etc/sysctl.d/60-lvsd.conf";
const MODULES_FILE: &str = "/etc/modules-load.d/lvsd-local.conf";

impl Finding {
    fn new(level: Level, rule: &'static str, found: impl Into<String>, source: impl Into<String>) -> Self {
        let (found, source) = (found.into(), source.into());
        let (why, virtual_servers, remedy) = (String::new(), Vec::new(), Remedy::default());
        Self { level, rule, found, source, why, virtual_servers, remedy }
    }

    fn because(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    fn concerns(mut self, names: Vec<String>) -> Self {
        self.virtual_servers = names;
        self
    }

    /// `path` is relative to /proc/sys.
    fn set(mut self, path: &str, value: &str) -> Self {
        let name = sysctl_name(path);
        self.remedy.commands.push(format!("sysctl -w {name}={value}"));
        self.remedy.lasting.push(Lasting { file: SYSCTL_FILE, line: format!("{name} = {value}") });
        self
    }

    fn load(mut self, module: &str) -> Self {
        self.remedy.commands.push(format!("modprobe {module}"));
        self.remedy.lasting.push(Lasting { file: MODULES_FILE, line: module.to_owned() });
        self
    }

    fn run(mut self, command: impl Into<String>) -> Self {
        self.remedy.commands.push(command.into());
        self
    }
}

/// As sysctl(8) takes it: with dots, or with slashes where a device has a dot in its name.
fn sysctl_name(path: &str) -> String {
    if path.contains('.') { path.to_owned() } else { path.replace('/', ".") }
}
