//! HTTP/1.1 with kept connections.

use super::{Reply, ReplyReader};

pub(super) fn request(method: &str, target: &str, body: &str) -> Vec<u8> {
    let about_body = match body.len() {
        0 => String::new(),
        length => format!("content-type: application/json\r\ncontent-length: {length}\r\n"),
    };
    format!("{method} {target} HTTP/1.1\r\nhost: bench\r\n{about_body}\r\n{body}").into_bytes()
}

pub(super) struct HttpReader;

impl ReplyReader for HttpReader {
    /// Reads a response: a status of 429 refuses, or a body of JSON does.
    fn read(&mut self, inbox: &mut Vec<u8>, _: &mut Vec<u8>) -> Option<Reply> {
        let end = find(inbox, b"\r\n\r\n")?;
        let (head, body) = (String::from_utf8_lossy(&inbox[..end]), &inbox[end + 4..]);
        let length = head.lines().filter_map(|line| line.split_once(':'));
        let length = length
            .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .find_map(|(_, value)| value.trim().parse::<usize>().ok());
        if body.len() < length.unwrap_or(0) {
            return None;
        }
        let status = head.split(' ').nth(1).unwrap_or_default();
        let reply = match status {
            "200" if find(body, b"\"allowed\":false").is_some() => Reply::Denied,
            "200" if length.is_some() => Reply::Allowed,
            "429" => Reply::Denied,
            _ => Reply::Failed,
        };
        inbox.clear();
        Some(reply)
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
