//! HTTP/2 by hand: frames that no library would send.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RESET: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GO_AWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// A frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Fields in HPACK, without any table.
pub(crate) fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            length(text.len(), &mut block);
            block.extend(text.as_bytes());
        }
    }
    block
}

/// A number with a prefix of seven bits.
fn length(mut length: usize, into: &mut Vec<u8>) {
    if length < 127 {
        into.push(length as u8);
        return;
    }
    into.push(127);
    length -= 127;
    while length >= 128 {
        into.push((length % 128) as u8 | 128);
        length /= 128;
    }
    into.push(length as u8);
}

/// The outcome of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamResult {
    /// A response with status 200.
    Fine,
    /// A response with status 400.
    BadRequest,
    /// A response with another status.
    Other,
    /// A reset of the stream.
    Reset,
    /// The connection ended.
    Over,
}

/// A connection of HTTP/2.
pub(crate) struct Wire {
    stream: TcpStream,
}

impl Wire {
    pub(crate) fn connect(address: SocketAddr) -> Wire {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(PREFACE).unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        Wire { stream }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// The kind, the stream and the payload of the next frame.
    pub(crate) fn read(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.stream.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some((head[3], stream, payload))
    }

    /// Reads until a stream is answered.
    pub(crate) fn result(&mut self, wanted: u32) -> StreamResult {
        loop {
            match self.read() {
                // The status comes first, and the usual ones are in the static table.
                Some((HEADERS, stream, payload)) if stream == wanted => {
                    return match payload.first() {
                        Some(0x88) => StreamResult::Fine,
                        Some(0x8c) => StreamResult::BadRequest,
                        _ => StreamResult::Other,
                    };
                }
                Some((RESET, stream, _)) if stream == wanted => return StreamResult::Reset,
                Some((GO_AWAY, ..)) | None => return StreamResult::Over,
                Some(_) => {}
            }
        }
    }
}
