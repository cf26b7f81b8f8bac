//! Reading commands: arrays of byte strings, or lines that people type.
//!
//! Nothing is copied: a command is the places of its arguments in the bytes as they came. Reading
//! goes on where it stopped, so a command that comes one byte at a time costs no more than one
//! that comes at once, and no length that a client announces makes anything grow.

use super::inline;

/// What may come as one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Arguments, the command's name among them.
    pub(crate) arguments: usize,
    /// Bytes, all told.
    pub(crate) bytes: usize,
}

impl Bounds {
    /// For those who may ask.
    pub(crate) const KNOWN: Bounds = Bounds { arguments: 1_024, bytes: 64 << 10 };
    /// For those who have not said who they are.
    pub(crate) const STRANGER: Bounds = Bounds { arguments: 10, bytes: 4 << 10 };
}

/// Bytes that are no commands, in the words of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolError {
    /// The number of arguments is no number, or too large.
    Arguments,
    /// Something else stands where an argument should begin.
    NoArgument(u8),
    /// The length of an argument is no number, or too large.
    Length,
    /// An argument is longer than it said.
    NoEnd,
    /// The command is too long.
    TooLong,
    /// A typed line has a quote without its pair.
    Quotes,
}

impl std::fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            ProtocolError::Arguments => f.write_str("invalid multibulk length"),
            ProtocolError::NoArgument(byte) => {
                let shown = if byte.is_ascii_graphic() { char::from(*byte) } else { '?' };
                write!(f, "expected '$', got '{shown}'")
            }
            ProtocolError::Length => f.write_str("invalid bulk length"),
            ProtocolError::NoEnd => f.write_str("expected CRLF after an argument"),
            ProtocolError::TooLong => f.write_str("too big request"),
            ProtocolError::Quotes => f.write_str("unbalanced quotes in request"),
        }
    }
}

/// Where an argument is, counted from the beginning of its command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Place {
    pub(crate) fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.from as usize..self.to as usize]
    }
}

/// Reads commands one after the other.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    /// The arguments found so far; those of the command that was just read.
    pub(super) places: Vec<Place>,
    /// Where to go on.
    at: usize,
    /// Arguments to come; none before the command has begun.
    left: usize,
}

impl Parser {
    /// Reads the command at the beginning of `bytes` and says how long it is; nothing if more must
    /// come. Called again, `bytes` begin as they did. Escapes of typed lines are resolved where
    /// they stand.
    #[inline]
    pub(crate) fn next(
        &mut self,
        bytes: &mut [u8],
        bounds: &Bounds,
    ) -> Result<Option<usize>, ProtocolError> {
        match bytes.first() {
            None => return Ok(None),
            Some(b'*') => {}
            Some(_) => return self.line(bytes, bounds),
        }
        if self.is_complete(bytes, bounds)? {
            return Ok(Some(std::mem::take(&mut self.at)));
        }
        // It could never be completed.
        if bytes.len() >= bounds.bytes { Err(ProtocolError::TooLong) } else { Ok(None) }
    }

    /// Reads an array as far as it has come.
    #[inline]
    fn is_complete(&mut self, bytes: &[u8], bounds: &Bounds) -> Result<bool, ProtocolError> {
        if self.left == 0 && !self.begin(bytes, bounds)? {
            return Ok(false);
        }
        while self.left > 0 {
            if !self.argument(bytes, bounds)? {
                return Ok(false);
            }
            self.left -= 1;
        }
        Ok(true)
    }

    /// Reads `*3`; false if more must come.
    #[inline]
    fn begin(&mut self, bytes: &[u8], bounds: &Bounds) -> Result<bool, ProtocolError> {
        let Some(number) = number(bytes, 1).map_err(|NoNumber| ProtocolError::Arguments)? else {
            return Ok(false);
        };
        // None at all, or fewer, is a command that says nothing.
        let count = usize::try_from(number.value).unwrap_or(0);
        if count > bounds.arguments {
            return Err(ProtocolError::Arguments);
        }
        self.places.clear();
        (self.left, self.at) = (count, number.end);
        Ok(true)
    }

    /// Reads `$5` and what follows; false if more must come.
    #[inline]
    fn argument(&mut self, bytes: &[u8], bounds: &Bounds) -> Result<bool, ProtocolError> {
        match bytes.get(self.at) {
            None => return Ok(false),
            Some(b'$') => {}
            Some(other) => return Err(ProtocolError::NoArgument(*other)),
        }
        let length = number(bytes, self.at + 1).map_err(|NoNumber| ProtocolError::Length)?;
        let Some(length) = length else { return Ok(false) };
        let (from, size) = (length.end, usize::try_from(length.value));
        let to = match size {
            Ok(size) if from + size + 2 <= bounds.bytes => from + size,
            _ => return Err(ProtocolError::Length),
        };
        match bytes.get(to..to + 2) {
            Some(b"\r\n") => {}
            None => return Ok(false),
            Some(_) => return Err(ProtocolError::NoEnd),
        }
        self.places.push(Place { from: from as u32, to: to as u32 });
        self.at = to + 2;
        Ok(true)
    }

