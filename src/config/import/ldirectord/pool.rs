//! One `virtual` section as a virtual server of lvsd.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::IpAddr;

use super::checks::{self, CheckType, Target};
use super::kernel::Kernel;
use super::lines::{self, Directive};
use super::mail;
use super::servers::{Fallback, Forward, Real};
use super::settings::{Global, Knobs};
use super::{address, services};
use crate::config::address::parse_services;
use crate::config::import::document::{RealServer, Table, VirtualServer};
use crate::config::import::notes::{At, Notes};
use crate::engine::model::Scheduler;

/// The kernel's weights are signed.
const HEAVIEST: u64 = 0x7fff_ffff;
/// Real servers of one virtual server.
const MOST_SERVERS: usize = 8_192;

/// Above one virtual server; the notes have them all.
pub(super) const MOST_COMMENTS: usize = 50;

/// Services that earlier sections have.
pub(super) type Taken = BTreeSet<String>;

/// What one section says.
pub(super) struct Virtual {
    pub(super) at: At,
    pub(super) is_v6: bool,
    /// `tcp`, `udp` or `fwm`.
    pub(super) protocol: &'static str,
    /// As checks are told: with brackets, or the mark.
    pub(super) shown_address: String,
    pub(super) port: Option<u16>,
    pub(super) knobs: Knobs,
    pub(super) check_type: CheckType,
    pub(super) check_command: Option<Directive>,
    pub(super) checkport: Option<u16>,
    pub(super) service: String,
    pub(super) service_is_written: bool,
    pub(super) request: Option<Directive>,
    pub(super) receive: Option<Directive>,
    pub(super) head_only: bool,
    pub(super) virtualhost: Option<Directive>,
    pub(super) login: String,
    pub(super) passwd: String,
    pub(super) database: String,
    pub(super) secret: String,
    reals: Vec<Directive>,
    fallback: Option<Directive>,
    /// Comments that belong above it.
    comments: RefCell<Vec<String>>,
}

/// Where the section's services are.
enum Place {
    Address(IpAddr, u16),
    Mark(u32),
}

impl Virtual {
    pub(super) fn say(&self, comment: String) {
        let mut comments = self.comments.borrow_mut();
        if comments.len() < MOST_COMMENTS && !comments.contains(&comment) {
            comments.push(comment);
        }
    }

    /// Of its own only where ldirectord has a process for each section.
    pub(super) fn interval(&self, global: &Global) -> u64 {
        if global.forks && self.knobs.checkinterval.is_some() {
            self.knobs.interval()
        } else {
            global.knobs.interval()
        }
    }
}

/// `Err` is a comment that says why it is not there.
pub(super) fn read(
    written: &lines::Virtual,
    global: &Global,
    taken: &mut Taken,
    names: &mut BTreeSet<String>,
    notes: &mut Notes,
) -> Result<VirtualServer, String> {
    let refuse = |notes: &mut Notes, why: String| {
        notes.not_carried(written.head.at, &format!("{} = {}", written.head.key, written.head.value), why)
    };
    let place = place(written).map_err(|why| refuse(notes, why))?;
    let mut out = VirtualServer::default();
    let vs = section(written, &place, &mut out, names, notes);
    let service = match place {
        Place::Address(address, port) => {
            format!("{} {}", vs.protocol, address::with_port(address, Some(port)))
        }
        Place::Mark(mark) => format!("{mark} {}", written.is_v6),
    };
    if !taken.insert(service) {
        return Err(refuse(
            notes,
            "an earlier section has this service; ldirectord refuses the file".to_owned(),
        ));
    }
    if vs.knobs.checkinterval.is_some() && !global.forks {
        notes.remark(
            vs.at,
            "checkinterval",
            "below a virtual server ldirectord takes it only with fork = yes; so the one of the file counts",
        );
    }
    if vs.protocol != "fwm" {
        out.keys.set("protocol", vs.protocol);
    }
    if vs.knobs.quiescent.or(global.knobs.quiescent) == Some(true) {
        out.keys.set("inhibit_on_failure", true);
    }
    sorry_server(&vs, global, &mut out, notes);
    quorum_commands(&vs, global, &mut out, notes);
    real_servers(&vs, global, &mut out, notes);
    out.above.append(&mut vs.comments.borrow_mut());
    Ok(out)
}

