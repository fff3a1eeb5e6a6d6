//! Hosts on Ethernet segments, with this machine among them as the director: what direct routing and
//! tunnels need, whose servers do not answer by way of the director.

use crate::lab::net::Space;

/// A bridge for each segment, in a name space of its own.
pub(crate) struct Segments {
    director: Space,
    pub(crate) client: Space,
    pub(crate) servers: [Space; 2],
    /// Lives as long as its hosts.
    _switch: Space,
}

/// A link: whose, to which segment, and with which address.
pub(crate) type Link = (&'static str, &'static str, &'static str);

impl Segments {
    /// Hosts are `client`, `director`, `web1` and `web2`; the links of each become eth0, eth1 and so on.
    pub(crate) fn new(links: &[Link]) -> Self {
        let mut batch = String::new();
        let mut switched = String::new();
        for (number, (host, segment, _)) in links.iter().enumerate() {
            let of = if *host == "director" { String::new() } else { format!(" netns {{{host}}}") };
            // A name that exists here cannot be given to a device of another name space: they are
            // renamed where they belong.
            batch += &format!("link add port{number} netns {{switch}} type veth peer name lab{number}{of}\n");
            if !switched.contains(&format!("add {segment} ")) {
                switched += &format!("link add {segment} type bridge\nlink set {segment} up\n");
            }
            switched += &format!("link set port{number} master {segment}\nlink set port{number} up\n");
        }
        let [switch, client, web1, web2] = Space::several(["switch", "client", "web1", "web2"], &batch);
        switch.ip(&switched);
        let made = Self { director: Space::this_machine(), client, servers: [web1, web2], _switch: switch };
        for host in ["client", "director", "web1", "web2"] {
            let mut lines = "link set lo up\n".to_owned();
            let own = links.iter().enumerate().filter(|(_, (of, _, _))| *of == host);
            for (device, (number, (_, _, address))) in own.enumerate() {
                lines += &format!(
                    "link set lab{number} name eth{device}\nlink set eth{device} up\n\
                     addr add {address} dev eth{device}\n"
                );
            }
            made.host(host).ip(&lines);
        }
        made
    }

    pub(crate) fn host(&self, name: &str) -> &Space {
        match name {
            "client" => &self.client,
            "director" => &self.director,
            "web1" => &self.servers[0],
            "web2" => &self.servers[1],
            _ => panic!("no host is called {name}"),
        }
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        // The other ends go with their name spaces, but not at once.
        for device in ["eth0", "eth1"] {
            let there = std::path::Path::new("/sys/class/net").join(device);
            if there.exists() {
                self.director.ip(&format!("link del {device}"));
            }
        }
    }
}
