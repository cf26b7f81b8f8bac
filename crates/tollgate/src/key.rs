//! Whose counter it is: keys, buckets, and the fingerprints a store may keep of them.

use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;

#[cfg(shuttle)]
use foldhash::quality::FixedState as RandomState;
use foldhash::quality::FoldHasher;
#[cfg(not(shuttle))]
use foldhash::quality::RandomState;

use crate::Bucket;

/// What is limited: a name, a number or an address, borrowed from the caller.
///
/// Keys of different kinds never meet: the text `"7"` and the number `7` are two keys.
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
    /// An address. A caller who wants prefixes masks it first.
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

/// A key that owns its bytes, for what outlives the call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum KeyBuf {
    Bytes(Box<[u8]>),
    Number(u64),
    Ip(IpAddr),
}

impl KeyBuf {
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

/// Turns keys into fingerprints nobody outside can predict.
///
/// The seed is drawn anew for every store, so a client cannot look for keys that collide.
#[derive(Clone, Debug)]
#[cfg_attr(not(shuttle), derive(Default))]
pub(crate) struct Fingerprinter {
    place: RandomState,
    tag: RandomState,
}

/// The model checker must be able to repeat a run.
#[cfg(shuttle)]
impl Default for Fingerprinter {
    fn default() -> Fingerprinter {
        Fingerprinter { place: RandomState::with_seed(1), tag: RandomState::with_seed(2) }
    }
}

/// The same for the keys of one bucket, with the bucket's part of the work already done.
#[derive(Clone)]
pub(crate) struct BucketHasher {
    place: FoldHasher<'static>,
    tag: FoldHasher<'static>,
}

/// 128 bits that stand for a key in a bucket.
pub(crate) type Fingerprint = [u64; 2];

impl Fingerprinter {
    /// The fingerprint of `key` in `bucket`.
    #[inline]
    pub(crate) fn of(&self, bucket: Bucket, key: Key<'_>) -> Fingerprint {
        self.for_bucket(bucket).of(key)
    }

    #[inline]
    pub(crate) fn for_bucket(&self, bucket: Bucket) -> BucketHasher {
        let start = |state: &RandomState| {
            let mut hasher = state.build_hasher();
            hasher.write_u64(bucket.number());
            hasher
        };
        BucketHasher { place: start(&self.place), tag: start(&self.tag) }
    }
}

impl BucketHasher {
    /// The fingerprint of `key`. Every kind of key ends in a number of its own, so that none can
    /// pose as another.
    #[inline(always)]
    pub(crate) fn of(&self, key: Key<'_>) -> Fingerprint {
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
        let (mut place, mut tag) = (self.place.clone(), self.tag.clone());
        write(&mut place);
        write(&mut tag);
        [place.finish(), tag.finish()]
    }
}

impl fmt::Debug for BucketHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BucketHasher")
    }
}
