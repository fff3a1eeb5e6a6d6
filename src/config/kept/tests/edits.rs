//! Any edits of a configuration in several files, one after the other.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::{Disk, Readings, sources};

/// A `[[virtual_server]]` with its text in numbers.
#[derive(Clone, Debug)]
struct Server {
    file: usize,
    name: Option<u8>,
    address: u8,
    protocol: &'static str,
    check: usize,
    weights: Vec<u8>,
    more: Option<usize>,
}

const CHECKS: [&str; 9] = [
    "check = \"web\"",
    "check = \"api\"",
    "check = [\"web\", \"api\"]",
    "check = []",
    "check = { tcp = {} }",
    "check = \"web\"\nvirtualhost = \"www.example.org\"\ndelay_loop = \"3s\"",
    "check = { http = { path = \"/\" } }",
    "check = { script = { argv = [\"bin/check\"] } }",
    "check = { tcp = { tls = { ca = \"ca.pem\" } } }",
];

/// Of no account, warned of, wrong, or wrong only beside others.
const MORE: [&str; 12] = [
    "# a comment",
    "quorum = 90",
    "hysteresis = 5",
    "scheduler = \"none\"",
    "schedular = \"rr\"",
    "quorum = 0",
    "name = ",
    "announce = { interface = \"eth0\" }",
    "announce = { interface = \"eth1\" }",
    "lb_kind = \"tun\"\nsorry_server = \"[2001:db8::1]:80\"",
    "active_when = { file = \"here\" }",
    "fwmark = 5",
];

#[derive(Clone, Debug)]
struct World {
    defaults: u8,
    period: u8,
    servers: Vec<Server>,
    disk: Disk,
    /// What stands in the files beside that, by `TOGGLES`.
    has: [bool; 4],
}

/// Each with its file, and whether it stands behind the virtual servers.
const TOGGLES: [(usize, bool, &str); 4] = [
    (0, false, "[daemon.sync]\ninterface = \"eth0\"\n"),
    (
        0,
        false,
        "[daemon.notify.mail]\nserver = \"mail.example.org\"\nfrom = \"lvsd@example.org\"\n\
         to = [\"ops@example.org\"]\nuser = \"lvsd\"\npassword_file = \"secret\"\n",
    ),
    (0, true, "[check.api]\ntcp = { send = \"x\" }\n"),
    (1, true, "[check.more]\nping = {}\n"),
];

#[derive(Clone, Debug)]
enum Edit {
    Nothing,
    Weight(usize, u8),
    Add(Server),
    Remove(usize),
    Swap(usize, usize),
    Copy(usize),
    Move(usize, usize),
    Name(usize, Option<u8>),
    Address(usize, u8, &'static str),
    Check(usize, usize),
    More(usize, Option<usize>),
    Defaults(u8),
    Period(u8),
    Toggle(usize),
    Pem,
    Secret,
}

fn server() -> impl Strategy<Value = Server> {
    let weights = prop::collection::vec(1_u8..4, 1..3);
    (0_usize..3, name(), 1_u8..9, protocol(), 0..CHECKS.len(), weights, more()).prop_map(
        |(file, name, address, protocol, check, weights, more)| Server {
            file,
            name,
            address,
            protocol,
            check,
            weights,
            more,
        },
    )
}

fn name() -> impl Strategy<Value = Option<u8>> {
    prop_oneof![3 => Just(None), 1 => (0_u8..5).prop_map(Some)]
}

fn protocol() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("tcp"), Just("udp")]
}

fn more() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![4 => Just(None), 1 => (0..MORE.len()).prop_map(Some)]
}

type Change = Box<dyn Fn(&mut Server)>;

fn edit() -> impl Strategy<Value = Edit> {
    let at = || 0_usize..6;
    prop_oneof![
        1 => Just(Edit::Nothing),
        3 => (at(), 1_u8..9).prop_map(|(at, weight)| Edit::Weight(at, weight)),
        3 => server().prop_map(Edit::Add),
        2 => at().prop_map(Edit::Remove),
        1 => (at(), at()).prop_map(|(one, other)| Edit::Swap(one, other)),
        1 => at().prop_map(Edit::Copy),
        1 => (at(), 0_usize..3).prop_map(|(at, file)| Edit::Move(at, file)),
        2 => (at(), name()).prop_map(|(at, name)| Edit::Name(at, name)),
        2 => (at(), 1_u8..9, protocol()).prop_map(|(at, address, protocol)| Edit::Address(at, address, protocol)),
        2 => (at(), 0..CHECKS.len()).prop_map(|(at, check)| Edit::Check(at, check)),
        3 => (at(), more()).prop_map(|(at, more)| Edit::More(at, more)),
        1 => (0_u8..3).prop_map(Edit::Defaults),
        1 => (1_u8..4).prop_map(Edit::Period),
        2 => (0..TOGGLES.len()).prop_map(Edit::Toggle),
        1 => Just(Edit::Pem),
        1 => Just(Edit::Secret),
    ]
}

