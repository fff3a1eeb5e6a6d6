//! The table of `lvsd status` on a terminal: lines that fit, and colours. Colours only repeat what the words
//! say: whoever does not see them misses nothing.

use unicode_width::UnicodeWidthStr as _;

/// What a terminal is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    pub columns: usize,
    pub colours: Colours,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    On,
    Off,
}

const RED: &str = "1;31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const BOLD: &str = "1";
const DIM: &str = "2";
/// Of a remark's lines.
const REMARK: &str = "        ";

/// States in the order in which they are looked for: the longer ones first. Those in capitals ask for the
/// operator's eye.
const STATES: [(&str, &str); 13] = [
    ("QUORUM DOWN", RED),
    ("quorum up", GREEN),
    ("NOT AS WANTED", RED),
    ("NOT CONFIRMED", RED),
    ("VERDICTS FROZEN", RED),
    ("NOT INSTALLED", RED),
    ("DOWN", RED),
    ("SERVING", YELLOW),
    ("not active", YELLOW),
    ("standby", YELLOW),
    ("drained", YELLOW),
    ("disabled", YELLOW),
    ("up", GREEN),
];

/// Without a line break at its end.
pub fn fit(table: &str, terminal: Terminal) -> String {
    let line = |line: &str| paint(&cut(line, terminal.columns), terminal.colours);
    table.lines().map(line).collect::<Vec<String>>().join("\n")
}

/// To this many columns. A character takes two of them, or one, or none, or changes what the one before it takes.
pub fn cut(line: &str, columns: usize) -> String {
    if line.width() <= columns {
        return line.to_owned();
    }
    let ends = line.char_indices().map(|(at, c)| at + c.len_utf8());
    let parts = ends.filter_map(|end| line.get(..end));
    let fitting = parts.take_while(|part| part.width() < columns).last();
    fitting.unwrap_or_default().to_owned() + "…"
}

fn paint(line: &str, colours: Colours) -> String {
    if colours == Colours::Off || line.is_empty() {
        return line.to_owned();
    }
    if line.starts_with(REMARK) {
        return coloured(line, DIM);
    }
    // A name or an address comes first; no state is looked for in it.
    let indent = line.len() - line.trim_start().len();
    let first = line.get(indent..).and_then(|rest| rest.find(' ')).map_or(line.len(), |end| indent + end);
    let is_title = indent == 0;
    let (start, from) = if line.get(indent..).is_some_and(|rest| rest.starts_with("NOT ")) {
        (String::new(), 0)
    } else {
        let name = line.get(..first).unwrap_or(line);
        (if is_title { coloured(name, BOLD) } else { name.to_owned() }, first)
    };
    let rest = line.get(from..).unwrap_or_default();
    start + &states(rest)
}

/// The first state in a line, coloured with what belongs to it.
fn states(text: &str) -> String {
    let found = STATES.iter().find_map(|(word, colour)| Some((find_word(text, word)?, word.len(), *colour)));
    let Some((at, length, colour)) = found else { return text.to_owned() };
    let (before, rest) = text.split_at(at);
    let (word, after) = rest.split_at(length);
    format!("{before}{}{after}", coloured(word, colour))
}

fn find_word(text: &str, word: &str) -> Option<usize> {
    let is_end = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    text.match_indices(word)
        .find(|(at, _)| {
            let (before, rest) = text.split_at(*at);
            is_end(before.chars().next_back()) && is_end(rest.chars().nth(word.chars().count()))
        })
        .map(|(at, _)| at)
}

fn coloured(text: &str, colour: &str) -> String {
    format!("\u{1b}[{colour}m{text}\u{1b}[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "web  wrr  QUORUM DOWN for 1m, weight 1, gained at 3
  tcp 192.0.2.10:80
  NOT AS WANTED in the kernel: tcp 192.0.2.10:80
  real server        state          for  weight  connections
  198.51.100.11:80   DOWN, drained   1m       1  0 active, 0 inactive
        http: status 503 is up (3 failed)

up  rr  quorum up for 0s";

    #[test]
    fn colours_repeat_what_the_words_say() {
        let on = fit(TABLE, Terminal { columns: 80, colours: Colours::On });
        let shown = on.replace('\u{1b}', "^");
        assert_eq!(
            shown.lines().collect::<Vec<_>>(),
            [
                "^[1mweb^[0m  wrr  ^[1;31mQUORUM DOWN^[0m for 1m, weight 1, gained at 3",
                "  tcp 192.0.2.10:80",
                "  ^[1;31mNOT AS WANTED^[0m in the kernel: tcp 192.0.2.10:80",
                "  real server        state          for  weight  connections",
                "  198.51.100.11:80   ^[1;31mDOWN^[0m, drained   1m       1  0 active, 0 inactive",
                "^[2m        http: status 503 is up (3 failed)^[0m",
                "",
                "^[1mup^[0m  rr  ^[32mquorum up^[0m for 0s",
            ]
        );
        let off = fit(TABLE, Terminal { columns: 80, colours: Colours::Off });
        assert_eq!(off, TABLE);
    }

    #[test]
    fn lines_fit_whatever_the_width() {
        for columns in 0..90 {
            let table = fit(TABLE, Terminal { columns, colours: Colours::Off });
            assert!(table.lines().all(|line| line.width() <= columns.max(1)), "{columns}: {table}");
        }
        assert_eq!(fit("äöüß", Terminal { columns: 3, colours: Colours::Off }), "äö…");
    }

    /// What takes two columns, what takes none, and sequences that are one picture.
    #[test]
    fn wide_characters_count_as_what_they_take() {
        let off = |columns| Terminal { columns, colours: Colours::Off };
        assert_eq!(fit("网页服务", off(8)), "网页服务");
        assert_eq!(fit("网页服务", off(7)), "网页服…");
        assert_eq!(fit("网页服务", off(6)), "网页…");
        assert_eq!(fit("a\u{301}b\u{301}c", off(3)), "a\u{301}b\u{301}c");
        let lines = ["网页 web 🔥🔥 down", "👩‍👩‍👧‍👦 🇩🇪 ✈️ e\u{301}e\u{301}", "ｆｕｌｌ ﾊﾝｶｸ 한글"];
        for (line, columns) in lines.iter().flat_map(|line| (1..40).map(move |columns| (line, columns))) {
            let shown = fit(line, off(columns));
            assert!(shown.width() <= columns, "{columns}: {shown}");
            assert_eq!(shown == *line, line.width() <= columns, "{columns}: {shown}");
        }
    }
}
