//! The parser of commands: arrays of bulk strings, or inline commands.
//!
//! Nothing is copied: a command is the spans of its arguments in the received bytes. Parsing
//! continues where it stopped, so a command that comes one byte at a time costs no more than one
//! that comes at once. A length that a client announces allocates nothing.

use super::inline_command;

/// The maximum size of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandBounds {
    /// The maximum number of arguments, including the name.
    pub(crate) arguments: usize,
    /// The maximum number of bytes.
    pub(crate) bytes: usize,
}

impl CommandBounds {
    /// The bounds of authenticated clients.
    pub(crate) const AUTHENTICATED: CommandBounds =
        CommandBounds { arguments: 1_024, bytes: 64 << 10 };
    /// The bounds of clients that have not authenticated yet.
    pub(crate) const ANONYMOUS: CommandBounds = CommandBounds { arguments: 10, bytes: 4 << 10 };
}

/// The error of bytes that are not a command; its texts are those of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolError {
    /// The number of arguments is invalid or too large.
    Arguments,
    /// Another byte than `$` stands where an argument should begin.
    NoArgument(u8),
    /// The length of an argument is invalid or too large.
    Length,
    /// An argument does not end where its length says.
    NoEnd,
    /// The command is too long.
    TooLong,
    /// An inline command has a quote without its pair.
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

/// The position of an argument, relative to the start of its command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArgumentSpan {
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl ArgumentSpan {
    pub(crate) fn slice<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.from as usize..self.to as usize]
    }
}

/// A parser of consecutive commands.
#[derive(Debug, Default)]
pub(crate) struct CommandParser {
    /// The arguments of the current command, as far as they are parsed.
    pub(super) spans: Vec<ArgumentSpan>,
    /// The position where parsing continues.
    at: usize,
    /// The number of arguments still to come; 0 before a command begins.
    left: usize,
}

impl CommandParser {
    /// Parses the command at the start of `bytes`; returns its length, or `None` if it is incomplete.
    ///
    /// The next call must pass the same bytes again, with more at the end. Escapes of inline
    /// commands are resolved in place.
    #[inline]
    pub(crate) fn next(
        &mut self,
        bytes: &mut [u8],
        bounds: &CommandBounds,
    ) -> Result<Option<usize>, ProtocolError> {
        match bytes.first() {
            None => return Ok(None),
            Some(b'*') => {}
            Some(_) => return self.inline_command(bytes, bounds),
        }
        if self.is_complete(bytes, bounds)? {
            return Ok(Some(std::mem::take(&mut self.at)));
        }
        // The command cannot be completed within the bounds.
        if bytes.len() >= bounds.bytes { Err(ProtocolError::TooLong) } else { Ok(None) }
    }

