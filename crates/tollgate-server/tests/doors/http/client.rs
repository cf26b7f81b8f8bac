//! A small HTTP client that sends arbitrary bytes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::support::DEADLINE;

/// A client connection.
pub(crate) struct HttpClient(BufReader<TcpStream>);

/// A response.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl HttpResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl HttpClient {
    pub(crate) fn connect(address: SocketAddr) -> HttpClient {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        HttpClient(BufReader::new(stream))
    }

    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        // The server may have closed the connection already; the response shows why.
        let _ = self.try_write(bytes);
    }

    pub(crate) fn try_write(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.0.get_mut().write_all(bytes.as_ref())
    }

    /// Sends a request and returns the response.
    pub(crate) fn send(&mut self, method: &str, path: &str, body: &str) -> HttpResponse {
        self.send_with(method, path, &[], body)
    }

    pub(crate) fn send_with(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> HttpResponse {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: tollgate\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        self.write(request);
        self.read().expect("a response")
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> HttpResponse {
        self.send("POST", path, body)
    }

    /// Reads one response; `None` if the connection ends instead.
    pub(crate) fn read(&mut self) -> Option<HttpResponse> {
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
        let mut response = HttpResponse { status, headers, body: String::new() };
        let length = response.header("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        response.body = String::from_utf8(body).unwrap();
        Some(response)
    }

    /// Reads to the end; returns whether the server has closed the connection.
    pub(crate) fn is_over(&mut self) -> bool {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).is_ok()
    }
}

/// Sends one request on a new connection.
pub(crate) fn post(address: SocketAddr, path: &str, body: &str) -> HttpResponse {
    HttpClient::connect(address).post(path, body)
}
