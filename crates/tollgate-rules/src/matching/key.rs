//! Keys: an injective text of the values a rule counts by.
//!
//! Values are joined by `|`. Special characters are escaped: `|`, `%`, `{`, `}` (Redis reads them)
//! and control characters as `%XX`, byte by byte. A missing value is `%-`, an empty one `%.`, several
//! that contradict each other `%+`. A secret is `%#` and a keyed hash of its text
//! ([`KeyHasher`]). So two lists of values have one text only if they are equal, the
//! text can be printed anywhere, and it is the same in every store.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::net::IpAddr;

use smallvec::SmallVec;

use crate::Value;
use crate::matching::address;
use crate::matching::key_hasher::KeyHasher;

/// Encodes a list of values as the key that names counters in every store.
///
/// ```
/// use tollgate_rules::{Value, encode_key};
/// assert_eq!(encode_key(&[Some(Value::from("acme")), Some(Value::from(42))]), "acme|42");
/// assert_eq!(encode_key(&[Some(Value::from("a|b")), None]), "a%7Cb|%-");
/// ```
pub fn encode_key(values: &[Option<Value<'_>>]) -> String {
    let mut bytes = KeyBytes::new();
    let mut writer = KeyWriter::new(&mut bytes);
    for value in values {
        match value {
            Some(value) => writer.value(value),
            None => writer.missing(),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// How people read the parts of a key that stand for no value.
const DESCRIBED_PARTS: [(&str, &str); 3] =
    [("%-", "(missing)"), ("%.", "(empty)"), ("%+", "(several)")];

/// Describes a key for people: a value that the request lacks is `(missing)`.
///
/// An empty value is `(empty)`, and one that was sent several times and differently is `(several)`.
///
/// ```
/// use tollgate_rules::{describe_key, parse_described_key};
/// assert_eq!(describe_key("acme|%-"), "acme|(missing)");
/// assert_eq!(parse_described_key("acme|(missing)"), "acme|%-");
/// // A value that is written like a description is told apart.
/// assert_eq!(describe_key("(missing)"), "%28missing)");
/// assert_eq!(parse_described_key("%28missing)"), "(missing)");
/// ```
pub fn describe_key(key: &str) -> String {
    map_parts(key, |part| {
        for (encoded, described) in DESCRIBED_PARTS {
            if part == encoded {
                return Cow::Borrowed(described);
            }
            if part == described {
                return Cow::Owned(part.replacen('(', "%28", 1));
            }
        }
        Cow::Borrowed(part)
    })
}

/// Returns the key that [`describe_key`] describes.
pub fn parse_described_key(text: &str) -> String {
    map_parts(text, |part| {
        for (encoded, described) in DESCRIBED_PARTS {
            if part == described {
                return Cow::Borrowed(encoded);
            }
            if part.strip_prefix("%28") == described.strip_prefix('(') {
                return Cow::Borrowed(described);
            }
        }
        Cow::Borrowed(part)
    })
}

fn map_parts<'k>(key: &'k str, map: impl Fn(&'k str) -> Cow<'k, str>) -> String {
    let parts: Vec<Cow<'_, str>> = key.split('|').map(map).collect();
    parts.join("|")
}

/// The bytes of several keys, one after the other.
pub(crate) type KeyBytes = SmallVec<[u8; 256]>;

/// Writes a key.
pub(crate) struct KeyWriter<'b> {
    bytes: &'b mut KeyBytes,
    first: bool,
}

impl<'b> KeyWriter<'b> {
    /// Begins a key at the end of `bytes`.
    pub(crate) fn new(bytes: &'b mut KeyBytes) -> KeyWriter<'b> {
        KeyWriter { bytes, first: true }
    }

    fn begin_part(&mut self) {
        if !std::mem::take(&mut self.first) {
            self.bytes.push(b'|');
        }
    }

    /// Returns where the text of the next part begins.
    #[inline]
    pub(crate) fn next_part(&self) -> usize {
        self.bytes.len() + usize::from(!self.first)
    }

    /// Replaces the part that begins at `start`, which is the last one, by its hash.
    pub(crate) fn hash_part(&mut self, start: usize, hasher: &KeyHasher) {
        if let Some(hash) = hasher.hash_part(&self.bytes[start..]) {
            self.bytes.truncate(start);
            self.bytes.extend_from_slice(hash.as_bytes());
        }
    }

    pub(crate) fn missing(&mut self) {
        self.begin_part();
        self.bytes.extend_from_slice(b"%-");
    }

    pub(crate) fn several(&mut self) {
        self.begin_part();
        self.bytes.extend_from_slice(b"%+");
    }

    pub(crate) fn value(&mut self, value: &Value<'_>) {
        match value {
            Value::Text(text) => self.text(&[text]),
            Value::Flag(flag) => self.text(&[if *flag { "true" } else { "false" }]),
            Value::Number(number) => self.display(number),
            Value::Ip(ip) => self.display(&address::canonical(*ip)),
        }
    }

    /// Writes a text given in pieces.
    pub(crate) fn text(&mut self, pieces: &[&str]) {
        self.begin_part();
        if pieces.iter().all(|piece| piece.is_empty()) {
            self.bytes.extend_from_slice(b"%.");
        }
        for piece in pieces {
            let bytes = piece.as_bytes();
            match bytes.iter().any(|byte| may_need_escape(*byte)) {
                false => self.bytes.extend_from_slice(bytes),
                true => piece.chars().for_each(|character| self.character(character)),
            }
        }
    }

    fn character(&mut self, character: char) {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        let mut utf8 = [0; 4];
        let utf8 = character.encode_utf8(&mut utf8).as_bytes();
        if !needs_escape(character) {
            self.bytes.extend_from_slice(utf8);
            return;
        }
        for byte in utf8 {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            self.bytes.extend_from_slice(&[b'%', high, low]);
        }
    }

    /// Writes an address, or the network it is in.
    pub(crate) fn ip(&mut self, ip: IpAddr, bits4: u8, bits6: u8) {
        let ip = address::canonical(ip);
        match ip {
            // Most keys are IPv4 addresses, and formatting one would cost more than deciding.
            IpAddr::V4(address) if bits4 >= 32 => self.octets(address.octets()),
            IpAddr::V6(_) if bits6 >= 128 => self.display(&ip),
            _ => {
                let bits = if ip.is_ipv4() { bits4 } else { bits6 };
                let network = address::group(ip, bits4, bits6);
                self.display(&format_args!("{network}/{bits}"));
            }
        }
    }

    fn octets(&mut self, octets: [u8; 4]) {
        let mut text = [b'.'; 15];
        let mut end = 0;
        for octet in octets {
            for (least, digit) in [(100, octet / 100), (10, octet / 10 % 10), (0, octet % 10)] {
                if octet >= least {
                    text[end] = b'0' + digit;
                    end += 1;
                }
            }
            end += 1; // the dot after it
        }
        self.begin_part();
        self.bytes.extend_from_slice(&text[..end - 1]);
    }

    /// Writes a value that never needs escaping.
    fn display(&mut self, value: &dyn fmt::Display) {
        self.begin_part();
        // Writing to memory does not fail.
        let _ = write!(UnescapedWriter(self.bytes), "{value}");
    }
}

/// Writes formatted text without escaping it.
struct UnescapedWriter<'b>(&'b mut KeyBytes);

impl Write for UnescapedWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

fn needs_escape(character: char) -> bool {
    character.is_control() || matches!(character, '|' | '%' | '{' | '}')
}

/// Whether a byte may begin a character that needs an escape; 0xC2 also begins others.
fn may_need_escape(byte: u8) -> bool {
    byte < 0x20 || matches!(byte, b'|' | b'%' | b'{' | b'}' | 0x7f | 0xc2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::encode_key as key;
    use super::*;

    #[test]
    fn values_in_keys_are_escaped() {
        assert_eq!(key(&[Some("acme".into()), Some(42.into())]), "acme|42");
        assert_eq!(key(&[Some("a|b".into())]), "a%7Cb");
        assert_eq!(key(&[Some("a".into()), Some("b".into())]), "a|b");
        assert_eq!(key(&[None, Some("".into())]), "%-|%.");
        assert_eq!(key(&[Some("%-".into())]), "%25-");
        assert_eq!(key(&[Some("\n\u{9b}2J £é".into())]), "%0A%C2%9B2J £é"); // to a terminal, ESC [
        assert_eq!(key(&[]), "");
    }

    #[test]
    fn addresses_are_grouped() {
        let of = |ip: &str, bits4, bits6| {
            let mut bytes = KeyBytes::new();
            KeyWriter::new(&mut bytes).ip(ip.parse().unwrap(), bits4, bits6);
            String::from_utf8(bytes.to_vec()).unwrap()
        };
        assert_eq!(of("203.0.113.7", 32, 64), "203.0.113.7");
        assert_eq!(of("203.0.113.7", 24, 64), "203.0.113.0/24");
        assert_eq!(of("2001:db8:1:2:3:4:5:6", 32, 64), "2001:db8:1:2::/64");
        assert_eq!(of("2001:DB8:1:2::9", 32, 64), of("2001:db8:1:2:ffff::", 32, 64));
        assert_eq!(of("2001:db8:1:2:3:4:5:6", 32, 48), "2001:db8:1::/48");
        assert_eq!(of("::ffff:203.0.113.7", 32, 64), "203.0.113.7");
        for address in ["0.0.0.0", "9.10.99.100", "255.1.20.109"] {
            assert_eq!(of(address, 32, 64), address);
        }
    }

    fn part() -> impl Strategy<Value = Option<String>> {
        // Most of these characters are syntax of keys.
        prop_oneof![
            Just(None),
            "[|%{}.-]{0,4}".prop_map(Some),
            "[a|%\u{0}\u{7f}é-]{0,6}".prop_map(Some),
            any::<String>().prop_map(Some),
        ]
    }

    proptest! {
        #[test]
        fn different_values_have_different_keys(
            left in prop::collection::vec(part(), 0..4),
            right in prop::collection::vec(part(), 0..4),
        ) {
            let of = |parts: &[Option<String>]| {
                let values: Vec<_> = parts.iter().map(|part| part.as_ref().map(Value::from)).collect();
                key(&values)
            };
            prop_assert_eq!(left == right, of(&left) == of(&right));
        }
    }
}
