//! Lines that people type: words with spaces in between, quoted as Redis has it.

use super::request::Place;

/// A quote without its pair.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unbalanced;

/// Finds the words of a line. Escapes are resolved where they stand: what they mean is never
/// longer than how they are written.
pub(super) fn split(line: &mut [u8], places: &mut Vec<Place>) -> Result<(), Unbalanced> {
    places.clear();
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|byte| is_space(*byte)) {
            at += 1;
        }
        if at == line.len() {
            return Ok(());
        }
        let from = at;
        let mut word = Word { line, read: at, write: at };
        while word.peek().is_some_and(|byte| !is_space(byte)) {
            match word.take() {
                Some(quote @ (b'"' | b'\'')) => word.quoted(quote)?,
                Some(byte) => word.put(byte),
                None => break,
            }
        }
        at = word.read;
        places.push(Place { from: from as u32, to: word.write as u32 });
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c)
}

/// A word that is read and written in the same place.
struct Word<'l> {
    line: &'l mut [u8],
    read: usize,
    write: usize,
}

impl Word<'_> {
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

    /// What stands between quotes; a space or the end must follow.
    fn quoted(&mut self, quote: u8) -> Result<(), Unbalanced> {
        loop {
            let byte = match self.take().ok_or(Unbalanced)? {
                byte if byte == quote => break,
                b'\\' if quote == b'"' => self.escaped()?,
                b'\\' if self.peek() == Some(quote) => self.take().ok_or(Unbalanced)?,
                byte => byte,
            };
            self.put(byte);
        }
        match self.peek() {
            Some(byte) if !is_space(byte) => Err(Unbalanced),
            _ => Ok(()),
        }
    }

    fn escaped(&mut self) -> Result<u8, Unbalanced> {
        Ok(match self.take().ok_or(Unbalanced)? {
            b'x' => self.hex().unwrap_or(b'x'),
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 0x08,
            b'a' => 0x07,
            byte => byte,
        })
    }

    /// Two digits, taken only if they are.
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

    fn words(line: &str) -> Result<Vec<String>, Unbalanced> {
        let (mut bytes, mut places) = (line.as_bytes().to_vec(), Vec::new());
        split(&mut bytes, &mut places)?;
        let text = |place: &Place| String::from_utf8(place.of(&bytes).to_vec()).unwrap();
        Ok(places.iter().map(text).collect())
    }

    #[test]
    fn words_are_split_as_redis_does() {
        assert_eq!(words("  PING \t x\r").unwrap(), ["PING", "x"]);
        assert_eq!(words(r#"a "b c" 'd "e' "" f"g""#).unwrap(), ["a", "b c", "d \"e", "", "fg"]);
        assert_eq!(words(r#""\x41\n\"\q\xz" 'it\'s \n'"#).unwrap(), ["A\n\"qxz", "it's \\n"]);
        assert_eq!(words("").unwrap(), [""; 0]);
    }

    #[test]
    fn quotes_come_in_pairs() {
        for line in ["\"", "'a", "\"a\"b", r#""a\"#, "'a'b"] {
            assert_eq!(words(line), Err(Unbalanced), "{line}");
        }
    }
}
