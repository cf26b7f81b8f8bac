//! An HTTP client that sends exactly the given bytes.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::Message;

/// The maximum wait for a response.
const DEADLINE: Duration = Duration::from_secs(30);

/// A connection to an HTTP/1.1 server.
#[derive(Debug)]
pub struct WebClient(BufReader<TcpStream>);

impl WebClient {
    /// Connects. Every wait is limited to half a minute.
    pub fn connect(address: SocketAddr) -> WebClient {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a time-out can be set");
        stream.set_write_timeout(Some(DEADLINE)).expect("a time-out can be set");
        stream.set_nodelay(true).expect("bytes can be sent at once");
        WebClient(BufReader::new(stream))
    }

    /// Sends bytes, and ignores errors: a server that rejects the request may have closed already.
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.try_write(bytes);
    }

    /// Sends bytes, and returns errors.
    pub fn try_write(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.0.get_mut().write_all(bytes.as_ref())
    }

    /// Closes the sending direction.
    pub fn finish(&mut self) {
        let _ = self.0.get_ref().shutdown(Shutdown::Write);
    }

    /// Returns whether bytes of the server can be read, or it has closed the connection.
    pub fn has_received(&self) -> bool {
        let stream = self.0.get_ref();
        stream.set_nonblocking(true).expect("a stream can be polled");
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false).expect("a stream can be waited for");
        !matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends a request without a body, and returns the response.
    pub fn get(&mut self, target: &str) -> Message {
        self.get_with(target, &[])
    }

    /// Sends a request with header fields and no body, and returns the response.
    pub fn get_with(&mut self, target: &str, headers: &[(&str, &str)]) -> Message {
        self.write(head("GET", target, headers) + "\r\n");
        self.read().expect("an answer")
    }

    /// Sends a request with a body, and returns the response.
    pub fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Message {
        let head = head(method, target, headers);
        self.write(format!("{head}content-length: {}\r\n\r\n{body}", body.len()));
        self.read_answer_to(method).expect("an answer")
    }

    /// Reads one response; `None` if the connection ends instead.
    pub fn read(&mut self) -> Option<Message> {
        self.read_answer_to("GET")
    }

    /// Reads the response to a request of this method: that to HEAD has no body.
    pub fn read_answer_to(&mut self, method: &str) -> Option<Message> {
        let mut answer = self.read_head()?;
        let has_body = method != "HEAD" && !matches!(answer.status(), 100..=199 | 204 | 304);
        if has_body {
            answer.read_body(&mut self.0, true).ok()?;
        }
        Some(answer)
    }

    /// Reads the head of a response only.
    pub fn read_head(&mut self) -> Option<Message> {
        Message::read_head(&mut self.0).ok().flatten()
    }

    /// Reads this many bytes.
    pub fn read_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads until the server closes the connection; `None` if it is reset, or stays open for too
    /// long.
    pub fn rest(&mut self) -> Option<Vec<u8>> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).ok()?;
        Some(rest)
    }
}

fn head(method: &str, target: &str, headers: &[(&str, &str)]) -> String {
    let mut head = format!("{method} {target} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head += "host: tollgate.test\r\n";
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head
}
