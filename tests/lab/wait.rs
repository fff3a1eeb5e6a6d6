//! Waiting with a deadline, and running a program that must succeed.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long anything in the lab may take that should happen at once. Generous, since a guest
/// shares two processors with whatever else the machine does; no test measures speed with it.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Asks again and again until there is an answer, at most for `limit`.
pub(crate) fn within<T>(limit: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        pause(Duration::from_millis(50));
    }
}

/// As [`within`], with the usual limit and a plain condition.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    within(SOON, what, || condition().then_some(()));
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where tests pause: between two looks, or to let time pass"
)]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// What a program that must succeed prints.
pub(crate) fn output(command: &mut Command) -> String {
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a program that must succeed, with this as its standard input.
pub(crate) fn feed(command: &mut Command, input: &str) {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    let Output { status, stderr, .. } = child.wait_with_output().expect("a child can be waited for");
    let complaint = String::from_utf8_lossy(&stderr);
    assert!(
        status.success() && matches!(written, Some(Ok(()))),
        "{command:?}: {status}: {complaint}\n{input}"
    );
}