impl World {
    fn edit(&mut self, edit: Edit) {
        let servers = &mut self.servers;
        let (at, change): (usize, Change) = match edit {
            Edit::Nothing => return,
            Edit::Add(server) => return servers.push(server),
            Edit::Remove(at) if at < servers.len() => return drop(servers.remove(at)),
            Edit::Copy(at) if at < servers.len() => return servers.push(servers[at].clone()),
            Edit::Swap(one, other) if one.max(other) < servers.len() => return servers.swap(one, other),
            Edit::Remove(_) | Edit::Copy(_) | Edit::Swap(..) => return,
            Edit::Defaults(defaults) => return self.defaults = defaults,
            Edit::Period(period) => return self.period = period,
            Edit::Toggle(which) => return self.has[which] = !self.has[which],
            Edit::Pem => return self.disk.pem_is_good = !self.disk.pem_is_good,
            Edit::Secret => return self.disk.secret_is_closed = !self.disk.secret_is_closed,
            Edit::Weight(at, weight) => (at, Box::new(move |s| s.weights[0] = weight)),
            Edit::Move(at, file) => (at, Box::new(move |s| s.file = file)),
            Edit::Name(at, name) => (at, Box::new(move |s| s.name = name)),
            Edit::Address(at, address, protocol) => {
                (at, Box::new(move |s| (s.address, s.protocol) = (address, protocol)))
            }
            Edit::Check(at, check) => (at, Box::new(move |s| s.check = check)),
            Edit::More(at, more) => (at, Box::new(move |s| s.more = more)),
        };
        servers.get_mut(at).into_iter().for_each(change);
    }

    fn texts(&self) -> [String; 3] {
        let mut texts = [String::new(), String::new(), "# services only\n".to_owned()];
        self.write_toggles(&mut texts, false);
        let _ = writeln!(texts[0], "[defaults]\nquorum = {}", self.defaults + 1);
        let _ =
            writeln!(texts[0], "[check.web]\ndelay_loop = \"{}s\"\nhttp = {{ path = \"/\" }}", self.period);
        self.servers.iter().for_each(|server| server.write(&mut texts[server.file]));
        self.write_toggles(&mut texts, true);
        texts
    }

    fn write_toggles(&self, texts: &mut [String; 3], behind: bool) {
        for ((file, is_behind, text), has) in TOGGLES.iter().zip(self.has) {
            if has && *is_behind == behind {
                texts[*file] += text;
            }
        }
    }
}

impl Server {
    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "[[virtual_server]]\naddress = \"192.0.2.{}:80\"", self.address);
        let _ = writeln!(text, "protocol = \"{}\"\n{}", self.protocol, CHECKS[self.check]);
        // Some of which are what another one has without being named.
        if let Some(name) = self.name {
            let _ = writeln!(text, "name = \"192.0.2.{name}:80\"");
        }
        if let Some(more) = self.more {
            let _ = writeln!(text, "{}", MORE[more]);
        }
        for (weight, n) in self.weights.iter().zip(1..) {
            let header = "[[virtual_server.real_server]]";
            let _ = writeln!(text, "{header}\naddress = \"198.51.100.{n}:80\"\nweight = {weight}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn after_any_edits_the_same_is_read_as_by_a_reading_that_knows_nothing(
        servers in prop::collection::vec(server(), 0..4),
        edits in prop::collection::vec(prop::collection::vec(edit(), 1..3), 1..12),
    ) {
        let has = [false, false, true, true];
        let mut world = World { defaults: 0, period: 1, servers, disk: Disk::GOOD, has };
        let mut readings = Readings::default();
        let mut read = |world: &World| {
            let [main, first, second] = world.texts();
            let files = [
                ("lvsd.toml", "/etc/lvsd", &*main),
                ("a.toml", "/etc/lvsd", &*first),
                ("conf.d/b.toml", "/etc/lvsd/conf.d", &*second),
            ];
            // Compares; what it comes to is for other tests.
            let _ = readings.read(&sources(&files), world.disk);
        };
        read(&world);
        for edits in edits {
            edits.into_iter().for_each(|edit| world.edit(edit));
            read(&world);
        }
    }
}
