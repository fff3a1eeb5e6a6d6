//! How fast the page is with two thousand servers, by the browser's own clock, and what ten open pages cost the
//! checks. Prints figures; asserts what must be there, never how fast.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::backends::Backends;
use crate::driver::Browser;
use crate::page::{two_thousand, url};
use crate::support::{Place, within};
use crate::viewers::{late, metric, view};

const PAGES: usize = 10;

/// Milliseconds from the start of the navigation.
const PAINT: &str = "const of = (name) => Math.round(performance.getEntriesByName(name)[0]?.startTime ?? -1); \
    const way = performance.getEntriesByType('navigation')[0]; \
    return { first_paint: of('first-paint'), contentful: of('first-contentful-paint'), loaded: Math.round(way.loadEventEnd), \
    bytes: way.transferSize, elements: document.querySelectorAll('*').length, \
    heap_mb: Math.round(performance.memory.usedJSHeapSize / 1e6) }";

/// Frames while the page is scrolled from its top to its end in 120 steps: how long each took.
const SCROLL: &str = "return new Promise((done) => { \
    const times = []; let last = performance.now(), step = 0; const all = document.body.scrollHeight; \
    function frame(now) { times.push(now - last); last = now; step += 1; \
      if (step > 120) { times.sort((a, b) => a - b); \
        done({ height: all, median: times[60], worst: times[120] }); return; } \
      window.scrollTo(0, all * step / 120); requestAnimationFrame(frame); } \
    requestAnimationFrame(frame); })";

/// From a key in the filter to the frame that shows what it leaves; the page itself waits for more keys at first.
const FILTER: &str = "return new Promise((done) => { \
    const began = performance.now(); const filter = document.getElementById('filter'); \
    filter.value = FILTERED; document.getElementById('search').dispatchEvent(new Event('submit', { cancelable: true })); \
    const script = performance.now() - began; \
    requestAnimationFrame(() => setTimeout(() => done({ script, shown: performance.now() - began, \
      rows: document.querySelectorAll('.servers li:not(.head)').length }))); })";

fn filter(browser: &Browser, text: &str) -> Value {
    browser.run(&FILTER.replace("FILTERED", &format!("{text:?}")))
}

#[test]
fn figures_of_two_thousand_servers() {
    let backends = Backends::new(100);
    let place = Place::new(&two_thousand(&backends));
    let daemon = place.start();
    let runs = || metric(&daemon, "lvsd_check_lateness_seconds_count");
    let sum = || metric(&daemon, "lvsd_check_lateness_seconds_sum");
    within("all have run", || (runs() >= 2000.0).then_some(()));
    let (sum_first, first, late_first) = (sum(), runs(), late(&daemon));
    within("checks without a page", || (runs() >= first + 3000.0).then_some(()));
    let (sum_alone, alone) = (sum(), runs());
    println!("mean lateness without a page: {:.6} s", (sum_alone - sum_first) / (alone - first));
    let browser = Browser::start();
    browser.look_like((1280, 900), "light");
    browser.open(&url(&place));
    browser.wait_for("2,000 of 2,000 servers up");
    println!("opened: {}", browser.run(PAINT));
    // Everything unfolded: the most that the page ever draws at once.
    browser
        .run("document.querySelectorAll('section .more:not([hidden])').forEach((button) => button.click())");
    within("all rows", || {
        (browser.run("return document.querySelectorAll('.servers li:not(.head)').length") == 2000)
            .then_some(())
    });
    println!("unfolded: {}", browser.run(PAINT));
    println!("scrolled, ms per frame: {}", browser.run(SCROLL));
    let one = filter(&browser, &backends.address(7).to_string());
    println!("filtered to one address, ms: {one}");
    assert_eq!(one["rows"], 20);
    let none = filter(&browser, "nobody-has-this");
    println!("filtered to nothing, ms: {none}");
    assert_eq!(none["rows"], 0);
    let all = filter(&browser, "");
    println!("and back to all, ms: {all}");
    assert_eq!(all["rows"], 2000);
    // The others speak as the page does: one browser has six connections to a server at the most.
    let changes = Arc::new(AtomicUsize::new(0));
    let address = url(&place).trim_start_matches("http://").to_owned();
    let others: Vec<_> = (1..PAGES).map(|_| view(&address, &changes)).collect();
    within("all see changes", || (changes.load(Ordering::Relaxed) >= 2 * PAGES).then_some(()));
    let (sum_with, with) = (sum(), runs());
    within("checks with ten pages", || (runs() >= with + 3000.0).then_some(()));
    println!("mean lateness with {PAGES} pages: {:.6} s", (sum() - sum_with) / (runs() - with));
    println!("later than readiness allows: {} checks", late(&daemon) - late_first);
    within("the daemon is ready with all of them open", || (daemon.page("/readyz").0 == 200).then_some(()));
    drop(daemon);
    others.into_iter().for_each(|other| other.join().expect("it ends with the daemon"));
}
