//! A client that says exactly what it is told to say.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::support::DEADLINE;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Simple(String),
    Error(String),
    Int(i64),
    Bulk(String),
    Array(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    Bool(bool),
    Null,
}

impl Reply {
    pub(super) fn ok() -> Reply {
        Reply::Simple("OK".into())
    }

    pub(super) fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.into())
    }

    pub(super) fn ints(values: &[i64]) -> Reply {
        Reply::Array(values.iter().map(|value| Reply::Int(*value)).collect())
    }

    pub(super) fn error(&self) -> &str {
        match self {
            Reply::Error(text) => text,
            other => panic!("no error: {other:?}"),
        }
    }

    /// The value of a name, in a map or in a flat array.
    pub(super) fn field(&self, name: &str) -> &Reply {
        let key = Reply::bulk(name);
        match self {
            Reply::Map(entries) => {
                &entries.iter().find(|(known, _)| *known == key).expect("such a field").1
            }
            Reply::Array(flat) => {
                &flat.chunks(2).find(|pair| pair[0] == key).expect("such a field")[1]
            }
            other => panic!("no fields: {other:?}"),
        }
    }

    pub(super) fn items(&self) -> &[Reply] {
        match self {
            Reply::Array(items) => items,
            other => panic!("no array: {other:?}"),
        }
    }

    pub(super) fn int(&self) -> i64 {
        match self {
            Reply::Int(value) => *value,
            other => panic!("no number: {other:?}"),
        }
    }
}

/// A connection.
pub(super) struct Client {
    pub(super) stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { reader: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    /// Sends bytes as they are.
    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a command and reads its answer.
    pub(super) fn ask<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Reply {
        self.send(command(arguments));
        self.read()
    }

    /// The same, with the arguments as words of one text.
    pub(super) fn say(&mut self, words: &str) -> Reply {
        self.ask(&words.split(' ').collect::<Vec<_>>())
    }

    /// Reads one answer.
    pub(super) fn read(&mut self) -> Reply {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).unwrap();
        let line = String::from_utf8(line).unwrap();
        let line = line.strip_suffix("\r\n").unwrap_or_else(|| panic!("cut off: {line:?}"));
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().unwrap();
        match kind {
            "+" => Reply::Simple(rest.into()),
            "-" => Reply::Error(rest.into()),
            ":" => Reply::Int(number()),
            "#" => Reply::Bool(rest == "t"),
            "_" => Reply::Null,
            "$" if rest == "-1" => Reply::Null,
            "$" => {
                let mut bytes = vec![0; number() as usize + 2];
                self.reader.read_exact(&mut bytes).unwrap();
                assert!(bytes.ends_with(b"\r\n"));
                bytes.truncate(bytes.len() - 2);
                Reply::Bulk(String::from_utf8_lossy(&bytes).into_owned())
            }
            "*" | "~" => Reply::Array((0..number()).map(|_| self.read()).collect()),
            "%" => Reply::Map((0..number()).map(|_| (self.read(), self.read())).collect()),
            other => panic!("what is {other:?}?"),
        }
    }

    /// Everything up to the end of the connection. A reset is an end as well.
    pub(super) fn read_to_end(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("it does not end: {error}"),
        }
        rest
    }
}

/// A command as an array of byte strings.
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
