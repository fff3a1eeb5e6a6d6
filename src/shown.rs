//! What of a text from outside may be shown to a person as it is, on a terminal or in a log. Pure.

use std::fmt::Write as _;

/// The same document for a program, and harmless where a person reads it: what must not be shown is
/// written as an escape.
pub(crate) fn plain_json(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    for c in json.chars() {
        // JSON itself uses line breaks and nothing else of these, but in its strings.
        if c == '\n' || !moves_others(c) {
            plain.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(plain, "\\u{unit:04x}");
            }
        }
    }
    plain
}

/// Controls, and the characters of Unicode that have no picture: marks that change the direction of the
/// text around them (UAX 9), line and paragraph separators, spaces without width, tags.
pub(crate) fn moves_others(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Details come from servers and reasons from operators: nothing of them may reach a terminal as a
/// control sequence, nor move, hide or turn round what stands beside it.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if moves_others(c) { '?' } else { c }).collect()
}
