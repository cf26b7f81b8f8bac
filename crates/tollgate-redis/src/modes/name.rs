//! What a counter is called in the tables of this node.

use std::net::IpAddr;

use smallvec::SmallVec;
use tollgate::{Bucket, Check, Key, Limit};

/// Longer ones are not worth the memory: their counters are asked at the store.
const LONGEST: usize = 512;

/// A bucket, a kind of key and the key, from which they can be told again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name(SmallVec<[u8; 48]>);

const KIND_AT: usize = 8;
const NUMBER: u8 = 1;
const IPV4: u8 = 4;
const IPV6: u8 = 6;
const BYTES: u8 = 0;

impl Name {
    /// None if it would be too long, or the key is of a kind unknown here.
    pub(super) fn of(check: &Check<'_>) -> Option<Name> {
        let mut name = SmallVec::from_slice(&check.bucket.number().to_le_bytes());
        let mut put = |kind: u8, bytes: &[u8]| {
            name.push(kind);
            name.extend_from_slice(bytes);
        };
        match check.key {
            Key::Bytes(bytes) if bytes.len() <= LONGEST => put(BYTES, bytes),
            Key::Number(number) => put(NUMBER, &number.to_le_bytes()),
            Key::Ip(IpAddr::V4(address)) => put(IPV4, &address.octets()),
            Key::Ip(IpAddr::V6(address)) => put(IPV6, &address.octets()),
            _ => return None,
        }
        Some(Name(name))
    }

    fn bucket(&self) -> Bucket {
        Bucket::new(self.0[..KIND_AT].try_into().map_or(0, u64::from_le_bytes))
    }

    fn key(&self) -> Key<'_> {
        let rest = &self.0[KIND_AT + 1..];
        match self.0[KIND_AT] {
            NUMBER => Key::Number(rest.try_into().map_or(0, u64::from_le_bytes)),
            IPV4 => <[u8; 4]>::try_from(rest).map_or(Key::Bytes(rest), |ip| Key::Ip(ip.into())),
            IPV6 => <[u8; 16]>::try_from(rest).map_or(Key::Bytes(rest), |ip| Key::Ip(ip.into())),
            _ => Key::Bytes(rest),
        }
    }

    /// A check of the counter of that name.
    pub(super) fn check<'a>(&'a self, limit: &'a Limit, cost: u64) -> Check<'a> {
        Check::new(self.bucket(), self.key(), limit, cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_what_it_was_made_of() {
        let limit: Limit = "1/s".parse().unwrap();
        let keys = [
            Key::from("ann"),
            Key::from(""),
            Key::from(7_u64),
            Key::from(IpAddr::from([1, 2, 3, 4])),
            Key::from(IpAddr::from([7; 16])),
        ];
        for key in keys {
            let name = Name::of(&Check::new(Bucket::new(9), key, &limit, 1)).unwrap();
            let check = name.check(&limit, 3);
            assert_eq!((check.bucket, check.key, check.cost), (Bucket::new(9), key, 3));
        }
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(Name::of(&Check::new(Bucket::new(9), &long, &limit, 1)), None);
    }
}
