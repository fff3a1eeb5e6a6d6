//! Where a bracket was opened that nothing closes. The parser only knows where it ran out of text.

use std::ops::Range;

/// The innermost one that is open when another kind is closed, or when the text ends.
pub(super) fn opening(text: &str) -> Option<Range<usize>> {
    let mut open: Vec<(usize, u8)> = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut line_is_blank = true;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'#' => {
                at = line_end(bytes, at);
                continue;
            }
            b'"' | b'\'' => {
                at = string_end(bytes, at, *byte);
                line_is_blank = false;
                continue;
            }
            // A table's header, not a value.
            b'[' if open.is_empty() && line_is_blank => {
                at = line_end(bytes, at);
                continue;
            }
            b'[' => open.push((at, b']')),
            b'{' => open.push((at, b'}')),
            b']' | b'}' => match open.pop() {
                Some((_, wanted)) if wanted == *byte => {}
                Some((opening, _)) => return Some(opening..opening + 1),
                None => {}
            },
            _ => {}
        }
        line_is_blank = *byte == b'\n' || line_is_blank && byte.is_ascii_whitespace();
        at += 1;
    }
    open.pop().map(|(opening, _)| opening..opening + 1)
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())
}

/// Behind the string that begins at `from`; one that is not closed ends with its line.
fn string_end(bytes: &[u8], from: usize, quote: u8) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    let long = rest.starts_with(&[quote; 3]);
    let mut at = if long { 3 } else { 1 };
    while let Some(byte) = rest.get(at) {
        match byte {
            b'\\' if quote == b'"' => at += 1,
            b'\n' if !long => return from + at,
            _ if long && rest.get(at..).is_some_and(|rest| rest.starts_with(&[quote; 3])) => {
                return from + at + 3;
            }
            _ if !long && *byte == quote => return from + at + 1,
            _ => {}
        }
        at += 1;
    }
    from + rest.len()
}

#[cfg(test)]
mod tests {
    use super::opening;

    #[test]
    fn the_innermost_open_bracket_is_found() {
        let cases = [
            ("a = [1, 2", Some(4)),
            ("a = [1, 2]", None),
            ("a = [[1], 2", Some(4)),
            ("a = [{ b = 1 ]\nc = 2", Some(5)),
            ("[t]\na = { b = '}' # }\n[u]\n", Some(8)),
            ("[[t]]\na = [\n  'x', # [\n]\n", None),
            ("a = \"[\\\"[\"\nb = '''\n[ ''' \nc = [", Some(30)),
            ("a = \"[\nb = 1", None),
            ("a = ]\nb = [", Some(10)),
            ("ä = [", Some(5)),
        ];
        for (text, expected) in cases {
            assert_eq!(opening(text).map(|range| range.start), expected, "{text:?}");
        }
    }
}
