//! The Redis protocol.

use super::{Reader, Reply};

pub(super) fn request(words: &[String]) -> Vec<u8> {
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let count = format!("*{}\r\n", words.len());
    [count].into_iter().chain(words).collect::<String>().into_bytes()
}

pub(super) struct Answers;

impl Reader for Answers {
    /// Numbers, errors, and arrays of numbers; the first number of an array says whether it is a
    /// refusal.
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
        let reply = match (first, rest.first().copied()) {
            ([b'*', ..], Some(b":0\r\n")) | ([b':', ..], _) => Reply::Allowed,
            ([b'*', ..], Some(b":1\r\n")) => Reply::Denied,
            _ => Reply::Failed,
        };
        inbox.clear();
        Some(reply)
    }
}
