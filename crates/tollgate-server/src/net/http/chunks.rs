//! Follows a body in chunks to its end, and takes nothing that could be read in two ways.

/// Digits of a chunk's size; more than any chunk is long.
const MOST_DIGITS: u8 = 15;
/// Bytes of a chunk's extension, and of what comes after the body.
const MOST_ASIDE: u32 = 8 << 10;

/// How far a body in chunks has come.
#[derive(Debug)]
pub(super) struct Chunks {
    part: Part,
    /// Bytes of extensions and fields so far.
    aside: u32,
}

#[derive(Clone, Copy, Debug)]
enum Part {
    Size {
        digits: u8,
        size: u64,
    },
    Extension {
        size: u64,
    },
    /// After the CR of the line of a size.
    SizeEnd {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataCr,
    DataLf,
    /// After the last chunk: at the start of a line, or within one.
    Fields {
        at_start: bool,
    },
    /// After a CR there.
    FieldsLf {
        at_start: bool,
    },
}

impl Chunks {
    pub(super) fn new() -> Chunks {
        Chunks { part: Part::Size { digits: 0, size: 0 }, aside: 0 }
    }

    /// Looks at bytes of the body; what comes after its end, once it is there. What could be read
    /// in two ways is an error, with how many bytes there are from there on.
    pub(super) fn look<'b>(&mut self, mut bytes: &'b [u8]) -> Result<Option<&'b [u8]>, usize> {
        while let Some((&byte, rest)) = bytes.split_first() {
            if let Part::Data { left } = &mut self.part {
                let here = (bytes.len() as u64).min(*left);
                *left -= here;
                bytes = &bytes[here as usize..];
                if *left == 0 {
                    self.part = Part::DataCr;
                }
                continue;
            }
            let wrong = bytes.len();
            bytes = rest;
            self.part = match (self.part, byte) {
                (Part::Size { digits, size }, _) if byte.is_ascii_hexdigit() => {
                    let digit = char::from(byte).to_digit(16).unwrap_or_default();
                    if digits == MOST_DIGITS {
                        return Err(wrong);
                    }
                    Part::Size { digits: digits + 1, size: size * 16 + u64::from(digit) }
                }
                (Part::Size { digits: 1.., size }, b'\r') => Part::SizeEnd { size },
                (Part::Size { digits: 1.., size }, b';') => Part::Extension { size },
                (Part::Extension { size }, b'\r') => Part::SizeEnd { size },
                (Part::Extension { size }, 0x20..=0x7e | b'\t' | 0x80..) => {
                    self.beside().ok_or(wrong)?;
                    Part::Extension { size }
                }
                (Part::SizeEnd { size: 0 }, b'\n') => Part::Fields { at_start: true },
                (Part::SizeEnd { size }, b'\n') => Part::Data { left: size },
                (Part::DataCr, b'\r') => Part::DataLf,
                (Part::DataLf, b'\n') => Part::Size { digits: 0, size: 0 },
                (Part::Fields { at_start }, b'\r') => Part::FieldsLf { at_start },
                // A field that goes on from the line before.
                (Part::Fields { at_start: true }, b' ' | b'\t') => return Err(wrong),
                (Part::Fields { .. }, 0x20..=0x7e | b'\t' | 0x80..) => {
                    self.beside().ok_or(wrong)?;
                    Part::Fields { at_start: false }
                }
                (Part::FieldsLf { at_start: true }, b'\n') => return Ok(Some(bytes)),
                (Part::FieldsLf { at_start: false }, b'\n') => Part::Fields { at_start: true },
                _ => return Err(wrong),
            };
        }
        Ok(None)
    }

    fn beside(&mut self) -> Option<()> {
        self.aside += 1;
        (self.aside <= MOST_ASIDE).then_some(())
    }
}
