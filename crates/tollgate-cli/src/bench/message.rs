//! One request as bytes, with holes where the key goes.
//!
//! Keys are as long as each other, so that lengths in a message are known once and for all: asking
//! costs a copy and a few digits, whatever the protocol.

use std::ops::Range;

/// Stand for a key until its bytes are known; no text has them. Three bytes each.
const NUMBER: char = '\u{e000}';
const OCTETS: char = '\u{e001}';
/// A number of nine digits.
const NUMBER_BYTES: usize = 9;
/// Three octets with dots before them, each of three digits: `.100.100.100`.
const OCTETS_BYTES: usize = 12;
/// The octets of three digits: 100 to 255.
const OCTET: u32 = 156;
/// As many addresses as there are.
pub(super) const MOST_KEYS: u32 = OCTET * OCTET * OCTET;

/// What is written for the number of the key, and for its address.
pub(super) fn with_holes(text: &str) -> String {
    let number: String = [NUMBER; NUMBER_BYTES / NUMBER.len_utf8()].iter().collect();
    let octets: String = [OCTETS; OCTETS_BYTES / OCTETS.len_utf8()].iter().collect();
    text.replace("{ip}", &format!("10{octets}")).replace("{}", &number)
}

/// A request but for its key.
#[derive(Clone, Debug)]
pub(super) struct Message {
    bytes: Vec<u8>,
    numbers: Vec<Range<usize>>,
    octets: Vec<Range<usize>>,
}

impl Message {
    /// Finds the holes.
    pub(super) fn new(bytes: Vec<u8>) -> Message {
        let (numbers, octets) =
            (holes(&bytes, NUMBER, NUMBER_BYTES), holes(&bytes, OCTETS, OCTETS_BYTES));
        Message { bytes, numbers, octets }
    }

    /// Adds the request about a key.
    pub(super) fn write(&self, key: u32, into: &mut Vec<u8>) {
        let start = into.len();
        into.extend_from_slice(&self.bytes);
        let written = &mut into[start..];
        for hole in &self.numbers {
            digits(key, &mut written[hole.clone()]);
        }
        for hole in &self.octets {
            let mut rest = key;
            for octet in written[hole.clone()].chunks_mut(OCTETS_BYTES / 3) {
                octet[0] = b'.';
                digits(100 + rest % OCTET, &mut octet[1..]);
                rest /= OCTET;
            }
        }
    }
}

fn holes(bytes: &[u8], mark: char, length: usize) -> Vec<Range<usize>> {
    let mut buffer = [0; 4];
    let mark = mark.encode_utf8(&mut buffer).as_bytes();
    let mut holes: Vec<Range<usize>> = Vec::new();
    for at in memchr::memmem::find_iter(bytes, mark) {
        if holes.last().is_none_or(|last| last.end <= at) {
            holes.push(at..at + length);
        }
    }
    holes
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
        Message::new(with_holes(text).into_bytes()).write(key, &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn holes_are_filled_with_the_key() {
        assert_eq!(written("a{}b{}", 42), "a000000042b000000042");
        assert_eq!(written("ip={ip};", 0), "ip=10.100.100.100;");
        assert_eq!(written("{ip}", MOST_KEYS - 1), "10.255.255.255");
        assert_eq!(written("none", 1), "none");
        assert_eq!(written("{}{}", 1), "000000001000000001");
    }
}
