//! The chunked transfer coding (RFC 9112 section 7.1), taken off without I/O.
//!
//! Trailers are not read: the body is complete without them, and the connection is not used
//! again. Lines may end in a bare LF, as those of some hand-written servers do.

use super::reply::{Malformed, take_front};

/// Bytes of a chunk's size and extensions.
const LINE_LIMIT: u16 = 4096;

#[derive(Debug, Default)]
pub(super) struct Chunked {
    step: Step,
    /// Of the present chunk: as read so far, then what is left of it.
    size: u64,
    /// Bytes of the present size line.
    line: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// Before the first digit of a size.
    #[default]
    Size,
    Digits,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Complete,
}

impl Chunked {
    /// The next part of the body, or `None` when the input is used up or the body complete.
    pub(super) fn advance<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
        while !input.is_empty() && self.step != Step::Complete {
            if self.step == Step::Data {
                let part = take_front(input, usize::try_from(self.size).unwrap_or(usize::MAX));
                self.size -= part.len() as u64;
                if self.size == 0 {
                    self.step = Step::DataCr;
                }
                return Ok(Some(part));
            }
            for byte in take_front(input, 1) {
                self.step = self.framing(*byte)?;
            }
        }
        Ok(None)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.step == Step::Complete
    }

    fn framing(&mut self, byte: u8) -> Result<Step, Malformed> {
        self.line += 1;
        if self.line > LINE_LIMIT {
            return Err(Malformed::Chunk);
        }
        let step = match (self.step, byte) {
            (Step::Size | Step::Digits, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                let size = self.size.checked_mul(16).and_then(|size| size.checked_add(digit));
                self.size = size.ok_or(Malformed::Chunk)?;
                Step::Digits
            }
            (Step::Digits | Step::Extension | Step::SizeLf, b'\n') => self.size_read(),
            (Step::Digits, b'\r') => Step::SizeLf,
            (Step::Digits, b';' | b' ' | b'\t') | (Step::Extension, _) => Step::Extension,
            (Step::DataCr, b'\r') => Step::DataLf,
            (Step::DataCr | Step::DataLf, b'\n') => {
                self.line = 0;
                Step::Size
            }
            (
                Step::Size
                | Step::Digits
                | Step::SizeLf
                | Step::Data
                | Step::DataCr
                | Step::DataLf
                | Step::Complete,
                _,
            ) => return Err(Malformed::Chunk),
        };
        Ok(step)
    }

    fn size_read(&mut self) -> Step {
        self.line = 0;
        if self.size == 0 { Step::Complete } else { Step::Data }
    }
}
