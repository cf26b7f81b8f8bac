//! A message of HTTP/1.1 as it came, read as a lenient peer would read it.

use std::io::{self, BufRead, Read};

/// A message: the first line, the header fields, the body.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// The request line or the status line.
    pub line: String,
    /// The names, in lower case, and values of header fields, in the order they came in.
    pub headers: Vec<(String, String)>,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// Header fields that came after the body.
    pub trailers: Vec<(String, String)>,
}

impl Message {
    /// The first value of a header field.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All values of a header field.
    pub fn all<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m str> {
        let headers = self.headers.iter().filter(move |(known, _)| known == name);
        headers.map(|(_, value)| value.as_str())
    }

    /// The status of an answer; 0 of a request.
    pub fn status(&self) -> u16 {
        self.word(1).parse().unwrap_or(0)
    }

    /// The method of a request.
    pub fn method(&self) -> &str {
        self.word(0)
    }

    /// The target of a request.
    pub fn target(&self) -> &str {
        self.word(1)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn word(&self, number: usize) -> &str {
        self.line.split(' ').nth(number).unwrap_or_default()
    }

    /// Reads a head; none if the stream ends before.
    pub(super) fn read_head(from: &mut impl BufRead) -> io::Result<Option<Message>> {
        let mut message = Message::default();
        // Lenient, as many are: an empty line before a request is overlooked.
        while message.line.is_empty() {
            match line(from)? {
                Some(line) => message.line = line,
                None => return Ok(None),
            }
        }
        message.headers = fields(from)?;
        Ok(Some(message))
    }

    /// Reads the body that the head announces. `to_end`: without a length it ends with the stream.
    pub(super) fn read_body(&mut self, from: &mut impl BufRead, to_end: bool) -> io::Result<()> {
        let coded = self.header("transfer-encoding");
        if coded.is_some_and(|coding| coding.to_ascii_lowercase().contains("chunked")) {
            return self.read_chunks(from);
        }
        match self.header("content-length").and_then(|length| length.trim().parse().ok()) {
            Some(length) => {
                // What is announced may never come.
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

/// A line without its end; none at the end of the stream.
fn line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    if from.read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}