    /// Reads a typed line.
    #[cold]
    fn line(&mut self, bytes: &mut [u8], bounds: &Bounds) -> Result<Option<usize>, ProtocolError> {
        let end = memchr::memchr(b'\n', &bytes[self.at..]).map(|found| self.at + found);
        if end.unwrap_or(bytes.len()) >= bounds.bytes {
            return Err(ProtocolError::TooLong);
        }
        let Some(end) = end else {
            self.at = bytes.len();
            return Ok(None);
        };
        self.at = 0;
        inline::split(&mut bytes[..end], &mut self.places).map_err(|_| ProtocolError::Quotes)?;
        match self.places.len() <= bounds.arguments {
            true => Ok(Some(end + 1)),
            false => Err(ProtocolError::TooLong),
        }
    }
}

/// A number and where what follows it begins.
struct Number {
    value: i64,
    end: usize,
}

struct NoNumber;

/// No number that is within bounds has more digits.
const DIGITS: usize = 10;

/// The number at `from`, up to the end of its line; nothing if that has not come yet.
#[inline]
fn number(bytes: &[u8], from: usize) -> Result<Option<Number>, NoNumber> {
    let negative = bytes.get(from) == Some(&b'-');
    let first = from + usize::from(negative);
    let (mut at, mut value) = (first, 0_i64);
    loop {
        match bytes.get(at) {
            None => return Ok(None),
            Some(digit @ b'0'..=b'9') if at < first + DIGITS => {
                value = value * 10 + i64::from(digit - b'0');
                at += 1;
            }
            Some(b'\r') if at > first => break,
            Some(_) => return Err(NoNumber),
        }
    }
    match bytes.get(at + 1) {
        None => Ok(None),
        Some(b'\n') => {
            Ok(Some(Number { value: if negative { -value } else { value }, end: at + 2 }))
        }
        Some(_) => Err(NoNumber),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All commands in `text`, given to a parser in pieces of `size` bytes.
    fn read(text: &[u8], size: usize) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
        let (mut parser, mut commands) = (Parser::default(), Vec::new());
        let mut bytes = Vec::new();
        for piece in text.chunks(size) {
            bytes.extend_from_slice(piece);
            while let Some(length) = parser.next(&mut bytes, &Bounds::KNOWN)? {
                let arguments = parser.places.iter().map(|place| place.of(&bytes).to_vec());
                commands.push(arguments.collect());
                bytes.drain(..length);
            }
        }
        Ok(commands)
    }

    #[test]
    fn commands_are_read_however_they_are_cut() {
        let text = b"*2\r\n$4\r\nECHO\r\n$3\r\n\r\n\0\r\nPING \"a b\"\r\n*0\r\n*-1\r\n\r\n*1\r\n$0\r\n\r\n";
        let whole = read(text, text.len()).unwrap();
        assert_eq!(whole[0], [b"ECHO".to_vec(), b"\r\n\0".to_vec()]);
        assert_eq!(whole[1], [b"PING".to_vec(), b"a b".to_vec()]);
        let empty: [Vec<Vec<u8>>; 4] = [vec![], vec![], vec![], vec![vec![]]];
        assert_eq!(whole[2..], empty);
        for size in 1..text.len() {
            assert_eq!(read(text, size).unwrap(), whole, "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_as_redis_says_it() {
        for (text, says) in [
            (&b"*2000000000\r\n"[..], "invalid multibulk length"),
            (b"*x\r\n", "invalid multibulk length"),
            (b"*\r\n", "invalid multibulk length"),
            (b"*99999999999999999999", "invalid multibulk length"),
            (b"*1\n", "invalid multibulk length"),
            (b"*1\r\n*1\r\n", "expected '$', got '*'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$536870912\r\n", "invalid bulk length"),
            (b"*2\r\n$60000\r\n", ""),
            (b"*1\r\n$65536\r\n", "invalid bulk length"),
            (b"*1\r\n$1\r\nab\r\n", "expected CRLF"),
            (b"PING \"\r\n", "unbalanced quotes"),
        ] {
            match read(text, text.len()) {
                Ok(none) => assert!(says.is_empty() && none.is_empty(), "{text:?}"),
                Err(error) => assert!(error.to_string().contains(says), "{text:?}: {error}"),
            }
        }
        let endless = vec![b'x'; 100_000];
        assert_eq!(read(&endless, 1_000), Err(ProtocolError::TooLong));
        let many = "a ".repeat(2_000) + "\n";
        assert_eq!(read(many.as_bytes(), 100), Err(ProtocolError::TooLong));
    }

    #[test]
    fn all_arguments_together_are_bounded() {
        let argument = format!("$30000\r\n{}\r\n", "x".repeat(30_000));
        let text = format!("*3\r\n{}", argument.repeat(3));
        assert_eq!(read(text.as_bytes(), 4_096), Err(ProtocolError::Length));
        let text = format!("*1024\r\n{}", format!("$61\r\n{}\r\n", "x".repeat(61)).repeat(1024));
        assert!(read(text.as_bytes(), 4_096).is_err());
        let whole = format!("*1\r\n$65522\r\n{}\r\n", "x".repeat(65_522));
        assert_eq!(whole.len(), Bounds::KNOWN.bytes);
        assert_eq!(read(whole.as_bytes(), 1_000).unwrap().len(), 1);
    }
}
