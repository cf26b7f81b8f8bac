//! A minimal client: one command, one reply.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::wait::DEADLINE;

/// A reply of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// No value.
    Nil,
    /// A number.
    Int(i64),
    /// A string, or a status such as `OK`.
    Bytes(Vec<u8>),
    /// An error in a list. A single error is the `Err` of the command.
    Error(String),
    /// A list of replies.
    List(Vec<Reply>),
}

impl Reply {
    /// Returns the reply as readable text: a list has a line for each element, and nil is empty.
    pub fn text(&self) -> String {
        match self {
            Reply::Nil => String::new(),
            Reply::Int(number) => number.to_string(),
            Reply::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Reply::Error(error) => error.clone(),
            Reply::List(list) => list.iter().map(Reply::text).collect::<Vec<_>>().join("\n"),
        }
    }

    /// Returns the number, or the number written in the text.
    pub fn int(&self) -> Option<i64> {
        match self {
            Reply::Int(number) => Some(*number),
            Reply::Bytes(_) => self.text().parse().ok(),
            _ => None,
        }
    }

    /// Returns the elements of a list; empty if it is not a list.
    pub fn list(&self) -> &[Reply] {
        match self {
            Reply::List(list) => list,
            _ => &[],
        }
    }
}

/// A connection that carries one command at a time (RESP2).
#[derive(Debug)]
pub struct Client(BufReader<TcpStream>);

impl Client {
    /// Connects to a port of this machine.
    ///
    /// # Errors
    ///
    /// If the port is closed.
    pub fn connect(port: u16) -> io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        Ok(Client(BufReader::new(stream)))
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    ///
    /// If the reply is an error, with its text, or none arrives.
    pub fn command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Reply> {
        self.send(args)?;
        match self.reply()? {
            Reply::Error(error) => Err(io::Error::other(error)),
            reply => Ok(reply),
        }
    }

    /// Sends a command without waiting for its reply.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<()> {
        let mut request = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args.iter().map(AsRef::as_ref) {
            request.extend(format!("${}\r\n", arg.len()).bytes());
            request.extend(arg);
            request.extend(b"\r\n");
        }
        self.0.get_mut().write_all(&request)
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    ///
    /// If none arrives, or it is not valid RESP2.
    pub fn reply(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let Some(line) = line.strip_suffix("\r\n") else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let strange = || io::Error::other(format!("no reply of RESP2: {line:?}"));
        let (kind, rest) = line.split_at_checked(1).ok_or_else(strange)?;
        let number = || rest.parse::<i64>().map_err(|_| strange());
        match kind {
            "+" => Ok(Reply::Bytes(rest.as_bytes().to_vec())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => Ok(Reply::Int(number()?)),
            "$" | "*" if rest == "-1" => Ok(Reply::Nil),
            "$" => {
                let length = usize::try_from(number()?).map_err(|_| strange())?;
                let mut bytes = vec![0; length + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Ok(Reply::Bytes(bytes))
            }
            "*" => (0..number()?).map(|_| self.reply()).collect::<io::Result<_>>().map(Reply::List),
            _ => Err(strange()),
        }
    }
}
