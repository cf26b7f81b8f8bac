//! gRPC: the part of HTTP/2 that one stream at a time needs.

use super::{Reply, ReplyReader};

/// The types and flags of frames.
mod frame {
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const RESET: u8 = 3;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const PING: u8 = 6;
    pub(super) const GOAWAY: u8 = 7;
    pub(super) const WINDOW_UPDATE: u8 = 8;
    pub(super) const ACK: u8 = 1;
    pub(super) const END_STREAM: u8 = 1;
    pub(super) const END_HEADERS: u8 = 4;
    /// The length of a frame header: length, type, flags, stream.
    pub(super) const HEAD: usize = 9;
    pub(super) const STREAM_AT: usize = 5;
}

fn frame(frame_type: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[frame_type, flags, 0, 0, 0, 0], payload].concat()
}

/// Returns the preface, default settings, and a window that never fills.
pub(super) fn opening() -> Vec<u8> {
    let window = (u32::MAX / 2 - u32::from(u16::MAX)).to_be_bytes();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    [preface, frame(frame::SETTINGS, 0, &[]), frame(frame::WINDOW_UPDATE, 0, &window)].concat()
}

/// Returns the frames of a call, and the positions of their stream numbers.
pub(super) fn request(path: &str, message: &[u8]) -> (Vec<u8>, Vec<usize>) {
    // HPACK without a dynamic table: indexes of well-known fields, the rest as plain text.
    let mut fields = vec![0x83, 0x86]; // :method POST, :scheme http
    let mut field = |name: &[u8], value: &str| {
        fields.extend_from_slice(name);
        fields.push(value.len() as u8);
        fields.extend_from_slice(value.as_bytes());
    };
    field(&[4], path); // :path
    field(&[1], "bench"); // :authority
    field(&[15, 16], "application/grpc"); // content-type
    field(b"\0\x02te", "trailers");
    let headers = frame(frame::HEADERS, frame::END_HEADERS, &fields);
    let data = frame(frame::DATA, frame::END_STREAM, &body(message));
    let streams_at = vec![frame::STREAM_AT, headers.len() + frame::STREAM_AT];
    ([headers, data].concat(), streams_at)
}

/// Encodes a message in a body: not compressed, with its length.
pub(crate) fn body(message: &[u8]) -> Vec<u8> {
    [&[0], (message.len() as u32).to_be_bytes().as_slice(), message].concat()
}

#[derive(Default)]
pub(super) struct GrpcReader {
    /// The reply in the response message, once it has arrived.
    reply: Option<Reply>,
}

impl ReplyReader for GrpcReader {
    fn read(&mut self, inbox: &mut Vec<u8>, outbox: &mut Vec<u8>) -> Option<Reply> {
        let mut reply = None;
        while let Some(&[a, b, c, frame_type, flags, ..]) = inbox.first_chunk::<{ frame::HEAD }>() {
            let end = frame::HEAD + u32::from_be_bytes([0, a, b, c]) as usize;
            let Some(payload) = inbox.get(frame::HEAD..end) else { break };
            match frame_type {
                // Both services have 1 in their first field if they allow.
                frame::DATA if payload.get(5..7) == Some(&[8, 1]) => {
                    self.reply = Some(Reply::Allowed);
                }
                frame::DATA if payload.len() >= 5 => self.reply = Some(Reply::Denied),
                frame::SETTINGS | frame::PING if flags & frame::ACK == 0 => {
                    let echo = if frame_type == frame::PING { payload } else { &[] };
                    outbox.extend(frame(frame_type, frame::ACK, echo));
                }
                frame::RESET | frame::GOAWAY => reply = Some(Reply::Failed),
                _ => {}
            }
            if frame_type <= frame::HEADERS && flags & frame::END_STREAM != 0 {
                // A response without a message is an error.
                reply = Some(self.reply.take().unwrap_or(Reply::Failed));
            }
            inbox.drain(..end);
        }
        reply
    }
}
