//! A strict scanner of chunked bodies, which accepts nothing that could be read in two ways.

/// The maximum number of digits of a chunk size, more than any real chunk needs.
const MAX_SIZE_DIGITS: u8 = 15;
/// The maximum number of bytes of chunk extensions and trailers together.
const MAX_OVERHEAD_BYTES: u32 = 8 << 10;

/// The position inside a chunked body.
#[derive(Debug)]
pub(super) struct ChunkedBody {
    position: ChunkPosition,
    /// The number of bytes of extensions and trailers so far.
    overhead_bytes: u32,
}

/// The syntax element that the next byte belongs to.
#[derive(Clone, Copy, Debug)]
enum ChunkPosition {
    Size {
        digits: u8,
        size: u64,
    },
    Extension {
        size: u64,
    },
    /// After the CR of a size line.
    SizeEnd {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataCr,
    DataLf,
    /// In the trailers: at the start of a line, or within one.
    Trailers {
        at_start: bool,
    },
    /// After a CR in the trailers.
    TrailersLf {
        at_start: bool,
    },
}

impl ChunkedBody {
    pub(super) fn new() -> ChunkedBody {
        ChunkedBody { position: ChunkPosition::Size { digits: 0, size: 0 }, overhead_bytes: 0 }
    }

    /// Scans bytes of the body; returns the bytes after its end, once that is reached.
    ///
    /// The error is the number of bytes from the first one that could be read in two ways.
    pub(super) fn scan<'b>(&mut self, mut bytes: &'b [u8]) -> Result<Option<&'b [u8]>, usize> {
        while let Some((&byte, rest)) = bytes.split_first() {
            if let ChunkPosition::Data { left } = &mut self.position {
                let here = (bytes.len() as u64).min(*left);
                *left -= here;
                bytes = &bytes[here as usize..];
                if *left == 0 {
                    self.position = ChunkPosition::DataCr;
                }
                continue;
            }
            let ambiguous = bytes.len();
            bytes = rest;
            self.position = match (self.position, byte) {
                (ChunkPosition::Size { digits, size }, _) if byte.is_ascii_hexdigit() => {
                    let digit = char::from(byte).to_digit(16).unwrap_or_default();
                    if digits == MAX_SIZE_DIGITS {
                        return Err(ambiguous);
                    }
                    ChunkPosition::Size { digits: digits + 1, size: size * 16 + u64::from(digit) }
                }
                (ChunkPosition::Size { digits: 1.., size }, b'\r') => {
                    ChunkPosition::SizeEnd { size }
                }
                (ChunkPosition::Size { digits: 1.., size }, b';') => {
                    ChunkPosition::Extension { size }
                }
                (ChunkPosition::Extension { size }, b'\r') => ChunkPosition::SizeEnd { size },
                (ChunkPosition::Extension { size }, 0x20..=0x7e | b'\t' | 0x80..) => {
                    self.count_overhead().ok_or(ambiguous)?;
                    ChunkPosition::Extension { size }
                }
                (ChunkPosition::SizeEnd { size: 0 }, b'\n') => {
                    ChunkPosition::Trailers { at_start: true }
                }
                (ChunkPosition::SizeEnd { size }, b'\n') => ChunkPosition::Data { left: size },
                (ChunkPosition::DataCr, b'\r') => ChunkPosition::DataLf,
                (ChunkPosition::DataLf, b'\n') => ChunkPosition::Size { digits: 0, size: 0 },
                (ChunkPosition::Trailers { at_start }, b'\r') => {
                    ChunkPosition::TrailersLf { at_start }
                }
                // A trailer that continues the previous line.
                (ChunkPosition::Trailers { at_start: true }, b' ' | b'\t') => {
                    return Err(ambiguous);
                }
                (ChunkPosition::Trailers { .. }, 0x20..=0x7e | b'\t' | 0x80..) => {
                    self.count_overhead().ok_or(ambiguous)?;
                    ChunkPosition::Trailers { at_start: false }
                }
                (ChunkPosition::TrailersLf { at_start: true }, b'\n') => return Ok(Some(bytes)),
                (ChunkPosition::TrailersLf { at_start: false }, b'\n') => {
                    ChunkPosition::Trailers { at_start: true }
                }
                _ => return Err(ambiguous),
            };
        }
        Ok(None)
    }

    fn count_overhead(&mut self) -> Option<()> {
        self.overhead_bytes += 1;
        (self.overhead_bytes <= MAX_OVERHEAD_BYTES).then_some(())
    }
}
