//! A raw client of the Redis protocol.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::support::DEADLINE;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RespReply {
    Simple(String),
    Error(String),
    Int(i64),
    Bulk(String),
    Array(Vec<RespReply>),
    Map(Vec<(RespReply, RespReply)>),
    Bool(bool),
    Null,
}

impl RespReply {
    pub(super) fn ok() -> RespReply {
        RespReply::Simple("OK".into())
    }

    pub(super) fn bulk(text: &str) -> RespReply {
        RespReply::Bulk(text.into())
    }

    pub(super) fn ints(values: &[i64]) -> RespReply {
        RespReply::Array(values.iter().map(|value| RespReply::Int(*value)).collect())
    }

    pub(super) fn error(&self) -> &str {
        match self {
            RespReply::Error(text) => text,
            other => panic!("no error: {other:?}"),
        }
    }

    /// Returns the value of a name, in a map or in a flat array.
    pub(super) fn field(&self, name: &str) -> &RespReply {
        let key = RespReply::bulk(name);
        match self {
            RespReply::Map(entries) => {
                &entries.iter().find(|(known, _)| *known == key).expect("the field exists").1
            }
            RespReply::Array(flat) => {
                &flat.chunks(2).find(|pair| pair[0] == key).expect("the field exists")[1]
            }
            other => panic!("no fields: {other:?}"),
        }
    }

    pub(super) fn items(&self) -> &[RespReply] {
        match self {
            RespReply::Array(items) => items,
            other => panic!("no array: {other:?}"),
        }
    }

    pub(super) fn int(&self) -> i64 {
        match self {
            RespReply::Int(value) => *value,
            other => panic!("no number: {other:?}"),
        }
    }
}

/// A client connection.
pub(super) struct RespClient {
    pub(super) stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl RespClient {
    pub(super) fn connect(address: SocketAddr) -> RespClient {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        RespClient { reader: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    /// Sends raw bytes.
    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a command and reads its reply.
    pub(super) fn call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> RespReply {
        self.send(command(arguments));
        self.read()
    }

    /// Sends a command, written as words of one text, and reads its reply.
    pub(super) fn call_text(&mut self, words: &str) -> RespReply {
        self.call(&words.split(' ').collect::<Vec<_>>())
    }

    /// Reads one reply.
    pub(super) fn read(&mut self) -> RespReply {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).unwrap();
        let line = String::from_utf8(line).unwrap();
        let line = line.strip_suffix("\r\n").unwrap_or_else(|| panic!("cut off: {line:?}"));
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().unwrap();
        match kind {
            "+" => RespReply::Simple(rest.into()),
            "-" => RespReply::Error(rest.into()),
            ":" => RespReply::Int(number()),
            "#" => RespReply::Bool(rest == "t"),
            "_" => RespReply::Null,
            "$" if rest == "-1" => RespReply::Null,
            "$" => {
                let mut bytes = vec![0; number() as usize + 2];
                self.reader.read_exact(&mut bytes).unwrap();
                assert!(bytes.ends_with(b"\r\n"));
                bytes.truncate(bytes.len() - 2);
                RespReply::Bulk(String::from_utf8_lossy(&bytes).into_owned())
            }
            "*" | "~" => RespReply::Array((0..number()).map(|_| self.read()).collect()),
            "%" => RespReply::Map((0..number()).map(|_| (self.read(), self.read())).collect()),
            other => panic!("unknown type {other:?}"),
        }
    }

    /// Reads up to the end of the connection; a reset counts as an end.
    pub(super) fn read_to_end(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the connection does not end: {error}"),
        }
        rest
    }
}

/// Returns a command as an array of bulk strings.
pub(super) fn command<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
