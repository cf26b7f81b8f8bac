//! A small HTTP client that sends exactly what it is told to.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::support::DEADLINE;

/// A connection.
pub(crate) struct Client(BufReader<TcpStream>);

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Client(BufReader::new(stream))
    }

    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        // A server that has had enough may have closed already: its answer tells.
        let _ = self.try_write(bytes);
    }

    pub(crate) fn try_write(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.0.get_mut().write_all(bytes.as_ref())
    }

    /// Sends a request; what came back.
    pub(crate) fn send(&mut self, method: &str, path: &str, body: &str) -> Answer {
        self.send_with(method, path, &[], body)
    }

    pub(crate) fn send_with(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: tollgate\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        self.write(request);
        self.read().expect("an answer")
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> Answer {
        self.send("POST", path, body)
    }

    /// Reads one answer; `None` if the connection ends instead.
    pub(crate) fn read(&mut self) -> Option<Answer> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok().filter(|length| *length > 0)?;
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut answer = Answer { status, headers, body: String::new() };
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        answer.body = String::from_utf8(body).unwrap();
        Some(answer)
    }

    /// Whether the server has ended the connection, once it says no more.
    pub(crate) fn is_over(&mut self) -> bool {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).is_ok()
    }
}

/// A connection and one request.
pub(crate) fn post(address: SocketAddr, path: &str, body: &str) -> Answer {
    Client::connect(address).post(path, body)
}
