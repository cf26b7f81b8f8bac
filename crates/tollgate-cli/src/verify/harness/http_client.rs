//! HTTP/1.1 messages as they are on the wire: a client that sends exactly the given bytes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, bail};
use serde_json::Value;

use super::IO_TIMEOUT;

/// The maximum length of a line, and the maximum number of lines in a head.
const MAX_LINE: u64 = 64 << 10;
const MAX_LINES: usize = 200;
/// The maximum length of a body that is read.
const MAX_BODY: u64 = 4 << 20;

/// A request or a response: its first line, its header fields and its body.
#[derive(Clone, Debug, Default)]
pub(crate) struct HttpMessage {
    pub(crate) line: String,
    /// The header fields: names in lower case, and values without blanks around them.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpMessage {
    /// Reads a message; none if the stream ends before it. A body needs a length.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<HttpMessage>> {
        let Some(line) = read_line(from)? else { return Ok(None) };
        let mut message = HttpMessage { line, ..HttpMessage::default() };
        while let Some(line) = read_line(from)?.filter(|line| !line.is_empty()) {
            if message.headers.len() == MAX_LINES {
                return Err(io::Error::other("too many header fields"));
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            message.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = message.header("content-length").and_then(|length| length.parse().ok());
        let length: u64 = length.unwrap_or(0);
        if length > MAX_BODY {
            return Err(io::Error::other("the body is too long"));
        }
        if from.take(length).read_to_end(&mut message.body)? as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(message))
    }

    /// Returns the first value of a header field.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns all values of a header field, as one text.
    pub(crate) fn joined(&self, name: &str) -> Option<String> {
        let values = self.headers.iter().filter(|(known, _)| known == name);
        let values: Vec<&str> = values.map(|(_, value)| value.as_str()).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// Returns the status of a response; 0 if it has none.
    pub(crate) fn status(&self) -> u16 {
        self.line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body).context("a response is not JSON")
    }
}

fn read_line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    from.take(MAX_LINE).read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\n") {
        _ if line.is_empty() => Ok(None),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
        Some(whole) => {
            let whole = whole.strip_suffix(b"\r").unwrap_or(whole);
            Ok(Some(String::from_utf8_lossy(whole).into_owned()))
        }
    }
}

/// A connection to an HTTP/1.1 server.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    stream: BufReader<TcpStream>,
    host: String,
}

impl HttpConnection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<HttpConnection> {
        let stream = TcpStream::connect_timeout(&address, IO_TIMEOUT)?;
        stream.set_read_timeout(Some(IO_TIMEOUT))?;
        stream.set_write_timeout(Some(IO_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(HttpConnection { stream: BufReader::new(stream), host: address.to_string() })
    }

    /// Sends bytes as they are.
    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes.as_ref())
    }

    /// Reads a response; none if the connection ends instead.
    pub(crate) fn read(&mut self) -> io::Result<Option<HttpMessage>> {
        HttpMessage::read(&mut self.stream)
    }

    /// Sends a request and reads its response.
    pub(crate) fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<HttpMessage> {
        let mut request = format!("{method} {target} HTTP/1.1\r\nhost: {}\r\n", self.host);
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            request += "content-type: application/json\r\n";
        }
        request += &format!("content-length: {}\r\n\r\n{body}", body.len());
        self.write(request)?;
        self.read()?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Posts a call to the HTTP door, which must succeed, and returns its JSON.
    pub(crate) fn call(&mut self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let response = self.send("POST", path, &[], &body.to_string());
        let response = response.with_context(|| format!("no response to {path}"))?;
        match response.status() {
            200 => response.json(),
            status => bail!("{path}: status {status}: {}", String::from_utf8_lossy(&response.body)),
        }
    }
}