    /// Parses an array as far as it has come; returns whether it is complete.
    #[inline]
    fn is_complete(&mut self, bytes: &[u8], bounds: &CommandBounds) -> Result<bool, ProtocolError> {
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

    /// Parses the header of an array, such as `*3`; returns whether it is complete.
    #[inline]
    fn begin(&mut self, bytes: &[u8], bounds: &CommandBounds) -> Result<bool, ProtocolError> {
        let Some(number) = number(bytes, 1).map_err(|InvalidNumber| ProtocolError::Arguments)?
        else {
            return Ok(false);
        };
        // An array of no or a negative number of arguments is an empty command.
        let count = usize::try_from(number.value).unwrap_or(0);
        if count > bounds.arguments {
            return Err(ProtocolError::Arguments);
        }
        self.spans.clear();
        (self.left, self.at) = (count, number.end);
        Ok(true)
    }

    /// Parses one argument, such as `$5` and five bytes; returns whether it is complete.
    #[inline]
    fn argument(&mut self, bytes: &[u8], bounds: &CommandBounds) -> Result<bool, ProtocolError> {
        match bytes.get(self.at) {
            None => return Ok(false),
            Some(b'$') => {}
            Some(other) => return Err(ProtocolError::NoArgument(*other)),
        }
        let length = number(bytes, self.at + 1).map_err(|InvalidNumber| ProtocolError::Length)?;
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
        self.spans.push(ArgumentSpan { from: from as u32, to: to as u32 });
        self.at = to + 2;
        Ok(true)
    }

    /// Parses an inline command.
    #[cold]
    fn inline_command(
        &mut self,
        bytes: &mut [u8],
        bounds: &CommandBounds,
    ) -> Result<Option<usize>, ProtocolError> {
        let end = memchr::memchr(b'\n', &bytes[self.at..]).map(|found| self.at + found);
        if end.unwrap_or(bytes.len()) >= bounds.bytes {
            return Err(ProtocolError::TooLong);
        }
        let Some(end) = end else {
            self.at = bytes.len();
            return Ok(None);
        };
        self.at = 0;
        inline_command::split(&mut bytes[..end], &mut self.spans)
            .map_err(|_| ProtocolError::Quotes)?;
        match self.spans.len() <= bounds.arguments {
            true => Ok(Some(end + 1)),
            false => Err(ProtocolError::TooLong),
        }
    }
}

/// A number and the position after its line.
struct ParsedNumber {
    value: i64,
    end: usize,
}

/// The error of a line that is not a number.
struct InvalidNumber;

/// The maximum number of digits, more than any number within the bounds has.
const MAX_DIGITS: usize = 10;

/// Parses the number at `from` up to the end of its line; `None` if the line is incomplete.
#[inline]
fn number(bytes: &[u8], from: usize) -> Result<Option<ParsedNumber>, InvalidNumber> {
    let negative = bytes.get(from) == Some(&b'-');
    let first = from + usize::from(negative);
    let (mut at, mut value) = (first, 0_i64);
    loop {
        match bytes.get(at) {
            None => return Ok(None),
            Some(digit @ b'0'..=b'9') if at < first + MAX_DIGITS => {
                value = value * 10 + i64::from(digit - b'0');
                at += 1;
            }
            Some(b'\r') if at > first => break,
            Some(_) => return Err(InvalidNumber),
        }
    }
    match bytes.get(at + 1) {
        None => Ok(None),
        Some(b'\n') => {
            Ok(Some(ParsedNumber { value: if negative { -value } else { value }, end: at + 2 }))
        }
        Some(_) => Err(InvalidNumber),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses all commands in `text`, given to the parser in pieces of `size` bytes.
    fn read(text: &[u8], size: usize) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
        let (mut parser, mut commands) = (CommandParser::default(), Vec::new());
        let mut bytes = Vec::new();
        for piece in text.chunks(size) {
            bytes.extend_from_slice(piece);
            while let Some(length) = parser.next(&mut bytes, &CommandBounds::AUTHENTICATED)? {
                let arguments = parser.spans.iter().map(|span| span.slice(&bytes).to_vec());
                commands.push(arguments.collect());
                bytes.drain(..length);
            }
        }
        Ok(commands)
    }

    #[test]
    fn commands_may_come_in_pieces_of_any_size() {
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
    fn protocol_errors_have_the_texts_of_redis() {
        for (text, expected) in [
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
                Ok(none) => assert!(expected.is_empty() && none.is_empty(), "{text:?}"),
                Err(error) => assert!(error.to_string().contains(expected), "{text:?}: {error}"),
            }
        }
        let endless = vec![b'x'; 100_000];
        assert_eq!(read(&endless, 1_000), Err(ProtocolError::TooLong));
        let many = "a ".repeat(2_000) + "\n";
        assert_eq!(read(many.as_bytes(), 100), Err(ProtocolError::TooLong));
    }

    #[test]
    fn the_total_size_of_arguments_is_bounded() {
        let argument = format!("$30000\r\n{}\r\n", "x".repeat(30_000));
        let text = format!("*3\r\n{}", argument.repeat(3));
        assert_eq!(read(text.as_bytes(), 4_096), Err(ProtocolError::Length));
        let text = format!("*1024\r\n{}", format!("$61\r\n{}\r\n", "x".repeat(61)).repeat(1024));
        assert!(read(text.as_bytes(), 4_096).is_err());
        let whole = format!("*1\r\n$65522\r\n{}\r\n", "x".repeat(65_522));
        assert_eq!(whole.len(), CommandBounds::AUTHENTICATED.bytes);
        assert_eq!(read(whole.as_bytes(), 1_000).unwrap().len(), 1);
    }
}
