//! Two directors behind a router that spreads clients over both (ECMP): what a connection lives through.
//!
//! | space | addresses |
//! |---|---|
//! | client | 203.0.113.130, behind the router |
//! | router | 203.0.113.129 to the client, 192.0.2.1 to the directors, 198.51.100.1 on the servers' network |
//! | first, second | 192.0.2.10 and 192.0.2.11, AS 65010; 198.51.100.2 and 198.51.100.3 |
//! | web1, web2 | 198.51.100.11 and 198.51.100.12, both with the virtual address 203.0.113.10 on `lo` |
//!
//! BIRD has the files that the book shows, and the router's kernel the setting.

use std::path::Path;
use std::time::Duration;

use regex::Regex;

use super::process::{Director, wait_for_table};
use crate::book::{Block, Page};
use crate::lab::backend::Backend;
use crate::lab::bird::Bird;
use crate::lab::client::Conversation;
use crate::lab::net::Space;
use crate::lab::wait::{until, within};

const VIRTUAL: &str = "203.0.113.10:80";
const TABLE: [&str; 3] = [
    "-A -t 203.0.113.10:80 -s rr",
    "-a -t 203.0.113.10:80 -r 198.51.100.11:80 -g -w 1",
    "-a -t 203.0.113.10:80 -r 198.51.100.12:80 -g -w 1",
];
/// For sessions to come up and routes to be told, on a machine that is busy.
const CONVERGENCE: Duration = Duration::from_secs(120);
/// Enough that each director gets some of them, whatever the router's hash is.
const CONVERSATIONS: usize = 32;

const CONFIG: &str = r#"
sync = { state = "both", interface = "back", id = 10 }
[defaults]
delay_loop = "300ms"
timeout = "2s"
lb_kind = "dr"
announce = { interface = "lvs0" }
check = { tcp = {} }

[[virtual_server]]
name = "web"
address = "203.0.113.10:80"
scheduler = "rr"
real_server = [{ address = "198.51.100.11:80" }, { address = "198.51.100.12:80" }]
"#;

struct Site {
    client: Space,
    router: Space,
    first: Space,
    second: Space,
    web1: Space,
    web2: Space,
}

impl Site {
    fn new() -> Self {
        let [client, router, first, second, web1, web2] =
            Space::several(["client", "router", "first", "second", "web1", "web2"], LINKS);
        for (space, lines) in [
            (&client, CLIENT),
            (&router, ROUTER),
            (&first, FIRST),
            (&second, SECOND),
            (&web1, WEB1),
            (&web2, WEB2),
        ] {
            space.ip(lines);
        }
        router.run(|| {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("root may forward");
        });
        // By ports too, so that one client uses both directors.
        for line in shown("guide/scaling.md", "console", "router").text.lines() {
            let command = line.strip_prefix("router# ").expect("typed on the router");
            let (program, words) = command.split_once(' ').expect("a program and words");
            router.output(program, words);
        }
        Self { client, router, first, second, web1, web2 }
    }

    /// Until the router sends clients to these, and to no other.
    fn wait_for_route(&self, directors: &[&str]) {
        let mut seen = String::new();
        within(CONVERGENCE, &format!("the route leads to {directors:?}"), || {
            let route = self.router.output("ip", "-4 route show 203.0.113.10");
            if route != seen {
                eprintln!("{route}");
                seen.clone_from(&route);
            }
            let mut found: Vec<&str> =
                route.split_whitespace().filter(|word| word.starts_with("192.0.2.")).collect();
            found.sort_unstable();
            (found == directors).then_some(())
        });
    }
}

/// The block of a page that is of this language and has this mark.
fn shown(page: &str, language: &str, mark: &str) -> Block {
    let page = Page::read(Path::new(env!("CARGO_MANIFEST_DIR")), page);
    page.blocks()
        .into_iter()
        .find(|block| block.language == language && block.has(mark))
        .expect("the page shows it")
}

/// A file of BIRD's, impatient: what takes it minutes by default takes seconds.
fn bird_file(page: &str, mark: &str) -> String {
    let bgp = Regex::new(r"(?m)^((?:template|protocol) bgp \w+ \{)").expect("a pattern");
    let patience = "$1\n  connect delay time 1; connect retry time 1; error wait time 1, 2;";
    bgp.replace_all(&shown(page, "text", mark).text, patience).into_owned()
}

/// What this director's kernel has forwarded to servers of the service, as of at most two seconds ago:
/// the kernel adds up when it estimates rates.
fn packets(director: &Space) -> u64 {
    let stats = director.ipvsadm("-Ln --stats --exact");
    let line = stats.lines().find(|line| line.contains(VIRTUAL)).expect("the service is there");
    line.split_whitespace().nth(3).expect("packets in").parse().expect("a number")
}

/// Connections of which this director's kernel knows, its own and those that the other told it of.
fn known(director: &Space) -> usize {
    director.ipvsadm("-Lnc").lines().filter(|line| line.contains("ESTABLISHED")).count()
}

