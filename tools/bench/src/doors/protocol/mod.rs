//! The client side of a protocol: one request at a time, and the meaning of its reply.

pub(crate) mod grpc;
mod http;
mod resp;

use super::decision_request::{DecisionRequest, KEY};

/// The reply of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Allowed,
    Denied,
    Failed,
}

/// Reads the replies of a protocol.
trait ReplyReader {
    /// Removes a complete reply from the front of `inbox`, if there is one.
    ///
    /// Anything the protocol must send in return goes to `outbox`.
    fn read(&mut self, inbox: &mut Vec<u8>, outbox: &mut Vec<u8>) -> Option<Reply>;
}

/// A request that is encoded once; only its key and its stream change.
pub(crate) struct EncodedRequest {
    bytes: Vec<u8>,
    key_at: usize,
    /// The positions of HTTP/2 stream numbers.
    streams_at: Vec<usize>,
}

impl EncodedRequest {
    pub(crate) fn new(request: &DecisionRequest) -> EncodedRequest {
        let (bytes, streams_at) = match request {
            DecisionRequest::Resp(words) => (resp::request(words), Vec::new()),
            DecisionRequest::Http { method, target, body } => {
                (http::request(method, target, body), Vec::new())
            }
            DecisionRequest::Grpc { path, message } => grpc::request(path, message),
        };
        let key_at = bytes.windows(KEY.len()).position(|window| window == KEY.as_bytes());
        EncodedRequest { key_at: key_at.expect("every question has a key"), bytes, streams_at }
    }

    /// Returns the bytes before and after the key.
    pub(crate) fn around_key(&self) -> (&[u8], &[u8]) {
        (&self.bytes[..self.key_at], &self.bytes[self.key_at + KEY.len()..])
    }
}

/// The client side of one connection.
pub(crate) struct ProtocolClient {
    request: EncodedRequest,
    requests: u32,
    reader: Box<dyn ReplyReader>,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
}

impl ProtocolClient {
    pub(crate) fn new(request: &DecisionRequest) -> ProtocolClient {
        let (reader, outbox): (Box<dyn ReplyReader>, _) = match request {
            DecisionRequest::Resp(words) => {
                (Box::new(resp::RespReader::for_command(words)), Vec::new())
            }
            DecisionRequest::Http { .. } => (Box::new(http::HttpReader), Vec::new()),
            DecisionRequest::Grpc { .. } => {
                (Box::new(grpc::GrpcReader::default()), grpc::opening())
            }
        };
        ProtocolClient {
            request: EncodedRequest::new(request),
            requests: 0,
            reader,
            inbox: Vec::new(),
            outbox,
        }
    }

    /// Returns the request about key number `key`.
    pub(crate) fn encode(&mut self, key: u64) -> &[u8] {
        let EncodedRequest { bytes, key_at, streams_at } = &mut self.request;
        let digits = format!("{key:012}");
        bytes[*key_at..*key_at + digits.len()].copy_from_slice(digits.as_bytes());
        let stream = 2 * self.requests + 1;
        for at in streams_at {
            bytes[*at..*at + 4].copy_from_slice(&stream.to_be_bytes());
        }
        self.requests += 1;
        bytes
    }

    /// Takes in received bytes, and returns the reply once it is complete.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Option<Reply> {
        self.inbox.extend_from_slice(bytes);
        self.reader.read(&mut self.inbox, &mut self.outbox)
    }

    /// Returns the bytes to send besides requests: on connecting, and after receiving.
    pub(crate) fn take_outbox(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outbox)
    }
}
