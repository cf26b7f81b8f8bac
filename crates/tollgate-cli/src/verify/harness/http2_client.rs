//! HTTP/2 frames as they are on the wire, and a gRPC call made of them.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::bail;

use super::IO_TIMEOUT;

/// The first bytes of a client, with empty settings.
pub(crate) const CLIENT_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A frame: its type, its flags, its stream and its payload.
#[derive(Clone, Debug)]
pub(crate) struct Http2Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Http2Frame {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RESET: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GO_AWAY: u8 = 7;
    pub(crate) const CONTINUATION: u8 = 9;
    pub(crate) const END_STREAM: u8 = 1;
    pub(crate) const END_HEADERS: u8 = 4;

    pub(crate) fn new(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Http2Frame {
        Http2Frame { kind, flags, stream, payload: payload.to_vec() }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let length = (self.payload.len() as u32).to_be_bytes();
        let mut bytes = vec![length[1], length[2], length[3], self.kind, self.flags];
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    fn read(from: &mut impl Read) -> io::Result<Http2Frame> {
        let mut head = [0; 9];
        from.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & (u32::MAX >> 1);
        let mut payload = vec![0; length as usize];
        from.read_exact(&mut payload)?;
        Ok(Http2Frame { kind: head[3], flags: head[4], stream, payload })
    }
}

/// Returns the head of a gRPC call in HPACK, without indexing.
pub(crate) fn grpc_request_head() -> Vec<u8> {
    // :method POST, :scheme http, :path, :authority x, content-type.
    let mut head = vec![0x83, 0x86, 0x04, METHOD.len() as u8];
    head.extend(METHOD.as_bytes());
    head.extend(b"\x01\x01x\x0f\x10\x10application/grpc");
    head
}

/// Makes a gRPC call with one descriptor; returns the code of Envoy: 1 within the limit, 2 over it.
pub(crate) fn grpc_check(
    address: SocketAddr,
    domain: &str,
    entry: (&str, &str),
) -> anyhow::Result<u8> {
    let mut stream = TcpStream::connect_timeout(&address, IO_TIMEOUT)?;
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    let entry = [field(1, entry.0.as_bytes()), field(2, entry.1.as_bytes())].concat();
    let request = [field(1, domain.as_bytes()), field(2, &field(1, &entry))].concat();
    let mut message = vec![0];
    message.extend((request.len() as u32).to_be_bytes());
    message.extend(request);
    let head = grpc_request_head();
    let mut bytes = CLIENT_PREFACE.to_vec();
    bytes.extend(Http2Frame::new(Http2Frame::HEADERS, Http2Frame::END_HEADERS, 1, &head).bytes());
    bytes.extend(Http2Frame::new(Http2Frame::DATA, Http2Frame::END_STREAM, 1, &message).bytes());
    stream.write_all(&bytes)?;
    // A response has few frames: settings, head, message, trailers.
    for _ in 0..100 {
        let frame = Http2Frame::read(&mut stream)?;
        match (frame.kind, frame.payload.get(5..7)) {
            // The overall code is the first field of the message.
            (Http2Frame::DATA, Some([0x08, code])) => return Ok(*code),
            (Http2Frame::RESET | Http2Frame::GO_AWAY, _) => bail!("the call was refused"),
            (Http2Frame::HEADERS, _) if frame.flags & Http2Frame::END_STREAM != 0 => {
                bail!("the response has no message")
            }
            _ => {}
        }
    }
    bail!("no response")
}

/// Returns a length-delimited field of a protobuf message of less than 128 bytes.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2, value.len() as u8];
    bytes.extend(value);
    bytes
}
