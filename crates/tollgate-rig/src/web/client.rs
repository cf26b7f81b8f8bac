//! A client that sends exactly what it is told to.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::Message;

/// How long anything may take before it is called a failure.
const DEADLINE: Duration = Duration::from_secs(30);

/// A connection to a server of HTTP/1.1.
#[derive(Debug)]
pub struct WebClient(BufReader<TcpStream>);

impl WebClient {
    /// Connects; what is not answered within half a minute is a failure.
    pub fn connect(address: SocketAddr) -> WebClient {
        let stream = TcpStream::connect(address).expect("somebody listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a time-out can be set");
        stream.set_write_timeout(Some(DEADLINE)).expect("a time-out can be set");
        stream.set_nodelay(true).expect("bytes can be sent at once");
        WebClient(BufReader::new(stream))
    }

    /// Sends bytes. A server that has had enough may have closed already: its answer tells.
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.try_write(bytes);
    }

    /// Sends bytes.
    pub fn try_write(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.0.get_mut().write_all(bytes.as_ref())
    }

    /// Says that nothing more comes.
    pub fn finish(&mut self) {
        let _ = self.0.get_ref().shutdown(Shutdown::Write);
    }

    /// Sends a request without a body; the answer.
    pub fn get(&mut self, target: &str) -> Message {
        self.get_with(target, &[])
    }

    /// The same with header fields.
    pub fn get_with(&mut self, target: &str, headers: &[(&str, &str)]) -> Message {
        self.write(head("GET", target, headers) + "\r\n");
        self.read().expect("an answer")
    }

    /// Sends a request with a body; the answer.
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

    /// Reads one answer; none if the connection ends instead.
    pub fn read(&mut self) -> Option<Message> {
        self.read_answer_to("GET")
    }

    /// Reads the answer to a request of this method: that to HEAD has no body.
    pub fn read_answer_to(&mut self, method: &str) -> Option<Message> {
        let mut answer = self.read_head()?;
        let has_body = method != "HEAD" && !matches!(answer.status(), 100..=199 | 204 | 304);
        if has_body {
            answer.read_body(&mut self.0, true).ok()?;
        }
        Some(answer)
    }

    /// Reads the head of an answer alone.
    pub fn read_head(&mut self) -> Option<Message> {
        Message::read_head(&mut self.0).ok().flatten()
    }

    /// Reads so many bytes, as they come.
    pub fn read_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Everything that comes until the server ends the connection in good order; none if it is
    /// reset, or goes on for too long.
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