fn place(written: &lines::Virtual) -> Result<Place, String> {
    let text = written.head.value.split_whitespace().next().unwrap_or_default();
    let (host, port) = address::split(text);
    let Some(port) = port else {
        let plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty();
        return match text.parse::<u32>() {
            Ok(mark) if plain && mark > 0 => Ok(Place::Mark(mark)),
            Ok(_) | Err(_) => {
                Err("it is neither an address with a port nor a firewall mark above 0".to_owned())
            }
        };
    };
    let address = address::host(host, written.is_v6)?;
    let port = address::port(port)?.ok_or_else(|| "port 0".to_owned())?;
    parse_services(&address::with_port(address, Some(port))).map_err(|wrong| wrong.message)?;
    Ok(Place::Address(address, port))
}

/// All directives but those about servers and checks, which are kept.
fn section(
    written: &lines::Virtual,
    place: &Place,
    out: &mut VirtualServer,
    names: &mut BTreeSet<String>,
    notes: &mut Notes,
) -> Virtual {
    let (protocol, shown_address, port) = match place {
        Place::Address(address, port) => {
            out.keys.set("address", address::with_port(*address, Some(*port)));
            (if *port == 53 { "udp" } else { "tcp" }, address::bracketed(*address), Some(*port))
        }
        Place::Mark(mark) => {
            out.keys.set("fwmark", *mark);
            out.keys.set("family", if written.is_v6 { "ipv6" } else { "ipv4" });
            ("fwm", mark.to_string(), None)
        }
    };
    let mut vs = Virtual {
        at: written.head.at,
        is_v6: written.is_v6,
        protocol,
        shown_address,
        port,
        knobs: Knobs::default(),
        check_type: CheckType::Negotiate,
        check_command: None,
        checkport: None,
        service: port.map_or("none", services::of_port).to_owned(),
        service_is_written: false,
        request: None,
        receive: None,
        head_only: false,
        virtualhost: None,
        login: String::new(),
        passwd: String::new(),
        database: String::new(),
        secret: String::new(),
        reals: Vec::new(),
        fallback: None,
        comments: RefCell::default(),
    };
    let mut kernel = Kernel::default();
    for directive in &written.directives {
        let read = match vs.knobs.read(directive) {
            Some(read) => read.map_err(str::to_owned),
            None => vs.directive(directive, out, &mut kernel, names),
        };
        if let Err(why) = read {
            vs.say(notes.not_carried(directive.at, &directive.key, why));
        }
    }
    kernel.write(&vs, &mut out.keys, notes);
    vs
}

