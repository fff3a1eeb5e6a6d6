//! What somebody sees who opens the page: three servers, two thousand, everything down, hostile servers.

use std::fmt::Write as _;

use serde_json::json;

use crate::backends::Backends;
use crate::driver::Browser;
use crate::support::{Daemon, Place, within};

const DESK: (u32, u32) = (1280, 900);
const PHONE: (u32, u32) = (360, 740);

const HEAD: &str = "name = \"lvs1\"\nhttp = \"127.0.0.1:0\"\n\n[defaults]\nretry = 0\n\n";

pub(crate) fn url(place: &Place) -> String {
    let line = place.logged("health on http://");
    line["message"].as_str().expect("a message").trim_start_matches("health on ").to_owned()
}

/// A pool whose servers are asked for `/` and have to say "ready".
fn pool(name: &str, number: usize, millis: usize, servers: &[String]) -> String {
    let mut text = format!(
        "[[virtual_server]]\nname = \"{name}\"\naddress = [\"192.0.2.{number}:80\", \"192.0.2.{number}:8080\"]\nscheduler = \"wrr\"\n\
         delay_loop = \"{millis}ms\"\ncheck = {{ http = {{ path = \"/\", body = {{ contains = \"ready\" }} }} }}\n\n"
    );
    for server in servers {
        let _infallible = writeln!(text, "[[virtual_server.real_server]]\naddress = \"{server}\"");
    }
    text
}

fn addresses(backends: &Backends, numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| backends.address(number).to_string()).collect()
}

struct Opened<'a> {
    browser: Browser,
    url: String,
    _daemon: Daemon<'a>,
}

fn open(place: &Place) -> Opened<'_> {
    let daemon = place.start();
    let (browser, url) = (Browser::start(), url(place));
    browser.look_like(DESK, "light");
    browser.open(&url);
    Opened { browser, url, _daemon: daemon }
}

impl Opened<'_> {
    /// Nothing from elsewhere was asked for, and the page found nothing wrong with itself.
    fn is_clean(&self) {
        let requests = self.browser.requests();
        assert!(!requests.is_empty());
        for request in requests {
            let inside = ["data:", "chrome:"].iter().any(|own| request.starts_with(own));
            assert!(inside || request.starts_with(&self.url), "{request}");
        }
        assert_eq!(self.browser.complaints(), Vec::<String>::new());
    }

    /// Nothing reaches beyond the screen to the right.
    fn fits(&self) {
        let wide = self.browser.run("return document.documentElement.scrollWidth - window.innerWidth");
        assert!(wide.as_i64().expect("a number") <= 0, "{wide} too wide");
    }

    fn photograph(&self, name: &str) {
        for (suffix, size, scheme) in [
            ("", DESK, "light"),
            ("-dark", DESK, "dark"),
            ("-phone", PHONE, "light"),
            ("-phone-dark", PHONE, "dark"),
        ] {
            self.browser.look_like(size, scheme);
            self.fits();
            self.browser.photograph(&format!("{name}{suffix}"));
        }
        self.browser.look_like(DESK, "light");
    }

    /// Waits until all of this is among the last changes.
    fn history_has(&self, parts: &[&str]) {
        within(&format!("{parts:?} among the last changes"), || {
            let shown = self.browser.run("return document.getElementById('recent').innerText");
            parts.iter().all(|part| shown.as_str().is_some_and(|text| text.contains(part))).then_some(())
        });
    }

    fn rows(&self) -> usize {
        let rows = self.browser.run("return document.querySelectorAll('.servers li:not(.head)').length");
        usize::try_from(rows.as_u64().expect("a number")).expect("few")
    }
}

