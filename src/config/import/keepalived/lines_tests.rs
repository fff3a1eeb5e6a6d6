//! What keepalived's parser would see of a file.

use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Files in memory; a pattern matches by its last star.
struct Files(BTreeMap<&'static str, &'static str>, Cell<usize>);

impl Reader for Files {
    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        self.1.set(self.1.get() + 1);
        let path = path.display().to_string();
        self.0.get(path.as_str()).map(|text| text.as_bytes().to_vec()).ok_or("no such file".to_owned())
    }

    fn matching(&self, pattern: &Path) -> Result<Vec<PathBuf>, String> {
        let pattern = pattern.display().to_string();
        let Some((head, tail)) = pattern.split_once('*') else { return Ok(vec![pattern.into()]) };
        Ok(self
            .0
            .keys()
            .filter(|path| path.starts_with(head) && path.ends_with(tail))
            .map(PathBuf::from)
            .collect())
    }
}

fn read(text: &str, id: Option<&str>, files: &[(&'static str, &'static str)]) -> (Vec<String>, Vec<String>) {
    let mut notes = Notes::default();
    let files = Files(files.iter().copied().collect(), Cell::default());
    let mut lines = Lines::new(Path::new("/etc/k/k.conf"), "k.conf".to_owned(), text, id, &files, &mut notes);
    let mut all = Vec::new();
    while let Some(line) = lines.next_line() {
        all.push(format!("{}:{}", line.at.line, line.text));
    }
    assert!(files.1.get() <= 4_096, "{} files were read", files.1.get());
    (all, notes.into_sorted().iter().map(ToString::to_string).collect())
}

fn lines(text: &str) -> Vec<String> {
    let (lines, notes) = read(text, Some("lb1"), &[]);
    assert!(notes.is_empty(), "{notes:?}");
    lines
}

#[test]
fn comments() {
    assert_eq!(lines("# a\n! b\n  c # d\ne ! f\n"), ["3:c", "4:e"]);
    assert_eq!(lines("a \\# b \\! c\n"), ["1:a # b ! c"]);
    assert_eq!(lines("a \"# !\" b # c\r\n"), ["1:a \"# !\" b"]);
}

#[test]
fn braces_stand_alone() {
    assert_eq!(lines("a { b } c {\n}\n"), ["1:a", "1:{", "1:b", "1:}", "1:c", "1:{", "2:}"]);
    assert_eq!(lines("a \"{ }\" {\n"), ["1:a \"{ }\"", "1:{"]);
}

#[test]
fn conditions() {
    assert_eq!(lines("@lb1 a\n@lb2 b\n@^lb1 c\n@^lb2 d\n@lb1\n"), ["1:a", "4:d"]);
    let (kept, notes) = read("@lb1 a\n@^lb1 b\n", None, &[]);
    assert_eq!(kept, ["2:b"]);
    assert_eq!(notes.len(), 1, "{notes:?}");
}

#[test]
fn definitions() {
    assert_eq!(lines("$A=1 2\n$B=${A} 3\nx $B\n$A=4\nx $A\n"), ["3:x 1 2 3", "5:x 4"]);
    assert_eq!(lines("$M=a \\\n  b {\\\n@lb2 c \\\n@lb1 d\nx\n$M\n"), ["5:x", "6:a", "6:b", "6:{", "6:d"]);
    assert_eq!(lines("$IN=1 \\\n2\n$OUT=a \\\n$IN \\\nb\n$OUT\n"), ["6:a", "6:1", "6:2", "6:b"]);
    assert_eq!(lines("x ${_PWD}/y\n"), ["1:x /etc/k/y"]);
}

#[test]
fn sequences() {
    assert_eq!(lines("~SEQ(n, 2) a $n\n"), ["1:a 1", "1:a 2"]);
    assert_eq!(lines("~SEQ(n, 2) ~LST(m, x, y) ${n}${m}\n"), ["1:1x", "1:1y", "1:2x", "1:2y"]);
    // A name without braces ends at a blank, not at the next name.
    assert_eq!(lines("~SEQ(n, 1) ~LST(m, x) $n$m\n"), ["1:$nx"]);
    assert_eq!(lines("$T=~SEQ(n, 2) a $n\n$T\n"), ["2:a 1", "2:a 2"]);
    let (kept, notes) = read("~SEQ(n) a\nb\n", None, &[]);
    assert_eq!((kept, notes.len()), (vec!["2:b".to_owned()], 1));
}

#[test]
fn includes() {
    let files =
        [("/etc/k/d/a.conf", "a\ninclude b.inc\n"), ("/etc/k/d/b.inc", "b"), ("/etc/k/d/c.conf", "c")];
    let (kept, notes) = read("1\ninclude d/*.conf\nincludea /etc/k/d/{b.inc,x}\n2\n", None, &files);
    assert_eq!(kept, ["1:1", "1:a", "1:b", "1:c", "1:b", "4:2"]);
    assert_eq!(notes, ["k.conf:3: includea: not carried: cannot read /etc/k/d/x: no such file"]);
}

#[test]
fn bombs_are_bounded() {
    let twice = [("/etc/k/k.conf", "include k.conf\ninclude k.conf\n")];
    let (_, notes) = read("include k.conf\n", None, &twice);
    assert!(notes.iter().any(|note| note.contains("deep") || note.contains("more than")), "{notes:?}");
    // Comments count for no line, so that the bound on lines alone would come late.
    let files = [
        ("/etc/k/k.conf", "# 1\n# 2\ninclude /etc/k/*.conf\ninclude /etc/k/*.conf\n"),
        ("/etc/k/l.conf", "include k.conf\n"),
    ];
    let (_, notes) = read("include k.conf\ninclude l.conf\n", None, &files);
    assert!(notes.iter().any(|note| note.contains("4096")), "{notes:?}");
    let (kept, notes) = read("~SEQ(a, 1, 1000000000000) ~SEQ(b, 1, 1000000000000) x $a $b\n", None, &[]);
    assert!(kept.len() <= MAX_LINES && notes.iter().any(|note| note.contains("lines")), "{}", kept.len());
    let (_, notes) = read("$A=$B\n$B=$A\n$A\n", None, &[]);
    assert_eq!(notes.len(), 1, "{notes:?}");
    let long = format!("a\n{}\nb\n", "x".repeat(5_000));
    assert_eq!(read(&long, None, &[]).1.len(), 1);
    assert_eq!(read("a\0b\nc\n", None, &[]).0, ["2:c"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn nothing_panics(text in "([ -~]|\\PC|[$@~{}\\\\\"\n(),=AB12]|SEQ|LST|include |\\$A|\\$\\{A\\}){0,80}") {
        read(&text, Some("A"), &[("/etc/k/A", "$A\n")]);
    }
}
