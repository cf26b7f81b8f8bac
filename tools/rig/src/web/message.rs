//! An HTTP/1.1 message as it was received, parsed as leniently as by a lenient peer.

use std::io::{self, BufRead, Read};

/// A message: the first line, the header fields, the body.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// The request line or the status line.
    pub line: String,
    /// The header fields in the order received: names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// The header fields after the body.
    pub trailers: Vec<(String, String)>,
}

impl Message {
    /// Returns the first value of a header field.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns all values of a header field.
    pub fn all<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m str> {
        let headers = self.headers.iter().filter(move |(known, _)| known == name);
        headers.map(|(_, value)| value.as_str())
    }

    /// Returns the status of a response; 0 for a request.
    pub fn status(&self) -> u16 {
        self.start_line_part(1).parse().unwrap_or(0)
    }

    /// Returns the method of a request.
    pub fn method(&self) -> &str {
        self.start_line_part(0)
    }

    /// Returns the target of a request.
    pub fn target(&self) -> &str {
        self.start_line_part(1)
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn start_line_part(&self, number: usize) -> &str {
        self.line.split(' ').nth(number).unwrap_or_default()
    }

    /// Reads a head; `None` if the stream ends before.
    pub(super) fn read_head(from: &mut impl BufRead) -> io::Result<Option<Message>> {
        let mut message = Message::default();
        // As many servers do, skips empty lines before a request.
        while message.line.is_empty() {
            match line(from)? {
                Some(line) => message.line = line,
                None => return Ok(None),
            }
        }
        message.headers = fields(from)?;
        Ok(Some(message))
    }

    /// Reads the body that the head announces. With `to_end`, a body without a length ends with the
    /// stream.
    pub(super) fn read_body(&mut self, from: &mut impl BufRead, to_end: bool) -> io::Result<()> {
        let coded = self.header("transfer-encoding");
        if coded.is_some_and(|coding| coding.to_ascii_lowercase().contains("chunked")) {
            return self.read_chunks(from);
        }
        match self.header("content-length").and_then(|length| length.trim().parse().ok()) {
            Some(length) => {
                // The stream may end before the announced length.
                match from.take(length).read_to_end(&mut self.body)? as u64 == length {
                    true => Ok(()),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                }
            }
            None if to_end => from.read_to_end(&mut self.body).map(drop),
            None => Ok(()),
        }
    }

    fn read_chunks(&mut self, from: &mut impl BufRead) -> io::Result<()> {
        loop {
            let size = line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            let size = size.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
            if size == 0 {
                self.trailers = fields(from)?;
                return Ok(());
            }
            from.take(size as u64).read_to_end(&mut self.body)?;
            line(from)?;
        }
    }
}

fn fields(from: &mut impl BufRead) -> io::Result<Vec<(String, String)>> {
    let mut fields = Vec::new();
    loop {
        let line = line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if line.is_empty() {
            return Ok(fields);
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        fields.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// Reads a line without its end; `None` at the end of the stream.
fn line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    if from.read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}