#[test]
fn three_servers_and_what_happens_to_them() {
    let backends = Backends::new(3);
    let place = Place::new(&format!("{HEAD}{}", pool("web", 10, 300, &addresses(&backends, 0..3))));
    let page = open(&place);
    let text = page.browser.wait_for("3 of 3 servers up");
    for part in [
        "lvs1",
        "✔ quorum up",
        "tcp 192.0.2.10:80",
        "tcp 192.0.2.10:8080",
        "wrr",
        "http: HTTP 200",
        "● live",
        "Dry run",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    // Nothing is loaded anew from here on.
    page.browser.run("window.mark = 'the same page'");
    backends.die(1);
    let text = page.browser.wait_for("✖ DOWN");
    assert!(text.contains("2 of 3 servers up"), "{text}");
    page.browser.wait_for("connection refused");
    let down = backends.address(1).to_string();
    assert_eq!(
        place.ask(&format!("drain {} --reason the-kernel-update --for 2h", backends.address(2))).code,
        Some(0)
    );
    let text = page.browser.wait_for("‖ drained");
    page.browser.wait_for("the-kernel-update");
    assert!(text.contains("0/1"), "{text}");
    let changes = page.browser.run("return document.getElementById('recent').innerText");
    assert!(changes.as_str().expect("a text").contains(&down), "{changes}");
    assert_eq!(page.browser.run("return window.mark"), "the same page");
    page.photograph("three-servers");
    // The keyboard alone: / goes to the filter, Escape empties it.
    page.browser.press("/");
    page.browser.type_into("#filter", &down);
    within("one server", || (page.rows() == 1).then_some(()));
    page.browser.wait_for("1 server of 3");
    page.browser.type_into("#filter", "\u{e00c}");
    within("all servers", || (page.rows() == 3).then_some(()));
    page.is_clean();
}

/// A hundred servers in each of twenty pools.
pub(crate) fn two_thousand(backends: &Backends) -> String {
    let servers = addresses(backends, 0..100);
    // No two pools check at the same pace, so that no check is shared.
    let pools = (0..20).map(|n| pool(&format!("shop-{n}"), 10 + n, 4000 + 100 * n, &servers));
    format!("{HEAD}{}", pools.collect::<String>())
}

#[test]
fn two_thousand_servers() {
    let backends = Backends::new(100);
    let place = Place::new(&two_thousand(&backends));
    let page = open(&place);
    page.browser.wait_for("2,000 of 2,000 servers up");
    // Folded up: nothing is wrong, so no server has a row.
    assert_eq!(page.rows(), 0);
    page.browser.wait_for("Show 100 servers that are well");
    backends.die(42);
    page.browser.wait_for("1,980 of 2,000 servers up");
    assert_eq!(page.rows(), 20);
    page.photograph("two-thousand-servers");
    // All of one, one of all.
    page.browser.run("document.querySelector('section .more:not([hidden])').click()");
    within("the rows of one service", || (page.rows() == 119).then_some(()));
    page.browser.type_into("#filter", &format!("{}", backends.address(7)));
    page.browser.wait_for("20 servers of 2,000");
    assert_eq!(page.rows(), 20);
    page.browser.run("document.getElementById('filter').value = ''; document.getElementById('state').value = 'up'; document.getElementById('state').dispatchEvent(new Event('change'))");
    page.browser.wait_for("1,980 servers of 2,000");
    let bottom =
        "window.scrollTo(0, document.body.scrollHeight); return document.querySelectorAll('section').length";
    assert_eq!(page.browser.run(bottom), 21);
    page.fits();
    page.is_clean();
}

/// So must a director that takes itself for sick not be: what the page shows then is how things stood before.
#[test]
fn frozen_verdicts_are_shown_until_they_thaw() {
    let backends = Backends::new(2);
    let servers = pool("web", 10, 300, &addresses(&backends, 0..2));
    // Nobody can be there: not a host's address.
    let test = "[daemon.self_test]\ncanary = \"255.255.255.255:9\"\ncanary_interval = \"100ms\"\n";
    let place = Place::new(&format!("{HEAD}{servers}"));
    let page = open(&place);
    let text = page.browser.wait_for("2 of 2 servers up");
    assert!(!text.contains("VERDICTS FROZEN"), "{text}");
    place.configure(&format!("{HEAD}{test}{servers}"));
    assert_eq!(place.ask("reload").code, Some(0));
    let text = page.browser.wait_for("VERDICTS FROZEN");
    assert!(text.contains("no canary answers: 255.255.255.255:9: "), "{text}");
    let title = page.browser.run("return document.title");
    assert!(title.as_str().expect("a text").starts_with("✖ verdicts frozen"), "{title}");
    place.configure(&format!("{HEAD}{servers}"));
    assert_eq!(place.ask("reload").code, Some(0));
    within("it is gone", || (!page.browser.text().contains("VERDICTS FROZEN")).then_some(()));
    page.history_has(&["! FROZEN", "no canary answers", "✔ verdicts count", "results were set aside"]);
    page.is_clean();
}

/// A reload that waits to be confirmed must not be overlooked.
#[test]
fn a_trial_is_shown_until_it_is_over() {
    let backends = Backends::new(3);
    let with = |count| format!("{HEAD}{}", pool("web", 10, 300, &addresses(&backends, 0..count)));
    let place = Place::new(&with(2));
    let page = open(&place);
    let text = page.browser.wait_for("2 of 2 servers up");
    assert!(!text.contains("NOT CONFIRMED"), "{text}");
    place.configure(&with(3));
    assert_eq!(place.ask("reload --confirm 1h").code, Some(0));
    let text = page.browser.wait_for("NOT CONFIRMED");
    // Full a moment ago.
    let left = |time| text.contains(&format!("goes back unless lvsd confirm comes; {time}"));
    assert!(left("1h left") || left("59m"), "{text}");
    page.browser.wait_for("3 of 3 servers up");
    let title = page.browser.run("return document.title");
    assert!(title.as_str().expect("a text").starts_with("✖ not confirmed"), "{title}");
    assert_eq!(place.ask("confirm").code, Some(0));
    within("it is gone", || (!page.browser.text().contains("NOT CONFIRMED")).then_some(()));
    page.history_has(&[
        "⟳ reload",
        "1 added",
        "! trial",
        "unless `lvsd confirm` comes within 1h",
        "confirmed by",
    ]);
    place.configure("nonsense");
    assert_eq!(place.ask("reload").code, Some(78));
    page.history_has(&["✖ RELOAD REFUSED"]);
    page.is_clean();
}

/// Servers that are kept, verdicts that are frozen and a reload on trial: all that is unusual, at once, in
/// the banners, the rows and the history.
#[test]
fn what_is_kept_frozen_and_on_trial_is_shown() {
    let backends = Backends::new(3);
    let servers = pool("web", 10, 300, &addresses(&backends, 0..3));
    let guarded = servers.replace("scheduler =", "min_alive = 2\nscheduler =");
    let place = Place::new(&format!("{HEAD}{guarded}"));
    let page = open(&place);
    let text = page.browser.wait_for("3 of 3 servers up");
    assert!(!text.contains("KEPT"), "{text}");
    backends.die(0);
    page.browser.wait_for("2 of 3 servers up");
    backends.die(1);
    let text = page.browser.wait_for("DOWN, KEPT");
    for part in [
        "! 1 of them KEPT in the table",
        "! KEPT in the table although down: 1 server, by min_alive",
        "kept in the table by min_alive",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    page.history_has(&["! KEPT", "min_alive = 2 keeps servers in the table that have failed"]);
    let test = "[daemon.self_test]\ncanary = \"255.255.255.255:9\"\ncanary_interval = \"100ms\"\n";
    place.configure(&format!("{HEAD}{test}{guarded}"));
    assert_eq!(place.ask("reload --confirm 30m").code, Some(0));
    page.browser.wait_for("! NOT CONFIRMED");
    page.browser.wait_for("! VERDICTS FROZEN");
    page.history_has(&["! FROZEN", "! trial"]);
    page.photograph("kept-frozen-not-confirmed");
    // Nobody has to be kept any more.
    place.configure(&format!("{HEAD}{servers}"));
    assert_eq!(place.ask("reload").code, Some(0));
    page.history_has(&["✔ none kept"]);
    within("nobody is kept", || (!page.browser.text().contains("DOWN, KEPT")).then_some(()));
    page.is_clean();
}

#[test]
fn everything_is_down() {
    let backends = Backends::new(4);
    let (web, mail) = (addresses(&backends, 0..2), addresses(&backends, 2..4));
    let place = Place::new(&format!("{HEAD}{}{}", pool("web", 10, 300, &web), pool("mail", 11, 300, &mail)));
    let page = open(&place);
    page.browser.wait_for("4 of 4 servers up");
    (0..4).for_each(|number| backends.die(number));
    let text = page.browser.wait_for("✖ 2 WITHOUT QUORUM");
    page.browser.wait_for("✖ 4 DOWN");
    assert!(text.contains("✖ QUORUM DOWN"), "{text}");
    let title = page.browser.run("return document.title");
    assert!(title.as_str().expect("a text").starts_with("✖ 2 without quorum, 4 down"), "{title}");
    page.photograph("everything-down");
    page.is_clean();
}

#[test]
fn what_a_server_says_stays_text() {
    const HOSTILE: &str = "<img src=x onerror=\"window.broken=1\"></span><script>window.broken=2</script>&lt;b&gt;\u{202e}{{7*7}}";
    let backends = Backends::new(1);
    backends.says(0, HOSTILE);
    let place = Place::new(&format!("{HEAD}{}", pool("<b>web</b>", 10, 300, &addresses(&backends, 0..1))));
    let page = open(&place);
    let text = page.browser.wait_for("<img src=x onerror");
    assert!(text.contains("<b>web</b>") && text.contains("<script>window.broken=2</script>"), "{text}");
    let address = backends.address(0);
    assert_eq!(place.ask(&format!("drain {address} --reason <svg/onload=window.broken=3>")).code, Some(0));
    page.browser.wait_for("<svg/onload=window.broken=3>");
    assert_eq!(page.browser.run("return window.broken === undefined"), true);
    let markup =
        page.browser.run("return document.querySelectorAll('img, svg, b b, #content script, h2 b').length");
    assert_eq!(markup, 0);
    // And what the policy is there for: even a script that got in would not run.
    page.browser.run("const s = document.createElement('script'); s.textContent = 'window.broken = 4'; document.body.append(s)");
    assert_eq!(page.browser.run("return window.broken === undefined"), true);
    assert!(page.browser.complaints().iter().any(|c| c.contains("Content Security Policy")));
}

#[test]
fn without_javascript_there_is_the_table() {
    let backends = Backends::new(2);
    let place = Place::new(&format!("{HEAD}{}", pool("web", 10, 300, &addresses(&backends, 0..2))));
    let page = open(&place);
    page.browser.wait_for("2 of 2 servers up");
    page.browser.chrome("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
    page.browser.open(&page.url);
    within("the frame asks for the table", || {
        page.browser.requests().iter().any(|request| request.ends_with("/status.txt")).then_some(())
    });
    page.browser.photograph("without-javascript");
    assert!(page.browser.complaints().is_empty());
}

/// The daemon goes and comes: the page says so, and shows everything anew.
#[test]
fn a_daemon_that_is_gone_is_said_so() {
    let backends = Backends::new(2);
    let place = Place::new(&format!("{HEAD}{}", pool("web", 10, 300, &addresses(&backends, 0..2))));
    let Opened { browser, _daemon: daemon, .. } = open(&place);
    browser.wait_for("● live");
    drop(daemon);
    browser.wait_for("no connection since");
    assert!(browser.text().contains("2 of 2 servers up"));
}
