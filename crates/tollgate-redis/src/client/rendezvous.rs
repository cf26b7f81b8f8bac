//! Assigns keys to groups by rendezvous hashing.
//!
//! Every group has a score for every key, a hash of the two, and the highest score wins. A new
//! group takes over the keys for which its score is the highest, and no other key moves. When a
//! group is removed, only its own keys move.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// The groups, each with the hasher of its scores.
#[derive(Clone, Debug)]
pub(super) struct Rendezvous {
    hashers: Vec<SipHasher13>,
}

impl Rendezvous {
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Rendezvous {
        let hasher = |name: &str| {
            let mut hasher = SipHasher13::new();
            hasher.write(name.as_bytes());
            SipHasher13::new_with_keys(hasher.finish(), u64::from_be_bytes(*b"tollgate"))
        };
        Rendezvous { hashers: names.map(hasher).collect() }
    }

    /// Returns the index of the group that holds a key.
    pub(super) fn pick(&self, tag: &[u8]) -> u16 {
        if self.hashers.len() < 2 {
            return 0;
        }
        let scores = self.hashers.iter().map(|hasher| {
            let mut hasher = *hasher;
            hasher.write(tag);
            hasher.finish()
        });
        let highest =
            scores.zip(0..).max_by_key(|(score, number)| (*score, std::cmp::Reverse(*number)));
        highest.map_or(0, |(_, number)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn homes<'a>(names: &[&'a str]) -> Vec<&'a str> {
        let groups = Rendezvous::new(names.iter().copied());
        let home = |i: u32| names[groups.pick(format!("user:{i}").as_bytes()) as usize];
        (0..20_000).map(home).collect()
    }

    #[test]
    fn a_new_group_takes_its_share_and_nothing_else_moves() {
        let (before, after) = (homes(&["a", "b", "c"]), homes(&["a", "b", "c", "d"]));
        let moved: Vec<_> = before.iter().zip(&after).filter(|(from, to)| from != to).collect();
        assert!(moved.iter().all(|(_, to)| **to == "d"));
        assert!((4_700..5_300).contains(&moved.len()), "{} of 20000 moved", moved.len());
    }

    #[test]
    fn the_order_of_the_groups_does_not_matter() {
        assert_eq!(homes(&["a", "b", "c"]), homes(&["c", "a", "b"]));
    }

    #[test]
    fn shares_are_even() {
        let homes = homes(&["a:6379", "b:6379", "c:6379"]);
        for name in ["a:6379", "b:6379", "c:6379"] {
            let share = homes.iter().filter(|home| **home == name).count();
            assert!((6_300..7_000).contains(&share), "{name} keeps {share} of 20000");
        }
    }

    /// Counters outlive this build, so the assignment must never change.
    #[test]
    fn assignments_never_change() {
        let groups = Rendezvous::new(["east", "west", "north"].into_iter());
        let homes: Vec<u16> = (0..16).map(|i| groups.pick(format!("k{i}").as_bytes())).collect();
        assert_eq!(homes, [2, 1, 1, 0, 0, 1, 0, 0, 2, 2, 2, 0, 0, 0, 2, 1]);
    }
}
