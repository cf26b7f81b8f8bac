//! One connection's side of a conversation: a request at a time, and how its answer is understood.

pub(crate) mod grpc;
mod http;
mod resp;

use super::ask::{Ask, KEY};

/// What a server said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Allowed,
    Denied,
    Failed,
}

/// How answers of a protocol are read.
trait Reader {
    /// Takes a whole answer off the front of `inbox`, if there is one. What the protocol wants said
    /// in return goes to `outbox`.
    fn read(&mut self, inbox: &mut Vec<u8>, outbox: &mut Vec<u8>) -> Option<Reply>;
}

/// A request that is written once; only its key and its stream change.
pub(crate) struct Request {
    bytes: Vec<u8>,
    key_at: usize,
    /// Where HTTP/2 has its stream numbers.
    streams_at: Vec<usize>,
}

impl Request {
    pub(crate) fn new(ask: &Ask) -> Request {
        let (bytes, streams_at) = match ask {
            Ask::Resp(words) => (resp::request(words), Vec::new()),
            Ask::Http { method, target, body } => (http::request(method, target, body), Vec::new()),
            Ask::Grpc { path, message } => grpc::request(path, message),
        };
        let key_at = bytes.windows(KEY.len()).position(|window| window == KEY.as_bytes());
        Request { key_at: key_at.expect("every question has a key"), bytes, streams_at }
    }

    /// The bytes before and after the key.
    pub(crate) fn around_key(&self) -> (&[u8], &[u8]) {
        (&self.bytes[..self.key_at], &self.bytes[self.key_at + KEY.len()..])
    }
}

/// A connection's side of a conversation.
pub(crate) struct Talk {
    request: Request,
    asked: u32,
    reader: Box<dyn Reader>,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
}

impl Talk {
    pub(crate) fn new(ask: &Ask) -> Talk {
        let (reader, outbox): (Box<dyn Reader>, _) = match ask {
            Ask::Resp(words) => (Box::new(resp::Answers::to(words)), Vec::new()),
            Ask::Http { .. } => (Box::new(http::Answers), Vec::new()),
            Ask::Grpc { .. } => (Box::new(grpc::Frames::default()), grpc::opening()),
        };
        Talk { request: Request::new(ask), asked: 0, reader, inbox: Vec::new(), outbox }
    }

    /// The bytes that ask about key number `key`.
    pub(crate) fn ask(&mut self, key: u64) -> &[u8] {
        let Request { bytes, key_at, streams_at } = &mut self.request;
        let digits = format!("{key:012}");
        bytes[*key_at..*key_at + digits.len()].copy_from_slice(digits.as_bytes());
        let stream = 2 * self.asked + 1;
        for at in streams_at {
            bytes[*at..*at + 4].copy_from_slice(&stream.to_be_bytes());
        }
        self.asked += 1;
        bytes
    }

    /// Hears what arrived; the answer, once it is whole.
    pub(crate) fn hear(&mut self, bytes: &[u8]) -> Option<Reply> {
        self.inbox.extend_from_slice(bytes);
        self.reader.read(&mut self.inbox, &mut self.outbox)
    }

    /// What must be said besides requests: first of all once connected, and after hearing.
    pub(crate) fn aside(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outbox)
    }
}
