//! Named lists of addresses, networks, names and patterns, which change without a reload.
//!
//! An entry that is an address or a network contains every address in it, whether the request has
//! it as an address or as its text. Any other entry contains that text, or, with a `*` in it, every
//! text it matches. The entry that spells a number contains the number.

mod networks;
mod patterns;

use std::sync::Arc;

pub(crate) use patterns::{ListEntry, Patterns};

use crate::Value;
use crate::read::fault::Fault;

/// The lists of a domain, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    lists: Vec<(Box<str>, List)>,
}

/// A list of addresses, names and patterns. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct List(Arc<Patterns<()>>);

/// The number of a list, which stays the same when its entries change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ListId(pub(crate) u32);

impl List {
    /// Reads entries. An error comes with the number of the entry.
    pub(crate) fn new<'e>(
        entries: impl IntoIterator<Item = &'e str>,
    ) -> Result<List, (usize, Fault)> {
        let mut patterns = Patterns::default();
        for (index, entry) in entries.into_iter().enumerate() {
            patterns.insert(entry, ()).map_err(|fault| (index, fault))?;
        }
        Ok(List(Arc::new(patterns)))
    }

    /// Adds numbers, which contain the numbers and the texts that spell them.
    pub(crate) fn with_numbers(self, numbers: impl IntoIterator<Item = i64>) -> List {
        let mut patterns = Arc::unwrap_or_clone(self.0);
        numbers.into_iter().for_each(|number| patterns.insert_number(number, ()));
        List(Arc::new(patterns))
    }

    pub(crate) fn contains(&self, value: &Value<'_>) -> bool {
        self.0.any(value)
    }
}

impl Lists {
    pub(crate) fn add(&mut self, name: &str, list: List) -> ListId {
        self.lists.push((name.into(), list));
        ListId(self.lists.len() as u32 - 1)
    }

    pub(crate) fn named(&self, name: &str) -> Option<ListId> {
        let index = self.lists.iter().position(|(known, _)| &**known == name)?;
        Some(ListId(index as u32))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.lists.iter().map(|(name, _)| &**name)
    }

    /// Replaces a list's entries.
    pub(crate) fn set(&mut self, id: ListId, list: List) {
        if let Some((_, known)) = self.lists.get_mut(id.0 as usize) {
            *known = list;
        }
    }

    pub(crate) fn get(&self, id: ListId) -> Option<&List> {
        self.lists.get(id.0 as usize).map(|(_, list)| list)
    }

    pub(crate) fn contains(&self, id: ListId, value: &Value<'_>) -> bool {
        self.get(id).is_some_and(|list| list.contains(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> List {
        List::new(entries.iter().copied()).unwrap()
    }

    fn address(text: &str) -> Value<'_> {
        Value::Ip(text.parse().unwrap())
    }

    #[test]
    fn a_network_contains_its_addresses() {
        let office = list(&["203.0.113.0/24", "198.51.100.7", "2001:db8::/32", "10.1.2.3/8"]);
        for inside in
            ["203.0.113.200", "198.51.100.7", "2001:db8:1::1", "::ffff:203.0.113.1", "10.9.9.9"]
        {
            assert!(office.contains(&address(inside)), "{inside}");
            assert!(office.contains(&inside.into()), "{inside} as text");
        }
        for outside in ["203.0.114.1", "198.51.100.8", "2001:db9::1", "9.9.9.9"] {
            assert!(!office.contains(&address(outside)), "{outside}");
            assert!(!office.contains(&outside.into()), "{outside} as text");
        }
        assert!(!office.contains(&"203.0.113".into()));
        assert!(list(&["0.0.0.0/0"]).contains(&address("8.8.8.8")));
        assert!(!list(&["0.0.0.0/0"]).contains(&address("::1")));
        assert!(list(&["::/0"]).contains(&address("::1")));
    }

    #[test]
    fn a_text_matches_exactly_or_by_its_star() {
        let names = list(&["acme", "svc-*", "*.example.com", "*mid*", "42"]);
        for inside in ["acme", "svc-", "svc-a", "a.example.com", "amidst", "42"] {
            assert!(names.contains(&inside.into()), "{inside}");
        }
        for outside in ["", "acme2", "Acme", "svc", "example.com", "043"] {
            assert!(!names.contains(&outside.into()), "{outside}");
        }
        assert!(names.contains(&42.into()));
        assert!(list(&["true"]).contains(&true.into()));
        assert!(list(&["10.*"]).contains(&address("10.2.3.4")));
    }

    #[test]
    fn a_number_matches_its_spellings() {
        let codes = List::default().with_numbers([401, 403]);
        assert!(codes.contains(&401.into()) && codes.contains(&"0403".into()));
        assert!(!codes.contains(&404.into()) && !codes.contains(&"40l".into()));
    }

    #[test]
    fn invalid_entries_are_refused() {
        let (index, fault) = List::new(["10.0.0.0/8", "10.0.0.0/33"]).unwrap_err();
        assert_eq!((index, fault.range), (1, 9..11));
        assert_eq!(List::new([" "]).unwrap_err().0, 0);
        assert!(List::new(["/v1/a", "a/b"]).is_ok(), "a slash alone makes no network");
    }

    #[test]
    fn replacing_a_list_keeps_its_id() {
        let mut lists = Lists::default();
        let id = lists.add("blocked", list(&["a"]));
        let before = lists.clone();
        lists.set(id, list(&["b"]));
        assert_eq!(lists.named("blocked"), Some(id));
        assert!(lists.contains(id, &"b".into()) && !lists.contains(id, &"a".into()));
        assert!(before.contains(id, &"a".into()), "a clone is not changed");
    }
}
