//! How everything stands, as lines: for those who begin to listen, and for what only a reload tells.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::lines::{self, State};
use crate::engine::model::{RealServerId, VirtualServer};

/// A virtual server with its real servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub virtual_server: Arc<VirtualServer>,
    pub quorum: State,
    pub real_servers: Vec<(RealServerId, State)>,
}

impl Standing {
    /// Each line's words: the real servers', then the virtual server's.
    fn words(&self) -> impl Iterator<Item = Vec<String>> {
        let pool = &self.virtual_server;
        let servers = self.real_servers.iter().map(|(id, state)| lines::of_real_server(pool, *id, *state));
        servers.chain([lines::of_virtual_server(pool, self.quorum)])
    }
}

/// A line for each real and virtual server.
pub(super) fn all(standings: &[Standing]) -> String {
    standings.iter().flat_map(Standing::words).map(|words| lines::line(&words)).collect()
}

/// What a reload adds and takes away, which no event is about: keepalived has lines for what was up and
/// is no more, and who follows them must learn of what is new.
pub(super) fn changes(before: &[Standing], after: &[Standing]) -> Vec<String> {
    let of = |standings: &[Standing]| -> BTreeMap<Vec<String>, String> {
        let named = standings.iter().flat_map(Standing::words);
        named.filter_map(|mut words| words.pop().map(|state| (words, state))).collect()
    };
    let (old, new) = (of(before), of(after));
    let gone = old.iter().filter(|(name, state)| *state == State::Up.word() && !new.contains_key(*name));
    let came = new.iter().filter(|(name, _)| !old.contains_key(*name));
    let said = |name: &[String], state: &str| lines::line(&[name, &[state.to_owned()]].concat());
    let gone = gone.map(|(name, _)| said(name, State::Down.word()));
    gone.chain(came.map(|(name, state)| said(name, state))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::testing;

    fn standing(name: &str, service: &str, quorum: State, servers: &[(&str, State)]) -> Standing {
        Standing {
            virtual_server: testing::pool(name, &[service]),
            quorum,
            real_servers: servers.iter().map(|(id, state)| (testing::server(id), *state)).collect(),
        }
    }

    #[test]
    fn everything_is_told_server_by_server() {
        let web = [("198.51.100.11:80", State::Up), ("198.51.100.12:80", State::Down)];
        let standings = [
            standing("web", "192.0.2.10:80", State::Up, &web),
            standing("empty", "192.0.2.11:80", State::Down, &[]),
        ];
        let wanted = "RS [198.51.100.11]:tcp:80 [192.0.2.10]:tcp:80 UP\n\
            RS [198.51.100.12]:tcp:80 [192.0.2.10]:tcp:80 DOWN\n\
            VS [192.0.2.10]:tcp:80 UP\n\
            VS [192.0.2.11]:tcp:80 DOWN\n";
        assert_eq!(all(&standings), wanted);
        assert_eq!(all(&[]), "");
    }

    #[test]
    fn a_reload_tells_what_went_and_what_came() {
        let (up, down) = (State::Up, State::Down);
        let before = [
            standing("web", "192.0.2.10:80", up, &[("198.51.100.11:80", up), ("198.51.100.12:80", down)]),
            standing("old", "192.0.2.11:80", up, &[]),
        ];
        let after = [
            // That it is down now is an event of its own.
            standing("web", "192.0.2.10:80", down, &[("198.51.100.13:80", up)]),
            standing("new", "192.0.2.12:80", down, &[]),
        ];
        assert_eq!(
            changes(&before, &after),
            [
                "RS [198.51.100.11]:tcp:80 [192.0.2.10]:tcp:80 DOWN\n",
                "VS [192.0.2.11]:tcp:80 DOWN\n",
                "RS [198.51.100.13]:tcp:80 [192.0.2.10]:tcp:80 UP\n",
                "VS [192.0.2.12]:tcp:80 DOWN\n",
            ]
        );
        assert_eq!(changes(&before, &before), Vec::<String>::new());
    }
}
