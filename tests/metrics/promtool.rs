//! Prometheus's own checker, as Debian packages it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where `tests/lab/install unit` puts it.
fn program() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = folder("LVSD_LAB_CACHE")
        .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("lvsd-lab")))
        .unwrap_or_else(|| folder("HOME").unwrap_or_else(|| "/root".into()).join(".cache/lvsd-lab"));
    let program = cache.join("tools/bin/promtool");
    assert!(program.exists(), "{} is not there: run tests/lab/install unit", program.display());
    program
}

/// Runs it with this on its standard input; it must succeed and, where it lints, say nothing.
pub(crate) fn promtool(folder: &Path, words: &str, input: &str) -> String {
    let mut command = Command::new(program());
    command.args(words.split_whitespace()).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it is there");
    // What it does not read it does not want.
    drop(child.stdin.take().expect("a pipe").write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("a child");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
    assert!(output.status.success(), "promtool {words}: {}\n{}", said.concat(), input);
    said.concat()
}