/// Says something in every conversation; each has to be answered by the server that it began with.
fn go_on(conversations: &mut [(Conversation, String)], word: &str) {
    let broken: Vec<String> = conversations
        .iter_mut()
        .filter_map(|(conversation, server)| match conversation.say(word) {
            Ok(name) if name == *server => None,
            Ok(name) => Some(format!("{server} became {name}")),
            Err(problem) => Some(problem),
        })
        .collect();
    assert_eq!(broken, Vec::<String>::new(), "{word}: {} of {}", broken.len(), conversations.len());
}

#[test]
fn connections_live_on_when_a_director_is_stopped_and_when_one_dies() {
    let site = Site::new();
    let _servers =
        [Backend::start(&site.web1, "198.51.100.11:80"), Backend::start(&site.web2, "198.51.100.12:80")];
    let _virtual = [Backend::named(&site.web1, VIRTUAL, "web1"), Backend::named(&site.web2, VIRTUAL, "web2")];
    let director = bird_file("guide/two-directors.md", "director");
    let birds = [
        Bird::start(&site.router, &bird_file("guide/scaling.md", "router")),
        Bird::start(&site.first, &director),
        Bird::start(&site.second, &director.replace("192.0.2.10", "192.0.2.11")),
    ];
    birds[0].wait_for_session("director1");
    birds[0].wait_for_session("director2");
    let (one, two) = (Director::new(&site.first, CONFIG), Director::new(&site.second, CONFIG));
    let (first, second) = (one.start(), two.start());
    wait_for_table(&site.first, &TABLE);
    wait_for_table(&site.second, &TABLE);
    site.wait_for_route(&["192.0.2.10", "192.0.2.11"]);

    let mut conversations: Vec<(Conversation, String)> = site.client.run(|| {
        (0..CONVERSATIONS)
            .map(|_| {
                let mut conversation = Conversation::open(VIRTUAL).expect("both directors serve");
                let server = conversation.say("hello").expect("an answer");
                (conversation, server)
            })
            .collect()
    });
    until("both directors have work", || packets(&site.first) > 0 && packets(&site.second) > 0);
    // A connection is told of at its third packet and then at each fiftieth (net.ipv4.vs.sync_threshold).
    until("each director knows the connections of the other", || {
        go_on(&mut conversations, "again");
        known(&site.first) == CONVERSATIONS && known(&site.second) == CONVERSATIONS
    });

    assert!(first.stop().success());
    site.wait_for_route(&["192.0.2.11"]);
    go_on(&mut conversations, "the first director is stopped");
    let first = one.start();
    site.wait_for_route(&["192.0.2.10", "192.0.2.11"]);
    go_on(&mut conversations, "the first director is back");

    // As if its power were gone: nothing is withdrawn, its links are dead.
    second.kill();
    site.second.ip("link set front down\nlink set back down");
    site.wait_for_route(&["192.0.2.10"]);
    let before = packets(&site.first);
    go_on(&mut conversations, "the second director is dead");
    until("the first director has carried them all", || {
        packets(&site.first) >= before + CONVERSATIONS as u64
    });
    drop(first);
}

const LINKS: &str = "
link add eth0 netns {client} type veth peer name client netns {router}
link add front netns {first} type veth peer name first netns {router}
link add front netns {second} type veth peer name second netns {router}
link add back netns {first} type veth peer name port1 netns {router}
link add back netns {second} type veth peer name port2 netns {router}
link add eth0 netns {web1} type veth peer name port3 netns {router}
link add eth0 netns {web2} type veth peer name port4 netns {router}
";
const CLIENT: &str = "
link set lo up
link set eth0 up
addr add 203.0.113.130/30 dev eth0
route add default via 203.0.113.129
";
const ROUTER: &str = "
link set lo up
link add servers type bridge mcast_snooping 0
link set port1 master servers
link set port2 master servers
link set port3 master servers
link set port4 master servers
link set port1 up
link set port2 up
link set port3 up
link set port4 up
link set servers up
link set client up
link add directors type bridge
link set first master directors
link set second master directors
link set first up
link set second up
link set directors up
addr add 203.0.113.129/30 dev client
addr add 192.0.2.1/24 dev directors
addr add 198.51.100.1/24 dev servers
";
const FIRST: &str = "
link set lo up
link add lvs0 type dummy
link set lvs0 up
link set front up
link set back up
addr add 192.0.2.10/24 dev front
addr add 198.51.100.2/24 dev back
route add default via 192.0.2.1
";
const SECOND: &str = "
link set lo up
link add lvs0 type dummy
link set lvs0 up
link set front up
link set back up
addr add 192.0.2.11/24 dev front
addr add 198.51.100.3/24 dev back
route add default via 192.0.2.1
";
const WEB1: &str = "
link set lo up
link set eth0 up
addr add 198.51.100.11/24 dev eth0
addr add 203.0.113.10/32 dev lo
route add default via 198.51.100.1
";
const WEB2: &str = "
link set lo up
link set eth0 up
addr add 198.51.100.12/24 dev eth0
addr add 203.0.113.10/32 dev lo
route add default via 198.51.100.1
";
