//! A client of the Redis protocol that sends pipelines and counts outcomes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::bail;

use super::IO_TIMEOUT;
use crate::bench::{BenchOutcome, parse_resp, resp_command};

/// A connection to the RESP door.
#[derive(Debug)]
pub(crate) struct RespConnection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl RespConnection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<RespConnection> {
        let stream = TcpStream::connect_timeout(&address, IO_TIMEOUT)?;
        stream.set_read_timeout(Some(IO_TIMEOUT))?;
        stream.set_write_timeout(Some(IO_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(RespConnection { stream, received: Vec::new() })
    }

    /// Sends bytes as they are.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends bytes again and again, until the server takes none for half a second.
    pub(crate) fn write_while_taken(&mut self, bytes: &[u8], most: usize) {
        let mut written = 0;
        // Without a timeout, the one of the connection holds.
        let _ = self.stream.set_write_timeout(Some(Duration::from_millis(500)));
        while written < most && self.stream.write_all(bytes).is_ok() {
            written += bytes.len();
        }
    }

    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Reads until the server closes the connection, at most some kilobytes.
    pub(crate) fn read_to_end(&mut self) -> Vec<u8> {
        // The sending direction is closed, so that a server that waits for more sees the end.
        let _ = self.stream.shutdown(Shutdown::Write);
        let mut rest = Vec::new();
        // An error is an end as well.
        let _ = (&self.stream).take(64 << 10).read_to_end(&mut rest);
        rest
    }

    /// Sends a pipeline of commands, and returns their outcomes in order.
    pub(crate) fn pipeline(&mut self, commands: &[Vec<&str>]) -> anyhow::Result<Vec<BenchOutcome>> {
        let bytes: Vec<u8> = commands.iter().flat_map(|words| resp_command(words)).collect();
        self.write(&bytes)?;
        let mut outcomes = Vec::with_capacity(commands.len());
        let mut at = 0;
        while outcomes.len() < commands.len() {
            match parse_resp(&self.received[at..])? {
                Some((length, outcome)) => {
                    at += length;
                    outcomes.push(outcome);
                }
                None => {
                    self.received.drain(..at);
                    at = 0;
                    self.receive()?;
                }
            }
        }
        self.received.drain(..at);
        Ok(outcomes)
    }

    fn receive(&mut self) -> anyhow::Result<()> {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer)? {
            0 => bail!("the server closed the connection"),
            length => self.received.extend_from_slice(&buffer[..length]),
        }
        Ok(())
    }
}