impl Virtual {
    fn directive(
        &mut self,
        directive: &Directive,
        out: &mut VirtualServer,
        kernel: &mut Kernel,
        names: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        let text = directive.unquoted().to_owned();
        match directive.key.as_str() {
            "real" | "real6" => self.reals.push(directive.clone()),
            "fallback" | "fallback6" => self.fallback = Some(directive.clone()),
            "checktype" => {
                let why =
                    "it is none of connect, negotiate, ping, external, external-perl, on, off and a number";
                self.check_type = CheckType::read(directive).ok_or(why)?;
            }
            "checkcommand" => self.check_command = Some(directive.clone()),
            "checkport" => {
                let port =
                    directive.number().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
                self.checkport = Some(port.ok_or("a port is a number from 1 to 65535")?);
            }
            "service" => {
                let word = directive.value.split_whitespace().next().unwrap_or_default();
                if !services::is_known(word) {
                    return Err("ldirectord has no such service".to_owned());
                }
                word.clone_into(&mut self.service);
                self.service_is_written = true;
            }
            "request" => self.request = Some(directive.clone()),
            "receive" => self.receive = Some(directive.clone()),
            "httpmethod" => match text.to_ascii_uppercase().as_str() {
                "GET" => self.head_only = false,
                "HEAD" => self.head_only = true,
                _ => return Err("it is GET or HEAD".to_owned()),
            },
            "virtualhost" => self.virtualhost = Some(directive.clone()),
            "login" => self.login = text,
            "passwd" => self.passwd = text,
            "database" => self.database = text,
            "secret" => self.secret = text,
            "scheduler" => {
                let word: String = text
                    .chars()
                    .skip_while(|c| !c.is_ascii_lowercase())
                    .take_while(char::is_ascii_lowercase)
                    .collect();
                Scheduler::new(&word).ok_or("it is no name of a scheduler")?;
                kernel.scheduler = Some(word);
            }
            "schedflags" => kernel.flags = Some(directive.clone()),
            "persistent" => kernel.persistent = Some(directive.clone()),
            "netmask" => kernel.netmask = Some(directive.clone()),
            "ops" => kernel.ops = Some(directive.clone()),
            "protocol" => match (text.as_str(), self.protocol) {
                ("fwm", "fwm") => {}
                ("tcp", "tcp" | "udp") => self.protocol = "tcp",
                ("udp", "tcp" | "udp") => self.protocol = "udp",
                _ => return Err("it is tcp or udp for an address, and fwm for a mark".to_owned()),
            },
            "servicename" => {
                let name: String = text.chars().filter(|c| !c.is_control()).collect();
                // Default names are addresses: no other may look like one.
                let plain = !name.is_empty() && !name.contains(':') && !name.starts_with("fwmark ");
                if !plain || name.parse::<IpAddr>().is_ok() || !names.insert(name.clone()) {
                    return Err("another virtual server has this name, or it could be an address".to_owned());
                }
                out.keys.set("name", name);
            }
            "comment" => out.above.push(text),
            "monitorfile" => {
                return Err("the journal has all of it: journalctl -u lvsd REAL_SERVER=…".to_owned());
            }
            key if mail::is_about_mail(key) => return Err(mail::ONCE.to_owned()),
            "load" => return Err("ldirectord reads it and does nothing with it".to_owned()),
            "connecttimeout" => return Err("ldirectord refuses it: it became negotiatetimeout".to_owned()),
            _ => return Err("ldirectord refuses this line, too".to_owned()),
        }
        Ok(())
    }
}

fn sorry_server(vs: &Virtual, global: &Global, out: &mut VirtualServer, notes: &mut Notes) {
    let of_file = if vs.is_v6 { &global.fallback6 } else { &global.fallback };
    // ldirectord has a fallback of the file for tcp and for udp, none for marks.
    let of_file = of_file.as_ref().filter(|_| vs.protocol != "fwm");
    let Some(directive) = vs.fallback.as_ref().or(of_file) else { return };
    match Fallback::read(directive, vs.is_v6, vs.port) {
        Ok(fallback) => {
            let mut sorry = Table::default();
            sorry.set("address", address::with_port(fallback.address, fallback.port));
            sorry.set("lb_kind", fallback.forward.lb_kind());
            out.keys.set("sorry_server", sorry);
        }
        Err(why) => vs.say(notes.not_carried(directive.at, &directive.key, why)),
    }
}

