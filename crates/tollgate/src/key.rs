//! Keys, and the fingerprints that the memory store has of them.

use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;

#[cfg(shuttle)]
use foldhash::quality::FixedState as RandomState;
use foldhash::quality::FoldHasher;
#[cfg(not(shuttle))]
use foldhash::quality::RandomState;

use crate::CounterId;

/// The key of a counter: a name, a number or an address, borrowed from the caller.
///
/// Keys of different kinds are never equal: the text `"7"` and the number `7` are two keys.
///
/// ```
/// use tollgate::Key;
/// assert_eq!(Key::from("ann"), Key::from("ann".as_bytes()));
/// assert_ne!(Key::from("7"), Key::from(7_u64));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Key<'a> {
    /// A name, or any other bytes.
    Bytes(&'a [u8]),
    /// A number.
    Number(u64),
    /// An address. To limit a network prefix, mask the address first.
    Ip(IpAddr),
}

impl<'a> From<&'a str> for Key<'a> {
    #[inline]
    fn from(name: &'a str) -> Key<'a> {
        Key::Bytes(name.as_bytes())
    }
}

impl<'a> From<&'a String> for Key<'a> {
    #[inline]
    fn from(name: &'a String) -> Key<'a> {
        Key::Bytes(name.as_bytes())
    }
}

impl<'a> From<&'a [u8]> for Key<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Key<'a> {
        Key::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Key<'a> {
    #[inline]
    fn from(bytes: &'a [u8; N]) -> Key<'a> {
        Key::Bytes(bytes)
    }
}

impl From<u64> for Key<'_> {
    #[inline]
    fn from(number: u64) -> Self {
        Key::Number(number)
    }
}

impl From<u32> for Key<'_> {
    #[inline]
    fn from(number: u32) -> Self {
        Key::Number(number.into())
    }
}

impl From<IpAddr> for Key<'_> {
    #[inline]
    fn from(address: IpAddr) -> Self {
        Key::Ip(address)
    }
}

/// A key that owns its bytes, for guards that outlive the call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum KeyBuf {
    Bytes(Box<[u8]>),
    Number(u64),
    Ip(IpAddr),
}

impl KeyBuf {
    /// Borrows the key.
    pub(crate) fn as_key(&self) -> Key<'_> {
        match self {
            KeyBuf::Bytes(bytes) => Key::Bytes(bytes),
            KeyBuf::Number(number) => Key::Number(*number),
            KeyBuf::Ip(address) => Key::Ip(*address),
        }
    }
}

impl From<Key<'_>> for KeyBuf {
    fn from(key: Key<'_>) -> KeyBuf {
        match key {
            Key::Bytes(bytes) => KeyBuf::Bytes(bytes.into()),
            Key::Number(number) => KeyBuf::Number(number),
            Key::Ip(address) => KeyBuf::Ip(address),
        }
    }
}

/// Computes fingerprints of keys that a client cannot predict.
///
/// Every store has a random seed, so a client cannot search for keys that collide.
#[derive(Clone, Debug)]
#[cfg_attr(not(shuttle), derive(Default))]
pub(crate) struct Fingerprinter {
    home: RandomState,
    tag: RandomState,
}

/// A fixed seed, since the model checker must be able to repeat a run.
#[cfg(shuttle)]
impl Default for Fingerprinter {
    fn default() -> Fingerprinter {
        Fingerprinter { home: RandomState::with_seed(1), tag: RandomState::with_seed(2) }
    }
}

/// Computes the fingerprints of one counter's keys, with the counter already hashed.
#[derive(Clone)]
pub(crate) struct CounterHasher {
    home: FoldHasher<'static>,
    tag: FoldHasher<'static>,
}

/// 128 bits that stand for a key of a counter.
pub(crate) type Fingerprint = [u64; 2];

impl Fingerprinter {
    /// Returns the fingerprint of `key` in `counter`.
    #[inline]
    pub(crate) fn fingerprint(&self, counter: CounterId, key: Key<'_>) -> Fingerprint {
        self.hasher(counter).fingerprint(key)
    }

    /// Returns the hasher of the keys of `counter`.
    #[inline]
    pub(crate) fn hasher(&self, counter: CounterId) -> CounterHasher {
        let start = |state: &RandomState| {
            let mut hasher = state.build_hasher();
            hasher.write_u64(counter.number());
            hasher
        };
        CounterHasher { home: start(&self.home), tag: start(&self.tag) }
    }
}

impl CounterHasher {
    /// Returns the fingerprint of `key`.
    ///
    /// The hash of every kind of key ends in a different number, so that keys of different kinds
    /// cannot be confused.
    #[inline(always)]
    pub(crate) fn fingerprint(&self, key: Key<'_>) -> Fingerprint {
        match key {
            Key::Bytes(bytes) => self.both(|hasher| hasher.write(bytes)),
            Key::Number(number) => self.both(|hasher| {
                hasher.write_u64(number);
                hasher.write_u64(1);
            }),
            Key::Ip(IpAddr::V4(address)) => self.both(|hasher| {
                hasher.write_u64(address.to_bits().into());
                hasher.write_u64(2);
            }),
            Key::Ip(IpAddr::V6(address)) => self.both(|hasher| {
                hasher.write_u64((address.to_bits() >> 64) as u64);
                hasher.write_u64(address.to_bits() as u64);
                hasher.write_u64(3);
            }),
        }
    }

    #[inline(always)]
    fn both(&self, write: impl Fn(&mut FoldHasher<'static>)) -> Fingerprint {
        let (mut home, mut tag) = (self.home.clone(), self.tag.clone());
        write(&mut home);
        write(&mut tag);
        [home.finish(), tag.finish()]
    }
}

impl fmt::Debug for CounterHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CounterHasher")
    }
}
