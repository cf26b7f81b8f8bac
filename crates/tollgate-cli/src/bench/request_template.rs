//! One request as bytes, with placeholders for the key.
//!
//! All keys have the same length, so the lengths in a request are fixed. Building a request is a copy
//! and a few digits, whatever the protocol.

use std::ops::Range;

/// Private-use characters that stand for a key; no text has them. Three bytes each.
const NUMBER: char = '\u{e000}';
const OCTETS: char = '\u{e001}';
/// The length of a number: nine digits.
const NUMBER_BYTES: usize = 9;
/// The length of three octets of three digits, each after a dot: `.100.100.100`.
const OCTETS_BYTES: usize = 12;
/// The number of octets with three digits: 100 to 255.
const OCTET: u32 = 156;
/// The maximum number of keys: the number of addresses.
pub(super) const MAX_KEYS: u32 = OCTET * OCTET * OCTET;

/// Replaces `{}` and `{ip}` in a text by placeholders.
pub(super) fn with_placeholders(text: &str) -> String {
    let number: String = [NUMBER; NUMBER_BYTES / NUMBER.len_utf8()].iter().collect();
    let octets: String = [OCTETS; OCTETS_BYTES / OCTETS.len_utf8()].iter().collect();
    text.replace("{ip}", &format!("10{octets}")).replace("{}", &number)
}

/// A request with placeholders for its key.
#[derive(Clone, Debug)]
pub(super) struct RequestTemplate {
    bytes: Vec<u8>,
    numbers: Vec<Range<usize>>,
    octets: Vec<Range<usize>>,
}

impl RequestTemplate {
    /// Finds the placeholders in a request.
    pub(super) fn new(bytes: Vec<u8>) -> RequestTemplate {
        let (numbers, octets) = (
            placeholders(&bytes, NUMBER, NUMBER_BYTES),
            placeholders(&bytes, OCTETS, OCTETS_BYTES),
        );
        RequestTemplate { bytes, numbers, octets }
    }

    /// Appends the request for a key.
    pub(super) fn write(&self, key: u32, into: &mut Vec<u8>) {
        let start = into.len();
        into.extend_from_slice(&self.bytes);
        let written = &mut into[start..];
        for placeholder in &self.numbers {
            digits(key, &mut written[placeholder.clone()]);
        }
        for placeholder in &self.octets {
            let mut rest = key;
            for octet in written[placeholder.clone()].chunks_mut(OCTETS_BYTES / 3) {
                octet[0] = b'.';
                digits(100 + rest % OCTET, &mut octet[1..]);
                rest /= OCTET;
            }
        }
    }
}

fn placeholders(bytes: &[u8], mark: char, length: usize) -> Vec<Range<usize>> {
    let mut buffer = [0; 4];
    let mark = mark.encode_utf8(&mut buffer).as_bytes();
    let mut placeholders: Vec<Range<usize>> = Vec::new();
    for at in memchr::memmem::find_iter(bytes, mark) {
        if placeholders.last().is_none_or(|last| last.end <= at) {
            placeholders.push(at..at + length);
        }
    }
    placeholders
}

fn digits(mut number: u32, into: &mut [u8]) {
    for digit in into.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, key: u32) -> String {
        let mut bytes = Vec::new();
        RequestTemplate::new(with_placeholders(text).into_bytes()).write(key, &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn holes_are_filled_with_the_key() {
        assert_eq!(written("a{}b{}", 42), "a000000042b000000042");
        assert_eq!(written("ip={ip};", 0), "ip=10.100.100.100;");
        assert_eq!(written("{ip}", MAX_KEYS - 1), "10.255.255.255");
        assert_eq!(written("none", 1), "none");
        assert_eq!(written("{}{}", 1), "000000001000000001");
    }
}
