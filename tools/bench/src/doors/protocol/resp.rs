//! The Redis protocol.

use super::super::decision_request::THROTTLE;
use super::{Reply, ReplyReader};

pub(super) fn request(words: &[String]) -> Vec<u8> {
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let count = format!("*{}\r\n", words.len());
    [count].into_iter().chain(words).collect::<String>().into_bytes()
}

pub(super) struct RespReader {
    /// The first number of a reply that allows.
    yes: &'static [u8],
    no: &'static [u8],
}

impl RespReader {
    pub(super) fn for_command(words: &[String]) -> RespReader {
        let (yes, no): (&[u8], &[u8]) = (b":0\r\n", b":1\r\n");
        if words[0] == THROTTLE { RespReader { yes: no, no: yes } } else { RespReader { yes, no } }
    }
}

impl ReplyReader for RespReader {
    /// Reads numbers, errors, and arrays of numbers, of which the first is the decision.
    fn read(&mut self, inbox: &mut Vec<u8>, _: &mut Vec<u8>) -> Option<Reply> {
        let mut lines = inbox.split_inclusive(|byte| *byte == b'\n');
        let first = lines.next()?.strip_suffix(b"\n")?.trim_ascii_end();
        let more = match first {
            [b'*', count @ ..] => std::str::from_utf8(count).ok()?.parse().ok()?,
            _ => 0,
        };
        let rest: Vec<&[u8]> = lines.take(more).collect();
        if rest.len() < more || rest.last().is_some_and(|line| !line.ends_with(b"\n")) {
            return None;
        }
        let reply = match (first, rest.first()) {
            ([b':', ..], _) => Reply::Allowed,
            ([b'*', ..], Some(line)) if *line == self.yes => Reply::Allowed,
            ([b'*', ..], Some(line)) if *line == self.no => Reply::Denied,
            _ => Reply::Failed,
        };
        inbox.clear();
        Some(reply)
    }
}
