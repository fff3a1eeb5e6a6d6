//! The parts that do no I/O, as data.

mod body;
mod reply;

/// `bytes` in pieces of these sizes, over and over.
fn split<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    for cut in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at((*cut).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}