/// `fallbackcommand`: with "start" when the last server is gone, with "stop" when the first is back.
fn quorum_commands(vs: &Virtual, global: &Global, out: &mut VirtualServer, notes: &mut Notes) {
    let Some(directive) = vs.knobs.fallbackcommand.as_ref().or(global.knobs.fallbackcommand.as_ref()) else {
        return;
    };
    let command = directive.unquoted();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@% ".contains(c);
    if command.trim().is_empty() || command.contains('\0') {
        vs.say(notes.not_carried(directive.at, "fallbackcommand", "it names no program"));
        return;
    }
    let server = match vs.protocol {
        // A mark has neither address nor port there.
        "fwm" => ":0".to_owned(),
        _ => format!("{}:{}", vs.shown_address, vs.port.unwrap_or(0)),
    };
    let argv = |state: &str| -> Vec<String> {
        let mut words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if !command.chars().all(plain) || !command.trim_start().starts_with('/') {
            // As ldirectord does, through a shell.
            return vec![
                "/bin/sh".to_owned(),
                "-c".to_owned(),
                format!("{command} {state} {server} {}", vs.protocol),
            ];
        }
        words.extend([state.to_owned(), server.clone(), vs.protocol.to_owned()]);
        words
    };
    out.keys.set("quorum_down", argv("start"));
    out.keys.set("quorum_up", argv("stop"));
}

fn real_servers(vs: &Virtual, global: &Global, out: &mut VirtualServer, notes: &mut Notes) {
    let (mut destinations, mut written) = (BTreeSet::new(), BTreeSet::new());
    if vs.check_type == CheckType::Off && !vs.reals.is_empty() {
        let why = "off: ldirectord never puts these servers into the table, unless somebody else does; here they are there with weight 0. `lvsd weight ADDRESS N` gives one a weight";
        notes.remark(vs.at, "checktype", why);
        vs.say(format!("checktype = {why}"));
    }
    for directive in &vs.reals {
        let real = match Real::read(directive, vs.is_v6) {
            Ok(real) => real,
            Err(why) => {
                let what = format!("{} = {}", directive.key, directive.value);
                vs.say(notes.not_carried(directive.at, &what, why));
                continue;
            }
        };
        if !real.rest.is_empty() {
            let why = format!("nobody understands {:?} in it; ldirectord refuses the file", real.rest);
            notes.remark(directive.at, &directive.key, why);
        }
        for address in &real.addresses {
            let port = match real.forward {
                Forward::Masq => real.port.or(vs.port),
                Forward::Gate | Forward::Ipip => vs.port,
            };
            // By what the kernel has, and by what is written.
            let known = !destinations.insert((*address, port)) | !written.insert((*address, real.port));
            if known || out.real_servers.len() >= MOST_SERVERS {
                let why = if known {
                    "the pool has this destination already"
                } else {
                    "there are too many servers in this pool"
                };
                vs.say(notes.not_carried(directive.at, &format!("real = {address}"), why));
                continue;
            }
            out.real_servers.push(real_server(vs, global, &real, *address, directive, notes));
        }
    }
}

fn real_server(
    vs: &Virtual,
    global: &Global,
    real: &Real,
    address: IpAddr,
    directive: &Directive,
    notes: &mut Notes,
) -> RealServer {
    let mut server = RealServer::default();
    let keys = &mut server.keys;
    keys.set("address", address::with_port(address, real.port));
    keys.set("lb_kind", real.forward.lb_kind());
    if real.weight > HEAVIEST {
        notes.remark(directive.at, &directive.key, "the kernel has no weight above 2147483647");
    }
    let weight = if vs.check_type == CheckType::Off { 0 } else { real.weight.min(HEAVIEST) };
    keys.set("weight", i64::try_from(weight).unwrap_or(1));
    for (key, value) in [("upper_threshold", real.upper), ("lower_threshold", real.lower)] {
        keys.set_if(
            key,
            value.map(|value| u32::try_from(value).unwrap_or(u32::MAX)).filter(|value| *value > 0),
        );
    }
    let written = |directive: &Option<Directive>| directive.as_ref().map(|d| d.unquoted().to_owned());
    let own =
        (written(&vs.request).unwrap_or_else(|| "/".to_owned()), written(&vs.receive).unwrap_or_default());
    let (request, receive) = real.asked.clone().unwrap_or(own);
    let target = Target { address, port: real.port, request: &request, receive: &receive, directive };
    server.checks = checks::of_server(vs, global, &target, notes);
    server
}
