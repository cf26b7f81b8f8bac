//! Keys, and the fingerprints that the memory store has of them.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::sync::OnceLock;

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

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

/// The random numbers that determine all fingerprints of a store.
///
/// They are secret: a client that knows them could search for keys that collide.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct FingerprintSeed {
    pub(crate) shared: u64,
    pub(crate) home: u64,
    pub(crate) tag: u64,
}

impl FingerprintSeed {
    /// Creates a seed that no other store has, apart from the part that a process shares.
    fn random() -> FingerprintSeed {
        // The model checker must be able to repeat a run.
        let number = |fixed| match cfg!(shuttle) {
            true => fixed,
            false => RandomState::new().build_hasher().finish(),
        };
        FingerprintSeed { shared: process_seed().0, home: number(1), tag: number(2) }
    }
}

impl fmt::Debug for FingerprintSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FingerprintSeed")
    }
}

/// Returns the seed that the stores of this process share, expanded once because that is slow.
fn process_seed() -> &'static (u64, SharedSeed) {
    static SEED: OnceLock<(u64, SharedSeed)> = OnceLock::new();
    SEED.get_or_init(|| {
        let seed = if cfg!(shuttle) { 3 } else { RandomState::new().build_hasher().finish() };
        (seed, SharedSeed::from_u64(seed))
    })
}

/// Computes fingerprints of keys that a client cannot predict.
///
/// Every store has a random seed, so a client cannot search for keys that collide.
#[derive(Clone, Debug)]
pub(crate) struct Fingerprinter {
    shared: &'static SharedSeed,
    seed: FingerprintSeed,
}

impl Default for Fingerprinter {
    fn default() -> Fingerprinter {
        Fingerprinter { shared: &process_seed().1, seed: FingerprintSeed::random() }
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
    /// Creates the fingerprinter of a seed that was saved.
    ///
    /// The expanded seed of another process stays in memory until this one ends: 48 bytes.
    pub(crate) fn from_seed(seed: FingerprintSeed) -> Fingerprinter {
        let (number, shared) = process_seed();
        let shared = match seed.shared == *number {
            true => shared,
            false => Box::leak(Box::new(SharedSeed::from_u64(seed.shared))),
        };
        Fingerprinter { shared, seed }
    }

    /// Returns the seed, to be saved with fingerprints.
    pub(crate) fn seed(&self) -> FingerprintSeed {
        self.seed
    }

    /// Returns the fingerprint of `key` in `counter`.
    #[inline]
    pub(crate) fn fingerprint(&self, counter: CounterId, key: Key<'_>) -> Fingerprint {
        self.hasher(counter).fingerprint(key)
    }

    /// Returns the hasher of the keys of `counter`.
    #[inline]
    pub(crate) fn hasher(&self, counter: CounterId) -> CounterHasher {
        let start = |seed: u64| {
            let mut hasher = FoldHasher::with_seed(seed, self.shared);
            hasher.write_u64(counter.number());
            hasher
        };
        CounterHasher { home: start(self.seed.home), tag: start(self.seed.tag) }
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
