//! The name of a counter in the tables of this node.

use std::net::IpAddr;

use smallvec::SmallVec;
use tollgate::{Check, CounterId, Key, Limit};

/// The maximum length of a key. Counters with longer keys are decided at the store.
const MAX_KEY_LENGTH: usize = 512;

/// A counter id, a kind of key and the key, packed so that they can be unpacked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CounterName(SmallVec<[u8; 48]>);

const KIND_AT: usize = 8;
const NUMBER: u8 = 1;
const IPV4: u8 = 4;
const IPV6: u8 = 6;
const BYTES: u8 = 0;

impl CounterName {
    /// Returns the name of a check's counter; `None` if the key is too long or of an unknown kind.
    pub(crate) fn from_check(check: &Check<'_>) -> Option<CounterName> {
        let mut name = SmallVec::from_slice(&check.counter.number().to_le_bytes());
        let mut put = |kind: u8, bytes: &[u8]| {
            name.push(kind);
            name.extend_from_slice(bytes);
        };
        match check.key {
            Key::Bytes(bytes) if bytes.len() <= MAX_KEY_LENGTH => put(BYTES, bytes),
            Key::Number(number) => put(NUMBER, &number.to_le_bytes()),
            Key::Ip(IpAddr::V4(address)) => put(IPV4, &address.octets()),
            Key::Ip(IpAddr::V6(address)) => put(IPV6, &address.octets()),
            _ => return None,
        }
        Some(CounterName(name))
    }

    fn counter(&self) -> CounterId {
        CounterId::new(self.0[..KIND_AT].try_into().map_or(0, u64::from_le_bytes))
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

    /// Returns a check of the counter with this name.
    pub(crate) fn check<'a>(&'a self, limit: &'a Limit, cost: u64) -> Check<'a> {
        Check::new(self.counter(), self.key(), limit, cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_unpacked() {
        let limit: Limit = "1/s".parse().unwrap();
        let keys = [
            Key::from("ann"),
            Key::from(""),
            Key::from(7_u64),
            Key::from(IpAddr::from([1, 2, 3, 4])),
            Key::from(IpAddr::from([7; 16])),
        ];
        for key in keys {
            let name =
                CounterName::from_check(&Check::new(CounterId::new(9), key, &limit, 1)).unwrap();
            let check = name.check(&limit, 3);
            assert_eq!((check.counter, check.key, check.cost), (CounterId::new(9), key, 3));
        }
        let long = "x".repeat(MAX_KEY_LENGTH + 1);
        assert_eq!(CounterName::from_check(&Check::new(CounterId::new(9), &long, &limit, 1)), None);
    }
}
