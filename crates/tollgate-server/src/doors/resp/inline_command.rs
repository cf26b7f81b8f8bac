//! Inline commands: lines that people type, split and quoted as Redis does it.

use super::parser::ArgumentSpan;

/// The error of a quote without its pair.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnbalancedQuotes;

/// Finds the arguments of a line, and resolves their escapes in place.
///
/// This works because an escape is never shorter than the character it stands for.
pub(super) fn split(
    line: &mut [u8],
    spans: &mut Vec<ArgumentSpan>,
) -> Result<(), UnbalancedQuotes> {
    spans.clear();
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|byte| is_space(*byte)) {
            at += 1;
        }
        if at == line.len() {
            return Ok(());
        }
        let from = at;
        let mut cursor = ArgumentCursor { line, read: at, write: at };
        while cursor.peek().is_some_and(|byte| !is_space(byte)) {
            match cursor.take() {
                Some(quote @ (b'"' | b'\'')) => cursor.quoted(quote)?,
                Some(byte) => cursor.put(byte),
                None => break,
            }
        }
        at = cursor.read;
        spans.push(ArgumentSpan { from: from as u32, to: cursor.write as u32 });
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c)
}

/// An argument that is read and rewritten in place.
struct ArgumentCursor<'l> {
    line: &'l mut [u8],
    read: usize,
    write: usize,
}

impl ArgumentCursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.line.get(self.read).copied()
    }

    fn take(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.read += 1;
        Some(byte)
    }

    fn put(&mut self, byte: u8) {
        self.line[self.write] = byte;
        self.write += 1;
    }

    /// Reads up to the closing quote, which a space or the end must follow.
    fn quoted(&mut self, quote: u8) -> Result<(), UnbalancedQuotes> {
        loop {
            let byte = match self.take().ok_or(UnbalancedQuotes)? {
                byte if byte == quote => break,
                b'\\' if quote == b'"' => self.escaped()?,
                b'\\' if self.peek() == Some(quote) => self.take().ok_or(UnbalancedQuotes)?,
                byte => byte,
            };
            self.put(byte);
        }
        match self.peek() {
            Some(byte) if !is_space(byte) => Err(UnbalancedQuotes),
            _ => Ok(()),
        }
    }

    fn escaped(&mut self) -> Result<u8, UnbalancedQuotes> {
        Ok(match self.take().ok_or(UnbalancedQuotes)? {
            b'x' => self.hex().unwrap_or(b'x'),
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 0x08,
            b'a' => 0x07,
            byte => byte,
        })
    }

    /// Reads two hexadecimal digits, and consumes them only if both are.
    fn hex(&mut self) -> Option<u8> {
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        let [high, low] = self.line.get(self.read..self.read + 2)? else { return None };
        let byte = (digit(high)? * 16 + digit(low)?) as u8;
        self.read += 2;
        Some(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Vec<String>, UnbalancedQuotes> {
        let (mut bytes, mut spans) = (line.as_bytes().to_vec(), Vec::new());
        split(&mut bytes, &mut spans)?;
        let text = |span: &ArgumentSpan| String::from_utf8(span.slice(&bytes).to_vec()).unwrap();
        Ok(spans.iter().map(text).collect())
    }

    #[test]
    fn arguments_are_split_as_redis_does() {
        assert_eq!(words("  PING \t x\r").unwrap(), ["PING", "x"]);
        assert_eq!(words(r#"a "b c" 'd "e' "" f"g""#).unwrap(), ["a", "b c", "d \"e", "", "fg"]);
        assert_eq!(words(r#""\x41\n\"\q\xz" 'it\'s \n'"#).unwrap(), ["A\n\"qxz", "it's \\n"]);
        assert_eq!(words("").unwrap(), [""; 0]);
    }

    #[test]
    fn unbalanced_quotes_are_an_error() {
        for line in ["\"", "'a", "\"a\"b", r#""a\"#, "'a'b"] {
            assert_eq!(words(line), Err(UnbalancedQuotes), "{line}");
        }
    }
}
