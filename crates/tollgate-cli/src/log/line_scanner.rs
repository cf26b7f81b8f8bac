//! Reads the words and quoted texts of a line one after the other.

use std::borrow::Cow;

/// A scanner: the rest of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineScanner<'l>(pub(super) &'l str);

impl<'l> LineScanner<'l> {
    /// Reads up to the next space.
    pub(super) fn word(&mut self) -> Option<&'l str> {
        let rest = self.0.trim_start_matches(' ');
        let end = rest.find(' ').unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }

    /// Reads up to `end`, and skips it.
    pub(super) fn until(&mut self, end: &str) -> Option<&'l str> {
        let (before, after) = self.0.split_once(end)?;
        self.0 = after;
        Some(before)
    }

    /// Reads a text in quotes, and undoes its escapes.
    pub(super) fn quoted(&mut self) -> Option<Cow<'l, str>> {
        let inner = self.0.trim_start_matches(' ').strip_prefix('"')?;
        let bytes = inner.as_bytes();
        let (mut end, mut escaped) = (0, false);
        loop {
            match bytes.get(end)? {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    end += 2;
                }
                _ => end += 1,
            }
        }
        // A quote is one byte, so the text ends at a character boundary.
        let text = &inner[..end];
        self.0 = &inner[end + 1..];
        Some(if escaped { Cow::Owned(unescape(text)) } else { Cow::Borrowed(text) })
    }
}

/// Undoes the escapes of Apache (`\"`, `\\`, `\n`, `\xhh`) and nginx (`\xHH`).
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let (b'\\', Some((&mark, after))) = (byte, after.split_first()) else {
            bytes.push(byte);
            continue;
        };
        rest = after;
        let hex = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match (mark, hex.and_then(|pair| u8::from_str_radix(pair, 16).ok())) {
            (b'x', Some(value)) => {
                bytes.push(value);
                rest = &after[2..];
            }
            (b'n', _) => bytes.push(b'\n'),
            (b'r', _) => bytes.push(b'\r'),
            (b't', _) => bytes.push(b'\t'),
            (other, _) => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_quotes_one_after_the_other() {
        let mut scan = LineScanner(r#"a  b "c \"d\" \x22\xc3\xa9\\" "" x"#);
        assert_eq!((scan.word(), scan.word()), (Some("a"), Some("b")));
        assert_eq!(scan.quoted().as_deref(), Some(r#"c "d" "é\"#));
        assert_eq!(scan.quoted().as_deref(), Some(""));
        assert_eq!(scan.quoted(), None);
        assert_eq!((scan.word(), scan.word()), (Some("x"), None));
    }

    #[test]
    fn an_unclosed_quote_is_none() {
        assert_eq!(LineScanner(r#""abc"#).quoted(), None);
        assert_eq!(LineScanner(r#""abc\"#).quoted(), None);
        assert_eq!(LineScanner("\"é\\é\"").quoted().as_deref(), Some("éé"));
        assert_eq!(LineScanner(r#""\x2""#).quoted().as_deref(), Some("x2"));
    }
}
